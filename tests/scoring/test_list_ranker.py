"""Ranking of lists without labels: what `evaluate` gives of them with labels."""

import csv
import dataclasses
import functools
import gzip
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc
import weakref

import numpy as np
import pytest
import tensorflow as tf

from tests.commands import ROOT
from tests.elwc_files import protos, write
from tests.files import content, write_letor
from tests.helpers import make_lists
from tests.tables import frame, tabular
from tfr_ext import data
from tfr_ext.data import text_files
from tfr_ext.data.letor import reading
from tfr_ext.scoring import list_ranker, ranked_formats
from tfr_ext.scoring.rank_config import _INPUTS, _OUTPUTS
from tfr_ext.serving import exporter
from tfr_ext.training import (
    DataConfig,
    EvaluationConfig,
    MetricsConfig,
    ModelConfig,
    RankConfig,
    TrainingConfig,
    evaluate,
    rank,
    train,
)

GRID = pytest.mark.grid
WIDTH = 4
FEATURES = ("f1", "f2", "f3", "f4")


@pytest.fixture(scope="module", autouse=True)
def _models_are_loaded_once():
    with pytest.MonkeyPatch.context() as patched:
        once = functools.cache(list_ranker.load_scorer)
        patched.setattr(list_ranker, "load_scorer", once)
        yield


@dataclasses.dataclass(frozen=True)
class World:
    """A model, lists with and without document ids, and what `evaluate` gives."""

    export: str
    lists: data.RankingLists
    directory: object

    def evaluated(self, path):
        """The run that `evaluate` writes of judged text."""
        evaluate(
            EvaluationConfig(
                data=DataConfig(dataset="text", test_path=[str(path)]),
                metrics=MetricsConfig(metrics="map"),
                export=self.export,
                output_dir=f"{path}-evaluated",
            )
        )
        return (path.parent / f"{path.name}-evaluated" / "run.trec").read_text()

    @functools.cached_property
    def expected(self):
        """That of its own lists."""
        return self.evaluated(self.directory / "judged.txt")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Lists of one item, ties of constant features, and queries named oddly."""
    directory = tmp_path_factory.mktemp("world")
    lists = make_lists([5, 1, 8, 3, 40] * 8, num_features=WIDTH, seed=3)
    lists.features[::3] = 0.5
    names = [f"q{i}," if i % 2 else f"ä{i}" for i in range(lists.num_lists)]
    lists = dataclasses.replace(lists, query_ids=names)
    write_letor(directory / "judged.txt", lists)
    result = train(
        TrainingConfig(
            data=DataConfig(dataset="text", train_path=str(directory / "judged.txt")),
            model=ModelConfig(hidden_sizes=(4,)),
            num_epochs=2,
            model_dir=directory / "model",
            verbose="silent",
            draw_curves=False,
        )
    )
    # What text of six decimals gives.
    lists = data.read_letor(directory / "judged.txt", WIDTH)
    return World(result.paths["export"], lists, directory)


def plain_text(judged, named=True):
    """LETOR text without labels, and perhaps without names."""
    text = judged.read_text()
    text = re.sub(r"(?m)^\S+ (?=qid:)", "", text)
    return text if named else re.sub(r"(?m) #.*$", "", text)


def write_source(world, folder, source):
    """Writes the lists in some form without labels; returns what `input` names."""
    judged = world.directory / "judged.txt"
    if source == "labelled":
        return str(judged)
    if source in ("text", "gzip", "several"):
        text = plain_text(judged)
        path = folder / "new.txt"
        path.write_text(text)
        if source == "gzip":
            path.write_bytes(gzip.compress(text.encode()))
        if source == "several":
            cut = text.index(f"qid:{world.lists.query_ids[17]} ")
            (folder / "a.txt").write_text(text[:cut])
            (folder / "b.txt").write_text(text[cut:])
            return f"{folder}/a.txt,{folder}/[b].txt".split(",")
        return str(path)
    if source.startswith("table"):
        lists = dataclasses.replace(world.lists, feature_names=FEATURES)
        # The order of the columns is another, and there is one that is no feature.
        df = frame(lists).drop(columns="label")[["doc", *FEATURES[::-1], "query"]]
        df = df.assign(price=1.5)
        if source == "table parquet":
            pytest.importorskip("pyarrow")
            df.to_parquet(folder / "new.parquet", row_group_size=100)
            return str(folder / "new.parquet")
        path = folder / ("new.csv.gz" if source.endswith("gz") else "new.tsv")
        df.to_csv(path, index=False, sep="," if source.endswith("gz") else "\t")
        return str(path)
    made = protos(world.lists)
    for proto in made:
        for example in proto.examples:
            del example.features.feature["label"]
    options = tf.io.TFRecordOptions("GZIP") if source == "elwc gzip" else None
    return write(folder / "new.tfrecord", made, options)


SOURCES = (
    *("labelled", "text", "gzip", "several", "elwc", "elwc gzip"),
    *("table tsv", "table csv.gz", "table parquet"),
)
TABLE = {
    "query_column": "query",
    "feature_columns": FEATURES,
    "doc_id_column": "doc",
}


def read_ranked(path):
    """Reads a file of ranked lists; returns (query, document, rank, score) of each."""
    text = path.read_text()
    if path.suffix == ".trec":
        rows = [line.split() for line in text.splitlines()]
        return [(q, d, int(r), float(s)) for q, _, d, r, s, _ in rows]
    if path.suffix == ".jsonl":
        return [
            (query["query_id"], item["doc_id"], rank, item["score"])
            for query in map(json.loads, text.splitlines())
            for rank, item in enumerate(query["items"], 1)
        ]
    delimiter = {".csv": ",", ".tsv": "\t"}[path.suffix]
    rows = list(csv.DictReader(text.splitlines(), delimiter=delimiter))
    assert list(rows[0]) == ["query_id", "doc_id", "position", "rank", "score"]
    return [
        (row["query_id"], row["doc_id"], int(row["rank"]), float(row["score"]))
        for row in rows
    ]


# Every source in one format, and every format of one source.
CASES = [
    pytest.param(
        *(source, ending, topn),
        marks=[] if (ending, topn) == ("trec", None) or source == "text" else GRID,
    )
    for source, ending, topn in itertools.product(
        SOURCES, ("trec", "jsonl", "csv", "tsv"), (None, 3)
    )
]


@pytest.mark.parametrize(("source", "ending", "topn"), CASES)
def test_the_order_is_that_of_evaluate(world, tmp_path, monkeypatch, source, ending,
                                       topn):  # fmt: skip
    """Whatever the format, and the pieces that are read."""
    expected = world.expected.splitlines(keepends=True)
    if topn:
        expected = [line for line in expected if int(line.split()[3]) <= topn]
    monkeypatch.setattr(reading, "_PIECE_BYTES", 1)
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", 1000)
    monkeypatch.setattr(list_ranker, "_TABLE_BYTES", 1000)
    path = tmp_path / "new" / f"ranked.{ending}"
    result = rank(
        RankConfig(
            export=world.export,
            input=write_source(world, tmp_path, source),
            output=path,
            topn=topn,
            batch_size=5,
            **(TABLE if source.startswith("table") else {}),
        )
    )
    assert result.paths == {"output": str(path)}
    assert (result.num_queries, result.num_items) == (40, world.lists.num_items)
    assert result.num_written == len(expected)
    assert os.listdir(path.parent) == [path.name]
    (tmp_path / "expected.trec").write_text("".join(expected))
    found, wanted = read_ranked(path), read_ranked(tmp_path / "expected.trec")
    assert [row[:3] for row in found] == [row[:3] for row in wanted]
    # Only a run lowers what ties; and what is in a batch moves the last bit of a score.
    np.testing.assert_allclose(
        [row[3] for row in found], [row[3] for row in wanted], rtol=1e-5, atol=1e-6
    )


def test_of_a_piece_as_large_as_the_file_the_run_is_that_of_evaluate(world, tmp_path):
    path = write_source(world, tmp_path, "text")
    rank(RankConfig(export=world.export, input=path, output=tmp_path / "a.trec"))
    assert (tmp_path / "a.trec").read_text() == world.expected


def test_a_table_says_where_items_stood_and_scores_that_tie(world, tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("qid:b 1:1\nqid:b 2:3\nqid:b 1:1\nqid:a 4:1\n")
    config = RankConfig(export=world.export, input=path, output=tmp_path / "a.csv")
    rank(config)
    rows = list(csv.DictReader(open(config.output, newline="")))
    assert [row["query_id"] for row in rows] == ["b", "b", "b", "a"]
    assert [row["rank"] for row in rows] == ["1", "2", "3", "1"]
    assert all(row["doc_id"] == f"{row['query_id']}-{row['position']}" for row in rows)
    (first,) = (r for r in rows if (r["query_id"], r["position"]) == ("b", "1"))
    (third,) = (r for r in rows if (r["query_id"], r["position"]) == ("b", "3"))
    assert first["score"] == third["score"]
    assert int(third["rank"]) == int(first["rank"]) + 1
    rank(dataclasses.replace(config, output=str(tmp_path / "a.jsonl")))
    lines = [json.loads(line) for line in open(tmp_path / "a.jsonl")]
    assert [line["query_id"] for line in lines] == ["b", "a"]
    told = [(line["query_id"], item) for line in lines for item in line["items"]]
    for (query, item), row in zip(told, rows):
        assert (query, item["doc_id"], str(item["position"])) == (
            row["query_id"],
            row["doc_id"],
            row["position"],
        )
        assert np.float32(item["score"]) == np.float32(row["score"])


@pytest.mark.parametrize("kept", ["none", "first", "last", "all but one"])
def test_documents_are_called_as_evaluate_calls_them(world, tmp_path, monkeypatch,
                                                     kept):  # fmt: skip
    """By their ids if all have one, though they are written before that is known."""
    lines = (world.directory / "judged.txt").read_text().splitlines()
    named = {
        "none": lambda i: False,
        "first": lambda i: i < 200,
        "last": lambda i: i > 200,
        "all but one": lambda i: i != 300,
    }[kept]
    lines = [x if named(i) else x.partition(" #")[0] for i, x in enumerate(lines)]
    path = tmp_path / "judged.txt"
    path.write_text("\n".join(lines))
    expected = world.evaluated(path)
    assert " Q0 q1,-1 1 " in expected
    monkeypatch.setattr(reading, "_PIECE_BYTES", 1)
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", 1000)
    config = RankConfig(export=world.export, input=path, output=tmp_path / "a.trec")
    rank(config)
    found = (tmp_path / "a.trec").read_text()
    (tmp_path / "expected.trec").write_text(expected)
    assert [row[:3] for row in read_ranked(tmp_path / "a.trec")] == [
        row[:3] for row in read_ranked(tmp_path / "expected.trec")
    ]
    if kept in ("first", "all but one"):
        monkeypatch.setattr(text_files, "is_pipe", lambda path: True)
        with pytest.raises(ValueError, match="others have none.* between the quer"):
            rank(dataclasses.replace(config, overwrite=True))
        assert (tmp_path / "a.trec").read_text() == found


def test_memory_is_that_of_two_pieces(world, tmp_path, monkeypatch):
    """One that is read while another is written, of a file of hundreds."""
    path = tmp_path / "new.txt"
    path.write_text("".join(f"qid:{q} 1:{q}\nqid:{q} 2:1\n" for q in range(3000)))
    monkeypatch.setattr(reading, "_PIECE_BYTES", 1)
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", 200)
    alive, most, count = set(), 0, 0
    init = data.RankingLists.__post_init__

    def counted(self):
        nonlocal most, count
        init(self)
        alive.add(id(self.features))
        weakref.finalize(self.features, alive.discard, id(self.features))
        most, count = max(most, len(alive)), count + 1

    monkeypatch.setattr(data.RankingLists, "__post_init__", counted)
    result = rank(
        RankConfig(export=world.export, input=path, output=tmp_path / "a.jsonl")
    )
    assert result.num_queries == 3000
    assert count > 300 and most <= 2


def test_memory_does_not_grow_with_the_file(world, tmp_path, monkeypatch):
    """The text that is written alone would add ten times what is allowed here."""
    monkeypatch.setattr(reading, "_PIECE_BYTES", 1 << 12)
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", 1 << 12)
    scorer = list_ranker.load_scorer(world.export)
    monkeypatch.setattr(list_ranker, "load_scorer", lambda path: scorer)
    peaks = []
    for queries in (30, 120):
        path = tmp_path / f"{queries}.txt"
        path.write_text(
            "".join(f"qid:{q} 1:{i}\n" for q in range(queries) for i in range(200))
        )
        config = RankConfig(
            export=world.export,
            input=path,
            output=tmp_path / f"{queries}.trec",
            batch_size=1,
        )
        rank(dataclasses.replace(config, output=str(tmp_path / "before.trec"),
                                 overwrite=True))  # fmt: skip
        tracemalloc.start()
        try:
            rank(config)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    more = [(tmp_path / f"{q}.trec").stat().st_size for q in (30, 120)]
    # But for the names of the queries.
    assert peaks[1] - peaks[0] < (more[1] - more[0]) / 10, (peaks, more)


# What is wrong.


def one_list(features):
    return data.RankingLists(
        np.float32(features),
        np.zeros(len(features), np.float32),
        np.array([0, len(features)]),
        ["q7"],
    )


def refused(world, tmp_path, **settings):
    """What is said of a ranking that writes nothing."""
    given = {"export": world.export, "output": tmp_path / "out" / "a.trec"}
    with pytest.raises((OSError, ValueError)) as error:
        rank(RankConfig(**{**given, **settings}))
    if (tmp_path / "out").exists():
        assert not os.listdir(tmp_path / "out")
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("qid:a 1:1\nqid:a 5:1\n", "{path}:2: feature index 5 is out of range, "
         "expected 1 to 4 (num_features=4). Found: '5:1'"),
        ("qid:a 1:1\nqid:b 1:1\nqid:a 1:1\n", "{path}:3: query 'a' began earlier, at "
         "{path}:1, and other lines came between; expected the lines of a query next "
         "to each other in one file"),
        ("", "{path}: the file holds no data, expected `qid:NAME INDEX:VALUE ...`"),
        ("qid:a 1:NULL\nqid:a 1:x\n", "{path}:2: feature value is not a number, "
         "expected a decimal number. Found: '1:x'"),
    ],
)  # fmt: skip
def test_text_that_is_wrong(world, tmp_path, monkeypatch, text, told):
    """Also where most of it was ranked and written before."""
    path = tmp_path / "new.txt"
    path.write_text(text)
    assert refused(world, tmp_path, input=path) == told.format(path=path)
    if text:
        monkeypatch.setattr(reading, "_PIECE_BYTES", 1)
        monkeypatch.setattr(text_files, "_CHUNK_BYTES", 16)
        lines = "".join(f"qid:{q} 1:1\n" for q in range(100))
        path.write_text(lines + text)
        found = refused(world, tmp_path, input=path)
        expected = re.sub(
            f"{path}:(.)", lambda m: f"{path}:{int(m[1]) + 100}", told.format(path=path)
        )
        assert found == expected


@pytest.mark.parametrize("wrong", ["width", "torn", "twice"])
def test_elwc_that_is_wrong(world, tmp_path, wrong):
    lists = make_lists([3, 2], num_features=5 if wrong == "width" else WIDTH)
    made = protos(lists)
    path = write(tmp_path / "new.tfrecord", made * (2 if wrong == "twice" else 1))
    if wrong == "torn":
        os.truncate(path, os.path.getsize(path) - 5)
    told = {
        "width": "there are 5 features, expected 4",
        "torn": "record 2: expected a whole TFRecord. Found: ",
        "twice": f"record 3: query 'q0' occurred before, at {path}, record 1; "
        "expected each query once",
    }[wrong]
    assert refused(world, tmp_path, input=path).startswith(f"{path}: {told}")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            np.nan,
            "feature 3 of item 2 is nan, and the model was trained without missing "
            "features",
        ),
        (np.inf, "feature 3 of item 2 is inf"),
    ],
)
def test_a_list_that_cannot_be_ranked_is_named(world, tmp_path, monkeypatch, value,
                                               told):  # fmt: skip
    features = np.zeros([3, WIDTH])
    features[1, 2] = value
    good, bad = one_list(np.ones([2, WIDTH])), one_list(features)
    good = dataclasses.replace(good, query_ids=["q6"])
    monkeypatch.setattr(list_ranker, "read", lambda *args: iter([good, bad]))
    path = tmp_path / "new.txt"
    path.write_text("")
    found = refused(world, tmp_path, input=path)
    assert found == f"Query 'q7' cannot be ranked: {told}."


def test_a_score_that_is_not_finite_is_told(world, tmp_path, monkeypatch):
    monkeypatch.setattr(
        exporter.ExportedScorer,
        "scores",
        lambda *args: np.float32([0, np.inf]),
    )
    path = tmp_path / "new.txt"
    path.write_text("qid:a 1:1\nqid:b 1:1\n")
    assert refused(world, tmp_path, input=path) == (
        "Query 'b' cannot be ranked: the model gives item 1 the score inf."
    )


def test_what_is_missing_is_named(world, tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("qid:a 1:1\n")
    assert refused(world, tmp_path, input=tmp_path / "none.txt").startswith(
        f"No file matches '{tmp_path}/none.txt'."
    )
    assert "is a directory" in refused(world, tmp_path, input=tmp_path)
    (tmp_path / "empty").mkdir()
    for export in (tmp_path / "none", tmp_path / "empty"):
        told = refused(world, tmp_path, input=path, export=export)
        assert told == f"{export} has no SavedModel."


@pytest.fixture(scope="module")
def table_model(tmp_path_factory):
    """An export that knows the names of its features."""
    directory = tmp_path_factory.mktemp("table")
    lists = make_lists([5, 3, 7] * 4, num_features=3)
    df = frame(tabular(lists)).drop(columns="weight")
    df.to_csv(directory / "train.csv", index=False)
    result = train(
        TrainingConfig(
            data=DataConfig(
                dataset="table",
                train_path=directory / "train.csv",
                query_column="query",
            ),
            model=ModelConfig(hidden_sizes=(4,)),
            num_epochs=1,
            model_dir=directory / "model",
            verbose="silent",
            draw_curves=False,
        )
    )
    return result.paths["export"], df


def test_an_export_knows_the_columns_of_its_features(table_model, tmp_path):
    export, df = table_model
    config = RankConfig(
        export=export,
        input=tmp_path / "new.csv",
        output=tmp_path / "a.trec",
        query_column="query",
        overwrite=True,
    )
    df.to_csv(tmp_path / "new.csv", index=False)
    rank(config)
    expected = (tmp_path / "a.trec").read_text()
    other = df[["z", "query", "y", "x"]].assign(doc_id="d", more=3)
    other.to_csv(tmp_path / "new.csv", index=False)
    rank(dataclasses.replace(config, doc_id_column=""))
    assert (tmp_path / "a.trec").read_text() == expected
    other.rename(columns={"x": "w"}).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(data.DataFormatError) as error:
        rank(config)
    assert str(error.value) == (
        f"{tmp_path}/new.csv: There is no column 'x'. Found: 'z', 'query', 'y', 'w', "
        "'doc_id', 'more'."
    )
    renamed = dataclasses.replace(
        config, feature_columns=("w", "y", "z"), doc_id_column=""
    )
    rank(renamed)
    assert (tmp_path / "a.trec").read_text() == expected
    with pytest.raises(ValueError) as error:
        rank(dataclasses.replace(config, feature_columns=("w", "y")))
    assert str(error.value) == (
        "`feature_columns=('w', 'y')` names 2 columns, but the model takes 3 features."
    )


def test_tables_that_are_wrong(world, tmp_path):
    path = tmp_path / "new.csv"
    head = "query,f1,f2,f3,f4\n"
    path.write_text(head + "a,1,1,1,1\na,1,1,nan,1\n")
    told = refused(world, tmp_path, input=path, **{**TABLE, "doc_id_column": ""})
    assert told.startswith(f"{path}:3: row 1: column 'f3' is nan, expected a finite")
    path.write_text(head + "a,1,1,1,1\nb,1,1,1,1\na,1,1,1,1\n")
    told = refused(world, tmp_path, input=path, **{**TABLE, "doc_id_column": ""})
    assert told.startswith(f"{path}:4: row 2: query 'a' began in row 0 and other rows")
    told = refused(world, tmp_path, input=path, query_column="query")
    assert told == (
        "The model was not trained on a table, and does not know the names of its 4 "
        "features. Name their columns with `feature_columns`, in the order of the "
        "training."
    )


def test_names_with_blanks(world, tmp_path, monkeypatch):
    """A run has them encoded; two lists of one name are refused wherever they are."""
    path = tmp_path / "new.txt"
    path.write_text("")
    lists = one_list(np.ones([2, WIDTH]))
    named = [dataclasses.replace(lists, query_ids=[x]) for x in ("a b", "a%20b")]
    monkeypatch.setattr(list_ranker, "read", lambda *args: iter(named))
    assert "The queries 'a b' and 'a%20b' would have the same name in TREC files" in (
        refused(world, tmp_path, input=path)
    )
    rank(RankConfig(export=world.export, input=path, output=tmp_path / "a.csv"))
    assert "\na b,a b-1,1,1," in (tmp_path / "a.csv").read_text()
    monkeypatch.setattr(list_ranker, "read", lambda *args: iter(named[:1]))
    rank(RankConfig(export=world.export, input=path, output=tmp_path / "a.trec"))
    assert (tmp_path / "a.trec").read_text().startswith("a%20b Q0 a%20b-1 1 ")
    assert "the name of the run" in refused(world, tmp_path, input=path, tag="a b")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"input": (), "output": None}, "`input` and `output` must be given"),
        ({"input": ()}, "`input` must be given"),
        ({"output": "ranked.txt"}, "`output='ranked.txt'`: the name implies no "
         "format. Give one with `format`, or use one of these endings: .trec, .run for "
         "'trec'"),
        ({"output": "-"}, "`output='-'`: the name implies no format."),
        ({"input": ["a.txt", "b.tfrecord"]}, "The ends of their names imply several: "
         "elwc, text. If all files have the same format, name it with `dataset`"),
        ({"output": "a.csv", "tag": "x"}, "`tag` has no meaning without"),
        ({"format": "xml"}, "`format` must be one of"),
        ({"dataset": "synthetic"}, "`dataset` must be one of"),
        ({"query_column": "q"}, "`query_column='q'` has no meaning with "
         "`dataset='text'`, which has no such columns."),
        ({"input": "a.csv", "query_column": ""}, "`query_column` must name a column"),
        ({"topn": 0}, "`topn` must be an integer >= 1"),
        ({"batch_size": 0}, "`batch_size` must be an integer >= 1"),
    ],
)  # fmt: skip
def test_settings_that_are_wrong(settings, told):
    given = {"export": "e", "input": "a.txt", "output": "a.trec"}
    with pytest.raises(ValueError) as error:
        RankConfig(**{**given, **settings})
    assert told in str(error.value)


@pytest.mark.parametrize("names", [["a.tfrecord"], ["a.csv", "b"], ["a.pq", "b.csv"]])
def test_a_pattern_that_hides_the_format_of_its_files(names, world, tmp_path):
    for name in names:
        (tmp_path / name).write_text("qid:a 1:1\n")
    given = {"input": f"{tmp_path}/*", "output": str(tmp_path / "a.trec")}
    told = (
        rf"/\*',\)` does not end as its files do, such as {tmp_path}/{names[0]}: name"
    )
    with pytest.raises(ValueError, match=told):
        rank(RankConfig(export="e", **given))


def test_every_format_has_a_reader_or_a_writer():
    assert list_ranker._READERS.keys() == _INPUTS.keys()
    assert ranked_formats.WRITERS.keys() == _OUTPUTS.keys()


# The file that is written.


def test_no_file_is_replaced_unasked(world, tmp_path):
    path, output = tmp_path / "new.txt", tmp_path / "a.trec"
    path.write_text("qid:a 1:1\nqid:a 2:1\n")
    output.write_text("mine")
    config = RankConfig(export=world.export, input=path, output=output)
    with pytest.raises(ValueError) as error:
        rank(config)
    assert str(error.value) == (
        f"`output={str(output)!r}` exists already. Name another file, or replace it "
        "with `overwrite=True`."
    )
    model = os.path.join(world.export, "1", "saved_model.pb")
    (tmp_path / "link.trec").symlink_to(path)
    new = os.path.join(world.export, "1", "new.trec")
    for where in (path, tmp_path / "link.trec", model, new):
        again = dataclasses.replace(
            config, output=str(where), format="trec", overwrite=True
        )
        with pytest.raises(ValueError, match="is an input file|which is an input"):
            rank(again)
    with pytest.raises(ValueError, match="must be a file, but is something else"):
        rank(dataclasses.replace(config, output=str(tmp_path), format="trec"))
    assert output.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["a.trec", "link.trec", "new.txt"]
    rank(dataclasses.replace(config, overwrite=True))
    assert len(output.read_text().splitlines()) == 2


def test_a_failure_leaves_the_file_before_as_it_was(world, tmp_path):
    path, output = tmp_path / "new.txt", tmp_path / "a.trec"
    path.write_text("qid:a 1:1\nqid:a x:1\n")
    output.write_text("mine")
    before = content(tmp_path)
    config = RankConfig(export=world.export, input=path, output=output, overwrite=True)
    with pytest.raises(data.DataFormatError, match="new.txt:2: a feature has no index"):
        rank(config)
    assert content(tmp_path) == before


@pytest.mark.first_case
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_killed_leaves_no_output(world, tmp_path, sent):
    """In the middle of a file, of which much was ranked and written aside."""
    pipe, output = tmp_path / "pipe", tmp_path / "out" / "a.trec"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "pipelines.rank", f"--export={world.export}"),
            *(f"--input={pipe}", f"--output={output}"),
        ],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        # A test may run in the background, where shells hide it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    new = RankConfig(export=world.export, input=tmp_path / "new.txt", output=output)
    (tmp_path / "new.txt").write_text("qid:a 1:1\n")

    def written_aside():
        found = [*(tmp_path / "out").glob(".tfr_ext-writing-*-a.trec")]
        return sum(path.stat().st_size for path in found)

    with open(pipe, "w") as file:
        file.writelines(f"qid:{row // 100}\n" for row in range(320_000))
        file.flush()
        deadline = time.monotonic() + 60
        while not written_aside():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        with pytest.raises(ValueError, match="another process is writing .*a.trec"):
            rank(new)
        rank(dataclasses.replace(new, output=str(tmp_path / "out" / "b.trec")))
        assert written_aside()
        process.send_signal(sent)
        told = process.communicate()[1]
    assert not output.exists()
    if sent == signal.SIGKILL:
        assert process.returncode == -sent
    else:
        assert process.returncode == 128 + sent and told.endswith("\nStopped.\n")
    rank(new)  # It removes what was left aside.
    assert sorted(os.listdir(tmp_path / "out")) == ["a.trec", "b.trec"]
    assert len(output.read_text().splitlines()) == 1
