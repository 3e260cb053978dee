"""Rank indicators: rows, limits, and the fast forms against the plain ones."""

import numpy as np
import pytest
import tensorflow as tf

from tests import oracles
from tests.oracles import smoothi
from tfr_ext import objectives, relaxations


def lists(seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=[3, 8]).astype(dtype)
    mask = np.arange(8) < np.array([[8], [5], [1]])
    return tf.constant(scores), tf.constant(mask)


def test_smoothi_rows_equal_the_oracle_and_are_stochastic():
    scores, mask = lists()
    rows = relaxations.smoothi(scores, mask, alpha=2.0, delta=0.2).numpy()
    for b, size in enumerate([8, 5, 1]):
        real = [float(s) for s in scores[b, :size]]
        expected = np.real(smoothi.smoothi_indicators(real, size, 2.0, 0.2))
        np.testing.assert_allclose(rows[b, :size, :size], expected, rtol=1e-9)
        np.testing.assert_allclose(rows[b].sum(axis=1), 1.0)
        assert not rows[b, :, size:].any()


@pytest.mark.parametrize("num_ranks", [1, 3, 8])
@pytest.mark.parametrize("stop_gradient", [True, False])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_smoothi_expectation_equals_the_matrix_product(num_ranks, stop_gradient, scale):
    # scale 100 leaves the range where exp() needs no maximum subtracted.
    scores, mask = lists()
    scores *= scale
    values = tf.where(mask, tf.abs(scores) % 3, 0)
    weights = tf.constant(np.random.default_rng(1).normal(size=[3, num_ranks]))

    def value_and_slopes(expected):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            ranked = expected()
            total = tf.reduce_sum(ranked * weights)
        return ranked, tape.gradient(total, scores)

    options = {"alpha": 1.5, "stop_gradient": stop_gradient}
    fast = value_and_slopes(
        lambda: relaxations.smoothi_expectation(
            scores, mask, values, num_ranks, **options
        )
    )
    plain = value_and_slopes(
        lambda: tf.linalg.matvec(
            relaxations.smoothi(scores, mask, num_ranks, **options),
            tf.stop_gradient(values),
        )
    )
    for a, b in zip(fast, plain):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.first_case("metric")
@pytest.mark.parametrize(
    "metric", objectives.names(lambda cls: "ranks" in cls.READINGS)
)
@pytest.mark.parametrize(
    "relaxation",
    [
        relaxations.SmoothI(),
        relaxations.SmoothI(stop_gradient=False),
        relaxations.NeuralSort(),
        relaxations.PiRank(depth=2),
        relaxations.SoftSort(),
    ],
    ids=str,
)
def test_a_cut_off_beyond_lists_of_unknown_size_is_their_size(relaxation, metric):
    try:
        objective = objectives.get(metric, topn=5, max_label=3.0)
    except ValueError as error:
        pytest.skip(str(error))  # no cut-off
    scores, mask = (x[:, :3] for x in lists())
    labels = tf.where(mask, tf.constant([[0.0, 2.0, 1.0]], scores.dtype), 0)

    def both(labels, scores, mask):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            value = relaxation.metric(objective, labels, scores, mask)
        return value, tape.gradient(value, scores)

    specs = [tf.TensorSpec([None, None], x.dtype) for x in (labels, scores, mask)]
    unknown = tf.function(both, input_signature=specs)(labels, scores, mask)
    for found, wanted in zip(unknown, both(labels, scores, mask)):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("num_ranks", [11, 30])
def test_expectations_beyond_the_list_have_their_place(num_ranks):
    scores, mask = lists()
    values = tf.where(mask, tf.abs(scores), 0)
    for expectation in (
        relaxations.smoothi_expectation,
        relaxations.neural_sort_expectation,
        relaxations.soft_sort_expectation,
    ):
        wide = expectation(scores, mask, values, num_ranks)
        assert wide.shape == [3, num_ranks]
        np.testing.assert_allclose(
            wide[:, :8][mask], expectation(scores, mask, values)[mask], rtol=1e-9
        )


@pytest.mark.first_case
@pytest.mark.parametrize("jit", [None, False, True], ids=["eager", "graph", "xla"])
def test_rows_left_out_for_being_uniform_are_uniform(jit):
    """Past the rows that rounding can tell apart, the long way gives the same."""
    rng = np.random.default_rng(2)
    scores = tf.constant(rng.normal(size=[2, 400]), tf.float32)
    values = tf.constant(rng.integers(0, 3, [2, 400]), tf.float32)
    mask = tf.constant(np.arange(400) < [[400], [390]])
    values = tf.where(mask, values, 0)
    weights = tf.constant(rng.normal(size=[2, 400]), tf.float32)

    def fast(scores):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            ranked = relaxations.smoothi_expectation(scores, mask, values)
            total = tf.reduce_sum(ranked * weights)
        return ranked, tape.gradient(total, scores)

    def plain(scores):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            ranked = tf.linalg.matvec(relaxations.smoothi(scores, mask), values)
            total = tf.reduce_sum(ranked * weights)
        return ranked, tape.gradient(total, scores)

    if jit is not None:
        fast = tf.function(fast, jit_compile=jit)
    for a, b in zip(fast(scores), plain(scores)):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def test_smoothi_tends_to_the_exact_sort():
    rng = np.random.default_rng(0)
    scores = tf.constant([rng.permutation(np.arange(1.0, 9.0))])
    mask = tf.ones_like(scores, tf.bool)
    exact = relaxations.exact_sort(scores, mask, 4)
    smooth = relaxations.smoothi(scores, mask, 4, alpha=50.0)
    np.testing.assert_allclose(smooth, exact, atol=1e-6)


def test_exact_sort_breaks_ties_by_position_and_puts_padding_last():
    scores = tf.constant([[1.0, 5.0, 1.0, 9.0, 5.0]])
    mask = tf.constant([[True, True, True, False, True]])
    order = relaxations.ranking(scores, mask)
    assert order.numpy().tolist() == [[1, 4, 0, 2, 3]]
    expected = oracles.exact_indicators([1.0, 5.0, 1.0, 5.0], 4)
    rows = relaxations.exact_sort(scores, mask, 4).numpy()[0]
    np.testing.assert_array_equal(rows[:, [0, 1, 2, 4]], expected)
    np.testing.assert_array_equal(
        relaxations.exact_expectation(scores, mask, scores, 2), [[5.0, 5.0]]
    )


def test_padding_stays_last_below_the_lowest_float():
    lowest = np.finfo(np.float32).min
    scores = tf.constant([[0.0, lowest]], tf.float32)
    mask = tf.constant([[False, True]])
    assert relaxations.ranking(scores, mask).numpy().tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("relaxation", "argument"),
    [
        (relaxations.ApproxPositions, "alpha"),
        (relaxations.FastSoftRank, "regularization"),
        (relaxations.SinkhornSort, "regularization"),
        (relaxations.SoftSortPositions, "temperature"),
    ],
)
def test_the_first_argument_of_positions_is_their_own(relaxation, argument):
    """The one of all positions, `beta`, is given by name."""
    made = relaxation(0.25)
    assert getattr(made, argument) == 0.25
    assert made.beta == relaxation().beta == relaxation(beta=10.0).beta
