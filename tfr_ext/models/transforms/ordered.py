"""Where values stand among sorted ones."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfr_ext.models.transforms.feature_transform import ROUNDING


def counts(ordered: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts the entries of each row that are below a value, and that are not above it.

    Entries that differ from the value only by rounding count as equal to it, as log1p
    of equal numbers may differ. Entries `ordered[lower:not_higher]` are equal.

    Args:
        ordered: float tensor `[rows, entries]`, sorted in each row.
        values: float tensor `[rows, values]`.

    Returns:
        Two int32 tensors `[rows, values]`, `lower` and `not_higher`.

    Examples:
        >>> lower, not_higher = counts(tf.constant([[1., 3., 3., 5.]]),
        ...                            tf.constant([[3., 4., 9.]]))
        >>> lower.numpy().tolist(), not_higher.numpy().tolist()
        ([[1, 3, 4]], [[3, 3, 4]])
    """
    tolerance = ROUNDING * tf.abs(values)
    low, high = values - tolerance, values + tolerance
    return _bisected(ordered, low, tf.less), _bisected(ordered, high, tf.less_equal)


def _bisected(
    ordered: tf.Tensor,
    values: tf.Tensor,
    is_before: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """Returns how many entries of a row stand before each value.

    `tf.searchsorted` does the same, but XLA makes of it a comparison of each value with
    each entry, which takes gigabytes for lists of 1,000 items.

    Args:
        ordered: `[rows, entries]`, sorted.
        values: `[rows, values]`.
        is_before: whether an entry stands before a value.
    """
    size = tf.shape(ordered)[1]
    (step,) = tf.while_loop(
        lambda step: 2 * step <= size, lambda step: [2 * step], [tf.constant(1)]
    )

    def halved(step: tf.Tensor, count: tf.Tensor) -> list[tf.Tensor]:
        further = count + step
        entries = tf.gather(ordered, tf.minimum(further, size) - 1, batch_dims=1)
        goes_on = (further <= size) & is_before(entries, values)
        return [step // 2, tf.where(goes_on, further, count)]

    _, count = tf.while_loop(
        lambda step, count: step > 0,
        halved,
        [step, tf.zeros_like(values, tf.int32)],
    )
    return count
