"""The differences of runs to the reference, with their intervals."""

from __future__ import annotations

import dataclasses
import textwrap

from pipelines.comparing.markdown_text import as_markdown
from tfr_ext import objectives
from tfr_ext.core import telling
from tfr_ext.evaluation.comparison import Comparison
from tfr_ext.evaluation.significance import Effect

HEAD = ("metric", "run", "against", "queries", "difference", "95 % interval", "p")
CAPTION = (
    "Mean difference to the reference over all queries that count, with the 95 % "
    "interval of Student's t and the two-sided p-value of the t-test, neither "
    "corrected for several comparisons."
)
POOLED = (
    " Over all collections, both are stratified: the variance is that within the "
    "collections."
)
# In the terminal, more would bury the table.
_MOST_LINES = 24


@dataclasses.dataclass(frozen=True)
class Row:
    """A difference.

    Attributes:
        cells: the texts below `HEAD`.
        metric: the metric.
        collection: one of several collections; empty for all queries.
    """

    cells: tuple[str, ...]
    metric: str
    collection: str


def caption(comparison: Comparison) -> str:
    """Returns the sentences below the differences."""
    return CAPTION + (POOLED if len(comparison.collections) > 1 else "")


def rows(comparison: Comparison) -> list[Row]:
    """Returns a row for each run, metric and collection."""
    found = []
    for metric in comparison.metrics:
        for run in comparison.runs:
            result = comparison.results[run.name][metric]
            if result.effect is None:
                continue
            reference = comparison.references[metric]
            every = {"": result.effect, **result.by_collection}
            for collection, effect in every.items():
                name = f"{run.name} on {collection}" if collection else run.name
                cells = (objectives.title(metric), name, reference)
                found.append(Row((*cells, *_numbers(effect)), metric, collection))
    return found


def terminal(comparison: Comparison) -> str:
    """Returns the table as plain text: all, or one metric where that is too long.

    Empty if a terminal has no room for that either, or there is no difference.
    """
    found = rows(comparison)
    if len(found) > _MOST_LINES:
        found = [row for row in found if row.metric == comparison.plot_metric]
    if not 0 < len(found) <= _MOST_LINES:
        return ""
    cells = [HEAD, *(row.cells for row in found)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths)).rstrip()
        for row in cells
    ]
    text = "\n".join(["", *lines, textwrap.fill(caption(comparison), 88)])
    return telling.visible(text)


def markdown(comparison: Comparison) -> str:
    """Returns the table in Markdown; empty if there is no difference."""
    found = rows(comparison)
    if not found:
        return ""
    lines = [
        "| " + " | ".join(HEAD) + " |",
        "|" + "---|" * len(HEAD),
        *("| " + " | ".join(map(as_markdown, row.cells)) + " |" for row in found),
    ]
    return "\n".join(["", *lines, "", as_markdown(caption(comparison)), ""])


def _numbers(effect: Effect) -> tuple[str, ...]:
    p = "<0.001" if effect.p_value < 0.001 else f"{effect.p_value:.3f}"
    return (
        f"{effect.queries:,}",
        f"{effect.difference:+.4f}",
        f"{effect.low:+.4f} to {effect.high:+.4f}",
        p,
    )
