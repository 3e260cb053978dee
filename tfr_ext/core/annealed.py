"""Arguments that are a number or a schedule of the optimizer's step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf

# What an annealable argument accepts: a number, a Keras schedule of optimizer steps
# (despite the name of its base class), or the configuration of one.
Annealable: TypeAlias = (
    float | tf.keras.optimizers.schedules.LearningRateSchedule | dict[str, Any]
)


class Annealed:
    """An argument of a loss that is a number or a schedule.

    The current value of a schedule is a variable, so that graphs traced earlier see it
    change.

    Examples:
        >>> from tfr_ext.core import checks
        >>> halved = tf.keras.optimizers.schedules.ExponentialDecay(4., 10, 0.5)
        >>> temperature = Annealed("temperature", halved, checks.positive)
        >>> temperature.set_step(20)
        >>> float(temperature.value)
        1.0
    """

    def __init__(
        self, argument: str, value: Annealable, check: Callable[[str, Any], float]
    ):
        """Initialises the argument, with a schedule at step 0.

        Args:
            argument: name of the argument.
            value: a number, a `tf.keras.optimizers.schedules.LearningRateSchedule`, or
                the dictionary that such a schedule is serialised to.
            check: takes the name and a number, and returns the number as a float or
                raises a ValueError that says what is allowed.

        Raises:
            ValueError: If the number, or the schedule at step 0, is not allowed.
        """
        self._argument = argument
        self._check = check
        self._schedule: tf.keras.optimizers.schedules.LearningRateSchedule | None = None
        if isinstance(value, dict):
            value = _deserialized(argument, value)
        if not isinstance(value, tf.keras.optimizers.schedules.LearningRateSchedule):
            self._number = check(argument, value)
            return
        self._schedule = value
        with tf.init_scope():
            initial = tf.cast(value(0), tf.float32)
            if tf.executing_eagerly():
                initial = self._checked(0, initial)
            self._variable = tf.Variable(
                initial,
                trainable=False,
                dtype=tf.float32,
                name=argument,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )

    @property
    def is_scheduled(self) -> bool:
        """Whether it is a schedule."""
        return self._schedule is not None

    @property
    def value(self) -> float | tf.Tensor:
        """The current value: a float or, for a schedule, a float32 scalar."""
        if self._schedule is None:
            return self._number
        return tf.convert_to_tensor(self._variable)

    @property
    def config(self) -> float | dict[str, Any]:
        """The number, or the schedule as a dictionary, that recreates the argument."""
        if self._schedule is None:
            return self._number
        return tf.keras.optimizers.schedules.serialize(self._schedule)

    def set_step(self, step: int) -> None:
        """Sets a schedule to its value at a step; does nothing for a number.

        Args:
            step: number of steps that the optimizer has taken.

        Raises:
            ValueError: If the value is not allowed.
        """
        if self._schedule is not None:
            # A tensor, as an optimizer passes it, since schedules may use integer
            # arithmetic.
            value = self._schedule(tf.constant(step, tf.int64))
            self._variable.assign(self._checked(step, value))

    def _checked(self, step: int, value: tf.Tensor) -> float:
        try:
            return self._check(self._argument, float(tf.cast(value, tf.float32)))
        except ValueError as error:
            raise ValueError(f"At step {step} of its schedule: {error}") from error

    def __deepcopy__(self, memo: dict[int, Any]) -> Annealed:
        """Returns a copy with its own variable of the same value."""
        copied = type(self)(self._argument, self.config, self._check)
        if self._schedule is not None and tf.executing_eagerly():
            copied._variable.assign(self.value)
        return copied


def _deserialized(
    argument: str, config: dict[str, Any]
) -> tf.keras.optimizers.schedules.LearningRateSchedule:
    try:
        schedule = tf.keras.optimizers.schedules.deserialize(config)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"`{argument}` must be a number, a schedule of "
            "tf.keras.optimizers.schedules, or the dictionary that such a schedule is "
            f"serialised to. Received: {config!r}."
        ) from error
    if not isinstance(schedule, tf.keras.optimizers.schedules.LearningRateSchedule):
        raise ValueError(f"`{argument}` must be a schedule. Received: {config!r}.")
    return schedule
