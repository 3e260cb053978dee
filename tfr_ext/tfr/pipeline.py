"""Pipelines of TensorFlow Ranking with our losses, and `RankingPipeline`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_ranking as tfr

from tfr_ext import losses
from tfr_ext.core.settings import same_setting
from tfr_ext.data import ElwcFeatures
from tfr_ext.evaluation import Convention
from tfr_ext.models import (
    CompactScorer,
    ExpectedGradeScorer,
    FeatureTransforms,
    ItemScorer,
    RankingModelBuilder,
)
from tfr_ext.serving import exporter
from tfr_ext.settings.model_config import LossConfig
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.training import fitter, lists_datasets


class LossByKey:
    """Gives a pipeline of TensorFlow Ranking the losses of `tfr_ext.losses`.

    `SimplePipeline` and `MultiTaskPipeline` only know the keys of TensorFlow Ranking.
    If this class is listed as a base before one of them, or before another
    `ModelFitPipeline`, `hparams.loss` may be any key that `tfr_ext.losses.get` knows.
    The keys of TensorFlow Ranking give its losses with some faults fixed, see
    `tfr_ext.losses.tfr`.

    Attributes:
        loss_params: arguments of the loss; for several tasks, a dictionary by task.

    Examples:
        >>> import tensorflow_ranking as tfr
        >>> class MyPipeline(LossByKey, tfr.keras.pipeline.SimplePipeline):
        ...     loss_params = {"alpha": 2.0}
        >>> hparams = tfr.keras.pipeline.PipelineHparams(
        ...     model_dir="model", num_epochs=2, steps_per_epoch=5, validation_steps=2,
        ...     learning_rate=0.01, loss="smoothi_loss")
        >>> builder = tfr_ext.models.model_builder(5, tfr_ext.models.MLPScorer([8]))
        >>> datasets = tfr.keras.pipeline.NullDatasetBuilder(None, None)
        >>> MyPipeline(builder, datasets, hparams).build_loss().get_config()["alpha"]
        2.0
    """

    loss_params: Mapping[str, Any] = {}
    _built: tuple[tf.keras.losses.Loss, ...] = ()

    def build_loss(self) -> tf.keras.losses.Loss | dict[str, tf.keras.losses.Loss]:
        """Returns the loss, or the loss of each task.

        Raises:
            ValueError: If a key is unknown, or the loss has no such argument.
        """
        hparams: Any = self._hparams  # type: ignore[attr-defined]

        def built(key: str, params: Mapping[str, Any]) -> tf.keras.losses.Loss:
            loss = losses.get(key, reduction=hparams.loss_reduction, **params)
            self._built += (loss,)
            return loss

        if isinstance(hparams.loss, str):
            return built(hparams.loss, self.loss_params)
        return {
            task: built(key, self.loss_params.get(task, {}))
            for task, key in hparams.loss.items()
        }

    def build_callbacks(self) -> list[tf.keras.callbacks.Callback]:
        """Returns the pipeline's callbacks, after those that set scheduled arguments.

        An argument is scheduled if its value is a Keras schedule, as in
        `loss_params = {"alpha": schedule}`.
        """
        annealing = [
            losses.LossAnnealing(loss)
            for loss in self._built
            if isinstance(loss, losses.RankingLoss)
        ]
        return [*annealing, *super().build_callbacks()]  # type: ignore[misc]


# TensorFlow Ranking checks for these classes before it calls them.
tfr.keras.model.AbstractModelBuilder.register(RankingModelBuilder)
tfr.keras.model.Preprocessor.register(FeatureTransforms)
tfr.keras.model.Scorer.register(ExpectedGradeScorer)
tfr.keras.model.Scorer.register(ItemScorer)
tfr.keras.model.UnivariateScorer.register(CompactScorer)


@dataclasses.dataclass(kw_only=True)
class RankingHparams(tfr.keras.pipeline.PipelineHparams):
    """Hyper-parameters of `RankingPipeline`: those of a `Fitter` and TFR's.

    What is named as a setting of `TrainingConfig` or an argument of `Fitter` is the
    same, but without `checkpoint_minutes` nothing is saved in the middle of an epoch.
    Of TFR's, `strategy`, `cluster_resolver`, `variable_partitioner` and `tpu` determine
    on which devices the model is trained.

    Attributes:
        loss: key of the loss.
        loss_params: its arguments; a lambda weight is one, see
            `tfr_ext.losses.tfr.lambda_weights`.
        loss_schedules: schedules of some of them, as `schedules` of `LossConfig`.
        loss_reduction: its reduction; its own default if left out.

    Examples:
        >>> hparams = RankingHparams(
        ...     model_dir="model", num_epochs=2, learning_rate=0.01,
        ...     loss="smoothi_loss", loss_params={"alpha": 2.0})
        >>> hparams.optimizer, hparams.strategy
        ('adam', None)
    """

    model_dir: str
    num_epochs: int
    learning_rate: float
    loss: str
    steps_per_epoch: int | None = None
    validation_steps: int | None = None
    loss_reduction: str | None = None
    loss_params: dict[str, Any] = dataclasses.field(default_factory=dict)
    loss_schedules: dict[str, str] = dataclasses.field(default_factory=dict)
    convention: Convention = dataclasses.field(default_factory=Convention)
    monitor: str = same_setting(TrainingConfig, "monitor")
    learning_rate_schedule: str = same_setting(TrainingConfig, "learning_rate_schedule")
    jit_compile: bool = same_setting(TrainingConfig, "jit_compile")
    jit_compile_loss: bool = same_setting(TrainingConfig, "jit_compile_loss")
    grade_values: Sequence[float] | None = None
    label_values: Sequence[float] | None = None
    loss_diagnostics: bool = same_setting(LossConfig, "loss_diagnostics")
    checkpoint_epochs: int = same_setting(TrainingConfig, "checkpoint_epochs")
    checkpoint_minutes: float = 0.0
    steps_per_execution: int = same_setting(TrainingConfig, "steps_per_execution")
    resume: bool = True

    def __post_init__(self) -> None:
        """Refuses settings of TensorFlow Ranking that have no effect here."""
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

    def config(self) -> TrainingConfig:
        """Returns the settings of training that these are."""
        own = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(TrainingConfig)
            if hasattr(self, field.name) and field.name != "strategy"
        }
        own["loss"] = LossConfig(
            self.loss,
            schedules=self.loss_schedules,
            loss_diagnostics=self.loss_diagnostics,
        )
        own.setdefault("early_stopping_patience", 0)
        return TrainingConfig(**own)


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
            ValueError: If the labels do not have the expected form, or the lists have
                categories.
        """
        super().__init__(*args, **kwargs)
        for lists in (*args, *kwargs.values()):
            spec = getattr(lists, "spec", None)
            if spec is not None and not spec.is_numeric:
                names = ", ".join(feature.name for feature in spec.others)
                raise ValueError(
                    "Pipelines of TensorFlow Ranking take numbers only, and these are "
                    f"none: {names}. Train with `tfr_ext.training.train`."
                )
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
            ValueError: If the loss, a parameter of it, the optimizer, the monitored
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
        params = dict(hparams.loss_params)
        if hparams.loss_reduction is not None:
            params["reduction"] = hparams.loss_reduction
        self._hparams = hparams  # For mix-ins, such as `LossByKey`.
        super().__init__(
            model_builder,
            dataset_builder,
            hparams.config(),
            strategy,
            before_writing,
            loss_params=params,
            convention=hparams.convention,
            grade_values=hparams.grade_values,
            label_values=hparams.label_values,
            resume=hparams.resume,
            steps_per_epoch=hparams.steps_per_epoch,
            validation_steps=hparams.validation_steps,
            loss_weights=hparams.loss_weights,
            min_delta=hparams.early_stopping_min_delta,
        )

    def build_weighted_metrics(self) -> list[tf.keras.metrics.Metric]:
        """Returns no metrics, as weights are for the loss only."""
        return []
