"""Settings: frozen dataclasses whose fields have a help text, a default and a range.

>>> @dataclasses.dataclass(frozen=True)
... class Oven(Settings):
...     degrees: float = setting(180.0, "Heat.", group="baking", low=0.0)
...     racks: tuple[int, ...] = setting((2,), "From below.", kind="integers", low=1)
>>> Oven(racks=[1, 3])
Oven(degrees=180.0, racks=(1, 3))
>>> Oven(degrees=-1)
Traceback (most recent call last):
ValueError: `degrees` must be a finite number >= 0. Received: -1.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import math
import numbers
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfr_ext.core import checks

# The highest count: TensorFlow has 64-bit shapes, but 32-bit sizes in files.
HIGHEST_COUNT = 2**31 - 1
# The highest seed that NumPy's and Keras's generators accept.
HIGHEST_SEED = 2**32 - 1

PLAIN_PATH = "a path of one line in UTF-8, without blanks around it"
"""What `is_plain_path` accepts, for messages."""

_SETTING, _NESTED = "setting", "nested"


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


def setting(
    default: Any,
    help: str,
    *,
    group: str = "",
    kind: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
    key: str = "",
    convert: Callable[[str], str] | None = None,
) -> Any:
    """Returns a field of settings.

    Args:
        default: its default; with None, None is also an allowed value.
        help: its help text.
        group: the group in which it is listed; that of the class by default.
        kind: a key of `KINDS`, by default that of the default's type.
        low: the lowest number allowed.
        high: the highest number allowed.
        choices: the texts that it may be.
        key: its name in files and on command lines, the field's own by default.
        convert: a function that is applied to each text.
    """
    kind = kind or ("choice" if choices else _KIND_OF[type(default)])
    about = Setting(help, group, kind, low, high, tuple(choices), key, convert)
    metadata = {_SETTING: about}
    if kind in ("parameters", "schedules"):
        return dataclasses.field(default_factory=Parameters, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def same_setting(kind: type[Settings], name: str) -> Any:
    """Returns a field like one of other settings.

    Args:
        kind: the class of the other settings.
        name: the field.
    """
    (field,) = (field for field in dataclasses.fields(kind) if field.name == name)
    return dataclasses.field(default=field.default, metadata=field.metadata)


def nested(kind: type[Settings]) -> Any:
    """Returns a field that holds other settings, by default with their defaults."""
    return dataclasses.field(default_factory=kind, metadata={_NESTED: kind})


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


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base of settings; checks each field against its `setting`."""

    def __post_init__(self) -> None:
        """Checks the fields.

        Raises:
            ValueError: if a value is not allowed.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            kind = field.metadata.get(_NESTED)
            about = field.metadata.get(_SETTING)
            if kind is not None and not isinstance(value, kind):
                raise ValueError(
                    f"`{field.name}` must be a {kind.__name__}. Received: {value!r}."
                )
            if about is not None and not (value is None and field.default is None):
                fine = KINDS[about.kind](field.name, value, about)
                object.__setattr__(self, field.name, fine)

    def left_out(self, name: str) -> Any:
        """Returns the value that a field would have if only it were left out."""
        (place,) = (place for place in places(type(self)) if place.path == (name,))
        return place.default


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a setting among nested settings.

    Attributes:
        path: names of the fields that lead to it, ending in its own name.
        about: its properties.
        default: its default.
    """

    path: tuple[str, ...]
    about: Setting
    default: Any

    @property
    def name(self) -> str:
        """The name of the field."""
        return self.path[-1]

    @property
    def key(self) -> str:
        """Its name in files and on command lines."""
        return self.about.key or self.name

    def value(self, settings: Settings) -> Any:
        """Returns the value at this place of some settings."""
        return getattr(self._owner(settings), self.name)

    def left_out(self, settings: Settings) -> Any:
        """Returns the value that this place of some settings has if it is left out."""
        return self._owner(settings).left_out(self.name)

    def _owner(self, settings: Settings) -> Any:
        found: Any = settings
        for name in self.path[:-1]:
            found = getattr(found, name)
        return found


def places(kind: type[Settings]) -> list[Place]:
    """Returns the places of all settings of a class, including nested ones."""
    found = []
    for field in dataclasses.fields(kind):
        inner = field.metadata.get(_NESTED)
        about = field.metadata.get(_SETTING)
        if inner is not None:
            found += [
                dataclasses.replace(place, path=(field.name, *place.path))
                for place in places(inner)
            ]
        elif about is not None:
            default = field.default
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            found.append(Place((field.name,), about, default))
    return found


def build(kind: type[Settings], values: Mapping[str, Any]) -> Any:
    """Builds settings, including nested ones.

    Args:
        kind: their class.
        values: values by key; a setting that is left out has its default.

    Raises:
        ValueError: if a value is not allowed.
    """
    given = {}
    for field in dataclasses.fields(kind):
        inner = field.metadata.get(_NESTED)
        about = field.metadata.get(_SETTING)
        if inner is not None:
            given[field.name] = build(inner, values)
        elif about is not None and (about.key or field.name) in values:
            given[field.name] = values[about.key or field.name]
    return kind(**given)


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


def given(name: str, value: Any) -> str:
    """Returns an argument and its value as messages show them.

    Examples:
        >>> given("max_label", 2.0), given("values", (0.0, 0.5)), given("head", "score")
        ('`max_label=2`', '`values=(0, 0.5)`', "`head='score'`")
    """
    return f"`{name}={_shown(value)}`"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        comma = "," * (len(value) == 1)
        return f"({', '.join(map(_shown, value))}{comma})"
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return repr(value)


def is_finite(value: float) -> bool:
    """Returns whether a number is finite, even as a float32."""
    return math.isfinite(value) and abs(value) <= float(np.finfo(np.float32).max)


def _integer(name: str, value: Any, about: Setting) -> int:
    low = 0 if about.low is None else int(about.low)
    high = HIGHEST_COUNT if about.high is None else int(about.high)
    if checks.at_least(name, value, low) > high:
        raise ValueError(
            f"`{name}` must be an integer from {low} to {high}. Received: {value!r}."
        )
    return int(value)


def _number(name: str, value: Any, about: Setting) -> float:
    low = -math.inf if about.low is None else about.low
    high = math.inf if about.high is None else about.high
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not is_finite(value) or not low <= value <= high:
        expected = "a finite number"
        if about.high is not None:
            expected = f"a number from {low:g} to {high:g}"
        elif about.low is not None:
            expected += f" >= {low:g}"
        raise ValueError(f"`{name}` must be {expected}. Received: {value!r}.")
    return float(value)


def _boolean(name: str, value: Any, about: Setting) -> bool:
    return checks.boolean(name, value)


def _choice(name: str, value: Any, about: Setting) -> str:
    return checks.choice(name, value, list(about.choices))


def _text(name: str, value: Any, about: Setting) -> str:
    if not isinstance(value, str):
        raise ValueError(f"`{name}` must be a string. Received: {value!r}.")
    return about.convert(value) if about.convert else value


def _path(name: str, value: Any, about: Setting) -> str:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value).strip():
        raise ValueError(f"`{name}` must be a path. Received: {value!r}.")
    path = os.fspath(value)
    if not is_plain_path(path):
        raise ValueError(f"`{name}` must be {PLAIN_PATH}. Received: {value!r}.")
    return path


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


def _each(
    check: Callable[[str, Any, Setting], Any], several: str
) -> Callable[[str, Any, Setting], tuple]:
    """Returns a check of a sequence, given a check of its elements."""

    def checked(name: str, value: Any, about: Setting) -> tuple:
        if isinstance(value, (str, os.PathLike)) and check in (_text, _path):
            value = (value,)
        found = checks.elements(name, value, lambda n, x: check(n, x, about), several)
        return tuple(found)

    return checked


def _parameters(name: str, value: Any, about: Setting) -> Parameters:
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


def _schedules(name: str, value: Any, about: Setting) -> Parameters:
    found = _parameters(name, value, about)
    for key, form in found.items():
        _text(f"{name}['{key}']", form, about)
    return found


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


_KIND_OF = {bool: "boolean", int: "integer", float: "number", str: "text"}
# For each kind, a function that checks a value and returns it as it is stored.
KINDS: dict[str, Callable[[str, Any, Setting], Any]] = {
    "boolean": _boolean,
    "choice": _choice,
    "integer": _integer,
    "integers": _each(_integer, "integers"),
    "number": _number,
    "numbers": _each(_number, "numbers"),
    "parameters": _parameters,
    "path": _path,
    "paths": _each(_path, "paths"),
    "repeated": _each(_text, "strings"),
    "schedules": _schedules,
    "text": _text,
    "texts": _each(_text, "strings"),
}
