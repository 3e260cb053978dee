"""Missing features, which are NaN, inside a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import checks, which_keras
from tfr_ext.models.transforms.feature_transform import FittedTransform


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
            ValueError: if a mean is not finite, or `indicators` are not increasing
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
        """See `FittedTransform`."""
        return len(self._mean)

    def _build_statistics(self) -> None:
        self._mean_weight = self._statistic("mean", self._mean)

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """See `FeatureTransform`."""
        missing = tf.math.is_nan(features)
        mean = tf.convert_to_tensor(self._mean_weight)
        filled = tf.where(missing, mean, features)
        if not self._indicators:
            return filled
        told = tf.gather(missing, self._indicators, axis=-1)
        return tf.concat([filled, tf.cast(told, filled.dtype)], axis=-1)

    def carried(self, columns: np.ndarray) -> np.ndarray:
        """See `FeatureTransform`; what is appended is made from no feature."""
        shape = [*columns.shape[:-1], len(self._indicators)]
        return np.concatenate([columns, np.zeros(shape, columns.dtype)], axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        return {
            **super().get_config(),
            "mean": list(self._mean),
            "indicators": list(self._indicators),
        }
