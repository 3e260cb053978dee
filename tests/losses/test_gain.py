"""The gain of NDCG, in every loss that has one, against plain loops over one list."""

import numpy as np
import pytest
import tensorflow as tf

from tests import oracles
from tests.helpers import value_and_gradient
from tests.oracles import (
    baselines,
    fast_soft_rank,
    pirank,
    sinkhorn_sort,
    smoothi,
    soft_sort,
)
from tests.oracles.positions import position_loss
from tfr_ext import evaluation, losses, metrics, objectives

HAVE_GAIN = [key for key in losses.keys() if "gain" in losses.parameters(key)]
_RELAXED = {"straight_through": False, "temperature": 3.0, "topn": None}

# By loss and arguments: what is expected at each rank, and the indicators.
INDICATORS = {
    "smoothi": (
        ("smoothi_loss", {"stop_gradient": False}),
        "relevance",
        lambda scores, ranks: smoothi.smoothi_indicators(scores, ranks, 1.0, 0.1),
    ),
    "pirank": (
        ("pirank_ndcg_loss", _RELAXED),
        "gain",
        lambda scores, ranks: pirank.neural_sort(scores, ranks, 3.0),
    ),
    "soft sort": (
        ("soft_sort_loss", {}),
        "gain",
        lambda scores, ranks: soft_sort.soft_sort(scores, ranks, 1.0),
    ),
}
# By loss and arguments: the positions.
POSITIONS = {
    "approx": (("approx_metric_loss", {}), baselines.approx_positions),
    "soft sort positions": (
        ("soft_sort_loss", {"form": "position"}),
        lambda scores: soft_sort.positions(scores, 1.0),
    ),
    "soft ranks": (
        ("fast_soft_rank_loss", {}),
        lambda scores: fast_soft_rank.soft_ranks(scores, 1.0),
    ),
    "sinkhorn": (
        ("sinkhorn_sort_loss", {"regularization": 0.1}),
        lambda scores: sinkhorn_sort.positions(scores, regularization=0.1),
    ),
}
# Losses of indicators whose rows sum to 1, exact or relaxed.
STOCHASTIC = [
    *(of for of, _, _ in INDICATORS.values()),
    ("smoothi_loss", {"alpha": 10.0}),
    ("pirank_ndcg_loss", {}),
    ("pirank_ndcg_loss", {**_RELAXED, "depth": 2}),
]


def one_minus(value):
    return 0.0 if value is None else 1 - value


def oracle(name, gain, topn):
    """The loss as a function of the scores and labels of one list."""
    if name in POSITIONS:
        of = POSITIONS[name][1]
        return lambda scores, labels: position_loss(
            of(scores), labels, topn=topn, gain=gain
        )
    _, expected, rows = INDICATORS[name]

    def loss(scores, labels):
        indicators = rows(scores, min(topn or len(scores), len(scores)))
        return one_minus(
            oracles.metric(
                "ndcg", indicators, labels, topn, gain=gain, expected=expected
            )
        )

    return loss


def oracle_gradient(name, gain, topn, scores, labels):
    if name != "soft ranks":
        of = oracle(name, gain, topn)
        return oracles.gradient(lambda s: of(s, labels), scores)
    upstream = oracles.gradient(
        lambda ranks: position_loss(ranks, labels, topn=topn, gain=gain),
        fast_soft_rank.soft_ranks(scores, 1.0),
    )
    return fast_soft_rank.soft_rank_adjoint(scores, 1.0, upstream)


def padded_lists(seed):
    """Lists of 0 to 7 items, one of them empty, among padding of hostile scores."""
    rng = np.random.default_rng(seed)
    labels, scores = np.full([6, 9], -1.0), rng.choice([1e9, -1e9, np.nan], [6, 9])
    for q, size in enumerate((0, 1, 2, 4, 5, 7)):
        where = np.sort(rng.permutation(9)[:size])
        labels[q, where] = rng.integers(0, 4, size) if size != 4 else 0.0
        scores[q, where] = rng.normal(size=size)
    labels[5, np.flatnonzero(labels[5] >= 0)[0]] = 3.0
    return labels, scores


def build(of, topn, gain="exponential"):
    key, arguments = of
    arguments = {**arguments, "topn": topn, "gain": gain}
    if topn == 1:
        arguments.pop("stop_gradient", None)  # The first rank has none before it.
    return losses.get(key, reduction="none", **arguments)


def test_these_losses_have_a_gain():
    built = [*INDICATORS.values(), *POSITIONS.values()]
    assert {of[0] for of, *_ in built} == {*HAVE_GAIN}
    assert len(HAVE_GAIN) == 6


@pytest.mark.parametrize("name", [*INDICATORS, *POSITIONS])
@pytest.mark.parametrize("gain", objectives.GAINS)
@pytest.mark.parametrize("topn", [None, 1, 3, 20])
def test_value_and_gradient_equal_the_oracle(name, gain, topn):
    loss = build({**INDICATORS, **POSITIONS}[name][0], topn, gain)
    labels, scores = padded_lists(len(name))
    values, slopes = value_and_gradient(loss, labels, scores)
    for y, s, value, slope in zip(labels, scores, values, slopes):
        real = y >= 0
        assert not slope[~real].any()
        if not real.any():
            assert value == 0
            continue
        expected = oracle(name, gain, topn)([*s[real]], [*y[real]])
        np.testing.assert_allclose(value, np.real(expected), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            slope[real],
            oracle_gradient(name, gain, topn, [*s[real]], [*y[real]]),
            rtol=1e-7,
            atol=1e-10,
        )
        if not (y > 0).any():
            assert value == 0 and not slope.any()


@pytest.mark.parametrize(("key", "arguments"), STOCHASTIC, ids=str)
@pytest.mark.parametrize("topn", [None, 1, 3, 20])
def test_power_is_the_exponential_loss_with_other_weights_of_lists(
    key, arguments, topn
):
    """Times I / (I + S): of discounts S over the ranks of the ideal DCG I."""
    labels, scores = padded_lists(1)
    of = (key, arguments)
    plain, slopes = value_and_gradient(build(of, topn), labels, scores)
    power, power_slopes = value_and_gradient(build(of, topn, "power"), labels, scores)
    for q, row in enumerate(labels):
        best = np.sort(row[row >= 0])[::-1][:topn]
        discounts = 1 / np.log2(np.arange(len(best)) + 2)
        ideal = (2**best - 1) @ discounts
        ratio = ideal / (ideal + discounts.sum()) if ideal else 1.0
        np.testing.assert_allclose(power[q], plain[q] * ratio, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(
            power_slopes[q], slopes[q] * ratio, rtol=1e-8, atol=1e-12
        )


@pytest.mark.parametrize("gain", objectives.GAINS)
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("topn", [None, 3])
def test_straight_through_has_the_value_of_the_exact_sort(gain, depth, topn):
    loss = losses.PiRankNDCGLoss(gain=gain, depth=depth, topn=topn, reduction="none")
    labels, scores = padded_lists(2)
    for y, s, value in zip(labels, scores, loss(labels, tf.constant(scores)).numpy()):
        real = y >= 0
        ranks = min(topn or 9, real.sum())
        rows = oracles.exact_indicators([*s[real]], ranks)
        exact = one_minus(oracles.metric("ndcg", rows, [*y[real]], topn, gain=gain))
        np.testing.assert_allclose(value[0], exact, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("key", HAVE_GAIN)
@pytest.mark.parametrize("highest", [500.0, 1e6])
@pytest.mark.parametrize("topn", [None, 2])
def test_a_linear_gain_of_high_labels_has_a_gradient(key, highest, topn):
    labels = np.float32([[1, 0.2, 0.5, 1 / 500, 0.7, -1]]) * highest
    scores = np.float32([[0.3, 0.5, -0.2, 0.1, 0.0, 9.0]])
    value, slopes = value_and_gradient(
        losses.get(key, gain="linear", topn=topn, reduction="none"), labels, scores
    )
    assert 0 < value[0] < 1
    assert np.isfinite(slopes).all() and np.abs(slopes).max() > 1e-4


def test_metrics_have_no_power():
    for build in (
        lambda: metrics.RankingMetric(gain="power"),
        lambda: evaluation.Convention(gain="power").objective("ndcg"),
    ):
        with pytest.raises(ValueError, match=r"`gain`.*linear'\]. Received: 'power'"):
            build()
