"""Training that can be killed at any moment and goes on as if nothing had happened."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf

_STATE_FILE = "state.json"


@dataclasses.dataclass
class Progress:
    """How far a run has come.

    Attributes:
        epochs: finished epochs.
        history: per finished epoch, losses and metrics.
        best_epoch: the best epoch by the monitored metric, counted from 1; 0 before.
        stopped: whether early stopping ended the run.
    """

    epochs: int = 0
    history: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    best_epoch: int = 0
    stopped: bool = False


class ResumableTraining(tf.keras.callbacks.Callback):
    """Keeps the best epoch, stops early, and saves everything after each epoch.

    The directory holds `state.json`, which names the checkpoint of the last saved
    epoch (weights and optimizer) and that of the best epoch (weights), and has the
    history. It is replaced by a rename after both are written: killed at any moment,
    the directory describes the end of one epoch or of the one before.

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
    ):
        """Initialises the callback.

        Args:
            directory: where the checkpoints are, shared by all workers.
            monitor: name of the metric in the logs, such as 'val_ndcg_10'.
            higher_is_better: whether more of it is better.
            patience: epochs without a better one after which to stop; 0 for never.
            min_delta: the least difference that counts as better.
            writer: whether this process is the one that writes.
            every: epochs from one save to the next; the last is saved in any case.
        """
        super().__init__()
        self._directory = directory
        self._monitor = monitor
        self._sign = 1.0 if higher_is_better else -1.0
        self._patience = patience
        self._min_delta = min_delta
        self._writer = writer
        self._every = every
        # Of the best epoch, if that is not saved yet.
        self._best_weights: list[np.ndarray] | None = None
        self.progress = Progress()

    def restore(self, model: tf.keras.Model) -> Progress:
        """Brings a compiled model to where the last finished epoch left it.

        Args:
            model: the model, built and compiled as before.

        Returns:
            The progress, that of a new run if there is nothing to go on from.
        """
        path = os.path.join(self._directory, _STATE_FILE)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.progress = Progress(**json.load(file))
            model.optimizer.build(model.trainable_variables)
            checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
            checkpoint.read(self._path("last", self.progress.epochs)).assert_consumed()
        return self.progress

    def restore_best(self, model: tf.keras.Model) -> None:
        """Gives a model the weights of the best epoch."""
        path = self._path("best", self.progress.best_epoch)
        tf.train.Checkpoint(model=model).read(path).expect_partial()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """See `tf.keras.callbacks.Callback`."""
        progress = self.progress
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
        if progress.epochs % self._every == 0:
            self._save_all()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """See `tf.keras.callbacks.Callback`."""
        if self.progress.epochs % self._every:
            self._save_all()

    def _save_all(self) -> None:
        epochs, model = self.progress.epochs, self.model
        if self._best_weights is not None:
            weights = model.get_weights()
            model.set_weights(self._best_weights)
            self._save(
                "best", self.progress.best_epoch, tf.train.Checkpoint(model=model)
            )
            model.set_weights(weights)
            self._best_weights = None
        self._save(
            "last",
            epochs,
            tf.train.Checkpoint(model=model, optimizer=model.optimizer),
        )
        if self._writer:
            text = json.dumps(dataclasses.asdict(self.progress), indent=1)
            write_atomically(os.path.join(self._directory, _STATE_FILE), text)
            self._remove_others()

    def _is_better(self, value: float, before: list[float]) -> bool:
        if not self.progress.best_epoch:
            return True
        best = before[self.progress.best_epoch - 1]
        return self._sign * (value - best) > self._min_delta

    def _path(self, kind: str, epoch: int) -> str:
        return os.path.join(self._directory, f"{kind}-{epoch}")

    def _save(self, kind: str, epoch: int, checkpoint: tf.train.Checkpoint) -> None:
        if self._writer:
            os.makedirs(self._directory, exist_ok=True)
            checkpoint.write(self._path(kind, epoch))
            return
        with tempfile.TemporaryDirectory() as aside:
            checkpoint.write(os.path.join(aside, kind))

    def _remove_others(self) -> None:
        """Removes what `state.json` does not name: older, or half written."""
        kept = {f"last-{self.progress.epochs}", f"best-{self.progress.best_epoch}"}
        for name in os.listdir(self._directory):
            if name != _STATE_FILE and name.split(".")[0] not in kept:
                path = os.path.join(self._directory, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def write_atomically(path: str, text: str) -> None:
    """Writes a text file aside and renames it, so that it is there whole or not at all.

    Args:
        path: the file.
        text: all of its content.
    """
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    aside = f"{path}.writing"
    with open(aside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
