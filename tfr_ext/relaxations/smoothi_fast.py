r"""The fast form of SmoothI: expectations at each rank, with hand-written gradients.

See `tfr_ext.relaxations.smoothi` for the definition. Two facts make it fast:

*   With the paper's stop-gradient, the product is constant in the backward pass, so an
    expectation `E_r = sum_j I_j^r v_j` has the gradient `alpha * q_j^r * I_j^r *
    (v_j - E_r)` in `S_j` with `q` the product, which is known from the forward pass.
*   `|q|` is at most `(1 - delta)**(r - 1)`, so `x = alpha * S * q` falls with the rank.
    Once `x**2` is below the rounding of the dtype, the softmax is linear to rounding,
    `I = (1 + x - mean(x)) / n` over the n real items, and `q` loses the factor
    `c = 1 - delta - 1 / n` with each rank. Of the rows from there on, `k = 0, 1, ...`,
    the expectation is `mean(v) + c**k * cov(x, v)`, and their gradients are a geometric
    series. Without a cut-off, time and memory are those of
    `O(log(alpha * max(S)) / delta)` rows, not of one row per item.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import masked

# The highest logit of a real item, so far below infinity that products stay finite.
MAX_LOGIT = 1e30
# The exponentials of logits up to this have a finite sum in float32, even without
# subtracting the maximum.
_PLAIN_EXP_LIMIT = 60.0
# Adjoints of the full recursion can grow without bound; they are kept finite.
_MAX_ADJOINT = 1e18
# Up to this many ranks are computed one by one; see `_few_rows`.
FEW_ROWS = 16
# Number of ranks computed per iteration of a loop, which amortises the cost of the
# loop: at most this many if the number of ranks is static, and exactly this many if
# not.
_STATIC_CHUNK = 40
_DYNAMIC_CHUNK = 8


def indicators(
    logits: tf.Tensor, keep: tf.Tensor, rows: masked.Size, stop_gradient: bool
) -> tf.Tensor:
    """Returns rank indicators, `[batch, rows, list]`.

    Args:
        logits: logits of rank 1, see `tfr_ext.relaxations.smoothi`, `[batch, list]`.
        keep: the factor of an item that gets no mass, `[batch, list]`.
        rows: number of ranks.
        stop_gradient: whether the products are constant in the backward pass.
    """

    @tf.custom_gradient
    def of_logits(logits: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        products, outputs = _indicator_rows(logits, keep, rows)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            upstream = tf.transpose(upstream, [1, 0, 2])
            if stop_gradient:
                return tf.reduce_sum(
                    products * _softmax_adjoint(outputs, upstream), axis=0
                )
            return _full_adjoint(logits, keep, products, outputs, upstream)

        return tf.transpose(outputs, [1, 0, 2]), gradient

    return of_logits(logits)


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
    if isinstance(rows, int) and rows <= FEW_ROWS:
        return tf.custom_gradient(lambda x: _few_rows(x, keep, values, rows))(logits)
    # How many rows are not linear is known without the scores, so that XLA knows it.
    most = math.ceil(_rows_above_rounding(math.log(MAX_LOGIT), logits.dtype, delta))
    some = min(rows, most) if isinstance(rows, int) else tf.minimum(rows, most)
    real = tf.cast(mask, logits.dtype)

    @tf.custom_gradient
    def of_logits(logits: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        done, product, expected, weights = _expectation_rows(
            logits, keep, values, some, _informative_rows(logits, delta, some)
        )
        if isinstance(rows, int) and rows <= _STATIC_CHUNK:
            return expected[:, :rows], lambda upstream: _row_gradient(
                values, upstream, expected, weights
            )
        powers, later, share = _linear_rows(
            logits * product, real, values, delta, tf.range(rows) - done
        )
        spare = tf.maximum(rows - tf.shape(expected)[1], 0)
        padded = tf.pad(expected, [[0, 0], [0, spare]])[:, :rows]
        is_row = tf.range(rows)[tf.newaxis, :] < done
        expected = tf.where(is_row, padded, later)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            zero = tf.zeros([], logits.dtype)
            rest = tf.where(is_row, zero, upstream * powers)
            sums = tf.reduce_sum(tf.stack([rest, rest * later], axis=1), axis=2)
            linear = share * product * (values * sums[:, :1] - sums[:, 1:])
            return linear + _row_gradient(
                values, tf.where(is_row, upstream, zero), expected, weights
            )

        return expected, gradient

    return of_logits(logits)


def _few_rows(
    logits: tf.Tensor, keep: tf.Tensor, values: tf.Tensor, rows: int
) -> tuple[tf.Tensor, Callable]:
    """Returns the expected values at a few ranks, and their gradient."""
    _, sums, weights = _rows(tf.ones_like(logits), rows, logits, keep, values, _softmax)
    expected = tf.concat(sums, axis=1)

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        plain, scaled = (
            tf.add_n([part * w for part, w in zip(tf.split(x, rows, axis=1), weights)])
            for x in (upstream, upstream * expected)
        )
        return values * plain - scaled

    return expected, gradient


def _rows(
    product: tf.Tensor,
    count: int,
    logits: tf.Tensor,
    keep: tf.Tensor,
    values: tf.Tensor,
    softmax: Callable[[tf.Tensor], tf.Tensor],
) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
    """Runs the recursion for some rows.

    On a CPU, many small operations cost less than a few that copy the rows, or wake all
    threads.

    Returns:
        The product after them; and of each row the expectation, `[batch, 1]`, and
        `product * indicator`, `[batch, list]`.
    """
    sums, weights = [], []
    for _ in range(count):
        indicator = softmax(logits * product)
        sums.append(tf.reduce_sum(indicator * values, axis=1, keepdims=True))
        weights.append(indicator * product)
        product *= keep - indicator
    return product, sums, weights


def _row_gradient(
    values: tf.Tensor, upstream: tf.Tensor, expected: tf.Tensor, weights: tf.Tensor
) -> tf.Tensor:
    """Returns `sum_r g_r w_rj (v_j - E_r)`, both terms in one matrix product.

    Args:
        values: `v`, `[batch, list]`.
        upstream: `g`, `[batch, rows]`.
        expected: `E`, of at least as many rows.
        weights: `w`, `[chunks, batch, chunk, list]`; more rows than these have no `g`.
    """
    chunks, chunk = tf.shape(weights)[0], tf.shape(weights)[2]
    expected = expected[:, : tf.shape(upstream)[1]]
    factors = tf.stack([upstream, upstream * expected], axis=1)
    spare = tf.maximum(chunks * chunk - tf.shape(upstream)[1], 0)
    factors = tf.pad(factors, [[0, 0], [0, 0], [0, spare]])[:, :, : chunks * chunk]
    factors = tf.transpose(tf.reshape(factors, [-1, 2, chunks, chunk]), [2, 0, 1, 3])
    sums = tf.reduce_sum(tf.matmul(factors, weights), axis=0)
    return values * sums[:, 0, :] - sums[:, 1, :]


def _linear_rows(
    x: tf.Tensor, real: tf.Tensor, values: tf.Tensor, delta: float, ranks: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the rows whose softmax is linear.

    Args:
        x: logits of the first of these rows, `[batch, list]`.
        real: 1 at real items, 0 at padding.
        values: 0 at padding.
        delta: how much mass is taken from items already ranked.
        ranks: number of each row, 0 for the first; negative ones have no meaning.

    Returns:
        What the product has lost until each row, `[batch, ranks]`; the expectation
        there; and the share of an item, `[batch, list]`.
    """
    share = tf.math.divide_no_nan(real, tf.reduce_sum(real, axis=1, keepdims=True))
    x = tf.where(real > 0, x, 0)
    x -= tf.reduce_sum(share * x, axis=1, keepdims=True)
    mean = tf.reduce_sum(share * values, axis=1, keepdims=True)
    slope = tf.reduce_sum(share * x * values, axis=1, keepdims=True)
    lost = 1 - delta - tf.reduce_max(share, axis=1, keepdims=True)
    powers = tf.pow(lost, tf.cast(tf.maximum(ranks, 0), x.dtype)[tf.newaxis, :])
    return powers, mean + powers * slope, share


def _informative_rows(logits: tf.Tensor, delta: float, rows: masked.Size) -> tf.Tensor:
    """Returns how many rows are not linear to rounding.

    Both the logits (for the value) and the product alone (for the gradient) count.
    """
    largest = tf.math.log(tf.maximum(tf.reduce_max(logits), 1.0))
    informative = _rows_above_rounding(largest, logits.dtype, delta)
    most = tf.cast(rows, informative.dtype)
    # NaN compares as false, so all rows are computed and show it.
    fewer = tf.math.ceil(tf.where(informative < most, informative, most))
    return tf.cast(fewer, tf.int32)


def _rows_above_rounding(
    largest: float | tf.Tensor, dtype: tf.DType, delta: float
) -> Any:
    """Returns after how many rows the squares of logits are below rounding.

    Args:
        largest: the logarithm of the largest logit.
        dtype: what they are rounded to.
        delta: how much mass is taken from items already ranked.
    """
    resolution = float(np.finfo(dtype.as_numpy_dtype).eps) / 8
    return (largest - math.log(resolution) / 2) / -math.log1p(-delta) + 1


def _softmax(logits: tf.Tensor, subtract_max: bool = True) -> tf.Tensor:
    # Several times as fast as tf.nn.softmax on a CPU at these sizes.
    if subtract_max:
        logits -= tf.reduce_max(logits, axis=-1, keepdims=True)
    exponentials = tf.exp(logits)
    return exponentials * (1 / tf.reduce_sum(exponentials, axis=-1, keepdims=True))


def _with_cheapest_softmax(
    logits: tf.Tensor, run: Callable[[Callable[[tf.Tensor], tf.Tensor]], tuple]
) -> tuple:
    """Calls `run` with a softmax that subtracts the maximum only if it must."""
    return tf.cond(
        tf.reduce_max(logits) < _PLAIN_EXP_LIMIT,
        lambda: run(lambda x: _softmax(x, subtract_max=False)),
        lambda: run(lambda x: _softmax(x, subtract_max=True)),
    )


def _expectation_rows(
    logits: tf.Tensor,
    keep: tf.Tensor,
    values: tf.Tensor,
    rows: masked.Size,
    informative: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Runs the recursion, and keeps what the value and gradient of expectations need.

    Returns:
        The number of rows that were computed, at least as many as are informative; the
        product after them; their expectations, `[batch, chunks * chunk]`; and
        `product * indicator` of each rank and item, `[chunks, batch, chunk, list]`.
    """
    static = isinstance(rows, int)
    if static:
        chunks = max(1, -(-rows // _STATIC_CHUNK))
        chunk = max(1, -(-rows // chunks))
    else:
        chunk = _DYNAMIC_CHUNK
        chunks = -(-rows // chunk)

    def run(softmax: Callable[[tf.Tensor], tf.Tensor]) -> tuple:
        def step(i, product, expected, weights):  # noqa: ANN001
            product, sums, found = _rows(product, chunk, logits, keep, values, softmax)
            return (
                i + 1,
                product,
                expected.write(i, tf.concat(sums, axis=1)),
                weights.write(i, tf.stack(found, axis=1)),
            )

        batch, items = logits.shape
        expected = tf.TensorArray(
            logits.dtype, size=chunks, element_shape=[batch, chunk]
        )
        weights = tf.TensorArray(
            logits.dtype, size=chunks, element_shape=[batch, chunk, items]
        )
        state = (0, tf.ones_like(logits), expected, weights)
        if static and chunks == 1:
            state = step(*state)
        else:
            state = tf.while_loop(
                lambda i, *_: (i < chunks) & (i * chunk < informative),
                step,
                state,
                maximum_iterations=chunks,
            )
        return state[0], state[1], state[2].stack(), state[3].stack()

    steps, product, expected, weights = _with_cheapest_softmax(logits, run)
    batch = tf.shape(logits)[0]
    expected = tf.reshape(tf.transpose(expected, [1, 0, 2]), [batch, chunks * chunk])
    return steps * chunk, product, expected, weights


def _indicator_rows(
    logits: tf.Tensor, keep: tf.Tensor, rows: masked.Size
) -> tuple[tf.Tensor, tf.Tensor]:
    """Runs the recursion, and keeps all rows.

    Returns:
        Products and indicators of each rank, both `[rows, batch, list]`.
    """

    def step(r, product, products, outputs):  # noqa: ANN001
        indicator = _softmax(logits * product, subtract_max=True)
        return (
            r + 1,
            product * (keep - indicator),
            products.write(r, product),
            outputs.write(r, indicator),
        )

    arrays = [
        tf.TensorArray(logits.dtype, size=rows, element_shape=logits.shape)
        for _ in range(2)
    ]
    _, _, products, outputs = tf.while_loop(
        lambda r, *_: r < rows,
        step,
        (0, tf.ones_like(logits), *arrays),
        maximum_iterations=rows,
    )
    return products.stack(), outputs.stack()


def _softmax_adjoint(outputs: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
    """Pulls the adjoint of a softmax's output back to its input."""
    mean = tf.reduce_sum(outputs * upstream, axis=-1, keepdims=True)
    return outputs * (upstream - mean)


def _full_adjoint(
    logits: tf.Tensor,
    keep: tf.Tensor,
    products: tf.Tensor,
    outputs: tf.Tensor,
    upstream: tf.Tensor,
) -> tf.Tensor:
    """Pulls the adjoint of all rows back through the recursion, last row first."""

    def finite(x: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(x, -_MAX_ADJOINT, _MAX_ADJOINT)

    def step(r, later, total):  # noqa: ANN001
        # `later` is the adjoint of the product that row r passes on.
        product, indicator = products[r], outputs[r]
        local = finite(_softmax_adjoint(indicator, upstream[r] - later * product))
        later = finite(local * logits) + later * (keep - indicator)
        return r - 1, later, total + local * product

    rows = tf.shape(outputs)[0]
    zeros = tf.zeros_like(logits)
    return tf.while_loop(
        lambda r, *_: r >= 0,
        step,
        (rows - 1, zeros, zeros),
        maximum_iterations=rows,
    )[2]
