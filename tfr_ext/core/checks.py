"""Checks of arguments, with errors that name the argument and what it may be."""

from __future__ import annotations

import ast
import difflib
import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

PLAIN_PATH = "a path of one line in UTF-8, without blanks around it"
"""The paths that `is_plain_path` accepts, for messages."""


def positive(argument: str, value: Any) -> float:
    """Returns `value` as a positive finite float."""
    return _number(argument, value, "a positive finite number", 0, math.inf)


def not_negative(argument: str, value: Any) -> float:
    """Returns `value` as a finite float of at least 0."""
    below = -math.ulp(0.0)
    return _number(argument, value, "a finite number >= 0", below, math.inf)


def finite(argument: str, value: Any) -> float:
    """Returns `value` as a finite float."""
    return _number(argument, value, "a finite number", -math.inf, math.inf)


def between(argument: str, value: Any, low: float, high: float) -> float:
    """Returns `value` as a float strictly between bounds."""
    expected = f"a number in the open interval ({low}, {high})"
    return _number(argument, value, expected, low, high)


def temperature(argument: str, value: Any) -> float:
    """Returns `value` as a float that scores may be divided by.

    Outside 1e-30 to 1e30, quotients or slopes may be too large for float32.
    """
    return between(argument, value, 1e-30, 1e30)


def boolean(argument: str, value: Any) -> bool:
    """Returns `value` if it is a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"`{argument}` must be True or False. Received: {value!r}.")
    return value


def cut_off(argument: str, value: Any) -> int | None:
    """Returns `value` as an int of at least 1, or None."""
    if value is None:
        return None
    try:
        return at_least(argument, value, 1)
    except ValueError as error:
        raise ValueError(
            f"`{argument}` must be None or an integer >= 1. Received: {value!r}."
        ) from error


def at_least(argument: str, value: Any, least: int) -> int:
    """Returns `value` as an int of at least `least`."""
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
    """Returns `value` as a list of a given length, which `per` describes."""
    if not isinstance(value, (list, tuple)) or len(value) != length:
        raise ValueError(f"`{argument}` must be a list of {per}. Received: {value!r}.")
    return list(value)


def elements(
    argument: str, value: Any, check: Callable[[str, Any], Any], several: str
) -> list[Any]:
    """Returns the elements of a sequence, each as `check` returns it.

    A string is not a sequence here. `several` says what the elements are.

    Examples:
        >>> elements("sizes", "64, 32", finite, "numbers")
        Traceback (most recent call last):
        ValueError: `sizes` must be a sequence of numbers, as (64, 32). Received: '64, 32'.
    """  # noqa: E501 (output)
    is_text = isinstance(value, (str, bytes))
    is_row = getattr(value, "ndim", 0) == 1  # An array, or an index of pandas.
    if is_text or not (is_row or isinstance(value, Sequence)):
        raise ValueError(
            f"`{argument}` must be a sequence of {several}"
            f"{as_sequence(argument, value, check)}. Received: {value!r}."
        )
    return [check(argument, one) for one in value]


def as_sequence(argument: str, value: Any, check: Callable[[str, Any], Any]) -> str:
    """Returns how a value that was meant as a sequence is written as one, or ''.

    Examples:
        >>> as_sequence("sizes", "64, 32", finite), as_sequence("sizes", "x", finite)
        (', as (64, 32)', '')
    """
    try:
        meant = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        is_text = isinstance(value, str)
        meant = [x.strip() for x in value.split(",")] if is_text else value
    meant = tuple(meant) if isinstance(meant, (list, tuple)) else (meant,)
    try:
        for one in meant:
            check(argument, one)
    except ValueError:
        return ""
    return f", as {meant!r}"


def choice(argument: str, value: Any, choices: list[Any]) -> Any:
    """Returns `value` if it is one of the choices."""
    if value not in choices:
        raise ValueError(f"`{argument}` must be one of {choices}. Received: {value!r}.")
    return value


def has_effect(argument: str, value: Any, default: Any, used: bool, needs: str) -> None:
    """Checks that an argument without an effect has its default.

    `used` is whether other arguments give it an effect, and `needs` is what would do
    so, such as "`topn`".
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
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if not low < number < high:
        raise ValueError(f"`{argument}` must be {expected}. Received: {value!r}.")
    return number


def is_plain_path(path: str) -> bool:
    r"""Returns whether files of flags and TensorFlow can hold a path.

    Examples:
        >>> is_plain_path("run[1] *"), is_plain_path("a/ "), is_plain_path("a\nb")
        (True, False, False)
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return path == path.strip() and not {*path} & {*"\0\n\r"}
