"""Batch normalisation that ignores padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core import which_keras

# Options of Keras' own batch normalisation that this one does not support.
_WITHOUT = ("renorm", "virtual_batch_size", "adjustment")


@which_keras.register
class ItemBatchNormalization(tf.keras.layers.BatchNormalization):
    """Batch normalisation over the real items of all replicas.

    Keras' own synchronised form computes the variance as the difference of two means,
    which rounding can make negative for large values. Here, as in its form for a single
    replica, the variance is the mean of squared differences. Mean and variance are
    computed in float32.

    With `parts=True`, it returns the centred items, and the scale and shift of each
    feature, which a `NormalizedDense` layer takes.
    """

    def __init__(self, *args: Any, parts: bool = False, **kwargs: Any):
        """Initialises the layer.

        Args:
            *args: arguments of `tf.keras.layers.BatchNormalization`.
            parts: whether to leave the last pass over the items, `centred * scale +
                shift`, to the next layer.
            **kwargs: its keyword arguments.

        Raises:
            ValueError: If one of them is an option that this layer does not support.
        """
        for name in _WITHOUT:
            if kwargs.get(name):
                raise ValueError(
                    f"`{name}` is not supported here. Received: {kwargs[name]!r}."
                )
        super().__init__(*args, **kwargs)
        self._parts = parts

    def build(self, input_shape: Any) -> None:
        """Creates the weights.

        Raises:
            ValueError: If the axis to normalise is not the last one.
        """
        super().build(input_shape)
        axes = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        if [axis % len(input_shape) for axis in axes] != [len(input_shape) - 1]:
            raise ValueError(f"`axis` must be the last axis. Received: {self.axis}.")

    def add_weight(self, *args: Any, **kwargs: Any) -> tf.Variable:
        """Adds a weight; moving statistics are the same on all replicas."""
        if not which_keras.IS_KERAS_2 and not kwargs.get("trainable", True):
            # All replicas set the moving statistics to the same value, which Keras 3
            # must be told.
            kwargs["aggregation"] = "mean"
        return super().add_weight(*args, **kwargs)

    @which_keras.not_converted
    def call(
        self,
        inputs: tf.Tensor,
        training: Any = None,
        mask: tf.Tensor | None = None,
    ) -> Any:
        """Normalises the items.

        Args:
            inputs: items, `[items, features]`.
            training: whether to use the statistics of these items.
            mask: True at real items, `[items]`; by default all items are real.

        Returns:
            The normalised items; with `parts`, the centred items `[items, features]`,
            and their scale and shift, both `[features]`.
        """
        is_half = inputs.dtype in (tf.float16, tf.bfloat16)
        x = tf.cast(inputs, tf.float32) if is_half else inputs
        statistics: Sequence[Any] = (self.moving_mean, self.moving_variance)
        if training and self.trainable:
            is_plain = mask is None and x.shape.rank == 2 and self.center and self.scale
            if is_plain and _several_replicas() is None:
                wide = tf.cast(x, tf.float32)
                normalize = _in_parts if self._parts else _normalized
                *outputs, mean, variance = normalize(
                    wide, self.gamma, self.beta, self.epsilon
                )
                self._move((mean, variance), tf.size(x) > 0)
                outputs = [tf.cast(output, inputs.dtype) for output in outputs]
                return outputs if self._parts else outputs[0]
            *found, count = _moments(x, mask)
            statistics = self._move(found, count > 0)
        mean, variance = (tf.cast(value, x.dtype) for value in statistics)
        if self._parts:
            scale = tf.math.rsqrt(variance + self.epsilon)
            parts = (
                x - mean,
                scale * self.gamma if self.scale else scale,
                self.beta if self.center else tf.zeros_like(scale),
            )
            return [tf.cast(part, inputs.dtype) for part in parts]
        outputs = tf.nn.batch_normalization(
            x, mean, variance, self.beta, self.gamma, self.epsilon
        )
        return tf.cast(outputs, inputs.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the items or, with `parts`, of all three outputs."""
        width = tuple(input_shape)[-1:]
        return [input_shape, width, width] if self._parts else input_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        config = super().get_config()
        return {**config, "parts": True} if self._parts else config

    def _move(self, found: Sequence[tf.Tensor], some: tf.Tensor) -> list[tf.Tensor]:
        """Updates the moving statistics; returns those to use, even without items."""
        values = []
        for moving, now in zip((self.moving_mean, self.moving_variance), found):
            before = tf.convert_to_tensor(moving)
            values.append(tf.where(some, tf.cast(now, before.dtype), before))
            change = (before - tf.stop_gradient(values[-1])) * (1.0 - self.momentum)
            moving.assign_sub(change)
        return values


@which_keras.register
class NormalizedDense(tf.keras.layers.Dense):
    """A dense layer of items that `ItemBatchNormalization` left in parts.

    Scale and shift go into the kernel and the bias, so that the items are passed over
    less often. In training, the gradient for the scale comes from that of the kernel:
    if nothing before the normalisation is trained, as at the inputs of a network, no
    gradient of the items is computed at all.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        """Initialises the layer.

        Args:
            *args: arguments of `tf.keras.layers.Dense`.
            **kwargs: its keyword arguments.
        """
        super().__init__(*args, **kwargs)
        self.input_spec = None  # That of `Dense` is for one input.

    def build(self, input_shape: Any) -> None:
        """Creates the weights."""
        super().build(input_shape[0])
        self.input_spec = None

    @which_keras.not_converted
    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the outputs of the layer.

        Args:
            inputs: centred items `[items, features]`, and their scale and shift.
        """
        centered, scale, shift = inputs
        kernel = tf.convert_to_tensor(self.kernel)
        bias = tf.linalg.matvec(kernel, shift, transpose_a=True)
        if self.use_bias:
            bias += self.bias
        product = tf.linalg.matmul(centered, scale[:, tf.newaxis] * kernel)
        return self.activation(tf.nn.bias_add(product, bias))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the outputs."""
        return super().compute_output_shape(input_shape[0])


def _several_replicas() -> tf.distribute.ReplicaContext | None:
    """Returns the context of this replica, if it is one of several."""
    context = tf.distribute.get_replica_context()
    several = context is not None and context.num_replicas_in_sync > 1
    return context if several else None


def _moments(
    x: tf.Tensor, mask: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the mean and variance of the items of all replicas, and their number."""
    context = _several_replicas()

    def total(values: tf.Tensor) -> tf.Tensor:
        own = tf.reduce_sum(values, axis=list(range(x.shape.rank - 1)))
        if context is None:
            return own
        return context.all_reduce(tf.distribute.ReduceOp.SUM, own)

    wide = tf.cast(x, tf.float32)
    weight = tf.ones_like(wide[..., :1])
    if mask is not None:
        weight *= tf.cast(mask, tf.float32)[..., tf.newaxis]
    count = total(weight)
    # The float32 mean of large values has an error, which shows in the differences from
    # it; both moments are corrected for it.
    rough = tf.math.divide_no_nan(total(wide * weight), count)
    differences = (wide - rough) * weight
    error = tf.math.divide_no_nan(total(differences), count)
    variance = tf.math.divide_no_nan(total(tf.square(differences)), count)
    return rough + error, tf.maximum(variance - tf.square(error), 0), count


def _has_gpu() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))


def _total(values: tf.Tensor) -> tf.Tensor:
    """Returns the sum over the items."""
    if _has_gpu():  # its matrix products may have 10 bits of precision (TF32)
        return tf.reduce_sum(values, axis=0)
    # On a CPU this is several times as fast.
    ones = tf.ones_like(values[:, :1])
    return tf.linalg.matmul(ones, values, transpose_a=True)[0]


def _centered(
    x: tf.Tensor, epsilon: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the centred items and their statistics, without a gradient of these.

    They are the items less a mean in float32, the mean of these, which would be 0
    without rounding, the mean, the variance, and its inverse root.
    """
    count = tf.cast(tf.shape(x)[0], x.dtype)

    def mean_of(values: tf.Tensor) -> tf.Tensor:
        return tf.math.divide_no_nan(_total(values), count)

    rough = mean_of(x)
    centered = x - rough
    error = mean_of(centered)
    variance = tf.maximum(mean_of(tf.square(centered)) - tf.square(error), 0)
    return centered, error, rough + error, variance, tf.math.rsqrt(variance + epsilon)


def _normalized(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the normalised items, their mean and their variance.

    Like `_moments` for several replicas, but with a hand-written gradient for the
    items, `gamma` and `beta` only. It passes over the items a few times, whereas
    automatic differentiation does so dozens of times.
    """

    @tf.custom_gradient
    def normalized(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
        centered, error, mean, variance, inverse = _centered(x, epsilon)
        scale = inverse * gamma
        outputs = centered * scale + (beta - error * scale)

        def gradient(
            upstream: tf.Tensor, *_: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            of_beta = _total(upstream)
            along = _total(upstream * centered)
            of_gamma = inverse * (along - error * of_beta)
            slope, shift = _backwards(x, scale, inverse, error, of_gamma, of_beta)
            of_x = upstream * scale + (centered * slope - shift)
            return of_x, of_gamma, of_beta

        return (outputs, mean, variance), gradient

    return normalized(x, tf.convert_to_tensor(gamma), tf.convert_to_tensor(beta))


def _in_parts(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns centred items, scale and shift, and the items' mean and variance.

    The gradient takes the first three for one value, `centered * scale + shift`: the
    gradient of the centred items sums to that of the shift, times the scale.
    """

    @tf.custom_gradient
    def parts(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
        centered, error, mean, variance, inverse = _centered(x, epsilon)
        scale = inverse * gamma

        def gradient(
            upstream: tf.Tensor, along: tf.Tensor, of_beta: tf.Tensor, *_: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            of_gamma = inverse * (along - error * of_beta)
            slope, shift = _backwards(x, scale, inverse, error, of_gamma, of_beta)
            # TensorFlow joins this sum with the product that `upstream` comes from.
            of_x = tf.nn.bias_add(upstream, -shift) + centered * slope
            return of_x, of_gamma, of_beta

        return (centered, scale, beta - error * scale, mean, variance), gradient

    return parts(x, tf.convert_to_tensor(gamma), tf.convert_to_tensor(beta))


def _backwards(
    x: tf.Tensor,
    scale: tf.Tensor,
    inverse: tf.Tensor,
    error: tf.Tensor,
    of_gamma: tf.Tensor,
    of_beta: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns terms of the gradient of the items that come from the statistics.

    They are a factor of the centred items, which is added, and a shift to subtract.
    """
    count = tf.cast(tf.shape(x)[0], x.dtype)
    slope = -scale * inverse * tf.math.divide_no_nan(of_gamma, count)
    return slope, scale * tf.math.divide_no_nan(of_beta, count) + slope * error
