"""Kinds of settings: how each is checked, read from texts and written as texts.

Flags, the files of finished runs and Python all use the table `KINDS`.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import math
import numbers
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import flags

from tfr_ext.core import checks, decimals

# The highest count: TensorFlow has 64-bit shapes, but 32-bit sizes in files.
HIGHEST_COUNT = 2**31 - 1
# The highest seed that NumPy's and Keras's generators accept.
HIGHEST_SEED = 2**32 - 1

_BOOLEANS = {
    **dict.fromkeys(("true", "t", "1"), True),
    **dict.fromkeys(("false", "f", "0"), False),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """The properties of a field of settings.

    Attributes:
        help: its help text.
        group: the group in which it is listed.
        kind: a key of `KINDS`.
        low: the lowest number allowed; for several numbers, that of each.
        high: the highest number allowed.
        choices: the values that it may have, if there are only a few.
        key: its name in files and on command lines.
        convert: a function that is applied to each text.
    """

    help: str
    group: str
    kind: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    key: str = ""
    convert: Callable[[str], str] | None = None


class Kind(NamedTuple):
    """A kind of settings.

    Attributes:
        check: takes the name, the value and the properties of a setting, and returns
            the value as it is stored.
        parse: takes a text and the properties, and returns the value; takes all texts
            if the kind `repeats`.
        format: takes a value and returns its text; all texts if the kind `repeats`.
        repeats: whether each element has a text of its own.
    """

    check: Callable[[str, Any, Setting], Any]
    parse: Callable[[Any, Setting], Any]
    format: Callable[[Any], Any] = str
    repeats: bool = False


def parse(about: Setting, texts: Sequence[str]) -> Any:
    """Returns the value that texts give a setting.

    Args:
        about: its properties.
        texts: the texts, at least one. The last one counts or, if the kind repeats, all
            after the last empty one.

    Raises:
        ValueError: If a text is not one of the kind.
    """
    kind = KINDS[about.kind]
    if not kind.repeats:
        return kind.parse(texts[-1], about)
    ends = [number for number, text in enumerate(texts, 1) if not text]
    return kind.parse(texts[max(ends, default=0) :], about)


class Parameters(Mapping[str, Any]):
    """Values by name, which cannot be changed.

    Examples:
        >>> Parameters({"alpha": 2.0})
        {'alpha': 2.0}
    """

    def __init__(self, values: Mapping[str, Any] | None = None):
        """Copies the values."""
        self._values = copy.deepcopy(dict(values or {}))

    def __getitem__(self, name: str) -> Any:
        """Returns a copy of a value."""
        return copy.deepcopy(self._values[name])

    def __iter__(self) -> Iterator[str]:
        """Returns the names."""
        return iter(self._values)

    def __len__(self) -> int:
        """Returns the number of values."""
        return len(self._values)

    def __hash__(self) -> int:
        """Returns a hash that equal parameters share."""
        return hash(frozenset(self._values))

    def __repr__(self) -> str:
        """Returns the values in the notation of a dict."""
        return repr(self._values)


def literal(text: str) -> Any:
    """Returns the value of a text as a Python literal, or the text if it is not one.

    Examples:
        >>> literal("1e1"), literal("map"), literal("'2'")
        (10.0, 'map', '2')
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def as_text(value: Any) -> str:
    """Returns a text that `literal` turns back into the value.

    Examples:
        >>> as_text(10.0), as_text("map"), as_text("2")
        ('10.0', 'map', "'2'")
    """
    plain = isinstance(value, str) and value.isprintable() and value == value.strip()
    return value if plain and literal(value) == value else repr(value)


def _check_boolean(name: str, value: Any, about: Setting) -> bool:
    return checks.boolean(name, value)


def _parse_boolean(text: str, about: Setting) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError("value should be true or false")
    return _BOOLEANS[text.lower()]


def _check_choice(name: str, value: Any, about: Setting) -> str:
    return checks.choice(name, value, list(about.choices))


def _parse_choice(text: str, about: Setting) -> str:
    if text not in about.choices:
        raise ValueError(f"value should be one of <{'|'.join(about.choices)}>")
    return text


def _range_of_integers(about: Setting) -> tuple[int, int]:
    low = 0 if about.low is None else int(about.low)
    return low, HIGHEST_COUNT if about.high is None else int(about.high)


def _check_integer(name: str, value: Any, about: Setting) -> int:
    low, high = _range_of_integers(about)
    if checks.at_least(name, value, low) > high:
        raise ValueError(
            f"`{name}` must be an integer from {low} to {high}. Received: {value!r}."
        )
    return int(value)


def _parse_integer(text: str, about: Setting) -> int:
    value = decimals.parse_integer(text.strip())
    low, high = _range_of_integers(about)
    if not low <= value <= high:
        raise ValueError(f"{value} is not an integer from {low} to {high}")
    return value


def _is_number_of(value: float, about: Setting) -> bool:
    low = -math.inf if about.low is None else about.low
    high = math.inf if about.high is None else about.high
    return decimals.is_finite(value) and low <= value <= high


def _expected_number(about: Setting) -> str:
    if about.low is not None and about.high is not None:
        return f"a number from {about.low:g} to {about.high:g}"
    low = "" if about.low is None else f" >= {about.low:g}"
    high = "" if about.high is None else f" <= {about.high:g}"
    return f"a finite number{low}{high}"


def _check_number(name: str, value: Any, about: Setting) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not _is_number_of(value, about):
        expected = _expected_number(about)
        raise ValueError(f"`{name}` must be {expected}. Received: {value!r}.")
    return float(value)


def _parse_number(text: str, about: Setting) -> float:
    expected = _expected_number(about)
    try:
        value = decimals.parse_number(text.strip())
    except ValueError:
        raise ValueError(f"{text.strip()} is not {expected}") from None
    if not _is_number_of(value, about):
        bits = " of 32 bits" * (math.isfinite(value) and not decimals.is_finite(value))
        raise ValueError(f"{value:g} is not {expected}{bits}")
    return value


def _check_text(name: str, value: Any, about: Setting) -> str:
    if not isinstance(value, str):
        raise ValueError(f"`{name}` must be a string. Received: {value!r}.")
    return _parse_text(value, about)


def _parse_text(text: str, about: Setting) -> str:
    return about.convert(text) if about.convert else text


def _check_path(name: str, value: Any, about: Setting) -> str:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value).strip():
        raise ValueError(f"`{name}` must be a path. Received: {value!r}.")
    path = os.fspath(value)
    if not checks.is_plain_path(path):
        raise ValueError(f"`{name}` must be {checks.PLAIN_PATH}. Received: {value!r}.")
    return path


def _check_each(
    check: Callable[[str, Any, Setting], Any], several: str
) -> Callable[[str, Any, Setting], tuple]:
    """Returns a check of a sequence, given a check of its elements."""

    def checked(name: str, value: Any, about: Setting) -> tuple:
        is_one = isinstance(value, (str, os.PathLike))
        if is_one and check in (_check_text, _check_path):
            value = (value,)
        found = checks.elements(name, value, lambda n, x: check(n, x, about), several)
        return tuple(found)

    return checked


_split = flags.ListParser().parse  # Commas separate, as in CSV.


def _join(values: Sequence[Any]) -> str:
    return flags.CsvListSerializer(",").serialize([*map(decimals.short, values)])


def _parse_integers(text: str, about: Setting) -> tuple[int, ...]:
    texts = _split(text)
    try:
        return tuple(_parse_integer(one, about) for one in texts)
    except ValueError:
        low, high = _range_of_integers(about)
        raise ValueError(
            f"must be integers from {low} to {high} separated by commas. "
            f"Received: {texts}."
        ) from None


def _parse_numbers(text: str, about: Setting) -> tuple[float, ...]:
    texts = _split(text)
    try:
        return tuple(_parse_number(one, about) for one in texts)
    except ValueError:
        raise ValueError(
            f"must be finite numbers separated by commas. Received: {texts}."
        ) from None


def _parse_texts(text: str, about: Setting) -> tuple[str, ...]:
    return tuple(_parse_text(one, about) for one in _split(text))


def _parse_paths(text: str, about: Setting) -> tuple[str, ...]:
    """Reads paths, or one that exists and has commas itself."""
    # A text of two lines is no list either, and is refused as a path.
    is_one = "\n" in text or "\r" in text or (text and os.path.lexists(text))
    return (text,) if is_one else tuple(_split(text))


def _check_parameters(name: str, value: Any, about: Setting) -> Parameters:
    if not isinstance(value, Mapping):
        raise ValueError(f"`{name}` must be a mapping. Received: {value!r}.")
    value = {k: v.item() if isinstance(v, np.generic) else v for k, v in value.items()}
    for key, one in value.items():
        if not isinstance(key, str) or not key.isidentifier():
            raise ValueError(f"`{name}` must have strings as keys. Received: {key!r}.")
        try:
            plain = ast.literal_eval(repr(one)) == one
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            plain = False
        if not plain:
            raise ValueError(
                f"`{name}['{key}']` must be a finite number, a string or another plain "
                f"Python value. Received: {one!r}."
            )
    return Parameters(value)


def _assignments(
    texts: Sequence[str], separator: str, form: str
) -> Iterator[tuple[str, str, str]]:
    """Yields each text, and the name and the value in it."""
    for text in texts:
        name, _, value = text.partition(separator)
        if not value or not name.isidentifier():
            raise ValueError(f"must have the form {form}. Received: {text!r}.")
        yield text, name, value


def _parse_parameters(texts: Sequence[str], about: Setting) -> Parameters:
    """Reads texts `name=value`; values are Python literals, else strings."""
    values = {}
    for text, name, value in _assignments(texts, "=", "name=value"):
        values[name] = literal(value)
        if not decimals.all_finite(values[name]):
            raise ValueError(f"must have finite numbers. Received: {text!r}.")
    return Parameters(values)


def _check_schedules(name: str, value: Any, about: Setting) -> Parameters:
    found = _check_parameters(name, value, about)
    for key, form in found.items():
        _check_text(f"{name}['{key}']", form, about)
    return found


def _parse_schedules(texts: Sequence[str], about: Setting) -> Parameters:
    found = _assignments(texts, ":", "NAME:FORM")
    return Parameters({name: form for _, name, form in found})


KINDS: dict[str, Kind] = {
    "boolean": Kind(_check_boolean, _parse_boolean, lambda value: str(value).lower()),
    "choice": Kind(_check_choice, _parse_choice),
    "integer": Kind(_check_integer, _parse_integer),
    "integers": Kind(_check_each(_check_integer, "integers"), _parse_integers, _join),
    "number": Kind(_check_number, _parse_number),
    "numbers": Kind(_check_each(_check_number, "numbers"), _parse_numbers, _join),
    "parameters": Kind(
        _check_parameters,
        _parse_parameters,
        lambda values: [f"{name}={as_text(one)}" for name, one in values.items()],
        repeats=True,
    ),
    "path": Kind(_check_path, _parse_text),
    "paths": Kind(_check_each(_check_path, "paths"), _parse_paths, _join),
    "repeated": Kind(
        _check_each(_check_text, "strings"),
        lambda texts, about: tuple(texts),
        list,
        repeats=True,
    ),
    "schedules": Kind(
        _check_schedules,
        _parse_schedules,
        lambda values: [f"{name}:{form}" for name, form in values.items()],
        repeats=True,
    ),
    "text": Kind(_check_text, _parse_text),
    "texts": Kind(_check_each(_check_text, "strings"), _parse_texts, _join),
}
