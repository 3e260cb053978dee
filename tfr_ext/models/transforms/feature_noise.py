"""Noise on the features in training."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfr_ext.core import checks, which_keras
from tfr_ext.models.layers import ResumableDraws


@which_keras.register
class FeatureNoise(ResumableDraws):
    """Adds normal noise to the features of the real items in training.

    It is the data augmentation of DASALC (Qin et al., "Are Neural Rankers still
    Outperformed by Gradient Boosted Decision Trees?", ICLR 2021): each feature of each
    item gets independent noise of mean 0, after the transforms that normalise features.
    Outside training, features are returned as they are. A checkpoint continues the
    draws, as of `ResumableDropout`.

    Examples:
        >>> layer = FeatureNoise(0.1, seed=1)
        >>> features, mask = tf.zeros([1, 2, 3]), tf.constant([[True, False]])
        >>> noisy = layer((features, mask), training=True).numpy()
        >>> bool(noisy[0, 0].all()), bool(noisy[0, 1].any())
        (True, False)
        >>> bool(layer((features, mask)).numpy().any())
        False
    """

    def __init__(self, stddev: float, seed: int, **kwargs: Any):
        """Initialises the layer.

        Args:
            stddev: standard deviation of the noise, at least 0.
            seed: seed of the draws; the layers of a model should have different seeds.
            **kwargs: arguments of `tf.keras.layers.Layer`.

        Raises:
            ValueError: if `stddev` is negative or not finite.
        """
        super().__init__(seed, **{"dtype": "float32", **kwargs})
        self._stddev = checks.not_negative("stddev", stddev)

    def call(
        self, inputs: tuple[tf.Tensor, tf.Tensor], training: bool | None = None
    ) -> tf.Tensor:
        """Adds the noise in training.

        Args:
            inputs: features `[batch, list, features]` and the mask of real items
                `[batch, list]`.
            training: whether to add noise.
        """
        features, mask = inputs
        if not training:
            return features
        noise = tf.random.stateless_normal(
            tf.shape(features), seed=self._next_seed(), stddev=self._stddev
        )
        return tf.where(mask[..., tf.newaxis], features + noise, features)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        return {**super().get_config(), "stddev": self._stddev}
