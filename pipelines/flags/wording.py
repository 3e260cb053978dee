"""Rewords the library's messages about arguments for the command line."""

from __future__ import annotations

import ast
import re
from typing import Any

from absl import flags

from pipelines.start import console
from tfr_ext.core.settings import Place

# `name`, `name*`, `name=value`, `name['parameter']` or `name['parameter']=value`.
_ARGUMENT = re.compile(r"`([a-z]\w*\*?)(?:\['(\w+)'\])?(?:=([^`\n]*))?`")
# What an empty flag drops, where several flags together can be a mistake.
_LOSS = re.compile(r"--loss=\S+ (?=--)")
_DROPPED = {
    "lambda_weight": "drops it and its parameters",
    "lambda_weight_param": "drops those before it",
    "loss_param": "drops those before it",
    "loss_schedule": "drops those before it",
}
_flag_of: dict[str, str] = {}
_groups: dict[str, str] = {}


def learn(place: Place) -> None:
    """Registers the flag name and the group of a setting."""
    _flag_of[place.name] = place.key
    _groups[place.key] = place.about.group


def group(flag: str) -> str:
    """Returns the group of a flag, empty if it is not that of a setting."""
    return _groups.get(flag, "")


def with_flag_names(text: str) -> str:
    """Returns a text with flags in place of arguments.

    Examples:
        >>> flags.DEFINE_float("rate", 0.1, "")  # doctest: +ELLIPSIS
        <absl...>
        >>> with_flag_names("`rate=2` is too much; `alpha` is no flag.")
        '--rate=2 is too much; `alpha` is no flag.'
        >>> delattr(flags.FLAGS, "rate")
    """
    return console.worded(_ARGUMENT.sub(_flag, text))


def with_hints(message: str) -> str:
    """Returns a message, with hints on how to drop the parts of a wrong loss."""
    if not _LOSS.match(message):
        return message
    words = message.partition(": ")[0]
    hints = [
        f"\n(--{name}= {effect}.)"
        for name, effect in _DROPPED.items()
        if f" --{name}=" in words
    ]
    return message + "".join(hints)


def _flag(match: re.Match[str]) -> str:
    name, parameter, text = match.groups()
    flag = _flag_of.get(name, name)
    if name.endswith("*"):
        known = any(other.startswith(name[:-1]) for other in _flag_of)
        return f"--{name}" if known else match[0]
    if flag not in flags.FLAGS and name not in _flag_of:
        is_command = name in console.abouts() and not parameter and text is None
        return f"pipelines.{name}" if is_command else match[0]
    if parameter:
        flag += f"={parameter}"
    if text is None:
        return f"--{flag}"
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = text
    if isinstance(value, bool) and not parameter:
        return f"--{flag}" if value else f"--no{flag}"
    separator = ":" if flag.startswith("loss_schedule=") else "="
    return f"--{flag}{separator}{_written(value, parameter)}"


def _written(value: Any, parameter: str | None) -> str:
    if isinstance(value, tuple) and not parameter:
        return ",".join(_written(one, parameter) for one in value)
    return str(value)
