"""Every relaxation with every objective: cold, it is the exact metric."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import oracles
from tfr_ext import objectives, relaxations

pytestmark = pytest.mark.first_case("relaxation")

# Functions of scores, mask, number of ranks and temperature.
RELAXATIONS = {
    "smoothi": lambda s, m, k, t: relaxations.smoothi(s, m, k, alpha=1 / t),
    "neural_sort": relaxations.neural_sort,
    "merge_sort": lambda s, m, k, t: relaxations.merge_sort(s, m, k, [t / 2, t, t]),
    "merge_sort_given": lambda s, m, k, t: relaxations.merge_sort(
        s, m, k, [t, t], [3, 3], None if k == 8 else [3, 3]
    ),
    "soft_sort": relaxations.soft_sort,
    "exact_sort": lambda s, m, k, t: relaxations.exact_sort(s, m, k),
}
SIZES = (8, 5)


def falling_temperatures(relaxation):
    """Temperatures for `two_lists`; warmer still, SmoothI's error need not fall."""
    warmest = 0.1 if relaxation == "smoothi" else 1.0
    return [warmest / 4**i for i in range(5)]


def two_lists():
    """Well separated scores in lists of 8 and of 5 items, and their labels."""
    rng = np.random.default_rng(0)
    scores = np.stack([rng.permutation(np.arange(1.0, 9.0)) for _ in SIZES])
    labels = rng.integers(0, 5, scores.shape).astype(float)
    mask = np.arange(8) < np.array(SIZES)[:, np.newaxis]
    return scores, np.where(mask, labels, 0), mask


OBJECTIVES = [
    *((name, {}) for name in objectives.names(lambda cls: cls.READINGS)),
    ("ndcg", {"expected": "gain"}),
    ("ndcg", {"gain": "linear"}),
    ("ndcg", {"gain": "power"}),
    ("ndcg", {"gain": "power", "expected": "gain"}),
]


@pytest.mark.parametrize("topn", [None, 3])
@pytest.mark.parametrize(("name", "arguments"), OBJECTIVES, ids=str)
@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_cold_limit_is_the_exact_metric(relaxation, name, arguments, topn):
    scores, labels, mask = two_lists()
    arguments = {
        "topn": topn,
        "relevance_threshold": 2.0,
        "max_label": 4.0,
        **arguments,
    }
    exact = []
    for b, size in enumerate(SIZES):
        rows = oracles.exact_indicators(scores[b, :size], min(topn or size, size))
        exact.append(oracles.metric(name, rows, labels[b, :size], **arguments))
    assert None not in exact
    objective = objectives.get(name, **arguments)
    errors = []
    for temperature in falling_temperatures(relaxation):
        rows = RELAXATIONS[relaxation](
            tf.constant(scores), tf.constant(mask), topn or 8, temperature
        )
        value = objective(rows, tf.constant(labels), tf.constant(mask)).numpy()
        errors.append(np.abs(value - exact).max())
    assert errors[-1] < 1e-12
    for warmer, colder in zip(errors, errors[1:]):
        assert colder < warmer or colder < 1e-12


@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_rows_tend_to_the_exact_sort_as_the_temperature_falls(relaxation):
    scores, _, mask = two_lists()
    errors = []
    for temperature in falling_temperatures(relaxation):
        rows = RELAXATIONS[relaxation](
            tf.constant(scores), tf.constant(mask), 8, temperature
        ).numpy()
        errors.append(0.0)
        for b, size in enumerate(SIZES):
            exact = oracles.exact_indicators(scores[b, :size], size)
            error = np.abs(rows[b, :size, :size] - exact).max()
            errors[-1] = max(errors[-1], error)
    assert errors[-1] < 1e-12
    for warmer, colder in zip(errors, errors[1:]):
        assert colder < warmer or colder < 1e-12
    assert relaxation == "exact_sort" or errors[0] > 0.1


@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize("num_ranks", [1, 4, 8])
@pytest.mark.parametrize("temperature", [0.3, 5.0])
def test_rows_are_stochastic_and_0_at_padding(relaxation, num_ranks, temperature):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=[3, 8])
    scores[1, :4] = 0.5
    # Padding in front and between, with scores that would win.
    mask = np.array([[1] * 8, [1, 0, 1, 1, 0, 1, 1, 0], [0, 0, 0, 1, 0, 0, 0, 0]])
    mask = mask.astype(bool)
    scores = np.where(mask, scores, 1e3)
    if relaxation == "merge_sort_given" and num_ranks != 8:
        pytest.skip("its merge_topn is of another cut-off")
    rows = RELAXATIONS[relaxation](
        tf.constant(scores), tf.constant(mask), num_ranks, temperature
    ).numpy()
    assert rows.shape == (3, num_ranks, 8)
    for b, real in enumerate(mask.sum(axis=1)):
        kept = min(real, num_ranks)
        assert (rows[b, :kept] >= 0).all()
        np.testing.assert_allclose(rows[b, :kept].sum(axis=1), 1, rtol=1e-12)
        assert not rows[b, :kept][:, ~mask[b]].any()
        if relaxation not in ("smoothi", "exact_sort"):
            assert not rows[b, kept:].any()


EXPECTATIONS = {
    "smoothi": (relaxations.smoothi, relaxations.smoothi_expectation, {"alpha": 2.0}),
    "neural_sort": (
        relaxations.neural_sort,
        relaxations.neural_sort_expectation,
        {"temperature": 3.0},
    ),
    "merge_sort": (
        relaxations.merge_sort,
        relaxations.merge_sort_expectation,
        {"temperatures": [1.0, 2.0, 3.0]},
    ),
    "merge_sort_given": (
        relaxations.merge_sort,
        relaxations.merge_sort_expectation,
        {"temperatures": [1.0, 3.0], "branching": [5, 4]},
    ),
    "soft_sort": (
        relaxations.soft_sort,
        relaxations.soft_sort_expectation,
        {"temperature": 0.7},
    ),
    "exact_sort": (relaxations.exact_sort, relaxations.exact_expectation, {}),
}
MANY_VALUES = ("neural_sort", "merge_sort", "merge_sort_given")


@pytest.mark.parametrize("relaxation", EXPECTATIONS)
@pytest.mark.parametrize("num_ranks", [1, 5, 16, 17, 20, None])
@pytest.mark.parametrize("width", [None, 3])
def test_expectation_is_the_product_of_rows_and_values(relaxation, num_ranks, width):
    if width and relaxation not in MANY_VALUES:
        pytest.skip("takes one value an item")
    matrix, expectation, arguments = EXPECTATIONS[relaxation]
    rng = np.random.default_rng(2)
    scores = rng.normal(size=[3, 20])
    scores[0, 3:6] = scores[0, 3]
    mask = tf.constant(np.arange(20) < [[20], [13], [1]])
    inner = [width] if width else []
    values = rng.normal(size=[3, 20, *inner])
    values *= mask.numpy().reshape([3, 20, *[1] * len(inner)])
    scores, values = tf.constant(scores), tf.constant(values)
    upstream = tf.constant(rng.normal(size=[3, num_ranks or 20, *inner]))
    # What smoothi's rows beyond the real items are means nothing.
    real_ranks = tf.cast(mask[:, : num_ranks or 20], tf.float64)
    upstream *= tf.reshape(real_ranks, [3, -1, *[1] * len(inner)])

    def product():
        rows = matrix(scores, mask, num_ranks, **arguments)
        return tf.einsum("brj,bj...->br...", rows, values)

    results = []
    for function in (
        functools.partial(expectation, scores, mask, values, num_ranks, **arguments),
        product,
    ):
        with tf.GradientTape() as tape:
            tape.watch([scores, values])
            ranked = function()
            total = tf.reduce_sum(ranked * upstream)
        slopes = tape.gradient(total, [scores, values], unconnected_gradients="zero")
        ranked = tf.where(upstream != 0, ranked, 0)
        results.append([ranked, *slopes])
    found, expected = results
    if relaxation == "smoothi":
        # Its values are constants, as the labels of a loss are.
        found, expected = found[:2], expected[:2]
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
def test_neural_sort_is_unimodal(temperature):
    """However warm, the largest entries of the rows are the permutation."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=[4, 30])
    rows = relaxations.neural_sort(
        tf.constant(scores), tf.ones([4, 30], tf.bool), temperature=temperature
    ).numpy()
    np.testing.assert_array_equal(rows.argmax(axis=2), np.argsort(-scores, axis=1))
