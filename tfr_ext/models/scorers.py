"""Scorers for `tfr.keras.model.ModelBuilder` that never see padding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf
import tensorflow_ranking as tfr

from tfr_ext.data.batching import FEATURES, MASK
from tfr_ext.models import layers

# What TensorFlow Ranking's own models give padding; some of its losses, which divide
# scores by a temperature, are not finite with lower ones. An export has the lowest.
_PADDING_SCORE = math.log(1e-10)


class CompactScorer(tfr.keras.model.UnivariateScorer):
    """Base of univariate scorers that compute nothing for padding.

    TensorFlow Ranking's `UnivariateScorer` fills padding with copies of real items,
    which costs their computation and lets them count twice in batch statistics. A
    subclass implements `_score_flattened`, as there.
    """

    def __call__(
        self,
        context_features: dict[str, tf.Tensor],
        example_features: dict[str, tf.Tensor],
        mask: tf.Tensor,
    ) -> tf.Tensor:
        """Scores the real items of all lists; see `tfr.keras.model.Scorer`."""
        context, examples = layers.CompactItems(name="compact_items")(
            (context_features, example_features, mask)
        )
        scores = self._score_flattened(context, examples)
        # Scores in float32 under any precision policy, as losses want them.
        return layers.ScatterScores(_PADDING_SCORE, name="scores", dtype="float32")(
            (scores, mask)
        )


class MLPScorer(CompactScorer):
    """A fully connected network: the SmoothI paper's, with its sizes by default.

    Input batch normalisation, then for each hidden layer a dense layer, ReLU, batch
    normalisation and dropout, then one linear unit.
    """

    def __init__(
        self,
        hidden_sizes: Sequence[int] = (1024,),
        batch_normalization: bool = True,
        batch_norm_momentum: float = 0.9,
        dropout: float = 0.0,
    ):
        """Initialises the scorer.

        Args:
            hidden_sizes: units of each hidden layer; none makes the scorer linear.
            batch_normalization: whether inputs and hidden layers are normalised.
            batch_norm_momentum: of the moving statistics, in [0, 1). Keras' own .99
                needs more steps than a small collection gives.
            dropout: share of hidden units dropped in training, in [0, 1).

        Raises:
            ValueError: if an argument is out of range.
        """
        if any(size < 1 for size in hidden_sizes):
            raise ValueError(
                f"`hidden_sizes` must be positive. Received: {list(hidden_sizes)}."
            )
        for name, value in (
            ("batch_norm_momentum", batch_norm_momentum),
            ("dropout", dropout),
        ):
            if not 0 <= value < 1:
                raise ValueError(f"`{name}` must be in [0, 1). Received: {value}.")
        self._hidden_sizes = list(hidden_sizes)
        self._batch_normalization = batch_normalization
        self._momentum = batch_norm_momentum
        self._dropout = dropout

    def _score_flattened(
        self,
        context_features: dict[str, tf.Tensor],
        example_features: dict[str, tf.Tensor],
    ) -> tf.Tensor:
        features = [context_features[k] for k in sorted(context_features)]
        features += [example_features[k] for k in sorted(example_features)]
        x = features[0] if len(features) == 1 else tf.concat(features, axis=1)
        x = self._normalized(x, "input_normalization")
        for i, size in enumerate(self._hidden_sizes, 1):
            x = tf.keras.layers.Dense(size, activation="relu", name=f"hidden_{i}")(x)
            x = self._normalized(x, f"normalization_{i}")
            if self._dropout:
                x = tf.keras.layers.Dropout(self._dropout, name=f"dropout_{i}")(x)
        return tf.keras.layers.Dense(1, name="score")(x)

    def _normalized(self, x: tf.Tensor, name: str) -> tf.Tensor:
        if not self._batch_normalization:
            return x
        return tf.keras.layers.BatchNormalization(momentum=self._momentum, name=name)(x)


def model_builder(
    num_features: int, scorer: tfr.keras.model.Scorer
) -> tfr.keras.model.ModelBuilder:
    """Returns a TFR model builder for batches of `tfr_ext.data`.

    Args:
        num_features: width of the feature vectors.
        scorer: what scores the items.

    Returns:
        A builder of models that take `{'float_features': [batch, list, features],
        'mask': [batch, list]}` and give scores `[batch, list]`.

    Examples:
        >>> model = model_builder(5, MLPScorer(hidden_sizes=[16])).build()
        >>> features = tf.zeros([2, 3, 5])
        >>> model({'float_features': features, 'mask': tf.ones([2, 3], bool)}).shape
        TensorShape([2, 3])
    """
    spec = {FEATURES: feature_spec(num_features)}
    return tfr.keras.model.ModelBuilder(
        input_creator=tfr.keras.model.FeatureSpecInputCreator({}, spec),
        preprocessor=tfr.keras.model.PreprocessorWithSpec(),
        scorer=scorer,
        mask_feature_name=MASK,
        name="ranker",
    )


def feature_spec(num_features: int) -> tf.io.FixedLenFeature:
    """Returns how an item's features are parsed; absent ones are 0."""
    return tf.io.FixedLenFeature(
        [num_features], tf.float32, default_value=[0.0] * num_features
    )
