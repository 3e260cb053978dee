"""What every loss promises, whatever it computes (see `base.RankingLoss`)."""

import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_ranking as tfr

from tests.losses import cases
from tfr_ext import losses

pytestmark = pytest.mark.parametrize("case", cases.CASES, ids=str)

LABELS = [[2.0, 0.0, 1.0, 3.0, 0.0], [0.0, 1.0, 0.0, 0.0, 2.0]]
SCORES = [[0.3, -0.2, 1.7, 0.9, -1.1], [2.0, 0.1, -0.4, 1.2, 0.6]]


def batch(dtype=tf.float32):
    """Two lists of five items, one of them with a list of three inside padding."""
    labels = tf.constant(LABELS + [[1.0, 0.0, 2.0, -1.0, -1.0]])
    scores = tf.constant(SCORES + [[0.5, 0.2, 0.1, 7.0, -3.0]], dtype)
    return labels, scores


def value_and_gradient(loss, labels, scores, weights=None):
    with tf.GradientTape() as tape:
        tape.watch(scores)
        value = loss(labels, scores, weights)
    return value.numpy(), tape.gradient(value, scores).numpy()


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


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf])
def test_scores_at_padding_reach_nothing(case, junk):
    labels, scores = batch()
    value, _ = value_and_gradient(case.build(), labels, scores)
    scores = tf.where(labels < 0, junk, scores)
    padded, slopes = value_and_gradient(case.build(), labels, scores)
    np.testing.assert_allclose(padded, value, rtol=1e-6)
    assert np.isfinite(slopes).all()


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


def test_ragged_input_needs_ragged_true(case):
    labels, scores = (tf.RaggedTensor.from_tensor(x, [5, 5, 3]) for x in batch())
    with pytest.raises(ValueError, match="ragged=True"):
        case.build()(labels, scores)


HUGE = np.finfo(np.float32).max


@pytest.mark.parametrize(
    "scores",
    [
        [0.0] * 6,
        [5.0, 5.0, 5.0, 1.0, 1.0, 1.0],
        [1e4, 0.0, -1e4, 2e4, 1e4, 3.0],
        [1e4] * 5 + [-1e4],
        [HUGE, -HUGE, 0.0, HUGE, 1.0, -1.0],
        [1e-38, 0.0, -1e-38, 1e-30, 1.0, 1e-45],
    ],
    ids=["equal", "ties", "1e4 apart", "ties 2e4 apart", "largest floats", "tiny"],
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


def test_a_score_that_is_nan_shows(case):
    """Hidden, it would train on: the value of its list is NaN, and of no other."""
    loss = case.build(reduction="none")
    labels, scores = batch()
    clean = loss(labels, scores).numpy()
    scores = tf.tensor_scatter_nd_update(scores, [[0, 1]], [np.nan])
    dynamic = tf.function(loss, input_signature=[tf.TensorSpec([None, None])] * 2)
    for function in (loss, dynamic):
        value = function(labels, scores).numpy()
        assert np.isnan(value[0]).any()
        np.testing.assert_allclose(value[1:], clean[1:], rtol=1e-6)
    labels = tf.tensor_scatter_nd_update(labels, [[1, 1]], [np.nan])
    assert np.isnan(loss(labels, batch()[1]).numpy()[1]).any()


@pytest.mark.parametrize("static", [True, False])
def test_lists_of_no_items_contribute_nothing(case, static):
    loss = case.build()
    spec = tf.TensorSpec([2, 0] if static else [None, None])

    @tf.function(input_signature=[spec] * 2)
    def step(labels, scores):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            value = loss(labels, scores)
        return value, tape.gradient(value, scores)

    value, slopes = step(tf.zeros([2, 0]), tf.zeros([2, 0]))
    assert value.numpy() == 0 and slopes.shape == (2, 0)
    empty = tf.RaggedTensor.from_row_lengths(tf.zeros([0]), [0, 0])
    assert case.build(ragged=True)(empty, empty).numpy() == 0


def test_lists_of_padding_only_contribute_nothing(case):
    loss = case.build(reduction="none")
    labels, scores = batch()
    labels = tf.concat([labels, -tf.ones([1, 5])], axis=0)
    scores = tf.concat([scores, tf.ones([1, 5])], axis=0)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        value = loss(labels, scores)
    assert not value[-1].numpy().any()
    slopes = tape.gradient(value, scores).numpy()
    assert not slopes[-1].any() and np.isfinite(slopes).all()


def test_empty_lists(case):
    loss = case.build(reduction="none")
    labels, scores = batch()
    labels = tf.concat([labels[:1], tf.zeros([1, 5])], axis=0)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        value = loss(labels, scores[:2])
    slopes = tape.gradient(value, scores).numpy()
    assert np.isfinite(slopes).all() and slopes[0].any()
    if case.empty_is_zero:
        assert not value[1].numpy().any() and not slopes[1].any()


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision_is_computed_in_float32(case, dtype):
    labels, scores = batch(dtype)
    half, slopes = value_and_gradient(case.build(), labels, scores)
    full, full_slopes = value_and_gradient(
        case.build(), labels, tf.cast(scores, tf.float32)
    )
    assert half.dtype == np.float32
    np.testing.assert_array_equal(half, full)
    np.testing.assert_allclose(
        slopes.astype(np.float32), full_slopes, rtol=1e-2, atol=1e-4
    )


def test_float64_scores_are_computed_in_float64(case):
    labels, scores = batch(tf.float64)
    value, _ = value_and_gradient(case.build(), labels, scores)
    single, _ = value_and_gradient(case.build(), labels, tf.cast(scores, tf.float32))
    assert value.dtype == np.float64
    np.testing.assert_allclose(value, single, rtol=1e-5)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.uint8, tf.float64])
def test_labels_of_any_number_type(case, dtype):
    labels, scores = tf.constant(LABELS), tf.constant(SCORES)
    expected = case.build()(labels, scores)
    actual = case.build()(tf.cast(labels, dtype), scores)
    np.testing.assert_array_equal(actual.numpy(), expected.numpy())


def test_reductions(case):
    labels, scores = batch()
    each = case.build(reduction="none")(labels, scores).numpy()
    listwise = isinstance(case.build(), losses.ListwiseLoss)
    assert each.shape == ((3, 1) if listwise else (3, 5))
    total = case.build(reduction="sum")(labels, scores).numpy()
    np.testing.assert_allclose(total, each.sum(), rtol=1e-6)
    per_list = each.sum(axis=1) if listwise else each.sum(axis=1) / [5, 5, 3]
    for reduction in ("auto", "sum_over_batch_size"):
        mean = case.build(reduction=reduction)(labels, scores).numpy()
        np.testing.assert_allclose(mean, per_list.mean(), rtol=1e-6)


WEIGHTS = np.float32(
    [[0.5, 1.0, 2.0, 0.0, 1.0], [3.0, 1.5, 0.0, 1.0, 0.25], [2.0, 1.0, 0.5, 9.0, 9.0]]
)


def test_item_weights_are_normalised_as_tfr_does(case):
    labels, scores = batch()
    loss = case.build(reduction="none")
    plain = loss(labels, scores).numpy()
    weighted = loss(labels, scores, WEIGHTS).numpy()
    if isinstance(loss, losses.ListwiseLoss):
        peer = tfr.keras.losses.SoftmaxLoss()._loss
    else:
        peer = tfr.keras.losses.MeanSquaredLoss()._loss
    factors = peer.normalize_weights(labels, tf.constant(WEIGHTS)).numpy()
    np.testing.assert_allclose(weighted, plain * factors, rtol=1e-5)


@pytest.mark.parametrize("form", ["scalar", "[batch]", "[batch, 1]", "[batch, list]"])
def test_list_weights_in_every_form(case, form):
    labels, scores = batch()
    loss = case.build(reduction="none")
    plain = loss(labels, scores).numpy()
    per_list = np.float32([2.0, 0.5, 3.0])
    weights, expected = {
        "scalar": (2.0, plain * 2.0),
        "[batch]": (per_list, plain * per_list[:, np.newaxis]),
        "[batch, 1]": (per_list[:, np.newaxis], plain * per_list[:, np.newaxis]),
        "[batch, list]": (
            np.repeat(per_list[:, np.newaxis], 5, axis=1),
            plain * per_list[:, np.newaxis],
        ),
    }[form]
    np.testing.assert_allclose(loss(labels, scores, weights), expected, rtol=1e-6)


def test_a_weight_vector_is_per_list_even_if_batch_equals_list(case):
    labels, scores = (x[:2, :2] for x in batch())
    loss = case.build(reduction="none")
    per_list = np.float32([2.0, 5.0])
    np.testing.assert_allclose(
        loss(labels, scores, per_list),
        loss(labels, scores).numpy() * per_list[:, np.newaxis],
        rtol=1e-6,
    )


def test_ragged_weights(case):
    labels, scores = batch()
    lengths = [5, 5, 3]
    ragged = [
        tf.RaggedTensor.from_tensor(x, lengths) for x in (labels, scores, WEIGHTS)
    ]
    np.testing.assert_allclose(
        case.build(ragged=True)(*ragged),
        case.build()(labels, scores, WEIGHTS),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    ("y_true", "y_pred"),
    [([2, 3], [2, 4]), ([2, 3], [2, 3, 1]), ([3], [3]), ([2, 3], [1, 3])],
)
def test_wrong_shapes_are_told(case, y_true, y_pred):
    with pytest.raises(ValueError) as error:
        case.build()(tf.zeros(y_true), tf.zeros(y_pred))
    for shape in (y_true, y_pred):
        sizes = ", ".join(map(str, shape))  # and perhaps one of grades
        assert re.search(rf"\({sizes}(, \d+)?,?\)", str(error.value))


def test_ragged_rows_of_different_lengths_are_told(case):
    loss = case.build(ragged=True)
    labels = tf.ragged.constant([[1.0, 0.0], [0.0, 1.0, 0.0]])
    scores = tf.ragged.constant([[0.6, 0.8, 0.1], [0.5, 0.8]])
    with pytest.raises(ValueError, match="same lengths.*2 3.*3 2"):
        loss(labels, scores)
    with pytest.raises(ValueError, match="sample_weight.*same lengths"):
        loss(labels, labels, scores)
    spec = tf.RaggedTensorSpec([None, None])
    graph = tf.function(loss, input_signature=[spec] * 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="same lengths"):
        graph(labels, scores)


def test_weights_in_a_graph_without_static_shapes_are_not_broadcast(case):
    loss = tf.function(case.build(), input_signature=[tf.TensorSpec([None, None])] * 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many rows"):
        loss(tf.ones([2, 3]), tf.ones([2, 3]), tf.ones([1, 3]))


def test_wrong_shapes_in_a_graph_without_static_shapes_are_refused(case):
    loss = tf.function(case.build(), input_signature=[tf.TensorSpec([None, None])] * 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="same shape"):
        loss(tf.zeros([2, 1]), tf.zeros([2, 3]))


@pytest.mark.parametrize("shape", [[4], [2], [3, 4], [1, 5], [3, 5, 1]])
def test_wrong_weight_shapes_are_told(case, shape):
    labels, scores = batch()
    with pytest.raises(ValueError, match="sample_weight.*Received"):
        case.build()(labels, scores, tf.ones(shape))


def test_config_round_trip(case):
    loss = case.build(reduction="sum", name="mine")
    again = type(loss).from_config(loss.get_config())
    assert again.get_config() == loss.get_config()
    assert again.name == "mine" and again.reduction == "sum"
    serialized = tf.keras.losses.serialize(loss)
    loaded = tf.keras.losses.deserialize(serialized)
    labels, scores = batch()
    np.testing.assert_array_equal(loaded(labels, scores), loss(labels, scores))
    for name, value in case.kwargs.items():
        assert loss.get_config()[name] == value


def test_wrong_arguments_are_named(case):
    for kwargs, argument in case.invalid:
        with pytest.raises(ValueError, match=f"`{argument}`"):
            case.build(**kwargs)
    with pytest.raises(ValueError, match="no parameter 'aplha'"):
        case.build(aplha=1.0)


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])
def test_graphs_equal_eager(case, jit, static):
    labels, scores = batch()
    loss = case.build()
    shape = [3, 5] if static else [None, None]

    @tf.function(input_signature=[tf.TensorSpec(shape)] * 2, jit_compile=jit)
    def step(labels, scores):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            value = loss(labels, scores)
        return value, tape.gradient(value, scores)

    value, slopes = value_and_gradient(loss, labels, scores)
    graph_value, graph_slopes = step(labels, scores)
    np.testing.assert_allclose(graph_value, value, rtol=1e-5)
    np.testing.assert_allclose(graph_slopes, slopes, rtol=1e-4, atol=1e-6)
