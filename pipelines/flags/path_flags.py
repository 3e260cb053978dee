"""Checks that flags that hold paths are not empty.

A shell leaves a flag empty where a variable is not set: `--model_dir=$UNSET` would
otherwise mean the current directory, and `--valid_path=$UNSET` would hold out queries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import flags

from tfr_ext.core.checks import PLAIN_PATH, is_plain_path

_EXPECTED = "expected a path, found nothing. Give one, or leave the flag out."
# Every command has one of these flags. With it, --flagfile is checked, which absl
# defines.
_PLACES = ("model_dir", "output_dir", "export_dir", "output")


def check(name: str, several: bool, flag_values: flags.FlagValues) -> None:
    """Makes absl refuse a flag whose paths are empty or not plain.

    A flag of several paths may be empty in a flag file, as in the `flags.cfg` of a run
    without such files.
    """

    def register(holds: Callable[[Sequence[str]], bool], message: str) -> None:
        def holds_for(value: Any) -> bool:
            return holds(() if value is None else value if several else (value,))

        flags.register_validator(name, holds_for, message, flag_values)

    register(
        lambda paths: (
            all(map(_is_named, paths)) and not (several and is_empty_in(sys.argv, name))
        ),
        _EXPECTED,
    )
    each = "paths, each " if several else ""
    register(
        lambda paths: all(map(is_plain_path, paths)), f"expected {each}{PLAIN_PATH}"
    )
    if name in _PLACES:
        register(
            lambda paths: not is_empty_in(sys.argv, "flagfile"),
            f"--flagfile=: {_EXPECTED}",
        )


def check_lists(arguments: Sequence[str], names: Sequence[str]) -> None:
    """Checks that none of the flags is given without a value."""
    for name in names:
        if is_empty_in(arguments, name):
            raise ValueError(f"--{name}=: {_EXPECTED}")


def is_empty_in(arguments: Sequence[str], name: str) -> bool:
    """Returns whether a flag is given without a value.

    Examples:
        >>> is_empty_in(["--test_path=", "--gain=linear"], "test_path")
        True
        >>> is_empty_in(["--test_path", "x.txt"], "test_path")
        False
    """
    for argument, following in zip(arguments, [*arguments[1:], None]):
        flag, equals, value = argument.partition("=")
        if argument.startswith("-") and flag.lstrip("-") == name:
            if not _is_named(value if equals else following or ""):
                return True
    return False


def _is_named(path: str) -> bool:
    return bool(path.strip())
