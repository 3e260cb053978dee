"""Several feature transforms of the same features, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.models.transforms.feature_transform import FeatureTransform


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
            ValueError: if there are none.
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
            ValueError: if the statistics of a part are of another number of features.
        """
        for part in self.parts:
            if not part.built:
                part.build(input_shape)
        super().build(input_shape)

    def transform(self, features: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """See `FeatureTransform`."""
        outputs = [part.transform(features, real) for part in self.parts]
        return tf.concat(outputs, axis=-1)

    def carried(self, columns: np.ndarray) -> np.ndarray:
        """See `FeatureTransform`."""
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
