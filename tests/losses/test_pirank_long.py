"""PiRank on long lists, whose ranks are computed by blocks, against dense NumPy."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import oracles
from tests.helpers import random_lists, value_and_gradient
from tests.losses.against_oracles import assert_equals_dense
from tests.oracles import pirank
from tfr_ext import losses, relaxations

pytestmark = pytest.mark.first_case


@pytest.mark.parametrize("topn", [10, 17, None])
@pytest.mark.parametrize("ties", [False, True])
def test_ndcg_of_up_to_200_items_equals_the_oracle(topn, ties):
    loss = losses.PiRankNDCGLoss(
        topn=topn, temperature=30.0, straight_through=False, reduction="none"
    )
    sort = pirank.dense_sort(30.0)
    assert_equals_dense(
        loss,
        functools.partial(pirank.dense_ndcg_loss, sort=sort, topn=topn),
        list(random_lists(5, (1, 40, 63, 130, 200), ties)),
    )


@pytest.mark.parametrize("temperature", [0.5, 30.0])
@pytest.mark.parametrize("ties", [False, True])
def test_cross_entropy_of_up_to_200_items_equals_the_oracle(temperature, ties):
    loss = losses.NeuralSortCrossEntropyLoss(
        temperature=temperature, straight_through=False, reduction="none"
    )
    assert_equals_dense(
        loss,
        functools.partial(pirank.dense_cross_entropy, temperature=temperature),
        list(random_lists(6, (9, 32, 33, 64, 130, 200), ties)),
    )


@pytest.mark.parametrize("loss", ["ndcg", "cross entropy"])
def test_groups_of_scores_1e4_apart_in_float32(loss):
    """What happens inside a group is not lost, but for float32's rounding at 1e4."""
    rng = np.random.default_rng(3)
    scores = np.round(rng.normal(size=40) * 2, 2) + rng.integers(-1, 2, 40) * 1e4
    scores = scores.astype(np.float32)
    labels = rng.integers(0, 4, 40).astype(np.float32)
    if loss == "ndcg":
        arguments = {"topn": None, "temperature": 20.0, "straight_through": False}
        ours = losses.PiRankNDCGLoss(**arguments)

        def relaxed(s):
            sort = pirank.dense_sort(20.0)
            return pirank.dense_ndcg_loss(s, labels.astype(float), sort)
    else:
        ours = losses.NeuralSortCrossEntropyLoss(
            temperature=20.0, straight_through=False
        )

        def relaxed(s):
            return pirank.dense_cross_entropy(s, labels, 20.0)

    value, slopes = value_and_gradient(ours, [labels], [scores])
    scores = scores.astype(float)
    np.testing.assert_allclose(value, relaxed(scores), rtol=1e-3)
    expected = oracles.gradient(relaxed, scores, range(40))
    scale = np.abs(expected).max()
    assert scale > 1e-4
    np.testing.assert_allclose(slopes[0], expected, rtol=1e-3, atol=2e-3 * scale)


def expected_and_slopes(scores, mask, values, ranks, temperature, upstream):
    """Values at ranks, and the slopes of their sum in the scores and the values."""
    with tf.GradientTape() as tape:
        tape.watch([scores, values])
        ranked = relaxations.neural_sort_expectation(
            scores, mask, values, ranks, temperature
        )
        total = tf.reduce_sum(ranked * upstream)
    return ranked, *tape.gradient(total, [scores, values])


@pytest.mark.parametrize("ranks", [65, 200, 300])
@pytest.mark.parametrize("shapes", ["static", "dynamic", "xla"])
@pytest.mark.parametrize("width", [None, 2])
def test_blocks_equal_the_dense_formula(ranks, shapes, width):
    rng = np.random.default_rng(ranks)
    size, temperature = 300, 40.0
    scores = rng.normal(size=[2, size])
    scores[0, 20:50] = scores[0, 20]
    real = np.array([size, 77])
    mask = np.arange(size) < real[:, np.newaxis]
    inner = [] if width is None else [width]
    values = rng.normal(size=[2, size, *inner])
    upstream = rng.normal(size=[2, ranks, *inner])
    function = expected_and_slopes
    if shapes == "dynamic":
        pair = tf.TensorSpec([None, None], tf.float64)
        many = tf.TensorSpec([None] * values.ndim, tf.float64)
        function = tf.function(
            function,
            input_signature=[
                pair,
                tf.TensorSpec([None, None], tf.bool),
                many,
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([], tf.float64),
                many,
            ],
        )
    elif shapes == "xla":
        function = tf.function(function, jit_compile=True)
        function = function.get_concrete_function(
            *(tf.TensorSpec(x.shape, x.dtype) for x in (scores, mask, values)),
            ranks,
            tf.TensorSpec([], tf.float64),
            tf.TensorSpec(upstream.shape, tf.float64),
        )
    arguments = [tf.constant(x) for x in (scores, mask, values)]
    if shapes != "xla":
        arguments.append(ranks)
    temperature_tensor = tf.constant(temperature, tf.float64)
    found = function(*arguments, temperature_tensor, tf.constant(upstream))
    ranked, score_slopes, value_slopes = (x.numpy() for x in found)
    for b, n in enumerate(real):
        kept = min(n, ranks)

        def sort(s, kept=kept):
            return pirank.dense_sort(temperature)(s, kept)

        rows, own, weights = sort(scores[b, :n]), values[b, :n], upstream[b, :kept]
        np.testing.assert_allclose(ranked[b, :kept], rows @ own, rtol=1e-8, atol=1e-10)
        assert not ranked[b, kept:].any()
        np.testing.assert_allclose(
            value_slopes[b, :n], rows.T @ weights, rtol=1e-8, atol=1e-10
        )
        items = [0, 25, 49, n - 1]
        slopes = oracles.gradient(
            lambda s, own=own, weights=weights: ((sort(s) @ own) * weights).sum(),
            scores[b, :n],
            items,
        )
        np.testing.assert_allclose(
            score_slopes[b, items], slopes, rtol=1e-7, atol=1e-10
        )
        assert not score_slopes[b, n:].any() and not value_slopes[b, n:].any()


@pytest.mark.grid
def test_5000_items_equal_the_dense_formula_at_a_few_ranks():
    rng = np.random.default_rng(0)
    size, ranks, temperature = 5000, [0, 31, 32, 64, 2500, 4999], 2000.0
    scores, values = rng.normal(size=[2, size])
    upstream = np.zeros(size)
    upstream[ranks] = rng.normal(size=len(ranks))
    dense = pirank.dense_neural_sort(scores, ranks, temperature) @ values

    def relaxed(s):
        rows = pirank.dense_neural_sort(s, ranks, temperature)
        return rows @ values @ upstream[ranks]

    items = [int(np.argmax(scores)), 17]
    expected = oracles.gradient(relaxed, scores, items)
    for dtype, tolerance in ((tf.float64, 1e-8), (tf.float32, 2e-3)):
        s, v, u = (tf.constant([x], dtype) for x in (scores, values, upstream))
        mask = tf.ones([1, size], tf.bool)
        ranked, slopes, _ = expected_and_slopes(s, mask, v, size, temperature, u)
        assert np.isfinite(ranked).all() and np.isfinite(slopes).all()
        np.testing.assert_allclose(
            ranked.numpy()[0, ranks], dense, rtol=tolerance, atol=tolerance
        )
        scale = np.abs(slopes).max()
        np.testing.assert_allclose(
            slopes.numpy()[0, items], expected, rtol=tolerance, atol=tolerance * scale
        )


LONG = {
    "top 10": losses.PiRankNDCGLoss(topn=10, straight_through=False),
    "ndcg": losses.PiRankNDCGLoss(topn=None, straight_through=False),
    "arp": losses.PiRankARPLoss(straight_through=False),
    "cross entropy": losses.NeuralSortCrossEntropyLoss(straight_through=False),
    "tree": losses.PiRankNDCGLoss(topn=10, straight_through=False, depth=3),
}
all_long = pytest.mark.parametrize("loss", LONG.values(), ids=LONG)


@all_long
@pytest.mark.parametrize(
    ("kind", "size"), [("normal", 5000), ("far", 1500), ("equal", 1500)]
)
def test_long_lists_are_finite(loss, kind, size):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=[1, size])
    scores = {
        "normal": scores,
        # 1e4 from one score to the next.
        "far": np.argsort(scores) * 1e4,
        "equal": np.full_like(scores, 3.0),
    }[kind]
    labels = rng.integers(0, 32, [1, size]).astype(np.float32)
    value, slopes = value_and_gradient(loss, labels, np.float32(scores))
    assert np.isfinite(value) and np.isfinite(slopes).all()
    assert kind == "far" or slopes.any()
    if kind == "equal" and not isinstance(loss, losses.NeuralSortCrossEntropyLoss):
        # Every rank then has the average item.
        if isinstance(loss, losses.PiRankARPLoss):
            np.testing.assert_allclose(value, (size + 1) / 2, rtol=1e-4)
        elif loss.get_config()["depth"] == 1:
            gains = 2.0 ** labels[0].astype(float) - 1
            ranks = loss.get_config()["topn"] or size
            discounts = 1 / np.log2(np.arange(ranks) + 2)
            ideal = np.sort(gains)[::-1][:ranks] @ discounts
            expected = 1 - gains.mean() * discounts.sum() / ideal
            np.testing.assert_allclose(value, expected, rtol=1e-4)


@all_long
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision_equals_float32_of_the_same_scores(loss, dtype):
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 5, [1, 700]).astype(np.float32)
    half = tf.cast(rng.normal(size=[1, 700]), dtype)
    value, slopes = value_and_gradient(loss, labels, half)
    expected, full = value_and_gradient(loss, labels, tf.cast(half, tf.float32))
    np.testing.assert_allclose(np.float32(value), expected, rtol=1e-2)
    slopes = np.float32(slopes)
    assert np.isfinite(slopes).all()
    np.testing.assert_allclose(slopes, full, rtol=2e-2, atol=2e-2 * np.abs(full).max())
