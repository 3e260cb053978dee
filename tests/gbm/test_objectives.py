"""Objectives of trees: derivatives against loops and differences; what they train."""

import math

import lightgbm
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import make_lists
from tfr_ext import evaluation, losses
from tfr_ext.gbm import (
    GradientObjective,
    ListwiseKLGaussianObjective,
    PointwiseKLBinomialObjective,
)
from tfr_ext.gbm.gradient_objective import HESSIANS

LENGTHS = (1, 4, 7, 3, 2)
SPLITS = np.concatenate([[0], np.cumsum(LENGTHS)])


def drawn(seed=0, highest=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, highest, SPLITS[-1]).astype(float)
    labels[SPLITS[3] : SPLITS[4]] = 0  # A list without a relevant item.
    return rng.normal(size=SPLITS[-1]) * 2, labels


def total(loss, scores, labels, weights=None):
    """The sum over lists of a loss, list by list: nothing is padded."""
    found = 0.0
    for start, end in zip(SPLITS, SPLITS[1:]):
        pair = labels[None, start:end], scores[None, start:end]
        if weights is not None:
            pair += (weights[None, start:end],)
        found += float(tf.reduce_sum(loss(*map(tf.constant, pair))))
    return found


def differences(function, scores, step=1e-5):
    """The gradient of a function of the scores, by central differences."""
    found = np.empty_like(scores)
    for i in range(len(scores)):
        one = np.zeros_like(scores)
        one[i] = step
        found[i] = (function(scores + one) - function(scores - one)) / (2 * step)
    return found


def pointwise_by_loops(scores, labels, trials, max_label, threshold, balance):
    """The loss of Eqs. 4 and 5 from both divergences, item by item."""
    value = 0.0
    for start, end in zip(SPLITS, SPLITS[1:]):
        for i in range(start, end):
            lo, hi = (start, end) if balance == "list" else (0, len(labels))
            classes = [labels[j] / max_label >= threshold for j in range(lo, hi)]
            own = classes[i - lo]
            weight = len(classes) / len(set(classes)) / classes.count(own)
            p = min(max(labels[i] / max_label, 1e-6), 1 - 1e-6)
            q = 1 / (1 + math.exp(-scores[i]))
            one = math.log(p / q) * p + math.log((1 - p) / (1 - q)) * (1 - p)
            other = math.log(q / p) * q + math.log((1 - q) / (1 - p)) * (1 - q)
            value += weight * trials * (one + other)
    return value


def listwise_by_loops(scores, labels, sigma, max_label, threshold, balance):
    """The loss of Eqs. 12 and 13, item by item."""
    value = 0.0
    for start, end in zip(SPLITS, SPLITS[1:]):
        lo, hi = (start, end) if balance == "list" else (0, len(labels))
        classes = [labels[j] / max_label >= threshold for j in range(lo, hi)]
        for i in range(start, end):
            own = classes[i - lo]
            weight = len(classes) / len(set(classes)) / classes.count(own)
            p = min(max(labels[i] / max_label, 1e-6), 1 - 1e-6)
            q = 1 / (1 + math.exp(-scores[i]))
            value += 0.5 * weight * (p - q) ** 2 / sigma**2
    return value


KL = {
    "pointwise": (PointwiseKLBinomialObjective, pointwise_by_loops, "num_trials", 3),
    "listwise": (ListwiseKLGaussianObjective, listwise_by_loops, "sigma", 0.5),
}


@pytest.mark.parametrize("balance", ["batch", "list"])
@pytest.mark.parametrize("kind", KL)
def test_kl_derivatives_are_those_of_the_paper_s_formulas(kind, balance):
    make, by_loops, name, value = KL[kind]
    scores, labels = drawn()
    objective = make(max_label=2.0, class_balance=balance, **{name: value})
    first, second = objective.exact(scores, labels, SPLITS)

    def loss(at):
        return by_loops(at, labels, value, 2.0, 0.1, balance)

    np.testing.assert_allclose(first, differences(loss, scores), rtol=1e-5, atol=1e-6)

    def own_slope(at):
        # No item's term depends on another's score: the sum has the diagonal.
        return objective.exact(at, labels, SPLITS)[0].sum()

    np.testing.assert_allclose(
        second, differences(own_slope, scores), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("kind", KL)
def test_kl_hessians_are_positive_and_lead_no_item_beyond_its_optimum(kind):
    objective = KL[kind][0](max_label=2.0, class_balance=None)
    labels = np.repeat([0.0, 1.0, 2.0], 200)
    scores = np.tile(np.linspace(-30, 30, 200), 3)
    splits = np.array([0, len(labels)])
    first, hessian = objective.derivatives(scores, labels, splits)
    assert (hessian > 0).all() and np.isfinite(first).all()
    second = objective.exact(scores, labels, splits)[1]
    assert second.min() < 0 and (hessian >= second).all()
    optimum = np.repeat([-math.log(999999), 0, math.log(999999)], 200)
    steps = -first / hessian
    assert (np.abs(steps) <= np.abs(optimum - scores) + 1e-6).all()
    # At the optimum it is the second derivative itself.
    at = objective.derivatives(np.zeros(3), np.ones(3), np.array([0, 3]))
    np.testing.assert_allclose(
        at[1], objective.exact(np.zeros(3), np.ones(3), np.array([0, 3]))[1]
    )


@pytest.mark.parametrize(
    ("loss", "objective"),
    [
        (
            losses.PointwiseKLBinomialLoss(
                reduction="sum", num_trials=4, max_label=2.0, class_balance="list"
            ),
            PointwiseKLBinomialObjective(
                num_trials=4, max_label=2.0, class_balance="list"
            ),
        ),
        (
            losses.ListwiseKLGaussianLoss(reduction="sum", sigma=0.3, max_label=2.0),
            ListwiseKLGaussianObjective(sigma=0.3, max_label=2.0),
        ),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_kl_gradients_are_those_of_the_losses(loss, objective, weighted):
    scores, labels = drawn(1)
    weights = np.random.default_rng(2).uniform(0.5, 2, len(labels))
    weights = weights if weighted else None
    theirs = GradientObjective(loss).gradient(scores, labels, SPLITS, weights)
    ours = objective.exact(scores, labels, SPLITS, weights)[0]
    np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-4)


LOSSES = {
    "smoothi": losses.SmoothILoss(topn=3, alpha=2.0, stop_gradient=False),
    "smoothi map": losses.SmoothILoss(metric="map", alpha=2.0, stop_gradient=False),
    "pirank": losses.PiRankNDCGLoss(topn=3, straight_through=False),
    "list_net": losses.ListNetLoss(),
    "pairwise kl": losses.PairwiseKLGaussianLoss(reduction="sum"),
}


@pytest.mark.first_case
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_any_loss_against_differences(name, weighted):
    loss = LOSSES[name]
    scores, labels = drawn(3)
    weights = np.random.default_rng(2).uniform(0.5, 2, len(labels))
    weights = weights if weighted else None
    objective = GradientObjective(loss, "diagonal")
    gradient = objective.gradient(scores, labels, SPLITS, weights)
    expected = differences(lambda at: total(loss, at, labels, weights), scores)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)
    if not weighted:
        return
    second = objective.diagonal(scores, labels, SPLITS, weights)
    each = np.empty_like(scores)
    for i in range(len(scores)):
        one = np.zeros_like(scores)
        one[i] = 1e-4
        sides = [
            objective.gradient(scores + sign * one, labels, SPLITS, weights)[i]
            for sign in (1, -1)
        ]
        each[i] = (sides[0] - sides[1]) / 2e-4
    np.testing.assert_allclose(second, each, rtol=1e-4, atol=1e-7)


@pytest.mark.first_case
@pytest.mark.parametrize("hessian", HESSIANS)
def test_hessians_are_positive_and_count_items_whatever_the_scale(hessian):
    scores, labels = drawn(3)
    found = []
    for loss in (LOSSES["smoothi"], losses.SmoothILoss(topn=3, alpha=2.0)):
        objective = GradientObjective(loss, hessian)
        first, second = objective.derivatives(scores, labels, SPLITS)
        assert (second > 0).all() and second.mean() == pytest.approx(1, rel=1e-2)
        weights = np.full(len(labels), 1e-5)
        scaled = objective.derivatives(scores, labels, SPLITS, weights)
        np.testing.assert_allclose(scaled[0], first, rtol=1e-3, atol=1e-5)
        found.append(first)
        # A list without a relevant item, and a list of one, pull nowhere.
        assert not first[SPLITS[3] : SPLITS[4]].any() and first[0] == 0
    # Where nothing is left to learn, nothing moves.
    still = objective.derivatives(scores, np.zeros_like(labels), SPLITS)
    assert not still[0].any() and (still[1] == 1).all()


def test_what_is_refused():
    with pytest.raises(ValueError, match="`hessian` must be one of"):
        GradientObjective(losses.ListNetLoss(), "none")
    with pytest.raises(ValueError, match="one score per item"):
        GradientObjective(losses.PointwiseKLMultinomialLoss())
    with pytest.raises(ValueError, match="`num_trials`"):
        PointwiseKLBinomialObjective(num_trials=0)
    with pytest.raises(ValueError, match="at least the highest label, 2"):
        ListwiseKLGaussianObjective().derivatives(
            np.zeros(1), np.array([2.0]), np.array([0, 1])
        )
    data = lightgbm.Dataset(np.eye(3), label=[0, 1, 0])
    with pytest.raises(ValueError, match="must have `group`"):
        PointwiseKLBinomialObjective()(np.zeros(3), data.construct())
    with pytest.raises(FloatingPointError, match="gradient of smoothi_loss became NaN"):
        GradientObjective(losses.SmoothILoss()).derivatives(
            np.array([np.nan, 1.0]), np.array([1.0, 0.0]), np.array([0, 2])
        )


@pytest.mark.parametrize(
    "objective",
    [
        PointwiseKLBinomialObjective(max_label=3.0),
        ListwiseKLGaussianObjective(max_label=3.0),
        *(GradientObjective(losses.SmoothILoss(topn=5), h) for h in HESSIANS),
        GradientObjective(losses.PiRankNDCGLoss(topn=5)),
    ],
    ids=lambda objective: type(objective).__name__,
)
def test_lightgbm_learns_with_each(objective):
    rng = np.random.default_rng(0)
    lists = make_lists([8] * 40, num_features=4)
    lists.features[:, 0] = lists.labels + rng.normal(size=lists.num_items)
    data = lightgbm.Dataset(lists.features, lists.labels, group=lists.lengths)
    params = {
        "objective": objective,
        "verbosity": -1,
        "num_leaves": 4,
        "num_threads": 1,
    }
    booster = lightgbm.train(params, data, num_boost_round=10)
    found = [
        evaluation.per_query(lists, scores, ["ndcg_5"])["ndcg_5"].mean()
        for scores in (np.zeros(lists.num_items), booster.predict(lists.features))
    ]
    assert found[1] > found[0] + 0.15
