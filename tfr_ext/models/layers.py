"""Layers that keep padding out of a scorer."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


@tf.keras.utils.register_keras_serializable(package="tfr_ext")
class CompactItems(tf.keras.layers.Layer):
    """Collects the real items of a batch of lists, leaving all padding out.

    What comes after sees `[real items, features]`: it computes nothing for padding,
    and batch statistics are those of the real items. `ScatterScores` is the way back.

    Examples:
        >>> features = {'x': tf.constant([[[1.], [2.]], [[3.], [0.]]])}
        >>> mask = tf.constant([[True, True], [True, False]])
        >>> _, items = CompactItems()(({}, features, mask))
        >>> items['x'].numpy().tolist()
        [[1.0], [2.0], [3.0]]
    """

    def call(
        self, inputs: tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], tf.Tensor]
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Collects the items.

        Args:
            inputs: context features `[batch, ...]`, example features
                `[batch, list, ...]` and the mask of real items `[batch, list]`.

        Returns:
            Context features repeated for each item, and example features, both
            `[real items, ...]`.
        """
        context_features, example_features, mask = inputs
        positions = tf.where(mask)
        return (
            {k: tf.gather(v, positions[:, 0]) for k, v in context_features.items()},
            {k: tf.gather_nd(v, positions) for k, v in example_features.items()},
        )


@tf.keras.utils.register_keras_serializable(package="tfr_ext")
class ScatterScores(tf.keras.layers.Layer):
    """Puts the scores of compacted items back into their lists.

    Examples:
        >>> mask = tf.constant([[True, True], [True, False]])
        >>> ScatterScores(padding_score=-9.)(([[1.], [2.], [3.]], mask)).numpy()
        array([[ 1.,  2.],
               [ 3., -9.]], dtype=float32)
    """

    def __init__(self, padding_score: float, **kwargs: Any):
        """Initialises the layer.

        Args:
            padding_score: score of padding.
            **kwargs: arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(**kwargs)
        self._padding_score = padding_score

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Scatters the scores.

        Args:
            inputs: scores `[real items, 1]`, and the mask `[batch, list]`.

        Returns:
            Scores `[batch, list]`.
        """
        scores, mask = inputs
        scores = tf.reshape(scores, [-1])
        background = tf.fill(tf.shape(mask), tf.cast(self._padding_score, scores.dtype))
        return tf.tensor_scatter_nd_update(background, tf.where(mask), scores)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that build this layer again."""
        return {**super().get_config(), "padding_score": self._padding_score}
