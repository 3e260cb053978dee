"""Scorers that never see padding.

A scorer is called like those of TensorFlow Ranking, with context features, example
features and the mask, so it can also be used in a `tfr.keras.model.ModelBuilder`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable

import tensorflow as tf

from tfr_ext.models import layers

# The score that TensorFlow Ranking's own models give padding. Some of its losses, which
# divide scores by a temperature, are not finite for lower scores. Exports use the
# lowest score.
PADDING_SCORE = math.log(1e-10)

# How the names of features begin that are embeddings, which are not normalised.
EMBEDDED = "embedded_"

Features = dict[str, tf.Tensor]
# Maps context features, example features and the mask of real items to scores
# `[batch, list]`, or to logits of grades `[batch, list, grades]`.
Scorer = Callable[[Features, Features, tf.Tensor], tf.Tensor]
# Maps the same to context and example features.
Preprocessor = Callable[[Features, Features, tf.Tensor], tuple[Features, Features]]


class ItemScorer(abc.ABC):
    """Base of scorers whose layers take items, not lists, and never see padding.

    Its subclasses are `CompactScorer`, whose score of an item depends on the item
    alone, and the scorers with self-attention.

    `compact=False` keeps padding in for XLA, which needs static shapes: the padding is
    computed in vain, but a Keras mask keeps it out of batch statistics.
    """

    def __init__(self, compact: bool = True):
        """Initialises the scorer.

        Args:
            compact: whether padding is left out of the computation.
        """
        self._compact = compact

    def __call__(
        self, context_features: Features, example_features: Features, mask: tf.Tensor
    ) -> tf.Tensor:
        """Scores the real items of all lists.

        Features of lists are `[batch, ...]`, and those of items `[batch, list, ...]`.
        The mask, `[batch, list]`, is True at real items. Scores are `[batch, list]`, or
        `[batch, list, outputs]` for several outputs.
        """
        # Features stay in float32 under any precision policy, as float16 ends at
        # 65,504.
        collect = layers.CompactItems if self._compact else layers.FlattenItems
        context, examples = collect(name="items", dtype="float32")(
            (context_features, example_features, mask)
        )
        scores = self._score_items(context, examples, mask)
        return layers.ScatterScores(
            PADDING_SCORE, self._compact, name="scores", dtype="float32"
        )((scores, mask))

    @abc.abstractmethod
    def _score_items(
        self, context_features: Features, example_features: Features, mask: tf.Tensor
    ) -> tf.Tensor:
        """Scores the items of all lists: `[items, 1]`, or `[items, outputs]`.

        Features, of each item and of its list, are `[items, ...]`: the lists one after
        the other, without padding if `compact`. The mask, `[batch, list]`, is True at
        real items.
        """


class CompactScorer(ItemScorer):
    """Base of univariate scorers that compute nothing for padding.

    TensorFlow Ranking's `UnivariateScorer` fills padding with copies of real items,
    which wastes computation and counts these items twice in batch statistics. As there,
    a subclass implements `_score_flattened`.
    """

    def _score_items(
        self, context_features: Features, example_features: Features, mask: tf.Tensor
    ) -> tf.Tensor:
        del mask  # An item's score does not depend on its list.
        return self._score_flattened(context_features, example_features)

    @abc.abstractmethod
    def _score_flattened(
        self, context_features: Features, example_features: Features
    ) -> tf.Tensor:
        """Scores items one by one: `[items, 1]`, or `[items, outputs]`.

        Features, of each item and of its list, are `[items, ...]`.
        """
