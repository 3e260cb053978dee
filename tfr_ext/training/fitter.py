"""Fits a model to lists, and keeps its best epoch."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf
from absl import logging

from tfr_ext import losses, models
from tfr_ext.core import messages, which_keras
from tfr_ext.core.messages import say
from tfr_ext.core.system import termination
from tfr_ext.evaluation import Convention, higher_is_better
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.training import checkpoints, diagnosis, lists_datasets, replicas, schedules

# Keras gives this warning if a callback reads the loss: the callback waits for a batch,
# and Keras takes this for the callback's own time.
_SLOW_CALLBACK = "is slow compared to the batch time"


class ModelBuilder(Protocol):
    """Builds a model: `models.model_builder(...)`, or a builder of TFR."""

    def build(self) -> tf.keras.Model:
        """Returns a new model of `{'float_features', 'mask'}`."""


class Fitter:
    """Trains with any loss by key, and keeps the best epoch by a ranking metric.

    `checkpoints/` and `tensorboard/` appear under `config.model_dir`. Interrupted
    training goes on from the last checkpoint, with the same result as without the
    interruption.
    """

    def __init__(
        self,
        model_builder: ModelBuilder,
        dataset_builder: lists_datasets.ListsDatasets,
        config: TrainingConfig,
        strategy: tf.distribute.Strategy | None = None,
        before_writing: Callable[[], None] = lambda: None,
        callbacks: Sequence[tf.keras.callbacks.Callback] = (),
        *,
        loss_params: Mapping[str, Any] | None = None,
        convention: Convention | None = None,
        grade_values: Sequence[float] | None = None,
        label_values: Sequence[float] | None = None,
        resume: bool = True,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        loss_weights: Any = None,
        min_delta: float = 0.0,
    ):
        """Initialises the fitter.

        Args:
            model_builder: builds the model.
            dataset_builder: gives the data.
            config: the settings of the training, with `model_dir`. Those of the data,
                the model and the devices, and how long lists are batched, do not count.
            strategy: the strategy under which to train; None for one device. A strategy
                for several workers must be created before TensorFlow does anything.
            before_writing: called by the writer before anything is written.
            callbacks: further callbacks for `fit`, after all others.
            loss_params: arguments of the loss, by default those of `config.loss`.
            convention: what the metrics mean, by default as `config.evaluation` says.
            grade_values: if given, the model's outputs are logits of grades, and these
                are the grades' values; labels are then distributions over grades.
            label_values: the label that each of these grades stands for in the
                monitored metric; 0, 1, ... by default.
            resume: whether training goes on from the checkpoints in `model_dir`; else
                they are replaced.
            steps_per_epoch: number of batches of an epoch; a whole pass over the lists
                by default.
            validation_steps: number of batches to validate on; all by default.
            loss_weights: factor of the loss, as `compile` takes it.
            min_delta: smallest difference of `monitor` that counts as an improvement.

        Raises:
            ValueError: If the loss, a parameter of it, the optimizer, the monitored
                metric or the schedule is unknown.
        """
        assert config.model_dir is not None
        key, monitor, epochs = config.loss.loss, config.monitor, config.num_epochs
        params = config.loss.arguments() if loss_params is None else dict(loss_params)
        loss = losses.get(key, **params)
        if config.jit_compile_loss and strategy is not None:
            losses.JitCompiledLoss(loss).check_replicas(strategy.num_replicas_in_sync)
        self._convention = convention or config.evaluation.convention()
        self._convention.metric_arguments(monitor)
        self._model_builder = model_builder
        self._dataset_builder = dataset_builder
        self._config = config
        self._strategy = strategy
        self._callbacks = callbacks
        self._grade_values, self._label_values = grade_values, label_values
        self._steps_per_epoch = steps_per_epoch
        self._validation_steps = validation_steps
        self._loss_weights = loss_weights
        self._steps = steps = steps_per_epoch or dataset_builder.train.num_batches
        self._loss_params = schedules.loss_parameters(
            key, params, config.loss.schedules, steps, epochs
        )
        self._learning_rate = schedules.learning_rate(
            config.learning_rate_schedule, config.learning_rate, steps, epochs
        )
        self._optimizer_class = type(tf.keras.optimizers.get(config.optimizer))
        if config.loss.schedules:
            # Schedules only rise or only fall: so a value out of range at the end is
            # found now, and not after hours.
            self.build_loss().set_step(steps * epochs)
        self._training = checkpoints.ResumableTraining(
            os.path.join(config.model_dir, "checkpoints"),
            monitor=f"val_{monitor}",
            higher_is_better=higher_is_better(monitor),
            patience=config.early_stopping_patience,
            min_delta=min_delta,
            writer=self.is_writer,
            every=config.checkpoint_epochs,
            resume=resume,
            before_writing=before_writing,
            minutes=config.checkpoint_minutes,
            strategy=strategy,
        )

    @property
    def is_writer(self) -> bool:
        """Whether this process writes the files."""
        return replicas.is_writer(self._strategy)

    def build_loss(self) -> tf.keras.losses.Loss:
        """Returns the loss to train with."""
        return losses.get(self._config.loss.loss, **self._loss_params)

    def build_metrics(self) -> list[tf.keras.metrics.Metric]:
        """Returns the metrics of each epoch: the monitored one."""
        return [
            self._convention.keras_metric(
                self._config.monitor, self._grade_values, self._label_values
            )
        ]

    def build_callbacks(
        self, model: tf.keras.Model, valid: tf.data.Dataset
    ) -> list[tf.keras.callbacks.Callback]:
        """Returns the callbacks for a bad loss, the checkpoints and TensorBoard.

        Args:
            model: the compiled model.
            valid: the batches to validate on.
        """
        callbacks = [*self._guards(model, valid), self._training]
        if self.is_writer and importlib.util.find_spec("tensorboard") is not None:
            logs = os.path.join(str(self._config.model_dir), "tensorboard")
            callbacks.append(LateTensorBoard(logs))
        elif self.is_writer:
            say(
                "No logs are written for TensorBoard: the package tensorboard is not "
                "installed."
            )
        return callbacks

    def _guards(
        self, model: tf.keras.Model, valid: tf.data.Dataset
    ) -> list[tf.keras.callbacks.Callback]:
        """Returns the callbacks for a bad loss."""
        del model, valid
        return [diagnosis.StopAtBadLoss(self._batch, self._training.batches_before)]

    def _batch(self, epoch: int, batch: int) -> tuple:
        """Returns a training batch again, by epoch and number, both counted from 0."""
        batches = self._dataset_builder.batches_of([epoch], self._steps_per_epoch)
        return next(iter(batches.skip(batch)))

    def train_and_validate(self, verbose: int = 0) -> checkpoints.Trained:
        """Trains, validates after each epoch, and returns the best epoch's model.

        Args:
            verbose: 0 for silence, 1 for a progress bar, 2 for a line per epoch.

        Raises:
            FloatingPointError: If the loss becomes NaN or infinite.
        """
        with replicas.scope(self._strategy), messages.without_logged(_SLOW_CALLBACK):
            model, first = self._compiled()
            progress = self._training.restore(model)
            if verbose and progress.has_begun:
                print(f"Going on after {progress.describe()}.")
            valid = self._dataset_builder.build_valid_dataset()
            valid = valid.take(self._validation_steps or -1)
            callbacks = [*first, *self.build_callbacks(model, valid), *self._callbacks]
            shown = verbose if self.is_writer else 0
            with termination.polled():
                if progress.batches:
                    self._make_metrics(model, valid)
                    last, done = progress.epochs + 1, progress.batches
                    self._fit(model, last, valid, callbacks, shown, done)
                if not (progress.stopped or model.stop_training):
                    self._fit(model, self._config.num_epochs, valid, callbacks, shown)
        # The writer may still be writing the checkpoint that the others will read.
        self.wait_for_all()
        # Built outside the strategy, so that one worker alone can read and use it.
        best = self._model_builder.build()
        self._training.restore_best(best)
        if self._grade_values is not None:
            best = models.with_expected_grade(best, self._grade_values)
        return checkpoints.Trained(best, progress.history, progress.best_epoch)

    def _make_metrics(self, model: tf.keras.Model, valid: tf.data.Dataset) -> None:
        """Gives the metrics the variables that are to be restored."""
        model.evaluate(valid.take(1), verbose=0)

    def _fit(
        self,
        model: tf.keras.Model,
        last: int,
        valid: tf.data.Dataset,
        callbacks: Sequence[tf.keras.callbacks.Callback],
        verbose: int,
        done: int = 0,
    ) -> None:
        """Trains up to epoch `last`; `done` batches of the first epoch are skipped."""
        epochs = self._training.progress.epochs
        if epochs == last:
            return
        # One iterator serves all epochs: ending one takes as long as several steps.
        steps, data = self._steps_per_epoch, self._dataset_builder
        model.fit(
            data.batches_of(range(epochs, last), steps, done),
            steps_per_epoch=self._steps - done,
            shuffle=False,
            initial_epoch=epochs,
            epochs=last,
            validation_data=valid,
            callbacks=callbacks,
            verbose=verbose,
        )

    def wait_for_all(self) -> None:
        """Waits until all workers are here; returns at once where there is one."""
        replicas.wait_for_all(self._strategy)

    def _compiled(self) -> tuple[tf.keras.Model, list[tf.keras.callbacks.Callback]]:
        """Returns a compiled model, and the callbacks that come first."""
        config = self._config
        model = self._model_builder.build()
        loss = self.build_loss()
        # It comes first: the other callbacks take its values from the logs.
        first, diagnostics = [], []
        if isinstance(loss, losses.RankingLoss):
            first.append(losses.LossAnnealing(loss))
            if config.loss.loss_diagnostics:
                diagnostics = loss.diagnostics()
        warn = logging.warning if self.is_writer else lambda line: None
        if config.loss.loss_diagnostics:
            sample = self._dataset_builder.batches_of([0])
            first.append(diagnosis.TrainingDiagnosis(sample, loss, warn=warn))
        else:
            first.append(diagnosis.LossWatch(warn))
        if config.jit_compile_loss:
            loss = losses.JitCompiledLoss(loss)
        model.compile(
            optimizer=self._optimizer_class(learning_rate=self._learning_rate),
            loss=loss,
            metrics=[*self.build_metrics(), *diagnostics],
            weighted_metrics=[],  # Weights are for the loss only.
            loss_weights=self._loss_weights,
            steps_per_execution=self._steps_at_a_time(),
            jit_compile=config.jit_compile,
        )
        # Otherwise the first step would create variables, and be traced twice.
        model.optimizer.build(model.trainable_variables)
        return model, first

    def _steps_at_a_time(self) -> int:
        """Returns the number of steps of an execution."""
        wanted = self._config.steps_per_execution
        if which_keras.IS_KERAS_2:
            return wanted
        # Otherwise the last execution would run into the batches of the next epoch.
        return max(n for n in range(1, wanted + 1) if self._steps % n == 0)


class LateTensorBoard(tf.keras.callbacks.Callback):
    """TensorBoard's own callback, started at the end of the first epoch."""

    def __init__(self, directory: str):
        """Initialises the callback.

        Args:
            directory: where the logs go.
        """
        super().__init__()
        self._directory = directory
        self._board: tf.keras.callbacks.Callback | None = None
        self._validated: dict[str, Any] = {}

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Keeps the results, or passes them on to TensorBoard."""
        self._validated = logs or {}
        if self._board is not None:
            self._board.on_test_end(logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Passes the logs on to TensorBoard, started if need be."""
        if self._board is None:
            self._board = tf.keras.callbacks.TensorBoard(
                self._directory, write_graph=False
            )
            self._board.set_params(self.params)
            self._board.set_model(self.model)
            self._board.on_train_begin()
            self._board.on_epoch_begin(epoch)
            self._board.on_test_end(self._validated)
        else:
            self._board.on_epoch_begin(epoch)
        self._board.on_epoch_end(epoch, logs)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Closes TensorBoard."""
        if self._board is not None:
            self._board.on_train_end(logs)
            self._board = None  # `fit` may be called again.
