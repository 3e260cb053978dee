"""TensorBoard that writes nothing before an epoch has shown that training works."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


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
        """See `tf.keras.callbacks.Callback`."""
        self._validated = logs or {}
        if self._board is not None:
            self._board.on_test_end(logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """See `tf.keras.callbacks.Callback`."""
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
        """See `tf.keras.callbacks.Callback`."""
        if self._board is not None:
            self._board.on_train_end(logs)
            self._board = None  # `fit` may be called again.
