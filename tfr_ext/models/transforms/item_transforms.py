"""Feature transforms that need neither the list of an item nor the training lists."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfr_ext.core import checks, which_keras
from tfr_ext.models.transforms.feature_transform import FeatureTransform

# Bounds must be below this to be finite in float32.
_LARGEST = 3e38


@which_keras.register
class Raw(FeatureTransform):
    """Features as they are, to stand beside transformed ones in `Concatenated`.

    Examples:
        >>> Raw()((tf.constant([[[3.], [4.]]]), tf.constant([[True, False]]))).numpy()
        array([[[3.],
                [0.]]], dtype=float32)
    """

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """See `FeatureTransform`."""
        return features


@which_keras.register
class Log1p(FeatureTransform):
    """`sign(x) * log(1 + |x|)`, which suits the raw features of MSLR-WEB.

    Examples:
        >>> features = tf.constant([[[0., -1.], [1e6, 3e38]]])
        >>> Log1p()((features, tf.constant([[True, True]]))).numpy().round(3)
        array([[[ 0.   , -0.693],
                [13.816, 88.597]]], dtype=float32)
    """

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """See `FeatureTransform`."""
        return tf.sign(features) * tf.math.log1p(tf.abs(features))


@which_keras.register
class Clip(FeatureTransform):
    """Clips features to the range from `low` to `high`.

    Examples:
        >>> features = tf.constant([[[-5.], [0.5], [7.]]])
        >>> Clip(-1.0, None)((features, tf.fill([1, 3], True))).numpy().ravel()
        array([-1. ,  0.5,  7. ], dtype=float32)
    """

    def __init__(self, low: float | None, high: float | None, **kwargs: Any):
        """Initialises the layer.

        Args:
            low: the lowest value; None for no bound.
            high: the highest value, not below `low`; None for no bound.
            **kwargs: arguments of `tf.keras.layers.Layer`.

        Raises:
            ValueError: if a bound is not a number below 3e38, or `low` is above `high`.
        """
        super().__init__(**kwargs)
        for name, bound in (("low", low), ("high", high)):
            if bound is not None:
                checks.between(name, bound, -_LARGEST, _LARGEST)
        self._low, self._high = low, high
        if low is not None and high is not None and low > high:
            raise ValueError(
                f"`low` must not be above `high`. Received: {low} and {high}."
            )

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """See `FeatureTransform`."""
        if self._low is not None:
            features = tf.maximum(features, self._low)
        if self._high is not None:
            features = tf.minimum(features, self._high)
        return features

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        return {**super().get_config(), "low": self._low, "high": self._high}
