"""Any names of queries and documents are written, read again and joined.

Blanks and control characters are %XX in TREC files, and themselves elsewhere.
"""

import os
import unicodedata

import numpy as np
import pytest
import pytrec_eval
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.helpers import make_lists
from tfr_ext import data, evaluation
from tfr_ext.evaluation import runs
from tfr_ext.evaluation.trec_names import QueryNames
from tfr_ext.training import outputs

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


def in_files(name):
    """The name as TREC files hold it, letter by letter."""
    return "".join(
        "".join(f"%{byte:02X}" for byte in letter.encode())
        if letter.isspace()
        or unicodedata.category(letter) == "Cc"
        or (i == 0 and letter == "\ufeff")  # A byte order mark, where a file begins.
        else letter
        for i, letter in enumerate(name)
    )


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
