"""PiRank's merge tree (Eqs. 13 to 17) against its oracle, at finite temperatures."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import oracles
from tests.helpers import compiled, random_lists, value_and_gradient
from tests.losses.against_oracles import assert_equals_oracle
from tests.oracles import pirank as oracles_pirank
from tfr_ext import losses, relaxations
from tfr_ext.relaxations import pirank

pytestmark = pytest.mark.first_case

SIZES = (11, 1, 2, 7)
CLASSES = {"ndcg": losses.PiRankNDCGLoss, "arp": losses.PiRankARPLoss}


def tree(branching, temperatures, merge_topn=None):
    """The oracle's tree as a `sort`."""
    return functools.partial(
        oracles_pirank.merge_sort,
        temperatures=temperatures,
        branching=branching,
        merge_topn=merge_topn,
    )


TREES = [
    # branching, merge_topn, merge_temperatures
    ([4, 3], [3, 3], [2.0, 2.0]),
    ([4, 3], [4, 3], [0.5, 2.0]),
    ([1, 11], [1, 3], [1.0, 2.0]),
    ([7, 2], [5, 3], [1.0, 1.0]),
    ([2, 3, 2], None, [0.5, 1.0, 2.0]),
    ([2, 3, 2], [2, 3, 3], [2.0, 2.0, 2.0]),
    ([2, 3, 2], [2, 5, 3], [0.5, 0.5, 2.0]),
    ([2, 3, 2], [2, 6, 3], [0.5, 0.5, 2.0]),
    ([5, 5, 5], [4, 6, 3], [1.0, 2.0, 4.0]),
    ([2, 2, 2, 2], None, [0.5, 1.0, 2.0, 3.0]),
    ([2, 2, 2, 2], [2, 4, 8, 3], [1.0, 1.0, 1.0, 1.0]),
    ([2, 2, 2, 2], [2, 3, 4, 3], [0.5, 0.7, 0.9, 1.1]),
]


@pytest.mark.first_case("name")
@pytest.mark.parametrize("name", ["ndcg", "arp"])
@pytest.mark.parametrize(("branching", "merge_topn", "temperatures"), TREES)
def test_given_trees_equal_the_oracle(name, branching, merge_topn, temperatures):
    loss = CLASSES[name](
        topn=3,
        temperature=temperatures[-1],
        straight_through=False,
        depth=len(branching),
        branching=branching,
        merge_topn=merge_topn,
        merge_temperatures=temperatures,
        reduction="none",
    )
    relaxed = functools.partial(
        oracles_pirank.pirank_loss,
        name=name,
        sort=tree(branching, temperatures, merge_topn),
        topn=3,
    )
    assert_equals_oracle(loss, relaxed, list(random_lists(1, SIZES)))


@pytest.mark.parametrize("topn", [None, 1, 4, 10, 30])
@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("straight_through", [False, True])
def test_default_trees_equal_the_oracle(topn, depth, straight_through):
    loss = losses.PiRankNDCGLoss(
        topn=topn,
        temperature=1.5,
        straight_through=straight_through,
        depth=depth,
        reduction="none",
    )
    for size in (1, 6, 11):
        (scores, labels), *_ = random_lists(size, [size])
        labels[0] = 1.0
        sort = tree(oracles_pirank.default_branching(size, depth), [1.5] * depth)
        relaxed = functools.partial(
            oracles_pirank.pirank_loss, labels=labels, name="ndcg", sort=sort, topn=topn
        )
        value, slopes = value_and_gradient(
            loss, tf.constant([labels]), tf.constant([scores], tf.float64)
        )
        expected = relaxed(scores)
        if straight_through:
            expected = relaxed(scores, sort=oracles_pirank.exact_sort)
        np.testing.assert_allclose(value[0, 0], np.real(expected), rtol=1e-9)
        np.testing.assert_allclose(
            slopes[0], oracles.gradient(relaxed, scores), rtol=1e-7, atol=1e-10
        )


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 26, 27, 28, 100, 1000, 1025])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_default_branching(size, depth):
    expected = oracles_pirank.default_branching(size, depth)
    assert pirank.tree_shape(size, depth) == expected
    dynamic = tf.function(
        lambda n: pirank.tree_shape(n, depth),
        input_signature=[tf.TensorSpec([], tf.int32)],
    )
    assert [int(n) for n in dynamic(size)] == expected
    assert np.prod(expected) >= size


def test_all_values_handed_up_equal_the_oracle_but_not_neural_sort():
    """With every k_j maximal the root sorts all, but sorts mixtures."""
    (scores, labels), *_ = random_lists(2, [12])
    arguments = {"topn": 12, "temperature": 2.0, "straight_through": False}
    loss = losses.PiRankNDCGLoss(
        depth=3, branching=[2, 3, 2], merge_topn=[2, 6, 12], **arguments
    )
    sort = tree([2, 3, 2], [2.0] * 3, [2, 6, 12])
    expected = np.real(
        oracles_pirank.pirank_loss(scores, labels, "ndcg", sort, topn=12)
    )
    scores = tf.constant([scores], tf.float64)
    np.testing.assert_allclose(loss([labels], scores), expected, rtol=1e-9)
    flat = losses.PiRankNDCGLoss(**arguments)([labels], scores)
    assert abs(float(flat) - expected) > 1e-3


@pytest.mark.parametrize("topn", [None, 4])
def test_a_tree_with_one_busy_height_is_neural_sort(topn):
    """Nodes of one child sort nothing; and depth 1 is the root alone."""
    (scores, _), *_ = random_lists(3, [9])
    mask = tf.ones([1, 9], tf.bool)
    scores = tf.constant([scores], tf.float64)
    flat = relaxations.neural_sort(scores, mask, topn, 1.7)
    for branching in ([9], [9, 1], [1, 9]):
        temperatures = [1.7] * len(branching)
        if branching == [9, 1]:
            # The root sorts what is sorted already: coldly, that is no change.
            temperatures = [1.7, 1e-6]
        rows = relaxations.merge_sort(scores, mask, topn, temperatures, branching)
        np.testing.assert_allclose(rows, flat, rtol=1e-9, atol=1e-12)


def test_a_node_counts_what_it_is_handed_and_not_its_leaves():
    """Here one of 4 leaves and an empty sibling: it gets 3 values, and may keep 4."""
    (scores, labels), *_ = random_lists(8, [12])
    loss = losses.PiRankNDCGLoss(
        topn=3,
        temperature=2.0,
        straight_through=False,
        depth=3,
        branching=[4, 2, 2],
        merge_topn=[3, 4, 3],
        reduction="none",
    )
    relaxed = functools.partial(
        oracles_pirank.pirank_loss,
        name="ndcg",
        sort=tree([4, 2, 2], [2.0] * 3, [3, 4, 3]),
        topn=3,
    )
    assert_equals_oracle(loss, relaxed, [(scores, labels)])


@pytest.mark.parametrize("size", [13, 30])
def test_the_root_takes_what_the_branching_leaves_over(size):
    (scores, labels), *_ = random_lists(6, [size])
    arguments = {"topn": 3, "temperature": 2.0, "straight_through": False}
    loss = losses.PiRankNDCGLoss(depth=2, branching=[4, 3], **arguments)
    sort = tree([4, -(-size // 4)], [2.0, 2.0])
    relaxed = functools.partial(
        oracles_pirank.pirank_loss, labels=labels, name="ndcg", sort=sort, topn=3
    )
    value, slopes = value_and_gradient(loss, [labels], np.array([scores]))
    np.testing.assert_allclose(value, np.real(relaxed(scores)), rtol=1e-9)
    np.testing.assert_allclose(
        slopes[0], oracles.gradient(relaxed, scores), rtol=1e-7, atol=1e-10
    )


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_equal_scores_tie_at_every_height(dtype):
    """Their mixtures are equal too, to the last bit, wherever the scores are."""
    labels = [2.0, 0.0, 1.0, 0.0, 0.0, 3.0, 0.0]
    arguments = {"topn": 4, "temperature": 2.0, "straight_through": False}
    loss = losses.PiRankNDCGLoss(depth=3, branching=[2, 2, 2], **arguments)
    relaxed = functools.partial(
        oracles_pirank.pirank_loss,
        labels=labels,
        name="ndcg",
        sort=tree([2, 2, 2], [2.0] * 3),
        topn=4,
    )
    value, slopes = value_and_gradient(loss, [labels], tf.constant([[0.1] * 7], dtype))
    # Mixtures of zeros are exactly 0.
    np.testing.assert_allclose(value, np.real(relaxed([0.0] * 7)), rtol=1e-6)
    expected = oracles.gradient(relaxed, [0.0] * 7)
    np.testing.assert_allclose(slopes[0], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.grid
@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
def test_default_trees_in_graphs_of_unknown_shapes_equal_eager(jit):
    loss = losses.PiRankNDCGLoss(topn=None, depth=3, straight_through=False)
    rng = np.random.default_rng(7)
    scores = tf.constant(rng.normal(size=[2, 10]), tf.float32)
    labels = tf.constant(rng.integers(-1, 3, [2, 10]), tf.float32)
    spec = tf.TensorSpec([None, None])

    value, slopes = value_and_gradient(loss, labels, scores)
    graph_value, graph_slopes = compiled(loss, spec, spec, jit=jit)(labels, scores)
    np.testing.assert_allclose(graph_value, value, rtol=1e-5)
    np.testing.assert_allclose(graph_slopes, slopes, rtol=1e-4, atol=1e-6)


def test_figure_4_of_the_paper():
    scores = tf.constant([[0.2, 0.5, 0.3, 0.4, 0.1, 0.7]], tf.float64)
    mask = tf.ones([1, 6], tf.bool)

    def top(num_ranks, temperatures, branching):
        return relaxations.merge_sort_expectation(
            scores, mask, scores, num_ranks, temperatures, branching
        ).numpy()[0]

    np.testing.assert_allclose(top(2, [1e-4, 1e-4], [3, 2]), [0.7, 0.5], rtol=1e-12)
    rows = relaxations.merge_sort(scores, mask, 2, [1e-4, 1e-4], [3, 2])
    np.testing.assert_allclose(rows[0], np.eye(6)[[5, 1]], atol=1e-12)
    # The values at the nodes below are those of each half.
    for half, expected in ((slice(0, 3), [0.5, 0.3]), (slice(3, 6), [0.7, 0.4])):
        rows = relaxations.neural_sort(scores[:, half], mask[:, half], 2, 1e-4)
        np.testing.assert_allclose(
            tf.linalg.matvec(rows, scores[:, half])[0], expected, rtol=1e-12
        )


@pytest.mark.parametrize("topn", [None, 2])
@pytest.mark.parametrize("where", ["behind", "between"])
def test_padding_is_invisible_for_a_given_branching(topn, where):
    loss = losses.PiRankNDCGLoss(
        topn=topn,
        temperature=1.0,
        straight_through=False,
        depth=3,
        branching=[2, 2, 2],
        merge_temperatures=[0.5, 0.5, 1.0],
    )
    scores, labels = next(random_lists(4, [7]))
    value, slopes = value_and_gradient(loss, [labels], np.array([scores]))
    # 19 is more than the leaves of the tree.
    places = np.arange(7) if where == "behind" else np.array([1, 2, 5, 8, 9, 14, 18])
    wide_labels, wide_scores = np.full([1, 19], -1.0), np.full([1, 19], 1e6)
    wide_labels[0, places], wide_scores[0, places] = labels, scores
    padded, padded_slopes = value_and_gradient(loss, wide_labels, wide_scores)
    np.testing.assert_allclose(padded, value, rtol=1e-12)
    np.testing.assert_allclose(padded_slopes[0, places], slopes[0], rtol=1e-9)
    assert not np.delete(padded_slopes, places, axis=1).any()


@pytest.mark.parametrize("straight_through", [False, True])
def test_all_heights_follow_a_schedule_of_the_temperature(straight_through):
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(4.0, 10, 0.5)
    arguments = {"depth": 3, "topn": 3, "straight_through": straight_through}
    scheduled = losses.PiRankNDCGLoss(
        temperature=schedule, merge_temperatures=[1.0, 2.0, 4.0], **arguments
    )
    scores, labels = next(random_lists(5, [10]))
    for step, scale in ((0, 1.0), (10, 0.5), (30, 0.125)):
        scheduled.set_step(step)
        plain = losses.PiRankNDCGLoss(
            temperature=4 * scale,
            merge_temperatures=[scale, 2 * scale, 4 * scale],
            **arguments,
        )
        found, expected = (
            value_and_gradient(loss, [labels], np.array([scores]))
            for loss in (scheduled, plain)
        )
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-12)


def test_merge_topn_may_ask_more_of_the_root_than_branching_gives():
    """The root has as many children as the list needs."""
    rng = np.random.default_rng(3)
    scores, labels = rng.normal(size=[1, 30]), rng.integers(0, 3, [1, 30])
    arguments = {"topn": 10, "depth": 2, "straight_through": False}
    asked = losses.PiRankNDCGLoss(branching=[3, 2], merge_topn=[3, 10], **arguments)
    grown = losses.PiRankNDCGLoss(branching=[3, 10], **arguments)
    np.testing.assert_allclose(asked(labels, scores), grown(labels, scores), rtol=1e-12)
