"""Models that take padded lists, built from a scorer."""

from __future__ import annotations

import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.data.batches.batching import FEATURES, MASK
from tfr_ext.models.ranking_model import RankingModel
from tfr_ext.models.scorers import Preprocessor, Scorer


class RankingModelBuilder:
    """Builds models for batches of `tfr_ext.data`; see `model_builder`."""

    def __init__(
        self, num_features: int, scorer: Scorer, transforms: Preprocessor | None = None
    ):
        """Initialises the builder.

        Args:
            num_features: width of the feature vectors.
            scorer: the scorer of the items.
            transforms: transforms of the features before scoring; none by default.

        Raises:
            ValueError: if Keras has another backend than TensorFlow.
        """
        which_keras.check_backend("This model")
        self._num_features = num_features
        self._scorer = scorer
        self._transforms = transforms

    def build(self) -> RankingModel:
        """Returns a new model."""
        context: dict[str, tf.Tensor] = {}
        features = tf.keras.Input(
            [None, self._num_features], dtype=tf.float32, name=FEATURES
        )
        mask = tf.keras.Input([None], dtype=tf.bool, name=MASK)
        examples = {FEATURES: features}
        if self._transforms is not None:
            context, examples = self._transforms(context, examples, mask)
        outputs = self._scorer(context, examples, mask)
        return RankingModel({FEATURES: features, MASK: mask}, outputs, name="ranker")


def model_builder(
    num_features: int, scorer: Scorer, transforms: Preprocessor | None = None
) -> RankingModelBuilder:
    """Returns a builder of models for batches of `tfr_ext.data`.

    Args:
        num_features: width of the feature vectors.
        scorer: the scorer of the items: an `MLPScorer`, or any scorer of TensorFlow
            Ranking.
        transforms: transforms of the features inside the model, before scoring, such as
            those that `feature_transforms` returns. None by default.

    Returns:
        A builder of models that take `{'float_features': [batch, list, features],
        'mask': [batch, list]}` and return scores `[batch, list]`.

    Examples:
        >>> from tfr_ext.models import MLPScorer
        >>> model = model_builder(5, MLPScorer(hidden_sizes=[16])).build()
        >>> features = tf.zeros([2, 3, 5])
        >>> model({'float_features': features, 'mask': tf.ones([2, 3], bool)}).shape
        TensorShape([2, 3])
    """
    return RankingModelBuilder(num_features, scorer, transforms)


def feature_spec(num_features: int) -> tf.io.FixedLenFeature:
    """Returns how to parse an item's features; missing ones are 0."""
    return tf.io.FixedLenFeature(
        [num_features], tf.float32, default_value=[0.0] * num_features
    )
