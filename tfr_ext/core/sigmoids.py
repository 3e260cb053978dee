"""Sigmoids in place of steps: soft counts of better items, and soft cut-offs."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfr_ext.core import blocks, masked
from tfr_ext.core.derivatives import differentiable_once

# Up to this many pairs are kept for the backward pass; more are computed again.
_KEPT_PAIRS = 2**24
# Number of terms for each part of a long sum, and the largest number of parts.
_FEW_TERMS, _MOST_PARTS = 128, 8
# Numbers are clipped to this, so that differences are finite.
_MOST = 1e37


def within(positions: tf.Tensor, topn: int, slope: float) -> tf.Tensor:
    """Returns `sigmoid(slope (topn + 1/2 - position))`, a soft "at `topn` or better".

    The threshold is halfway between two ranks, so that the limit is the exact step.
    Positions count from 1, the best, and `slope` is positive.
    """
    return tf.sigmoid(_bounded(slope * (topn + 0.5 - positions)))


def soft_counts(x: tf.Tensor, weights: tf.Tensor, slope: float) -> tf.Tensor:
    """Returns `sum_i w_i sigmoid(slope (x_i - x_j))` for each `j`, `i = j` included.

    `x` and `weights` are `[batch, list]`, and `slope` is positive. The weights are not
    differentiated.
    """
    weights = tf.stop_gradient(weights)
    fixed = _bounded(tf.stop_gradient(x))

    def sigmoids(rows: tf.Tensor) -> tf.Tensor:
        # Differences of close numbers are exact, those of their products are not.
        return tf.sigmoid(slope * (fixed[:, tf.newaxis, :] - rows))

    @differentiable_once
    def counts(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        rows = fixed[:, :, tf.newaxis]
        kept = sigmoids(rows) if blocks.are_one(rows, _KEPT_PAIRS) else None

        def sums(of: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
            if kept is not None:
                return of(kept)
            zero = tf.zeros([], x.dtype)
            by_row, _ = blocks.by_rows(lambda r: (of(sigmoids(r)), zero), rows, zero)
            return by_row

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            both = tf.stack([upstream, weights], axis=2)
            of_both = sums(lambda s: _product(s - tf.square(s), both))
            return slope * (weights * of_both[:, :, 0] - upstream * of_both[:, :, 1])

        by_item = sums(lambda s: _product(s, weights[:, :, tf.newaxis]))
        return by_item[:, :, 0], gradient

    return counts(x)


def _product(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Returns `rows @ columns`, with long sums added up in a few parts.

    A processor may add the terms one by one: equal ones are then all rounded alike.
    """
    size = masked.list_size(columns)
    if isinstance(size, int) and size < _FEW_TERMS:
        return tf.matmul(rows, columns)
    parts = masked.minimum(_MOST_PARTS, 1 + size // _FEW_TERMS)
    length = 1 + size // parts
    part = tf.one_hot(tf.range(size) // length, parts, dtype=columns.dtype)
    spread = columns[:, :, tf.newaxis] * part[:, :, tf.newaxis]
    batch, width = tf.shape(columns)[0], tf.shape(columns)[2]
    products = tf.matmul(rows, tf.reshape(spread, [batch, size, parts * width]))
    shape = [batch, masked.list_size(rows), parts, width]
    return tf.reduce_sum(tf.reshape(products, shape), axis=2)


def _bounded(x: tf.Tensor) -> tf.Tensor:
    """Returns `x` without infinities; NaN stays NaN."""
    x = tf.where(x > _MOST, tf.constant(_MOST, x.dtype), x)
    return tf.where(x < -_MOST, tf.constant(-_MOST, x.dtype), x)
