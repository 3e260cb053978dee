"""What every loss promises, whatever it computes (see `base.RankingLoss`)."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import (
    assert_no_items_give_0,
    in_a_graph_of_tensorflow_1,
    value_and_gradient,
)
from tests.losses import cases
from tests.losses.cases import assert_graph_equals_eager, batch

pytestmark = [
    pytest.mark.first_case("case"),
    pytest.mark.parametrize("case", cases.PARAMETERS, ids=str),
]


def test_padding_is_invisible(case):
    loss = case.build()
    labels, scores = batch()
    value, slopes = value_and_gradient(loss, labels, scores)
    # Padding in front, between and behind, with scores that would win.
    where = [0, 3, 4, 7, 8]
    wide_labels = np.full([3, 11], -1.0, np.float32)
    wide_scores = np.full([3, 11], 1e9, np.float32)
    wide_labels[:, where], wide_scores[:, where] = labels, scores
    padded, padded_slopes = value_and_gradient(
        loss, tf.constant(wide_labels), tf.constant(wide_scores)
    )
    np.testing.assert_allclose(padded, value, rtol=2e-6)
    np.testing.assert_allclose(padded_slopes[:, where], slopes, rtol=1e-5, atol=1e-6)
    assert not padded_slopes[wide_labels < 0].any()


def test_scores_at_padding_reach_nothing(case):
    labels, scores = batch()
    value, _ = value_and_gradient(case.build(), labels, scores)
    for junk in (np.nan, np.inf, -np.inf):
        junked = tf.where(labels < 0, junk, scores)
        padded, slopes = value_and_gradient(case.build(), labels, junked)
        np.testing.assert_allclose(padded, value, rtol=1e-6)
        assert np.isfinite(slopes).all(), junk


def test_permutation_changes_nothing(case):
    if case.by_position:
        pytest.skip("groups the items by their positions")
    loss = case.build()
    labels, scores = batch()
    order = [3, 0, 4, 2, 1]
    value, slopes = value_and_gradient(loss, labels, scores)
    permuted, permuted_slopes = value_and_gradient(
        loss, tf.gather(labels, order, axis=1), tf.gather(scores, order, axis=1)
    )
    np.testing.assert_allclose(permuted, value, rtol=2e-6)
    np.testing.assert_allclose(permuted_slopes, slopes[:, order], rtol=1e-5, atol=1e-6)


def test_ragged_equals_dense(case):
    labels, scores = batch()
    dense, slopes = value_and_gradient(case.build(), labels, scores)
    lengths = [5, 5, 3]
    ragged = case.build(ragged=True)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        value = ragged(
            tf.RaggedTensor.from_tensor(labels, lengths),
            tf.RaggedTensor.from_tensor(scores, lengths),
        )
    np.testing.assert_allclose(value.numpy(), dense, rtol=1e-6)
    np.testing.assert_allclose(
        tape.gradient(value, scores).numpy(), slopes, rtol=1e-5, atol=1e-6
    )


HUGE = np.finfo(np.float32).max


@pytest.mark.parametrize(
    "scores",
    [
        [HUGE, -HUGE, 0.0, HUGE, 1.0, -1.0],
        [0.0] * 6,
        [5.0, 5.0, 5.0, 1.0, 1.0, 1.0],
        [1e4, 0.0, -1e4, 2e4, 1e4, 3.0],
        [1e4] * 5 + [-1e4],
        [1e-38, 0.0, -1e-38, 1e-30, 1.0, 1e-45],
    ],
    ids=["largest floats", "equal", "ties", "1e4 apart", "ties 2e4 apart", "tiny"],
)
@pytest.mark.parametrize("labels", [[2, 0, 1, 0, 3, 0], [0] * 6, [3] * 6], ids=str)
def test_value_and_gradient_are_finite(case, labels, scores):
    for size in (6, 2, 1):
        value, slopes = value_and_gradient(
            case.build(),
            tf.constant([labels[:size]], tf.float32),
            tf.constant([scores[:size]], tf.float32),
        )
        assert np.isfinite(value), (size, value)
        assert np.isfinite(slopes).all(), (size, slopes)


def test_a_long_list_of_ties_far_from_the_rest_is_finite(case):
    labels = tf.constant([[1.0, 0.0] * 40])
    scores = tf.constant([[1e4] * 79 + [0.0]])
    value, slopes = value_and_gradient(case.build(), labels, scores)
    assert np.isfinite(value) and np.isfinite(slopes).all()


def test_what_is_no_number_shows(case):
    """Hidden, it would train on: the loss of its list is none, nor is any other so."""
    loss = case.build(reduction="none")
    inputs = dict(zip(("labels", "scores"), batch()), weights=tf.ones([3, 5]))
    clean = loss(*inputs.values()).numpy()
    # One minus a metric is exact to an ulp of 1. SmoothI's softmax is another one
    # where a score of the batch is not finite, and may round the metric otherwise.
    ulp = 2.0**-23 if hasattr(loss, "relaxed_metric") and loss.relaxed_metric() else 0
    specs = [tf.TensorSpec([None, None])] * 3
    in_graph = tf.function(loss, input_signature=specs)
    for name in inputs:
        # A label of -inf is padding.
        for wrong in (np.nan, np.inf, -np.inf)[: 2 if name == "labels" else 3]:
            for item in range(5):
                changed = tf.tensor_scatter_nd_update(
                    inputs[name], [[1, item]], [wrong]
                )
                for function in (loss, in_graph) if item == 2 else (in_graph,):
                    value = function(*{**inputs, name: changed}.values()).numpy()
                    assert not np.isfinite(value[1]).all(), (name, wrong, item, value)
                    others = value[[0, 2]]
                    if case.couples_lists:
                        assert np.isfinite(others).all(), (name, wrong, item, value)
                    else:
                        np.testing.assert_allclose(
                            others, clean[[0, 2]], rtol=1e-6, atol=ulp
                        )


def test_a_label_above_the_highest_shows(case):
    max_label = case.kwargs.get("max_label")
    if max_label is None:
        pytest.skip("the loss has no highest label")
    labels, scores = batch()
    loss = case.build(reduction="none")
    clean = loss(labels, scores).numpy()
    wrong = tf.tensor_scatter_nd_update(labels, [[1, 2]], [max_label + 1])
    step = {"input_signature": [tf.TensorSpec([None, None])] * 2}
    graphs = [tf.function(loss, jit_compile=jit, **step) for jit in (False, True)]
    for function in (loss, *graphs):
        value = function(wrong, scores).numpy()
        assert np.isnan(value[1]).any()
        if not case.couples_lists:
            np.testing.assert_allclose(value[[0, 2]], clean[[0, 2]], rtol=1e-5)
    highest = tf.minimum(wrong, max_label)
    assert np.isfinite(loss(highest, scores)).all()


@pytest.mark.parametrize("static", [False, True])
def test_lists_of_no_items_contribute_nothing(case, static):
    assert_no_items_give_0(case.build(), static)
    empty = tf.RaggedTensor.from_row_lengths(tf.zeros([0]), [0, 0])
    assert case.build(ragged=True)(empty, empty).numpy() == 0


def test_lists_of_padding_only_contribute_nothing(case):
    loss = case.build(reduction="none")
    labels, scores = batch()
    labels = tf.concat([labels, -tf.ones([1, 5])], axis=0)
    scores = tf.concat([scores, tf.ones([1, 5])], axis=0)
    value, slopes = value_and_gradient(loss, labels, scores)
    assert not value[-1].any()
    assert not slopes[-1].any() and np.isfinite(slopes).all()


def test_empty_lists(case):
    loss = case.build(reduction="none")
    labels, scores = batch()
    labels = tf.concat([labels[:1], tf.zeros([1, 5])], axis=0)
    value, slopes = value_and_gradient(loss, labels, scores[:2])
    assert np.isfinite(slopes).all() and slopes[0].any()
    if case.empty_is_zero:
        assert not value[1].any() and not slopes[1].any()


def test_float64_scores_are_computed_in_float64(case):
    labels, scores = batch(tf.float64)
    value, _ = value_and_gradient(case.build(), labels, scores)
    single, _ = value_and_gradient(case.build(), labels, tf.cast(scores, tf.float32))
    assert value.dtype == np.float64
    np.testing.assert_allclose(value, single, rtol=1e-5)
    labels = tf.cast(labels, tf.float64)
    value = case.build()(labels, scores)
    specs = [tf.TensorSpec([None, None], tf.float64)] * 2
    in_graph = tf.function(case.build(), input_signature=specs)(labels, scores)
    assert in_graph.dtype == tf.float64
    np.testing.assert_allclose(in_graph, value, rtol=1e-12)


def test_an_integer_that_no_float_holds_is_refused_with_its_name(case):
    loss = case.build()
    config = loss.get_config()
    for name in (name for name, value in config.items() if type(value) is float):
        with pytest.raises(ValueError, match=f"`{name}`"):
            type(loss).from_config({**config, name: 10**400})


def test_config_round_trip(case):
    loss = case.build(reduction="sum", name="mine")
    again = type(loss).from_config(loss.get_config())
    assert again.get_config() == loss.get_config()
    assert again.name == "mine" and again.reduction == "sum"
    # A file has it as JSON.
    serialized = json.loads(json.dumps(tf.keras.losses.serialize(loss)))
    loaded = tf.keras.losses.deserialize(serialized)
    labels, scores = batch()
    np.testing.assert_array_equal(loaded(labels, scores), loss(labels, scores))
    for name, value in case.kwargs.items():
        assert loss.get_config()[name] == value


@pytest.mark.first_case("case", "jit")
@pytest.mark.parametrize(
    ("static", "jit"),
    [(False, False), (True, False), (True, True)],
    ids=["graph", "static graph", "xla"],
)
def test_graphs_equal_eager(case, static, jit):
    assert_graph_equals_eager(case, [3, 5] if static else [None, None], jit)


@pytest.mark.first_case("case")
@pytest.mark.parametrize("known", [False, True], ids=["unknown", "static"])
def test_graphs_of_tensorflow_1_equal_eager(case, known):
    if cases.SCHEDULE in case.kwargs.values():
        pytest.skip("its variable is outside of the graph")
    loss, weights = case.build(), np.array([1.0, 3.0, 0.5], np.float32)
    labels, scores = (x.numpy() for x in batch())
    tied = np.where([True, False, True, False, False], 1.0, scores).astype(np.float32)
    for given in (scores, tied):
        value, slopes = value_and_gradient(loss, labels, tf.constant(given), weights)
        found = in_a_graph_of_tensorflow_1(loss, labels, given, weights, known=known)
        np.testing.assert_allclose(found[0], value, rtol=1e-5)
        np.testing.assert_allclose(found[1], slopes, rtol=1e-4, atol=1e-6)
