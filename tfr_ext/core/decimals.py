"""Reads and writes numbers as text, alike in data, files and settings."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

NUMBER = rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
"""A decimal number: stricter than Python's float, which takes `1_0`, `nan`, `inf`."""
_NUMBER = re.compile(NUMBER.decode())
_NOT_FINITE = ("nan", "inf", "-inf")
_INTEGER = re.compile(r"([+-]?)0*([0-9]+)")
# `int` refuses thousands of digits with another message.
_MOST_DIGITS = 100


def parse_number(text: str, finite: bool = True) -> float:
    """Reads a decimal number, more strictly than `float`.

    `4_5` and digits of other scripts are errors; so are `nan`, `inf` and `-inf` if
    `finite`.

    Examples:
        >>> parse_number("-1.5e3")
        -1500.0
    """
    if not _NUMBER.fullmatch(text) and (finite or text not in _NOT_FINITE):
        raise ValueError(f"expected a number. Found: {text[:60]!r}")
    return float(text)


def parse_integer(text: str, most: int | None = None) -> int:
    """Reads a decimal integer more strictly than `int`; `most` bounds its magnitude."""
    parts = _INTEGER.fullmatch(text)
    if not parts:
        raise ValueError(f"expected an integer. Found: {text[:60]!r}")
    sign, digits = parts.groups()
    if len(digits) > _MOST_DIGITS or (most is not None and int(digits) > most):
        limit = f"{_MOST_DIGITS} digits" if most is None else most
        raise ValueError(f"expected an integer up to {limit}. Found: {text[:60]!r}")
    return int(sign + digits)


def is_finite(value: float) -> bool:
    """Returns whether a number is finite, even as a float32."""
    try:
        return abs(float(value)) <= float(np.finfo(np.float32).max)
    except OverflowError:
        return False


def all_finite(value: Any) -> bool:
    """Returns whether a value has no NaN and no infinity, not even as text."""
    if isinstance(value, (list, tuple, set)):
        return all(map(all_finite, value))
    if isinstance(value, dict):
        return all(map(all_finite, (*value, *value.values())))
    try:
        return is_finite(value)
    except (TypeError, ValueError):
        return True  # no number at all


def short(value: Any) -> str:
    """Returns the shortest text of a value that reads back as the same number.

    Examples:
        >>> short(2.0), short(1 / 3), short(7)
        ('2', '0.3333333333333333', '7')
    """
    is_short = isinstance(value, float) and float(f"{value:g}") == value
    return f"{value:g}" if is_short else str(value)


def plain_number(value: Any) -> Any:
    """Returns a number, or its text, as the shortest text; anything else as it is.

    Examples:
        >>> plain_number("-1.50"), plain_number(0.0), plain_number("mean")
        ('-1.5', '0', 'mean')
    """
    try:
        return value if isinstance(value, bool) else short(float(value))
    except (OverflowError, TypeError, ValueError):
        return value
