"""A Keras model of padded lists that trains the same on one or several replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.data.batches.batching import FEATURES, MASK
from tfr_ext.data.features import Feature, FeatureSpec
from tfr_ext.models.categories import Vocabulary
from tfr_ext.models.scorers import Preprocessor, Scorer
from tfr_ext.models.texts import encoded_inputs


@which_keras.register
class RankingModel(tf.keras.Model):
    """A Keras model that averages losses over the lists of all replicas.

    Keras averages over the lists of each replica and then over the replicas. If one of
    them has fewer lists, as in the last batch of an epoch, these lists weigh more. Here
    two replicas take the same step that one replica would.
    """

    if not which_keras.IS_KERAS_2:
        # Kept as `compile` sets it. Keras 3 itself turns XLA off if operations are
        # deterministic, as some have no deterministic form there. None of those is used
        # here.
        jit_compile = False

        def _maybe_symbolic_build(self, *_: Any, **__: Any) -> None:
            # Under a strategy, Keras 3 creates the variables of metrics before
            # training. To find their shapes, it takes the mean of the first batch over
            # the replicas, which fails for masks and for unequal replicas.
            if self._distribute_strategy is None:
                return
            x = {k: _zeros(v) for k, v in self.input.items()}
            with self._distribute_strategy.scope():
                self._symbolic_build(data_batch=(x, _zeros(self.output)))

        def train_step(self, data: Any) -> Any:
            """Trains on a batch."""
            return _for_workers(super().train_step(data))

        def test_step(self, data: Any) -> Any:
            """Evaluates a batch."""
            return _for_workers(super().test_step(data))

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> tf.Tensor:
        """Computes the loss, weighted by this replica's share of the lists."""
        del training  # Keras 3 passes it, but it is not needed.
        loss = super().compute_loss(x, y, y_pred, sample_weight)
        context = tf.distribute.get_replica_context()
        replicas = context.num_replicas_in_sync if context else 1
        if replicas == 1:
            return loss
        lists = tf.cast(tf.shape(y)[0], loss.dtype)
        everywhere = context.all_reduce(tf.distribute.ReduceOp.SUM, lists)
        share = tf.math.divide_no_nan(lists * replicas, everywhere)

        # The step is weighted, not the value, which Keras 3 weights itself to report
        # it.
        @tf.custom_gradient
        def weighed(value: tf.Tensor) -> Any:
            return tf.identity(value), lambda upstream: upstream * share

        return weighed(loss)


def _for_workers(logs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Adds the first axis over which Keras 3 takes the mean for several workers."""
    strategy = tf.distribute.get_strategy()
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return logs
    return {name: value[tf.newaxis] for name, value in logs.items()}


def _zeros(symbolic: Any) -> tf.Tensor:
    """Returns zeros in the shape of a symbolic tensor, with 1 for unknown sizes."""
    shape = [1 if size is None else size for size in symbolic.shape]
    return tf.zeros(shape, symbolic.dtype)


class RankingModelBuilder:
    """Builds models for batches of `tfr_ext.data`; see `model_builder`."""

    def __init__(
        self,
        num_features: int,
        scorer: Scorer,
        transforms: Preprocessor | None = None,
        spec: FeatureSpec | None = None,
        vocabularies: Mapping[str, Vocabulary] | None = None,
    ):
        """Initialises the builder.

        Args:
            num_features: width of the feature vectors.
            scorer: the scorer of the items.
            transforms: transforms of the features before scoring; none by default.
            spec: what the features are, if they are not only numbers.
            vocabularies: see `tfr_ext.models.vocabularies`.

        Raises:
            ValueError: If Keras has another backend than TensorFlow.
        """
        which_keras.check_backend("This model")
        self._scorer = scorer
        self._transforms = transforms
        # Without names, all numbers are one feature.
        self._spec = spec or FeatureSpec((Feature(FEATURES, width=num_features),))
        self._vocabularies = vocabularies

    def build(self) -> RankingModel:
        """Returns a new model."""
        inputs, context, examples = encoded_inputs(self._spec, self._vocabularies)
        mask = inputs[MASK]
        if self._transforms is not None and FEATURES in examples:
            numbers = {FEATURES: examples.pop(FEATURES)}
            _, numbers = self._transforms({}, numbers, mask)
            examples |= numbers
        outputs = self._scorer(context, examples, mask)
        return RankingModel(inputs, outputs, name="ranker")


def model_builder(
    num_features: int,
    scorer: Scorer,
    transforms: Preprocessor | None = None,
    spec: FeatureSpec | None = None,
    vocabularies: Mapping[str, Vocabulary] | None = None,
) -> RankingModelBuilder:
    """Returns a builder of models for batches of `tfr_ext.data`.

    Args:
        num_features: width of the feature vectors.
        scorer: the scorer of the items: an `MLPScorer`, or any scorer of TensorFlow
            Ranking.
        transforms: transforms of the features inside the model, before scoring, such as
            those that `feature_transforms` returns. None by default.
        spec: what the features are, if they are not only numbers.
        vocabularies: what `tfr_ext.models.vocabularies` returned.

    Returns:
        A builder of models that take `{'float_features': [batch, list, features],
        'mask': [batch, list]}`, and 'ids' and 'context_ids' as `spec` says, and return
        scores `[batch, list]`.

    Examples:
        >>> from tfr_ext.models import MLPScorer
        >>> model = model_builder(5, MLPScorer(hidden_sizes=[16])).build()
        >>> features = tf.zeros([2, 3, 5])
        >>> model({'float_features': features, 'mask': tf.ones([2, 3], bool)}).shape
        TensorShape([2, 3])
    """
    return RankingModelBuilder(num_features, scorer, transforms, spec, vocabularies)
