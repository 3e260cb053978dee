"""`tfr-ext rank --server`: what `--export` writes, and what is said of a server."""

import dataclasses
import functools
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from pipelines.client import grpc_client, rest
from pipelines.client.server_scorer import ServerConfig, ServerScorer
from tests.commands import ROOT, free_ports, run_command, told
from tests.elwc_files import protos, write
from tests.helpers import make_lists
from tests.serving.model_server import REAL, serving
from tests.tables import frame
from tfr_ext import models
from tfr_ext.scoring import list_ranker
from tfr_ext.serving import exporter
from tfr_ext.training import RankConfig, rank

pytestmark = pytest.mark.any_keras

COLUMNS = ("f1", "f2", "f3", "f4")
command = functools.partial(run_command, "pipelines.rank")


@pytest.fixture(params=["grpc", "rest"])
def protocol(request):
    if request.param == "grpc":
        pytest.importorskip("tensorflow_serving")
    return request.param


@pytest.fixture(scope="module")
def inputs(exported, tmp_path_factory):
    """The same lists as text, ELWC and a table: settings for each."""
    folder = tmp_path_factory.mktemp("inputs")
    table = frame(dataclasses.replace(exported.lists, feature_names=COLUMNS))
    table.drop(columns="label").to_csv(folder / "new.csv", index=False)
    columns = {"query_column": "query", "doc_id_column": "doc"}
    return {
        "text": {"input": str(exported.judged)},
        "elwc": {"input": write(folder / "new.tfrecord", protos(exported.lists))},
        "table": {
            "input": str(folder / "new.csv"),
            "feature_columns": COLUMNS,
            **columns,
        },
    }


def scorer(server, protocol, **settings):
    """A scorer that asks a server."""
    address = server.address(protocol)
    return ServerScorer(ServerConfig(address, "ranker", protocol, **settings))


# Each protocol, source and ending once: what they cross is of the grid.
ONCE = [
    ("grpc", "text", "trec"),
    ("rest", "elwc", "jsonl"),
    ("rest", "table", "trec"),
]
CROSSED = [
    pytest.param(
        *one,
        marks=[] if one in ONCE else pytest.mark.grid,
    )
    for one in itertools.product(
        ("grpc", "rest"), ("text", "elwc", "table"), ("trec", "jsonl")
    )
]


@pytest.mark.parametrize(
    ("protocol", "source", "ending"), CROSSED, indirect=["protocol"]
)
def test_the_file_is_that_of_the_export(server, exported, inputs, tmp_path, protocol,
                                        source, ending):  # fmt: skip
    settings = {**inputs[source], "batch_size": 7, "overwrite": True}
    for version, which in ((1, {"model_label": "stable"}), (2, {})):
        path = tmp_path / f"{version}.{ending}"
        rank(RankConfig(output=path, **settings), scorer(server, protocol, **which))
        expected = tmp_path / f"expected-{version}.{ending}"
        base = f"{exported.base_path}/{version}"
        rank(RankConfig(export=base, output=expected, **settings))
        assert path.read_bytes() == expected.read_bytes()
    first, second = (tmp_path / f"{v}.{ending}" for v in (1, 2))
    assert first.read_bytes() != second.read_bytes()


def flags(server, protocol, *more):
    address = server if isinstance(server, str) else server.address(protocol)
    return [f"--server={address}", "--model_name=ranker", f"--protocol={protocol}",
            *more]  # fmt: skip


def test_the_command_ranks_by_a_server(server, exported, tmp_path, protocol):
    files = [f"--input={exported.judged}", "--topn=3"]
    given = flags(server, protocol, "--model_version=1")
    done = command(*given, *files, f"--output={tmp_path}/a.trec")
    assert done.stderr == ""
    assert done.stdout.startswith("Ranked 40 queries, 456 items (")
    command(f"--export={exported.base_path}/1", *files, f"--output={tmp_path}/b.trec")
    assert (tmp_path / "a.trec").read_bytes() == (tmp_path / "b.trec").read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--model_name=no"], "The server at {address} has no model 'no'."),
        (["--model_version=9"], "The server at {address} has no version 9 of model "
         "'ranker'. It has the versions: 1, 2."),
        (["--model_label=no"], "The server at {address} has no version 'no' of model "
         "'ranker'. It has the versions: 1, 2."),
        (["--model_label=a", "--model_version=1"], "--model_version and --model_label "
         "cannot be given together"),
        (["--server=here"], "--server must be host:port, as in localhost:8500. "),
        (["--server={gone}", "--retries=0"], "The server at {gone} is not there: "),
        (["--input={wide}"], "{wide}:1: feature index 5 is out of range, expected 1 to "
         "4 (num_features=4)."),
        (["--input={table}", "--query_column=q"], "A server does not know the names of "
         "its 4 features. Name their columns with --feature_columns, in the order"),
        (["--export={table}"], "Exactly one of --export and --server must be given"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(server, exported, tmp_path, protocol, changes, message):
    (tmp_path / "wide.txt").write_text("qid:a 5:1\n")
    (tmp_path / "new.csv").write_text("q,a,b,c,d\n1,1,1,1,1\n")
    names = {"address": server.address(protocol), "wide": tmp_path / "wide.txt",
             "table": tmp_path / "new.csv",
             "gone": f"127.0.0.1:{free_ports(1)[0]}"}  # fmt: skip
    given = flags(server, protocol, f"--input={exported.judged}",
                  f"--output={tmp_path}/out/a.trec")  # fmt: skip
    changes = [change.format(**names) for change in changes]
    said = told(command(*given, *changes, check=False))
    assert said.startswith(f"Error: {message.format(**names)}")
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists() or not os.listdir(tmp_path / "out")


def test_a_name_is_needed(tmp_path, exported):
    files = [f"--input={exported.judged}", f"--output={tmp_path}/a.trec"]
    said = told(command("--server=localhost:1", *files, check=False))
    assert said.startswith("Error: --server needs --model_name, the name under which")


def test_a_nan_is_refused_as_by_an_export(
    server, exported, tmp_path, monkeypatch, protocol
):
    lists = make_lists([2], num_features=4)
    lists.features[1, 2] = np.nan
    monkeypatch.setattr(list_ranker, "read", lambda *args: iter([lists]))
    settings = {"input": str(exported.judged), "output": tmp_path / "a.trec"}
    told = "^Query 'q0' cannot be ranked: feature 3 of item 2 is nan, and the model "
    with pytest.raises(ValueError, match=told):
        rank(RankConfig(**settings), scorer(server, protocol))
    with pytest.raises(ValueError, match=told):
        rank(RankConfig(export=exported.base_path, **settings))
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(bool(REAL), reason="the real server has one model")
def test_a_nan_is_missing_for_a_model_that_fills_it(tmp_path, protocol):
    lists = make_lists([3, 5], num_features=4)
    lists.features[::3, 1] = np.nan
    fills = models.feature_transforms([], lists, "mean")
    model = models.model_builder(4, models.MLPScorer([8]), fills).build()
    exporter.export_ranker(model, str(tmp_path), 4.0)
    expected = exporter.load_scorer(str(tmp_path)).scores(lists, 2)
    with serving(str(tmp_path)) as running:
        found = scorer(running, protocol).scores(lists, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(bool(REAL), reason="the real server does not die when asked")
def test_a_server_that_dies_in_the_middle(server, exported, tmp_path, protocol):
    path = tmp_path / "a.trec"
    path.write_text("mine")
    given = [f"--input={exported.judged}", f"--output={path}", "--overwrite",
             "--batch_size=8", "--retries=1"]  # fmt: skip
    with serving(exported.base_path, end_at=3) as dying:
        said = told(command(*flags(dying, protocol), *given, check=False))
        assert said.startswith(
            f"Error: The server at {dying.address(protocol)} is not "
        )
        assert said.count("\n") == 1
        assert dying.process.wait() == -signal.SIGKILL
    assert os.listdir(tmp_path) == ["a.trec"] and path.read_text() == "mine"
    command(*flags(server, protocol), *given)
    expected = tmp_path / "b.trec"
    rank(
        RankConfig(
            export=f"{exported.base_path}/2",
            input=str(exported.judged),
            output=expected,
            batch_size=8,
        )
    )
    assert path.read_bytes() == expected.read_bytes()


@pytest.mark.parametrize(
    "protocol",
    ["grpc", pytest.param("rest", marks=pytest.mark.grid)],
    indirect=True,
)
def test_ctrl_c_while_a_server_does_not_answer(exported, tmp_path, protocol):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pipelines.rank"),
                *flags(address, protocol, f"--input={exported.judged}"),
                f"--output={tmp_path}/a.trec",
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        silent.settimeout(120)
        connection = silent.accept()[0]
        time.sleep(0.5)  # Until it waits for the answer.
        process.send_signal(signal.SIGINT)
        assert process.communicate() == ("", "Stopped.\n")
        assert process.returncode == 130
        connection.close()


class Doubling:
    """Any object that scores lists will do."""

    num_features, feature_names = 4, COLUMNS

    def scores(self, lists, batch_size):
        return 2 * lists.features[:, 0]


def test_the_library_takes_any_scorer(exported, inputs, tmp_path):
    config = RankConfig(output=tmp_path / "a.jsonl", **inputs["text"])
    result = rank(config, Doubling())
    assert result.num_queries == 40
    base = f"{exported.base_path}/1"
    both = RankConfig(export=base, output=tmp_path / "b.jsonl", **inputs["text"])
    for settings, given in ((config, None), (both, exporter.load_scorer(base))):
        with pytest.raises(ValueError, match="give either `export` or a scorer"):
            rank(settings, given)
    table = {**inputs["table"], "feature_columns": ()}
    rank(RankConfig(output=tmp_path / "c.jsonl", **table), Doubling())
    assert (tmp_path / "c.jsonl").read_text().count("\n") == 40


@pytest.mark.skipif(not REAL, reason="TENSORFLOW_MODEL_SERVER names no server")
def test_a_version_is_swapped_under_load(exported, tmp_path, protocol):
    """No request is lost, and each answer is that of one version."""
    base = tmp_path / "export"
    shutil.copytree(f"{exported.base_path}/1", base / "1")
    one = exported.lists.select([2])
    scorers = [exporter.load_scorer(f"{exported.base_path}/{v}") for v in (1, 2)]
    expected = [each.scores(one, 1).tolist() for each in scorers]
    connect = {"grpc": grpc_client.connect, "rest": rest.connect}[protocol]
    seen, done = [], threading.Event()
    with serving(base) as running:

        def ask():
            with connect(running.address(protocol), "ranker", retries=0) as client:
                while not done.is_set():
                    seen.append(client.scores(one.features[None])[0].tolist())

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        shutil.copytree(f"{exported.base_path}/2", tmp_path / "aside")
        os.rename(tmp_path / "aside", base / "2")
        deadline = time.monotonic() + 60
        while expected[1] not in seen[-4:] and time.monotonic() < deadline:
            assert all(thread.is_alive() for thread in threads)
            time.sleep(0.1)
        assert all(thread.is_alive() for thread in threads)
        done.set()
        for thread in threads:
            thread.join()
    assert expected[1] in seen and all(scores in expected for scores in seen)
