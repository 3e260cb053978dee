"""The exact sort: the limit of every relaxation, and the ranking of the metrics."""

from __future__ import annotations

import tensorflow as tf

from tfr_ext.core import masked
from tfr_ext.core.masked import at_ranks as exact_expectation
from tfr_ext.core.masked import ranking

__all__ = ["exact_expectation", "exact_sort", "ranking"]


def exact_sort(
    scores: tf.Tensor, mask: tf.Tensor, num_ranks: masked.Size | None = None
) -> tf.Tensor:
    """Returns the exact rank indicators (a permutation matrix, no gradient).

    Args:
        scores: float tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        num_ranks: number of rows returned, all by default.

    Returns:
        A tensor of shape `[batch, num_ranks, list]`: row `r` is 1 at the item of
        rank `r + 1`. Rows beyond the number of real items point at padding.
    """
    indices = ranking(scores, mask, num_ranks)
    return tf.one_hot(indices, masked.list_size(scores), dtype=scores.dtype)
