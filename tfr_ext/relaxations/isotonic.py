r"""Isotonic regression of batches of rows: the nearest non-decreasing numbers.

$$
v = \operatorname{argmin}_{v_1 \le v_2 \le \dots \le v_n} \sum_p (v_p - y_p)^2
$$

The fit is constant on blocks and equals the mean of each block, so the gradient takes
the mean over blocks as well.

The usual algorithm, pooling adjacent violators, goes through a row number by number.
Here all rows are fitted at once, by merging neighbouring fitted pieces of 1, 2, 4, ...
numbers. If the left piece `l` ends above the start of the right one `r`, one block
forms from what is above its mean `m` on the left and below it on the right:

$$
v = (\min(l, m), \max(r, m)), \qquad
m = \max_i \min_j \operatorname{mean}(l_i, \dots, r_j)
$$

A left number `t` belongs to the block if a mean that starts at `t` is below it, that
is, if

$$
g(t) = \sum_{l \ge t} (l - t) - \sum_{r < t} (t - r) < 0
$$

which one search and prefix sums determine for all `t`; then `m` is the lowest mean that
the right piece can add to them. If nothing is pooled, `l_last <= m <= r_first` changes
nothing. A row of L numbers takes O(L log^2 L) time, whatever the numbers are.
"""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf

from tfr_ext.core import masked

# Pieces up to this length are merged by looking at all pairs (i, j).
_WIDTH = 16
# The longest row of statically unknown size.
_LONGEST = 2**18
# Fits whose relative difference is smaller are equal up to rounding.
_TOLERANCE = 1e-12


def fit(y: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the fit of float64 rows, without gradient; padding is above the rest."""
    y = tf.stop_gradient(y)
    top = 1 + 2 * tf.reduce_max(tf.abs(tf.where(mask, y, 0)))
    y = tf.where(mask, y, top)
    size = masked.list_size(y)
    width = _WIDTH
    if isinstance(size, int):
        power = 1 << max(size - 1, 0).bit_length()
        width = min(width, power)
        fitted = _short_pieces(_filled(y, power, top), width)
        while width < power:
            fitted = _merge(fitted, width)
            width *= 2
    else:
        padded = -(-size // width) * width
        fitted = _short_pieces(_filled(y, padded, top), width)
        fitted = _long_pieces(fitted, width, top)
    return fitted[:, :size]


def block_means(fitted: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Returns the mean of float64 `x` over each block of equal numbers of a fit."""
    left, right = fitted[:, :-1], fitted[:, 1:]
    scale = tf.maximum(tf.abs(left), tf.abs(fitted[:, :1]))
    rises = right - left > _TOLERANCE * scale
    starts = tf.pad(rises, [[0, 0], [1, 0]], constant_values=True)
    block = tf.cumsum(tf.reshape(tf.cast(starts, tf.int32), [-1])) - 1
    flat = tf.reshape(x, [-1])
    size = tf.size(flat)
    sums = tf.math.unsorted_segment_sum(flat, block, size)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(flat), block, size)
    means = sums / tf.maximum(counts, 1)
    return tf.reshape(tf.gather(means, block), tf.shape(x))


def _filled(y: tf.Tensor, size: masked.Size, top: tf.Tensor) -> tf.Tensor:
    """Returns rows of `size` numbers, padded with `top`."""
    spare = size - masked.list_size(y)
    if isinstance(spare, int) and spare == 0:
        return y
    return tf.pad(y, [[0, 0], [0, spare]], constant_values=top)


def _long_pieces(fitted: tf.Tensor, width: int, top: tf.Tensor) -> tf.Tensor:
    """Merges fitted pieces of `width` numbers repeatedly, until one is left.

    This is not a loop, as XLA needs to know the length of a piece.
    """
    size = masked.list_size(fitted)
    message = f"Rows of unknown size must have at most {_LONGEST} numbers."
    with tf.control_dependencies(
        [tf.debugging.assert_less_equal(size, _LONGEST, message)]
    ):
        fitted = tf.identity(fitted)
    half = width
    while half < _LONGEST:

        def merged(pieces: tf.Tensor = fitted, half: int = half) -> tf.Tensor:
            return _merge_padded(pieces, half, top)

        fitted = tf.cond(half < size, merged, lambda pieces=fitted: pieces)
        half *= 2
    return fitted


# A separate function, so that it is traced once for all lengths.
@tf.function(
    autograph=False,
    input_signature=[
        tf.TensorSpec([None, None], tf.float64),
        tf.TensorSpec([], tf.int32),
        tf.TensorSpec([], tf.float64),
    ],
)
def _merge_padded(fitted: tf.Tensor, half: tf.Tensor, top: tf.Tensor) -> tf.Tensor:
    size = masked.list_size(fitted)
    even = -(-size // (2 * half)) * 2 * half
    return _merge(_filled(fitted, even, top), half)[:, :size]


def _merge(fitted: tf.Tensor, half: masked.Size) -> tf.Tensor:
    """Merges neighbouring fitted pieces of `half` numbers."""
    left, right = _halves(fitted, half)
    below = tf.searchsorted(right, left)  # how many right numbers are below
    sums = tf.cumsum(right, axis=1)
    first = tf.range(tf.shape(left)[0])[:, tf.newaxis] * (half + 1)
    of_below = tf.gather(
        tf.reshape(tf.pad(sums, [[0, 0], [1, 0]]), [-1]), below + first
    )
    numbers = tf.cast(tf.range(1, half + 1), left.dtype)
    counts = tf.cast(half + 1 + below, left.dtype) - numbers
    excess = tf.cumsum(left, axis=1, reverse=True) + of_below - counts * left
    pooled = excess < 0
    count = tf.reduce_sum(tf.cast(pooled, left.dtype), axis=1, keepdims=True)
    total = tf.reduce_sum(
        tf.where(pooled, left, tf.zeros_like(left)), axis=1, keepdims=True
    )
    means = (total + sums) / (count + numbers)
    value = tf.reduce_min(means, axis=1, keepdims=True)
    return _pool(fitted, left, right, value)


def _short_pieces(y: tf.Tensor, width: int) -> tf.Tensor:
    """Fits pieces of `width` numbers.

    Means of the numbers themselves work as well as means of their fit, and one matrix
    product gives all that the merges need.
    """
    halves = [2**k for k in range(width.bit_length() - 1)]
    if not halves:
        return y
    means = tf.matmul(tf.reshape(y, [-1, width]), tf.constant(_averages(width)))
    parts = tf.split(means, [width // 2 * half for half in halves], axis=1)
    for half, part in zip(halves, parts):
        pairs = tf.reshape(part, [-1, half, half])
        value = tf.reduce_max(tf.reduce_min(pairs, axis=2), axis=1, keepdims=True)
        left, right = _halves(y, half)
        y = _pool(y, left, right, value)
    return y


@functools.lru_cache
def _averages(width: int) -> np.ndarray:
    """Returns columns that average numbers `i` to `j` across the halves of a piece."""
    columns = []
    half = 1
    while half < width:
        for middle in range(half, width, 2 * half):
            for i in range(middle - half, middle):
                for j in range(middle, middle + half):
                    column = np.zeros(width)
                    column[i : j + 1] = 1 / (j + 1 - i)
                    columns.append(column)
        half *= 2
    return np.stack(columns, axis=1)


def _halves(rows: tf.Tensor, half: masked.Size) -> list[tf.Tensor]:
    return tf.unstack(tf.reshape(rows, [-1, 2, half]), axis=1)


def _pool(
    rows: tf.Tensor, left: tf.Tensor, right: tf.Tensor, value: tf.Tensor
) -> tf.Tensor:
    """Pools the numbers above `value` on the left and below it on the right."""
    both = [tf.minimum(left, value), tf.maximum(right, value)]
    return tf.reshape(tf.stack(both, axis=1), tf.shape(rows))
