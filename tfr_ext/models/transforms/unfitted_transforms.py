"""Feature transforms that need no statistics of the training lists."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfr_ext.core import checks, which_keras
from tfr_ext.models.transforms import feature_transform
from tfr_ext.models.transforms.feature_transform import ROUNDING, FeatureTransform

# Bounds must be below this to be finite in float32.
_LARGEST = 3e38

# Up to so many items, comparing each with each is faster than sorting.
_COMPARED = 64


@which_keras.register
class Raw(FeatureTransform):
    """Features as they are, to stand beside transformed ones in `Concatenated`.

    Examples:
        >>> Raw()((tf.constant([[[3.], [4.]]]), tf.constant([[True, False]]))).numpy()
        array([[[3.],
                [0.]]], dtype=float32)
    """

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """Returns the features unchanged."""
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
        """Returns `sign(x) * log(1 + |x|)`."""
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
            ValueError: If a bound is not a number below 3e38, or `low` is above `high`.
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
        """Clips features."""
        if self._low is not None:
            features = tf.maximum(features, self._low)
        if self._high is not None:
            features = tf.minimum(features, self._high)
        return features

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        return {**super().get_config(), "low": self._low, "high": self._high}


@which_keras.register
class QueryMinMax(FeatureTransform):
    """`(x - min) / (max - min)` over the real items of a list, feature by feature.

    If all items of a list have the same value, up to rounding, the result is 0.

    Examples:
        >>> features = tf.constant([[[2., 7.], [4., 7.], [3., 7.], [9., 9.]]])
        >>> mask = tf.constant([[True, True, True, False]])
        >>> QueryMinMax()((features, mask)).numpy().tolist()
        [[[0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.0, 0.0]]]
    """

    ACROSS_LISTS = True

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """Rescales features to the range 0 to 1 within each list."""
        return _scaled(features, real)


@which_keras.register
class QueryStandard(FeatureTransform):
    """`(x - mean) / std` over the real items of a list, feature by feature.

    `std` divides by the number of items. If all items of a list have the same value, up
    to rounding, the result is 0.

    Examples:
        >>> features = tf.constant([[[2., 7.], [4., 7.], [3., 7.], [9., 9.]]])
        >>> mask = tf.constant([[True, True, True, False]])
        >>> QueryStandard()((features, mask)).numpy()[0].round(3)
        array([[-1.225,  0.   ],
               [ 1.225,  0.   ],
               [ 0.   ,  0.   ],
               [ 0.   ,  0.   ]], dtype=float32)
    """

    ACROSS_LISTS = True

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """Standardises features within each list."""
        # From 0 to 1 first, which changes nothing in exact arithmetic: then squares
        # neither overflow nor vanish, and a small spread far from 0 is not lost.
        scaled = tf.where(real, _scaled(features, real), 0)
        count = tf.maximum(_sum(tf.cast(real, scaled.dtype)), 1)
        centred = tf.where(real, scaled - _sum(scaled) / count, 0)
        std = tf.sqrt(_sum(tf.square(centred)) / count)
        return tf.math.divide_no_nan(centred, std)


@which_keras.register
class QueryRank(FeatureTransform):
    """The rank of each item within its list, feature by feature, from 0 to 1.

    The lowest of `n` different values gets 0 and the highest 1: the result is
    `(rank - 1) / (n - 1)`. Equal values share the mean of their ranks, as do values
    that differ only by rounding (by less than 3e-7 of the value). So if all items of a
    list have the same value, all get 0.5, and so does the item of a list of one: the
    mean of a list is 0.5 whatever its values are.

    In lists of up to 64 items each is compared with each. In longer ones the values of
    a feature are sorted, and each item finds its place by bisection.

    Examples:
        >>> features = tf.constant([[[2., 7.], [400., 7.], [3., 7.], [3., 5.]]])
        >>> mask = tf.constant([[True, True, True, True]])
        >>> QueryRank()((features, mask)).numpy()[0, :, 0].tolist()
        [0.0, 1.0, 0.5, 0.5]
    """

    ACROSS_LISTS = True

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """Ranks items within each list, feature by feature."""
        values = tf.where(real, features, float("inf"))
        counted = tf.cond(
            tf.shape(values)[1] <= _COMPARED,
            lambda: _compared(values),
            lambda: _bisected(values),
        )
        lower, not_higher = (tf.cast(x, features.dtype) for x in counted)
        count = _sum(tf.cast(real, features.dtype))
        # Numbers near the largest are not distinguished from padding.
        not_higher = tf.minimum(not_higher, count)
        ranks = (lower + not_higher - 1) / 2  # From 0.
        ranks = tf.where(count > 1, ranks / tf.maximum(count - 1, 1), 0.5)
        return tf.ensure_shape(ranks, features.shape)


def _compared(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts in each list, for each entry, those below it and those not above it."""
    low, high = feature_transform.rounded(values)

    def one_more(
        item: tf.Tensor, lower: tf.Tensor, not_higher: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        other = tf.gather(values, [item], axis=1)
        lower += tf.cast(other < low, tf.int32)
        return item + 1, lower, not_higher + tf.cast(other <= high, tf.int32)

    zeros = tf.zeros_like(values, tf.int32)
    _, lower, not_higher = tf.while_loop(
        lambda item, *_: item < tf.shape(values)[1], one_more, [0, zeros, zeros]
    )
    return lower, not_higher


def _bisected(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts what `_compared` counts, in values that are sorted."""
    by_feature = tf.transpose(values, [0, 2, 1])
    shape = tf.shape(by_feature)
    rows = tf.reshape(by_feature, [-1, shape[2]])
    lower, not_higher = (
        tf.transpose(tf.reshape(x, shape), [0, 2, 1])
        for x in feature_transform.counts(tf.sort(rows, axis=1), rows)
    )
    return lower, not_higher


def _scaled(features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
    """Returns `(x - min) / (max - min)` over the real items of each list."""
    # Halved first, as the difference of two float32 numbers may overflow.
    half = features / 2
    largest = half.dtype.max
    low = tf.reduce_min(tf.where(real, half, largest), axis=1, keepdims=True)
    high = tf.reduce_max(tf.where(real, half, -largest), axis=1, keepdims=True)
    # Values that differ only by rounding, as log1p of equal numbers may, count as
    # equal. In a row of nothing but padding, `low` is above `high`.
    spread = high - low
    one_value = spread <= ROUNDING * tf.maximum(tf.abs(low), tf.abs(high))
    return tf.math.divide_no_nan(half - low, tf.where(one_value, 0.0, spread))


def _sum(x: tf.Tensor) -> tf.Tensor:
    """Returns the sum over each list, `[batch, 1, features]`."""
    return tf.reduce_sum(x, axis=1, keepdims=True)
