"""WassRank against a float64 oracle of the paper's algorithms, and where it is used."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import compiled, scattered, value_and_gradient
from tests.oracles import wass_rank as oracle
from tfr_ext import losses, metrics
from tfr_ext.transport import labels_to_scores, labels_to_scores_few

pytestmark = pytest.mark.first_case

# The ways to a product with the kernel, and the limits of the arguments.
ARGUMENTS = [
    {},
    {"regularization": 10.0, "score_scale": 0.5},
    {"regularization": 1.0, "relevance_gap": 0.0, "gain_base": 2.0},
    # The cost within a label, over the regularization, is 272: no copies by label.
    {"regularization": 0.01},
]

PROBLEM = [
    field.name for field in dataclasses.fields(labels_to_scores.RankingTransport)
]


def three_labels(seed=0):
    """Short lists of at most 3 distinct labels: copies by label."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 3, 25).astype(float),
        rng.integers(1, 4, 17) / 4,
        np.zeros(9),
        np.array([31.0, 0.0, 31.0, 30.0]),
        np.array([0.0, 1.0, 2.0]),  # each item alone with its label
        np.array([2.0]),
        np.array([0.0]),
    ]


def few_labels(seed=0):
    """Lists of at most 8 distinct labels: matrices of labels."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 5, 60).astype(float),
        rng.integers(0, 5, 17) / 4,
        np.zeros(9),
        np.full(5, 3.0),
        rng.permutation(5).astype(float),  # each item alone with its label
        np.repeat(np.arange(8.0), [1, 2, 1, 3, 1, 1, 2, 1]),
        np.array([2.0]),
        np.array([0.0]),
        np.array([0.0, 1.0]),
    ]


def many_labels(seed=0):
    """Lists of more than 8 distinct labels: the general way."""
    rng = np.random.default_rng(seed)
    return [
        np.arange(9.0) / 2,
        rng.permutation(60) / 15,
        rng.integers(0, 12, 30) / 3,
        rng.integers(0, 32, 40).astype(float),
    ]


def mixed_labels(seed=0):
    """Lists of either kind in one batch, but for the longest two."""
    few, (first, _, *rest) = few_labels(seed), many_labels(seed)
    return [*few[1:], first, *rest]


def with_scores(all_labels, seed=1):
    """Scores with ties for each list of labels."""
    rng = np.random.default_rng(seed)
    return [(y, np.round(rng.normal(size=len(y)) * 2, 1)) for y in all_labels]


def assert_equal_to(oracle_of_a_list, lists, **arguments):
    """Compares values and gradients in both precisions, list by list."""
    loss = losses.WassRankLoss(reduction="none", **arguments)
    expected = [oracle_of_a_list(y.tolist(), s.tolist(), **arguments) for y, s in lists]
    unit = arguments.get("regularization", 0.1)
    for dtype, rtol, atol in ((tf.float64, 1e-11, 1e-12), (tf.float32, 1e-5, 1e-5)):
        y_true, y_pred, where = scattered(lists, dtype)
        value, slopes = value_and_gradient(loss, y_true, y_pred)
        for row, (total, gradient) in enumerate(expected):
            tolerance = {"rtol": rtol, "atol": atol * unit, "err_msg": f"list {row}"}
            np.testing.assert_allclose(value[row, 0], total, **tolerance)
            np.testing.assert_allclose(slopes[row, where[row]], gradient, **tolerance)
            assert not slopes[row, y_true[row] < 0].any()


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
@pytest.mark.parametrize("num_iterations", [1, 3, 20])
@pytest.mark.parametrize("make", [three_labels, few_labels, many_labels, mixed_labels])
def test_value_and_gradient_equal_the_oracle(make, num_iterations, arguments):
    lists = with_scores(make(num_iterations))
    assert_equal_to(
        oracle.value_and_gradient, lists, num_iterations=num_iterations, **arguments
    )


@pytest.mark.parametrize("arguments", ARGUMENTS[:3], ids=str)
def test_random_small_lists_equal_the_oracle(arguments):
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 13, 60)
    lists = with_scores([rng.integers(0, rng.integers(1, 8), n) / 2 for n in sizes])
    assert_equal_to(oracle.value_and_gradient, lists, num_iterations=4, **arguments)


@pytest.mark.parametrize("num_labels", [3, 300])
@pytest.mark.parametrize("arguments", ARGUMENTS[::3], ids=str)
def test_long_lists_equal_the_oracle(num_labels, arguments):
    rng = np.random.default_rng(num_labels)
    labels = rng.integers(0, num_labels, 200) / num_labels * 4
    lists = with_scores([labels, labels[:130]])
    assert_equal_to(oracle.value_and_gradient_of_long_lists, lists, **arguments)


def test_the_two_oracles_agree():
    for labels, scores in with_scores(mixed_labels()):
        total, slopes = oracle.value_and_gradient_of_long_lists(labels, scores)
        expected, gradient = oracle.value_and_gradient(labels, scores)
        np.testing.assert_allclose(total, expected, rtol=1e-12)
        np.testing.assert_allclose(slopes, gradient, rtol=1e-9, atol=1e-14)


def ways_of(monkeypatch):
    """Returns a list to which each solution adds the way that it was found."""
    ways = []

    def watch(owner, name, way):
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a: ways.append(way) or real(*a))

    watch(labels_to_scores_few._KernelByCopies, "solve", "copies")
    watch(labels_to_scores_few._KernelByMatrices, "solve", "matrices")
    watch(labels_to_scores, "sinkhorn", "general")
    return ways


@pytest.mark.parametrize(
    ("make", "regularization", "expected"),
    [
        (three_labels, 0.1, ["copies"]),
        (three_labels, 0.01, ["matrices"]),
        (few_labels, 0.1, ["matrices"]),
        (few_labels, 0.01, ["matrices"]),
        (many_labels, 0.1, ["general"]),
        (mixed_labels, 0.1, ["general"]),
    ],
)
def test_each_batch_goes_the_way_it_is_meant_to_test(
    make, regularization, expected, monkeypatch
):
    ways = ways_of(monkeypatch)
    y_true, y_pred, _ = scattered(with_scores(make()))
    loss = losses.WassRankLoss(regularization=regularization, num_iterations=1)
    loss(y_true, y_pred)
    assert ways == expected


@pytest.mark.parametrize("make", [three_labels, few_labels])
@pytest.mark.parametrize("num_iterations", [7, 20])
def test_what_exceeds_the_range_is_solved_in_the_log_domain(
    make, num_iterations, monkeypatch
):
    """Scores that grow until numbers leave the range, with and against the labels."""
    ways = ways_of(monkeypatch)
    for factor in (3.0, -12.0, 30.0, -100.0):
        # Scores that float32 holds exactly.
        lists = [(y, factor * y + np.round(s)) for y, s in with_scores(make())]
        assert_equal_to(oracle.value_and_gradient, lists, num_iterations=num_iterations)
    assert {"general"} < set(ways)


@pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])
def test_graphs_in_float64_equal_eager(static):
    loss = losses.WassRankLoss(num_iterations=5)
    few = scattered(with_scores(few_labels()))[:2]
    # Of the same shape, so that one graph takes these ways.
    mixed = scattered(with_scores([*many_labels(), *few_labels()[:5]]))[:2]
    exceeding = few[0], 100 * few[1]
    batches = [few, mixed, exceeding]
    if not static:
        batches.append(scattered(with_scores(three_labels()))[:2])
    shape = few[0].shape if static else [None, None]
    spec = tf.TensorSpec(shape, tf.float64)

    graph = compiled(loss, spec, spec)

    for batch in batches:
        for actual, expected in zip(graph(*batch), value_and_gradient(loss, *batch)):
            np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("make", [few_labels, many_labels])
def test_more_iterations_raise_the_value_and_lower_the_marginal_error(make):
    lists = with_scores(make())
    y_true, y_pred, _ = scattered(lists)
    mask = y_true >= 0
    clean = [tf.where(mask, x, 0) for x in (y_true, y_pred)]
    values, errors = [], []
    for num_iterations in (1, 2, 3, 5, 10, 20):
        loss = losses.WassRankLoss(
            reduction="none", num_iterations=num_iterations, regularization=1.0
        )
        problem = labels_to_scores.RankingTransport(
            **{name: loss.get_config()[name] for name in PROBLEM}
        )
        values.append(loss(y_true, y_pred).numpy()[:, 0])
        errors.append(problem.marginal_error(*clean, mask).numpy())
    assert (np.diff(values, axis=0) >= -1e-11).all()
    assert (np.diff(errors, axis=0) <= 1e-12).all()
    several = [len(set(labels)) > 1 for labels, _ in lists]
    assert (values[-1] - values[0])[several].min() > 0.1
    # Where costs are very large errors fall late: not all have fallen yet.
    assert (errors[0] - errors[-1]).max() > 0.3


EXTREMES = [
    [1e4, 0.0, -1e4, 2e4, 5e3, 3.0],
    [7.0] * 6,
    [1e4, 1e4, 1e4, -1e4, -1e4, -1e4],
]


@pytest.mark.parametrize(
    "labels",
    [[0, 1, 0, 2, 4, 0], [31, 0, 17, 31, 30, 1], [10000, 0, 9999, 5000, 1, 1]],
)
@pytest.mark.parametrize("arguments", [*ARGUMENTS, {"score_scale": 1e3}], ids=str)
def test_extreme_scores_in_float32_equal_float64(labels, arguments):
    loss = losses.WassRankLoss(reduction="none", **arguments)
    single, exact = (
        value_and_gradient(
            loss, tf.constant([labels] * 3, dtype), tf.constant(EXTREMES, dtype)
        )
        for dtype in (tf.float32, tf.float64)
    )
    np.testing.assert_allclose(single[0], exact[0], rtol=1e-5)
    most = np.abs(exact[1]).max()
    np.testing.assert_allclose(single[1], exact[1], rtol=1e-4, atol=1e-6 * most)


@pytest.mark.parametrize(
    ("num_labels", "regularization"), [(5, 0.1), (5, 10.0), (5000, 0.1)]
)
def test_long_lists_in_float32_equal_float64(num_labels, regularization):
    rng = np.random.default_rng(num_labels)
    labels = (rng.permutation(5000) % num_labels) * (4 / (num_labels - 1))
    assert len(set(labels)) == num_labels
    scores = rng.normal(size=5000)
    loss = losses.WassRankLoss(regularization=regularization)
    single, exact = (
        value_and_gradient(
            loss, tf.constant([labels], dtype), tf.constant([scores], dtype)
        )
        for dtype in (tf.float32, tf.float64)
    )
    np.testing.assert_allclose(single[0], exact[0], rtol=1e-4)
    np.testing.assert_allclose(
        single[1], exact[1], rtol=1e-3, atol=1e-4 * np.abs(exact[1]).max()
    )


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16], ids=lambda d: d.name)
def test_half_precision_is_computed_in_float32(dtype):
    y_true, y_pred, _ = scattered(with_scores(few_labels()), tf.float32)
    y_pred = tf.cast(y_pred, dtype)
    value, slopes = value_and_gradient(losses.WassRankLoss(), y_true, y_pred)
    full, full_slopes = value_and_gradient(
        losses.WassRankLoss(), y_true, tf.cast(y_pred, tf.float32)
    )
    assert value.dtype == np.float32
    np.testing.assert_array_equal(value, full)
    np.testing.assert_allclose(
        slopes.astype(np.float32), full_slopes, rtol=1e-2, atol=1e-6
    )


@pytest.mark.parametrize("label", [0.0, 1.0, 31.0])
def test_a_single_item_costs_nothing(label):
    for arguments in ARGUMENTS:
        value, slopes = value_and_gradient(
            losses.WassRankLoss(**arguments),
            tf.constant([[-1.0, label]]),
            tf.constant([[3.0, 1e4]]),
        )
        assert value == 0 and not slopes.any()


def test_score_scale_scales_the_scores():
    y_true, y_pred, _ = scattered(with_scores(few_labels()))
    value, slopes = value_and_gradient(
        losses.WassRankLoss(score_scale=3.0), y_true, y_pred
    )
    scaled, scaled_slopes = value_and_gradient(
        losses.WassRankLoss(), y_true, 3.0 * y_pred
    )
    np.testing.assert_allclose(value, scaled, rtol=1e-12)
    np.testing.assert_allclose(slopes, 3 * scaled_slopes, rtol=1e-9, atol=1e-14)


def learnable(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=[64, 8, 4]).astype(np.float32)
    signal = x[..., 0] - x[..., 1] + 0.1 * rng.normal(size=[64, 8])
    y = np.digitize(signal, [0.5, 1.5]).astype(np.float32)
    y[np.arange(8) >= rng.integers(3, 9, [64, 1])] = -1
    return x, y


@pytest.mark.grid
def test_training_improves_ndcg_and_reports_the_diagnostics():
    tf.keras.utils.set_random_seed(3)
    x, y = learnable()
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(8, activation="relu", input_shape=[8, 4]),
            tf.keras.layers.Dense(1),
            tf.keras.layers.Reshape([8]),
        ]
    )
    loss = losses.WassRankLoss()
    before = metrics.RankingMetric("ndcg")(y, model(x))
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.03),
        loss=loss,
        metrics=[metrics.RankingMetric("ndcg"), *loss.diagnostics()],
    )
    history = model.fit(x, y, batch_size=16, epochs=12, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert history["ndcg"][-1] > max(0.85, before + 0.2)
    assert metrics.RankingMetric("ndcg")(y, model(x)) > max(0.85, before + 0.2)
    # What the diagnostics report is what the metric says of the same batch.
    report = model.test_on_batch(x, y, return_dict=True)
    expected = metrics.SinkhornErrorMetric()(y, model(x))
    np.testing.assert_allclose(report["sinkhorn_error"], expected, rtol=1e-4)
    assert 0.01 < report["sinkhorn_error"] < 2
