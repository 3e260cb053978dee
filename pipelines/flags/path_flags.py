"""Flags that hold paths, which must not be empty.

A shell leaves a flag empty where a variable is not set: `--model_dir=$UNSET` would
otherwise mean the current directory, and `--valid_path=$UNSET` would hold out queries.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from absl import flags

from tfr_ext.core.settings import PLAIN_PATH, is_plain_path

flags.disclaim_key_flags()  # They are those of the module that defines them here.

_EXPECTED = "expected a path, found nothing. Give one, or leave the flag out."
# Every command has one of these flags. With it, --flagfile is checked, which absl
# defines.
_PLACES = ("model_dir", "output_dir", "export_dir", "output")


def define(
    name: str,
    help: str,
    required: bool = False,
    flag_values: flags.FlagValues = flags.FLAGS,
) -> None:
    """Defines a flag that holds one path.

    Args:
        name: name of the flag.
        help: what it is for.
        required: whether it must be given.
        flag_values: gets the flag.
    """
    flags.DEFINE_string(name, None, help, flag_values, required=required)
    flags.register_validator(
        name, lambda path: path is None or _is_named(path), _EXPECTED, flag_values
    )
    flags.register_validator(
        name,
        lambda path: path is None or is_plain_path(path),
        f"expected {PLAIN_PATH}",
        flag_values,
    )
    if name in _PLACES:
        flags.register_validator(
            name,
            lambda path: not is_empty_in(sys.argv, "flagfile"),
            f"--flagfile=: {_EXPECTED}",
            flag_values,
        )


class PathsParser(flags.ListParser):
    """Reads paths, separated by commas, or one that exists and has commas itself."""

    def parse(self, argument: str | list[str]) -> list[str]:
        """See `flags.ListParser`."""
        if isinstance(argument, str) and (
            os.path.lexists(argument)
            or "\n" in argument
            or "\r" in argument  # It is no list either, and is refused.
        ):
            return [argument]
        return super().parse(argument)


def define_list(
    name: str, help: str, flag_values: flags.FlagValues = flags.FLAGS
) -> None:
    """Defines a flag that holds paths, separated by commas; none by default.

    A path with commas can be quoted, as in CSV, and need not be if it is the only one
    and exists. The flag may be empty in a flag file, as in the `flags.cfg` of a run
    without such files.

    Args:
        name: name of the flag.
        help: what it is for.
        flag_values: gets the flag.
    """
    flags.DEFINE(
        PathsParser(), name, [], help, flag_values, flags.CsvListSerializer(",")
    )
    flags.register_validator(
        name,
        lambda paths: all(map(_is_named, paths)) and not is_empty_in(sys.argv, name),
        _EXPECTED,
        flag_values,
    )
    flags.register_validator(
        name,
        lambda paths: all(map(is_plain_path, paths)),
        f"expected paths, each {PLAIN_PATH}",
        flag_values,
    )


def check_lists(arguments: Sequence[str], names: Sequence[str]) -> None:
    """Checks that none of the flags is given without a value.

    Args:
        arguments: the arguments of a command.
        names: flags that `define_list` defined.

    Raises:
        ValueError: if a flag has no value.
    """
    for name in names:
        if is_empty_in(arguments, name):
            raise ValueError(f"--{name}=: {_EXPECTED}")


def is_empty_in(arguments: Sequence[str], name: str) -> bool:
    """Tells whether a flag is given without a value.

    Args:
        arguments: the arguments of a command.
        name: name of the flag.

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
