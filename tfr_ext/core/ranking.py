"""Which item stands at each rank of the exact sort."""

from __future__ import annotations

import tensorflow as tf

from tfr_ext.core import masked


def ranking(
    scores: tf.Tensor, mask: tf.Tensor, num_ranks: masked.Size | None = None
) -> tf.Tensor:
    """Returns which item stands at each rank, best first.

    Ties are broken by position: if two scores are equal, the earlier item ranks first.
    Padding comes after all real items.

    Args:
        scores: float tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        num_ranks: number of ranks returned, all by default.

    Returns:
        An int32 tensor of shape `[batch, num_ranks]` of positions in the list.

    Examples:
        >>> ranking(tf.constant([[1., 3., 3.]]), tf.constant([[True] * 3])).numpy()
        array([[1, 2, 0]], dtype=int32)
    """
    return best(scores, mask, num_ranks).indices


def best(
    scores: tf.Tensor, mask: tf.Tensor, num_ranks: masked.Size | None = None
) -> masked.Top:
    """Returns the ranking and the sorted scores, with minus infinity at padding."""
    # NaN has no place in an order, but it is not padding either.
    keys = masked.where(~tf.math.is_nan(scores), scores, scores.dtype.min)
    keys = masked.where(mask, keys, -float("inf"))
    if num_ranks is None:
        num_ranks = masked.list_size(scores)
    # If keys are equal, the lower index comes first.
    return masked.top(keys, num_ranks)


def at_ranks(
    scores: tf.Tensor,
    mask: tf.Tensor,
    values: tf.Tensor,
    num_ranks: masked.Size | None = None,
) -> tf.Tensor:
    """Returns the value of the item at each rank, `[batch, num_ranks]`.

    Args:
        scores: float tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        values: float tensor of the same shape.
        num_ranks: number of ranks returned, all by default.
    """
    return tf.gather(values, ranking(scores, mask, num_ranks), batch_dims=1)
