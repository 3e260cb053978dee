"""The preparation of shards: what TensorFlow Ranking reads is what training would."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import hashlib
import json
import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_ranking as tfr
from absl import flags
from absl.testing import flagsaver

from pipelines import prepare
from pipelines.flags import config_flags
from pipelines.preparing import beam_runner
from tests import elwc_files
from tests.commands import ROOT, run_command
from tests.files import WIDTH, write_text
from tests.helpers import assert_same_lists
from tfr_ext import data
from tfr_ext.data.elwc import manifest
from tfr_ext.training.data_config import DEFAULT_SEED, DataConfig
from tfr_ext.training.sources import data_splits
from tfr_ext.training.sources.source import SPLITS

FLAGS = flags.FLAGS


@pytest.fixture(scope="module", autouse=True)
def _flags():
    """The command's flags, in this process."""
    prepare.define_flags()
    yield
    by_module = FLAGS.flags_by_module_dict()
    for flag in list(by_module[config_flags.__name__]):
        delattr(FLAGS, flag.name)


@pytest.fixture
def run(capsys):
    """Returns a function that runs the command here, and returns what it prints."""

    def run_here(*args, work=prepare.main):
        capsys.readouterr()
        with flagsaver.flagsaver():
            # A process more takes seconds, and its prints are not seen here.
            with_beam = any("--beam_args" in str(argument) for argument in args)
            alone = [] if with_beam else ["--num_workers=1"]
            FLAGS(["prepare", *alone, *map(str, args)])
            work()
        return capsys.readouterr().out

    return run_here


def load():
    """Reads the data that the flags name, as training does."""
    return data_splits.load(config_flags.read(DataConfig, FLAGS))


def read_split(directory, split, num_features):
    """Reads shards with TensorFlow Ranking's parser, in the order of their names."""
    files = sorted(map(str, directory.glob(f"{split}-*.tfrecord")))
    records = list(tf.data.TFRecordDataset(files))
    parsed = tfr.data.parse_from_example_list(
        records,
        context_feature_spec={"query_id": tf.io.FixedLenFeature([1], tf.string)},
        example_feature_spec={
            "float_features": tf.io.FixedLenFeature(
                [num_features], tf.float32, [0.0] * num_features
            ),
            "label": tf.io.FixedLenFeature([1], tf.float32, [-1.0]),
            "doc_id": tf.io.FixedLenFeature([1], tf.string, [""]),
        },
    )
    labels = parsed["label"].numpy()[..., 0]
    real = labels >= 0
    names = [name.decode() for name in parsed["doc_id"].numpy()[..., 0][real]]
    return data.RankingLists(
        features=parsed["float_features"].numpy()[real],
        labels=labels[real],
        row_splits=np.concatenate([[0], np.cumsum(real.sum(axis=1))]),
        query_ids=[name.decode() for name in parsed["query_id"].numpy()[:, 0]],
        doc_ids=names if all(names) else None,
    )


def shards(directory):
    return sorted(name for name in os.listdir(directory) if name.endswith(".tfrecord"))


def files_of(directory):
    """All that a finished preparation leaves, but for the time of the source."""
    names = [*shards(directory), "manifest.json"]
    assert sorted([*names, ".prepare"]) == sorted(os.listdir(directory))
    assert os.listdir(directory / ".prepare") == ["plan.json"]
    return {name: (directory / name).read_bytes() for name in names}


def text_flags(tmp_path, seed=0, **kwargs):
    path = write_text(tmp_path / "train.txt", seed, queries=80, **kwargs)
    return ("--dataset=text", f"--train_path={path}", "--shard_megabytes=0.002")


@pytest.mark.parametrize("held_out", [(), ("valid",), ("valid", "test")])
def test_shards_of_text_are_what_training_reads(tmp_path, run, held_out):
    given = [*text_flags(tmp_path), "--seed=3"]
    for split in {"valid", "test"}.difference(held_out):
        path = write_text(tmp_path / f"{split}.txt", seed=1)
        packed = tmp_path / f"{split}.gz"
        packed.write_bytes(gzip.compress((tmp_path / f"{split}.txt").read_bytes()))
        given.append(f"--{split}_path={path if split == 'valid' else packed}")
    out = tmp_path / "out"
    printed = run(*given, f"--output_dir={out}")
    expected = []
    described = run(
        *given,
        f"--output_dir={out}",
        work=lambda: expected.append(load()),
    )
    assert len(list(out.glob("train-*"))) > 5
    found = manifest.load(str(out))
    assert found.num_features == WIDTH and found.num_grades is None
    for split in SPLITS:
        lists = getattr(expected[0], split)
        assert_same_lists(read_split(out, split, WIDTH), lists)
        entry = found.splits[split]
        assert (entry.queries, entry.items) == (lists.num_lists, lists.num_items)
        assert entry.max_list_size == lists.lengths.max()
        assert entry.max_label == lists.labels.max()
        labels, counts = np.unique(lists.labels, return_counts=True)
        assert entry.labels == {f"{k:g}": n for k, n in zip(labels, counts)}
    for line in described.splitlines():  # With the number of shards at the end.
        assert f"\n{line}, shards: " in printed
    assert f"--dataset=elwc --data_dir={out}" in printed


def test_the_manifest_names_every_shard_and_its_digest(tmp_path, run):
    run(*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    content = json.loads((tmp_path / "out" / "manifest.json").read_text())
    every = [s for split in content["splits"].values() for s in split["shards"]]
    assert sorted(s["name"] for s in every) == shards(tmp_path / "out")
    for split, entry in content["splits"].items():
        count = len(entry["shards"])
        names = [f"{split}-{i:05}-of-{count:05}.tfrecord" for i in range(count)]
        assert [shard["name"] for shard in entry["shards"]] == names
    for shard in every:
        text = (tmp_path / "out" / shard["name"]).read_bytes()
        assert shard["bytes"] == len(text)
        assert shard["sha256"] == hashlib.sha256(text).hexdigest()
    assert content["source"]["train_path"] == [str(tmp_path / "train.txt")]
    assert content["source"]["seed"] == DEFAULT_SEED
    assert "synthetic_list_size" not in content["source"]


def test_shards_of_synthetic_lists(tmp_path, run):
    given = (
        "--dataset=synthetic",
        "--synthetic_num_queries=50",
        "--synthetic_list_size=7",
        "--seed=5",
        "--list_size=4",
        f"--output_dir={tmp_path / 'out'}",
    )
    printed = run(*given, "--shard_megabytes=0.01")
    assert "--list_size=4 is left to training; shards are as given." in printed
    expected = []
    without = [flag for flag in given if "--list_size" not in flag]
    run(
        *without,
        work=lambda: expected.append(load()),
    )
    for split in SPLITS:
        found = read_split(tmp_path / "out", split, 25)
        assert_same_lists(found, getattr(expected[0], split))
    assert len(list((tmp_path / "out").glob("train-*"))) == 4  # Of 35 kB.


def test_document_ids_are_in_all_held_out_splits_or_in_none(tmp_path, run):
    path = tmp_path / "train.txt"
    lines = [f"1 qid:{q} 1:{q} #docid = d{q}\n" for q in range(40)]
    lines[30] = lines[30].replace("docid", "id")
    path.write_text("".join(lines))
    given = ("--dataset=text", f"--train_path={path}", "--shard_megabytes=0.0003")
    run(*given, f"--output_dir={tmp_path / 'out'}")
    for split in SPLITS:
        assert read_split(tmp_path / "out", split, 1).doc_ids is None


# Interruptions.


def start(*args):
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.prepare", *map(str, args)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


@pytest.mark.grid
def test_killed_and_started_again(tmp_path, run):
    write_text(tmp_path / "train.txt", seed=0, queries=500)
    path = f"--train_path={tmp_path / 'train.txt'}"
    # Some hundred pieces, many more than are written until a kill is.
    given = ("--dataset=text", path, "--shard_megabytes=0.0005", "--num_workers=2")
    out = tmp_path / "out"
    before = {}
    for finished in (2, random.randint(5, 20)):
        process = start(*given, f"--output_dir={out}")
        seen = 0
        for line in process.stdout:
            seen += ".tfrecord: " in line
            if seen == finished:
                process.send_signal(signal.SIGKILL)
                break
        else:
            pytest.fail(f"{finished} shards were never written")
        process.wait()
        process.stdout.close()
        assert not (out / "manifest.json").exists()
        for name, time in before.items():
            assert (out / name).stat().st_mtime_ns == time
        # All but the last unit have said that they are finished.
        done = [p for p in (out / ".prepare").glob("train-*.json")]
        names = [
            record["shard"]["name"]
            for path in done
            for record in json.loads(path.read_text())["records"].values()
        ]
        before = {name: (out / name).stat().st_mtime_ns for name in names}
        assert before
    printed = run(*given, f"--output_dir={out}")
    assert "Going on with the shards in" in printed
    assert "pieces were finished before" in printed
    for name, time in before.items():
        assert (out / name).stat().st_mtime_ns == time
        assert f"{name}: " not in printed
    run(*given, f"--output_dir={tmp_path / 'undisturbed'}")
    assert files_of(out) == files_of(tmp_path / "undisturbed")


def test_a_damaged_shard_is_written_again(tmp_path, run):
    given = (*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    run(*given)
    expected = files_of(tmp_path / "out")
    # As killed right before the manifest, and then one shard is cut and one lost.
    killed = tmp_path / "killed"
    given = [*given[:-1], f"--output_dir={killed}"]
    with pytest.raises(KeyError):
        run(*given, work=interrupted_before_the_manifest)
    names = shards(killed)
    assert not (killed / "manifest.json").exists()
    os.truncate(killed / names[2], 100)
    (killed / names[4]).unlink()
    printed = run(*given)
    assert f"{names[2]}: " in printed and f"{names[4]}: " in printed
    assert f"{names[0]}: " not in printed
    assert files_of(killed) == expected


@pytest.mark.parametrize("end", ["killed", "bad"])
def test_an_overwrite_that_does_not_end_leaves_the_shards(tmp_path, run, end):
    given = (*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    run(*given)
    before = files_of(tmp_path / "out")
    if end == "killed":
        with pytest.raises(KeyError):
            run(*given, "--overwrite", work=interrupted_before_the_manifest)
    else:
        with open(tmp_path / "train.txt", "a") as file:
            file.write("1 qid:new 1:wrong\n")
        with pytest.raises(ValueError, match="wrong"):
            run(*given, "--overwrite")
    assert files_of(tmp_path / "out") == before


def test_an_overwrite_removes_no_shards_of_somebody_else(tmp_path, run):
    given = (*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}", "--overwrite")
    for name in ("manifest.json", "train-00000-of-00001.tfrecord"):
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / name).write_text("mine")
        with pytest.raises(ValueError, match=f"did not write .*: {name}"):
            run(*given)
        assert (tmp_path / "out" / name).read_text() == "mine"
        (tmp_path / "out" / name).unlink()
    run(*given)
    (tmp_path / "out" / "train-00000-of-00099.tfrecord").write_text("mine")
    with pytest.raises(ValueError, match="of-00099.tfrecord"):
        run(*given)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tfr_ext": 1}'])
def test_a_broken_plan_is_named(tmp_path, run, text):
    given = (*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    (tmp_path / "out" / ".prepare").mkdir(parents=True)
    (tmp_path / "out" / ".prepare" / "plan.json").write_text(text)
    with pytest.raises(
        ValueError, match="plan.json: expected a JSON object, as `pipelines.prepare`"
    ):
        run(*given)


def interrupted_before_the_manifest():
    def interrupt(*_):
        raise KeyError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "_check_queries", interrupt)
        prepare.main()


def test_finished_shards_stay(tmp_path, run):
    given = (*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    run(*given)
    before = files_of(tmp_path / "out")
    printed = run(*given, "--list_size=3")
    assert "are finished: there is nothing to do" in printed
    assert files_of(tmp_path / "out") == before


def test_other_flags_or_files_are_refused(tmp_path, run):
    given = (*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    run(*given)
    before = files_of(tmp_path / "out")
    with pytest.raises(ValueError, match="--seed=1 then, 2 now\n") as info:
        run(*given, "--seed=2", "--shard_megabytes=64")
    assert "--shard_megabytes=0.002 then, 64.0 now" in str(info.value)
    path = tmp_path / "train.txt"
    path.write_bytes(path.read_bytes() + b"\n1 qid:new 1:1 #docid = new\n")
    with pytest.raises(ValueError, match=r"train.txt: \[bytes, time of change\] \[\d"):
        run(*given)
    assert files_of(tmp_path / "out") == before
    run(*given, "--shard_megabytes=0.004", "--overwrite")
    after = files_of(tmp_path / "out")  # Without a shard of before.
    assert len(after) < len(before)
    assert manifest.load(str(tmp_path / "out")).splits["train"].queries == 49


def test_shards_of_nobody_knows_what_are_refused(tmp_path, run):
    given = text_flags(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train-00000-of-00001.tfrecord").touch()
    with pytest.raises(ValueError, match="has shards, and no plan.json"):
        run(*given, f"--output_dir={tmp_path / 'out'}")


def test_nothing_of_a_killed_overwrite_is_believed(tmp_path, run):
    given = (*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    run(*given)
    expected = files_of(tmp_path / "out")
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            path.unlink()
    survey = {"queries": 7, "num_features": 3, "has_doc_ids": False}
    (tmp_path / "out/.prepare/survey-00000.json").write_text(json.dumps(survey))
    run(*given)
    assert files_of(tmp_path / "out") == expected


def test_a_source_that_changes_meanwhile_is_told(tmp_path, run, monkeypatch):
    given = (*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    check = prepare._check_queries
    path = tmp_path / "train.txt"

    def change(*args):
        check(*args)
        path.write_bytes(path.read_bytes() + b"\n")

    monkeypatch.setattr(prepare, "_check_queries", change)
    with pytest.raises(ValueError, match="changed while they were read"):
        run(*given)
    assert not (tmp_path / "out" / "manifest.json").exists()


# Errors in the data.


@pytest.mark.parametrize("surveyed", [True, False])
def test_a_bad_line_in_a_later_range(tmp_path, run, surveyed):
    given = text_flags(tmp_path)
    path = tmp_path / "train.txt"
    lines = path.read_bytes().split(b"\n")
    with_data = [i for i, line in enumerate(lines) if b"#docid" in line]
    wrong = with_data[len(with_data) // 2]
    lines[wrong] = b"x" + lines[wrong]
    path.write_bytes(b"\n".join(lines))
    if not surveyed:
        other = write_text(tmp_path / "other.txt", seed=1)
        given += (f"--num_features={WIDTH}",)
        given += (f"--valid_path={other}", f"--test_path={other}")
    with pytest.raises(ValueError) as info:
        run(*given, f"--output_dir={tmp_path / 'out'}")
    assert str(info.value).startswith(f"{path}:{wrong + 1}: label is not a number")
    assert "while running" not in str(info.value)
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert bool(shards(tmp_path / "out")) == (not surveyed)  # Those of ranges before.
    with pytest.raises(ValueError, match=f":{wrong + 1}: label is not a number"):
        run(*given, f"--output_dir={tmp_path / 'out'}")


def test_a_query_in_two_files(tmp_path, run):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("1 qid:1 1:1\n1 qid:2 1:1\n")
    second.write_text("\n1 qid:3 1:1\n1 qid:1 1:1\n")
    with pytest.raises(ValueError) as info:
        run(
            "--dataset=text",
            f"--train_path={first},{second}",
            f"--output_dir={tmp_path / 'out'}",
        )
    assert f"{second}:3: query '1' of the train data began before, at {first}:1" in str(
        info.value
    )
    assert not (tmp_path / "out" / "manifest.json").exists()
    # But the splits may share queries, as the folds of a collection do.
    second.write_text("1 qid:1 1:1\n")
    given = [f"--train_path={first}", f"--valid_path={second}", f"--test_path={second}"]
    run("--dataset=text", *given, f"--output_dir={tmp_path / 'other'}")


def test_errors_of_the_flags(tmp_path, run):
    out = f"--output_dir={tmp_path / 'out'}"
    given = text_flags(tmp_path)
    with pytest.raises(ValueError, match="--dataset=text needs --train_path"):
        run("--dataset=text", f"--test_path={tmp_path / 'train.txt'}", out)
    with pytest.raises(ValueError, match="index 6 is out of range, expected 1 to 5"):
        run(*given, out, "--num_features=5")
    with pytest.raises(FileNotFoundError, match="No file matches"):
        run("--dataset=text", "--train_path=/no/file", out)
    with pytest.raises(ValueError, match="--dataset is 'synthetic'"):
        run(*given, "--dataset=synthetic", out)


# Processes, and Beam.


PLAIN = ["--num_workers=3"]
# In separate processes, which import what they need as other machines would.
BEAM = [
    "--beam_args=--direct_running_mode=multi_processing",
    "--beam_args=--direct_num_workers=2",
]


@pytest.mark.first_case
@pytest.mark.parametrize("workers", [PLAIN, BEAM])
def test_worker_processes_write_the_same(tmp_path, run, workers):
    other = write_text(tmp_path / "other.txt", seed=1)
    given = (
        *text_flags(tmp_path),
        f"--num_features={WIDTH}",  # Spares a second start of the workers.
        f"--valid_path={other}",
        f"--test_path={other}",
    )
    run_command(
        "pipelines.prepare",
        *given,
        f"--output_dir={tmp_path / 'two'}",
        *workers,
    )
    run(*given, f"--output_dir={tmp_path / 'one'}")
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")


def test_another_runner_wins(tmp_path, run):
    given = (*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    with pytest.raises(OSError, match="Beam's pipeline failed: .*NoSuchRunner"):
        run(*given, "--beam_args=--runner=NoSuchRunner", "--beam_args=--colour=red")
    printed = run(*given, "--beam_args=--runner=BundleBasedDirectRunner")
    assert "shards: " in printed
    assert beam_runner.unknown_options(["--runner=X", "--colour=red"]) == ["--colour"]


def test_without_beam(tmp_path, run, monkeypatch):
    given = (*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    beam = "--beam_args=--runner=BundleBasedDirectRunner"
    run(*given, f"--output_dir={tmp_path / 'beam'}", beam)
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(SystemExit, match=r"pip install tfr-ext\[beam\]"):
        run(*given, beam)
    assert "shards: " in run(*given)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "beam")


def test_workers_that_write_elsewhere_are_told(tmp_path, run, monkeypatch):
    elsewhere = str(tmp_path / "elsewhere")
    os.makedirs(os.path.join(elsewhere, ".prepare"))
    beam_run = beam_runner.run

    def run_elsewhere(units, work, beam_args):
        moved = [dataclasses.replace(unit, directory=elsewhere) for unit in units]
        beam_run(moved, work, beam_args)

    monkeypatch.setattr(beam_runner, "run", run_elsewhere)
    given = (*text_flags(tmp_path), "--beam_args=--runner=FnApiRunner")
    with pytest.raises(ValueError, match="pieces are not in .*: do workers of Beam"):
        run(*given, f"--output_dir={tmp_path / 'out'}")


# From what other sources there are, to what trains on it.


def test_training_on_shards_is_training_on_the_text(tmp_path):
    given = text_flags(tmp_path)[:2]
    out = tmp_path / "out"
    small = ("--hidden_sizes=4", "--num_epochs=2", "--batch_size=8", "--verbose=silent")
    run_command("pipelines.prepare", *given, f"--output_dir={out}")
    train = functools.partial(run_command, "pipelines.train")
    flag_file = "--flagfile=configs/text.cfg"  # As the README has it.
    train(flag_file, *given, *small, f"--model_dir={tmp_path / 'text'}")
    shards_of = ("--dataset=elwc", f"--data_dir={out}")
    train(flag_file, *shards_of, *small, f"--model_dir={tmp_path / 'elwc'}")
    for name in ("metrics.json", "run.trec", "per_query.tsv", "qrels.trec"):
        found = (tmp_path / "elwc" / name).read_text()
        assert found == (tmp_path / "text" / name).read_text()


def test_no_flag_file_divides_queries_otherwise():
    """Or shards prepared without it have other splits than training with it."""
    for path in (ROOT / "configs").glob("*.cfg"):
        flags_of = [line.partition("=")[0] for line in path.read_text().splitlines()]
        chosen = {"--seed", "--data_seed", "--valid_fraction", "--test_fraction"}
        assert not chosen & set(flags_of), path


def test_shards_of_shards(tmp_path, run):
    run(*text_flags(tmp_path), f"--output_dir={tmp_path / 'one'}")
    given = ("--dataset=elwc", f"--data_dir={tmp_path / 'one'}")
    run(*given, f"--output_dir={tmp_path / 'two'}")
    one, two = files_of(tmp_path / "one"), files_of(tmp_path / "two")
    assert {**one, "manifest.json": b""} == {**two, "manifest.json": b""}
    os.truncate(tmp_path / "one" / shards(tmp_path / "one")[1], 50)
    with pytest.raises(ValueError, match="manifest.json"):
        run(*given, f"--output_dir={tmp_path / 'three'}")


def test_shards_of_a_data_set_of_tfds(tmp_path, run):
    fold = tmp_path / "files" / "MQ2008" / "Fold1"
    fold.mkdir(parents=True)
    for seed, name in enumerate(("train.txt", "vali.txt", "test.txt")):
        write_text(fold / name, seed)
    given = (
        "--dataset=letor4/mq2008_fold1",
        f"--manual_dir={tmp_path / 'files'}",
        f"--data_dir={tmp_path / 'tfds'}",
    )
    run(*given, f"--output_dir={tmp_path / 'out'}", "--shard_megabytes=0.005")
    expected = []
    out = f"--output_dir={tmp_path / 'out'}"
    run(
        *given,
        out,
        work=lambda: expected.append(load()),
    )
    assert len(list((tmp_path / "out").glob("train-*"))) > 3
    for split in SPLITS:
        found = read_split(tmp_path / "out", split, 46)
        assert_same_lists(found, getattr(expected[0], split))


def test_the_source_is_not_overwritten(tmp_path, run):
    out = tmp_path / "one"
    run(*text_flags(tmp_path), f"--output_dir={out}")
    before = files_of(out)
    for source in (f"--data_dir={out}", f"--train_path={out}/train-*"):
        with pytest.raises(ValueError, match="--output_dir=.*where the source is"):
            run("--dataset=elwc", source, f"--output_dir={out}/", "--overwrite")
    assert files_of(out) == before


def test_names_of_directories_are_not_patterns(tmp_path, run):
    for number, name in enumerate(("x1", "x[1]", "a,b")):
        run(*text_flags(tmp_path, seed=number), f"--output_dir={tmp_path / name}")
    for name in ("x[1]", "a,b"):
        source, out = tmp_path / name, tmp_path / f"again {name}"
        run("--dataset=elwc", f"--data_dir={source}", f"--output_dir={out}")
        for shard in shards(source):
            assert (out / shard).read_bytes() == (source / shard).read_bytes()
    file = tmp_path / "x[1]" / shards(tmp_path / "x[1]")[0]
    other = tmp_path / "x1" / shards(tmp_path / "x1")[0]
    assert data.read_elwc(str(file)).labels.tolist() != (
        data.read_elwc(str(other)).labels.tolist()
    )


def test_files_are_read_as_training_reads_them(tmp_path, run):
    """Widths are those of the first file, and names tell files of one name apart."""

    def records(widths, count):
        features = {n: [1.0] * w for n, w in zip("xy", widths)}
        return [elwc_files.elwc([{**features, "label": [1.0]}]) for _ in range(count)]

    for folder, widths in (("a", (2, 1)), ("b", (2, 1)), ("c", (1, 2))):
        (tmp_path / folder).mkdir()
        elwc_files.write(tmp_path / folder / "part-0", records(widths, 3))
    given = ("--dataset=elwc", "--elwc_features=x,y")
    paths = [f"{tmp_path}/{folder}/part-0" for folder in "abc"]
    for held_out in ("", ",0.5"):
        out = f"--output_dir={tmp_path}/out{held_out}"
        good = (*given, f"--train_path={paths[0]},{paths[1]}", out)
        run(*good, "--valid_fraction=0.3", "--test_fraction=0.3")
    bad = (*given, f"--train_path={paths[0]},{paths[2]}", f"--output_dir={tmp_path}/no")
    with pytest.raises(ValueError, match="c/part-0.*'x' has 1 values, expected 2"):
        run(*bad, "--valid_fraction=0.3", "--test_fraction=0.3")


def test_another_file_system(tmp_path, run):
    """TensorFlow's file system in memory stands for those of a cloud."""
    path, out = "ram://source/train.txt", "ram://shards"
    tf.io.gfile.makedirs("ram://source")
    with tf.io.gfile.GFile(path, "wb") as file:
        with open(write_text(tmp_path / "train.txt", 0, queries=80), "rb") as local:
            file.write(local.read())
    source = ("--dataset=text", f"--train_path={path}")
    run(*source, f"--output_dir={out}", "--shard_megabytes=0.002")
    assert "nothing to do" in run(
        *source, f"--output_dir={out}", "--shard_megabytes=0.002"
    )
    found = []
    given = ("--dataset=elwc", f"--data_dir={out}", "--output_dir=unused")
    run(
        *given,
        work=lambda: found.append(load()),
    )
    run(
        *source,
        "--output_dir=unused",
        work=lambda: found.append(load()),
    )
    for split in SPLITS:
        assert_same_lists(*(getattr(one, split) for one in found))


def test_a_file_that_nobody_judged_gives_no_shard(tmp_path, run):
    judged, other = (
        [
            elwc_files.elwc([{"float_features": [1.0, 2.0], "label": [label]}])
            for _ in range(3)
        ]
        for label in (1.0, -1.0)
    )
    paths = [tmp_path / name for name in "abc"]
    for path, records in zip(paths, (judged, other, judged)):
        elwc_files.write(path, records)
    source = (
        "--dataset=elwc",
        f"--train_path={paths[0]},{paths[1]},{paths[2]}",
        f"--valid_path={paths[0]}",
    )
    good = (*source, f"--test_path={paths[2]}")
    told = run(*good, f"--output_dir={tmp_path / 'out'}")
    assert f"{paths[1]} has no judged items: it gives no shard." in told
    found = []
    given = ("--dataset=elwc", f"--data_dir={tmp_path / 'out'}", "--output_dir=unused")
    run(
        *given,
        work=lambda: found.append(load()),
    )
    run(
        *good,
        "--output_dir=unused",
        work=lambda: found.append(load()),
    )
    for split in SPLITS:
        assert_same_lists(*(getattr(one, split) for one in found))
    bad = (*source, f"--test_path={paths[1]}", f"--output_dir={tmp_path / 'no'}")
    with pytest.raises(ValueError, match="The test data has no judged items"):
        run(*bad)
    assert not (tmp_path / "no" / "manifest.json").exists()
