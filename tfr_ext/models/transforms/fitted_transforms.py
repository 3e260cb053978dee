"""Feature transforms with statistics of the training lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import checks, which_keras
from tfr_ext.models.transforms import feature_transform
from tfr_ext.models.transforms.feature_transform import FittedTransform


@which_keras.register
class Standard(FittedTransform):
    """`(x - mean) / std`, with statistics of the training lists.

    The statistics are untrained weights, so checkpoints contain them. A feature whose
    `std` is 0 is only centred.

    Examples:
        >>> layer = Standard(mean=[1., 5.], std=[2., 0.])
        >>> layer((tf.constant([[[5., 5.]]]), tf.constant([[True]]))).numpy()
        array([[[2., 0.]]], dtype=float32)
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], **kwargs: Any):
        """Initialises the layer.

        Args:
            mean: mean of each feature.
            std: standard deviation of each feature, at least 0.
            **kwargs: arguments of `tf.keras.layers.Layer`.

        Raises:
            ValueError: If a number is not finite, a deviation is negative, or the
                lengths differ.
        """
        super().__init__(**kwargs)
        self._mean = [checks.finite("mean", x) for x in mean]
        self._std = [checks.not_negative("std", x) for x in std]
        if len(self._mean) != len(self._std):
            raise ValueError(
                "`mean` and `std` must both have one number per feature. "
                f"Received: {len(self._mean)} and {len(self._std)} numbers."
            )

    @property
    def num_features(self) -> int:
        """Number of features that have statistics."""
        return len(self._mean)

    def _build_statistics(self) -> None:
        self._mean_weight = self._statistic("mean", self._mean)
        self._std_weight = self._statistic("std", self._std)

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """Standardises features."""
        mean, std = self._mean_weight, self._std_weight
        # Halved first, as the difference of two float32 numbers may overflow.
        centred = features / 2 - mean / 2
        scaled = centred / tf.where(std > 0, std, 1)
        largest = scaled.dtype.max / 2
        return 2 * tf.clip_by_value(scaled, -largest, largest)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        return {
            **super().get_config(),
            "mean": list(self._mean),
            "std": list(self._std),
        }


@which_keras.register
class Quantile(FittedTransform):
    """The share of the training items that have a lower value, from 0 to 1.

    Between the given quantiles of a feature it is piecewise linear, as the
    `QuantileTransformer` of scikit-learn. A value that many training items have gets
    the middle of their shares; the lowest value of the training gets 0, the highest 1,
    and values beyond them 0 and 1 as well. Values that differ only by rounding count as
    equal.

    Examples:
        >>> layer = Quantile([[0., 0., 10., 20., 40.]])
        >>> features = tf.constant([[[-3.], [0.], [10.], [30.], [99.]]])
        >>> layer((features, tf.fill([1, 5], True))).numpy().ravel().tolist()
        [0.0, 0.0, 0.5, 0.875, 1.0]
    """

    def __init__(self, quantiles: Sequence[Sequence[float]], **kwargs: Any):
        """Initialises the layer.

        Args:
            quantiles: for each feature the quantiles of its values, at levels spaced
                evenly from 0 to 1: at least two numbers, none below the one before.
            **kwargs: arguments of `tf.keras.layers.Layer`.

        Raises:
            ValueError: If a number is not finite or below the one before, there are
                fewer than two, or features have different numbers of quantiles.
        """
        super().__init__(**kwargs)
        self._quantiles = [
            [checks.finite("quantiles", x) for x in row] for row in quantiles
        ]
        sizes = sorted({len(row) for row in self._quantiles})
        if len(sizes) > 1 or (sizes and sizes[0] < 2):
            raise ValueError(
                "`quantiles` must have the same number of quantiles for each feature, "
                f"at least 2. Received: {' and '.join(map(str, sizes))}."
            )
        if any(row != sorted(row) for row in self._quantiles):
            raise ValueError("`quantiles` must not decrease for any feature.")

    @property
    def num_features(self) -> int:
        """Number of features that have statistics."""
        return len(self._quantiles)

    def _build_statistics(self) -> None:
        self._weight = self._statistic(
            "quantiles", np.asarray(self._quantiles, np.float32).tolist()
        )

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """Returns the share of training items with lower values."""
        quantiles = tf.convert_to_tensor(self._weight)
        steps = quantiles.shape[1] - 1
        shape = tf.shape(features)
        # A row for each feature.
        turned = tf.transpose(features, [2, 0, 1])
        values = tf.reshape(turned, [self.num_features, shape[0] * shape[1]])
        lower, not_higher = feature_transform.counts(quantiles, values)
        # The nearest quantiles on both sides, the outermost ones beyond the ends.
        left = tf.clip_by_value(not_higher - 1, 0, steps)
        right = tf.minimum(lower, steps)
        low = tf.gather(quantiles, left, batch_dims=1)
        high = tf.gather(quantiles, right, batch_dims=1)
        # Halved, as the difference of two float32 numbers may overflow.
        within = tf.math.divide_no_nan(values / 2 - low / 2, high / 2 - low / 2)
        within = tf.clip_by_value(within, 0.0, 1.0)
        between = tf.cast(left, values.dtype) + within
        # Equal to the quantiles from `lower` to `not_higher - 1`.
        middle = tf.cast(lower + not_higher - 1, values.dtype) / 2
        level = tf.where(not_higher > lower, middle, between) / steps
        # In this order: the only value of a constant feature is its lowest.
        level = tf.where(not_higher > steps, 1.0, level)
        level = tf.where(tf.equal(lower, 0), 0.0, level)
        level = tf.reshape(level, tf.stack([shape[2], shape[0], shape[1]]))
        return tf.ensure_shape(tf.transpose(level, [1, 2, 0]), features.shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        return {
            **super().get_config(),
            "quantiles": [list(row) for row in self._quantiles],
        }


@which_keras.register
class FillMissing(FittedTransform):
    """Puts the mean of the training items in place of missing features, NaN.

    For the chosen features it also appends a feature that is 1 where the value was
    missing and 0 elsewhere. So a model can learn what it means that a value is missing,
    while the mean keeps it out of the way of transforms and normalisation.

    Examples:
        >>> layer = FillMissing(mean=[3., 5.], indicators=[1])
        >>> features = tf.constant([[[np.nan, 4.], [2., np.nan]]])
        >>> layer((features, tf.constant([[True, True]]))).numpy()
        array([[[3., 4., 0.],
                [2., 5., 1.]]], dtype=float32)
    """

    def __init__(
        self, mean: Sequence[float], indicators: Sequence[int] = (), **kwargs: Any
    ):
        """Initialises the layer.

        Args:
            mean: for each feature, the value that takes the place of a missing one.
            indicators: the features, counted from 0, for which a feature is appended
                that tells where they are missing; increasing.
            **kwargs: arguments of `tf.keras.layers.Layer`.

        Raises:
            ValueError: If a mean is not finite, or `indicators` are not increasing
                numbers of features.
        """
        super().__init__(**kwargs)
        self._mean = [checks.finite("mean", x) for x in mean]
        self._indicators = [int(column) for column in indicators]
        if self._indicators != sorted({*self._indicators} & {*range(len(self._mean))}):
            raise ValueError(
                "`indicators` must be increasing numbers of features, from 0 to "
                f"{len(self._mean) - 1}. Received: {list(indicators)}."
            )

    @property
    def num_features(self) -> int:
        """Number of features that have statistics."""
        return len(self._mean)

    def _build_statistics(self) -> None:
        self._mean_weight = self._statistic("mean", self._mean)

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """Fills in means, and appends the indicators."""
        missing = tf.math.is_nan(features)
        mean = tf.convert_to_tensor(self._mean_weight)
        filled = tf.where(missing, mean, features)
        if not self._indicators:
            return filled
        indicators = tf.gather(missing, self._indicators, axis=-1)
        return tf.concat([filled, tf.cast(indicators, filled.dtype)], axis=-1)

    def carried(self, columns: np.ndarray) -> np.ndarray:
        """Maps entries of features; an indicator is made from no feature."""
        shape = [*columns.shape[:-1], len(self._indicators)]
        return np.concatenate([columns, np.zeros(shape, columns.dtype)], axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        return {
            **super().get_config(),
            "mean": list(self._mean),
            "indicators": list(self._indicators),
        }
