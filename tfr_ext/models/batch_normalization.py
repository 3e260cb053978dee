"""Batch normalisation that leaves padding out."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


@tf.keras.utils.register_keras_serializable(package="tfr_ext")
class ItemBatchNormalization(tf.keras.layers.BatchNormalization):
    """Batch normalisation over the real items of all replicas.

    Keras' own synchronised form takes the variance as the difference of two means,
    which rounding can turn negative where values are large; here, as in its form for a
    single replica, it is the mean of squared differences. Both are taken in float32.
    """

    def call(
        self,
        inputs: tf.Tensor,
        training: Any = None,
        mask: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Normalises the items.

        Args:
            inputs: items, `[items, features]`.
            training: whether to take the statistics of these items.
            mask: True at real items, `[items]`; all are real by default.
        """
        context = tf.distribute.get_replica_context()
        plain = self.trainable and self.scale and self.center and mask is None
        plain &= context is not None and context.num_replicas_in_sync == 1
        if not (training is True and plain and inputs.shape.rank == 2):
            return super().call(inputs, training=training, mask=mask)
        wide = tf.cast(inputs, tf.float32)
        outputs, mean, variance = _normalized(wide, self.gamma, self.beta, self.epsilon)
        # Of no items at all: what the moving statistics are, which so stay as they are.
        some = tf.size(inputs) > 0
        for moving, now in (
            (self.moving_mean, mean),
            (self.moving_variance, variance),
        ):
            now = tf.stop_gradient(tf.where(some, now, moving))
            moving.assign_sub((moving - now) * (1.0 - self.momentum))
        return tf.cast(outputs, inputs.dtype)

    def _support_zero_size_input(self) -> bool:
        # A replica without items has the statistics of all too: if Keras, as it does
        # for such, gave it none, their mean over the replicas would be too small.
        return False

    def _calculate_mean_and_var(
        self,
        x: tf.Tensor,
        reduction_axes: list[int],
        keep_dims: bool,
        mask: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        context = tf.distribute.get_replica_context()

        def total(values: tf.Tensor) -> tf.Tensor:
            own = tf.reduce_sum(values, axis=reduction_axes, keepdims=keep_dims)
            if context is None or context.num_replicas_in_sync == 1:
                return own
            return context.all_reduce(tf.distribute.ReduceOp.SUM, own)

        wide = tf.cast(x, tf.float32)
        weight = tf.ones_like(wide[..., :1])
        if mask is not None:
            weight *= tf.cast(mask, tf.float32)[..., tf.newaxis]
        count = total(weight)
        # The float32 mean of large values has an error, which the differences from it
        # tell: both moments are corrected by it.
        rough = tf.math.divide_no_nan(total(wide * weight), count)
        differences = (wide - rough) * weight
        error = tf.math.divide_no_nan(total(differences), count)
        mean = rough + error
        variance = tf.math.divide_no_nan(total(tf.square(differences)), count)
        variance = tf.maximum(variance - tf.square(error), 0)
        # Of no items at all: what the moving statistics are, which so stay as they are.
        mean = tf.where(count > 0, mean, tf.cast(self.moving_mean, tf.float32))
        variance = tf.where(
            count > 0, variance, tf.cast(self.moving_variance, tf.float32)
        )
        return tf.cast(mean, x.dtype), tf.cast(variance, x.dtype)


def _has_gpu() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))


def _normalized(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns normalised items, their mean and their variance.

    As `ItemBatchNormalization._calculate_mean_and_var` does for several replicas. Here
    the gradient, of the items, `gamma` and `beta` only, is written out: it passes over
    the items a few times, where automatic differentiation does dozens of times.
    """
    ones = tf.ones_like(x[:, :1])
    count = tf.cast(tf.shape(x)[0], x.dtype)

    def total(values: tf.Tensor) -> tf.Tensor:
        if _has_gpu():  # whose products may have 10 bits of precision (TF32)
            return tf.reduce_sum(values, axis=0)
        # On a CPU several times as fast.
        return tf.linalg.matmul(ones, values, transpose_a=True)[0]

    def mean_of(values: tf.Tensor) -> tf.Tensor:
        return tf.math.divide_no_nan(total(values), count)

    @tf.custom_gradient
    def normalized(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
        rough = mean_of(x)
        centered = x - rough
        error = mean_of(centered)
        variance = tf.maximum(mean_of(tf.square(centered)) - tf.square(error), 0)
        inverse = tf.math.rsqrt(variance + epsilon)
        scale = inverse * gamma
        outputs = centered * scale + (beta - error * scale)

        def gradient(
            upstream: tf.Tensor, *_: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            of_beta = total(upstream)
            along = total(upstream * centered)
            of_gamma = inverse * (along - error * of_beta)
            slope = -scale * inverse * tf.math.divide_no_nan(of_gamma, count)
            shift = scale * tf.math.divide_no_nan(of_beta, count) + slope * error
            of_x = upstream * scale + (centered * slope - shift)
            return of_x, of_gamma, of_beta

        return (outputs, rough + error, variance), gradient

    return normalized(x, tf.convert_to_tensor(gamma), tf.convert_to_tensor(beta))
