"""Distributions over grades, and their expected grade."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfr_ext.core import checks


def check_values(argument: str, values: Sequence[float]) -> list[float]:
    """Returns the values of grades as floats.

    Args:
        argument: name of the argument, for errors.
        values: at least two numbers in rising order.

    Raises:
        ValueError: If they are not.
    """
    message = (
        f"`{argument}` must be a list of at least two finite numbers in rising order. "
        f"Received: {values!r}."
    )
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ValueError(message)
    numbers = [checks.finite(argument, value) for value in values]
    if len(numbers) < 2 or any(a >= b for a, b in zip(numbers, numbers[1:])):
        raise ValueError(message)
    return numbers


def even_values(num_grades: int) -> list[float]:
    """Returns values of grades that are spaced evenly from 0 to 1.

    Args:
        num_grades: number of grades, at least 2.

    Examples:
        >>> even_values(3)
        [0.0, 0.5, 1.0]
    """
    return [grade / (num_grades - 1) for grade in range(num_grades)]


def rescaled(values: Sequence[float]) -> list[float]:
    """Returns values of grades, shifted and rescaled to the range 0 to 1.

    Args:
        values: at least two numbers in rising order.

    Examples:
        >>> rescaled([-1, 0.5, 1])
        [0.0, 0.75, 1.0]
    """
    low, high = values[0], values[-1]
    return [(value - low) / (high - low) for value in values]


def expected_value(logits: tf.Tensor, values: Sequence[float]) -> tf.Tensor:
    """Returns the expected value of the grades.

    Args:
        logits: unnormalised log-probabilities, `[..., grades]`; cast to float32 if they
            have a lower precision.
        values: the value of each grade.

    Returns:
        A tensor `[...]`.

    Raises:
        ValueError: If the numbers of logits and values differ.
    """
    if logits.shape[-1] not in (None, len(values)):
        raise ValueError(
            f"`logits` must have {len(values)} grades in the last dimension. "
            f"Received: shape {logits.shape}."
        )
    if logits.dtype.size < 4:
        logits = tf.cast(logits, tf.float32)
    return tf.linalg.matvec(
        tf.nn.softmax(logits, axis=-1), tf.constant(values, logits.dtype)
    )


def expected_label(
    distributions: tf.Tensor,
    padding_label: float,
    values: Sequence[float] | None = None,
) -> tf.Tensor:
    """Returns the expected grade of label distributions.

    Args:
        distributions: probabilities of the grades `[batch, list, grades]`; an item is
            padding if its first entry is negative.
        padding_label: the label of padding.
        values: the label that each grade stands for; 0, 1, ... by default.

    Returns:
        A tensor `[batch, list]`.
    """
    if values is None:
        values = tf.range(tf.shape(distributions)[-1])
    expected = tf.linalg.matvec(distributions, tf.cast(values, distributions.dtype))
    return tf.where(distributions[..., 0] < 0, padding_label, expected)


def are_distributions(rows: np.ndarray) -> np.ndarray:
    """Returns for each row whether it has at least 2 probabilities that sum to 1."""
    total = rows.sum(axis=1)
    right = (rows >= 0).all(axis=1) & (np.abs(total - 1) < 1e-3)
    return right & (rows.shape[1] >= 2)


def check_distributions(distributions: np.ndarray, items: int) -> None:
    """Checks the label distributions of so many items.

    Raises:
        ValueError: If some rows are not distributions over grades.
    """
    shape = distributions.shape
    if len(shape) != 2 or shape[0] != items or shape[1] < 2:
        raise ValueError(
            f"`label_distributions` must have shape [{items}, num_grades] with at "
            f"least 2 grades. Received: {shape}."
        )
    right = are_distributions(distributions)
    if not right.all():
        item = int(np.flatnonzero(~right)[0])
        raise ValueError(
            "Each row of `label_distributions` must have probabilities that sum to 1. "
            f"Item {item} has {distributions[item].tolist()}."
        )
