"""Figures of the studies: a parameter, two parameters, or methods by metrics."""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Mapping, Sequence

import matplotlib.figure
import numpy as np

from papers import tables
from papers.results import Result
from tfr_ext.evaluation import runs


def parameters(method: str) -> dict[str, str]:
    """Returns what a method's name says.

    Args:
        method: such as 'alpha=0.1 delta=0.2', '3 hidden layers' or 'no hidden layer'.
    """
    counted = re.fullmatch(r"(no|[0-9]+) ([a-z ]+?)s?", method)
    if counted:
        return {f"{counted[2]}s": "0" if counted[1] == "no" else counted[1]}
    return dict(re.findall(r"(\w+)\s*=\s*([^\s,;]+)", method))


def line(result: Result, metrics: Sequence[str]) -> matplotlib.figure.Figure:
    """Draws metrics over the methods, which are values of one parameter.

    A method that is no such value stands beside the line, under its name.
    """
    names = list(result.runs)
    found = [parameters(name) for name in names]
    keys = collections.Counter(key for p in found if len(p) == 1 for key in p)
    key = keys.most_common(1)[0][0] if keys else ""
    labels = [p[key] if [*p] == [key] else n for n, p in zip(names, found)]
    on_line = [i for i, p in enumerate(found) if [*p] == [key]]
    figure = matplotlib.figure.Figure(figsize=(6, 3.4), dpi=80, layout="constrained")
    axes = figure.subplots()
    for metric in metrics:
        figures = [result.figures(name, metric) for name in names]
        means = [f["mean"] for f in figures]
        bars = axes.errorbar(
            range(len(names)),
            means,
            [result.error(name, metric) or 0 for name in names],
            marker="o",
            markersize=4,
            capsize=3,
            linestyle="",
            label=tables.heading(metric),
        )
        axes.plot(on_line, [means[i] for i in on_line], color=bars[0].get_color())
    axes.set_xticks(range(len(names)), labels)
    if key:
        axes.set_xlabel(key)
    if max(map(len, labels)) > 12:
        axes.tick_params(axis="x", labelrotation=30)
    axes.grid(alpha=0.3)
    if len(metrics) > 1:
        axes.legend(fontsize=8, framealpha=0.9)
    else:
        axes.set_ylabel(tables.heading(metrics[0]))
    return figure


def curves(result: Result, metrics: Sequence[str]) -> matplotlib.figure.Figure:
    """Draws metrics over the epochs, the mean over folds and seeds of each method.

    Args:
        result: an experiment; what its methods chose is drawn.
        metrics: columns of `history.tsv`, such as 'val_ndcg_10'.

    Raises:
        ValueError: if a method has no such column.
    """
    figure = matplotlib.figure.Figure(
        figsize=(6 * len(metrics), 3.6), dpi=80, layout="constrained"
    )
    for axes, metric in zip(
        figure.subplots(1, len(metrics), squeeze=False)[0], metrics
    ):
        for name in result.runs:
            paths = [str(result.path(cell)) for cell in result.chosen(name)]
            curve = runs.read(name, paths).curve(metric)
            if not len(curve):
                raise ValueError(f"No history of {name!r} has a column {metric!r}.")
            means = np.nanmean(curve, axis=0)
            axes.plot(range(1, len(means) + 1), means, label=name)
        split = "validation " if metric.startswith("val_") else ""
        axes.set_ylabel(split + tables.heading(metric.removeprefix("val_")))
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, framealpha=0.9)
    return figure


def grid(result: Result, metrics: Sequence[str]) -> matplotlib.figure.Figure:
    """Draws metrics as tables of two parameters, which the methods' names have."""
    values = {name: parameters(name) for name in result.runs}
    first, *_ = values.values()
    for name, found in values.items():
        if len(found) != 2 or list(found) != list(first):
            raise ValueError(
                f"A method of {result.name} is named {name!r}. Expected the values of "
                "two parameters, the same for all, such as 'alpha=1, delta=0.1'."
            )
    down, across = (
        list(dict.fromkeys(found[key] for found in values.values())) for key in first
    )
    figure, all_axes = _panels(len(metrics), len(across), len(down))
    for axes, metric in zip(all_axes, metrics):
        matrix = np.full([len(down), len(across)], np.nan)
        for name, found in values.items():
            row, column = found.values()
            at = down.index(row), across.index(column)
            matrix[at] = result.figures(name, metric)["mean"]
        _heat_map(axes, matrix, matrix, down, across)
        axes.set(title=tables.heading(metric), ylabel=[*first][0], xlabel=[*first][1])
    return figure


def matrix(result: Result, metrics: Sequence[str]) -> matplotlib.figure.Figure:
    """Draws methods by metrics, each metric with colours of its own."""
    names = list(result.runs)
    means = np.array([[result.figures(n, m)["mean"] for m in metrics] for n in names])
    spread = np.ptp(means, axis=0)
    shades = (means - means.min(axis=0)) / np.where(spread > 0, spread, 1)
    figure, (axes,) = _panels(1, len(metrics), len(names))
    _heat_map(axes, means, shades, names, [tables.heading(m) for m in metrics])
    axes.tick_params(axis="x", labelrotation=30)
    return figure


def _panels(count: int, columns: int, rows: int) -> tuple:
    wide = min(count, 3)
    tall = math.ceil(count / wide)
    size = (wide * (1.4 + 0.62 * columns), tall * (1.0 + 0.36 * rows))
    figure = matplotlib.figure.Figure(figsize=size, dpi=80, layout="constrained")
    all_axes = list(figure.subplots(tall, wide, squeeze=False).flat)
    for axes in all_axes[count:]:
        axes.remove()
    return figure, all_axes[:count]


def _heat_map(
    axes: matplotlib.axes.Axes,
    values: np.ndarray,
    shades: np.ndarray,
    down: Sequence[str],
    across: Sequence[str],
) -> None:
    image = axes.imshow(shades, aspect="auto", cmap="viridis")
    axes.set_xticks(range(len(across)), across)
    axes.set_yticks(range(len(down)), down)
    middle = (np.nanmin(shades) + np.nanmax(shades)) / 2
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark = shades[row, column] <= middle
            axes.text(
                column,
                row,
                f"{value:.3f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if dark else "black",
            )
    image.set_rasterized(True)


def series(
    results: Mapping[str, Result], flag: str, metrics: Sequence[str]
) -> matplotlib.figure.Figure:
    """Draws metrics as tables of methods by the values of a flag.

    Args:
        results: an experiment for each value.
        flag: name of the flag.
        metrics: what is drawn.
    """
    names = list(next(iter(results.values())).runs)
    figure, all_axes = _panels(len(metrics), len(results), len(names))
    for axes, metric in zip(all_axes, metrics):
        means = np.array(
            [[r.figures(n, metric)["mean"] for r in results.values()] for n in names]
        )
        _heat_map(axes, means, means, names, list(results))
        axes.set(title=tables.heading(metric), xlabel=flag)
    return figure


KINDS = {"line": line, "curves": curves, "grid": grid, "matrix": matrix}
