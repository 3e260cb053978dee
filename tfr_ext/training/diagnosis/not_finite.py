"""Finds out why a loss is not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import inputs


def cause(model: tf.keras.Model, features: Any, y_true: inputs.TensorLike) -> str:
    """Looks for the cause of a NaN or infinite loss of a batch.

    Args:
        model: the model, as it is after the batch.
        features: what the model takes.
        y_true: the labels.

    Returns:
        A sentence: the first of labels, features, weights and scores that is not
        finite, a label above the `max_label` of the loss, or else how large the scores
        are.

    Examples:
        >>> model = tf.keras.Sequential([tf.keras.layers.Reshape([2])])
        >>> cause(model, tf.ones([1, 2, 1]), [[1., float("nan")]])
        'The labels of that batch are not finite: list 1, item 2 has nan.'
    """
    place = _not_finite(inputs.item_labels(_dense(y_true)))
    if place:
        return f"The labels of that batch are not finite: {place}."
    place = _above_max_label(model, _dense(y_true))
    if place:
        return f"A label of that batch is above the max_label of the loss: {place}."
    for path, values in _named(features):
        place = _not_finite(values)
        if place:
            return f"The features of that batch are not finite: {path}, {place}."
    for variable in model.weights:
        if not _is_finite(variable):
            return (
                "Labels and features of that batch are finite, but the weights "
                f"{variable.name} no longer are: the step before was too large, or its "
                "gradient was not finite."
            )
    scores = _scores(model, features)
    if not np.isfinite(scores).all():
        largest = max(float(tf.reduce_max(tf.abs(w))) for w in model.weights)
        return (
            "Labels, features and weights are finite, but the scores are not: the "
            f"largest weight is {largest:g}."
        )
    largest = float(np.abs(scores).max(initial=0))
    return f"Labels, features, weights and scores, up to {largest:g}, are finite."


def _above_max_label(model: tf.keras.Model, y_true: tf.Tensor) -> str:
    """Returns the place of the first label above the highest of the loss, or ''."""
    loss = getattr(model, "loss", None)
    config = loss.get_config() if isinstance(loss, tf.keras.losses.Loss) else {}
    highest = config.get("max_label")
    labels = y_true.numpy()
    if highest is None or labels.ndim != 2 or not (labels > np.float32(highest)).any():
        return ""
    i, j = np.argwhere(labels > np.float32(highest))[0]
    return (
        f"list {i + 1}, item {j + 1} has {labels[i, j]:g}, expected at most {highest:g}"
    )


def _scores(model: tf.keras.Model, features: Any) -> np.ndarray:
    strategy = model.distribute_strategy
    run = tf.function(lambda x: strategy.run(lambda y: model(y, training=False), (x,)))
    scores = strategy.experimental_local_results(run(features))[0]
    return _dense(scores).numpy()


def _dense(x: Any) -> tf.Tensor:
    return tf.convert_to_tensor(x.to_tensor() if hasattr(x, "to_tensor") else x)


def _named(features: Any) -> list[tuple[str, tf.Tensor]]:
    if not isinstance(features, dict):
        return [("the input", _dense(x)) for x in tf.nest.flatten(features)]
    return [(repr(name), _dense(x)) for name, x in features.items()]


def _is_finite(x: Any) -> bool:
    x = tf.convert_to_tensor(x)
    return not x.dtype.is_floating or bool(tf.reduce_all(tf.math.is_finite(x)))


def _not_finite(values: tf.Tensor) -> str:
    """Returns the place of the first value that is not finite, or ''."""
    if _is_finite(values):
        return ""
    array = values.numpy()
    place = tuple(np.argwhere(~np.isfinite(array))[0])
    names = ("list", "item", "feature")
    formatted = (f"{name} {i + 1}" for name, i in zip(names, place))
    return f"{', '.join(formatted)} has {array[place]:g}"


def bad_loss(
    loss: float, epoch: int, where: str, reason: str = ""
) -> FloatingPointError:
    """Returns the error that ends training when the loss is NaN or infinite.

    `epoch` counts from 0. `where` is the batch, in words; `reason` is the cause, if it
    is known: a sentence and a blank.
    """
    return FloatingPointError(
        f"The loss became {loss} in epoch {epoch + 1}, {where}. {reason}Try a smaller "
        "`learning_rate`, or other parameters of the loss. A label above max_label, an "
        "infinite score, or features of very different scales can cause it too."
    )


class StopAtBadLoss(tf.keras.callbacks.Callback):
    """Ends training with an error when the loss is NaN or infinite."""

    def __init__(
        self,
        batch: Callable[[int, int], tuple] | None = None,
        batches_before: Callable[[int], int] = lambda epoch: 0,
    ) -> None:
        """Initialises the callback.

        Args:
            batch: returns the training batch with an epoch and a number, both from 0,
                to look for the cause in it.
            batches_before: returns how many batches of an epoch were done before `fit`
                began in the middle of it.
        """
        super().__init__()
        self._epoch = self._next = self._before = 0
        self._batch = batch
        self._batches_before = batches_before

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Notes the epoch."""
        self._epoch = epoch
        self._next = self._before = self._batches_before(epoch)

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Raises an error if the loss is NaN or infinite."""
        batch += self._before
        first, self._next = self._next, batch + 1
        loss = float((logs or {}).get("loss", 0.0))
        if loss - loss != 0:  # NaN or infinite
            where, reason = f"batch {batch + 1}", ""
            if first < batch:  # `steps_per_execution` of them were run at a time.
                where = f"one of the batches {first + 1} to {batch + 1}"
            elif self._batch is not None:
                features, labels = self._batch(self._epoch, batch)[:2]
                reason = f"{cause(self.model, features, labels)} "
            raise bad_loss(loss, self._epoch, where, reason)
