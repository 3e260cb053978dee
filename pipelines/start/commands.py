"""Which commands there are, and how the one that runs was called.

A command is a module of `pipelines` that defines flags. The modules are read, not
imported, as each imports TensorFlow.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re

_FOLDER = pathlib.Path(__file__).parents[1]
_NAMED = re.compile(r"(?:python -m )?\bpipelines\.([a-z_]+)\b(?!\.py)")


class _State:
    """How texts name a command, with '{}' for its name; empty to leave them as is."""

    form = ""


def called_as(form: str) -> None:
    """Sets how texts name a command.

    Args:
        form: what a user types, with '{}' for the name of the command.
    """
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
