"""The training loop of this package as a pipeline of TensorFlow Ranking."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_ranking as tfr

from tfr_ext.data import ElwcFeatures
from tfr_ext.models import (
    CompactScorer,
    ExpectedGradeScorer,
    FeatureTransforms,
    ItemScorer,
    RankingModelBuilder,
)
from tfr_ext.training import exporter
from tfr_ext.training.fitting import fitter, lists_datasets

# TensorFlow Ranking checks for these classes before it calls them.
tfr.keras.model.AbstractModelBuilder.register(RankingModelBuilder)
tfr.keras.model.Preprocessor.register(FeatureTransforms)
tfr.keras.model.Scorer.register(ExpectedGradeScorer)
tfr.keras.model.Scorer.register(ItemScorer)
tfr.keras.model.UnivariateScorer.register(CompactScorer)


@dataclasses.dataclass(kw_only=True)
class RankingHparams(fitter.Hparams, tfr.keras.pipeline.PipelineHparams):
    """Hyper-parameters of `RankingPipeline`: those of a `Fitter` and TFR's.

    Of the latter, `strategy`, `cluster_resolver`, `variable_partitioner` and `tpu`
    determine on which devices the model is trained.

    Examples:
        >>> hparams = RankingHparams(
        ...     model_dir="model", num_epochs=2, learning_rate=0.01,
        ...     loss="smoothi_loss", loss_params={"alpha": 2.0})
        >>> hparams.optimizer, hparams.strategy
        ('adam', None)
    """

    def __post_init__(self) -> None:
        """Refuses settings of TensorFlow Ranking's pipeline without an effect here."""
        for name in (
            "automatic_reduce_lr",
            "use_weighted_metrics",
            "export_best_model",
        ):
            if getattr(self, name):
                raise ValueError(
                    f"`{name}` has no effect here: the best epoch by `monitor` is "
                    "kept, and `learning_rate_schedule` changes the learning rate."
                )


class ListsDatasetBuilder(
    lists_datasets.ListsDatasets, tfr.keras.pipeline.AbstractDatasetBuilder
):
    """Provides a pipeline with lists, and with the serving signatures for them."""

    def __init__(
        self,
        *args: Any,
        elwc_features: ElwcFeatures | None = None,
        **kwargs: Any,
    ):
        """Initialises the builder.

        Args:
            *args: arguments of `ListsDatasets`: the lists to train and to validate on,
                the batch size and the seed.
            elwc_features: see `exporter.signatures`.
            **kwargs: keyword arguments of `ListsDatasets`.

        Raises:
            ValueError: if the labels do not have the expected form.
        """
        super().__init__(*args, **kwargs)
        self._elwc_features = elwc_features

    def build_train_dataset(self, steps: int | None = None) -> tf.data.Dataset:
        """Returns one epoch; each iteration of it is the next epoch.

        Args:
            steps: number of batches per epoch, by default a whole pass over the lists.
        """
        return self.train.dataset(steps)

    def build_signatures(self, model: tf.keras.Model) -> dict[str, Callable]:
        """Returns the functions that serve a model."""
        return exporter.signatures(model, self._elwc_features)


class RankingPipeline(fitter.Fitter, tfr.keras.pipeline.ModelFitPipeline):
    """`Fitter` as a pipeline of TensorFlow Ranking that subclasses can change.

    Examples:
        >>> import tempfile
        >>> lists = tfr_ext.data.synthetic_lists(20, 5, seed=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pipeline = RankingPipeline(
        ...         tfr_ext.models.model_builder(
        ...             lists.num_features, tfr_ext.models.MLPScorer([4])),
        ...         ListsDatasetBuilder(lists, lists, batch_size=8, seed=1),
        ...         RankingHparams(model_dir=folder, num_epochs=2, learning_rate=0.01,
        ...                        loss="smoothi_loss"))
        ...     trained = pipeline.train_and_validate()
        >>> len(trained.history["val_ndcg_10"])
        2
    """

    def __init__(
        self,
        model_builder: tfr.keras.model.AbstractModelBuilder,
        dataset_builder: ListsDatasetBuilder,
        hparams: RankingHparams,
        strategy: tf.distribute.Strategy | None = None,
        before_writing: Callable[[], None] = lambda: None,
    ):
        """Initialises the pipeline.

        Args:
            model_builder: builds the model.
            dataset_builder: provides the data.
            hparams: hyper-parameters.
            strategy: the strategy to use instead of the one that `hparams.strategy`
                names, as a strategy for several workers has to be created before
                TensorFlow does anything.
            before_writing: see `Fitter`.

        Raises:
            ValueError: if the loss, a parameter of it, the optimizer, the monitored
                metric or the schedule is unknown.
        """
        self._validate_parameters(model_builder, dataset_builder)
        if strategy is None:
            strategy = tfr.keras.strategy_utils.get_strategy(
                hparams.strategy,
                hparams.cluster_resolver,
                hparams.variable_partitioner,
                hparams.tpu,
            )
        super().__init__(
            model_builder, dataset_builder, hparams, strategy, before_writing
        )

    def build_weighted_metrics(self) -> list[tf.keras.metrics.Metric]:
        """Returns no metrics, as weights are for the loss only."""
        return []
