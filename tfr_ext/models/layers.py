"""Layers that keep padding out of scorers, and noise on features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core import checks, which_keras

# Functions of symbolic tensors; TensorFlow only accepts those of Keras 2.
symbolic: Any = tf if which_keras.IS_KERAS_2 else tf.keras.ops
# All replicas count the same number of calls.
_ONE_FOR_ALL = (
    tf.VariableAggregation.ONLY_FIRST_REPLICA
    if which_keras.IS_KERAS_2
    else "only_first_replica"
)


@which_keras.register
class CompactItems(tf.keras.layers.Layer):
    """Collects the real items of a batch of lists, leaving out all padding.

    The layers after it see `[real items, features]`: they compute nothing for padding,
    and batch statistics are those of the real items. `ScatterScores` is the inverse.

    Examples:
        >>> features = {'x': tf.constant([[[1.], [2.]], [[3.], [0.]]])}
        >>> mask = tf.constant([[True, True], [True, False]])
        >>> _, items = CompactItems()(({}, features, mask))
        >>> items['x'].numpy().tolist()
        [[1.0], [2.0], [3.0]]
    """

    def __init__(self, **kwargs: Any):
        """Initialises the layer.

        Args:
            **kwargs: arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(**kwargs)
        # Keras 3 uses XLA by default, which needs to know the number of items.
        self.supports_jit = False

    @which_keras.not_converted
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


@which_keras.register
class FlattenItems(tf.keras.layers.Layer):
    """Collects all items of a batch of lists, including padding, with a Keras mask.

    This is for compilers that need static shapes, as the number of items that
    `CompactItems` returns varies. The mask is passed on to layers that use it, such as
    `ItemBatchNormalization`.
    """

    supports_masking = True

    @which_keras.not_converted
    def call(
        self, inputs: tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], tf.Tensor]
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Collects the items.

        Args:
            inputs: see `CompactItems.call`.

        Returns:
            Context features repeated for each item, and example features, both
            `[batch * list, ...]`, 0 at padding.
        """
        context_features, example_features, mask = inputs
        size = tf.shape(mask)[1]
        flat = tf.reshape(mask, [-1])

        def flattened(x: tf.Tensor) -> tf.Tensor:
            x = tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], axis=0))
            return tf.where(
                tf.reshape(flat, [-1] + [1] * (x.shape.rank - 1)), x, tf.zeros_like(x)
            )

        repeated = {
            k: tf.repeat(v[:, tf.newaxis], size, axis=1)
            for k, v in context_features.items()
        }
        outputs = [
            {k: flattened(v) for k, v in features.items()}
            for features in (repeated, example_features)
        ]
        for features, source in zip(outputs, (repeated, example_features)):
            for k, v in features.items():
                v.set_shape([None, *source[k].shape[2:]])
        return outputs[0], outputs[1]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Returns the mask of real items for each output, `[batch * list]`."""
        context_features, example_features, real = inputs
        flat = symbolic.reshape(real, [-1])
        return (
            {k: flat for k in context_features},
            {k: flat for k in example_features},
        )


@which_keras.register
class ScatterScores(tf.keras.layers.Layer):
    """Puts the scores of collected items, or logits of grades, back into their lists.

    Examples:
        >>> scores = tf.constant([[1.], [2.], [3.]])
        >>> mask = tf.constant([[True, True], [True, False]])
        >>> ScatterScores(padding_score=-9.)((scores, mask)).numpy()
        array([[ 1.,  2.],
               [ 3., -9.]], dtype=float32)
    """

    def __init__(self, padding_score: float, compact: bool = True, **kwargs: Any):
        """Initialises the layer.

        Args:
            padding_score: score of padding.
            compact: whether only real items have scores (`CompactItems`), or padding as
                well (`FlattenItems`).
            **kwargs: arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(**kwargs)
        self._padding_score = padding_score
        self._compact = compact

    @which_keras.not_converted
    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Scatters the scores.

        Args:
            inputs: scores `[items, 1]` or logits `[items, grades]`, and the mask
                `[batch, list]`.

        Returns:
            Scores `[batch, list]`, or logits `[batch, list, grades]`.
        """
        scores, mask = inputs
        background = tf.constant(self._padding_score, scores.dtype)
        # For each item, one score or a logit for each grade.
        each = [] if scores.shape[-1] == 1 else [scores.shape[-1]]
        shape = tf.concat([tf.shape(mask), each], axis=0) if each else tf.shape(mask)
        if self._compact:
            scattered = tf.tensor_scatter_nd_update(
                tf.fill(shape, background),
                tf.where(mask),
                tf.reshape(scores, [-1, *each]),
            )
        else:
            real = mask[..., tf.newaxis] if each else mask
            scattered = tf.where(real, tf.reshape(scores, shape), background)
        return tf.ensure_shape(scattered, [*mask.shape, *each])

    def compute_mask(self, inputs: Any, mask: Any = None) -> None:
        """Drops the mask, as losses find padding by its labels."""
        return None

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        return {
            **super().get_config(),
            "padding_score": self._padding_score,
            "compact": self._compact,
        }


class ResumableDraws(tf.keras.layers.Layer):
    """Base of layers with random numbers that a checkpoint can continue.

    The layers of Keras draw from a state that is not in checkpoints, so a resumed run
    would draw other numbers than an uninterrupted one. Here the draws depend on a seed
    and on a counter of calls, which is a weight of the layer.
    """

    def __init__(self, seed: int, **kwargs: Any):
        """Takes a seed, which should differ from those of the model's other layers."""
        super().__init__(**kwargs)
        self._seed = seed

    def build(self, input_shape: Any) -> None:
        """Creates the counter of calls."""
        self._calls = self.add_weight(
            name="calls",
            shape=[],
            dtype="int64",
            initializer="zeros",
            trainable=False,
            aggregation=_ONE_FOR_ALL,
        )
        super().build(input_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        return {**super().get_config(), "seed": self._seed}

    def _next_seed(self) -> tf.Tensor:
        """Returns the seed of the next draw of this replica, and counts it."""
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group if context else 0
        stream = tf.cast(replica, tf.int64) + (self._seed << 16)
        seed = tf.stack([stream, tf.identity(self._calls)])
        self._calls.assign_add(1)
        return seed


@which_keras.register
class ResumableDropout(ResumableDraws):
    """Dropout that a checkpoint can continue; see `ResumableDraws`.

    Examples:
        >>> layer = ResumableDropout(0.5, seed=1)
        >>> first, second = (layer(tf.ones([1, 64]), training=True) for _ in range(2))
        >>> bool(tf.reduce_all(first == second))
        False
        >>> sorted(set(first.numpy().ravel().tolist()))
        [0.0, 2.0]
    """

    def __init__(self, rate: float, seed: int, **kwargs: Any):
        """Initialises the layer.

        Args:
            rate: share of units dropped, in [0, 1).
            seed: seed of the draws; the layers of a model should have different seeds.
            **kwargs: arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(seed, **kwargs)
        self.supports_masking = True
        self._rate = rate

    @which_keras.not_converted
    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Drops units in training, and scales up the others.

        Args:
            inputs: any float tensor.
            training: whether to drop units.
        """
        if not training:
            return inputs
        drawn = tf.random.stateless_uniform(tf.shape(inputs), seed=self._next_seed())
        kept = tf.cast(drawn >= self._rate, inputs.dtype)
        return inputs * kept / (1 - self._rate)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        return {**super().get_config(), "rate": self._rate}


@which_keras.register
class Sum(tf.keras.layers.Layer):
    """The sum of two tensors of one shape.

    Keras' own `Add` takes the second for a bias where there is no item, and fails
    (Keras 3.15).

    Examples:
        >>> Sum()([tf.ones([0, 3]), tf.ones([0, 3])]).shape
        TensorShape([0, 3])
    """

    def __init__(self, **kwargs: Any):
        """Initialises the layer."""
        super().__init__(**kwargs)
        self.supports_masking = True

    @which_keras.not_converted
    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Adds the two inputs."""
        one, other = inputs
        return one + other

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Returns the mask of the first input, as both have the same."""
        return None if mask is None else mask[0]


def all_layers(model: object) -> list[Any]:
    """Returns the layers of a model, or of anything with `layers`, nested ones too."""
    found: list[Any] = []
    for layer in getattr(model, "layers", None) or ():
        found += [layer, *all_layers(layer)]
    return found


def declares_across_lists(model: object) -> bool:
    """Returns whether a layer's `ACROSS_LISTS` says that an output needs its list."""
    return any(getattr(layer, "ACROSS_LISTS", False) for layer in all_layers(model))


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
            ValueError: If `stddev` is negative or not finite.
        """
        super().__init__(seed, **{"dtype": "float32", **kwargs})
        self._stddev = checks.not_negative("stddev", stddev)

    @which_keras.not_converted
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
