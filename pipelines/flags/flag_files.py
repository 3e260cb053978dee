"""Reads flag files as absl does, and finds those of this package by name.

Unless there is a file of that name, `--flagfile=quickstart` and
`--flagfile=configs/quickstart.cfg` both mean the configs/quickstart.cfg that is
installed with this package.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

from absl import flags

from tfr_ext.core.checks import near

_PIPELINES = pathlib.Path(__file__).parents[1]
# Where the wheel has them, or else the repository.
CONFIGS = _PIPELINES / "configs"
if not CONFIGS.is_dir():
    CONFIGS = _PIPELINES.parent / "configs"
_FOLDER = "configs/"
# Parts of other flag files, not complete by themselves.
_PARTS = "bases"
# The flag files that this process has read.
were_read: list[str] = []


def expanded(arguments: Sequence[str], within: tuple[str, ...] = ()) -> list[str]:
    """Returns a command line with the flags of its flag files in their places.

    The arguments may also be lines of such a file: `within` are the files that these
    are in, the outermost first.

    Examples:
        >>> expanded(["--seed=1", "--flagfile=quickstart"])[:3]
        ['--seed=1', '--dataset=synthetic', '--model_dir=models/quickstart']
    """
    found: list[str] = []
    left = iter(arguments)
    for argument in left:
        if argument == "--":
            return [*found, argument, *left]
        name, equals, path = argument.partition("=")
        if name not in ("--flagfile", "-flagfile"):
            found.append(argument)
            continue
        value = path if equals else next(left, None)
        if value is None:
            found.append(argument)  # absl says what is wrong.
        elif value.strip():
            found += _read(os.path.expanduser(value.strip()), within)
    return found


def known() -> list[str]:
    """Returns the names of the flag files of this package.

    Examples:
        >>> known()[:2]
        ['covid_mlia', 'mq2008']
        >>> "experiments/kl_mq2008" in known()
        True
    """
    paths = [path.relative_to(CONFIGS) for path in CONFIGS.rglob("*.cfg")]
    names = [p.with_suffix("").as_posix() for p in paths if _PARTS not in p.parts]
    return sorted(names, key=lambda name: (name.count("/"), name))


def _read(path: str, within: tuple[str, ...]) -> list[str]:
    """Returns the flags in a file and in those that it includes."""
    where = f" (in {within[-1]})" if within else ""
    path = _found(path, where)
    if any(os.path.realpath(path) == os.path.realpath(other) for other in within):
        raise flags.Error(f"--flagfile={path}{where}: the file includes itself.")
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except UnicodeDecodeError as error:
        raise flags.Error(
            f"--flagfile={path}{where}: expected lines of text such as "
            f"--batch_size=32. Found: {error}."
        ) from error
    except OSError as error:
        raise flags.Error(
            f"--flagfile={path}{where}: the file cannot be read: {error.strerror}."
        ) from error
    were_read.append(path)
    own = [line for line in lines if line and not line.startswith(("#", "//"))]
    return expanded(own, (*within, path))


def _found(path: str, where: str) -> str:
    """Returns the path of a flag file, which may be that of a name."""
    if os.path.isabs(path) or (os.path.exists(path) and not os.path.isdir(path)):
        return path
    name = path.removeprefix(_FOLDER).removesuffix(".cfg")
    file = CONFIGS / f"{name}.cfg"
    if file.is_file():
        return str(file)
    if os.path.isdir(path):
        return path
    names = known()
    raise flags.Error(
        f"--flagfile={path}{where}: there is no such file, and no configuration of "
        f"this name{near(name, names)} The names are {', '.join(names)}."
    )
