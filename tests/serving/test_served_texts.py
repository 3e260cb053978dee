"""Exports with an encoder inside: texts score as the embeddings that it made."""

import json
import os

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from pipelines.client import grpc_client, rest
from tests.commands import SMALL, run_command, told, train
from tests.serving.bare_tensorflow import answer
from tests.serving.model_server import serving
from tests.text import encoder_files
from tfr_ext.data import RankingLists
from tfr_ext.serving import model_file, parity
from tfr_ext.serving.exporter import load_scorer
from tfr_ext.text import EmbeddingConfig, embed
from tfr_ext.training import ExportConfig, export_runs

CONNECT = {"grpc": grpc_client.connect, "rest": rest.connect}
COLUMNS = (
    "--feature_columns=score",
    "--embedding_columns=query_embedding,document_embedding",
    "--context_columns=query_embedding",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a table of embeddings, its encoder, and the table."""
    folder = tmp_path_factory.mktemp("texts")
    encoder = encoder_files.write(folder / "encoder")
    texts, rng = [*encoder_files.TEXTS[:9]], np.random.default_rng(0)
    for name, start in (("corpus", "d"), ("queries", "q")):
        lines = [{"_id": f"{start}{i}", "text": text} for i, text in enumerate(texts)]
        content = "".join(f"{json.dumps(line)}\n" for line in lines)
        (folder / name).write_text(content)
    pairs = [(f"q{q}", f"d{d}") for q in range(9) for d in range(9)]
    runs = [f"{q} Q0 {d} 1 {rng.normal()} x\n" for q, d in pairs]
    (folder / "run").write_text("".join(runs))
    qrels = [f"{q} 0 {d} {int(rng.random() < 0.4)}\n" for q, d in pairs]
    (folder / "qrels").write_text("".join(qrels))
    table = str(folder / "table.parquet")
    given = {x: str(folder / x) for x in ("corpus", "queries", "run", "qrels")}
    embed(EmbeddingConfig(encoder=str(encoder), output=table, **given))
    train(
        *(*SMALL, *COLUMNS, "--dataset=table", f"--train_path={table}"),
        *("--valid_fraction=.2", "--test_fraction=.2", "--noexport_model"),
        *("--num_epochs=1", "--loss=list_net_loss", "--nodraw_curves"),
        f"--model_dir={folder / 'run_of_table'}",
    )
    return folder / "run_of_table", encoder, pd.read_parquet(table)


@pytest.fixture(scope="module", params=[False, True], ids=["query", "documents too"])
def version(run, request, tmp_path_factory):
    """An export, and whether requests have the texts of documents."""
    folder = tmp_path_factory.mktemp("export")
    config = ExportConfig(
        model_dir=[str(run[0])],
        export_dir=str(folder),
        encoder=str(run[1]),
        embed_documents=request.param,
    )
    return export_runs(config).paths["version"], request.param


def request_of(table, whole):
    """A request for all rows, and the rows of its items."""
    groups = [x for _, x in table.groupby("query_id", sort=False)]
    lists = {
        "float_features": [x[["score"]].to_numpy().tolist() for x in groups],
        "query": [x["query"].iloc[0] for x in groups],
    }
    if whole:
        lists["document"] = [x["document"].tolist() for x in groups]
    else:
        vectors = [np.stack(x["document_embedding"]).tolist() for x in groups]
        lists["document_embedding"] = vectors
    return lists


def test_texts_score_as_their_embeddings(run, version):
    table, (version, whole) = run[2], version
    scorer = load_scorer(version)
    columns = [feature.name for feature in scorer.spec.features]
    lists = RankingLists.from_arrays(
        table[columns], table["label"], qid=table["query_id"], spec=scorer.spec
    )
    expected = scorer.scores(lists, 4)
    assert np.ptp(expected) > 0.01
    allowed = parity.TOLERANCE * np.abs(expected).max()
    request = request_of(table, whole)
    sizes = np.full(len(request["query"]), 9, np.int32)
    mask = np.ones([len(sizes), 9], bool)
    request |= {"mask": mask.tolist(), "topn": sizes.tolist()}
    found = answer(version, request)
    np.testing.assert_allclose(
        np.ravel(found["scores"]), expected, rtol=0, atol=allowed
    )
    about = model_file.read(version)
    assert len(about["encoder"]["sha256"]) == 64
    names = {"query_embedding": "query"}
    names["document_embedding"] = "document" if whole else "document_embedding"
    assert about["inputs"] == names


@pytest.fixture(scope="module")
def server(version):
    with serving(os.path.dirname(version[0])) as found:
        yield found


@pytest.mark.parametrize("protocol", CONNECT)
def test_clients_take_the_texts(run, version, server, protocol):
    version, whole = version
    if protocol == "grpc":
        pytest.importorskip("tensorflow_serving")
    request = request_of(run[2], whole)
    with CONNECT[protocol](server.address(protocol), "ranker") as client:
        scores, _ = client.rank(request, topn=9)
        documents = "document" if whole else "document_embedding"
        assert client.inputs == ["query", documents]
        del request[documents]
        with pytest.raises(ValueError, match=f"The request has no '{documents}'"):
            client.scores(request)
    request = request_of(run[2], whole)
    served = tf.saved_model.load(version).signatures["serving_default"]
    expected = served(**{x: tf.constant(y) for x, y in request.items()})["scores"]
    np.testing.assert_allclose(scores, expected, atol=2e-6)


def test_another_encoder_is_refused(run, tmp_path):
    other = encoder_files.write(tmp_path / "other", "cls")
    given = (f"--model_dir={run[0]}", f"--export_dir={tmp_path / 'out'}")
    done = run_command("pipelines.export", *given, f"--encoder={other}", check=False)
    assert "embeddings of another encoder" in told(done)
    wide = encoder_files.write(tmp_path / "wide", hidden_size=16)
    done = run_command("pipelines.export", *given, f"--encoder={wide}", check=False)
    assert "makes 16 numbers: expected one embedding of the context" in told(done)
    done = run_command("pipelines.export", *given, "--embed_documents", check=False)
    assert "--embed_documents needs an --encoder" in told(done)
    assert not (tmp_path / "out").exists()
