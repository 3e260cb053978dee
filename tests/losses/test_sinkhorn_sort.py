"""The Sinkhorn sort against a float64 oracle and against POT, and its limits."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import compiled, scattered, value_and_gradient
from tests.oracles import sinkhorn_sort as oracle
from tfr_ext import losses, metrics
from tfr_ext.relaxations import sinkhorn_rank
from tfr_ext.transport import items_to_ranks

pytestmark = pytest.mark.first_case

# Those below 0.008 go the way of logarithms.
ARGUMENTS = [
    {},
    {"regularization": 0.1, "num_iterations": 3, "topn": 2, "beta": 2.0},
    {"regularization": 0.03, "num_iterations": 1, "metric": "precision", "topn": 3},
    {"regularization": 0.05, "num_iterations": 5, "metric": "map", "beta": 1.0},
    {"regularization": 0.004, "num_iterations": 4},
]


@pytest.fixture(name="ot")
def _ot():
    return pytest.importorskip("ot", reason="needs POT, see requirements/test.txt")


@pytest.fixture(
    name="each_way", params=["whole", "rows", "logs", "blocks", "log blocks"]
)
def _each_way(request, monkeypatch):
    """Every way of computing, whatever the regularization and the size."""
    log = request.param.startswith("log")
    monkeypatch.setattr(items_to_ranks, "LEAST_REGULARIZATION", 1e9 if log else 0)
    monkeypatch.setattr(items_to_ranks, "_LONG", 1e9 if "whole" in request.param else 0)
    if "blocks" in request.param:
        monkeypatch.setattr(items_to_ranks, "_BLOCK", 3 * 16**2)


def lists(seed=0):
    """Labels and scores, some with ties."""
    rng = np.random.default_rng(seed)
    sizes = [1, 2, 3, 7, 12, 9, 2]
    made = [(rng.integers(0, 4, n), np.round(rng.normal(size=n), 1)) for n in sizes]
    made[-2][0][:] = 0
    made[1] = (made[1][0], np.array([3.0, 2.5]))
    return [(y.tolist(), s.tolist()) for y, s in made]


def assert_equal_to_the_oracle(dtype, rtol, arguments, seed=0):
    loss = losses.SinkhornSortLoss(reduction="none", **arguments)
    made = lists(seed)
    y_true, y_pred, where = scattered(made, dtype)
    value, slopes = value_and_gradient(loss, y_true, y_pred)
    for row, (labels, scores) in enumerate(made):
        total, gradient = oracle.value_and_gradient(labels, scores, **arguments)
        tolerance = {"rtol": rtol, "atol": rtol, "err_msg": f"list {row}"}
        np.testing.assert_allclose(value[row, 0], total, **tolerance)
        if len(set(scores)) > 1:
            np.testing.assert_allclose(slopes[row, where[row]], gradient, **tolerance)
        assert not slopes[row, y_true[row] < 0].any()


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
@pytest.mark.parametrize("dtype", [tf.float64, tf.float32], ids=lambda d: d.name)
def test_value_and_gradient_equal_the_oracle(dtype, arguments):
    rtol = 1e-10 if dtype == tf.float64 else 2e-4
    for seed in range(2):
        assert_equal_to_the_oracle(dtype, rtol, arguments, seed)


@pytest.mark.parametrize("arguments", ARGUMENTS[::2], ids=str)
def test_every_way_equals_the_oracle(each_way, arguments):
    assert_equal_to_the_oracle(tf.float64, 1e-10, arguments)


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
def test_without_static_shapes_it_is_the_same(each_way, jit):
    y_true, y_pred, _ = scattered(lists())
    loss = losses.SinkhornSortLoss(num_iterations=3, regularization=0.02)

    spec = tf.TensorSpec([None, None], tf.float64)
    graph = compiled(loss, spec, spec, jit=jit)

    expected = value_and_gradient(loss, y_true, y_pred)
    for actual, wanted in zip(graph(y_true, y_pred), expected):
        np.testing.assert_allclose(actual, wanted, rtol=1e-9, atol=1e-12)


def positions_of(scores, *arguments):
    scores = tf.constant([scores], tf.float64)
    mask = tf.ones_like(scores, tf.bool)
    return tf.function(sinkhorn_rank)(scores, mask, *arguments)[0].numpy()


def problem(seed, size):
    scores = np.random.default_rng(seed).normal(size=size)
    x = np.real(oracle.squashed(scores.tolist()))
    mass, y = np.full(size, 1 / size), np.linspace(1, 0, size)
    return scores, mass, (x[:, np.newaxis] - y) ** 2


@pytest.mark.parametrize("regularization", [0.03, 0.0079])
def test_converged_positions_are_those_of_pot(ot, regularization):
    for seed, size in ((1, 10), (4, 14)):
        scores, mass, cost = problem(seed, size)
        theirs = ot.sinkhorn(
            mass,
            mass,
            cost,
            regularization,
            method="sinkhorn_log",
            numItermax=5000,
            stopThr=1e-13,
            warn=False,
        )
        actual = positions_of(scores, regularization, 3000)
        expected = size * theirs @ np.arange(1, size + 1)
        np.testing.assert_allclose(actual, expected, rtol=2e-5)
        # Converged, they share the ranks evenly.
        np.testing.assert_allclose(actual.mean(), (size + 1) / 2, rtol=2e-5)


def test_in_the_limit_positions_are_exact_transport(ot):
    for seed, size in ((5, 6), (7, 12)):
        scores, mass, cost = problem(seed, size)
        exact = size * ot.emd(mass, mass, cost) @ np.arange(1, size + 1)
        np.testing.assert_allclose(exact, 1 + np.argsort(np.argsort(-scores)))
        gaps = [
            np.abs(positions_of(scores, regularization, num) - exact).max()
            for regularization, num in ((0.1, 200), (0.01, 500), (0.001, 3000))
        ]
        assert gaps[0] > 2 * gaps[1] > 4 * gaps[2]
        assert gaps[2] < 0.2


def test_large_regularization_makes_positions_alike():
    actual = positions_of([3.0, 1.0, 2.0, -5.0], 1e6, 3)
    np.testing.assert_allclose(actual, 2.5, atol=1e-5)


def test_more_iterations_share_the_ranks_more_evenly():
    scores = np.exp(np.random.default_rng(1).normal(size=20))
    gaps = [
        abs(positions_of(scores, 0.03, num).mean() - 10.5) for num in (1, 3, 10, 100)
    ]
    assert gaps[0] > gaps[1] > gaps[2] > gaps[3] and gaps[3] < 1e-3


def test_positions_are_ordered_as_scores_and_equal_where_these_are():
    scores = np.array([0.5, 2.0, 0.5, -1.0, 2.0, 7.0])
    actual = positions_of(scores, 0.01, 20)
    order = np.argsort(-scores, kind="stable")
    assert (np.diff(actual[order]) >= -1e-12).all()
    np.testing.assert_allclose(actual[[0, 1]], actual[[2, 4]], rtol=1e-12)
    # Neither where the scores are, nor how far apart, matters.
    np.testing.assert_allclose(positions_of(7 * scores + 3, 0.01, 20), actual)


def test_padding_has_position_1_and_single_items_too():
    scores = tf.constant([[4.0, 1.0, 2.0], [5.0, 0.0, 1.0], [1.0, 2.0, 3.0]])
    mask = tf.constant([[True, False, True], [True, False, False], [False] * 3])
    actual = sinkhorn_rank(scores, mask).numpy()
    np.testing.assert_allclose(actual, [[1, 1, 2], [1, 1, 1], [1, 1, 1]], atol=1e-4)


@pytest.mark.parametrize("regularization", [0.01, 2e-4])
@pytest.mark.parametrize("size", [2, 6])
def test_equal_scores_get_no_gradient(size, regularization):
    loss = losses.SinkhornSortLoss(regularization=regularization, num_iterations=3)
    for score in (0.0, 0.1, 1e30):
        value, slopes = value_and_gradient(
            loss,
            [[2.0] + [0.0] * (size - 1)],
            tf.fill([1, size], score),
        )
        assert 0 < value < 1 and not slopes.any()


HUGE = np.finfo(np.float32).max


@pytest.mark.parametrize("regularization", [0.0081, 0.0079])
def test_extreme_scores_in_float32_equal_float64(regularization):
    rng = np.random.default_rng(0)
    normal = rng.normal(size=40)
    scores = np.stack(
        [
            np.exp(3 * normal),
            np.r_[np.zeros(39), 1e4],
            np.r_[np.zeros(39), -1e4],
            np.r_[np.zeros(20), np.ones(20)],
            np.r_[np.zeros(8), np.ones(32)] + 0.01 * normal,
            np.r_[-HUGE, np.zeros(37), 1.0, HUGE],
            np.linspace(0, 1, 40) ** 8,
        ]
    )
    labels = rng.integers(0, 4, scores.shape).astype(float)
    loss = losses.SinkhornSortLoss(reduction="none", regularization=regularization)
    single, exact = (
        value_and_gradient(tf.function(loss), labels, tf.constant(scores, dtype))
        for dtype in (tf.float32, tf.float64)
    )
    np.testing.assert_allclose(single[0], exact[0], rtol=2e-5)
    most = np.abs(exact[1]).max(axis=1, keepdims=True) + 1e-30
    np.testing.assert_allclose(single[1] / most, exact[1] / most, atol=2e-4)


def test_a_long_list_is_finite():
    rng = np.random.default_rng(0)
    labels = tf.constant(rng.integers(0, 5, [1, 5000]), tf.float32)
    scores = tf.constant(rng.normal(size=[1, 5000]), tf.float32)
    loss = losses.SinkhornSortLoss(num_iterations=2)
    value, slopes = value_and_gradient(loss, labels, scores)
    assert 0 < value < 1 and np.isfinite(slopes).all() and slopes.any()


@pytest.mark.grid
def test_training_improves_ndcg():
    tf.keras.utils.set_random_seed(3)
    rng = np.random.default_rng(0)
    x = rng.normal(size=[64, 8, 4]).astype(np.float32)
    y = np.digitize(x[..., 0] - x[..., 1], [0.5, 1.5]).astype(np.float32)
    y[np.arange(8) >= rng.integers(3, 9, [64, 1])] = -1
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(1, input_shape=[8, 4]), tf.keras.layers.Reshape([8])]
    )
    before = metrics.RankingMetric("ndcg")(y, model(x))
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.05), loss=losses.SinkhornSortLoss()
    )
    history = model.fit(x, y, batch_size=16, epochs=10, verbose=0).history["loss"]
    assert history[-1] < history[0]
    assert metrics.RankingMetric("ndcg")(y, model(x)) > max(0.9, before + 0.1)
