"""What every loss promises of its inputs: one case of each, `base` does the rest."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import tfr, value_and_gradient
from tests.losses import cases
from tests.losses.cases import (
    LABELS,
    SCORES,
    assert_graph_equals_eager,
    batch,
)
from tfr_ext import losses

pytestmark = [
    pytest.mark.first_case("case"),
    pytest.mark.parametrize("case", cases.ONE_EACH, ids=str),
]


def test_ragged_input_needs_ragged_true(case):
    labels, scores = (tf.RaggedTensor.from_tensor(x, [5, 5, 3]) for x in batch())
    with pytest.raises(ValueError, match="ragged=True"):
        case.build()(labels, scores)


def test_labels_of_any_number_type(case):
    labels, scores = tf.constant(LABELS), tf.constant(SCORES)
    expected = case.build()(labels, scores)
    for dtype in (tf.int32, tf.int64, tf.uint8, tf.float64):
        actual = case.build()(tf.cast(labels, dtype), scores)
        np.testing.assert_array_equal(actual.numpy(), expected.numpy(), str(dtype))


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


def test_wrong_arguments_are_named(case):
    invalid = [x for one in cases.CASES if one.key == case.key for x in one.invalid]
    assert invalid
    for kwargs, argument in invalid:
        with pytest.raises(ValueError, match=f"`{argument}`"):
            case.build(**kwargs)
    with pytest.raises(ValueError, match="no parameter 'aplha'"):
        case.build(aplha=1.0)


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


def test_list_weights_in_every_form(case):
    labels, scores = batch()
    loss = case.build(reduction="none")
    plain = loss(labels, scores).numpy()
    np.testing.assert_allclose(loss(labels, scores, 2.0), plain * 2, rtol=1e-6)
    per_list = np.float32([[2.0], [0.5], [3.0]])
    for weights in (per_list, per_list[:, 0], np.repeat(per_list, 5, axis=1)):
        weighted = loss(labels, scores, weights)
        np.testing.assert_allclose(weighted, plain * per_list, rtol=1e-6)


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


def test_wrong_shapes_are_told(case):
    for y_true, y_pred in (
        ([2, 3], [2, 4]),
        ([2, 3], [2, 3, 1]),
        ([3], [3]),
        ([2, 3], [1, 3]),
    ):
        with pytest.raises(ValueError) as error:
            case.build()(tf.zeros(y_true), tf.zeros(y_pred))
        for shape in (y_true, y_pred):
            sizes = ", ".join(map(str, shape))  # and perhaps one of grades
            assert re.search(rf"\({sizes}(, \d+)?,?\)", str(error.value))


def test_scores_with_a_last_dimension_of_1_are_told_how_to_drop_it(case):
    labels, scores = tf.constant([[1.0, 0.0, -1.0]]), tf.constant([[[0.1], [0.2], [0]]])
    loss, specs = case.build(), [tf.TensorSpec([None, None])] * 2
    specs[1] = tf.TensorSpec([None, None, 1])
    if loss.RANK == 2:
        for function in (loss, tf.function(loss, input_signature=specs)):
            with pytest.raises(ValueError, match=r"Reshape\(\[-1\]\).*tf.squeeze"):
                function(labels, scores)
        remedies = tf.keras.layers.Reshape([-1])(scores), tf.squeeze(scores, axis=-1)
        for squeezed in remedies:
            assert np.isfinite(loss(labels, squeezed))


@pytest.mark.first_case
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


@pytest.mark.first_case
def test_weights_in_a_graph_without_static_shapes_are_not_broadcast(case):
    loss = tf.function(case.build(), input_signature=[tf.TensorSpec([None, None])] * 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many rows"):
        loss(tf.ones([2, 3]), tf.ones([2, 3]), tf.ones([1, 3]))


@pytest.mark.first_case
def test_wrong_shapes_in_a_graph_without_static_shapes_are_refused(case):
    loss = tf.function(case.build(), input_signature=[tf.TensorSpec([None, None])] * 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="same shape"):
        loss(tf.zeros([2, 1]), tf.zeros([2, 3]))


def test_wrong_weight_shapes_are_told(case):
    labels, scores = batch()
    for shape in ([4], [2], [3, 4], [1, 5], [3, 5, 1]):
        with pytest.raises(ValueError, match="sample_weight.*Received"):
            case.build()(labels, scores, tf.ones(shape))


@pytest.mark.grid
def test_xla_without_static_shapes_equals_eager(case):
    assert_graph_equals_eager(case, [None, None], jit=True)
