r"""The fast form of SmoothI: expectations at each rank, with hand-written gradients.

See `tfr_ext.relaxations.smoothi` for the definition. Two facts make it fast:

*   With the paper's stop-gradient, the product is constant in the backward pass, so an
    expectation `E_r = sum_j I_j^r v_j` has the gradient `alpha * q_j^r * I_j^r *
    (v_j - E_r)` in `S_j` with `q` the product, which is known from the forward pass.
    The difference is taken rank by rank: where `I = 1` it is 0, but that of two rounded
    sums over the ranks is not.
*   `|q|` is at most `(1 - delta)**(r - 1)`, so `x = alpha * S * q` falls with the rank,
    and the indicators approach `1 / n` over the n real items. There the recursion
    multiplies all of `q` by `c = 1 - delta - 1 / n`, so that (as near any attracting
    fixed point) what is `k` ranks further on is an analytic function of `z = c**k`. It
    is known at `z = 0`, the limit, and at the ranks before. Once `x` is small,
    polynomial interpolation between these gives all later rows to rounding, see
    `_later_rows`. Without a cut-off, time and memory are those of
    `O(log(alpha * max(S)) / delta)` rows, not of one row per item.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import masked
from tfr_ext.core.derivatives import differentiable_once

# The highest logit of a real item, so far below infinity that products stay finite.
MAX_LOGIT = 1e30
# Up to this many ranks are computed one by one; see `_few_rows`.
FEW_ROWS = 16
# From how many rows the later ones are interpolated, and how much smaller x is from one
# of these to the next.
_NODES = 7
_NODE_RATIO = 1.42
# The most ranks between two of them. No list is as long, but a tiny delta asks for it.
_FARTHEST = 1e8
# Number of ranks computed in one iteration of a loop, which amortises its cost.
_CHUNK = 8


def expectation(
    logits: tf.Tensor,
    keep: tf.Tensor,
    mask: tf.Tensor,
    values: tf.Tensor,
    rows: masked.Size,
    delta: float,
) -> tf.Tensor:
    """Returns the expected value at each rank, with the stop-gradient.

    Args:
        logits: logits of rank 1, see `tfr_ext.relaxations.smoothi`, `[batch, list]`.
        keep: the factor of an item that gets no mass, `[batch, list]`.
        mask: True at real items, `[batch, list]`.
        values: constant in the backward pass, 0 at padding, `[batch, list]`.
        rows: number of ranks.
        delta: how much mass is taken from items already ranked.

    Returns:
        A tensor of shape `[batch, rows]`.
    """
    if isinstance(rows, int) and 0 < rows <= FEW_ROWS:
        return differentiable_once(lambda x: _few_rows(x, keep, values, rows))(logits)
    # How many rows are computed at most is known without the scores, so that XLA knows
    # it.
    most = _rows_to_compute(math.log(MAX_LOGIT), logits.dtype, delta)
    some = masked.minimum(rows, math.ceil(min(most, tf.int32.max)))
    real = tf.cast(mask, logits.dtype)

    @differentiable_once
    def of_logits(logits: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        done, computed, slopes = _expectation_rows(logits, keep, values, some, delta)
        is_later = tf.cast(tf.range(rows) >= done, logits.dtype)
        mean = _mean(values, real)

        def interpolated() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            nodes, factors = _later_rows(real, delta, done, is_later)
            at_nodes = tf.transpose(tf.gather(computed - mean, nodes, axis=1))
            found = tf.reduce_sum(factors * at_nodes[:, :, tf.newaxis], axis=0)
            return nodes, factors, found + mean * is_later

        def none() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            zeros = tf.zeros([_NODES, tf.shape(logits)[0], rows], logits.dtype)
            return tf.zeros([_NODES], tf.int32), zeros, zeros[0]

        nodes, factors, later = tf.cond(done < rows, interpolated, none)
        spare = tf.maximum(rows - tf.shape(computed)[1], 0)
        expected = tf.pad(computed, [[0, 0], [0, spare]])[:, :rows] + later

        def onto_computed(x: tf.Tensor) -> tf.Tensor:
            """Moves adjoints of later rows to the rows they are interpolated from."""
            at_rows = tf.one_hot(nodes, rows, dtype=x.dtype)
            of_nodes = tf.reduce_sum(factors * x, axis=2)
            moved = tf.matmul(of_nodes, at_rows, transpose_a=True)
            return moved + x * (1 - is_later)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            adjoints = tf.cond(
                done < rows, lambda: onto_computed(upstream), lambda: upstream
            )
            return _row_sum(adjoints, slopes, done)

        return expected, gradient

    return of_logits(logits)


def _few_rows(
    logits: tf.Tensor, keep: tf.Tensor, values: tf.Tensor, rows: int
) -> tuple[tf.Tensor, Callable]:
    """Returns the expected values at a few ranks, and their gradient."""
    ones = tf.ones_like(logits)
    _, expected, slopes = _rows(ones, rows, logits, keep, values, softmax)

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        parts = zip(tf.split(upstream, rows, axis=1), slopes)
        return tf.add_n([part * slope for part, slope in parts])

    return tf.concat(expected, axis=1), gradient


def _rows(
    product: tf.Tensor,
    count: int,
    logits: tf.Tensor,
    keep: tf.Tensor,
    values: tf.Tensor,
    softmax: Callable[[tf.Tensor], tf.Tensor],
) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
    """Runs the recursion for `count` rows, from `product` on.

    On a CPU, many small operations cost less than a few that copy the rows, or wake all
    threads. Returns the product after them; and of each row the expectation,
    `[batch, 1]`, and its derivative in the logits of rank 1, `[batch, list]`.
    """
    expected, slopes = [], []
    for _ in range(count):
        indicator = softmax(logits * product)
        expected.append(tf.reduce_sum(indicator * values, axis=1, keepdims=True))
        slopes.append(indicator * product * (values - expected[-1]))
        product *= keep - indicator
    return product, expected, slopes


def _row_sum(adjoints: tf.Tensor, slopes: tf.TensorArray, done: tf.Tensor) -> tf.Tensor:
    """Returns `sum_r adjoints_r slopes_rj`, `[batch, list]`, of `done` rows."""
    spare = tf.maximum(slopes.size() - tf.shape(adjoints)[1], 0)
    adjoints = tf.pad(adjoints, [[0, 0], [0, spare]])

    def step(first, total):  # noqa: ANN001
        part = tf.slice(adjoints, [0, first], [tf.shape(adjoints)[0], _CHUNK])
        parts = enumerate(tf.split(part, _CHUNK, axis=1))
        terms = (p * slopes.read(first + k) for k, p in parts)
        return first + _CHUNK, tf.add_n([total, *terms])

    return tf.while_loop(
        lambda first, _: first < done,
        step,
        (0, tf.zeros_like(slopes.read(0))),
        maximum_iterations=-(-slopes.size() // _CHUNK),
    )[1]


def _mean(values: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
    """Returns the mean of the real items, `[batch, 1]`."""
    return tf.math.divide_no_nan(
        tf.reduce_sum(values, axis=1, keepdims=True),
        tf.reduce_sum(real, axis=1, keepdims=True),
    )


def _later_rows(
    real: tf.Tensor, delta: float, done: tf.Tensor, is_later: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how later rows are interpolated from the computed ones.

    Let `z` be 1 at the last computed row. What falls to 0 with `z` is at a later row
    the sum of that at the nodes, multiplied by the basis polynomials of Lagrange's
    interpolation at the nodes and 0.

    Returns:
        The index of the row of each node, `[nodes]`, and the factors, 0 at computed
        rows, `[nodes, batch, ranks]`.
    """
    distance = _node_distance(delta)
    before = distance * tf.range(_NODES)
    # Shorter lists have no later rows, but need finite factors.
    count = tf.maximum(
        tf.reduce_sum(real, axis=1, keepdims=True), distance * (_NODES - 1.0) + 1
    )
    log_lost = tf.math.log1p(-delta - 1 / count)
    after = tf.cast(tf.range(tf.shape(is_later)[0]) - (done - 1), real.dtype)
    z = is_later * tf.exp(log_lost * tf.maximum(after, 1))
    at_nodes = tf.exp(
        -tf.transpose(log_lost) * tf.cast(before, real.dtype)[:, tf.newaxis]
    )
    others = at_nodes[:, tf.newaxis] - at_nodes
    others += tf.eye(_NODES, dtype=real.dtype)[:, :, tf.newaxis]
    scale = 1 / (at_nodes * tf.reduce_prod(others, axis=1))
    gaps = z - at_nodes[:, :, tf.newaxis]
    factors = z * tf.reduce_prod(gaps, axis=0) * scale[:, :, tf.newaxis] / gaps
    return tf.maximum(done - 1 - before, 0), factors


def _node_distance(delta: float) -> int:
    """Returns how many ranks lie between two nodes."""
    distance = math.log(_NODE_RATIO) / -math.log1p(-delta)
    return max(1, round(min(distance, _FARTHEST)))


def _rows_to_compute(largest: float | tf.Tensor, dtype: tf.DType, delta: float) -> Any:
    """Returns from how many rows the later ones can be interpolated.

    Both the logits (for the value) and the product alone (for the gradient) count.
    """
    distance = _node_distance(delta)
    # The error of the interpolation is about (x / 1.25)**(nodes + 1), and more if the
    # nodes are further apart, as their basis polynomials are larger.
    order = _NODES + 1
    small = 1.25 * float(np.finfo(dtype.as_numpy_dtype).eps) ** (1 / order)
    wider = (1 - delta) ** -distance / _NODE_RATIO
    small /= max(1.0, wider) ** (_NODES * (_NODES - 1) / 2 / order)
    nodes = (_NODES - 1) * distance + 1
    highest = tf.maximum if tf.is_tensor(largest) else max
    rows = _rows_above(math.log(small), highest(largest, 0.0), delta)
    return highest(rows, nodes)


def _rows_above(level: Any, largest: float | tf.Tensor, delta: float) -> Any:
    """Returns after how many rows the log of the logits is at most `level`."""
    return (largest - level) / -math.log1p(-delta) + 1


def _whole_rows(number: tf.Tensor, most: masked.Size) -> tf.Tensor:
    """Returns a number of rows, rounded up, and `most` if it is more or NaN."""
    most = tf.cast(most, number.dtype)
    # NaN compares as false, so all rows are computed and show it.
    return tf.cast(tf.math.ceil(tf.where(number < most, number, most)), tf.int32)


def softmax(logits: tf.Tensor, subtract_max: bool = True) -> tf.Tensor:
    """Returns the softmax over the last dimension.

    Several times as fast as tf.nn.softmax on a CPU at the sizes of lists.

    Args:
        logits: any logits.
        subtract_max: whether to subtract the maximum, which keeps large ones finite.
    """
    if subtract_max:
        logits -= tf.reduce_max(logits, axis=-1, keepdims=True)
    exponentials = tf.exp(logits)
    # Not multiplied by the reciprocal, which is rounded: an item far above all others
    # has exactly 1.
    return exponentials / tf.reduce_sum(exponentials, axis=-1, keepdims=True)


def _expectation_rows(
    logits: tf.Tensor,
    keep: tf.Tensor,
    values: tf.Tensor,
    rows: masked.Size,
    delta: float,
) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
    """Runs the recursion, and keeps what the value and gradient of expectations need.

    Returns:
        The number of rows that were computed, at least as many as are needed; their
        expectations, `[batch, chunks * chunk]`, 0 at other rows; and the slopes of each
        row, see `_rows`, `[batch, list]`.
    """
    batch, items = logits.shape
    # A list without items has no rows, but the arrays need one to know their shape.
    rows = masked.maximum(rows, 1)
    chunks = -(-rows // _CHUNK)
    expected = tf.TensorArray(logits.dtype, size=chunks, element_shape=[batch, _CHUNK])
    slopes = tf.TensorArray(
        logits.dtype,
        size=chunks * _CHUNK,
        element_shape=[batch, items],
        clear_after_read=False,
    )

    def until(rows: tf.Tensor, subtract_max: bool, *state: Any) -> tuple:
        scaled = functools.partial(softmax, subtract_max=subtract_max)

        def step(i, product, expected, slopes):  # noqa: ANN001
            product, sums, found = _rows(product, _CHUNK, logits, keep, values, scaled)
            for k, row in enumerate(found):
                slopes = slopes.write(i * _CHUNK + k, row)
            return i + 1, product, expected.write(i, tf.concat(sums, axis=1)), slopes

        return tf.while_loop(
            lambda i, *_: (i < chunks) & (i * _CHUNK < rows),
            step,
            state,
            maximum_iterations=chunks,
        )

    # Logits up to this have exponentials whose sum and its reciprocal are finite, even
    # without subtracting the maximum.
    items_log = tf.math.log(tf.cast(tf.shape(logits)[1], logits.dtype))
    plain = math.log(logits.dtype.max) - 2 - items_log
    largest = tf.math.log(tf.reduce_max(logits))
    steep = _whole_rows(_rows_above(tf.math.log(plain), largest, delta), rows)
    needed = _whole_rows(_rows_to_compute(largest, logits.dtype, delta), rows)
    state = until(steep, True, 0, tf.ones_like(logits), expected, slopes)
    steps, _, found, slopes = until(needed, False, *state)
    # [chunks, batch, chunk] to [batch, chunks * chunk]. On some CPUs, transposing that
    # little takes as long as fifty other operations.
    lists = tf.shape(logits)[0]
    rows_of_lists = tf.range(lists)[:, tf.newaxis] + tf.range(chunks) * lists
    found = tf.gather(tf.reshape(found.stack(), [-1, _CHUNK]), rows_of_lists)
    found = tf.reshape(found, [lists, chunks * _CHUNK])
    return steps * _CHUNK, found, slopes
