"""Sinkhorn's iteration and the ranking kernel against dense forms and against POT."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import value_and_gradient
from tests.oracles import wass_rank as oracle
from tfr_ext import losses
from tfr_ext.transport import labels_to_scores, sinkhorn

pytestmark = pytest.mark.first_case

NOTHING = -np.inf
COSTS = [
    labels_to_scores.RankingCost(),
    labels_to_scores.RankingCost(relevance_gap=0.0),
    labels_to_scores.RankingCost(
        variance_penalty=0.01, relevance_gap=3.0, gain_base=1.5
    ),
]


@pytest.fixture(name="ot")
def _ot():
    return pytest.importorskip("ot", reason="needs POT, see requirements/test.txt")


def label_batches():
    """Batches of labels with masks: 3 labels, 5, few, many, and both in one batch."""
    rng = np.random.default_rng(0)
    few = np.stack(
        [rng.integers(0, 5, 24), np.full(24, 2.0), np.zeros(24), np.arange(24) % 8]
    )
    many = np.stack(
        [
            rng.permutation(24) / 8,
            rng.integers(0, 32, 24),
            31.0 - np.arange(24),
            rng.integers(0, 12, 24) / 3,
        ]
    )
    mask = rng.random([4, 24]) < 0.7
    mask[:, 0] = True
    mask[3] = [True] + [False] * 23
    both = np.concatenate([few[:2], many[:2]])
    # So near each other that an item feels the farthest.
    near = np.stack([rng.permutation(24) / 1000 for _ in range(4)])
    return {
        "three": (rng.integers(0, 3, [4, 24]), mask),
        "five": (rng.integers(0, 5, [4, 24]) / 2, mask),
        "few": (few, mask),
        "many": (many, mask),
        "both": (both, mask),
        "near": (near, np.ones_like(mask)),
    }


BATCHES = label_batches()


def tensors(name, dtype=tf.float64):
    labels, mask = BATCHES[name]
    return tf.constant(np.where(mask, labels, 0), dtype), tf.constant(mask)


def marginals_for(labels, mask, spread=2.0, seed=1):
    """The target, and the prediction of random scores."""
    scores = spread * np.random.default_rng(seed).normal(size=mask.shape)
    return [sinkhorn.softmax(tf.constant(x), mask) for x in (labels, scores)]


def dense_product(labels, mask, cost, regularization):
    """The product with the whole kernel."""
    log_kernel = -cost.matrix(labels) / regularization

    def log_product(log_x):
        terms = tf.where(mask, log_x, NOTHING)[:, tf.newaxis, :]
        return tf.reduce_logsumexp(log_kernel + terms, axis=2)

    return log_product


def assert_close(actual, expected, mask, rtol):
    """To rounding: relative to the greatest of a list, as terms are differences."""
    for x, y, real in zip(np.array(actual), np.array(expected), np.array(mask)):
        scale = max(1.0, np.abs(y[real]).max())
        np.testing.assert_allclose(x[real], y[real], rtol=0, atol=rtol * scale)


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_the_matrix_is_algorithm_2(cost):
    for labels in ([0.0, 2.0, 1.0, 0.0, 2.0], [31.0, 30.0, 0.0, 0.5, 0.5, 7.0], [3.0]):
        np.testing.assert_allclose(
            cost.matrix(tf.constant([labels], tf.float64))[0],
            oracle.cost_matrix(labels, *cost),
            rtol=1e-13,
        )


@pytest.mark.parametrize("dtype", [tf.float64, tf.float32], ids=lambda d: d.name)
@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_a_product_with_the_kernel_equals_the_dense_one(cost, name, dtype):
    labels, mask = tensors(name, dtype)
    rng = np.random.default_rng(2)
    # The last reaches as far as the costs of label 31: far items then matter.
    for regularization in (0.02, 5.0):
        for spread in (1.0, 1e4, 1e19):
            log_x = tf.constant(spread * rng.normal(size=labels.shape), dtype)
            kernel = labels_to_scores.RankingKernel(labels, mask, cost, regularization)
            expected = dense_product(labels, mask, cost, regularization)(log_x)
            rtol = 1e-13 if dtype == tf.float64 else 2e-6
            assert_close(kernel.log_product(log_x), expected, mask, rtol)


@pytest.mark.parametrize("regularization", [0.05, 5.0])
@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_ranking_sinkhorn_equals_the_dense_sinkhorn(cost, name, regularization):
    labels, mask = tensors(name)
    marginals = marginals_for(labels, mask)
    for num_iterations in (1, 6):
        actual = labels_to_scores.ranking_sinkhorn(
            labels, *marginals, mask, cost, regularization, num_iterations
        )
        expected = sinkhorn.sinkhorn(
            *(x.log for x in marginals),
            dense_product(labels, mask, cost, regularization),
            mask,
            num_iterations,
        )
        for x, y in zip(actual, expected):
            assert_close(x, y, mask, 1e-11)
            assert not x.numpy()[~mask.numpy()].any()


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
def test_without_static_shapes_it_is_the_same(jit):
    specs = [tf.TensorSpec([None, None], tf.float64)] * 5

    @tf.function(
        input_signature=[*specs, tf.TensorSpec([None, None], tf.bool)],
        jit_compile=jit,
    )
    def graph(labels, target, log_target, prediction, log_prediction, mask):
        return labels_to_scores.ranking_sinkhorn(
            labels,
            sinkhorn.Distribution(target, log_target),
            sinkhorn.Distribution(prediction, log_prediction),
            mask,
            COSTS[0],
            0.1,
            8,
        )

    for name in BATCHES:
        labels, mask = tensors(name)
        marginals = marginals_for(labels, mask)
        expected = labels_to_scores.ranking_sinkhorn(
            labels, *marginals, mask, COSTS[0], 0.1, 8
        )
        target, prediction = marginals
        for x, y in zip(graph(labels, *target, *prediction, mask), expected):
            assert_close(x, y, mask, 1e-13)


# A problem that converges in some hundred iterations.
MILD = {"variance_penalty": 2.0, "relevance_gap": 4.0, "gain_base": 2.0}


def mild_problem(seed=0, size=12):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, size).astype(float)
    return labels, rng.normal(size=size) * 1.5


def solved(labels, scores, regularization, num_iterations):
    """Target, prediction and plan of one list by the code under test."""
    problem = labels_to_scores.RankingTransport(
        regularization=regularization,
        num_iterations=num_iterations,
        score_scale=1.0,
        **MILD,
    )
    mask = tf.ones([1, len(labels)], tf.bool)
    target, prediction, (log_u, log_v) = tf.function(problem.solve)(
        tf.constant([labels]), tf.constant([scores]), mask
    )
    cost = np.array(oracle.cost_matrix(labels, **MILD))
    log_plan = log_u[0, :, tf.newaxis] - cost / regularization + log_v[0]
    return target[0].numpy(), prediction[0].numpy(), np.exp(log_plan), cost


def test_a_converged_plan_is_that_of_pot(ot):
    for seed in range(3):
        target, prediction, plan, cost = solved(*mild_problem(seed), 1.0, 1500)
        np.testing.assert_allclose(plan.sum(axis=0), target, rtol=1e-9)
        np.testing.assert_allclose(plan.sum(axis=1), prediction, rtol=1e-9)
        theirs = ot.sinkhorn(
            prediction,
            target,
            cost,
            1.0,
            method="sinkhorn_log",
            numItermax=3000,
            stopThr=1e-13,
            warn=False,
        )
        np.testing.assert_allclose(plan, theirs, rtol=1e-7, atol=1e-13)
        np.testing.assert_allclose(
            (plan * cost).sum(), (theirs * cost).sum(), rtol=1e-9
        )


def test_the_value_approaches_exact_transport_from_below(ot):
    """Duality bounds the gap: at most regularization * (H(target) + H(prediction))."""
    labels, scores = mild_problem(5)
    gaps = []
    for regularization in (8.0, 2.0, 0.5):
        loss = losses.WassRankLoss(
            regularization=regularization, num_iterations=3000, **MILD
        )
        value = tf.function(loss)([labels], tf.constant([scores]))
        target, prediction = (
            np.exp(x - np.log(np.exp(x).sum())) for x in (labels, scores)
        )
        cost = np.array(oracle.cost_matrix(labels, **MILD))
        exact = ot.emd2(prediction, target, cost)
        entropies = -(target @ np.log(target) + prediction @ np.log(prediction))
        gaps.append(exact - value)
        assert 0 < gaps[-1] <= regularization * entropies
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2]
    # Converged, the dual value is the primal one: cost less the entropy of the plan.
    _, _, plan, _ = solved(labels, scores, 0.5, 3000)
    np.testing.assert_allclose(plan.sum(axis=0), target, rtol=1e-8)
    entropy = -(plan * np.log(plan)).sum()
    np.testing.assert_allclose(value, (plan * cost).sum() - 0.5 * entropy, rtol=1e-9)


def numerical_slopes(loss, labels, scores, step=1e-5):
    """Central differences, all items in one batch."""
    moved = np.concatenate([scores + s * np.eye(len(scores)) for s in (step, -step)])
    y_pred = tf.constant(moved)
    values = tf.function(loss)(tf.constant([labels] * len(moved)), y_pred)
    up, down = np.split(values.numpy()[:, 0], 2)
    return (up - down) / (2 * step)


@pytest.mark.parametrize("num_iterations", [3, 1500])
def test_the_gradient_is_the_derivative_at_convergence_and_not_before(num_iterations):
    labels, scores = mild_problem(2)
    arguments = {"regularization": 1.0, "num_iterations": num_iterations, **MILD}
    loss = losses.WassRankLoss(reduction="none", **arguments)
    _, (slopes,) = value_and_gradient(tf.function(loss), [labels], [scores])
    derivative = numerical_slopes(loss, labels, scores)
    np.testing.assert_allclose(
        slopes,
        oracle.value_and_gradient_of_long_lists(labels, scores, **arguments)[1],
        rtol=1e-10,
        atol=1e-13,
    )
    if num_iterations == 1500:
        np.testing.assert_allclose(slopes, derivative, rtol=1e-6, atol=1e-9)
    else:
        assert np.abs(slopes - derivative).max() > 0.1 * np.abs(slopes).max()
