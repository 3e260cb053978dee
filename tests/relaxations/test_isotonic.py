"""Isotonic regression against scikit-learn, loops, and numerical derivatives."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn import isotonic as peer

from tests.oracles import fast_soft_rank as oracles
from tfr_ext.relaxations import isotonic

SPECS = [tf.TensorSpec([None, None], tf.float64), tf.TensorSpec([None, None], tf.bool)]


def isotonic_regression(y, mask):
    """The fit of rows, 0 at padding, with the gradient that its users give it."""

    @tf.custom_gradient
    def regression(y):
        fitted = isotonic.fit(tf.cast(y, tf.float64), mask)

        def gradient(upstream):
            upstream = tf.where(mask, tf.cast(upstream, tf.float64), 0)
            means = isotonic.block_means(fitted, upstream)
            return tf.cast(tf.where(mask, means, 0), y.dtype)

        return tf.cast(tf.where(mask, fitted, 0), y.dtype), gradient

    return regression(y)


dynamic = tf.function(isotonic_regression, input_signature=SPECS)


def padded(rows, spare=2):
    """Rows of any lengths as a batch with junk behind them, and its mask."""
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max() + spare) < lengths[:, np.newaxis]
    y = np.where(mask, 0.0, np.nan)
    y[mask] = np.concatenate(rows)
    return tf.constant(y), tf.constant(mask)


def value_and_slopes(y, mask, upstream, function=isotonic_regression):
    with tf.GradientTape() as tape:
        tape.watch(y)
        fitted = function(y, mask)
        total = tf.reduce_sum(fitted * upstream)
    return fitted.numpy(), tape.gradient(total, y).numpy()


def assert_equals_peers(rows, function=isotonic_regression, rtol=1e-12):
    y, mask = padded(rows)
    upstream = np.random.default_rng(0).normal(size=y.shape)
    fitted, slopes = value_and_slopes(y, mask, upstream, function)
    assert not fitted[~mask.numpy()].any() and not slopes[~mask.numpy()].any()
    for b, row in enumerate(rows):
        scale = np.abs(row).max()
        n = len(row)
        expected = peer.isotonic_regression(row)
        np.testing.assert_allclose(fitted[b, :n], expected, rtol, rtol * scale)
        means = oracles.block_means(list(row), list(upstream[b, :n]))
        np.testing.assert_allclose(slopes[b, :n], means, rtol=1e-9, atol=1e-12)


def random_rows(seed, lengths):
    rng = np.random.default_rng(seed)
    for n in lengths:
        trend = rng.choice([-1.0, -0.1, 0.0, 0.1]) * np.arange(n)
        yield (rng.normal(size=n) * rng.choice([0.1, 10.0]) + trend) * 10 ** (
            rng.uniform(-20, 20)
        )


@pytest.mark.parametrize("most", [1, 2, 3, 8, 9, 16, 17, 40, 64, 65, 200])
def test_equals_scikit_learn(most):
    lengths = np.random.default_rng(most).integers(1, most + 1, 12)
    assert_equals_peers(list(random_rows(most, [*lengths, most])))


def test_rows_of_unknown_size():
    for most in (1, 15, 16, 17, 100, 200):
        rows = list(random_rows(most, [1 + most // 3, most]))
        assert_equals_peers(rows, dynamic)
    long = tf.zeros([1, 2**18 + 1], tf.float64)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 262144"):
        dynamic(long, long < 1)


def adversarial(n):
    at = np.arange(float(n))
    rises = np.append(50.0, at[1:] / 7)  # one outlier pools what comes after it
    falls_last = np.append(at[1:] / 7, -50.0)
    convex = -np.sqrt(at + 1)  # each number pools with all before it
    saw = np.where(at % 2 == 0, at, at - 3)
    steps = np.repeat(at[: n // 4 + 1], 4)[:n]
    cascade = np.append(at[:-1] ** 1.5, -at.sum())  # the last undoes block after block
    far = np.where(at < n // 2, 1e12, -1e12) + at
    return [at, -at, 0 * at + 3, rises, falls_last, convex, saw, steps, cascade, far]


@pytest.mark.parametrize("n", [2, 7, 33, 130])
def test_adversarial_rows(n):
    assert_equals_peers(adversarial(n), rtol=1e-11)


def test_a_long_row():
    y = -np.sqrt(np.arange(5000.0)) + np.random.default_rng(0).normal(size=5000)
    assert_equals_peers([y, np.sort(y), y[::-1]], rtol=1e-10)


def test_gradient_equals_numerical_jacobian():
    rng = np.random.default_rng(4)
    y, mask = padded([rng.normal(size=n) for n in (1, 6, 11)])
    upstream = np.random.default_rng(1).normal(size=y.shape)
    _, slopes = value_and_slopes(y, mask, upstream)
    step = 1e-6
    for p in range(11):
        moved = tf.one_hot(p, y.shape[1], dtype=tf.float64) * step
        above, below = (isotonic_regression(y + sign * moved, mask) for sign in (1, -1))
        expected = tf.reduce_sum((above - below) * upstream, axis=1) / (2 * step)
        np.testing.assert_allclose(slopes[:, p], expected, rtol=1e-6, atol=1e-8)


def test_equal_neighbours_are_one_block():
    """Whatever rounding the means of one number several times have."""
    for size in (3, 20, 100):
        y = tf.fill([1, size], tf.constant(0.1, tf.float64))
        upstream = np.arange(float(size))
        _, slopes = value_and_slopes(y, y > 0, upstream)
        np.testing.assert_allclose(slopes[0], upstream.mean(), rtol=1e-12)


def test_float32_rows():
    y = tf.constant([[1e30, 1.0, 3.0, 2.0], [1.0, 3.0, 2.0, 4.0]])
    fitted = isotonic_regression(y, tf.ones_like(y, tf.bool))
    assert fitted.dtype == tf.float32
    np.testing.assert_allclose(fitted, [[2.5e29] * 4, [1.0, 2.5, 2.5, 4.0]], rtol=1e-6)
