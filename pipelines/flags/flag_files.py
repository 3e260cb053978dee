"""Flag files, checked before absl reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from absl import flags


def check(arguments: Sequence[str]) -> None:
    """Checks that all flag files of a command line can be read.

    Args:
        arguments: the command line.

    Raises:
        flags.Error: if one is missing, is no text, or includes itself.
    """
    for path in _named(arguments):
        _check(path, ())


def _named(arguments: Sequence[str]) -> Iterator[str]:
    """Yields the flag files that a command line or a file names."""
    for i, argument in enumerate(arguments):
        if argument == "--":
            return
        name, equals, path = argument.strip().partition("=")
        if name not in ("--flagfile", "-flagfile"):
            continue
        if not equals:
            path = "".join(arguments[i + 1 : i + 2])
        if path.strip():
            yield os.path.expanduser(path.strip())


def _check(path: str, within: tuple[str, ...]) -> None:
    """Checks a flag file and those that it includes.

    Args:
        path: the file.
        within: the files that include it.
    """
    where = f" (in {within[-1]})" if within else ""
    if any(os.path.realpath(path) == os.path.realpath(other) for other in within):
        raise flags.Error(f"--flagfile={path}{where}: the file includes itself.")
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
    except UnicodeDecodeError as error:
        raise flags.Error(
            f"--flagfile={path}{where}: expected lines of text such as "
            f"--batch_size=32. Found: {error}."
        ) from error
    except OSError as error:
        raise flags.Error(
            f"--flagfile={path}{where}: the file cannot be read: {error.strerror}."
        ) from error
    for inner in _named([line for line in lines if line.startswith("-")]):
        _check(inner, (*within, path))
