"""The rows of SmoothI that are not computed one by one, but interpolated."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tfr_ext.relaxations import smoothi_fast
from tfr_ext.relaxations.smoothi import plain_smoothi, smoothi_expectation

LENGTHS = (300, 170, 1, 2, 60, 0)
LIST = 310


# Scores that decay in different ways, between 0 and about 1.
SHAPES = {
    "outlier": lambda rng, size: np.arange(size) == size // 3,
    "two": lambda rng, size: rng.integers(0, 2, size),
    "geometric": lambda rng, size: rng.permutation(0.8 ** np.arange(size)),
    "line": lambda rng, size: rng.permutation(size) / size,
}


def a_batch(dtype, scale, seed=0, shape="normal"):
    """Scores, mask and values; most rows of the long lists are interpolated."""
    rng = np.random.default_rng(seed)
    if shape == "normal":
        scores = rng.normal(size=[len(LENGTHS), LIST])
    else:
        scores = np.stack([SHAPES[shape](rng, LIST) for _ in LENGTHS])
    scores = scale * scores
    mask = np.arange(LIST) < np.array(LENGTHS)[:, np.newaxis]
    values = np.where(mask, rng.integers(0, 5, scores.shape), 0)
    upstream = rng.normal(size=scores.shape)
    arrays = (tf.constant(x, dtype) for x in (scores, values, upstream))
    scores, values, upstream = arrays
    return scores, tf.constant(mask), values, upstream


def both(expectation, scores, upstream):
    with tf.GradientTape() as tape:
        tape.watch(scores)
        found = expectation(scores)
        total = tf.reduce_sum(found * upstream)
    return found.numpy(), tape.gradient(total, scores).numpy()


def plain(scores, mask, values, **given):
    """Expectations row by row, in float64, by a loop over the ranks."""
    rows = plain_smoothi(scores, mask, LIST, **given)
    return tf.linalg.matvec(rows, values)


def oracle(scores, mask, values, upstream, alpha, delta):
    """Both, from the paper, in plain loops and more digits than float64 where any."""
    numbers = [x.numpy().astype(np.longdouble) for x in (scores, values, upstream)]
    expected, slopes = np.zeros([2, *scores.shape], np.longdouble)
    for i, length in enumerate(np.sum(mask, axis=1)):
        scores, values, upstream = (x[i, :length] for x in numbers)
        if not length:
            continue
        logits = alpha * (scores - scores.min())
        product = np.ones(length, np.longdouble)
        for r in range(length):
            indicator = np.exp(logits * product - max(logits * product))
            indicator /= indicator.sum()
            expected[i, r] = indicator @ values
            slope = product * indicator * (values - expected[i, r])
            slopes[i, :length] += upstream[r] * alpha * slope
            product *= 1 - np.longdouble(delta) - indicator
        # The lowest score is subtracted from all; equal ones share its slope.
        lowest = np.flatnonzero(scores == scores.min())
        slopes[i, lowest] -= slopes[i].sum() / len(lowest)
    return expected, slopes


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "alpha, delta, scale",
    [
        (1.0, 0.1, 1.0),
        (10.0, 0.1, 3.0),
        (1.0, 0.3, 1e-6),
        (0.5, 0.45, 100.0),
        (1.0, 0.03, 0.3),
        (1.0, 0.49, 1.0),
        (1.0, 1e-9, 1.0),
        (1.0, 1e-30, 1.0),
    ],
)
def test_values_and_gradients_are_those_of_all_rows(dtype, alpha, delta, scale):
    """As near to the oracle as the rows one by one are, but for rounding."""
    check(dtype, alpha, delta, a_batch(dtype, scale), 5)


@pytest.mark.first_case("shape", "scale")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("delta", [0.1, 0.02, 0.49])
@pytest.mark.parametrize("scale", [0.01, 2.5, 30.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_so_they_are_however_scores_are_distributed(dtype, delta, scale, shape):
    # The slope of the lowest score is the sum of all others.
    check(dtype, 1.0, delta, a_batch(dtype, scale, shape=shape), 10)


def check(dtype, alpha, delta, batch, most_slope):
    """Both differ from the oracle by at most so many roundings, and usual ones."""
    scores, mask, values, upstream = batch
    # Rows beyond the items of a list have no meaning.
    upstream = tf.where(mask, upstream, 0)
    given = {"alpha": alpha, "delta": delta}
    usual = both(lambda x: plain(x, mask, values, **given), scores, upstream)
    found = both(
        lambda x: smoothi_expectation(x, mask, values, **given), scores, upstream
    )
    assert found[0].dtype == dtype
    rounding = np.finfo(dtype).eps * np.abs(values).max()
    bounds = (20 * rounding, most_slope * alpha * rounding * np.abs(upstream).max())
    exact = oracle(scores, mask, values, upstream, **given)
    for one, other, wanted, bound in zip(found, usual, exact, bounds):
        most = bound + 2 * np.abs(other - wanted)[mask].max()
        assert np.abs(one - wanted)[mask].max() <= most


@pytest.mark.parametrize("rows", [41, 100, 150, 310])
def test_a_cut_off_gives_the_first_rows(rows):
    scores, mask, values, upstream = a_batch("float64", 1.0)
    upstream = tf.where(mask, upstream, 0)[:, :rows]
    wanted = both(lambda x: plain(x, mask, values)[:, :rows], scores, upstream)
    found = both(lambda x: smoothi_expectation(x, mask, values, rows), scores, upstream)
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(
            one[mask[:, : one.shape[1]]],
            other[mask[:, : one.shape[1]]],
            atol=1e-12,
        )


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "jit, delta", [(False, 0.1), (True, 0.1), (False, 0.49), (False, 1e-9)]
)
def test_known_and_unknown_shapes_and_xla_agree(jit, delta, known):
    scores, mask, values, upstream = a_batch("float32", 2.0)
    shape = [len(LENGTHS), LIST] if known else [None, None]

    def step(scores, mask, values, upstream):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            found = smoothi_expectation(scores, mask, values, delta=delta)
        return found, tape.gradient(found, scores, upstream)

    specs = [tf.TensorSpec(shape, x.dtype) for x in (scores, mask, values, upstream)]
    run = tf.function(step, input_signature=specs, jit_compile=jit)
    upstream = tf.where(mask, upstream, 0)
    wanted = step(scores, mask, values, upstream)
    for one, other in zip(run(scores, mask, values, upstream), wanted):
        np.testing.assert_allclose(
            one[mask], other[mask], atol=2e-5 * np.abs(other).max()
        )


@pytest.mark.parametrize("num_ranks", [None, 10])
@pytest.mark.parametrize("graph", [False, True])
def test_nan_shows_in_value_and_gradient(graph, num_ranks):
    scores, mask, values, _ = a_batch("float32", 1.0)
    scores = tf.tensor_scatter_nd_update(scores, [[0, 3]], [np.nan])

    def step(scores):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            found = smoothi_expectation(scores, mask, values, num_ranks)
        return found, tape.gradient(found, scores)

    found, slopes = (x.numpy() for x in (tf.function(step) if graph else step)(scores))
    assert np.isnan(found[0, :10]).all() and not np.isnan(found[1, :170]).any()
    assert np.isnan(slopes[0, 3]) and np.isfinite(slopes[1:]).all()


def test_few_rows_are_kept():
    """However long the list is, and however large the scores are."""
    largest = math.log(smoothi_fast.MAX_LOGIT)
    assert 100 < smoothi_fast._rows_to_compute(largest, tf.float32, 0.1) < 800


@pytest.mark.parametrize("known", [True, False])
def test_no_items_have_no_ranks(known):
    def step(scores):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            found = smoothi_expectation(scores, scores > 0, scores)
        return found, tape.gradient(found, scores)

    spec = tf.TensorSpec([2, 0] if known else [None, None])
    run = tf.function(step, input_signature=[spec])
    assert [x.shape for x in run(tf.zeros([2, 0]))] == [[2, 0], [2, 0]]


@pytest.mark.parametrize("subtract_max", [True, False])
@pytest.mark.parametrize("batch", [1, 5, 24, 200])
def test_an_item_far_above_all_others_gets_all_mass(batch, subtract_max):
    """Exactly: of large logits, what a rounding leaves would still be large."""
    graph = tf.function(
        lambda x: smoothi_fast.softmax(x, subtract_max),
        input_signature=[tf.TensorSpec([None, None])],
    )
    for size in (1, 2, 8, 11, 40):
        logits = np.full([batch, size], -500.0, np.float32)
        logits[:, size // 2] = 0.0
        np.testing.assert_array_equal(graph(logits), logits == 0)
