"""The interface of feature transforms."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# The relative difference of two float32 numbers that rounding may cause.
ROUNDING = 2 * float(np.finfo(np.float32).eps)


class FeatureTransform(tf.keras.layers.Layer, metaclass=abc.ABCMeta):
    """Base of the transforms, which neither see nor fill padding.

    A transform takes `(features [batch, list, features], mask [batch, list])` and
    returns features `[batch, list, new features]`, 0 at padding. It stays in float32
    under any precision policy, as float16 ends at 65,504.
    """

    # Whether the result for an item depends on the other items of its list.
    ACROSS_LISTS = False

    def __init__(self, **kwargs: Any):
        """Initialises the layer.

        Args:
            **kwargs: arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(**{"dtype": "float32", **kwargs})

    @abc.abstractmethod
    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """Transforms features.

        Args:
            features: features, 0 at padding, `[batch, list, features]`.
            real: True at real items, `[batch, list, 1]`.

        Returns:
            A tensor `[batch, list, new features]`, with any values at padding.
        """

    def carried(self, columns: np.ndarray) -> np.ndarray:
        """Returns what belongs to each new feature, given what belongs to each old one.

        Statistics leave out the values that are made from missing ones, and this says
        which these are.

        Args:
            columns: an array `[..., features]`.

        Returns:
            An array `[..., new features]`: at each feature that the transform makes,
            the entry of the one that it is made from. By default, each is made from
            the one in its place.
        """
        return columns

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Transforms the features of the real items.

        Args:
            inputs: features `[batch, list, features]` and the mask of real items
                `[batch, list]`.
        """
        features, mask = inputs
        real = mask[..., tf.newaxis]
        # Values at padding, even NaN, must not reach a minimum or a maximum.
        features = tf.where(real, features, 0)
        return tf.where(real, self.transform(features, real), 0)


class FittedTransform(FeatureTransform):
    """Base of transforms that have statistics of the training lists.

    The statistics are untrained weights, so checkpoints contain them.
    """

    def build(self, input_shape: Any) -> None:
        """Creates the weights.

        Raises:
            ValueError: if the number of features differs from that of the statistics.
        """
        width = input_shape[0][-1]
        if width != self.num_features:
            raise ValueError(
                f"The input must have {self.num_features} features, as many as the "
                f"statistics. Received: {width} features."
            )
        self._build_statistics()
        super().build(input_shape)

    @property
    @abc.abstractmethod
    def num_features(self) -> int:
        """Number of features that have statistics."""

    @abc.abstractmethod
    def _build_statistics(self) -> None:
        """Creates the weights with `_statistic`."""

    def _statistic(self, name: str, values: Sequence[Any]) -> tf.Variable:
        return self.add_weight(
            name=name,
            shape=np.shape(values),
            initializer=tf.keras.initializers.Constant(values),
            trainable=False,
        )
