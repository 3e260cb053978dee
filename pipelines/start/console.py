"""The console command: `tfr-ext train` is `python -m pipelines.train`, and so on."""

from __future__ import annotations

import difflib
import importlib
import os
import pathlib
import runpy
import sys

from pipelines.start import commands, interruption

NAME = "tfr-ext"
_HELP = ("help", "-?", "-h", "-help", "--help", "--helpshort", "--helpfull")
_ROOT = pathlib.Path(__file__).parents[2]


def is_starting() -> bool:
    """Tells whether this process was started as the console command."""
    return os.path.splitext(os.path.basename("".join(sys.argv[:1])))[0] == NAME


@interruption.ended_by_reader()
def main() -> None:
    """Runs the command that the first argument names, as `python -m` does."""
    first = "".join(sys.argv[1:2])
    known = commands.abouts()
    if first in known:
        commands.called_as(f"{NAME} {{}}")
        del sys.argv[1]
        importlib.import_module("pipelines.start.tensorflow_import")
        runpy.run_module(f"pipelines.{first}", run_name="__main__", alter_sys=True)
    elif first in _HELP:
        print(_page())
    elif first == "--version":
        version = runpy.run_path(str(_ROOT / "tfr_ext" / "version.py"))
        print(f"{NAME} {version['__version__']}")
    elif first:
        sys.exit(f"Error: {_unknown(first)}")
    else:
        sys.exit(_page())


def _page() -> str:
    known = commands.abouts()
    width = max(map(len, known))
    return "\n".join(
        [
            f"Usage: {NAME} COMMAND [FLAGS]",
            "",
            *(f"  {name:{width}}  {about}" for name, about in known.items()),
            "",
            f"{NAME} COMMAND --help lists the flags of a command; {NAME} --version "
            "prints the version.",
        ]
    )


def _unknown(word: str) -> str:
    known = commands.abouts()
    word = "".join(x if x.isprintable() else ascii(x)[1:-1] for x in word)
    if word.startswith("-"):
        return (
            f"expected a command before {word}, as in {NAME} {min(known)} ... The "
            f"commands are {', '.join(known)}."
        )
    near = difflib.get_close_matches(word, known, n=3)
    guess = f"; did you mean {' or '.join(near)}?" if near else "."
    return f"{word} is not a command{guess} The commands are {', '.join(known)}."
