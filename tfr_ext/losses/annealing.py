"""A callback that applies schedules of a loss's parameters, and one schedule."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.core.annealed import Annealable, Annealed
from tfr_ext.losses import base

__all__ = ["Annealable", "Annealed", "ExponentialToLimit", "LossAnnealing"]


class LossAnnealing(which_keras.Callback):
    """Sets the scheduled parameters of a loss from the optimizer's step.

    The step is the optimizer's own, so a resumed training run continues where it
    stopped. It is read before each batch or, with `steps_per_execution`, before each
    group of batches. At the end of an epoch the values are added to its logs under the
    names of the parameters, for the history, TensorBoard and all callbacks that come
    after this one.

    Examples:
        >>> import tfr_ext
        >>> alpha = tf.keras.optimizers.schedules.ExponentialDecay(1., 2, 10.)
        >>> loss = tfr_ext.losses.SmoothILoss(alpha=alpha)
        >>> model = tf.keras.Sequential([tf.keras.layers.Dense(3)])
        >>> model.compile("sgd", loss)
        >>> x, y = tf.ones([4, 5]), tf.constant([[0., 1., 2.]] * 4)
        >>> history = model.fit(
        ...     x, y, batch_size=2, epochs=3, verbose=0,
        ...     callbacks=[tfr_ext.losses.LossAnnealing(loss)],
        ... ).history
        >>> [round(alpha, 2) for alpha in history["alpha"]]
        [3.16, 31.62, 316.23]
    """

    def __init__(self, loss: base.RankingLoss):
        """Initialises the callback.

        Args:
            loss: the loss that the model was compiled with.
        """
        super().__init__()
        self._loss = loss
        self._is_scheduled = bool(loss.scheduled_values())

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Sets the parameters for the current step."""
        self._set()

    def on_train_batch_begin(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Sets the parameters for the current step."""
        self._set()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Adds the values of the parameters to the logs."""
        if logs is not None:
            logs.update(self._loss.scheduled_values())

    def _set(self) -> None:
        if self._is_scheduled:
            self._loss.set_step(int(self.model.optimizer.iterations.numpy()))


@which_keras.register
class ExponentialToLimit(tf.keras.optimizers.schedules.LearningRateSchedule):
    """An exponential schedule that stops at a limit.

    Examples:
        >>> schedule = ExponentialToLimit(1., decay_steps=10, decay_rate=2., limit=5.)
        >>> [float(schedule(step)) for step in (0, 10, 20, 30)]
        [1.0, 2.0, 4.0, 5.0]
    """

    def __init__(
        self,
        initial_value: float,
        decay_steps: float,
        decay_rate: float,
        limit: float,
    ):
        """Initialises the schedule.

        Args:
            initial_value: the value at step 0.
            decay_steps: number of steps after which the value has been multiplied by
                `decay_rate`.
            decay_rate: positive factor; above 1 the value grows.
            limit: the lowest value if `decay_rate` is at most 1, else the highest.
        """
        super().__init__()
        self._arguments = {
            "initial_value": initial_value,
            "decay_steps": decay_steps,
            "decay_rate": decay_rate,
            "limit": limit,
        }

    def __call__(self, step: Any) -> tf.Tensor:
        """Returns the value at a step.

        Args:
            step: number of steps that the optimizer has taken.
        """
        arguments = self._arguments
        exponent = tf.cast(step, tf.float32) / arguments["decay_steps"]
        rate = tf.constant(arguments["decay_rate"], tf.float32)
        value = arguments["initial_value"] * tf.pow(rate, exponent)
        bounded = tf.maximum if arguments["decay_rate"] <= 1 else tf.minimum
        return bounded(value, arguments["limit"])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this schedule."""
        return dict(self._arguments)
