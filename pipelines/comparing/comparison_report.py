"""Options of a comparison, and its printed and written reports."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from absl import flags

from pipelines.comparing import html_page, tables
from pipelines.flags import config_flags
from tfr_ext.core import messages
from tfr_ext.core.files import write_atomically
from tfr_ext.evaluation import runs
from tfr_ext.evaluation.comparable import Options
from tfr_ext.evaluation.comparison import Comparison
from tfr_ext.runs import outputs

# In the order in which they are removed.
FILES = ("comparison.json", "comparison.html", "table.tex", "table.md")


def read(metrics: Sequence[str], seed: int) -> Options:
    """Returns the options of a comparison that the flags give.

    Args:
        metrics: names of metrics.
        seed: seed of the randomisation test.
    """
    given = config_flags.read(Options, flags.FLAGS)
    against = messages.visible(given.against, runs.LONGEST_NAME)
    return dataclasses.replace(given, metrics=metrics, seed=seed, against=against)


def show(comparison: Comparison) -> None:
    """Prints the tables of a comparison."""
    print(tables.terminal(comparison))
    print(tables.effects_terminal(comparison))


def write(comparison: Comparison, output_dir: str) -> None:
    """Writes `comparison.json`, `table.md`, `table.tex` and `comparison.html`."""
    for name, text in (
        ("table.md", tables.markdown(comparison)),
        ("table.tex", tables.latex(comparison)),
        ("comparison.html", html_page.html(comparison)),
        # Written last: a comparison that has it is complete.
        ("comparison.json", outputs.as_json(comparison.as_dict())),
    ):
        write_atomically(os.path.join(output_dir, name), text)
