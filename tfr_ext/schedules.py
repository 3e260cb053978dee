"""Learning-rate schedules written as short strings."""

from __future__ import annotations

from typing import Union

import tensorflow as tf

LearningRate = Union[float, tf.keras.optimizers.schedules.LearningRateSchedule]

FORMS = (
    "'constant', 'exponential:FACTOR' (times FACTOR after each epoch), "
    "'step:EPOCHS:FACTOR' (times FACTOR after every so many epochs), or 'cosine' or "
    "'cosine:WARMUP_EPOCHS' (down to 0 over the run, after a linear rise)"
)


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
        ValueError: if the string has none of these forms.

    Examples:
        >>> rate = learning_rate('step:2:0.1', 1.0, steps_per_epoch=5, num_epochs=9)
        >>> [round(float(rate(step)), 4) for step in (0, 9, 10, 20)]
        [1.0, 1.0, 0.1, 0.01]
    """
    kind, *arguments = schedule.split(":")
    decay = tf.keras.optimizers.schedules.ExponentialDecay
    try:
        numbers = [float(a) for a in arguments]
        if kind == "constant" and not numbers:
            return initial
        if kind == "exponential" and len(numbers) == 1 and 0 < numbers[0] <= 1:
            return decay(initial, steps_per_epoch, numbers[0], staircase=True)
        if kind == "step" and numbers[0] >= 1 and 0 < numbers[1] <= 1:
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
        f"Unknown learning-rate schedule {schedule!r}. Expected {FORMS}; warm-up must "
        f"be shorter than the run of {num_epochs} epochs."
    )
