"""Hand-written gradients that raise an error if they are differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def differentiable_once(function: Callable) -> Callable[..., Any]:
    """Returns `tf.custom_gradient(function)` without wrong second derivatives.

    TensorFlow differentiates a hand-written gradient like any other computation, and so
    takes what this holds constant for constant. Here such a derivative is an error if
    it counts: where it is multiplied by 0, as that of an unused result of a
    `tf.function` is, it is 0. Compiled by XLA, which has no errors, it is NaN.

    Derivatives in the upstream gradient, which forward-mode differentiation takes, are
    right, as the gradient is linear in it.

    `function` takes tensors, and returns one tensor and its gradient function.
    """
    owner = ".".join(function.__qualname__.split(".<locals>")[0].split(".")[:2])
    message = (
        f"`{owner}` has no second derivatives: its gradient is written by hand, and "
        "takes something that depends on the inputs for constant."
    )

    @tf.custom_gradient
    def value(*inputs: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        fixed = [tf.stop_gradient(x) for x in inputs]
        result, gradient = function(*fixed)

        def slopes(upstream: tf.Tensor) -> list[tf.Tensor]:
            found = gradient(upstream)
            found = found if isinstance(found, Sequence) else [found]
            return [x + _underivable(x, inputs, message) for x in found]

        return result, slopes

    return value


def _underivable(
    like: tf.Tensor, inputs: Sequence[tf.Tensor], message: str
) -> tf.Tensor:
    """Returns zeros whose derivative in the inputs is an error."""

    @tf.custom_gradient
    def zeros(*inputs: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def refused(upstream: tf.Tensor) -> list[tf.Tensor]:
            counts = tf.reduce_any(tf.not_equal(upstream, 0))
            with tf.control_dependencies([tf.debugging.Assert(~counts, [message])]):
                derivative = tf.where(counts, float("nan"), 0.0)
            return [tf.fill(tf.shape(x), tf.cast(derivative, x.dtype)) for x in inputs]

        return tf.zeros_like(like), refused

    return zeros(*inputs)
