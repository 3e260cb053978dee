"""NeuralSort, its merge tree and SoftSort: indicators against float64 oracles."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import oracles
from tests.oracles import pirank
from tfr_ext import relaxations

pytestmark = pytest.mark.first_case("name")

TREE = {"temperatures": [0.5, 1.0, 2.0], "branching": [2, 3, 2]}
WIDE = {"temperatures": [1.0, 2.0], "branching": [5, 2], "merge_topn": [5, 3]}
# The operator, its oracle, and arguments of both.
CASES = {
    "neural_sort": ("neural_sort", {"temperature": 2.0}),
    "neural_sort cold": ("neural_sort", {"temperature": 0.3}),
    "soft_sort": ("soft_sort", {"temperature": 0.8}),
    "soft_sort cold": ("soft_sort", {"temperature": 0.1}),
    "merge_sort": ("merge_sort", TREE),
    "merge_sort wide": ("merge_sort", WIDE),
}


def batch(ties):
    """Lists with padding before and between, and the places of their items."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=[4, 10])
    if ties:
        scores[:, [1, 4, 7]] = 0.25
        scores[:, [2, 8]] = -0.5
    places = [np.arange(10), np.array([1, 2, 4, 7, 8]), np.array([3]), np.array([1, 4])]
    mask = np.zeros([4, 10], bool)
    for row, items in zip(mask, places):
        row[items] = True
    return np.where(mask, scores, 1e3), mask, places


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("num_ranks", [1, 3, 10])
@pytest.mark.parametrize("ties", [False, True])
def test_rows_and_their_gradient_equal_the_oracle(case, num_ranks, ties):
    name, arguments = CASES[case]
    if case == "merge_sort wide" and num_ranks != 3:
        pytest.skip("its merge_topn is of another cut-off")
    oracle = functools.partial(getattr(pirank, name), **arguments)
    scores, mask, places = batch(ties)
    upstream = np.random.default_rng(1).normal(size=[4, num_ranks, 10])
    y_pred = tf.constant(scores)
    with tf.GradientTape() as tape:
        tape.watch(y_pred)
        rows = getattr(relaxations, name)(
            y_pred, tf.constant(mask), num_ranks, **arguments
        )
        total = tf.reduce_sum(rows * upstream)
    slopes = tape.gradient(total, y_pred).numpy()
    for b, items in enumerate(places):
        kept = min(num_ranks, len(items))
        real = scores[b, items].tolist()
        np.testing.assert_allclose(
            rows.numpy()[b, :kept][:, items],
            np.real(oracle(real, kept)),
            rtol=1e-9,
            atol=1e-14,
        )
        if name == "merge_sort" and ties and len(items) == 2:
            # Two that tie are a tie of mixtures above, where rounding decides.
            continue

        def weighted(s, b=b, items=items, kept=kept):
            weights = upstream[b, :kept][:, items]
            return sum(
                w * p
                for ws, row in zip(weights, oracle(s, kept))
                for w, p in zip(ws, row)
            )

        expected = oracles.gradient(weighted, real)
        np.testing.assert_allclose(slopes[b, items], expected, rtol=1e-7, atol=1e-11)
        assert not np.delete(slopes[b], items).any()


@pytest.mark.parametrize("temperature", [0.5, 5.0])
def test_log_likelihood_equals_the_oracle(temperature):
    scores, mask, places = batch(ties=True)
    labels = np.random.default_rng(2).integers(0, 3, scores.shape) + 1.0
    labels = np.where(mask, labels, 0)
    y_pred = tf.constant(scores)
    with tf.GradientTape() as tape:
        tape.watch(y_pred)
        value = relaxations.neural_sort_log_likelihood(
            y_pred, tf.constant(mask), tf.constant(labels), temperature
        )
    slopes = tape.gradient(value, y_pred).numpy()
    for b, items in enumerate(places):
        negated = functools.partial(
            pirank.cross_entropy,
            labels=labels[b, items].tolist(),
            temperature=temperature,
        )
        real, count = scores[b, items].tolist(), len(items)
        np.testing.assert_allclose(
            value[b], -count * np.real(negated(real)), rtol=1e-9, atol=1e-12
        )
        np.testing.assert_allclose(
            slopes[b, items],
            -count * np.array(oracles.gradient(negated, real)),
            rtol=1e-7,
            atol=1e-10,
        )


def test_many_rows_and_their_gradient_equal_the_dense_formula():
    rng = np.random.default_rng(4)
    scores, real = rng.normal(size=[2, 90]), [90, 71]
    scores[0, :20] = scores[0, 0]
    upstream = rng.normal(size=[2, 90, 90])
    y_pred = tf.constant(scores)
    mask = tf.constant(np.arange(90) < np.array(real)[:, np.newaxis])
    with tf.GradientTape() as tape:
        tape.watch(y_pred)
        rows = relaxations.neural_sort(y_pred, mask, temperature=20.0)
        total = tf.reduce_sum(rows * upstream)
    slopes = tape.gradient(total, y_pred).numpy()
    sort = pirank.dense_sort(20.0)
    for b, n in enumerate(real):
        np.testing.assert_allclose(
            rows[b, :n, :n], sort(scores[b, :n], n), rtol=1e-9, atol=1e-14
        )
        expected = oracles.gradient(
            lambda s, b=b, n=n: (sort(s, n) * upstream[b, :n, :n]).sum(),
            scores[b, :n],
            range(0, n, 7),
        )
        np.testing.assert_allclose(slopes[b, :n:7], expected, rtol=1e-7, atol=1e-10)
        assert not slopes[b, n:].any()
