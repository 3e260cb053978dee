"""Checks of arguments, with errors that name the argument and what it may be."""

from __future__ import annotations

import difflib
import math
import numbers
from typing import Any


def positive(argument: str, value: Any) -> float:
    """Returns `value` as a positive finite float.

    Raises:
        ValueError: if `value` is anything else.
    """
    return _number(argument, value, "a positive finite number", 0, math.inf)


def not_negative(argument: str, value: Any) -> float:
    """Returns `value` as a finite float of at least 0.

    Raises:
        ValueError: if `value` is anything else.
    """
    below = -math.ulp(0.0)
    return _number(argument, value, "a finite number >= 0", below, math.inf)


def finite(argument: str, value: Any) -> float:
    """Returns `value` as a finite float.

    Raises:
        ValueError: if `value` is anything else.
    """
    return _number(argument, value, "a finite number", -math.inf, math.inf)


def between(argument: str, value: Any, low: float, high: float) -> float:
    """Returns `value` as a float strictly between bounds.

    Raises:
        ValueError: if `value` is anything else.
    """
    expected = f"a number in the open interval ({low}, {high})"
    return _number(argument, value, expected, low, high)


def temperature(argument: str, value: Any) -> float:
    """Returns `value` as a float that scores may be divided by.

    Outside 1e-30 to 1e30, quotients or slopes may be too large for float32.

    Raises:
        ValueError: if `value` is anything else.
    """
    return between(argument, value, 1e-30, 1e30)


def boolean(argument: str, value: Any) -> bool:
    """Returns `value` if it is a bool.

    Raises:
        ValueError: if `value` is anything else.
    """
    if not isinstance(value, bool):
        raise ValueError(f"`{argument}` must be True or False. Received: {value!r}.")
    return value


def cut_off(argument: str, value: Any) -> int | None:
    """Returns `value` as an int of at least 1, or None.

    Raises:
        ValueError: if it is neither.
    """
    if value is None:
        return None
    try:
        return at_least(argument, value, 1)
    except ValueError as error:
        raise ValueError(
            f"`{argument}` must be None or an integer >= 1. Received: {value!r}."
        ) from error


def at_least(argument: str, value: Any, least: int) -> int:
    """Returns `value` as an int of at least `least`.

    Raises:
        ValueError: if `value` is anything else.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Integral)
        or int(value) < least
    ):
        raise ValueError(
            f"`{argument}` must be an integer >= {least}. Received: {value!r}."
        )
    return int(value)


def sequence(argument: str, value: Any, length: int, per: str) -> list[Any]:
    """Returns `value` as a list of a given length, which `per` describes.

    Raises:
        ValueError: if it is not a sequence of that length.
    """
    if not isinstance(value, (list, tuple)) or len(value) != length:
        raise ValueError(f"`{argument}` must be a list of {per}. Received: {value!r}.")
    return list(value)


def choice(argument: str, value: Any, choices: list[Any]) -> Any:
    """Returns `value` if it is one of the choices.

    Raises:
        ValueError: if `value` is anything else.
    """
    if value not in choices:
        raise ValueError(f"`{argument}` must be one of {choices}. Received: {value!r}.")
    return value


def has_effect(argument: str, value: Any, default: Any, used: bool, needs: str) -> None:
    """Checks that an argument without an effect has its default.

    Args:
        argument: name of the argument.
        value: its value, valid in itself.
        default: its default, which is always accepted.
        used: whether the other arguments give it an effect.
        needs: what would give it an effect, such as "`topn`".

    Raises:
        ValueError: if a value other than the default has no effect.
    """
    if not used and value != default:
        raise ValueError(
            f"`{argument}` has an effect only with {needs}: leave it out. "
            f"Received: {value!r}."
        )


def near(word: str, known: list[str]) -> str:
    """Returns the end of a sentence about an unknown word, with similar known words."""
    close = difflib.get_close_matches(word, known, n=3)
    return f"; did you mean {' or '.join(repr(c) for c in close)}?" if close else "."


def _number(argument: str, value: Any, expected: str, low: float, high: float) -> float:
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not low < number < high:
        raise ValueError(f"`{argument}` must be {expected}. Received: {value!r}.")
    return number
