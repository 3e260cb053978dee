"""The files that a comparison writes."""

from __future__ import annotations

import os

from pipelines.comparing import effect_table, html_page, tables
from tfr_ext.core.files import write_atomically
from tfr_ext.evaluation.comparison import Comparison
from tfr_ext.runs import outputs

# In the order in which they are removed.
FILES = ("comparison.json", "comparison.html", "table.tex", "table.md")


def write(comparison: Comparison, output_dir: str) -> None:
    """Writes `comparison.json`, `table.md`, `table.tex` and `comparison.html`.

    Args:
        comparison: the comparison.
        output_dir: directory to which the files are written; made if need be.
    """
    for name, text in (
        ("table.md", tables.markdown(comparison) + effect_table.markdown(comparison)),
        ("table.tex", tables.latex(comparison)),
        ("comparison.html", html_page.html(comparison)),
        # Written last: a comparison that has it is complete.
        ("comparison.json", outputs.as_json(comparison.as_dict())),
    ):
        write_atomically(os.path.join(output_dir, name), text)
