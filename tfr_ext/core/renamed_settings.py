"""Settings that had another name in an older version."""

from __future__ import annotations

from typing import Any


def plain_number(value: Any) -> Any:
    """Returns a number, or its text, as the shortest text; anything else as it is.

    Examples:
        >>> plain_number("-1.50"), plain_number(0.0), plain_number("mean")
        ('-1.5', '0', 'mean')
    """
    if isinstance(value, bool):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return value
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def renamed(key: str, text: str) -> tuple[str, str]:
    """Returns the key and the text that a setting of an older version has now.

    Examples:
        >>> renamed("missing_value", "0.0"), renamed("seed", "1")
        (('missing', '0'), ('seed', '1'))
    """
    if key == "missing_value":
        return "missing", plain_number(text)
    return key, text
