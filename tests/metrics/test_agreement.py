"""Every metric against the field's own tools, where they define it."""

import dataclasses
import shutil

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from ir_measures import AP, ERR, RR, P, nDCG

from tests.conftest import make_lists
from tfr_ext import metrics

# Ties, lists of one, lists without anything relevant, long lists.
LENGTHS = [1, 1, 2, 3, 5, 8, 13, 40, 120] * 4
NAMES = [
    *("ndcg_1", "ndcg_3", "ndcg_10", "ndcg", "precision_1", "precision_5"),
    *("precision_10", "map", "map_5", "mrr", "err_5", "err_10"),
]
TREC_EVAL = {
    "ndcg_1": "ndcg_cut_1",
    "ndcg_3": "ndcg_cut_3",
    "ndcg_10": "ndcg_cut_10",
    "ndcg": "ndcg",
    "precision_1": "P_1",
    "precision_5": "P_5",
    "precision_10": "P_10",
    "map": "map",
    "map_5": "map_cut_5",
    "mrr": "recip_rank",
}
IR_MEASURES = {
    "ndcg_3": nDCG @ 3,
    "ndcg_10": nDCG @ 10,
    "ndcg": nDCG,
    "precision_5": P @ 5,
    "map": AP,
    "map_5": AP @ 5,
    "mrr": RR,
}
if shutil.which("perl"):  # by gdeval, which takes grades of at most 4 for granted
    IR_MEASURES.update({"err_5": ERR @ 5, "err_10": ERR @ 10})


@pytest.fixture(params=["untied", "tied", "all equal"])
def case(request, tmp_path):
    rng = np.random.default_rng(len(request.param))
    # gdeval takes numbers only for queries.
    lists = dataclasses.replace(
        make_lists(LENGTHS, seed=1),
        query_ids=[str(q + 1) for q in range(len(LENGTHS))],
    )
    lists.labels[:] = rng.integers(0, 5, lists.num_items)
    for q in range(0, lists.num_lists, 5):
        lists.labels[lists.row_splits[q] : lists.row_splits[q + 1]] = 0
    scores = {
        "untied": rng.permutation(lists.num_items),
        "tied": rng.integers(0, 4, lists.num_items),
        "all equal": np.zeros(lists.num_items),
    }[request.param].astype(np.float32)
    run, qrels = str(tmp_path / "run"), str(tmp_path / "qrels")
    metrics.write_run(run, lists, scores, "tag")
    metrics.write_qrels(qrels, lists)
    return lists, scores, run, qrels


CONVENTION = metrics.Convention(gain="linear", max_label=4)


def trec_eval(run_path, qrels_path):
    with open(run_path) as file:
        run = pytrec_eval.parse_run(file)
    with open(qrels_path) as file:
        qrels = pytrec_eval.parse_qrel(file)
    measures = set(TREC_EVAL.values())
    return pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)


def by_ir_measures(run_path, qrels_path):
    results = {}
    for value in ir_measures.iter_calc(
        list(IR_MEASURES.values()),
        list(ir_measures.read_trec_qrels(qrels_path)),
        list(ir_measures.read_trec_run(run_path)),
    ):
        results.setdefault(str(value.measure), {})[value.query_id] = value.value
    return results


def test_trec_eval_agrees(case):
    lists, scores, run, qrels = case
    values = metrics.per_query(lists, scores, NAMES, CONVENTION)
    theirs = trec_eval(run, qrels)
    for name, measure in TREC_EVAL.items():
        expected = [theirs[q][measure] for q in lists.query_ids]
        np.testing.assert_allclose(values[name], expected, atol=1e-6, err_msg=name)


def test_ir_measures_agree(case):
    lists, scores, run, qrels = case
    values = metrics.per_query(lists, scores, NAMES, CONVENTION)
    theirs = by_ir_measures(run, qrels)
    for name, measure in IR_MEASURES.items():
        expected = [theirs[str(measure)].get(q, 0.0) for q in lists.query_ids]
        # gdeval prints five digits.
        atol = 1.1e-5 if name.startswith("err") else 1e-6
        np.testing.assert_allclose(values[name], expected, atol=atol, err_msg=name)


def test_a_run_file_read_again_agrees(case):
    lists, scores, run, _ = case
    again, ranks = metrics.read_run(run, lists)
    np.testing.assert_array_equal(again.labels, lists.labels)
    expected = metrics.per_query(lists, scores, NAMES, CONVENTION)
    values = metrics.per_query(again, ranks, NAMES, CONVENTION)
    for name in NAMES:
        np.testing.assert_allclose(values[name], expected[name], err_msg=name)


def test_a_foreign_run_agrees_with_trec_eval(tmp_path):
    """Ties that go by name, documents not judged, and judged ones not retrieved."""
    rng = np.random.default_rng(0)
    lists = make_lists([6, 30, 9, 4], seed=2)
    names = metrics.document_names(lists)
    path, qrels = tmp_path / "run", str(tmp_path / "qrels")
    metrics.write_qrels(qrels, lists)
    with open(path, "w") as file:
        for q, query in enumerate(lists.query_ids[:3]):  # the last is not in the run
            own = names[lists.row_splits[q] : lists.row_splits[q + 1]]
            shown = [name for name in own if rng.uniform() < 0.7]
            shown += [f"new{i}" for i in range(4)]
            for name in rng.permutation(shown):
                file.write(f"{query} Q0 {name} 0 {rng.integers(0, 3)}.5 tag\n")
    again, ranks = metrics.read_run(str(path), lists)
    values = metrics.per_query(again, ranks, NAMES, CONVENTION)
    theirs = trec_eval(path, qrels)
    assert len(theirs) == 3
    for name, measure in TREC_EVAL.items():
        expected = [theirs.get(q, {}).get(measure, 0.0) for q in lists.query_ids]
        np.testing.assert_allclose(values[name], expected, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("q0 Q0 q0-1 1 0.5", "expected `query Q0 document rank score tag`"),
        ("q0 Q0 q0-1 1 high tag", "finite score"),
        ("q0 Q0 q0-1 1 nan tag", "finite score"),
        ("q0 Q0 q0-2 1 0.1 tag", "comes twice"),
    ],
)
def test_bad_lines_of_a_run_are_told(tmp_path, line, told):
    path = tmp_path / "run"
    path.write_text(f"q0 Q0 q0-2 1 0.7 tag\n{line}\n")
    with pytest.raises(ValueError, match=f"run:2: .*{told}"):
        metrics.read_run(str(path), make_lists([3]))


def test_a_run_of_other_queries_is_told(tmp_path):
    path = tmp_path / "run"
    path.write_text("x Q0 d 1 0.7 tag\n")
    with pytest.raises(ValueError, match="no query of the run"):
        metrics.read_run(str(path), make_lists([3]))
