"""Every loss on random lists, sane and absurd, amid padding of any content.

TFR_EXT_FUZZ=1000 tries so many batches of every loss, with every type of scores.
"""

import functools
import os

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import compiled, gradient_step
from tests.losses import cases

FUZZ = int(os.environ.get("TFR_EXT_FUZZ", "0"))
DTYPES = [tf.float32, tf.float16, tf.bfloat16, tf.float64] if FUZZ else [tf.float32]
# Graphs first: what Keras trains with.
MODES = ["graph", "eager", "xla"]

pytestmark = [
    pytest.mark.first_case("case"),
    pytest.mark.parametrize("case", cases.PARAMETERS, ids=str),
]

LENGTHS = (1, 2, 3, 8)
LISTS_OF_A_LENGTH = 5
WIDTH = 11


def largest(dtype):
    """The size up to which scores of a type must be fit to train on."""
    return 6e4 if dtype == tf.float16 else float(dtype.max) / 1e6


def draw_scores(rng, length, dtype):
    """Scores of a list: of one size or of many, tied, all equal, or with an outlier."""

    def sizes(count=1):
        return 10 ** rng.uniform(-3, np.log10(largest(dtype)), count)

    normal = rng.normal(size=length)
    kind = rng.integers(5)
    if kind == 0:
        return normal
    if kind == 1:
        return normal * sizes()
    if kind == 2:
        return np.sign(normal) * sizes(length)
    if kind == 3:
        return rng.choice(np.append(normal[:2] * sizes(), 0.0), length)
    scores = np.full(length, normal[0] * sizes())
    if rng.integers(2):
        scores[rng.integers(length)] = sizes()[0] * rng.choice([-1, 1])
    return scores


def draw(rng, length, dtype):
    """Labels and scores of lists without padding, `[lists, length]` each."""
    labels = rng.integers(0, 4, [LISTS_OF_A_LENGTH, length])
    labels[0] = labels[0, 0]
    scores = np.stack([draw_scores(rng, length, dtype) for _ in labels])
    bound = largest(dtype)
    return labels.astype(np.float32), np.clip(scores, -bound, bound)


def amid_padding(rng, labels, scores, dtype):
    """Spreads lists over wider rows of padding; adds a row of padding alone.

    Returns:
        Labels and scores `[lists + 1, WIDTH]`.
    """
    shape = [len(labels) + 1, WIDTH]
    most = largest(dtype)
    wide_labels = rng.choice([-1.0, -7.0, -np.inf], shape).astype(np.float32)
    wide_scores = rng.choice([np.nan, np.inf, -np.inf, most, -most, 0.0, 1.0], shape)
    places = [np.sort(rng.permutation(WIDTH)[: labels.shape[1]]) for _ in labels]
    np.put_along_axis(wide_labels[:-1], np.stack(places), labels, axis=1)
    np.put_along_axis(wide_scores[:-1], np.stack(places), scores, axis=1)
    return wide_labels, wide_scores


def step_of(loss, dtype, mode):
    """The sum of the losses of each list, and its gradient, as float64 arrays."""
    step = functools.partial(gradient_step, loss)
    if mode != "eager":
        specs = [tf.TensorSpec([None, None]), tf.TensorSpec([None, None], dtype)]
        step = compiled(loss, *specs, jit=mode == "xla")

    def numbers(labels, scores):
        value, slopes = step(tf.constant(labels), tf.cast(scores, dtype))
        return value.numpy().astype(float).sum(axis=1), slopes.numpy().astype(float)

    return numbers


def in_range(of_half, of_single):
    """The numbers of a step in float16, with the slopes that it has no room for."""
    (value, half), (_, single) = of_half, of_single
    too_large = np.abs(single) > float(tf.float16.max)
    return value, np.where(too_large & np.isinf(half), single, half)


def faults(expected, found, real):
    """What differs between lists and the same lists amid padding."""
    (value, slopes), (padded, padded_slopes) = expected, found
    if np.isnan(value).any() or np.isnan(padded).any():
        yield f"NaN value: {value}, amid padding {padded}"
    if not np.isfinite(slopes).all() or not np.isfinite(padded_slopes).all():
        yield f"gradient not finite: {slopes}, amid padding {padded_slopes}"
    if padded_slopes[~real].any():
        yield "padding has a gradient"
    if not np.allclose(padded, value, rtol=1e-4, atol=1e-5):
        yield f"value {value}, amid padding {padded}"
    bounds = 1e-6 + 1e-3 * np.abs(slopes).max(axis=1, keepdims=True)
    wrong = np.flatnonzero((np.abs(padded_slopes - slopes) > bounds).any(axis=1))
    if len(wrong):
        yield f"gradient {slopes[wrong]}, amid padding {padded_slopes[wrong]}"


def alone(step, case, labels, scores):
    """What lists have for themselves, where they stand in rows of padding."""
    value, slopes = np.zeros(len(labels)), np.zeros(labels.shape)
    lengths = (labels >= 0).sum(axis=1)
    # Where lists weigh each other, all of them, with padding behind.
    groups = (
        [lengths >= 0]
        if case.couples_lists
        else lengths == np.unique(lengths)[:, np.newaxis]
    )
    for rows in groups:
        first = np.argsort(labels[rows] < 0, axis=1, kind="stable")
        first = first[:, : lengths[rows].max()]
        real = np.take_along_axis(labels[rows], first, axis=1)
        of_real = np.take_along_axis(scores[rows], first, axis=1)
        value[rows], tidy = step(real, np.where(real >= 0, of_real, 0))
        spread = np.zeros(labels[rows].shape)
        np.put_along_axis(spread, first, tidy, axis=1)
        slopes[rows] = spread
    return value, slopes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_lists_amid_padding_equal_themselves(case, dtype, mode):
    loss = case.build(reduction="none")
    step = step_of(loss, dtype, mode)
    # XLA compiles each length anew.
    lengths = LENGTHS[1::2] if mode == "xla" and not FUZZ else LENGTHS
    for seed in range(FUZZ or 3):
        rng = np.random.default_rng(seed)
        drawn = [amid_padding(rng, *draw(rng, n, dtype), dtype) for n in lengths]
        labels, scores = (np.concatenate(x) for x in zip(*drawn))
        expected, found = alone(step, case, labels, scores), step(labels, scores)
        if dtype == tf.float16:
            rounded = tf.cast(tf.cast(scores, dtype), tf.float32).numpy()
            single = step_of(loss, tf.float32, "eager")(labels, rounded)
            expected, found = (in_range(x, single) for x in (expected, found))
        wrong = list(faults(expected, found, labels >= 0))
        assert not wrong, (seed, labels, scores, wrong)


@pytest.mark.grid
def test_steps_of_any_size_end_in_no_nan(case):
    loss = case.build()
    rng = np.random.default_rng(1)
    labels, _ = amid_padding(rng, *draw(rng, 8, tf.float32), tf.float32)
    start = np.where(labels >= 0, rng.normal(size=labels.shape) * 1e4, 0)
    scores = tf.Variable(start, dtype=tf.float32)
    optimizer = tf.keras.optimizers.Adam(10.0)
    optimizer.build([scores])

    @tf.function
    def train():
        worst = tf.constant(0.0)
        for _ in tf.range(200):
            with tf.GradientTape() as tape:
                value = loss(labels, scores)
            optimizer.apply_gradients([(tape.gradient(value, scores), scores)])
            worst += value * 0
        return value, worst

    values = train()
    assert not np.isnan(values).any() and np.isfinite(scores).all()
