"""Tables of embeddings: what `tfr-ext embed` writes, and what it refuses."""

import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest

from tests.commands import SMALL, run_command, told, train
from tests.text import encoder_files
from tfr_ext.text import EmbeddingConfig, Encoder, embed, embedding

CORPUS = [
    {"_id": "d1", "title": "the run", "text": "unable café"},
    {"_id": "d2", "text": "the"},
    {"_id": "d 3", "title": None, "text": "the running café, the run x xx"},
    {"_id": "d4", "text": ""},
]
QUERIES = [{"_id": "q1", "text": "run"}, {"_id": "q2", "text": "the café"}]
QUERIES.append({"_id": "q3", "text": "nothing is found"})
RUN = [("q1", "d2", 2.5), ("q1", "d1", 3), ("q1", "d4", 1), ("q2", "d%203", 7)]
QRELS = [("q1", "d1", 2), ("q1", "d9", 1), ("q2", "d4", 1), ("q4", "d1", 1)]


def files(folder, corpus=CORPUS, queries=QUERIES, run=RUN, qrels=QRELS):
    """Writes the files, and returns them as arguments."""
    folder.mkdir(exist_ok=True)
    for name, content in (("corpus", corpus), ("queries", queries)):
        with gzip.open(folder / f"{name}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(x)}\n" for x in content)
    lines = [f"{query} Q0 {name} 1 {score} bm25\n" for query, name, score in run]
    (folder / "run").write_text("".join(lines))
    lines = [f"{query} 0 {name} {grade}\n" for query, name, grade in qrels]
    (folder / "qrels").write_text("".join(lines))
    given = {"corpus": "corpus.gz", "queries": "queries.gz", "run": "run"}
    return {x: str(folder / name) for x, name in {**given, "qrels": "qrels"}.items()}


def encoder_in(folder):
    return str(encoder_files.write(folder / "encoder"))


def test_the_command_writes_a_row_for_each_candidate(tmp_path):
    path, output = encoder_in(tmp_path), tmp_path / "new" / "table.parquet"
    given = files(tmp_path / "in")
    done = run_command(
        "pipelines.embed",
        *(f"--{x}={value}" for x, value in given.items()),
        *(f"--encoder={path}", f"--output={output}"),
    )
    assert "3 judged queries, 1 without candidates" in done.stdout
    assert "1 of 4 relevant documents" in done.stdout
    assert Encoder.load(path).digest in done.stdout
    table = pd.read_parquet(output)
    assert [*zip(table["query_id"], table["doc_id"], table["label"])] == [
        *(("q1", "d1", 2), ("q1", "d2", 0), ("q1", "d4", 0), ("q2", "d%203", 0))
    ]
    assert table["score"].tolist() == [3, 2.5, 1, 7]
    texts = ["the run unable café", "the", "", "the running café, the run x xx"]
    assert table["document"].tolist() == texts
    assert table["query"].tolist() == ["run"] * 3 + ["the café"]
    assert table["length"].tolist() == [5, 1, 0, 10]
    encoder = Encoder.load(path)
    found = np.stack(table["document_embedding"])
    np.testing.assert_allclose(found, encoder.embed(texts), atol=2e-6)
    asked = np.stack(table["query_embedding"])
    np.testing.assert_allclose(asked, encoder.embed(table["query"]), atol=2e-6)
    np.testing.assert_allclose(table["cosine"], (asked * found).sum(1), atol=2e-6)
    assert sorted(x.name for x in output.parent.iterdir()) == ["table.parquet"]


def test_without_qrels_and_without_a_run(tmp_path, capsys):
    path, given = encoder_in(tmp_path), files(tmp_path / "in")
    del given["qrels"]
    output = str(tmp_path / "table.parquet")
    embed(EmbeddingConfig(**given, encoder=path, output=output, depth=1))
    assert "3 queries, 1 without candidates" in capsys.readouterr().out
    table = pd.read_parquet(output)
    assert table["doc_id"].tolist() == ["d1", "d%203"] and "label" not in table
    only = {"corpus": given["corpus"], "encoder": path, "output": output}
    with pytest.raises(ValueError, match=r"there already.*`overwrite=True`"):
        embed(EmbeddingConfig(**only))
    embed(EmbeddingConfig(**only, overwrite=True))
    table = pd.read_parquet(output)
    assert table["doc_id"].tolist() == ["d1", "d2", "d%203", "d4"]
    assert [*table] == ["doc_id", "length", "document_embedding", "document"]


@pytest.mark.parametrize("limit", ["_PART", "_CHARACTERS"])
def test_a_killed_run_goes_on(limit, tmp_path, monkeypatch):
    given = {**files(tmp_path / "in"), "encoder": encoder_in(tmp_path)}
    texts, plain = [], Encoder.embed_ids

    def counted(self, ids, batch_size=32):
        if len(texts) == 3 and texts[-1] is not None:
            texts.append(None)
            raise KeyboardInterrupt
        texts.extend(map(tuple, ids.to_list()))
        return plain(self, ids, batch_size)

    monkeypatch.setattr(embedding, limit, 1)
    monkeypatch.setattr(Encoder, "embed_ids", counted)
    one, other = (str(tmp_path / f"{x}.parquet") for x in ("one", "other"))
    with pytest.raises(KeyboardInterrupt):
        embed(EmbeddingConfig(**given, output=one))
    assert not (tmp_path / "one.parquet").exists()
    embed(EmbeddingConfig(**given, output=one))
    assert sorted(x.name for x in tmp_path.iterdir()) == [
        "encoder",
        "in",
        "one.parquet",
    ]
    # Two queries and four documents, none twice.
    assert len(texts) == 7 and len({*texts}) == 7
    embed(EmbeddingConfig(**given, output=other))
    pd.testing.assert_frame_equal(pd.read_parquet(one), pd.read_parquet(other))


def test_another_encoder_uses_no_part_of_the_first(tmp_path, monkeypatch):
    given = {**files(tmp_path / "in"), "output": str(tmp_path / "table.parquet")}
    monkeypatch.setattr(embedding, "_write", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        embed(EmbeddingConfig(**given, encoder=encoder_in(tmp_path)))
    monkeypatch.undo()
    other = str(encoder_files.write(tmp_path / "other", "cls"))
    embed(EmbeddingConfig(**given, encoder=other))
    found = pd.read_parquet(given["output"])
    expected = Encoder.load(other).embed(found["document"])
    np.testing.assert_allclose(
        np.stack(found["document_embedding"]), expected, atol=2e-6
    )


def test_training_takes_the_table_as_it_is(tmp_path):
    run = [(f"q{q}", f"d{d}", (q * d) % 5) for q in range(10) for d in range(8)]
    qrels = [(f"q{q}", f"d{d}", int(d % 4 == q % 4)) for q, d in np.ndindex(10, 8)]
    words = encoder_files.WORDS[5:]
    given = files(
        tmp_path / "in",
        [{"_id": f"d{d}", "text": words[d]} for d in range(8)],
        [{"_id": f"q{q}", "text": words[q]} for q in range(10)],
        *(run, qrels),
    )
    output = str(tmp_path / "table.parquet")
    embed(EmbeddingConfig(**given, encoder=encoder_in(tmp_path), output=output))
    shared = (*SMALL, "--dataset=table", f"--train_path={output}", "--num_epochs=1")
    shared += ("--valid_fraction=.2", "--test_fraction=.2", "--nodraw_curves")
    shared += ("--loss=list_net_loss",)
    done = train(*shared, f"--model_dir={tmp_path / 'numbers'}")
    assert "Features: score, cosine, length." in done.stdout
    done = train(
        *shared,
        "--feature_columns=score",
        "--embedding_columns=query_embedding,document_embedding",
        "--context_columns=query_embedding",
        f"--model_dir={tmp_path / 'embeddings'}",
    )
    assert "Of the context: query_embedding." in done.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpus": [*CORPUS, CORPUS[1]]}, r"corpus\.gz:5: 'd2' is there twice.* 2"),
        ({"corpus": [{"_id": "d1"}]}, r"corpus\.gz:1: expected a JSON object"),
        ({"corpus": [{"_id": True, "text": ""}]}, r"corpus\.gz:1: expected a JSON"),
        ({"corpus": [{"_id": "d1", "text": 3}]}, r"corpus\.gz:1: expected a JSON"),
        ({"corpus": [{"_id": "d1", "text": "cut \ud83d"}]}, r"corpus\.gz:1: expected"),
        ({"corpus": [[]]}, r"corpus\.gz:1: expected a JSON object"),
        ({"queries": QUERIES[:1]}, r"run:4: query 'q2' is not in \S*queries\.gz"),
        ({"run": [*RUN, ("q2", "d7", 1)]}, r"run:5: document 'd7' is not in \S*corpus"),
        ({"run": [*RUN, RUN[0]]}, r"run:5: document 'd2' comes twice"),
        ({"qrels": QRELS[3:]}, "no query of the run is in"),
        ({"run": []}, "no query of the run is in"),
    ],
)
def test_other_files_are_refused(change, message, tmp_path):
    given = files(tmp_path / "in", **change)
    output = tmp_path / "table.parquet"
    with pytest.raises(ValueError, match=message) as error:
        embed(
            EmbeddingConfig(**given, encoder=encoder_in(tmp_path), output=str(output))
        )
    assert "\n" not in str(error.value)
    assert not output.exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"corpus": "c"}, "`encoder` must be given"),
        ({"corpus": "c", "encoder": "e", "output": "o", "run": "r"}, "need each other"),
        ({"corpus": "c", "encoder": "e", "output": "o", "depth": 3}, "needs a `run`"),
    ],
)
def test_settings_that_do_not_fit(given, message):
    with pytest.raises(ValueError, match=message):
        EmbeddingConfig(**given)


def test_the_command_names_its_flags(tmp_path):
    given = files(tmp_path / "in")
    output = tmp_path / "table.parquet"
    output.touch()
    flags = [f"--{x}={value}" for x, value in given.items()]
    flags += [f"--encoder={tmp_path}/none", f"--output={output}"]
    done = run_command("pipelines.embed", *flags, check=False)
    assert re.search(r"is there already.*--overwrite", told(done))
