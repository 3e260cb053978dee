"""The KL losses against float64 oracles, formulas by hand, and what they say."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import tensorflow as tf

from tests.helpers import value_and_gradient
from tests.losses.kl.batches import check, random_batch
from tests.oracles import kl as oracles_kl
from tfr_ext import losses


@pytest.mark.parametrize("class_balance", ["batch", "list", None])
@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize(
    ("max_label", "relevance_threshold"), [(1.0, 0.1), (3.0, 0.5), (5.0, 0.1)]
)
def test_itemwise_equal_the_oracle(
    class_balance, from_logits, max_label, relevance_threshold
):
    arguments = {
        "class_balance": class_balance,
        "from_logits": from_logits,
        "max_label": max_label,
        "relevance_threshold": relevance_threshold if class_balance else 0.1,
    }
    scores, labels = random_batch(1, from_logits=from_logits)
    labels = [np.minimum(list_labels, max_label) for list_labels in labels]
    check(
        losses.PointwiseKLBinomialLoss(num_trials=5, reduction="sum", **arguments),
        lambda s, y: oracles_kl.pointwise_binomial(s, y, num_trials=5, **arguments),
        scores,
        labels,
        1e-6 if not from_logits else 1e-8,
    )
    check(
        losses.ListwiseKLGaussianLoss(sigma=0.3, reduction="sum", **arguments),
        lambda s, y: oracles_kl.listwise_gaussian(s, y, sigma=0.3, **arguments),
        scores,
        labels,
    )


def test_the_binomial_form_is_the_divergence_of_the_distributions():
    """Summed over the outcomes of three trials."""

    def kl(p, q):
        outcomes = np.arange(4)
        mass, other = (scipy.stats.binom.pmf(outcomes, 3, x) for x in (p, q))
        return np.sum(mass * np.log(mass / other))

    for p, q in [(0.3, 0.8), (0.5, 0.1), (0.95, 0.2)]:
        np.testing.assert_allclose(oracles_kl.kl_binomial(p, q, 3), kl(p, q))
        score = np.log(q / (1 - q))
        pointwise = losses.PointwiseKLBinomialLoss(num_trials=3)
        np.testing.assert_allclose(
            pointwise([[p]], [[score]]), kl(p, q) + kl(q, p), rtol=1e-5
        )
        # A relevant item at q, and another at p.
        signs = np.sign(q - p)
        scores = [[score, np.log(p / (1 - p))]]
        for symmetric in (False, True):
            pairwise = losses.PairwiseKLBinomialLoss(
                num_trials=3, margin=9.0, symmetric=symmetric, reduction="sum"
            )
            expected = 9 - signs * (kl(q, p) + symmetric * kl(p, q))
            np.testing.assert_allclose(
                pairwise([[1.0, 0.0]], scores), expected, rtol=1e-5
            )


def test_the_gaussian_form_is_the_divergence_of_the_distributions():
    """By numeric integration."""
    sigma, p, q = 0.25, 0.3, 0.8
    density, other = (scipy.stats.norm(mean, sigma) for mean in (q, p))
    kl, _ = scipy.integrate.quad(
        lambda x: density.pdf(x) * (density.logpdf(x) - other.logpdf(x)), -3, 4
    )
    np.testing.assert_allclose(oracles_kl.kl_gaussian(q, p, sigma, sigma), kl)
    scores = [[math.log(q / (1 - q)), math.log(p / (1 - p))]]
    for symmetric in (False, True):
        loss = losses.PairwiseKLGaussianLoss(
            margin=9.0, symmetric=symmetric, reduction="sum"
        )
        np.testing.assert_allclose(
            loss([[1.0, 0.0]], scores), 9 - (1 + symmetric) * kl, rtol=1e-5
        )
    # Components of a list are independent: their divergences add up.
    loss = losses.ListwiseKLGaussianLoss(sigma=sigma, class_balance=None)
    np.testing.assert_allclose(loss([[q, p]], scores[:1]), 0.0, atol=1e-9)
    np.testing.assert_allclose(loss([[p, p]], scores[:1]), kl, rtol=1e-5)


def test_values_by_hand():
    third = math.log(1 / 2)  # the logit of 1/3
    y_true, y_pred = [[0.5, 0.0]], [[third, -third]]
    loss = losses.PointwiseKLBinomialLoss(
        num_trials=2, class_balance=None, reduction="none"
    )
    # 2 (1/3 - 1/2) (log 1/2 - 0), and 2 (2/3 - 1e-6) (log 2 - logit 1e-6).
    expected = [math.log(2) / 3, 2 * (2 / 3 - 1e-6) * (math.log(2) + 13.8155096)]
    np.testing.assert_allclose(loss(y_true, y_pred)[0], expected, rtol=1e-6)
    loss = losses.ListwiseKLGaussianLoss(sigma=2.0, class_balance=None)
    expected = ((1 / 2 - 1 / 3) ** 2 + (2 / 3 - 1e-6) ** 2) / 8
    np.testing.assert_allclose(loss(y_true, y_pred), expected, rtol=1e-6)
    # Of two items in the wrong order only the relevant one has a pair.
    loss = losses.PairwiseKLGaussianLoss(sigma=0.5, reduction="none")
    np.testing.assert_allclose(
        loss(y_true, y_pred)[0], [1 + (1 / 3) ** 2 / 0.5, 0], rtol=1e-6
    )
    loss = losses.PairwiseKLBinomialLoss(num_trials=3, reduction="none")
    divergence = math.log(1 / 2) + 2 * math.log(2)  # 3 (1/3 log 1/2 + 2/3 log 2)
    np.testing.assert_allclose(loss(y_true, y_pred)[0], [1 + divergence, 0], rtol=1e-6)


@pytest.mark.parametrize(("score", "label"), [(50.0, 0.0), (-50.0, 1.0)])
def test_a_confident_mistake_keeps_its_gradient(score, label):
    sign = np.sign(score)
    loss = losses.PointwiseKLBinomialLoss(num_trials=7)
    _, slopes = value_and_gradient(loss, [[label]], [[score]])
    np.testing.assert_allclose(slopes, [[sign * 7]], rtol=1e-5)
    for symmetric in (False, True):
        loss = losses.PairwiseKLBinomialLoss(
            num_trials=7, symmetric=symmetric, reduction="sum"
        )
        # The other item, which has the other label, at the other end.
        _, slopes = value_and_gradient(loss, [[label, 1 - label]], [[score, -score]])
        if symmetric:
            np.testing.assert_allclose(slopes, [[sign * 7, -sign * 7]], rtol=1e-5)
        else:  # KL(P_i || P_j) grows with the score of the less relevant j
            expected = [7, 0] if label == 0 else [0, 7]
            np.testing.assert_allclose(slopes, [expected], atol=1e-5)
    loss = losses.PointwiseKLMultinomialLoss()
    wrong = tf.one_hot([[0]], 2) * 50.0
    _, slopes = value_and_gradient(loss, [[[0.0, 1.0]]], wrong)
    np.testing.assert_allclose(slopes, [[[1.0, -1.0]]], rtol=1e-5)


def weights_of(labels, **arguments):
    """The class weights, read off losses of items alike in all else."""
    loss = losses.PointwiseKLBinomialLoss(reduction="none", **arguments)
    for_weights = {"class_balance": None, "relevance_threshold": 0.1}
    plain = losses.PointwiseKLBinomialLoss(
        reduction="none", **{**arguments, **for_weights}
    )
    scores = tf.ones_like(labels)
    return tf.math.divide_no_nan(loss(labels, scores), plain(labels, scores)).numpy()


def test_class_weights_by_hand():
    labels = tf.constant([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, -1.0], [0, 0, 0, 0]])
    # Of 11 items 3 are relevant and 8 are not, in two classes.
    relevant, other = 11 / (2 * 3), 11 / (2 * 8)
    np.testing.assert_allclose(
        weights_of(labels),
        np.where(labels > 0, relevant, np.where(labels < 0, 0, other)),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        weights_of(labels, class_balance="list"),
        [
            [4 / (2 * 1), 4 / (2 * 3), 4 / (2 * 3), 4 / (2 * 3)],
            [3 / (2 * 2), 3 / (2 * 2), 3 / (2 * 1), 0],
            [1, 1, 1, 1],  # one class only
        ],
        rtol=1e-6,
    )


def test_relevance_is_decided_before_labels_are_clipped():
    labels = tf.constant([[2.0, 1.0, 1.0, 1.0]])
    weights = weights_of(labels, max_label=2.0, relevance_threshold=1.0)
    np.testing.assert_allclose(weights, [[2, 2 / 3, 2 / 3, 2 / 3]], rtol=1e-6)
    # One at the threshold is relevant.
    weights = weights_of(tf.constant([[0.1, 0.0, 0.0]]))
    np.testing.assert_allclose(weights, [[1.5, 0.75, 0.75]], rtol=1e-6)


@pytest.mark.first_case
@pytest.mark.parametrize(
    "loss",
    [
        losses.PointwiseKLBinomialLoss(num_trials=1),
        losses.PairwiseKLBinomialLoss(),
        losses.PairwiseKLGaussianLoss(),
        losses.ListwiseKLGaussianLoss(),
    ],
    ids=lambda loss: loss.name,
)
def test_training_learns_to_rank(loss):
    tf.keras.utils.set_random_seed(2)
    rng = np.random.default_rng(0)
    x = rng.normal(size=[64, 6, 4]).astype(np.float32)
    labels = (x[..., 0] + x[..., 1] > 0.5).astype(np.float32)
    inputs = tf.keras.Input([None, 4])
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs)[:, :, 0])
    model.compile(tf.keras.optimizers.Adam(0.1), loss=loss)
    before = model.evaluate(x, labels, verbose=0)
    model.fit(x, labels, epochs=20, verbose=0)
    assert model.evaluate(x, labels, verbose=0) < before / 2
    scores = model.predict(x, verbose=0)
    relevant, other = (scores[labels == y] for y in (1, 0))
    assert np.mean(relevant[:, np.newaxis] > other) > 0.95
