"""Loss parameters that are a number, or a schedule of the optimizer's step.

A loss that lets an argument be either says so once, in `__init__`, and reads it where
it computes; `RankingLoss` does the rest (`get_config`, `set_step`, logging):

    super().__init__(...)                       # first
    self._temperature = self._anneal("temperature", temperature, checks.positive)
    ...                                         # in `compute`: a float, or a tensor
    p = relaxations.neural_sort(scores, mask, temperature=self._temperature.value)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Union

import tensorflow as tf

if TYPE_CHECKING:
    from tfr_ext.losses import base

# What an argument that can be annealed takes: a number, a Keras schedule of optimizer
# steps (the name of its base class notwithstanding), or the config of one.
Annealable = Union[
    float, tf.keras.optimizers.schedules.LearningRateSchedule, dict[str, Any]
]


class Annealed:
    """An argument of a loss that is a number or a schedule.

    A schedule's present value is a variable, so that graphs which were traced before
    see it change.

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
        """Initialises the argument, a schedule at step 0.

        Args:
            argument: its name.
            value: a number, a `tf.keras.optimizers.schedules.LearningRateSchedule`, or
                the dictionary that such a schedule is serialised to.
            check: takes the name and a number, and returns the number as a float or
                raises a ValueError that says what is allowed.

        Raises:
            ValueError: if the number, or the schedule at step 0, is not allowed.
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
        """The present value: a float, or of a schedule a float32 scalar."""
        if self._schedule is None:
            return self._number
        return tf.convert_to_tensor(self._variable)

    @property
    def config(self) -> float | dict[str, Any]:
        """What builds it again: the number, or the schedule as a dictionary."""
        if self._schedule is None:
            return self._number
        return tf.keras.optimizers.schedules.serialize(self._schedule)

    def set_step(self, step: int) -> None:
        """Gives a schedule its value at a step; does nothing to a number.

        Args:
            step: steps that the optimizer has taken.

        Raises:
            ValueError: if the value is not allowed.
        """
        if self._schedule is not None:
            # A tensor, as an optimizer gives it: schedules may do integer arithmetic.
            value = self._schedule(tf.constant(step, tf.int64))
            self._variable.assign(self._checked(step, value))

    def _checked(self, step: int, value: tf.Tensor) -> float:
        try:
            return self._check(self._argument, float(tf.cast(value, tf.float32)))
        except ValueError as error:
            raise ValueError(f"At step {step} of its schedule: {error}") from error

    def __deepcopy__(self, memo: dict[int, Any]) -> Annealed:
        """Returns one with a variable of its own, of the same value."""
        copied = type(self)(self._argument, self.config, self._check)
        if self._schedule is not None and tf.executing_eagerly():
            copied._variable.assign(self.value)
        return copied


class LossAnnealing(tf.keras.callbacks.Callback):
    """Sets the scheduled parameters of a loss from the optimizer's step.

    The step is that of the optimizer, so that a resumed training goes on where it was.
    It is read before each batch, or with `steps_per_execution` before each run of
    batches. The values at the end of an epoch join its logs by the names of the
    parameters: for the history, TensorBoard and all callbacks that come after this one.

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
        """See `tf.keras.callbacks.Callback`."""
        self._set()

    def on_train_batch_begin(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """See `tf.keras.callbacks.Callback`."""
        self._set()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """See `tf.keras.callbacks.Callback`."""
        if logs is not None:
            logs.update(self._loss.scheduled_values())

    def _set(self) -> None:
        if self._is_scheduled:
            self._loss.set_step(int(self.model.optimizer.iterations.numpy()))


@tf.keras.utils.register_keras_serializable(package="tfr_ext")
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
            decay_steps: steps in which the value is multiplied by `decay_rate`.
            decay_rate: positive; above 1 the value grows.
            limit: the least value if `decay_rate` is at most 1, else the greatest.
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
            step: steps that the optimizer has taken.
        """
        arguments = self._arguments
        exponent = tf.cast(step, tf.float32) / arguments["decay_steps"]
        rate = tf.constant(arguments["decay_rate"], tf.float32)
        value = arguments["initial_value"] * tf.pow(rate, exponent)
        bounded = tf.maximum if arguments["decay_rate"] <= 1 else tf.minimum
        return bounded(value, arguments["limit"])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that build this schedule again."""
        return dict(self._arguments)


def _deserialized(
    argument: str, config: dict[str, Any]
) -> tf.keras.optimizers.schedules.LearningRateSchedule:
    try:
        schedule = tf.keras.optimizers.schedules.deserialize(config)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"`{argument}` must be a number, or a schedule of "
            "tf.keras.optimizers.schedules or the dictionary that one is serialised "
            f"to. Received: {config!r}."
        ) from error
    if not isinstance(schedule, tf.keras.optimizers.schedules.LearningRateSchedule):
        raise ValueError(f"`{argument}` is not a schedule: {config!r}.")
    return schedule
