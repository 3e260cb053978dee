"""The console command `tfr-ext`, and how messages name the commands.

`tfr-ext train` is `python -m pipelines.train`, and so on.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import os
import pathlib
import re
import runpy
import sys

from pipelines.start import interruption

NAME = "tfr-ext"
_HELP = ("help", "-?", "-h", "-help", "--help", "--helpshort", "--helpfull")
_ROOT = pathlib.Path(__file__).parents[2]


def is_starting() -> bool:
    """Returns whether this process was started as the console command."""
    return os.path.splitext(os.path.basename("".join(sys.argv[:1])))[0] == NAME


@interruption.ended_by_reader()
def main() -> None:
    """Runs the command that the first argument names, as `python -m` does."""
    first = "".join(sys.argv[1:2])
    known = abouts()
    if first in known:
        called_as(f"{NAME} {{}}")
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
    known = abouts()
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
    known = abouts()
    word = "".join(x if x.isprintable() else ascii(x)[1:-1] for x in word)
    if word.startswith("-"):
        return (
            f"expected a command before {word}, as in {NAME} {min(known)} ... The "
            f"commands are {', '.join(known)}."
        )
    near = difflib.get_close_matches(word, known, n=3)
    guess = f"; did you mean {' or '.join(near)}?" if near else "."
    return f"{word} is not a command{guess} The commands are {', '.join(known)}."


_FOLDER = pathlib.Path(__file__).parents[1]
_NAMED = re.compile(r"(?:python -m )?\bpipelines\.([a-z_]+)\b(?!\.py)")


class _State:
    """How texts name a command, with '{}' for its name; empty to leave them as is."""

    form = ""


def called_as(form: str) -> None:
    """Sets what a user types for a command in texts, with '{}' for its name."""
    _State.form = form


@functools.cache
def abouts() -> dict[str, str]:
    """Returns the first sentence of each command's documentation, by its name.

    Examples:
        >>> abouts()["train"]
        'Trains, evaluates and exports a ranker.'
    """
    found = {}
    for path in sorted(_FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [x.name for x in tree.body if isinstance(x, ast.FunctionDef)]
        if "define_flags" in functions:
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def worded(text: str) -> str:
    """Returns a text with the commands in it named as this one was called.

    Examples:
        >>> text = "`pipelines.train` reads what python -m pipelines.prepare wrote."
        >>> called_as("tfr-ext {}")
        >>> worded(text)
        '`tfr-ext train` reads what tfr-ext prepare wrote.'
        >>> called_as("")
        >>> worded(text) == text
        True
    """

    def named(match: re.Match[str]) -> str:
        return _State.form.format(match[1]) if match[1] in abouts() else match[0]

    return _NAMED.sub(named, text) if _State.form else text
