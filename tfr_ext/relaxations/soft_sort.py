"""SoftSort: the simplest relaxation of sorting (Prillo and Eisenschlos, ICML 2020)."""

from __future__ import annotations

import tensorflow as tf

from tfr_ext import masked
from tfr_ext.relaxations.exact import ranking
from tfr_ext.relaxations.sorted_scores import Float


def soft_sort(
    scores: tf.Tensor,
    mask: tf.Tensor,
    num_ranks: masked.Size | None = None,
    temperature: Float = 1.0,
) -> tf.Tensor:
    """Returns SoftSort's rank indicators, `softmax_j(-|s_(r) - s_j| / temperature)`.

    `s_(r)` is the score at rank `r` of the exact sort; it is differentiated too.

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        num_ranks: number of rows, one for each item by default.
        temperature: positive; the rows become exact as it falls.

    Returns:
        A tensor of shape `[batch, num_ranks, list]`; each row sums to 1 over the real
        items and is 0 at padding. Rows beyond the number of real items are 0.

    Examples:
        >>> scores = tf.constant([[1., 3., 2.]])
        >>> soft_sort(scores, scores > 0, 1, temperature=1.).numpy().round(3)
        array([[[0.09 , 0.665, 0.245]]], dtype=float32)
    """
    by_rank = tf.gather(scores, ranking(scores, mask, num_ranks), batch_dims=1)
    if not tf.is_tensor(temperature):
        temperature = tf.constant(temperature, scores.dtype)
    gaps = by_rank[:, :, tf.newaxis] - scores[:, tf.newaxis, :]
    # Of the largest floats the gap, or its quotient, may be too large for one.
    logits = -tf.abs(gaps) / tf.cast(temperature, scores.dtype)
    logits = tf.where(logits < -_FAR, tf.constant(-_FAR, scores.dtype), logits)
    real = mask[:, tf.newaxis, :] & (masked.real_ranks(mask, by_rank))[:, :, tf.newaxis]
    return tf.where(real, tf.nn.softmax(tf.where(real, logits, -2 * _FAR)), 0)


def soft_sort_expectation(
    scores: tf.Tensor,
    mask: tf.Tensor,
    values: tf.Tensor,
    num_ranks: masked.Size | None = None,
    temperature: Float = 1.0,
) -> tf.Tensor:
    """Returns the expected value at each rank, `soft_sort(...) @ values`.

    Args:
        scores: see `soft_sort`.
        mask: True at real items.
        values: tensor like `scores`, such as the labels.
        num_ranks: number of ranks, one for each item by default.
        temperature: see `soft_sort`.

    Returns:
        A tensor of shape `[batch, num_ranks]`, 0 beyond the real items.
    """
    return tf.linalg.matvec(soft_sort(scores, mask, num_ranks, temperature), values)


# Logits this far below the best have no mass.
_FAR = 1e30
