"""Tables of our figures beside the published ones, in Markdown."""

from __future__ import annotations

import collections
import re
import shlex
from collections.abc import Sequence

import scipy.stats

from papers.results import Published, Result
from tfr_ext import evaluation as conventions
from tfr_ext import objectives
from tfr_ext.core.table import DAGGER, DOWN, UP, markdown

TESTS = {"t": "paired t-test", "wilcoxon": "Wilcoxon signed-rank test"}


def heading(metric: str) -> str:
    """Returns a metric's name as papers print it, such as NDCG@10."""
    text = objectives.title(metric.removeprefix("valid_"))
    return f"validation {text}" if metric.startswith("valid_") else text


def protocol(result: Result) -> str:
    """Returns how an experiment was run, in words."""
    facts = result.experiment
    folds, seeds = (", ".join(map(str, facts[key])) for key in ("folds", "seeds"))
    sentences = [f"Folds {folds}; seeds {seeds}"]
    if facts["candidates"] > len(result.methods):
        each = "each method and fold the one of the best validation"
        if facts["select_for"] == "all":
            each = "each method the one of the best mean over the folds of validation"
        sentences.append(
            f"{facts['candidates']} candidates; for {each} "
            f"{heading(facts['select_by'])} was chosen "
            f"(seeds compared: {facts['selection_seeds']})"
        )
    minutes, clock = (
        f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
        for seconds in (facts["cell_seconds"], facts["seconds"])
    )
    sentences.append(
        f"{facts['cells']} cells, {facts['failed']} failed; {minutes} of training in "
        f"all, {facts['jobs']} at a time"
    )
    if not facts["cached"]:  # Else the clock is of the last start alone.
        sentences[-1] += f", {clock} by the clock"
    sentences.append(", ".join(f"{k} {v}" for k, v in facts["versions"].items()))
    return ". ".join(sentences) + "."


def convention(result: Result) -> str:
    """Returns what the metrics of an experiment mean, in words."""
    fields = conventions.Convention.__dataclass_fields__
    found = result.comparison["convention"].items()
    known = {name: value for name, value in found if name in fields}
    return "Convention: " + conventions.Convention(**known).describe()


def ours(result: Result) -> str:
    """Returns a table of our figures."""
    rows = [[name, *_ours(result, name, result.metrics, 3)] for name in result.methods]
    header = ["", *map(heading, result.metrics)]
    return f"{markdown(header, rows)}\n\n{_caption(result)}"


def theirs(table: Published) -> str:
    """Returns a table of published figures."""
    rows = [[name, *_theirs(table, name, table.metrics)] for name in table.rows]
    text = markdown(["published", *map(heading, table.metrics)], rows)
    return f"{text}\n\n{table.caption}"


def beside(result: Result, table: Published) -> str:
    """Returns our figures beside the published ones, with their differences."""
    metrics = [m for m in table.metrics if m in result.metrics]
    lines = []
    for name in result.methods:
        lines.append([name, "ours", *_ours(result, name, metrics, table.digits)])
        if name in table.rows:
            pairs = [(result.mean(name, m), table.value(name, m)) for m in metrics]
            differences = [f"{a - b:+.{table.digits}f}" for a, b in pairs]
            lines.append(["", "published", *_theirs(table, name, metrics)])
            lines.append(["", "difference", *differences])
    for name in table.rows:
        if name not in result.methods:
            lines.append([name, "published", *_theirs(table, name, metrics)])
    text = markdown(["", "", *map(heading, metrics)], lines)
    return f"{text}\n\n{_caption(result)} {table.caption}"


def order(result: Result, table: Published, metric: str) -> str:
    """Returns how far our order of the methods agrees with the published one.

    Both orders are written out by one metric.
    """
    shared = [name for name in result.methods if name in table.rows]
    metrics = [m for m in table.metrics if m in result.metrics]
    columns = [
        [[mean(n, m) for n in shared] for mean in (result.mean, table.value)]
        for m in metrics
    ]
    taus = [scipy.stats.kendalltau(*column).statistic for column in columns]
    cells = [f"{tau:.2f}" if tau == tau else "" for tau in taus]
    sign = -1 if conventions.higher_is_better(metric) else 1
    orders = []
    for means in columns[metrics.index(metric)]:
        ranked = sorted(zip(means, shared), key=lambda pair: sign * pair[0])
        orders.append(", ".join(name for _, name in ranked))
    return (
        f"Kendall's tau between our order of the {len(shared)} methods that both have "
        f"and the published one (1: the same, 0: unrelated):\n\n"
        f"{markdown([*map(heading, metrics)], [cells])}\n\n"
        f"From the best, by {heading(metric)}:\n\n"
        f"- ours: {orders[0]}\n- published: {orders[1]}"
    )


def chosen(result: Result) -> str:
    """Returns which candidates were chosen, and in how many folds.

    Only the flags in which the candidates of a method differ are written.
    """
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
    return markdown(["method", "candidates", "chosen (in so many folds)"], rows)


def _settings(flags: Sequence[str]) -> str:
    names = [re.sub(r"^--(loss_param=|lambda_weight_param=)?", "", f) for f in flags]
    return "`" + " ".join(sorted(names)) + "`" if names else "nothing more"


def _ours(
    result: Result, method: str, metrics: Sequence[str], digits: int
) -> list[str]:
    marks = {"worse": DOWN, "better": UP}
    if result.comparison["test"].get("against", "best") == "best":
        marks = {"worse": DAGGER}
    cells = []
    for metric in metrics:
        figure = result.methods[method][metric]
        text = f"{figure['mean']:.{digits}f}"
        if figure.get("best"):
            text = f"**{text}**"
        error = result.error(method, metric)
        if error is not None:
            text += f" ±{error:.{digits}f}"
        cells.append(text + marks.get(figure.get("significant", ""), ""))
    return cells


def _theirs(table: Published, method: str, metrics: Sequence[str]) -> list[str]:
    row = table.rows[method]
    cells = []
    for metric in metrics:
        column = table.metrics.index(metric)
        best = max if conventions.higher_is_better(metric) else min
        text = f"{row['values'][column]:.{table.digits}f}"
        if table.ranked and row["values"][column] == best(
            other["values"][column] for other in table.rows.values()
        ):
            text = f"**{text}**"
        if "errors" in row:
            text += f" ±{row['errors'][column]:.{table.digits}f}"
        cells.append(text + (row["marks"][column] if "marks" in row else ""))
    return cells


def _caption(result: Result) -> str:
    """Returns what the marks of our figures say."""
    test = result.comparison["test"]
    over = "folds" if len(result.experiment["folds"]) > 1 else "seeds"
    errors = {result.error(n, m) for n in result.methods for m in result.metrics}
    spread = f"± is the standard error over {over}; " if errors != {None} else ""
    details = [TESTS.get(test["test"], f"{test['test']} test"), test["alternative"]]
    if test["correction"] != "none":
        details.append(test["correction"].capitalize())
    details.append(f"{100 * test['level']:g}%")
    marks = "† is significantly worse than the best of ours"
    if test.get("against", "best") != "best":
        marks = f"↑ and ↓ are significantly better and worse than {test['against']}"
    return f"Ours: {spread}{marks} ({', '.join(details)})."
