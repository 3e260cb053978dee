"""Tables of our figures beside the published ones, in Markdown."""

from __future__ import annotations

import collections
import re
import shlex
from collections.abc import Mapping, Sequence

import scipy.stats

from papers import published
from papers.published import Table
from papers.results import Result
from pipelines.comparing import tables as comparison_tables
from tfr_ext import evaluation as conventions

TESTS = {
    "t": "paired t-test",
    "wilcoxon": "Wilcoxon signed-rank test",
    "randomisation": "randomisation test",
}


def heading(metric: str) -> str:
    """Returns a metric's name as papers print it.

    Args:
        metric: such as 'ndcg_10', which gives 'NDCG@10'.
    """
    text = comparison_tables.title_of(metric.removeprefix("valid_"))
    return f"validation {text}" if metric.startswith("valid_") else text


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def beside(result: Result | None, table: Table | None) -> str:
    """Returns our figures beside the published ones.

    Args:
        result: an experiment, or None for the published figures alone.
        table: the paper's figures, or None for ours alone.
    """
    if result is None:
        return "" if table is None else _of_paper(table)
    if table is None:
        rows = [[name, *_ours(result, name, result.metrics, 3)] for name in result.runs]
        header = ["", *map(heading, result.metrics)]
        return f"{markdown(header, rows)}\n\n{_caption(result)}"
    theirs = {name: published.match(name, table.values) for name in result.runs}
    metrics = [m for m in table.metrics if m in result.metrics]
    lines = []
    for name, other in theirs.items():
        lines.append([name, "ours", *_ours(result, name, metrics, table.digits)])
        if other is not None:
            lines.append(["", "published", *_published(table, other, metrics)])
            differences = [difference(result, name, m, table) for m in metrics]
            lines.append(["", "difference", *differences])
    for other in table.values:
        if other not in theirs.values():
            lines.append([other, "published", *_published(table, other, metrics)])
    text = markdown(["", "", *map(heading, metrics)], lines)
    return f"{text}\n\n{_caption(result)} {_published_caption(table)}"


def difference(result: Result, method: str, metric: str, table: Table) -> str:
    """Returns our figure minus the published one, with its sign."""
    ours = result.figures(method, metric)["mean"]
    return f"{ours - table.value(method, metric):+.{table.digits}f}"


def order(result: Result | None, table: Table, metric: str) -> str:
    """Returns how far the order of the methods agrees with the published one.

    Args:
        result: an experiment; without one there is nothing to compare.
        table: the paper's figures.
        metric: the metric by which both orders are written out.
    """
    if result is None:
        return ""
    pairs = [(n, published.match(n, table.values)) for n in result.runs]
    shared = {name: other for name, other in pairs if other is not None}
    if len(shared) < 2:
        raise ValueError(f"{result.name} shares fewer than two methods with the table.")
    metrics = [m for m in table.metrics if m in result.metrics]
    published.known(metric, metrics, f"metric that {result.name} shares")

    def of_both(name: str) -> tuple[list[float], list[float]]:
        return (
            [result.figures(method, name)["mean"] for method in shared],
            [table.value(method, name) for method in shared.values()],
        )

    taus = [scipy.stats.kendalltau(*of_both(m)).statistic for m in metrics]
    cells = [f"{tau:.2f}" if tau == tau else "" for tau in taus]
    sign = -1 if conventions.higher_is_better(metric) else 1
    orders = []
    for values in of_both(metric):
        ranked = sorted(zip(values, shared), key=lambda pair: sign * pair[0])
        orders.append(", ".join(name for _, name in ranked))
    return (
        f"Kendall's tau between our order of the {len(shared)} methods that both have "
        f"and the published one (1: the same, 0: unrelated):\n\n"
        f"{markdown([*map(heading, metrics)], [cells])}\n\n"
        f"From the best, by {heading(metric)}:\n\n"
        f"- ours: {orders[0]}\n- published: {orders[1]}"
    )


def chosen(result: Result | None) -> str:
    """Returns which candidates were chosen, and in how many folds.

    Only the flags in which the candidates of a method differ are written.
    """
    if result is None:
        return ""
    candidates = collections.defaultdict(set)
    for row in [*result.cells, *result.selected]:
        candidates[row["method"]].add(row["candidate"])
    counts: dict[str, collections.Counter] = collections.defaultdict(
        collections.Counter
    )
    for row in result.selected:
        counts[row["method"]][row["candidate"]] += 1
    rows = []
    for method, of_method in counts.items():
        flags = {c: shlex.split(c) for c in candidates[method]}
        common = set.intersection(*map(set, flags.values()))
        names = [
            f"{_settings([f for f in flags[c] if f not in common])} ({count})"
            for c, count in of_method.most_common()
        ]
        if len(flags) == 1:
            names = [f"the only one ({sum(of_method.values())})"]
        rows.append([method, str(len(flags)), "; ".join(names)])
    header = ["method", "candidates", "chosen (in so many folds)"]
    return markdown(header, rows)


def _settings(flags: Sequence[str]) -> str:
    names = [re.sub(r"^--(loss_param=|lambda_weight_param=)?", "", f) for f in flags]
    return "`" + " ".join(sorted(names)) + "`" if names else "nothing more"


def _ours(
    result: Result, method: str, metrics: Sequence[str], digits: int
) -> list[str]:
    against = result.comparison["test"].get("against", "best")
    arrows = {
        "worse": comparison_tables.DOWN,
        "better": comparison_tables.UP,
    }
    marks = {"worse": comparison_tables.DAGGER} if against == "best" else arrows
    cells = []
    for metric in metrics:
        figure = result.runs[method][metric]
        text = f"{figure['mean']:.{digits}f}"
        if figure.get("best"):
            text = f"**{text}**"
        error = result.error(method, metric)
        if error is not None:
            text += f" ±{error:.{digits}f}"
        cells.append(text + marks.get(figure.get("significant", ""), ""))
    return cells


def _published(table: Table, method: str, metrics: Sequence[str]) -> list[str]:
    cells = []
    for metric in metrics:
        column = table.metrics.index(metric)
        value = table.values[method][column]
        others = [row[column] for row in table.values.values()]
        best = max(others) if conventions.higher_is_better(metric) else min(others)
        text = f"{value:.{table.digits}f}"
        if table.ranked and value == best:
            text = f"**{text}**"
        if method in table.errors:
            text += f" ±{table.errors[method][column]:.{table.digits}f}"
        cells.append(
            text + (table.marks[method][column] if method in table.marks else "")
        )
    return cells


def _of_paper(table: Table) -> str:
    rows = [[name, *_published(table, name, table.metrics)] for name in table.values]
    text = markdown(["published", *map(heading, table.metrics)], rows)
    return f"{text}\n\n{_published_caption(table)}"


def _published_caption(table: Table) -> str:
    marks = [f"{mark} {says}" for mark, says in table.meaning.items()]
    sentences = [
        f"Published: {table.source}",
        table.collection,
        f"convention: {table.convention}",
        *marks,
    ]
    return "; ".join(sentences) + "." + (f" {table.note}" if table.note else "")


def _caption(result: Result) -> str:
    """Returns what the marks of our figures say."""
    test: Mapping = result.comparison["test"]
    over = "folds" if len(result.experiment["folds"]) > 1 else "seeds"
    errors = (result.error(n, m) for n in result.runs for m in result.metrics)
    spread = f"± is the standard error over {over}"
    spread = "" if all(error is None for error in errors) else spread
    name = TESTS.get(test["test"], test["test"])
    details = [name, test["alternative"]]
    if test["correction"] != "none":
        details.append(test["correction"].capitalize())
    details.append(f"{100 * test['level']:g}%")
    if test.get("against", "best") == "best":
        marks = "† is significantly worse than the best of ours"
    else:
        marks = f"↑ and ↓ are significantly better and worse than {test['against']}"
    said = f"{marks} ({', '.join(details)})"
    return "Ours: " + "; ".join(filter(None, [spread, said])) + "."
