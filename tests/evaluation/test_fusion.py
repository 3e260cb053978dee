"""Fusion against plain loops, and by hand."""

import itertools

import numpy as np
import pytest
from scipy import stats

from tests.helpers import make_lists
from tfr_ext import evaluation
from tfr_ext.evaluation import fusion, trec

SPLITS = np.array([0, 4, 5, 9])


def random_scores(seed):
    """Scores with ties, a list of one, and items that the run lacks."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-3, 4, SPLITS[-1]) * 0.5
    scores[rng.random(len(scores)) < 0.2] = -np.inf
    return scores


def by_hand(scores, kind, k):
    """One list, in plain loops."""
    has = [s for s in scores if s > -np.inf]
    if not has:
        return [0.0] * len(scores)
    mean = sum(has) / len(has)
    deviation = (sum((s - mean) ** 2 for s in has) / len(has)) ** 0.5
    found = []
    for score in scores:
        lacks = score == -np.inf
        above = sum(s > score for s in has)
        rank = above + (sum(s == score for s in has) + 1) / 2
        if kind == "zscore":
            value = (min(has) if lacks else score) - mean
            found.append(value / deviation if deviation else 0.0)
        elif kind == "rank":
            found.append(-(len(has) + 1.0) if lacks else -rank)
        else:
            found.append(0.0 if lacks else 1 / (k + rank))
    return found


@pytest.mark.parametrize("kind", fusion.FUSIONS)
@pytest.mark.parametrize("seed", range(5))
def test_contributions_are_those_of_plain_loops(kind, seed):
    scores = random_scores(seed)
    found = evaluation.contributions(scores, SPLITS, kind, 7.0)
    expected = [
        value
        for start, end in itertools.pairwise(SPLITS)
        for value in by_hand(scores[start:end].tolist(), kind, 7.0)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_scipy_has_the_same_scores_and_ranks():
    scores = np.random.default_rng(1).normal(size=9).round(1)
    np.testing.assert_allclose(
        evaluation.contributions(scores, [0, 9]), stats.zscore(scores)
    )
    np.testing.assert_allclose(
        evaluation.contributions(scores, [0, 9], "rank"), -stats.rankdata(-scores)
    )


def test_reciprocal_rank_fusion_by_hand():
    """The sums of Cormack et al.'s formula, with their k."""
    one = evaluation.contributions([9.0, 8.0, 7.0, -np.inf], [0, 4], "rrf")
    two = evaluation.contributions([-np.inf, 0.3, 0.1, 0.2], [0, 4], "rrf")
    sums = 2 * evaluation.fused([one, two])
    expected = [1 / 61, 1 / 62 + 1 / 61, 1 / 63 + 1 / 63, 1 / 62]
    np.testing.assert_allclose(sums, expected, rtol=1e-12)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 7])
def test_the_grid_is_even_and_has_every_single_run(number):
    grid = evaluation.weight_grid(number)
    np.testing.assert_allclose(grid.sum(axis=1), 1)
    assert len({tuple(row) for row in grid.tolist()}) == len(grid) <= 300
    assert all(tuple(row) in {*map(tuple, grid.tolist())} for row in np.eye(number))
    steps = round(1 / np.min(grid[grid > 0]))
    np.testing.assert_allclose(grid * steps, np.round(grid * steps), atol=1e-9)
    spread = grid.var(axis=1)
    assert (np.diff(spread) > -1e-12).all()


def test_chosen_weights_are_the_best_of_the_grid():
    lists = make_lists([6, 9, 3, 7, 8], seed=2)
    rng = np.random.default_rng(0)
    good = lists.labels + rng.normal(0, 1.5, lists.num_items)
    runs = [good, rng.normal(size=lists.num_items), lists.labels + good[::-1]]
    contributed = [evaluation.contributions(run, lists.row_splits) for run in runs]
    convention = evaluation.Convention()
    chosen = evaluation.choose_weights(contributed, lists, "ndcg_5", convention)
    values = {}
    for weights in evaluation.weight_grid(3).tolist():
        scores = sum(w * c for w, c in zip(weights, contributed))
        found = evaluation.per_query(lists, scores, ["ndcg_5"], convention)
        values[tuple(weights)] = found["ndcg_5"].mean()
    assert chosen.tried == len(values) == 66
    assert abs(max(values.values()) - chosen.value) < 1e-12
    assert abs(values[chosen.weights] - chosen.value) < 1e-12
    # A cost is best where it is lowest; equal runs get equal weights.
    for metric in ("arp", "map"):
        same = evaluation.choose_weights([good, good], lists, metric, convention)
        assert same.weights == (0.5, 0.5)
    worse = evaluation.choose_weights([-good, good], lists, "arp", convention)
    assert worse.weights[1] > 0.5


def test_runs_join_lists_with_their_documents():
    lists = make_lists([2, 1], labels=[2, 0, 1], doc_ids=["a", "b", "a"])
    runs = [
        trec.TrecRun({"q0": {"b": 3.0, "z": 1.0}}, "x"),
        trec.TrecRun({"q0": {"y": 5.0}, "q1": {"a": 2.0}, "q9": {"a": 1.0}}, "y"),
    ]
    joined, scores = evaluation.with_runs(lists, runs)
    assert joined.doc_ids == ["a", "b", "y", "z", "a"]
    assert joined.labels.tolist() == [2, 0, 0, 0, 1]
    lacks = -np.inf
    assert scores.tolist() == [
        [lacks, 3.0, lacks, 1.0, lacks],
        [lacks, lacks, 5.0, lacks, 2.0],
    ]


def test_judgements_that_were_written_are_read(tmp_path):
    lists = make_lists([3, 1, 4], doc_ids=[*"abcadbca"])
    path = str(tmp_path / "qrels")
    evaluation.write_qrels(path, lists)
    found = evaluation.read_qrels(path)
    assert found.query_ids == lists.query_ids and found.doc_ids == lists.doc_ids
    np.testing.assert_array_equal(found.labels, lists.labels)
    np.testing.assert_array_equal(found.row_splits, lists.row_splits)


@pytest.mark.parametrize(
    "text, told",
    [
        ("q 0 a", "qrels:1: expected `query 0 document grade`"),
        ("q 0 a 1\nq 0 b 0.5", "qrels:2: expected .* with an integer grade"),
        ("q 0 a 1\nq 0 a 1", "qrels:2: document 'a' comes twice for query 'q'"),
        ("\n", "expected at least one judgement"),
    ],
)
def test_wrong_judgements(text, told, tmp_path):
    path = tmp_path / "qrels"
    path.write_text(text)
    with pytest.raises(ValueError, match=told):
        evaluation.read_qrels(str(path))
    path.write_text("q 0 a -2")
    assert evaluation.read_qrels(str(path)).labels.tolist() == [0]


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda: fusion.contributions([1.0], [0, 1], "sum"), "`fusion` must be"),
        (lambda: fusion.contributions([np.nan], [0, 1]), "`scores` must be finite"),
        (lambda: fusion.contributions([1.0], [0, 1], "rrf", -1), "`rrf_k` must be"),
        (lambda: fusion.fused([[1.0]], [1, 2]), "weight for each of the 1 runs"),
        (lambda: fusion.fused([[1.0], [2.0]], [1, -1]), "`weights` must be finite"),
        (lambda: fusion.fused([[1.0], [2.0]], [0, 0]), "not all of them 0"),
        (lambda: fusion.weight_grid(0), "`num_runs`"),
    ],
)
def test_wrong_arguments(call, told):
    with pytest.raises(ValueError, match=told):
        call()
