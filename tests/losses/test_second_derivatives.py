"""Second derivatives are right, or an error: never wrong, and first ones stay."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import gradient_step
from tests.losses import cases
from tests.losses.every_key import KEYS, SAMPLED, taken
from tfr_ext import losses, relaxations

pytestmark = pytest.mark.any_keras
# No score is a probability at the edge of its range, where KL losses have a kink.
LABELS = tf.constant(
    [[2.0, 0.0, 1.0, 3.0, 0.0, -1.0], [-1.0, 1.0, 0.0, -1.0, 0.0, 2.0]], tf.float64
)
SCORES = tf.constant(
    [[0.31, -0.23, 1.71, 0.93, -1.13, 5.0], [7.0, 0.13, -0.41, 0.2, 1.23, 0.63]],
    tf.float64,
)
# A direction that sums to 0 in each list, as that of a softmax's slopes does.
DIRECTION = tf.constant(
    [[1.0, -2.0, 0.5, 1.5, -1.0, 0.0], [0.0, 1.0, -1.5, 0.0, 2.0, -1.5]], tf.float64
)


def assert_right_or_refused(value, graphs, step=1e-5, tolerance=1e-4):
    """Checks a function of scores by the central differences of its gradient."""

    def slopes(scores):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            result = value(scores)
        return result, tape.gradient(result, scores)

    def both(scores):
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(scores)
            result, gradient = slopes(scores)
        return outer.gradient(result, scores), gradient, outer

    def second(scores):
        _, gradient, outer = both(scores)
        return outer.gradient(gradient, scores, DIRECTION, "zero")

    ahead, behind = (slopes(SCORES + h * DIRECTION)[1] for h in (step, -step))
    expected = (ahead - behind).numpy() / (2 * step)
    first = slopes(SCORES)[1].numpy()
    close = 1e-6 * (1 + np.abs(first).max())
    for mode in [lambda f: f, tf.function][: 1 + graphs]:
        # First derivatives inside a second, persistent tape: both ways to take them.
        for found in mode(lambda scores: both(scores)[:2])(SCORES):
            np.testing.assert_allclose(found, first, rtol=1e-9, atol=close)
        try:
            found = mode(second)(SCORES).numpy()
        except tf.errors.InvalidArgumentError as error:
            assert "has no second derivatives" in str(error)
        else:
            largest = max(np.abs(expected).max(), 1e-2)
            np.testing.assert_allclose(
                found, expected, rtol=0, atol=tolerance * largest
            )
    if graphs:
        # Called inside a tape, it makes the derivatives of all that it returns.
        with tf.GradientTape() as outer:
            outer.watch(SCORES)
            result, _ = tf.function(slopes)(SCORES)
        found = outer.gradient(result, SCORES)
        np.testing.assert_allclose(found, first, rtol=1e-9, atol=close)
    # Forward mode differentiates gradients in what is upstream of them.
    with tf.autodiff.ForwardAccumulator(SCORES, DIRECTION) as forward:
        result = value(SCORES)
    along = forward.jvp(result).numpy().sum()
    np.testing.assert_allclose(along, np.sum(first * DIRECTION), atol=10 * close)


@pytest.mark.first_case("case")
@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("case", cases.PARAMETERS, ids=str)
def test_losses(case, graphs):
    loss = case.build(reduction="sum")
    assert_right_or_refused(lambda scores: loss(LABELS, scores), graphs)


def test_a_compiled_loss():
    loss = losses.JitCompiledLoss(losses.ListNetLoss())
    assert_right_or_refused(lambda scores: loss(LABELS, scores), graphs=True)


@pytest.mark.parametrize(
    "key",
    # Those that draw noise, or the order of ties, differ between two calls.
    sorted({*KEYS} - {*SAMPLED, "list_mle_loss"} - {case.key for case in cases.CASES}),
)
def test_losses_of_tensorflow_ranking(key):
    loss = losses.get(key, reduction="sum")

    def value(scores):
        return loss(*taken(key, LABELS, scores))

    # They are computed in float32.
    assert_right_or_refused(value, False, step=5e-3, tolerance=2e-2)


@pytest.mark.first_case("relaxation")
@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize(
    "relaxation",
    [
        relaxations.ApproxPositions(),
        relaxations.FastSoftRank(),
        relaxations.NeuralSort(),
        relaxations.NeuralSort(straight_through=False),
        relaxations.PiRank(depth=2),
        relaxations.SinkhornSort(),
        relaxations.SmoothI(),
        relaxations.SmoothI(stop_gradient=False),
        relaxations.SoftSort(),
        relaxations.SoftSortPositions(),
    ],
    ids=str,
)
def test_relaxations(relaxation, graphs):
    mask = LABELS >= 0
    weights = tf.constant(np.random.default_rng(0).normal(size=[2, 6, 6]))

    def indicators(scores):
        return relaxation.indicators(scores, mask, 6) * weights

    def expectation(scores):
        ranked = relaxation.expectation(scores, mask, tf.nn.relu(LABELS), 6)
        return ranked * weights[0, :2]

    def positions(scores):
        return relaxation.positions(scores, mask) * weights[0, :2]

    by_rank = isinstance(relaxation, relaxations.Indicators)
    for output in [indicators, expectation] if by_rank else [positions]:

        def value(scores, output=output):
            return tf.reduce_sum(tf.square(output(scores)))

        assert_right_or_refused(value, graphs)


@pytest.mark.parametrize(
    "case",
    [c for c in cases.ONE_EACH if c.key.startswith(("smoothi", "wass"))],
    ids=str,
)
def test_xla_has_no_errors_and_gives_nan(case):
    loss = case.build(reduction="sum")

    @tf.function(jit_compile=True)
    def both(scores):
        with tf.GradientTape() as outer:
            outer.watch(scores)
            result, gradient = gradient_step(loss, LABELS, scores)
        return gradient, outer.gradient(gradient, scores, DIRECTION)

    first, second = both(SCORES)
    _, expected = gradient_step(loss, LABELS, SCORES)
    np.testing.assert_allclose(first, expected, rtol=1e-6, atol=1e-9)
    assert np.isnan(second).any()
