r"""Entropic optimal transport between distributions over a list, in the log domain.

Sinkhorn's iteration for marginals `target` and `prediction` and a symmetric kernel
`M = exp(-cost / regularization)` is

$$
v = \frac{\mathrm{target}}{M u}, \qquad u = \frac{\mathrm{prediction}}{M v}
$$

(Cuturi, "Sinkhorn Distances", NeurIPS 2013; Yu et al., "WassRank", WSDM 2019,
Algorithm 1). `tfr_ext.transport.labels_to_scores` has WassRank's cost and its fast
kernel, `tfr_ext.transport.items_to_ranks` the transport of scores to ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfr_ext.core import masked

# Log of nothing. Finite, so that differences of two are no NaN.
NOTHING = -1e37


class Potentials(NamedTuple):
    """Result of Sinkhorn's iteration, `[batch, list]` each, 0 at padding.

    Attributes:
        log_u: log of the scaling of the prediction.
        log_v: log of the scaling of the target.
    """

    log_u: tf.Tensor
    log_v: tf.Tensor


def sinkhorn(
    log_target: tf.Tensor,
    log_prediction: tf.Tensor,
    log_product: Callable[[tf.Tensor], tf.Tensor],
    mask: tf.Tensor,
    num_iterations: int,
) -> Potentials:
    """Runs Sinkhorn's iteration in the log domain, for any symmetric kernel.

    Args:
        log_target: log of a distribution over the real items, `[batch, list]`.
        log_prediction: another, likewise.
        log_product: takes `log x` and returns `log(M x)`, both `[batch, list]`.
        mask: True at real items, `[batch, list]`.
        num_iterations: how many times both scalings are updated, at least 1.

    Returns:
        The potentials. No gradient passes.
    """
    count = masked.num_real(mask, log_target.dtype)[:, tf.newaxis]
    initial = tf.where(mask, -tf.math.log(count), NOTHING)
    log_u, log_v, _ = iterate(
        lambda log_u: tf.where(mask, log_target - log_product(log_u), NOTHING),
        lambda log_v: tf.where(mask, log_prediction - log_product(log_v), NOTHING),
        initial,
        initial,
        num_iterations,
    )
    return Potentials(*(tf.where(mask, x, 0) for x in (log_u, log_v)))


def iterate(
    next_v: Callable[[tf.Tensor], tf.Tensor],
    next_u: Callable[[tf.Tensor], tf.Tensor],
    u: tf.Tensor,
    v: tf.Tensor,
    num_iterations: int,
    traced: bool = False,
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Updates both scalings in turn, whatever they are: numbers or their logarithms.

    Args:
        next_v: takes `u`, returns the scaling of the target.
        next_u: takes that, returns the scaling of the prediction.
        u: the scaling of the prediction to begin with.
        v: any tensor like the scaling of the target.
        num_iterations: how many times both are updated, at least 1.
        traced: whether all scalings are kept.

    Returns:
        The last scalings of the prediction and of the target; and, if traced, `u`
        before each iteration and the scaling of the target after it,
        `[iterations, batch, list]` both.
    """
    shapes = u.shape, v.shape
    arrays = [
        tf.TensorArray(x.dtype, num_iterations, element_shape=x.shape)
        for x in ((u, v) if traced else ())
    ]

    def step(
        i: tf.Tensor, u: tf.Tensor, _: tf.Tensor, *arrays: tf.TensorArray
    ) -> tuple:
        v = next_v(u)
        kept = [array.write(i, x) for array, x in zip(arrays, (u, v))]
        # Some operations forget that there is no list, which a loop may not.
        last = (tf.ensure_shape(x, s) for x, s in zip((next_u(v), v), shapes))
        return i + 1, *last, *kept

    _, u, v, *arrays = tf.while_loop(
        lambda i, *_: i < num_iterations,
        step,
        (0, u, v, *arrays),
        maximum_iterations=num_iterations,
    )
    return u, v, [array.stack() for array in arrays]


def log_softmax(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the log of the softmax over the real items, 0 at padding.

    Args:
        x: float tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
    """
    x = tf.where(mask, x, x.dtype.min)
    x -= tf.reduce_max(x, axis=1, keepdims=True)
    # No reduce_logsumexp, which would look for the maximum again.
    total = tf.reduce_sum(tf.exp(x), axis=1, keepdims=True)
    return tf.where(mask, x - tf.math.log(total), 0)


class Distribution(NamedTuple):
    """A distribution over the real items of lists, `[batch, list]`.

    Attributes:
        mass: non-negative, sums to 1, 0 at padding.
        log: its logarithm, also where the mass underflows; anything at padding.
    """

    mass: tf.Tensor
    log: tf.Tensor


def softmax(x: tf.Tensor, mask: tf.Tensor) -> Distribution:
    """Returns the softmax over the real items. A list without any gets no mass.

    Args:
        x: float tensor of shape `[batch, list]`, finite at padding too.
        mask: bool tensor of the same shape, True at real items.
    """
    real = tf.cast(mask, x.dtype)
    # Sums and products, as TensorFlow's `where` takes five times as long.
    x -= tf.reduce_max(x + (real - 1) * x.dtype.max, axis=1, keepdims=True)
    mass = tf.math.multiply_no_nan(tf.exp(x), real)
    total = tf.reduce_sum(mass, axis=1, keepdims=True)
    share = tf.math.divide_no_nan(tf.ones_like(total), total)
    return Distribution(mass * share, x - tf.math.log(total))


def log_add(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Returns `log(exp(x) + exp(y))`."""
    most = tf.maximum(x, y)
    return most + tf.math.log1p(tf.exp(-tf.abs(x - y)))
