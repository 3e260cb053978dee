"""TensorFlow Ranking's losses far out: any finite scores, with any padding.

TFR_EXT_FUZZ=20000 draws other lists in each run, more of them, in all types.
"""

import os

import numpy as np
import pytest
import tensorflow as tf

from tests.losses import every_key
from tfr_ext import losses
from tfr_ext.losses.tfr import classes

FUZZ = int(os.environ.get("TFR_EXT_FUZZ", "0"))
LISTS = 400 if FUZZ else 60  # of each size
SIZES, WIDTH = (1, 2, 5, 9), 14
DTYPES = ["float32", *(["float16", "bfloat16", "float64"] if FUZZ else [])]
# They are computed in float32, so that float64 has no higher.
TOP = float(np.finfo(np.float32).max) / 1e6
TOPS = {"float16": 6e4}
# The slopes of squares of such scores are beyond float16.
SQUARED_TOPS = {"float16": 500.0}
MODES = ["graph", "eager", "xla"]  # Graphs first: what Keras trains with.
SQUARED = ("pairwise_mse_loss", "mean_squared_loss")
NDCG = {"lambda_weight": "ndcg"}
AT_2 = {"lambda_weight_params": {"topn": 2}}
# Weights of ranks put tied items in a random order: no list equals another then.
CASES = [
    *((key, {}) for key in classes.LOSSES),
    *((key, {**NDCG, **AT_2}) for key in ("pairwise_mse_loss", "softmax_loss")),
    ("pairwise_mse_loss", {"lambda_weight": "precision", **AT_2}),
    ("pairwise_logistic_loss", NDCG),
    ("pairwise_logistic_loss", {"lambda_weight": "ndcg_v2", **AT_2}),
]
pytestmark = pytest.mark.first_case("key")
every_case = pytest.mark.parametrize(
    ("key", "kwargs"),
    CASES,
    ids=["-".join([key, *map(str, kw.values())]) for key, kw in CASES],
)
every_key_of_tfr = pytest.mark.parametrize("key", classes.LOSSES)


def random_scores(rng, count, size, top):
    """Lists from 1e-3 in size to `top`: even, tied, equal, outliers, all sizes."""
    scale = 10 ** rng.uniform(-3, np.log10(top), [count, 1])
    even = rng.uniform(-1, 1, [count, size])
    tied = np.round(2 * even) / 2
    equal = np.repeat(rng.choice([-1, 1], [count, 1]), size, axis=1)
    extreme = rng.choice([-1, 0, 1], [count, size]) * top
    sizes = even * 10 ** -rng.uniform(0, 8, [count, size])
    outlier = np.where(np.arange(size) == size // 2, scale * equal, even)
    kinds = [even * scale, tied * scale, equal * scale, outlier, sizes * scale, extreme]
    return np.choose(np.arange(count)[:, np.newaxis] % len(kinds), kinds)


def random_batch(seed, top):
    """Lists without padding, by size, and the same lists in one batch with padding."""
    rng = np.random.default_rng(None if FUZZ else seed)
    plain, labels, scores, places = [], [], [], []
    for size in SIZES:
        short = random_scores(rng, LISTS, size, top)
        # Some without, most with each label once; ListMLE has one order then.
        grades = np.argsort(rng.random([LISTS, size]), axis=1).astype(np.float32)
        plain.append((grades, short))
        columns = np.sort(rng.random([LISTS, WIDTH]).argsort(axis=1)[:, :size], axis=1)
        padded = rng.choice([-1, -3, -np.inf], [LISTS, WIDTH])
        junk = rng.choice([np.nan, np.inf, -np.inf, top, 0], [LISTS, WIDTH])
        np.put_along_axis(padded, columns, grades, axis=1)
        np.put_along_axis(junk, columns, short, axis=1)
        labels.append(padded), scores.append(junk), places.append(columns)
    labels.append(np.full([3, WIDTH], -1.0))
    scores.append(np.full([3, WIDTH], np.nan))
    padded = (np.concatenate(labels).astype(np.float32), np.concatenate(scores))
    return plain, padded, places


def step(key, kwargs, reduction="none"):
    kwargs = {"ordinal_size": 3, **kwargs} if key == "ordinal_loss" else kwargs
    loss = losses.get(key, reduction=reduction, **kwargs)

    def value_and_gradient(labels, scores):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            levels = tf.constant([1, 0.5, -1], scores.dtype)
            given = scores[..., tf.newaxis] * levels if "ordinal" in key else scores
            value = loss(labels, given)
        return value, tape.gradient(value, scores)

    return value_and_gradient


def in_mode(function, mode):
    return (
        function
        if mode == "eager"
        else tf.function(function, jit_compile=mode == "xla")
    )


@every_case
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_padding_is_invisible_to_lists_of_any_size(key, kwargs, mode, dtype):
    tops = SQUARED_TOPS if key in SQUARED else TOPS
    plain, (labels, scores), places = random_batch(7, tops.get(dtype, TOP))
    value_and_gradient = step(key, kwargs)
    value, gradient = in_mode(value_and_gradient, mode)(labels, tf.cast(scores, dtype))
    value, gradient = value.numpy(), tf.cast(gradient, tf.float32).numpy()
    samples = len(value) // len(labels)
    assert not np.isnan(value).any()
    assert not value.reshape([-1, value.size // len(value)])[-3 * samples :].any()
    assert np.isfinite(gradient).all() and not gradient[labels < 0].any()
    real = np.abs(np.where(labels >= 0, scores, 0)).max(axis=1)
    if key in SQUARED:
        assert np.isfinite(value[real < 1e18]).all()
    else:
        assert np.isfinite(value).all()
    if key in every_key.SAMPLED or "lambda_weight" in kwargs:
        return
    for i, ((few, short), columns) in enumerate(zip(plain, places)):
        expected, slopes = value_and_gradient(few, tf.cast(short, dtype))
        rows = slice(i * LISTS, (i + 1) * LISTS)
        found = value[rows].reshape([LISTS, -1])
        if value.shape[-1] == WIDTH:
            found = np.take_along_axis(found, columns, axis=1)
        expected = expected.numpy().reshape(found.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        found = np.take_along_axis(gradient[rows], columns, axis=1)
        slopes = tf.cast(slopes, tf.float32).numpy()
        # The slopes are of the type of the scores.
        near = {"float16": 1e-3, "bfloat16": 1e-2}.get(dtype, 1e-4)
        near *= np.maximum(1, np.abs(slopes).max(axis=1, keepdims=True))
        assert (np.abs(found - slopes) <= near).all()


@pytest.mark.grid
@every_case
def test_adam_with_large_steps_meets_no_nan(key, kwargs):
    _, (labels, scores), _ = random_batch(11, TOP)
    rows = np.arange(0, len(labels), 4)
    labels, scores = labels[rows], tf.cast(scores[rows], tf.float32)
    value_and_gradient = step(key, kwargs, "sum")

    @tf.function
    def train(scores):
        first, second = tf.zeros_like(scores), tf.zeros_like(scores)
        for i in tf.range(1.0, 201.0):
            _, slopes = value_and_gradient(labels, scores)
            first = 0.9 * first + 0.1 * slopes
            second = 0.999 * second + 0.001 * slopes**2
            mean, deviation = first / (1 - 0.9**i), tf.sqrt(second / (1 - 0.999**i))
            scores -= 10.0 * mean / (deviation + 1e-7)
        return scores, value_and_gradient(labels, scores)

    scores, (value, slopes) = train(scores)
    assert np.isfinite(scores.numpy()[labels >= 0]).all()
    assert np.isfinite(slopes).all() and not np.isnan(value)


@every_key_of_tfr
def test_what_is_not_finite_is_never_hidden(key):
    """The value of its list is not finite, that of any other list is as ever."""
    grades = np.float32([[2, 0, 1, 3, -1], [0, 0, 0, 0, -1]])
    clean = np.float32([0.3, -0.2, 1.7, 0.5, 0])
    cases = [
        (y, i, x) for y in grades for i in range(4) for x in (np.inf, -np.inf, np.nan)
    ]
    rows = np.arange(len(cases))
    columns, bad = (np.array([case[k] for case in cases]) for k in (1, 2))
    labels = np.stack([*(case[0] for case in cases), grades[0]])
    scores = np.repeat(clean[np.newaxis], len(labels), axis=0)
    weights = np.ones_like(scores)
    loss = losses.get(key, reduction="none")

    def spoilt(values):
        values = values.copy()
        values[rows, columns] = bad
        return values

    loss = tf.function(loss)

    def finite(labels, scores, weights):
        given = scores[..., np.newaxis] if key == "ordinal_loss" else scores
        value = loss(labels, tf.constant(given), weights).numpy()
        return np.isfinite(value).reshape([len(labels), -1]).all(axis=1)

    assert finite(labels, scores, weights).all()
    of_labels, of_scores, of_weights = (
        finite(spoilt(labels), scores, weights),
        finite(labels, spoilt(scores), weights),
        finite(labels, scores, spoilt(weights)),
    )
    assert not of_labels[:-1][bad != -np.inf].any()  # a negative label is padding
    assert not of_scores[:-1].any() and not of_weights[:-1].any()
    assert of_labels[-1] and of_scores[-1] and of_weights[-1]
