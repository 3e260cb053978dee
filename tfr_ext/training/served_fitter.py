"""Fits a model that is trained with parameter servers."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core import messages
from tfr_ext.core.settings import given
from tfr_ext.training import fitter, parameter_servers

# TensorFlow warns that it saves weights of other machines anew each time, and repeats,
# at length, that a worker is gone.
_HIDDEN = ("MultiDeviceSaver.save", "/job:worker")
_OPTIONS = "To make it possible to preserve tf.data options"
# Numbers of further epochs, whose batches replace those that a worker takes with it
# when it is killed.
_SPARE = 1 << 20


def check_callbacks(callbacks: Sequence[tf.keras.callbacks.Callback]) -> None:
    """Checks that none wants a call for each batch, whose results are elsewhere."""
    for callback in callbacks:
        if callback._implements_train_batch_hooks() and not callback._supports_tf_logs:
            raise ValueError(
                f"{given('strategy', parameter_servers.NAME)} calls no method of a "
                "callback before or after a batch, but "
                f"{type(callback).__name__} of `callbacks` has one."
            )


class ServedFitter(fitter.Fitter):
    """A `Fitter` of the chief, whose workers take the steps."""

    def __init__(self, *args: Any, **kwargs: Any):
        """Initialises the fitter as `Fitter` does, and checks the callbacks."""
        super().__init__(*args, **kwargs)
        check_callbacks(self._callbacks)
        self._cluster = parameter_servers.own_cluster()

    def train_and_validate(self, verbose: int = 0) -> Any:
        """Trains, validates after each epoch, and returns the best epoch's model."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(parameter_servers.watched_workers(self._cluster))
            for text in _HIDDEN:
                stack.enter_context(messages.without_logged(text))
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", _OPTIONS)
            # Keras shows no bar, which would wait for each step.
            return super().train_and_validate(2 if verbose else 0)

    def _compiled(self) -> tuple[tf.keras.Model, list[tf.keras.callbacks.Callback]]:
        model, first = super()._compiled()
        for callback in first:  # They read no logs of batches.
            callback._supports_tf_logs = True
        return model, first

    def _guards(
        self, model: tf.keras.Model, valid: tf.data.Dataset
    ) -> list[tf.keras.callbacks.Callback]:
        def build() -> tf.keras.Model:
            copy = self._model_builder.build()
            copy.compile(
                loss=model.loss,
                metrics=self.build_metrics(),
                weighted_metrics=[],
                loss_weights=self._loss_weights,
            )
            return copy

        workers = len(self._cluster.of("worker"))
        assert self._strategy is not None
        return [
            parameter_servers.Pace(self._strategy, workers),
            parameter_servers.ValidationHere(build, valid),
        ]

    def _make_metrics(self, model: tf.keras.Model, valid: tf.data.Dataset) -> None:
        feed = parameter_servers.Feed(valid.repeat(), self._cluster.own.host)
        model.evaluate(feed.dataset("metrics"), steps=1, verbose=0)

    def _fit(
        self,
        model: tf.keras.Model,
        last: int,
        valid: tf.data.Dataset,
        callbacks: Sequence[tf.keras.callbacks.Callback],
        verbose: int,
        done: int = 0,
    ) -> None:
        epochs = self._training.progress.epochs
        if epochs == last:
            return
        batches = self._dataset_builder.batches_of(
            range(epochs, last + _SPARE), self._steps_per_epoch, done
        )
        feed = parameter_servers.Feed(batches, self._cluster.own.host)
        model.fit(
            feed.dataset("training"),
            steps_per_epoch=self._steps - done,
            shuffle=False,
            initial_epoch=epochs,
            epochs=last,
            callbacks=callbacks,
            verbose=verbose,
        )
