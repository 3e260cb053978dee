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

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tfr_ext.core import decimals
from tfr_ext.core.setting_kinds import KINDS, Parameters, Setting

_SETTING, _NESTED = "setting", "nested"
_KIND_OF = {bool: "boolean", int: "integer", float: "number", str: "text"}


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
        group: the group in which it is listed; the `GROUP` of its class by default.
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
    (place,) = (place for place in places(kind) if place.path == (name,))
    return dataclasses.field(default=place.default, metadata={_SETTING: place.about})


def nested(kind: type[Settings]) -> Any:
    """Returns a field that holds other settings, by default with their defaults."""
    return dataclasses.field(default_factory=kind, metadata={_NESTED: kind})


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base of settings; checks each field against its `setting`."""

    GROUP: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Checks the fields."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            kind = field.metadata.get(_NESTED)
            about = field.metadata.get(_SETTING)
            if kind is not None and not isinstance(value, kind):
                raise ValueError(
                    f"`{field.name}` must be a {kind.__name__}. Received: {value!r}."
                )
            if about is not None and not (value is None and field.default is None):
                fine = KINDS[about.kind].check(field.name, value, about)
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
            about = dataclasses.replace(about, group=about.group or kind.GROUP)
            found.append(Place((field.name,), about, default))
    return found


def build(kind: type[Settings], values: Mapping[str, Any]) -> Any:
    """Builds settings, including nested ones.

    Args:
        kind: their class.
        values: values by key; a setting that is left out has its default.

    Raises:
        ValueError: If a value is not allowed.
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
    return decimals.short(value) if isinstance(value, float) else repr(value)
