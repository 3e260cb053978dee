"""Fast soft ranks against a float64 oracle of loops, and their limits."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import padded, random_lists, value_and_gradient
from tests.oracles import fast_soft_rank as oracles
from tfr_ext import losses, objectives, relaxations

METRICS = [
    {"metric": "ndcg", "topn": None, "beta": 10.0},
    {"metric": "ndcg", "topn": 3, "beta": 2.0},
    {"metric": "precision", "topn": 2, "beta": 1.0},
    {"metric": "map", "topn": None, "beta": 3.0},
    {"metric": "map", "topn": 4, "beta": 1.0},
]


def ranks_and_slopes(scores, mask, regularization, upstream):
    scores = tf.convert_to_tensor(scores)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        ranks = relaxations.soft_rank(scores, mask, regularization)
        total = tf.reduce_sum(ranks * upstream)
    return ranks.numpy(), tape.gradient(total, scores).numpy()


@pytest.mark.parametrize("regularization", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("ties", [False, True])
def test_soft_ranks_equal_the_oracle(regularization, ties):
    lists = list(random_lists(1, (1, 2, 5, 16, 17, 60), ties))
    labels, scores, places = padded(lists)
    upstream = np.random.default_rng(0).normal(size=scores.shape)
    ranks, slopes = ranks_and_slopes(scores, labels >= 0, regularization, upstream)
    for b, (list_scores, _) in enumerate(lists):
        n = len(list_scores)
        expected = np.zeros([2, scores.shape[1]])
        expected[0, places[b]] = oracles.soft_ranks(list_scores, regularization)
        expected[1, places[b]] = oracles.soft_rank_adjoint(
            list_scores, regularization, upstream[b, places[b]]
        )
        np.testing.assert_allclose(ranks[b], expected[0], rtol=1e-11)
        np.testing.assert_allclose(slopes[b], expected[1], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(ranks[b].sum(), n * (n + 1) / 2, rtol=1e-12)


@pytest.mark.parametrize("metric", METRICS, ids=str)
@pytest.mark.parametrize("regularization", [0.3, 3.0])
def test_loss_and_gradient_equal_the_oracle(metric, regularization):
    lists = [*random_lists(2), *random_lists(3, (3, 25), ties=True)]
    lists.append(([0.5, -0.5, 2.0], [0.0] * 3))
    labels, scores, places = padded(lists)
    loss = losses.FastSoftRankLoss("none", regularization=regularization, **metric)
    values, slopes = value_and_gradient(loss, labels, scores)
    for b, (list_scores, list_labels) in enumerate(lists):
        arguments = list_scores, list_labels, regularization
        value = oracles.loss(*arguments, **metric)
        np.testing.assert_allclose(values[b, 0], value, rtol=1e-9, atol=1e-12)
        expected = np.zeros(scores.shape[1])
        expected[places[b]] = oracles.loss_gradient(*arguments, **metric)
        np.testing.assert_allclose(slopes[b], expected, rtol=1e-7, atol=1e-10)


def test_the_ranks_are_the_projection():
    """What is left of the scores has no better vertex: the optimum's condition."""
    scores = np.random.default_rng(4).normal(size=[8, 30])
    for regularization in (0.05, 0.5, 5.0):
        ranks = relaxations.soft_rank(scores, scores < 9, regularization).numpy()
        rest = -scores / regularization - ranks
        best_vertex = np.sum(np.sort(rest, axis=1) * np.arange(1, 31), axis=1)
        np.testing.assert_allclose(
            np.sum(rest * ranks, axis=1), best_vertex, rtol=1e-9, atol=1e-9
        )


def test_gradient_equals_numerical_jacobian():
    rng = np.random.default_rng(5)
    scores, upstream = rng.normal(size=[2, 3, 9])
    mask = scores < 9
    _, slopes = ranks_and_slopes(scores, mask, 0.4, upstream)
    assert slopes.any()
    step = 1e-6
    for j in range(9):
        moved = step * np.eye(9)[j]
        above, below = (
            relaxations.soft_rank(scores + sign * moved, mask, 0.4).numpy()
            for sign in (1, -1)
        )
        expected = np.sum((above - below) * upstream, axis=1) / (2 * step)
        np.testing.assert_allclose(slopes[:, j], expected, rtol=1e-6, atol=1e-7)


def test_limits():
    scores = np.random.default_rng(6).normal(size=[4, 21])
    mask = scores < 9
    exact = 21 - np.argsort(np.argsort(scores))
    cold = relaxations.soft_rank(scores, mask, 1e-29)
    np.testing.assert_array_equal(cold, exact)
    # From a finite regularization on: the least gap of the scores.
    least = np.diff(np.sort(scores)).min()
    sharp, slopes = ranks_and_slopes(scores, mask, least * 0.999, scores)
    np.testing.assert_allclose(sharp, exact, rtol=1e-12)
    assert not slopes.any()
    hot = relaxations.soft_rank(scores, mask, 1e29)
    np.testing.assert_allclose(hot, np.full([4, 21], 11.0), rtol=1e-12)


@pytest.mark.parametrize("topn", [None, 3])
def test_cold_limit_is_the_exact_metric(topn):
    lists = list(random_lists(7, (5, 13)))
    labels, scores, _ = padded(lists)
    steep = {"beta": 1e3} if topn else {}
    loss = losses.FastSoftRankLoss(topn=topn, regularization=1e-6, **steep)
    exact = losses.PiRankNDCGLoss(topn=topn)(labels, scores)
    np.testing.assert_allclose(loss(labels, scores), exact, rtol=1e-9)


def test_permutation_with_ties_permutes_ranks_and_gradient():
    rng = np.random.default_rng(8)
    for size, regularization in ((6, 0.01), (6, 1.0), (90, 1.0), (90, 0.25)):
        scores = rng.integers(0, size // 3, [1, size]) * 0.25
        upstream = rng.normal(size=[1, size])
        mask = scores < 1e9
        order = rng.permutation(size)
        found = ranks_and_slopes(scores, mask, regularization, upstream)
        permuted = ranks_and_slopes(
            scores[:, order], mask, regularization, upstream[:, order]
        )
        for x, y in zip(found, permuted):
            np.testing.assert_allclose(y, x[:, order], rtol=1e-9, atol=1e-9)
        for score in np.unique(scores):
            assert np.ptp(found[0][scores == score]) < 1e-9


def test_scores_of_any_size_keep_their_ranks():
    """Neither the range of float32 nor what is far away hides a difference."""
    scores = np.float32([[3e38, 3e38, 1e30, 2e28, 7.5, 7.0, 0.0, -1.0, -3e38]])
    ranks, slopes = ranks_and_slopes(scores, scores < np.inf, 1.0, np.arange(9.0))
    expected = [1.5, 1.5, 3, 4, 5.25, 5.75, 7, 8, 9]
    np.testing.assert_allclose(ranks[0], expected, rtol=1e-6)
    assert np.isfinite(slopes).all()
    wide = np.array([[1e308, -1e308, 0.0]])
    ranks, _ = ranks_and_slopes(wide, wide < np.inf, 1e-29, wide)
    np.testing.assert_array_equal(ranks, [[1, 3, 2]])


def test_5000_items():
    rng = np.random.default_rng(9)
    scores = rng.normal(size=[2, 5000]) * [[1.0], [1e4]]
    scores[1, :2500] = np.round(scores[1, :2500], -2)
    upstream = rng.normal(size=scores.shape)
    for b in range(2):
        row = scores[b : b + 1]
        ranks, slopes = ranks_and_slopes(row, row < np.inf, 0.1, upstream[b])
        expected = oracles.soft_ranks(row[0].tolist(), 0.1)
        np.testing.assert_allclose(ranks[0], expected, rtol=1e-6)
        expected = oracles.soft_rank_adjoint(row[0].tolist(), 0.1, upstream[b])
        np.testing.assert_allclose(slopes[0], expected, rtol=1e-6, atol=1e-6)


def test_nan_shows_in_its_list_alone():
    scores = tf.constant([[1.0, np.nan, 2.0, np.nan], [1.0, 2.0, 3.0, 9.0]])
    mask = tf.constant([[True, True, True, False]] * 2)
    ranks = relaxations.soft_rank(scores, mask).numpy()
    assert np.isnan(ranks[0, :3]).all()
    np.testing.assert_array_equal(ranks[:, 3], [0, 0])
    np.testing.assert_allclose(ranks[1, :3], [3, 2, 1])


def test_it_is_a_metric_of_positions():
    labels, scores = [[2.0, 0.0, 1.0, -1.0]], tf.constant([[0.1, 0.4, 0.0, 9.0]])
    mask = tf.constant([[True] * 3 + [False]])
    ranks = relaxations.soft_rank(scores, mask, 2.0)
    ndcg = objectives.NDCG(2, expected="gain")
    clean = tf.constant([[2.0, 0.0, 1.0, 0.0]])
    loss = losses.FastSoftRankLoss(topn=2, beta=5.0, regularization=2.0)
    np.testing.assert_allclose(
        loss(labels, scores),
        1 - ndcg.at_positions(ranks, clean, mask, slope=5.0)[0],
        rtol=1e-6,
    )


@pytest.mark.first_case
@pytest.mark.parametrize("jit_compile", [False, True])
def test_training_improves_the_loss(jit_compile):
    tf.keras.utils.set_random_seed(1)
    rng = np.random.default_rng(10)
    x = rng.normal(size=[64, 8, 4]).astype(np.float32)
    labels = np.clip(np.floor(x[..., 0] + x[..., 1] + 1), 0, 3)
    labels[:, 6:] = np.where(rng.random([64, 2]) < 0.5, -1, labels[:, 6:])
    inputs = tf.keras.Input([8, 4])
    outputs = tf.keras.layers.Dense(1)(inputs)[:, :, 0]
    model = tf.keras.Model(inputs, outputs)
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.1),
        loss=losses.FastSoftRankLoss(),
        jit_compile=jit_compile,
    )
    history = model.fit(x, labels, epochs=5, batch_size=16, verbose=0).history
    assert history["loss"][-1] < 0.7 * history["loss"][0]
