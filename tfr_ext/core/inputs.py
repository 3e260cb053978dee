"""Checks and unifies labels, scores and weights as TensorFlow Ranking users pass them.

Losses and metrics take the same inputs, which are checked here and turned into dense
`[batch, list]` tensors of one floating type. Losses over distributions of grades take
`[batch, list, grades]`, where the first entry of an item's labels is its item label,
which is negative at padding.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from tfr_ext.core import masked

TensorLike: TypeAlias = tf.Tensor | tf.RaggedTensor | Any

# The label of padding, as TensorFlow Ranking writes it.
PADDING_LABEL = -1.0

# How far rounding may raise a label above the highest label, relative to the latter.
_LABEL_ROUNDING = 2.0**-8

_SHAPES = {
    2: "`y_true` and `y_pred` must have the same shape [batch, list].",
    3: "`y_true` and `y_pred` must have the same shape [batch, list, grades].",
}
_ROW_LENGTHS = "The rows of `y_true` and `y_pred` must have the same lengths."
_RAGGED_WEIGHTS = "The rows of `sample_weight` and `y_true` must have the same lengths."
_WEIGHTS = "`sample_weight` must have as many rows as `y_true`."


def dense(
    y_true: TensorLike, y_pred: TensorLike, ragged: bool, rank: int = 2
) -> tuple[tf.Tensor, tf.Tensor]:
    """Checks labels and scores and returns them dense, in one floating type.

    Both are `[batch, list]`, or `[batch, list, grades]` with `rank=3`, and may be
    ragged if `ragged`. Labels have any numeric type and are negative at padding; where
    a ragged tensor had no item, they become -1. The type is float64 if the scores are
    float64, else float32.
    """
    if isinstance(y_true, tf.RaggedTensor) or isinstance(y_pred, tf.RaggedTensor):
        y_true, y_pred = _ragged_to_dense(y_true, y_pred, ragged)
    labels = tf.convert_to_tensor(y_true)
    scores = tf.convert_to_tensor(y_pred)
    if (
        labels.shape.rank not in (None, rank)
        or scores.shape.rank not in (None, rank)
        or not labels.shape.is_compatible_with(scores.shape)
    ):
        raise ValueError(
            f"{_SHAPES[rank]} Received: y_true {labels.shape}, y_pred {scores.shape}."
            + _squeeze_hint(scores, rank)
        )
    if not scores.dtype.is_floating or scores.dtype.size < 4:
        scores = tf.cast(scores, tf.float32)
    labels = tf.cast(labels, scores.dtype)
    if not (labels.shape.is_fully_defined() and scores.shape.is_fully_defined()):
        labels, scores = _check_shapes_at_run_time(labels, scores, rank)
    return labels, scores


def _squeeze_hint(scores: tf.Tensor, rank: int) -> str:
    """Returns a hint on how to drop the last dimension of scores `[batch, list, 1]`."""
    if rank != 2 or scores.shape.rank != 3 or scores.shape[2] != 1:
        return ""
    return (
        " Drop the last dimension of the scores: end the model with "
        "`tf.keras.layers.Reshape([-1])` or `tf.squeeze(scores, axis=-1)`."
    )


def item_labels(labels: tf.Tensor) -> tf.Tensor:
    """Returns one label per item, `[batch, list]`, negative at padding."""
    return labels if labels.shape.rank == 2 else labels[..., 0]


def where_real(mask: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Returns labels or scores `x` with 0 where `mask` `[batch, list]` is False."""
    if x.shape.rank == 2:
        return masked.where(mask, x)
    return tf.where(mask[..., tf.newaxis], x, 0)


def real_items(labels: tf.Tensor) -> tf.Tensor:
    """Returns the mask of the items that are not padding."""
    # NaN is not padding, so that it stays visible. (Graphs turn `~(x < 0)` into
    # `x >= 0`.)
    return (labels >= 0) | tf.math.is_nan(labels)


def are_usable(
    labels: tf.Tensor, scores: tf.Tensor, max_label: float | None
) -> tf.Tensor:
    """Returns which items have labels and scores that a loss is defined for.

    Labels and scores are 0 at padding, `[batch, list]` or `[batch, list, grades]`. The
    result is `[batch, list]`, and False where a label or a score is NaN or infinite, or
    a label is above `max_label`.
    """
    # One check covers both, as only labels above 1e31 can make a finite score infinite.
    usable = tf.math.is_finite(labels + scores)
    if max_label is not None:
        usable &= labels <= max_label * (1 + _LABEL_ROUNDING)
    return usable if usable.shape.rank == 2 else tf.reduce_all(usable, axis=2)


def item_weights(
    sample_weight: TensorLike | None, labels: tf.Tensor, ragged: bool
) -> tf.Tensor:
    """Returns weights of items, 0 at padding, in the shape and type of the labels.

    `sample_weight` is None, a scalar, or weights of shape `[batch]` (one per list, even
    if batch and list sizes are equal), `[batch, 1]` or `[batch, list]`, which may be
    ragged if `ragged`. The labels are dense, `[batch, list]`, and negative at padding.
    """
    weights = 1.0 if sample_weight is None else sample_weight
    if isinstance(weights, tf.RaggedTensor) and ragged and weights.shape.rank == 2:
        lengths = tf.reduce_sum(tf.cast(real_items(labels), tf.int64), axis=1)
        with _same(weights.row_lengths(), lengths, _RAGGED_WEIGHTS):
            weights = weights.to_tensor(shape=tf.shape(labels, tf.int64))
    if not isinstance(weights, tf.RaggedTensor):
        weights = of_known_rank(weights, labels)
    shape, expected = weights.shape, labels.shape
    if isinstance(weights, tf.RaggedTensor) or not (
        shape.rank == 0
        or (shape.rank == 1 and shape.is_compatible_with(expected[:1]))
        or (
            shape.rank == 2
            and shape[:1].is_compatible_with(expected[:1])
            and (shape[1] == 1 or shape[1:].is_compatible_with(expected[1:]))
        )
    ):
        raise ValueError(
            "`sample_weight` must be a scalar, or have shape [batch], [batch, 1] or "
            f"[batch, list] where [batch, list] = {expected}. Received: {shape}."
        )
    if shape.rank and not (shape[:1].is_fully_defined() and expected[0] is not None):
        # If the shape is only known at run time, [1, list] would be broadcast silently.
        with _same(tf.shape(weights)[0], tf.shape(labels)[0], _WEIGHTS):
            weights = tf.identity(weights)
    if shape.rank == 1:
        weights = weights[:, tf.newaxis]
    weights = tf.cast(weights, labels.dtype) * tf.ones_like(labels)
    return tf.where(real_items(labels), weights, 0)


def of_known_rank(weights: TensorLike, labels: tf.Tensor) -> tf.Tensor:
    """Returns dense sample weights as a tensor; an unknown rank becomes rank 2.

    Keras forgets the rank once a model has had weights of different ranks.
    """
    weights = tf.convert_to_tensor(weights)
    if weights.shape.rank is not None:
        return weights
    rank = tf.rank(weights)
    shape = tf.concat([tf.shape(weights), tf.ones([2 - rank], tf.int32)], axis=0)
    rows = tf.where(rank == 0, tf.shape(labels)[0], 1)
    weights = tf.reshape(weights, shape) * tf.ones([rows, 1], weights.dtype)
    return tf.ensure_shape(weights, [None, None])


def list_weights(labels: tf.Tensor, mask: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Averages item weights over each list as TensorFlow Ranking does, to `[batch, 1]`.

    The average is weighted by the labels. If all labels are 0, it is the plain average
    over the real items (where TensorFlow Ranking returns 0). The arguments are all
    `[batch, list]`: labels and weights are 0 at padding, `mask` is True at real items.
    """
    importance = tf.where(
        tf.reduce_any(labels > 0, axis=1, keepdims=True),
        labels,
        tf.cast(mask, labels.dtype),
    )
    return tf.math.divide_no_nan(
        tf.reduce_sum(weights * importance, axis=1, keepdims=True),
        tf.reduce_sum(importance, axis=1, keepdims=True),
    )


class Lists(NamedTuple):
    """Clean inputs of a metric, `[batch, list]` except for the weights.

    Labels are 0 at padding, and the mask is True at real items. The weights `[batch]`
    are one per list, 0 for a row of nothing but padding.
    """

    labels: tf.Tensor
    scores: tf.Tensor
    mask: tf.Tensor
    weights: tf.Tensor


def lists(
    y_true: TensorLike,
    y_pred: TensorLike,
    sample_weight: TensorLike | None,
    ragged: bool,
) -> Lists:
    """Checks and cleans the inputs of a metric, see `dense` and `item_weights`."""
    labels, scores = dense(y_true, y_pred, ragged)
    mask = real_items(labels)
    weights = item_weights(sample_weight, labels, ragged)
    labels = tf.where(mask, labels, 0)
    weights = list_weights(labels, mask, weights)[:, 0]
    return Lists(labels, scores, mask, weights)


def _ragged_to_dense(
    y_true: TensorLike, y_pred: TensorLike, allowed: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    if not (
        isinstance(y_true, tf.RaggedTensor) and isinstance(y_pred, tf.RaggedTensor)
    ):
        raise ValueError(
            "`y_true` and `y_pred` must both be ragged or both be dense. "
            f"Received: y_true {_describe(y_true)}, y_pred {_describe(y_pred)}."
        )
    if not allowed:
        raise ValueError(
            "`y_true` and `y_pred` must be dense, unless the loss or metric is built "
            "with `ragged=True`. Received: ragged tensors."
        )
    if y_true.ragged_rank != 1 or y_pred.ragged_rank != 1:
        raise ValueError(
            "`y_true` and `y_pred` must have `ragged_rank=1`, as only the lists may be "
            "ragged, not the grades of an item. "
            f"Received: y_true {_describe(y_true)}, y_pred {_describe(y_pred)}."
        )
    if y_true.dtype.is_unsigned:
        y_true = tf.cast(y_true, tf.int64)
    with _same(y_true.row_lengths(), y_pred.row_lengths(), _ROW_LENGTHS):
        y_true, y_pred = (tf.identity(y) for y in (y_true, y_pred))
    return y_true.to_tensor(tf.cast(PADDING_LABEL, y_true.dtype)), y_pred.to_tensor()


def _describe(y: TensorLike) -> str:
    kind = "ragged" if isinstance(y, tf.RaggedTensor) else "dense"
    return f"{kind} of shape {getattr(y, 'shape', None)}"


def _check_shapes_at_run_time(
    labels: tf.Tensor, scores: tf.Tensor, rank: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Checks shapes that are only known at run time, and might broadcast silently."""
    with _same(tf.shape(labels), tf.shape(scores), _SHAPES[rank]):
        labels = tf.identity(labels)
    known = labels.shape.merge_with(scores.shape).with_rank(rank)
    return tf.ensure_shape(labels, known), tf.ensure_shape(scores, known)


def _same(x: tf.Tensor, y: tf.Tensor, message: str) -> Any:
    """Returns a context in which `x` equals `y`; raises a ValueError in eager mode."""
    if tf.executing_eagerly():
        if x.shape != y.shape or bool(tf.reduce_any(x != tf.cast(y, x.dtype))):
            raise ValueError(f"{message} Received: {x.numpy()} and {y.numpy()}.")
        return contextlib.nullcontext()
    return tf.control_dependencies(
        [tf.debugging.assert_equal(x, tf.cast(y, x.dtype), message)]
    )
