"""The base classes of feature transforms."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import which_keras

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
        """Maps entries of the old features to the new features made of them.

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
        """Creates the weights, and checks the number of features."""
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


def counts(ordered: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Counts the entries of each row that are below a value, and that are not above it.

    Rows, `[rows, entries]`, are sorted; values and both counts, int32, are
    `[rows, values]`. Entries that differ from the value only by rounding count as equal
    to it, as log1p of equal numbers may differ. Entries `ordered[lower:not_higher]` are
    equal.

    Examples:
        >>> lower, not_higher = counts(tf.constant([[1., 3., 3., 5.]]),
        ...                            tf.constant([[3., 4., 9.]]))
        >>> lower.numpy().tolist(), not_higher.numpy().tolist()
        ([[1, 3, 4]], [[3, 3, 4]])
    """
    low, high = rounded(values)
    return _bisected(ordered, low, tf.less), _bisected(ordered, high, tf.less_equal)


def rounded(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the lowest and the highest of what counts as equal to each value."""
    tolerance = ROUNDING * tf.abs(values)
    return values - tolerance, values + tolerance


def _bisected(
    ordered: tf.Tensor,
    values: tf.Tensor,
    is_before: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """Returns how many sorted `[rows, entries]` stand before each of `[rows, values]`.

    `tf.searchsorted` does the same, but XLA makes of it a comparison of each value with
    each entry, which takes gigabytes for lists of 1,000 items.
    """
    size = tf.shape(ordered)[1]
    (step,) = tf.while_loop(
        lambda step: 2 * step <= size, lambda step: [2 * step], [tf.constant(1)]
    )

    def halved(step: tf.Tensor, count: tf.Tensor) -> list[tf.Tensor]:
        further = count + step
        entries = tf.gather(ordered, tf.minimum(further, size) - 1, batch_dims=1)
        goes_on = (further <= size) & is_before(entries, values)
        return [step // 2, tf.where(goes_on, further, count)]

    _, count = tf.while_loop(
        lambda step, count: step > 0,
        halved,
        [step, tf.zeros_like(values, tf.int32)],
    )
    return count


@which_keras.register
class Concatenated(FeatureTransform):
    """The outputs of several transforms of the same features, one after the other.

    Examples:
        >>> from tfr_ext.models import QueryRank, Raw
        >>> layer = Concatenated([Raw(), QueryRank()])
        >>> features = tf.constant([[[2., 7.], [4., 9.]]])
        >>> layer((features, tf.constant([[True, True]]))).numpy().tolist()
        [[[2.0, 7.0, 0.0, 0.0], [4.0, 9.0, 1.0, 1.0]]]
        >>> layer.ACROSS_LISTS
        True
    """

    def __init__(self, parts: Sequence[FeatureTransform], **kwargs: Any):
        """Initialises the layer.

        Args:
            parts: the transforms, at least one.
            **kwargs: arguments of `tf.keras.layers.Layer`.

        Raises:
            ValueError: If there are none.
        """
        super().__init__(**kwargs)
        if not parts:
            raise ValueError("`parts` must have at least one transform. Received: [].")
        self._num_parts = len(parts)
        # Not in a list, which the checkpoints of TensorFlow do not look into (Keras 3).
        for number, part in enumerate(parts):
            setattr(self, f"part_{number}", part)

    @property
    def ACROSS_LISTS(self) -> bool:  # type: ignore[override]  # noqa: N802
        """Whether any of the parts looks at the other items of a list."""
        return any(part.ACROSS_LISTS for part in self.parts)

    @property
    def parts(self) -> list[FeatureTransform]:
        """The transforms."""
        return [getattr(self, f"part_{n}") for n in range(self._num_parts)]

    def build(self, input_shape: Any) -> None:
        """Creates the weights of the parts.

        Raises:
            ValueError: If the statistics of a part are of another number of features.
        """
        for part in self.parts:
            if not part.built:
                part.build(input_shape)
        super().build(input_shape)

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """Returns the outputs of all parts, one after the other."""
        outputs = [part.transform(features, real) for part in self.parts]
        return tf.concat(outputs, axis=-1)

    def carried(self, columns: np.ndarray) -> np.ndarray:
        """Maps entries of features to the features of all parts."""
        return np.concatenate([part.carried(columns) for part in self.parts], axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        parts = [tf.keras.layers.serialize(part) for part in self.parts]
        return {**super().get_config(), "parts": parts}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Concatenated:
        """Recreates a layer from what `get_config` returned."""
        parts = [tf.keras.layers.deserialize(part) for part in config["parts"]]
        return cls(**{**config, "parts": parts})


FORMS = (
    "'log1p', 'query_minmax', 'query_standard', 'query_rank', 'standard', 'quantile', "
    "'quantile:N', where N is a number of quantiles (100 by default), 'clip:LO:HI', "
    "where LO or HI may be empty, and 'raw' for the features as they are. A + between "
    "several, such as 'standard+query_rank', puts what each gives side by side"
)
"""The forms that `feature_transforms` takes, for messages and help texts."""

# No name starts with a digit: in 'clip:0:1e+3+raw' only the last + is between two.
_PLUS = re.compile(r"\+(?=[^\d.])")


def parts_of(form: str) -> list[str]:
    """Returns the transforms whose outputs stand side by side.

    Examples:
        >>> parts_of("raw+clip:0:+query_rank"), parts_of("clip:-1e+3:+1e3")
        (['raw', 'clip:0:', 'query_rank'], ['clip:-1e+3:+1e3'])
    """
    return _PLUS.split(form)
