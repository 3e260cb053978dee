"""The files that a comparison leaves behind."""

from __future__ import annotations

import os

from pipelines import comparison_page, outputs, tables
from pipelines.comparison import Comparison
from tfr_ext import checkpoints

FILES = ("table.md", "table.tex", "comparison.html", "comparison.json")


def remove(output_dir: str) -> None:
    """Removes what `write` wrote.

    Args:
        output_dir: directory of the files.
    """
    for name in FILES[::-1]:
        path = os.path.join(output_dir, name)
        if os.path.exists(path):
            os.remove(path)


def write(comparison: Comparison, output_dir: str) -> None:
    """Writes `comparison.json`, `table.md`, `table.tex` and `comparison.html`.

    Args:
        comparison: the comparison.
        output_dir: directory that gets the files; made if need be.
    """
    for name, text in (
        ("table.md", tables.markdown(comparison)),
        ("table.tex", tables.latex(comparison)),
        ("comparison.html", comparison_page.html(comparison)),
        # Last: a comparison that has it is whole.
        ("comparison.json", outputs.as_json(comparison.as_dict())),
    ):
        checkpoints.write_atomically(os.path.join(output_dir, name), text)
