"""Schedules of the learning rate and of loss parameters, written as short strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tfr_ext import losses
from tfr_ext.core import checks
from tfr_ext.settings.model_config import LOSS_FORMS
from tfr_ext.settings.training_config import LEARNING_RATE_FORMS

# The largest value of a float32, and of the number of an epoch.
_LARGEST, _MOST_EPOCHS = 3e38, 2**31

LearningRate: TypeAlias = float | tf.keras.optimizers.schedules.LearningRateSchedule


def learning_rate(
    schedule: str, initial: float, steps_per_epoch: int, num_epochs: int
) -> LearningRate:
    """Builds a learning rate from a string.

    Args:
        schedule: 'constant', 'exponential:FACTOR', 'step:EPOCHS:FACTOR', 'cosine' or
            'cosine:WARMUP_EPOCHS'.
        initial: the rate that the schedule starts from; with a warm-up, its peak.
        steps_per_epoch: optimizer steps of an epoch.
        num_epochs: epochs of the run.

    Returns:
        `initial` itself, or a Keras schedule of optimizer steps.

    Raises:
        ValueError: If the string has none of these forms.

    Examples:
        >>> rate = learning_rate('step:2:0.1', 1.0, steps_per_epoch=5, num_epochs=9)
        >>> [round(float(rate(step)), 4) for step in (0, 9, 10, 20)]
        [1.0, 1.0, 0.1, 0.01]
    """
    kind, *arguments = schedule.split(":")
    decay = tf.keras.optimizers.schedules.ExponentialDecay
    try:
        numbers = _numbers(arguments)
        if kind == "constant" and not numbers:
            return initial
        if kind == "exponential" and len(numbers) == 1 and 0 < numbers[0] <= 1:
            return decay(initial, steps_per_epoch, numbers[0], staircase=True)
        if kind == "step" and 1 <= numbers[0] < _MOST_EPOCHS and 0 < numbers[1] <= 1:
            steps = int(numbers[0]) * steps_per_epoch
            _, factor = numbers
            return decay(initial, steps, factor, staircase=True)
        if kind == "cosine" and len(numbers) <= 1:
            warmup = int(sum(numbers)) * steps_per_epoch
            steps = num_epochs * steps_per_epoch - warmup
            if warmup >= 0 and steps > 0:
                return tf.keras.optimizers.schedules.CosineDecay(
                    0.0 if warmup else initial,
                    steps,
                    warmup_target=initial if warmup else None,
                    warmup_steps=warmup,
                )
    except (ValueError, IndexError):
        pass
    raise ValueError(
        f"Unknown learning-rate schedule {schedule!r}. Expected {LEARNING_RATE_FORMS}; "
        f"warm-up must be shorter than the run of {num_epochs} epochs."
    )


def loss_parameter(
    schedule: str, initial: float, steps_per_epoch: int, num_epochs: int
) -> tf.keras.optimizers.schedules.LearningRateSchedule:
    """Builds the schedule of a loss parameter from a string.

    Args:
        schedule: 'exponential:FACTOR', 'exponential:FACTOR:LIMIT',
            'step:EPOCHS:FACTOR' or 'linear:FINAL'.
        initial: the value that the schedule starts from.
        steps_per_epoch: optimizer steps of an epoch.
        num_epochs: epochs of the run.

    Returns:
        A Keras schedule of optimizer steps.

    Raises:
        ValueError: If the string has none of these forms, or the schedule never reaches
            the limit.

    Examples:
        >>> value = loss_parameter('linear:1', 5., steps_per_epoch=5, num_epochs=4)
        >>> [float(value(step)) for step in (0, 5, 20)]
        [5.0, 4.0, 1.0]
    """
    kind, *arguments = schedule.split(":")
    decay = tf.keras.optimizers.schedules.ExponentialDecay
    try:
        numbers = _numbers(arguments)
        if kind == "exponential" and len(numbers) == 1 and numbers[0] > 0:
            return decay(initial, steps_per_epoch, numbers[0])
        if kind == "exponential" and len(numbers) == 2 and numbers[0] > 0:
            factor, limit = numbers
            if (limit < initial) == (factor < 1) and limit != initial:
                return losses.ExponentialToLimit(
                    initial, steps_per_epoch, factor, limit
                )
        if kind == "step" and len(numbers) == 2 and numbers[1] > 0:
            epochs, factor = numbers
            if 1 <= epochs < _MOST_EPOCHS and epochs == int(epochs):
                steps = int(epochs) * steps_per_epoch
                return decay(initial, steps, factor, staircase=True)
        if kind == "linear" and len(numbers) == 1:
            return tf.keras.optimizers.schedules.PolynomialDecay(
                initial, num_epochs * steps_per_epoch, numbers[0]
            )
    except ValueError:
        pass
    raise ValueError(
        f"Unknown schedule {schedule!r} of a loss parameter that starts at "
        f"{initial:g}. Expected {LOSS_FORMS}; LIMIT must be below the start if FACTOR "
        "is below 1, and above it otherwise."
    )


def _numbers(texts: Sequence[str]) -> list[float]:
    """Returns numbers that a float32 holds."""
    return [
        checks.between("number", float(text), -_LARGEST, _LARGEST) for text in texts
    ]


def loss_parameters(
    loss: str,
    params: Mapping[str, Any],
    forms: Mapping[str, str],
    steps_per_epoch: int,
    num_epochs: int,
) -> dict[str, Any]:
    """Replaces parameters of a loss by schedules.

    Args:
        loss: key of the loss.
        params: its parameters; a schedule starts from the value here, or else from the
            loss's default.
        forms: by parameter, a string that `loss_parameter` takes.
        steps_per_epoch: optimizer steps of an epoch.
        num_epochs: epochs of the run.

    Returns:
        All parameters, with schedules.

    Raises:
        ValueError: If the loss has no such parameter, the parameter takes no schedule,
            or the form is unknown.

    Examples:
        >>> params = loss_parameters(
        ...     'smoothi_loss', {'alpha': 2.}, {'alpha': 'exponential:3'}, 10, 5)
        >>> float(params['alpha'](10))
        6.0
    """
    if not forms:
        return dict(params)
    built = losses.get(loss, **params)
    schedulable = getattr(built, "schedulable", [])
    scheduled = {}
    for name, form in forms.items():
        losses.check_parameter(loss, name)
        if name not in schedulable:
            raise ValueError(
                f"{loss!r} takes no schedule of {name!r}. It takes schedules of: "
                f"{', '.join(schedulable) or 'nothing'}."
            )
        initial = built.get_config()[name]
        if not isinstance(initial, float):
            raise ValueError(f"{name!r} of {loss!r} has a schedule already.")
        scheduled[name] = loss_parameter(form, initial, steps_per_epoch, num_epochs)
    return {**params, **scheduled}
