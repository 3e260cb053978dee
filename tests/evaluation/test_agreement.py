"""Every metric against the field's own tools, where they define it."""

import dataclasses
import json
import shutil

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from ir_measures import AP, ERR, RR, P, R, Success, nDCG

from tests.helpers import make_lists
from tfr_ext import data, evaluation
from tfr_ext.training import EvaluationConfig, MetricsConfig, evaluate

# Ties, lists of one, lists without anything relevant, long lists.
LENGTHS = [1, 1, 2, 3, 5, 8, 13, 40, 120] * 4
NAMES = [
    *("ndcg_1", "ndcg_3", "ndcg_10", "ndcg", "precision_1", "precision_5"),
    *("precision_10", "map", "map_5", "mrr", "mrr_5", "err_5", "err_10"),
    *("recall_5", "recall_10", "recall", "hits_1", "hits_5", "hits_10"),
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
    "recall_5": "recall_5",
    "recall_10": "recall_10",
    "recall": "set_recall",
    "hits_1": "success_1",
    "hits_5": "success_5",
    "hits_10": "success_10",
}
IR_MEASURES = {
    "ndcg_3": nDCG @ 3,
    "ndcg_10": nDCG @ 10,
    "ndcg": nDCG,
    "precision_5": P @ 5,
    "map": AP,
    "map_5": AP @ 5,
    "mrr": RR,
    "mrr_5": RR @ 5,
    "recall_5": R @ 5,
    "recall_10": R @ 10,
    "hits_1": Success @ 1,
    "hits_5": Success @ 5,
}
GAINS = {grade: 2**grade - 1 for grade in range(5)}
EXPONENTIAL = {
    "ndcg_1": nDCG(gains=GAINS) @ 1,
    "ndcg_10": nDCG(gains=GAINS) @ 10,
    "ndcg": nDCG(gains=GAINS),
}
if shutil.which("perl"):  # by gdeval, which takes grades of at most 4 for granted
    IR_MEASURES.update({"err_5": ERR @ 5, "err_10": ERR @ 10})
    EXPONENTIAL["ndcg_5"] = nDCG(dcg="exp-log2") @ 5
FROM_2 = {
    "precision_5": P(rel=2) @ 5,
    "map": AP(rel=2),
    "map_5": AP(rel=2) @ 5,
    "mrr": RR(rel=2),
    "mrr_5": RR(rel=2) @ 5,
    "recall_5": R(rel=2) @ 5,
    "hits_5": Success(rel=2) @ 5,
}


@pytest.fixture(params=["untied", "tied", "all equal", "equal as 32-bit floats"])
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
        "equal as 32-bit floats": 1 + 1e-12 * rng.permutation(lists.num_items),
    }[request.param]
    run, qrels = str(tmp_path / "run"), str(tmp_path / "qrels")
    evaluation.write_run(run, lists, scores, "tag")
    evaluation.write_qrels(qrels, lists)
    return lists, scores, run, qrels


CONVENTION = evaluation.Convention(gain="linear", max_label=4)


def trec_eval(run_path, qrels_path, relevance_level=1):
    with open(run_path) as file:
        run = pytrec_eval.parse_run(file)
    with open(qrels_path) as file:
        qrels = pytrec_eval.parse_qrel(file)
    measures = set(TREC_EVAL.values())
    return pytrec_eval.RelevanceEvaluator(
        qrels, measures, relevance_level=relevance_level
    ).evaluate(run)


def assert_ir_measures_agree(values, lists, run_path, qrels_path, measures):
    theirs = {}
    for value in ir_measures.iter_calc(
        list(measures.values()),
        list(ir_measures.read_trec_qrels(qrels_path)),
        list(ir_measures.read_trec_run(run_path)),
    ):
        theirs.setdefault(str(value.measure), {})[value.query_id] = value.value
    for name, measure in measures.items():
        expected = [theirs[str(measure)].get(q, 0.0) for q in lists.query_ids]
        # gdeval prints five digits.
        by_gdeval = measure.NAME == "ERR" or "exp" in str(measure)
        atol = 1.1e-5 if by_gdeval else 1e-12
        np.testing.assert_allclose(values[name], expected, atol=atol, err_msg=name)


def test_trec_eval_agrees(case):
    lists, scores, run, qrels = case
    values = evaluation.per_query(lists, scores, NAMES, CONVENTION)
    theirs = trec_eval(run, qrels)
    for name, measure in TREC_EVAL.items():
        expected = [theirs[q][measure] for q in lists.query_ids]
        np.testing.assert_allclose(values[name], expected, atol=1e-12, err_msg=name)


def test_ir_measures_agree(case):
    lists, scores, run, qrels = case
    for convention, measures in (
        (CONVENTION, IR_MEASURES),
        (dataclasses.replace(CONVENTION, gain="exponential"), EXPONENTIAL),
        (dataclasses.replace(CONVENTION, relevance_threshold=2.0), FROM_2),
    ):
        values = evaluation.per_query(lists, scores, list(measures), convention)
        assert_ir_measures_agree(values, lists, run, qrels, measures)


def test_a_run_file_read_again_agrees(case):
    lists, scores, run, _ = case
    again, ranks = evaluation.read_run(run, lists).ranked(lists)
    np.testing.assert_array_equal(again.labels, lists.labels)
    expected = evaluation.per_query(lists, scores, NAMES, CONVENTION)
    values = evaluation.per_query(again, ranks, NAMES, CONVENTION)
    for name in NAMES:
        np.testing.assert_allclose(values[name], expected[name], err_msg=name)


def test_a_foreign_run_agrees_with_trec_eval(tmp_path):
    """Ties that go by name, documents not judged, and judged ones not retrieved."""
    rng = np.random.default_rng(0)
    lists = dataclasses.replace(
        make_lists([6, 30, 9, 4], seed=2), query_ids=["1", "2", "3", "4"]
    )
    names = evaluation.document_names(lists)
    path, qrels = tmp_path / "run", str(tmp_path / "qrels")
    evaluation.write_qrels(qrels, lists)
    with open(path, "w") as file:
        for q, query in enumerate(lists.query_ids[:3]):  # the last is not in the run
            own = names[lists.row_splits[q] : lists.row_splits[q + 1]]
            shown = [name for name in own if rng.uniform() < 0.7]
            shown += [f"new{i}" for i in range(4)]
            for name in rng.permutation(shown):
                file.write(f"{query} Q0 {name} 0 {rng.integers(0, 3)}.5 tag\n")
        file.write("9 Q0 anything 0 1.5 tag\n")
    run = evaluation.read_run(str(path), lists)
    assert run.missing(lists) == ["4"] and run.unjudged(lists) == ["9"]
    again, ranks = run.ranked(lists)
    written = str(tmp_path / "written")
    evaluation.write_run(written, again, ranks, "tag")  # without the unjudged query
    for threshold in (1, 2):
        convention = dataclasses.replace(CONVENTION, relevance_threshold=threshold)
        values = evaluation.per_query(again, ranks, NAMES, convention)
        for run_path, queries in ((path, 3), (written, 3)):
            theirs = trec_eval(run_path, qrels, threshold)
            assert len(theirs) == queries
            for name, measure in TREC_EVAL.items():
                expected = [theirs.get(q, {}).get(measure, 0) for q in lists.query_ids]
                np.testing.assert_allclose(values[name], expected, atol=1e-12)
    values = evaluation.per_query(again, ranks, NAMES, CONVENTION)
    # ir-measures breaks ties by its own rules, so of the run as written.
    assert_ir_measures_agree(values, lists, written, qrels, IR_MEASURES)


@pytest.mark.parametrize("seed", range(3))
def test_a_run_and_qrels_alone_agree(tmp_path, seed):
    """With ties, unjudged documents, negative grades, and queries on one side only."""
    rng = np.random.default_rng(seed)
    run, qrels = str(tmp_path / "run"), str(tmp_path / "qrels")
    judged = {str(q): rng.choice(60, rng.integers(1, 40), False) for q in range(1, 9)}
    with open(qrels, "w") as file:
        for query, documents in judged.items():
            for document in documents:
                file.write(f"{query} 0 d{document} {rng.integers(-2, 5)}\n")
        file.write("1 0 best 4\n")  # gdeval takes 4 for the highest grade.
    with open(run, "w") as file:
        for query in range(3, 12):
            for document in rng.choice(60, rng.integers(1, 50), False):
                file.write(f"{query} Q0 d{document} 1 {rng.integers(0, 9)} tag\n")
    out, written = tmp_path / "out", str(tmp_path / "out" / "run.trec")
    for threshold, gain, measures in (
        *((1, "linear", IR_MEASURES), (2, "linear", FROM_2)),
        (1, "exponential", EXPONENTIAL),
    ):
        names = list(dict.fromkeys([*NAMES, *measures]))
        metrics = MetricsConfig(tuple(names), "zero", gain, threshold)
        found = evaluate(
            EvaluationConfig(metrics=metrics, run=run, qrels=qrels, output_dir=str(out))
        )
        assert found.query_ids == list(judged) and found.convention.max_label == 4
        report = json.loads((out / "metrics.json").read_text())
        assert (report["missing_queries"], report["unjudged_queries"]) == (2, 3)
        theirs = trec_eval(run, qrels, threshold)
        for name, measure in TREC_EVAL.items():
            if gain == "linear" or not name.startswith("ndcg"):
                expected = [theirs.get(q, {}).get(measure, 0) for q in found.query_ids]
                np.testing.assert_allclose(found.per_query[name], expected, atol=1e-12)
                assert found.metrics[name] == pytest.approx(np.mean(expected), 1e-12)
        lists = evaluation.read_qrels(str(out / "qrels.trec"))
        assert_ir_measures_agree(
            found.per_query, lists, written, str(out / "qrels.trec"), measures
        )


def test_mq2008_agrees(real_data, tmp_path):
    lists = data.read_letor([str(real_data / "MQ2008" / "Fold1" / "test.txt")])
    scores = lists.features[:, 24]  # some query-document scores, with ties
    run, qrels = str(tmp_path / "run"), str(tmp_path / "qrels")
    evaluation.write_run(run, lists, scores, "tag")
    assert evaluation.write_qrels(qrels, lists)
    assert len(np.unique(scores)) < lists.num_items and lists.num_empty == 51
    values = evaluation.per_query(lists, scores, NAMES, CONVENTION)
    theirs = trec_eval(run, qrels)
    for name, measure in TREC_EVAL.items():
        expected = [theirs[q][measure] for q in lists.query_ids]
        np.testing.assert_allclose(values[name], expected, atol=1e-12, err_msg=name)
    assert_ir_measures_agree(values, lists, run, qrels, IR_MEASURES)


BAD_NUMBERS = ["1_0", "high", "nan", "\u0663", "0x1", "9" * 40, "-" + "9" * 400, ""]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("q0 Q0 q0-1 1 0.5", "expected `query Q0 document rank score tag`"),
        *((f"q0 Q0 d 1 {text} tag", "with a finite score") for text in BAD_NUMBERS),
        ("q0 Q0 d 1 1 t\0", "NUL byte"),
        ("q0 Q0 d 1 1 t \0", "NUL byte"),
        ("# \0", "NUL byte"),
        ("q0 Q0 d 1 1 t\rq0 Q0 e 1 1 t", "expected `query Q0 document rank score tag`"),
        ("q0 Q0 q0-2 1 0.1 tag", "comes twice"),
    ],
)
def test_bad_lines_of_a_run_are_told(tmp_path, line, told):
    path = tmp_path / "run"
    path.write_text(f"q0 Q0 q0-2 1 0.7 tag\n{line}\n", newline="")
    with pytest.raises(ValueError, match=f"run:2: .*{told}"):
        evaluation.read_run(str(path), make_lists([3]))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        *(("q 0 d", "`query 0 document grade`"), ("q 0 d 1 1", "an integer grade")),
        *((f"q 0 d {text}", "an integer grade") for text in [*BAD_NUMBERS, "2.0"]),
        ("q 0 d 16777217", "an integer grade up to 16777216. Found"),
        ("q 0 d -" + "9" * 5000, "an integer grade up to 16777216. Found"),
        *((f"{line}\0", "NUL byte") for line in ("q 0 d 1", "q 0 d 1 ", "#")),
        ("q 0 a 1", "comes twice"),
    ],
)
def test_bad_lines_of_qrels_are_told(tmp_path, line, told):
    path = tmp_path / "qrels"
    path.write_text(f"q 0 a 16777216\n{line}\n", newline="")
    with pytest.raises(ValueError, match=f"qrels:2: .*{told}"):
        evaluation.read_qrels(str(path))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_comments_and_words_after_the_tag_are_left_out(tmp_path, ending):
    path = tmp_path / "file"
    lines = [
        *("# produced by X", " #", "# grades are 3", "#by Q0 d one 0.5 tag", ""),
        *("# of 5 6 7 8", "#q1 Q0 d 1 high tag", "#q1 0 d 2.0"),
    ]
    run = ["q Q0 # 1 2 t#1 more # words", "#q1 Q0 d 1 0.5 tag", "q Q0 d#2 2 1 t"]
    path.write_text(ending.join([*lines, *run, *lines]), newline="")
    found = evaluation.read_run(str(path))
    assert found.documents == {"q": {"#": 2, "d#2": 1}, "#q1": {"d": 0.5}}
    assert found.tag == "t#1"
    path.write_text(ending.join([*lines, "#q1 0 # 2", "q Q0 d#2 -1", *lines]))
    lists = evaluation.read_qrels(str(path))
    assert (lists.query_ids, lists.doc_ids) == (["#q1", "q"], ["#", "d#2"])
    assert lists.labels.tolist() == [2, 0]
    path.write_text("# only comments\n")
    assert not evaluation.read_run(str(path)).documents
    with pytest.raises(ValueError, match="file: expected at least one judgement"):
        evaluation.read_qrels(str(path))


def test_qrels_of_beir_are_those_of_trec(tmp_path):
    path = tmp_path / "test.tsv"
    text = "query-id\tcorpus-id\tscore\nq1\td 1\t2\n#q2\td2\t-1\nq1\td2\t0\n"
    path.write_text(text.replace("d 1", "d1"))
    lists = evaluation.read_qrels(str(path))
    assert (lists.query_ids, lists.doc_ids) == (["q1", "#q2"], ["d1", "d2", "d2"])
    assert lists.labels.tolist() == [2, 0, 0]
    path.write_text(text)
    with pytest.raises(ValueError, match=r"tsv:2: expected `query document grade` "):
        evaluation.read_qrels(str(path))
    path.write_text("q1 0 d 1\n" + text)
    with pytest.raises(ValueError, match=r"tsv:2: expected `query 0 document grade` "):
        evaluation.read_qrels(str(path))


def test_a_run_of_other_queries_is_told(tmp_path):
    path = tmp_path / "run"
    path.write_text("x Q0 d 1 0.7 tag\n")
    with pytest.raises(ValueError, match="no query of the run"):
        evaluation.read_run(str(path), make_lists([3]))


def test_an_infinite_gain_is_told():
    lists = make_lists([2, 1], labels=[0, 1, 2000])
    values = evaluation.per_query(lists, np.ones(3), ["ndcg"])
    np.testing.assert_array_equal(values["ndcg"][1], 1)
    with pytest.raises(ValueError, match="dcg is infinite: the gain of label 2000"):
        evaluation.per_query(lists, np.ones(3), ["dcg"])


def test_lists_of_later_batches_are_not_read_before(monkeypatch):
    """New memory may hold infinity; 70,000 items are more than one batch."""
    lists = make_lists([20] * 3500)
    monkeypatch.setattr(np, "empty", lambda shape: np.full(shape, np.inf))
    found = evaluation.per_query(lists, np.arange(70_000.0), ["mrr"])["mrr"]
    assert np.isfinite(found).all()
