"""SoftSort's relaxation and loss against float64 oracles, and at their extremes."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import oracles
from tests.helpers import compiled, random_lists, value_and_gradient
from tests.losses.against_oracles import assert_equals_dense, assert_equals_oracle
from tests.oracles import pirank, soft_sort
from tfr_ext import losses, relaxations

pytestmark = pytest.mark.first_case

# Metrics, and what each form of the loss takes with them.
INDICATORS = [
    ("ndcg", {}),
    ("precision", {"relevance_threshold": 2.0}),
    ("map", {}),
    ("arp", {}),
    ("mrr", {"relevance_threshold": 2.0}),
    ("err", {"max_label": 3.0}),
]
POSITION = [
    ("ndcg", {}),
    ("ndcg", {"topn": 3, "beta": 1.0}),
    ("precision", {"topn": 4, "beta": 0.5}),
    ("map", {"beta": 1.0, "relevance_threshold": 2.0}),
    ("map", {"topn": 2}),
]


def small_lists():
    """With ties and without, and one with nothing relevant."""
    yield from random_lists(1, (1, 2, 5, 23))
    yield from random_lists(2, (3, 12), ties=True)
    yield [0.5, -0.5, 2.0], [0.0] * 3


def test_the_dense_oracle_equals_the_one_of_loops():
    for scores, _ in small_lists():
        np.testing.assert_allclose(
            soft_sort.soft_sort(scores, len(scores), 0.7),
            pirank.soft_sort(scores, len(scores), 0.7),
            rtol=1e-12,
        )


@pytest.mark.parametrize(("metric", "arguments"), INDICATORS, ids=str)
@pytest.mark.parametrize("topn", [None, 3, 20])
@pytest.mark.parametrize("temperature", [0.2, 3.0])
def test_indicators_equal_the_oracle(metric, arguments, topn, temperature):
    arguments = {
        "metric": metric,
        "temperature": temperature,
        "topn": topn,
        **arguments,
    }
    assert_equals_oracle(
        losses.SoftSortLoss(reduction="none", **arguments),
        functools.partial(soft_sort.indicators_loss, **arguments),
        list(small_lists()),
    )


@pytest.mark.parametrize(("metric", "arguments"), POSITION, ids=str)
@pytest.mark.parametrize("temperature", [0.2, 3.0])
def test_positions_equal_the_oracle(metric, arguments, temperature):
    arguments = {"metric": metric, "temperature": temperature, **arguments}
    assert_equals_oracle(
        losses.SoftSortLoss(form="position", reduction="none", **arguments),
        functools.partial(soft_sort.position_loss, **arguments),
        list(small_lists()),
    )


@pytest.mark.parametrize("form", ["indicators", "position"])
@pytest.mark.parametrize("topn", [None, 5, 60])
@pytest.mark.parametrize("ties", [False, True])
def test_ndcg_of_up_to_200_items_equals_the_oracle(form, topn, ties):
    arguments = {"metric": "ndcg", "topn": topn, "temperature": 0.5}
    assert_equals_dense(
        losses.SoftSortLoss(form=form, reduction="none", **arguments),
        functools.partial(getattr(soft_sort, f"{form}_loss"), **arguments),
        list(random_lists(3, (40, 63, 130, 200), ties)),
    )


def hidden_in_padding(size=30, ties=False, dtype=np.float64):
    """Scores, mask, values of full, half empty and empty lists."""
    rng = np.random.default_rng(size)
    scores = rng.normal(size=[4, size])
    if ties:
        scores = np.round(scores * 2) / 2
    mask = rng.random([4, size]) < [[1.1], [0.6], [0.1], [0.0]]
    values = rng.normal(size=[4, size])
    return tf.constant(scores, dtype), tf.constant(mask), tf.constant(values, dtype)


@pytest.mark.parametrize("num_ranks", [1, 4, 16, 17, 29, 40, None])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("temperature", [0.1, 30.0])
def test_expectation_equals_the_matrix_product(num_ranks, ties, temperature):
    scores, mask, values = hidden_in_padding(ties=ties)
    ranks = min(num_ranks or 30, 30)
    upstream = np.random.default_rng(0).normal(size=[4, ranks])
    results = []
    for name in ("soft_sort", "soft_sort_expectation"):
        with tf.GradientTape() as tape:
            tape.watch([scores, values])
            if name == "soft_sort":
                rows = relaxations.soft_sort(scores, mask, ranks, temperature)
                ranked = tf.linalg.matvec(rows, values)
            else:
                ranked = relaxations.soft_sort_expectation(
                    scores, mask, values, num_ranks, temperature
                )
                assert ranked.shape == [4, num_ranks or 30]
                assert not ranked[:, ranks:].numpy().any()
                ranked = ranked[:, :ranks]
            total = tf.reduce_sum(ranked * upstream)
        results.append([ranked, *tape.gradient(total, [scores, values])])
    for expected, found in zip(*results):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("temperature", [0.1, 30.0])
def test_positions_equal_those_of_the_matrix(ties, temperature):
    scores, mask, weights = hidden_in_padding(ties=ties)
    results = []
    for name in ("soft_sort", "soft_sort_positions"):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            if name == "soft_sort":
                rows = relaxations.soft_sort(scores, mask, temperature=temperature)
                ranks = tf.range(1, 31, dtype=tf.float64)
                positions = tf.einsum("r,brj->bj", ranks, rows)
            else:
                positions = relaxations.soft_sort_positions(scores, mask, temperature)
            total = tf.reduce_sum(positions * weights)
        results.append([positions, tape.gradient(total, scores)])
    for expected, found in zip(*results):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
    count = mask.numpy().sum(axis=1)
    np.testing.assert_allclose(
        tf.reduce_sum(results[1][0], axis=1), count * (count + 1) / 2, rtol=1e-12
    )


def test_cold_positions_are_those_of_the_exact_sort():
    scores = np.random.default_rng(0).permutation(np.arange(1.0, 21.0))
    mask = scores > 5
    errors = []
    for temperature in (1.0, 0.25, 0.1, 0.02):
        found = relaxations.soft_sort_positions(
            tf.constant([scores]), tf.constant([mask]), temperature
        )
        errors.append(np.abs(found[0].numpy() - (21 - scores))[mask].max())
    assert errors[0] > 0.1 and errors[-1] < 1e-12
    assert all(colder < warmer for warmer, colder in zip(errors, errors[1:]))


@pytest.mark.parametrize("form", ["indicators", "position"])
@pytest.mark.parametrize("topn", [3, 5])
def test_cold_loss_is_the_exact_metric(form, topn):
    rng = np.random.default_rng(4)
    scores = rng.permutation(np.arange(1.0, 13.0))
    labels = rng.integers(0, 4, 12).astype(float)
    rows = oracles.exact_indicators(scores, topn)
    arguments = {"topn": topn, "temperature": 0.01, "form": form}
    if form == "position":
        arguments["beta"] = 100.0
    for metric in ("ndcg", "precision", "map"):
        loss = losses.SoftSortLoss(metric=metric, **arguments)
        value = float(loss([labels], tf.constant([scores])))
        exact = oracles.metric(metric, rows, labels, topn=topn, expected="gain")
        np.testing.assert_allclose(value, 1 - exact, atol=1e-10)


@pytest.mark.parametrize("form", ["indicators", "position"])
@pytest.mark.parametrize("topn", [None, 2, 20])
def test_permutation_with_ties_changes_nothing(form, topn):
    """The cut-off falls among items that tie, and their labels differ."""
    rng = np.random.default_rng(5)
    scores, labels = rng.integers(-1, 2, 24) / 2, rng.integers(0, 3, 24).astype(float)
    order = rng.permutation(24)
    loss = losses.SoftSortLoss(form=form, topn=topn)
    value, slopes = value_and_gradient(loss, [labels], tf.constant([scores]))
    permuted, permuted_slopes = value_and_gradient(
        loss, [labels[order]], tf.constant([scores[order]])
    )
    np.testing.assert_allclose(permuted, value, rtol=1e-12)
    np.testing.assert_allclose(permuted_slopes[0], slopes[0, order], atol=1e-14)


EXTREMES = {
    "largest floats": lambda rng: rng.choice([1e38, -1e38, 3e38, -3e38, 0, 1], 5000),
    "all equal": lambda rng: np.full(5000, 7.0),
    "normal": lambda rng: rng.normal(size=5000),
    "1e-30 apart": lambda rng: rng.integers(0, 9, 5000) * 1e-30,
}


@pytest.mark.parametrize("kind", EXTREMES)
@pytest.mark.parametrize("temperature", [1e-29, 1.0, 1e29])
@pytest.mark.parametrize("arguments", [{}, {"topn": 10}, {"form": "position"}], ids=str)
def test_5000_items_are_finite(kind, temperature, arguments):
    rng = np.random.default_rng(6)
    scores = tf.constant([EXTREMES[kind](rng)], tf.float32)
    labels = rng.integers(0, 5, [1, 5000]).astype(np.float32)
    loss = losses.SoftSortLoss(temperature=temperature, **arguments)
    value, slopes = value_and_gradient(loss, labels, scores)
    assert 0 <= value <= 1
    assert np.isfinite(slopes).all()
    if kind == "all equal":
        assert not slopes.any()


@pytest.mark.parametrize("form", ["indicators", "position"])
def test_float32_of_a_long_list_equals_float64(form):
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 3, [1, 3000]).astype(np.float32)
    scores = rng.normal(size=[1, 3000]).astype(np.float32)
    loss = losses.SoftSortLoss(form=form, temperature=0.01)
    value, slopes = value_and_gradient(loss, labels, scores)
    exact, exact_slopes = value_and_gradient(loss, labels, scores.astype(float))
    np.testing.assert_allclose(value, exact, rtol=1e-5)
    largest = np.abs(exact_slopes).max()
    np.testing.assert_allclose(slopes, exact_slopes, atol=1e-4 * largest)


@pytest.mark.parametrize("arguments", [{}, {"form": "position"}], ids=str)
def test_20000_items_without_a_cut_off_need_no_matrix(arguments):
    """Four matrices of so many items squared would be 6 GB."""
    rng = np.random.default_rng(8)
    labels = rng.integers(0, 3, [4, 20000]).astype(np.float32)
    scores = tf.constant(rng.normal(size=[4, 20000]), tf.float32)
    step = compiled(losses.SoftSortLoss(**arguments))
    value, slopes = step(labels, scores)
    assert 0 < value < 1 and np.isfinite(slopes).all()
    graph = step.get_concrete_function(labels, scores).graph
    sizes = [
        operation.outputs[0].shape.num_elements() or 0
        for operation in graph.get_operations()
        if operation.outputs and operation.outputs[0].shape.rank is not None
    ]
    assert max(sizes) <= 8 * labels.size


@pytest.mark.parametrize("form", ["indicators", "position"])
def test_a_temperature_that_falls_is_seen_by_graphs(form):
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(2.0, 10, 0.5)
    loss = losses.SoftSortLoss(temperature=schedule, form=form)
    labels, scores = [[1.0, 0.0, 2.0]], tf.constant([[0.3, 0.1, -0.5]])
    graph = tf.function(lambda: loss(labels, scores))
    for step, temperature in ((0, 2.0), (10, 1.0), (30, 0.25)):
        loss.set_step(step)
        fixed = losses.SoftSortLoss(temperature=temperature, form=form)
        np.testing.assert_allclose(graph(), fixed(labels, scores), rtol=1e-6)
