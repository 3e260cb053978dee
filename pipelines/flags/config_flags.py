"""Defines a flag for each setting, and reads settings from parsed flags."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from absl import flags

from pipelines.flags import flag_files, path_flags, wording
from tfr_ext.core.setting_kinds import KINDS, Kind
from tfr_ext.core.setting_kinds import parse as parsed
from tfr_ext.core.settings import Place, Settings, build, places

_Settings = TypeVar("_Settings", bound=Settings)


def define(
    kind: type[Settings],
    required: Collection[str] = (),
    flag_values: flags.FlagValues = flags.FLAGS,
    without: Collection[str] = (),
) -> None:
    """Defines a flag for each setting of a class.

    `required` has the names of settings that must be given, and `without` those of
    flags that `flag_values` already has.
    """
    learn(kind)
    for place in places(kind):
        if place.key not in without:
            _define(place, place.name in required, flag_values)


def learn(kind: type[Settings]) -> None:
    """Lets messages name the flags of some settings even if they are not defined."""
    for place in places(kind):
        wording.learn(place)


def read(kind: type[_Settings], flag_values: flags.FlagValues) -> _Settings:
    """Returns the settings that parsed flags give.

    Args:
        kind: their class, of which `define` made the flags.
        flag_values: the flags.

    Raises:
        ValueError: If a flag is wrong, or two flags do not fit each other.
    """
    return build(
        kind,
        {
            place.key: _value(place, flag_values[place.key].value)
            for place in places(kind)
        },
    )


def given(
    kind: type[Settings],
    flag_values: flags.FlagValues,
    without: Collection[str] = (),
) -> list[str]:
    """Returns the flags given for some settings, as on a command line."""
    names = [place.key for place in places(kind) if place.key not in without]
    every = [flag_values[name] for name in names]
    texts = [flag.serialize() for flag in every if flag.present]
    return [line for text in texts for line in text.split("\n")]


@dataclasses.dataclass(frozen=True)
class Parsed:
    """A parsed command line that is not the one of this process.

    `texts` says by flag how its value is written, and `changed` names the flags that do
    not have their default.
    """

    settings: Any
    texts: dict[str, str]
    changed: frozenset[str]


def parse(kind: type[Settings], arguments: Sequence[str], name: str) -> Parsed:
    """Parses a command line.

    Args:
        kind: class of the settings that the command line gives.
        arguments: the flags.
        name: name of the command, for messages.

    Raises:
        flags.Error: If a flag is unknown or wrong.
        ValueError: If the flags do not fit each other.
    """
    values = flags.FlagValues()
    define(kind, flag_values=values)
    values([name, *flag_files.expanded(arguments)])
    settings = read(kind, values)
    own = {place.key: (place, values[place.key]) for place in places(kind)}
    return Parsed(
        settings,
        {name: flag.serialize() for name, (_, flag) in own.items()},
        frozenset(
            name
            for name, (place, flag) in own.items()
            if flag.value != flag.default
            # A default of None may stand for one that depends on other flags.
            and not (
                flag.default is None
                and place.value(settings) == place.left_out(settings)
            )
        ),
    )


class _Parser(flags.ArgumentParser):
    """Reads a setting whose kind does not repeat."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.enum_values = list(place.about.choices) or None  # As absl's parser has it.

    def parse(self, argument: Any) -> Any:
        """Returns the value of a text; a default is one already."""
        about, key = self._place.about, self._place.key
        try:
            return parsed(about, [argument]) if isinstance(argument, str) else argument
        except ValueError as error:
            if about.kind in ("integers", "numbers"):
                raise flags.IllegalFlagValueError(f"--{key} {error}") from error
            raise

    def flag_type(self) -> str:
        """Returns the kind."""
        return self._place.about.kind


class _Serializer(flags.ArgumentSerializer):
    """Writes a setting whose kind does not repeat."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def serialize(self, value: Any) -> str:
        """Returns the text of a value."""
        return self._kind.format(value)


def _define(place: Place, required: bool, flag_values: flags.FlagValues) -> None:
    about, name, default = place.about, place.key, place.default
    kind, text = KINDS[about.kind], wording.with_flag_names(about.help)
    if kind.repeats:
        first = None if required else list(default)
        flags.DEFINE_multi_string(name, first, text, flag_values, required=required)
        return
    if about.choices:
        text = f"<{'|'.join(about.choices)}>: {text}"
    flags.DEFINE(
        _Parser(place),
        name,
        default,
        text,
        flag_values,
        _Serializer(kind),
        required=required,
        boolean=about.kind == "boolean",
    )
    if about.kind in ("path", "paths"):
        path_flags.check(name, about.kind == "paths", flag_values)


def _value(place: Place, value: Any) -> Any:
    """Returns the value of a setting that the value of its flag gives."""
    if value is None or not KINDS[place.about.kind].repeats:
        return value
    try:
        return parsed(place.about, value)
    except ValueError as error:
        raise ValueError(f"--{place.key} {error}") from None
