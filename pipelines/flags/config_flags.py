"""Flags made from the fields of settings, and settings read from flags and texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from absl import flags

from pipelines.flags import flag_files, flag_types, path_flags, wording
from tfr_ext.core.settings import (
    HIGHEST_COUNT,
    Place,
    Settings,
    build,
    is_finite,
    literal,
    places,
)
from tfr_ext.data import text_files

_Settings = TypeVar("_Settings", bound=Settings)


def define(
    kind: type[Settings],
    required: Collection[str] = (),
    flag_values: flags.FlagValues = flags.FLAGS,
    without: Collection[str] = (),
) -> None:
    """Defines a flag for each setting of a class.

    Args:
        kind: the class.
        required: names of those that must be given.
        flag_values: gets the flags.
        without: flags that it already has, and that are not defined again.
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
        ValueError: if a flag is wrong, or two flags do not fit each other.
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
    """Returns the flags that were given for some settings, as on a command line.

    Args:
        kind: the class of the settings.
        flag_values: the flags.
        without: flags that are left out.
    """
    names = [place.key for place in places(kind) if place.key not in without]
    every = [flag_values[name] for name in names]
    texts = [flag.serialize() for flag in every if flag.present]
    return [line for text in texts for line in text.split("\n")]


@dataclasses.dataclass(frozen=True)
class Parsed:
    """A parsed command line that is not the one of this process.

    Attributes:
        settings: the settings that it gives.
        texts: by flag, how its value is written.
        changed: names of the flags that do not have their default.
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
        flags.Error: if a flag is unknown or wrong.
        ValueError: if the flags do not fit each other.
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


def _define(place: Place, required: bool, flag_values: flags.FlagValues) -> None:
    about, name, default = place.about, place.key, place.default
    kind, text, low, high = (
        about.kind,
        wording.spelled(about.help),
        about.low,
        about.high,
    )
    if kind == "boolean":
        flags.DEFINE_bool(name, default, text, flag_values)
    elif kind == "choice":
        flags.DEFINE_enum(name, default, list(about.choices), text, flag_values)
    elif kind == "integer":
        flag_types.define_integer(
            name,
            default,
            text,
            0 if low is None else int(low),
            HIGHEST_COUNT if high is None else int(high),
            flag_values,
        )
    elif kind == "number":
        flag_types.define_float(name, default, text, low, high, flag_values)
    elif kind == "path":
        path_flags.define(name, text, required, flag_values)
    elif kind == "paths":
        path_flags.define_list(name, text, flag_values)
    elif kind == "text" and about.convert:
        flag_types.define_metric(name, default, text, flag_values)
    elif kind == "text":
        flags.DEFINE_string(name, default, text, flag_values)
    elif kind == "texts" and about.convert:
        flag_types.define_metrics(name, list(default), text, flag_values)
    elif kind in ("texts", "integers", "numbers"):
        values = None if default is None else [str(one) for one in default]
        flags.DEFINE_list(name, values, text, flag_values)
    elif kind == "repeated":
        first = None if required else list(default)
        flags.DEFINE_multi_string(name, first, text, flag_values, required=required)
    else:
        flags.DEFINE_multi_string(name, [], text, flag_values)


def _value(place: Place, value: Any) -> Any:
    """Returns the value of a setting that the value of its flag gives."""
    about, name = place.about, place.key
    if value is None:
        return None
    if about.kind == "integers":
        low = 0 if about.low is None else int(about.low)
        high = HIGHEST_COUNT if about.high is None else int(about.high)
        return parse_integers(value, name, low, high)
    if about.kind == "numbers":
        return parse_numbers(value, name)
    if about.kind == "repeated":  # An empty value drops those before it.
        ends = [number for number, text in enumerate(value, 1) if not text]
        return value[max(ends, default=0) :]
    if about.kind == "parameters":
        return parse_parameters(value, name)
    if about.kind == "schedules":
        return parse_schedules(value, name)
    return value


def parse_parameters(assignments: list[str], flag: str) -> dict[str, Any]:
    """Reads repeated `name=value` flags; values are Python literals, else strings.

    Args:
        assignments: such as `['alpha=1.0', 'metric=map']`.
        flag: the flag's name, for errors.

    Returns:
        The parameters. The last assignment to a name counts, and an empty one drops all
        that came before it, so that a command line overrides a flag file.

    Raises:
        ValueError: if an assignment is not of that form, or has a number that is not
            finite.

    Examples:
        >>> parse_parameters(['alpha=1.0', 'metric=map', 'alpha=2'], 'loss_param')
        {'alpha': 2, 'metric': 'map'}
    """
    parameters: dict[str, Any] = {}
    for assignment in assignments:
        if not assignment:
            parameters.clear()
            continue
        name, equals, text = assignment.partition("=")
        if not equals or not name.isidentifier() or not text:
            raise ValueError(
                f"--{flag} must have the form name=value. Received: {assignment!r}."
            )
        parameters[name] = literal(text)
        if not _is_finite(parameters[name]):
            raise ValueError(
                f"--{flag} must have finite numbers. Received: {assignment!r}."
            )
    return parameters


def _is_finite(value: Any) -> bool:
    """Tells whether a value has no NaN and no infinity, not even as text."""
    if isinstance(value, (list, tuple, set)):
        return all(map(_is_finite, value))
    if isinstance(value, dict):
        return all(map(_is_finite, (*value, *value.values())))
    try:
        return is_finite(float(value))
    except (TypeError, ValueError):
        return True  # no number at all
    except OverflowError:
        return False


def parse_schedules(schedules: list[str], flag: str) -> dict[str, str]:
    """Reads repeated `NAME:FORM` flags.

    Args:
        schedules: such as `['alpha:exponential:2']`.
        flag: the flag's name, for errors.

    Returns:
        The forms by name. The last schedule of a name counts, and an empty one drops
        all that came before it.

    Raises:
        ValueError: if a schedule is not of that form.

    Examples:
        >>> parse_schedules(['alpha:exponential:2:9'], 'loss_schedule')
        {'alpha': 'exponential:2:9'}
    """
    forms: dict[str, str] = {}
    for schedule in schedules:
        if not schedule:
            forms.clear()
            continue
        name, _, form = schedule.partition(":")
        if not form or not name.isidentifier():
            raise ValueError(
                f"--{flag} must have the form NAME:FORM. Received: {schedule!r}."
            )
        forms[name] = form
    return forms


def parse_integers(texts: list[str], flag: str, least: int, most: int) -> list[int]:
    """Reads a list flag of integers.

    Args:
        texts: the integers.
        flag: the flag's name, for errors.
        least: the lowest value allowed.
        most: the highest value allowed.

    Raises:
        ValueError: if a text is not an integer, or is out of range.
    """
    try:
        integers = [text_files.parse_integer(text.strip()) for text in texts]
    except ValueError:
        integers = [least - 1]
    if not all(least <= integer <= most for integer in integers):
        raise ValueError(
            f"--{flag} must be integers from {least} to {most} separated by commas. "
            f"Received: {texts}."
        )
    return integers


def parse_numbers(texts: list[str], flag: str) -> list[float]:
    """Reads a list flag of numbers.

    Args:
        texts: the numbers.
        flag: the flag's name, for errors.

    Raises:
        ValueError: if a text is not a finite number.
    """
    parser = flag_types.FiniteParser()
    try:
        return [parser.parse(text) for text in texts]
    except ValueError:
        raise ValueError(
            f"--{flag} must be finite numbers separated by commas. Received: {texts}."
        ) from None
