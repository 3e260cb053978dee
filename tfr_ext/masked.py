"""Shapes and masks of batches of lists, shared by every layer above."""

from __future__ import annotations

from typing import Any, Union

import tensorflow as tf

# An int where the graph knows the size, a scalar tensor where it does not.
Size = Union[int, tf.Tensor]


def list_size(x: tf.Tensor) -> Size:
    """Returns the size of dimension 1 of `x`: an int if static, else a tensor."""
    static = x.shape[1]
    return tf.shape(x)[1] if static is None else static


def batch_size(x: tf.Tensor) -> Size:
    """Returns the size of dimension 0 of `x`: an int if static, else a tensor."""
    static = x.shape[0]
    return tf.shape(x)[0] if static is None else static


def num_ranks(x: tf.Tensor, topn: int | None) -> Size:
    """Returns how many ranks of the lists in `x` a cut-off at `topn` can reach."""
    size = list_size(x)
    if topn is None:
        return size
    return min(topn, size) if isinstance(size, int) else tf.minimum(topn, size)


def num_real(mask: tf.Tensor, dtype: Any) -> tf.Tensor:
    """Counts the real items of each list: `[batch, list]` bool to `[batch]`."""
    return tf.reduce_sum(tf.cast(mask, dtype), axis=1)


def ranks(ranked: tf.Tensor) -> tf.Tensor:
    """Returns the ranks 1, 2, ... of the columns of `ranked`, shape `[1, ranks]`."""
    size = tf.cast(list_size(ranked), ranked.dtype)
    return tf.range(1, size + 1, dtype=ranked.dtype)[tf.newaxis, :]


def shifted_scores(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Shifts each list so that its lowest real score is 0; padding becomes 0.

    The shift is differentiated: raising the lowest item lowers all the others.

    Args:
        scores: float tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.

    Returns:
        A tensor like `scores`, non-negative.
    """
    lowest = tf.reduce_min(
        tf.where(mask, scores, scores.dtype.max), axis=1, keepdims=True
    )
    return tf.where(mask, scores - lowest, 0)
