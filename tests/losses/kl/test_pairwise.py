"""The pairwise KL losses against float64 oracles, in blocks and far out."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import compiled, value_and_gradient
from tests.losses.kl.batches import check, each, random_batch
from tests.oracles import kl as oracles_kl
from tfr_ext import losses
from tfr_ext.core import blocks


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize("margin", [0.0, 0.7, 20.0])
def test_pairwise_equal_the_oracle(symmetric, from_logits, margin):
    arguments = {"margin": margin, "symmetric": symmetric, "from_logits": from_logits}
    scores, labels = random_batch(3, from_logits=from_logits)
    for num_trials in (1, 32):
        check(
            losses.PairwiseKLBinomialLoss(
                num_trials=num_trials, reduction="sum", **arguments
            ),
            each(oracles_kl.pairwise_binomial, num_trials=num_trials, **arguments),
            scores,
            labels,
            1e-6 if not from_logits else 1e-8,
        )
    for sigma in (0.1, 0.5):
        check(
            losses.PairwiseKLGaussianLoss(sigma=sigma, reduction="sum", **arguments),
            each(oracles_kl.pairwise_gaussian, sigma=sigma, **arguments),
            scores,
            labels,
        )


PAIRWISE = [
    losses.PairwiseKLBinomialLoss(reduction="sum"),
    losses.PairwiseKLBinomialLoss(reduction="sum", symmetric=True),
    losses.PairwiseKLGaussianLoss(reduction="sum"),
]


def pairs_in_numpy(loss, scores, labels):
    """Value and gradient of one list, with matrices of pairs; float64."""
    config = loss.get_config()
    p = 1 / (1 + np.exp(-scores))
    ds, dp = (x[:, np.newaxis] - x for x in (scores, p))
    slope, n = p * (1 - p), config.get("num_trials")
    if n is None:
        kl = dp**2 / 2 / config["sigma"] ** 2
        by_i, by_j = (s * dp / config["sigma"] ** 2 for s in (slope[:, None], -slope))
    elif config["symmetric"]:
        kl = n * ds * dp
        by_i, by_j = n * (slope[:, None] * ds + dp), -n * (slope * ds + dp)
    else:
        p_i, p_j = p[:, np.newaxis], p
        kl = n * (p_i * np.log(p_i / p_j) + (1 - p_i) * np.log((1 - p_i) / (1 - p_j)))
        by_i, by_j = n * slope[:, np.newaxis] * ds, -n * dp
    hinge = config["margin"] - np.sign(ds) * kl
    is_open = (labels[:, np.newaxis] > labels) & (hinge > 0)
    signs = is_open * np.sign(ds)
    return (hinge * is_open).sum(), -(signs * by_i).sum(1) - (signs * by_j).sum(0)


@pytest.mark.first_case("loss")
@pytest.mark.parametrize("loss", PAIRWISE, ids=lambda loss: loss.name)
@pytest.mark.parametrize("block", [1, 100, 1000, 2**21])
@pytest.mark.parametrize("static", [True, False])
def test_blocks_of_rows_change_nothing(loss, block, static, monkeypatch):
    monkeypatch.setattr(blocks, "_BLOCK", block)
    rng = np.random.default_rng(block)
    scores, labels = rng.normal(size=[2, 19]), rng.integers(-1, 3, [2, 19])
    spec = tf.TensorSpec([2, 19] if static else [None, None], tf.float64)

    value, slopes = compiled(loss, spec, spec)(labels.astype(float), scores)
    expected = 0
    for i in range(2):
        real = labels[i] >= 0
        part, part_slopes = pairs_in_numpy(loss, scores[i][real], labels[i][real])
        expected += part
        np.testing.assert_allclose(slopes[i][real], part_slopes, atol=1e-9)
    np.testing.assert_allclose(value, expected, rtol=1e-10)


@pytest.mark.first_case
@pytest.mark.parametrize("loss", PAIRWISE, ids=lambda loss: loss.name)
@pytest.mark.parametrize("size", [200, 2000, 5000])
def test_long_lists(loss, size):
    rng = np.random.default_rng(size)
    scores, labels = rng.normal(size=size), rng.integers(0, 4, size).astype(float)
    expected, expected_slopes = pairs_in_numpy(loss, scores, labels)
    value, slopes = value_and_gradient(loss, [labels], [scores])
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    scale = np.abs(expected_slopes).max()
    np.testing.assert_allclose(slopes[0], expected_slopes, atol=1e-10 * scale)
    single, _ = value_and_gradient(loss, [labels], np.float32([scores]))
    np.testing.assert_allclose(single, expected, rtol=1e-5)


@pytest.mark.first_case
@pytest.mark.parametrize("jit", [False, True])
def test_ten_thousand_items_in_blocks(jit):
    loss = losses.PairwiseKLGaussianLoss(sigma=1.0)
    step = compiled(loss, *[tf.TensorSpec([None, None])] * 2, jit=jit)

    # The one relevant item has the lowest score; all others stand at 0.
    labels, scores = np.zeros([1, 10_000], np.float32), np.zeros([1, 10_000])
    labels[0, 4321], scores[0, 4321] = 1, -100.0
    value, slopes = step(labels, scores.astype(np.float32))
    np.testing.assert_allclose(value, 9999 * (1 + 0.5**2 / 2) / 10_000, rtol=1e-5)
    # -d/dp_j (1 + p_j**2 / 2) at 1/2, times the slope of the sigmoid, of one item.
    np.testing.assert_allclose(slopes[0, 0], 0.5 * 0.25 / 10_000, rtol=1e-5)


def test_nearly_tied_scores_move_apart():
    """The divergence itself is lost in rounding there, its gradient is not."""
    scores = tf.constant([[0.3, 0.3001, 0.3002]])
    labels = [[2.0, 1.0, 0.0]]
    for loss in PAIRWISE:
        value, slopes = value_and_gradient(loss, labels, scores)
        np.testing.assert_allclose(value, 3.0, rtol=1e-5)
        _, expected = pairs_in_numpy(
            loss, scores[0].numpy().astype(float), np.array(labels[0])
        )
        scale = np.abs(expected).max()
        np.testing.assert_allclose(slopes[0], expected, atol=5e-3 * scale)
