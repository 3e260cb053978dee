"""Checkpoints from which killed training resumes with the same result."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.core.files import without_wildcards, write_atomically
from tfr_ext.core.system import termination
from tfr_ext.runs.owned_files import CHECKPOINT
from tfr_ext.runs.run_progress import REMEDY, STATE_FILE, Progress, read_progress
from tfr_ext.training import replicas

# Found in the names that a model of the other Keras gives its variables.
_OTHER_KERAS = "/_operations/" if which_keras.IS_KERAS_2 else "/layer_with_weights-"


@dataclasses.dataclass(frozen=True)
class Trained:
    """Result of training.

    Attributes:
        model: a model, outside of any strategy, with the weights of the best epoch. It
            gives scores `[batch, list]`; these are expected grades if it is trained on
            grades.
        history: per epoch, the loss and metrics in training and validation.
        best_epoch: the best epoch by the monitored metric, counted from 1.
    """

    model: tf.keras.Model
    history: dict[str, list[float]]
    best_epoch: int


class ResumableTraining(tf.keras.callbacks.Callback):
    """Keeps the best epoch, stops early, and saves everything after each epoch.

    The directory holds `state.json`, which names the last checkpoint (weights and
    optimizer) and that of the best epoch (weights), and has the history. It is replaced
    by a rename after both are written: whenever training is killed, the directory
    describes the end of the last epoch or of the one before, or, as `minutes` says, a
    batch between them. A checkpoint in an epoch also has the metrics of its batches.

    If it is asked to end (`termination`), it saves after the batch, or after the epoch
    if that was the last, and raises `KeyboardInterrupt`.

    Under a strategy of several workers every worker has to take part in saving; those
    that are not the `writer` write to a directory that they throw away.
    """

    def __init__(
        self,
        directory: str,
        monitor: str,
        higher_is_better: bool,
        patience: int = 0,
        min_delta: float = 0.0,
        writer: bool = True,
        every: int = 1,
        resume: bool = True,
        before_writing: Callable[[], None] = lambda: None,
        minutes: float = 0.0,
        strategy: tf.distribute.Strategy | None = None,
    ):
        """Initialises the callback.

        Args:
            directory: where the checkpoints are, shared by all workers.
            monitor: name of the metric in the logs, such as 'val_ndcg_10'.
            higher_is_better: whether more of it is better.
            patience: number of epochs without improvement after which to stop; 0 for
                never.
            min_delta: the smallest difference that counts as an improvement.
            writer: whether this process is the one that writes.
            every: number of epochs from one save to the next; the last epoch is always
                saved.
            resume: whether to go on from the checkpoints that are there.
            before_writing: called by the writer before anything is written.
            minutes: minutes from one save to the next in the middle of an epoch; 0 for
                none.
            strategy: the strategy under which it trains. All its workers agree on when
                they save.
        """
        super().__init__()
        self._directory = directory
        self._monitor = monitor
        self._sign = 1.0 if higher_is_better else -1.0
        self._patience = patience
        self._min_delta = min_delta
        self._writer = writer
        self._every = every
        self._resume = resume
        self._before_writing: Callable[[], None] | None = before_writing
        # Weights of the best epoch, if they are not saved yet.
        self._best_weights: list[np.ndarray] | None = None
        self._seconds = 60 * minutes
        self._agreement = replicas.Agreement(strategy)
        self._strategy = strategy
        self._files = replicas.files_of(strategy)
        # Keras calls no others for the steps of remote workers.
        self._supports_tf_logs = replicas.has_servers(strategy)
        self._calls = 0
        self._saved_at = time.monotonic()
        # In the epoch in which training resumes: the number of batches done, and the
        # checkpoint with their metrics.
        self._done, self._partial = 0, ""
        self.progress = Progress()

    def restore(self, model: tf.keras.Model) -> Progress:
        """Restores a compiled model to its state at the last checkpoint.

        Args:
            model: the model, built and compiled as before.

        Returns:
            The progress, that of a new run if there is nothing to go on from.

        Raises:
            ValueError: If the directory has checkpoints of another training, or
                checkpoints that cannot be read.
        """
        if not self._resume:
            return self.progress
        found = read_progress(self._directory)
        if found is None:
            self._check_empty()
            return self.progress
        self.progress = found
        if found.has_begun:
            # If it were built again, Keras 3's optimizer for float16 would have two
            # loss scales.
            if not getattr(model.optimizer, "built", False):
                model.optimizer.build(model.trainable_variables)
            checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
            path = self._path("last", found.epochs, found.batches)
            # Keras gives metrics their variables later.
            _read(checkpoint, path, whole=not found.batches, files=self._files)
            self._done, self._partial = found.batches, path if found.batches else ""
        return self.progress

    def restore_best(self, model: tf.keras.Model) -> None:
        """Gives a model the weights of the best epoch.

        Raises:
            ValueError: If its checkpoint cannot be read.
        """
        restore_best(model, self._directory, self.progress)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Starts the clock of `minutes`."""
        self._saved_at = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Restores the metrics of a partial epoch."""
        if self._partial:  # Keras has just reset the metrics.
            _read(_metrics(self.model), self._partial, files=self._files)
            self._partial = ""

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Saves a partial epoch when it is due or a shutdown is requested.

        Raises:
            KeyboardInterrupt: If training is asked to end.
        """
        self._calls += 1
        if batch + 1 == self.params["steps"] or self._calls % self._agreement.every:
            return
        due = 0 < self._seconds <= time.monotonic() - self._saved_at
        if self._agreement.any(due or termination.is_requested()):
            self.progress.batches = self._done + batch + 1
            replicas.join(self._strategy)
            self._save_all()
            if self._agreement.any(termination.is_requested()):
                termination.end()

    def batches_before(self, epoch: int) -> int:
        """Returns how many batches of an epoch, from 0, were done before this call."""
        return self._done if epoch == self.progress.epochs else 0

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keeps the best weights, stops early, and saves when it is due.

        Raises:
            KeyboardInterrupt: If training is asked to end.
        """
        self._claim()
        progress = self.progress
        progress.batches = self._done = 0
        before = progress.history.get(self._monitor, [])
        for name, value in (logs or {}).items():
            progress.history.setdefault(name, []).append(float(value))
        progress.epochs = epoch + 1
        if self._is_better(progress.history[self._monitor][-1], before):
            progress.best_epoch = epoch + 1
            self._best_weights = self.model.get_weights()
        waited = progress.epochs - progress.best_epoch
        if self._patience and waited >= self._patience:
            progress.stopped = True
            self.model.stop_training = True
        asked = self._agreement.any(termination.is_requested())
        if asked or progress.epochs % self._every == 0:
            self._save_all()
        if asked:
            termination.end()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Saves the last epoch, if `every` left it out."""
        if self.progress.epochs % self._every:
            self._save_all()

    def _claim(self) -> None:
        """Calls `before_writing`, once."""
        if self._writer and self._before_writing is not None:
            self._before_writing()
            self._before_writing = None

    def _save_all(self) -> None:
        epochs, model = self.progress.epochs, self.model
        self._claim()
        if self._writer and read_progress(self._directory) is None:
            # Without this file, nothing says whose an unfinished checkpoint is.
            self._write_state(Progress())
        if self._best_weights is not None:
            weights = model.get_weights()
            model.set_weights(self._best_weights)
            self._save(
                "best", self.progress.best_epoch, tf.train.Checkpoint(model=model)
            )
            model.set_weights(weights)
            self._best_weights = None
        everything = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
        if self.progress.batches:
            everything.metrics = _metrics(model).metrics
        self._save("last", epochs, everything, self.progress.batches)
        if self._writer:
            self._write_state(self.progress)
            self._remove_others()
        self._saved_at = time.monotonic()

    def _write_state(self, progress: Progress) -> None:
        text = json.dumps(dataclasses.asdict(progress), indent=1)
        write_atomically(os.path.join(self._directory, STATE_FILE), text)

    def _is_better(self, value: float, before: list[float]) -> bool:
        if not self.progress.best_epoch:
            return True
        best = before[self.progress.best_epoch - 1]
        return self._sign * (value - best) > self._min_delta

    def _path(self, kind: str, epoch: int, batches: int = 0) -> str:
        name = f"{kind}-{epoch}-{batches}" if batches else f"{kind}-{epoch}"
        return os.path.join(self._directory, name)

    def _save(
        self, kind: str, epoch: int, checkpoint: tf.train.Checkpoint, batches: int = 0
    ) -> None:
        if self._writer:
            os.makedirs(self._directory, exist_ok=True)
            checkpoint.write(self._path(kind, epoch, batches), self._files)
            return
        with tempfile.TemporaryDirectory() as aside:
            checkpoint.write(os.path.join(aside, kind))

    def _check_empty(self) -> None:
        """Checks that there are no checkpoints, which would be replaced."""
        names = os.listdir(self._directory) if os.path.isdir(self._directory) else []
        found = sorted(filter(CHECKPOINT.fullmatch, names))
        if found:
            raise ValueError(
                f"{self._directory} has {found[0]}, but no {STATE_FILE} that says "
                "which training it belongs to. Name another directory, or move the "
                "checkpoints away."
            )

    def _remove_others(self) -> None:
        """Removes checkpoints that `state.json` does not name, old or unfinished."""
        found = self.progress
        last = self._path("last", found.epochs, found.batches)
        kept = {os.path.basename(last), f"best-{found.best_epoch}"}
        for name in os.listdir(self._directory):
            if CHECKPOINT.fullmatch(name) and name.split(".")[0] not in kept:
                path = os.path.join(self._directory, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def _metrics(model: tf.keras.Model) -> tf.train.Checkpoint:
    """Returns a checkpoint of the metrics of an epoch so far."""
    variables = [v for metric in model.metrics for v in metric.variables]
    if not which_keras.IS_KERAS_2:
        variables = [variable.value for variable in variables]
    return tf.train.Checkpoint(metrics=variables)


def restore_best(model: tf.keras.Model, directory: str, progress: Progress) -> None:
    """Gives a model the weights of the best epoch.

    Args:
        model: the model, built as before.
        directory: directory of the checkpoints.
        progress: what `read_progress` returned.

    Raises:
        ValueError: If the checkpoint cannot be read.
    """
    path = os.path.join(directory, f"best-{progress.best_epoch}")
    _read(tf.train.Checkpoint(model=model), path)


def _read(
    checkpoint: tf.train.Checkpoint,
    path: str,
    whole: bool = False,
    files: tf.train.CheckpointOptions | None = None,
) -> None:
    """Reads a checkpoint, all of which must be used if `whole`."""
    folder, name = os.path.split(path)
    try:
        with without_wildcards(folder) as plain:
            plain = os.path.join(plain, name)
            if any(_OTHER_KERAS in name for name, _ in tf.train.list_variables(plain)):
                raise ValueError(
                    f"{which_keras.other_name()} wrote it, and this process has "
                    f"{which_keras.name()}"
                )
            status = checkpoint.read(plain, files)
            if whole:
                status.assert_consumed()
            else:
                status.expect_partial().assert_existing_objects_matched()
    except (
        tf.errors.OpError,
        AssertionError,
        IndexError,
        RuntimeError,
        ValueError,
    ) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{path}: the checkpoint cannot be read: {reason}. {REMEDY}"
        ) from error
