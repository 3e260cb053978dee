"""Losses that XLA compiles by themselves; test_in_models.py fits models with them."""

import copy

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import compiled, needs_tfr, value_and_gradient
from tfr_ext import losses

RNG = np.random.default_rng(3)
LABELS = RNG.integers(-1, 4, [4, 7]).astype(np.float32)
SCORES = RNG.normal(size=[4, 7]).astype(np.float32)
WEIGHTS = {
    "none": [],
    "scalar": [2.0],
    "list": [RNG.uniform(0.5, 2, [4, 1]).astype(np.float32)],
    "item": [RNG.uniform(0.5, 2, [4, 7]).astype(np.float32)],
}


def assert_same(loss, *inputs, rtol=1e-5):
    expected = value_and_gradient(loss, *inputs)
    jit = losses.JitCompiledLoss(loss)
    inputs = [tf.convert_to_tensor(x) for x in inputs]
    unknown = [tf.TensorSpec([None] * x.shape.rank, x.dtype) for x in inputs]
    for step in (compiled(jit), compiled(jit, *unknown)):
        for one, other in zip(step(*inputs), expected):
            np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-6)
            assert one.dtype == other.dtype
    np.testing.assert_allclose(jit(*inputs), expected[0], rtol=rtol)


@pytest.mark.parametrize(
    "weights, reduction",
    [
        ("list", "sum"),
        ("item", "sum_over_batch_size"),
        pytest.param("none", "sum", marks=pytest.mark.grid),
        pytest.param("scalar", "sum_over_batch_size", marks=pytest.mark.grid),
    ],
)
def test_value_and_gradient_with_weights(weights, reduction):
    loss = losses.SmoothILoss(topn=3, reduction=reduction)
    assert_same(loss, LABELS, SCORES, *WEIGHTS[weights])


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_types_of_scores(dtype):
    assert_same(losses.ListNetLoss(), LABELS, SCORES.astype(dtype), rtol=1e-3)


@needs_tfr
@pytest.mark.parametrize("key", ["approx_ndcg_loss", "pairwise_logistic_loss"])
def test_losses_of_tensorflow_ranking(key):
    assert_same(losses.get(key), LABELS, SCORES, *WEIGHTS["list"])


def test_the_gradient_reaches_what_made_the_scores():
    factor = tf.Variable(0.5)
    loss = losses.WassRankLoss()

    def slope(of):
        with tf.GradientTape() as tape:
            value = 3 * of(LABELS, factor * SCORES)
        return tape.gradient(value, factor)

    jit = losses.JitCompiledLoss(loss)
    np.testing.assert_allclose(slope(jit), slope(loss), rtol=1e-5)


def test_a_schedule_goes_on():
    doubling = tf.keras.optimizers.schedules.ExponentialDecay(1.0, 1, 2.0)
    loss = losses.SmoothILoss(alpha=doubling)
    jit = losses.JitCompiledLoss(loss)
    for step in (0, 4):
        loss.set_step(step)
        fixed = losses.SmoothILoss(alpha=2.0**step)(LABELS, SCORES)
        np.testing.assert_allclose(jit(LABELS, SCORES), fixed, rtol=1e-5)


@pytest.mark.parametrize("way", ["config", "Keras", "copy", "file"])
def test_it_comes_back(way, tmp_path):
    loss = losses.JitCompiledLoss(losses.PiRankNDCGLoss(temperature=2.0))
    if way == "config":
        again = losses.JitCompiledLoss.from_config(loss.get_config())
    elif way == "Keras":
        again = tf.keras.losses.deserialize(tf.keras.losses.serialize(loss))
    elif way == "copy":
        again = copy.deepcopy(loss)
    else:
        model = tf.keras.Sequential([tf.keras.Input([7])])
        model.compile("sgd", loss)
        model.save(tmp_path / "model.keras")
        again = tf.keras.models.load_model(tmp_path / "model.keras").loss
    assert again is not loss and again.get_config() == loss.get_config()
    np.testing.assert_array_equal(again(LABELS, SCORES), loss(LABELS, SCORES))


def test_few_shapes_are_traced_once():
    loss = losses.JitCompiledLoss(losses.ListNetLoss())
    traces = []
    compute = loss.loss.compute
    loss.loss.compute = lambda *x: traces.append(1) or compute(*x)
    for size in range(1, 6):
        loss(LABELS[:, :size], SCORES[:, :size])
    assert len(traces) <= 2


def test_what_cannot_be_compiled_is_refused():
    with pytest.raises(ValueError, match="`loss` must be a loss, such as Smooth"):
        losses.JitCompiledLoss(losses.SmoothILoss)
    with pytest.raises(ValueError, match="`loss` must be reduced to a scalar"):
        losses.JitCompiledLoss(losses.SmoothILoss(reduction="none"))
    loss = losses.JitCompiledLoss(losses.SmoothILoss(ragged=True))
    ragged = tf.ragged.constant([[1.0, 0.0], [2.0]])
    with pytest.raises(ValueError, match="`y_true` must be dense"):
        loss(ragged, ragged)
    with pytest.raises(ValueError, match="must have the same shape"):
        loss(LABELS, SCORES[:, :3])
