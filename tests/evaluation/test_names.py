"""Any names of queries and documents are written, read again and joined.

Blanks and control characters are %XX in TREC files, and themselves elsewhere.
"""

import dataclasses
import os
import unicodedata

import numpy as np
import pytest
import pytrec_eval
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.files import in_files
from tests.helpers import make_lists
from tfr_ext import data, evaluation
from tfr_ext.evaluation import runs
from tfr_ext.evaluation.trec_names import QueryNames
from tfr_ext.runs import outputs
from tfr_ext.scoring.run_fuser import FusionConfig, fuse
from tfr_ext.training import EvaluationConfig, MetricsConfig, evaluate

BLANKS = [chr(c) for c in range(0x10000) if chr(c).isspace()]
CONTROLS = [chr(c) for c in range(0x100) if unicodedata.category(chr(c)) == "Cc"]
OTHERS = ["a", "7", "%", "%20", "%2", "Ä", "\u200b", "\U0001f45f", "\ufeff", "#", '"']
NAME = st.lists(
    st.sampled_from(BLANKS) | st.sampled_from(CONTROLS) | st.sampled_from(OTHERS),
    min_size=1,
    max_size=4,
).map("".join)
# By how tables read the ends of lines, and a NUL.
IN_TABLES = NAME.filter(lambda name: not {*name} & {*"\0\r"})


def lists_of(queries, documents=None, seed=0):
    lists = make_lists([2] * len(queries), seed=seed, doc_ids=documents)
    return data.RankingLists(
        lists.features, lists.labels, lists.row_splits, queries, documents
    )


def parsed(parse, path):
    with open(path, encoding="utf-8") as file:
        return parse(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("names"))


@settings(max_examples=200)
@given(st.lists(NAME, min_size=1, max_size=3, unique_by=in_files), st.data())
@example(["red shoes", "100%", "a\u00a0b"], None)
def test_trec_files_hold_any_names(folder, queries, drawn):
    twice = st.lists(NAME, min_size=2 * len(queries), max_size=2 * len(queries))
    documents = None if drawn is None else drawn.draw(st.none() | twice)
    lists = lists_of(queries, documents)
    scores = np.arange(2.0 * len(queries))
    run, qrels = (os.path.join(folder, name) for name in ("run", "qrels"))
    evaluation.write_run(run, lists, scores, "tag")
    assert evaluation.write_qrels(qrels, lists)
    values = {"map": scores[: len(queries)]}
    outputs.write_per_query(folder, lists, values)
    expected = list(map(in_files, queries))
    found = evaluation.read_run(run, lists)
    assert list(found.documents) == expected
    assert evaluation.read_qrels(qrels).query_ids == expected
    assert runs.read("A", [f"{folder}/per_query.tsv"]).members[0].queries == tuple(
        expected
    )
    # They are joined with the lists, whose documents may have equal names.
    assert not found.missing(lists) and not found.unjudged(lists)
    assert found.only([lists]).documents == found.documents
    again, (joined,) = evaluation.with_runs(lists, [found])
    np.testing.assert_array_equal(joined, scores)
    assert again.query_ids == queries and again.num_items == lists.num_items
    # So does trec_eval.
    theirs = pytrec_eval.RelevanceEvaluator(
        parsed(pytrec_eval.parse_qrel, qrels), {"map"}
    ).evaluate(parsed(pytrec_eval.parse_run, run))
    ours = evaluation.per_query(
        lists, scores, ["map"], evaluation.Convention(gain="linear")
    )
    assert [theirs[name]["map"] for name in expected] == pytest.approx(
        ours["map"].tolist(), abs=1e-12
    )


ODD = [
    *("red shoes", "a\tb", "a\nb", "\r", "a\u00a0b", "#q", "#", "# by X", "100%20"),
    *('say "a"', "'", "a,b", "\ufeffa", "a\ufeff", "\u0663", "\U0001f45f", "a\0b"),
    *("\x1c", "\x85", "-1", "1e5", "q=1", "a:b"),
]


def test_commands_read_what_commands_write(tmp_path):
    """Odd names of queries and documents, from one command to the next."""
    lists = make_lists([len(ODD)] * len(ODD), doc_ids=ODD * len(ODD))
    lists = dataclasses.replace(lists, query_ids=ODD)
    run, qrels = (str(tmp_path / name) for name in ("run", "qrels"))
    scores = np.random.default_rng(0).permutation(1.0 * np.arange(lists.num_items))
    evaluation.write_run(run, lists, scores, "#tag")
    assert evaluation.write_qrels(qrels, lists)
    names = list(map(in_files, ODD))
    metrics = MetricsConfig(("mrr", "ndcg"))
    expected = evaluation.per_query(lists, scores, metrics.metrics)
    for number in range(3):  # Of what the command wrote, again.
        out = str(tmp_path / str(number))
        found = evaluate(
            EvaluationConfig(run=run, qrels=qrels, metrics=metrics, output_dir=out)
        )
        run, qrels = f"{out}/run.trec", f"{out}/qrels.trec"
        assert list(found.query_ids) == names
        assert evaluation.read_run(run).tag == "#tag"
        judged = evaluation.read_qrels(qrels)
        assert (judged.query_ids, judged.doc_ids) == (names, names * len(ODD))
        np.testing.assert_array_equal(judged.labels, lists.labels)
        (member,) = runs.read("A", [out]).members
        assert member.queries == tuple(names)
        for name, values in expected.items():
            np.testing.assert_array_equal(found.per_query[name], values)
            np.testing.assert_allclose(member.values[name], values, rtol=1e-8)
    fused = fuse(FusionConfig((out, str(tmp_path / "0")), fusion="rank")).evaluation
    assert list(fused.query_ids) == names
    np.testing.assert_array_equal(fused.per_query["ndcg"], expected["ndcg"])
    # A table of another program, with the names of which its lines can consist.
    (tmp_path / "other").mkdir()
    rows = [
        (name, value)
        for name, value in zip(ODD, expected["mrr"])
        if not {*name} & {*"\0\t\n"}
    ]
    text = "".join(f"{name}\t{value}\n" for name, value in rows)
    (tmp_path / "other" / "mine.tsv").write_text(f"query\tmrr\n{text}", newline="")
    (member,) = runs.read("A", [str(tmp_path / "other" / "mine.tsv")]).members
    assert member.queries == tuple(in_files(name) for name, _ in rows)


@pytest.mark.parametrize("names", [("a b", "a%20b"), ("\x1c", "%1C")])
def test_two_names_that_become_one_are_refused_in_files(tmp_path, names):
    """Of programs that do not encode them; the first pair is none in TREC files."""
    path = tmp_path / "file"
    if " " not in names[0]:
        for form, read in (
            ("{} Q0 {} 1 1 t\n", evaluation.read_run),
            ("{} 0 {} 1\n", evaluation.read_qrels),
        ):
            pairs = [("q", name) for name in names], [(name, "d") for name in names]
            for rows in pairs:
                path.write_text("".join(form.format(*row) for row in rows))
                with pytest.raises(ValueError, match=f"{path}: .*(only in|same name)"):
                    read(str(path))
    path.write_text("query\tmap\n" + "".join(f"{name}\t1\n" for name in names))
    with pytest.raises(ValueError, match=f"{path}:3: query .* comes twice"):
        runs.read("A", [str(path)])


@given(NAME)
def test_two_queries_that_become_one_are_refused(folder, name):
    assume(name != in_files(name))
    lists = lists_of([name, in_files(name)])
    for write in (
        lambda: evaluation.write_run(f"{folder}/none", lists, np.ones(4), "tag"),
        lambda: evaluation.write_qrels(f"{folder}/none", lists),
        lambda: outputs.write_per_query(f"{folder}/none", lists, {}),
        lambda: QueryNames().check(lists),
    ):
        with pytest.raises(ValueError) as error:
            write()
        assert f"The queries {name!r} and {in_files(name)!r} would have" in str(
            error.value
        )
    assert not os.path.exists(f"{folder}/none")


@pytest.mark.parametrize("name", ["", "\ud800"])
def test_names_that_no_file_holds_are_refused(name):
    with pytest.raises(ValueError, match="the name of a query is"):
        QueryNames().check(lists_of([name]))
    lists = lists_of(["q"], ["d", name])
    for check in (QueryNames().check, evaluation.document_names):
        with pytest.raises(ValueError, match="the name of a document is"):
            check(lists)


@given(st.lists(NAME, min_size=1, max_size=3, unique=True))
def test_a_run_with_names_as_they_are_is_joined(queries):
    """One of a program that does not encode them, where two are not one."""
    lists = lists_of(queries, [name for name in queries for _ in range(2)])
    documents = {name: {name: 1.0} for name in queries}
    run = evaluation.TrecRun(documents, "tag")
    if len(set(map(in_files, queries))) < len(queries):
        with pytest.raises(ValueError, match="would have the same name"):
            run.missing(lists)
        return
    assert not run.missing(lists) and not run.unjudged(lists)
    _, (scores,) = evaluation.with_runs(lists, [run])
    assert scores.tolist() == [1, -np.inf] * len(queries)


@settings(max_examples=30)
@given(st.lists(IN_TABLES, min_size=1, max_size=4, unique=True))
def test_tables_hold_names_as_they_are(folder, names):
    pandas = pytest.importorskip("pandas")
    lists = lists_of(names, [name for name in names for _ in range(2)])
    rows = [name for name in names for _ in range(2)]
    frame = pandas.DataFrame(
        {"query_id": rows, "doc_id": rows, "label": lists.labels, "x": 1.0}
    )
    path = f"{folder}/table.csv"
    frame.to_csv(path, index=False)
    found = data.read_table(path, "label", "query_id", ["x"], doc_id="doc_id")
    assert (found.query_ids, found.doc_ids) == (names, rows)


@settings(max_examples=30)
@given(st.lists(NAME, min_size=1, max_size=4, unique=True))
def test_shards_hold_names_as_they_are(folder, names):
    pytest.importorskip("tensorflow_ranking")
    from tfr_ext.data.elwc import writing

    lists = lists_of(names, [name for name in names for _ in range(2)])
    with writing.ShardWriter(folder, "x.tfrecord") as writer:
        writer.write(lists)
    found = data.read_elwc(f"{folder}/x.tfrecord")
    assert (found.query_ids, found.doc_ids) == (names, lists.doc_ids)
