"""The fast forms of the relaxations against the definitions beside them."""

import numpy as np
import pytest
import tensorflow as tf

from tfr_ext import relaxations

PAIRS = {
    "smoothi": (
        lambda s, m, k: relaxations.plain_smoothi(s, m, k, 2.0, 0.2),
        lambda s, m, k: relaxations.smoothi(s, m, k, 2.0, 0.2),
        lambda s, m, v, k: relaxations.smoothi_expectation(s, m, v, k, 2.0, 0.2),
    ),
    "smoothi without the stop-gradient": (
        lambda s, m, k: relaxations.plain_smoothi(s, m, k, 2.0, 0.2, False),
        lambda s, m, k: relaxations.smoothi(s, m, k, 2.0, 0.2, False),
        lambda s, m, v, k: relaxations.smoothi_expectation(s, m, v, k, 2.0, 0.2, False),
    ),
    "neural_sort": (
        lambda s, m, k: relaxations.plain_neural_sort(s, m, k, 3.0),
        lambda s, m, k: relaxations.neural_sort(s, m, k, 3.0),
        lambda s, m, v, k: relaxations.neural_sort_expectation(s, m, v, k, 3.0),
    ),
    "soft_sort": (
        lambda s, m, k: relaxations.soft_sort(s, m, k, 0.7),
        lambda s, m, k: relaxations.SoftSort(0.7).indicators(s, m, k),
        lambda s, m, v, k: relaxations.soft_sort_expectation(s, m, v, k, 0.7),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("num_ranks", [1, 5, 20])
def test_values_and_gradients_are_those_of_the_definition(name, num_ranks):
    rng = np.random.default_rng(0)
    scores = tf.constant(rng.normal(size=[3, 20]))
    mask = tf.constant(np.arange(20) < [[20], [13], [2]])
    values = tf.where(mask, tf.constant(rng.normal(size=[3, 20])), 0)
    # What rows beyond the real items are means nothing.
    upstream = tf.cast(mask[:, :num_ranks], tf.float64)
    upstream *= rng.normal(size=[3, num_ranks])
    plain, fast, expectation = PAIRS[name]
    results = []
    for ranked in (
        lambda: tf.linalg.matvec(plain(scores, mask, num_ranks), values),
        lambda: tf.linalg.matvec(fast(scores, mask, num_ranks), values),
        lambda: expectation(scores, mask, values, num_ranks),
    ):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            found = ranked() * upstream
        results.append((found, tape.gradient(found, scores)))
    for found in results[1:]:
        for a, b in zip(found, results[0]):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
