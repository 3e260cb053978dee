"""Figures of the studies: a parameter, two parameters, or methods by metrics.

Each takes the results of an experiment by the setting of its sweep, and metrics.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from papers import results, tables
from papers.results import Result


def parameters(method: str) -> dict[str, str]:
    """Returns what a method's name says, such as 'alpha=1 delta=0.2' or '3 layers'."""
    counted = re.fullmatch(r"(no|[0-9]+) ([a-z ]+?)s?", method)
    if counted:
        return {f"{counted[2]}s": "0" if counted[1] == "no" else counted[1]}
    return dict(re.findall(r"(\w+)\s*=\s*([^\s,;]+)", method))


def line(found: Mapping[str, Result], metrics: Sequence[str]) -> Figure:
    """Draws metrics over the methods, which are values of one parameter."""
    (result,) = found.values()
    settings = {name: parameters(name) for name in result.methods}
    ((key, _),) = next(iter(settings.values())).items()
    figure = Figure(figsize=(6, 3.4), dpi=80, layout="constrained")
    axes = figure.subplots()
    for metric in metrics:
        axes.errorbar(
            [setting[key] for setting in settings.values()],
            [result.mean(name, metric) for name in settings],
            [result.error(name, metric) or 0 for name in settings],
            marker="o",
            markersize=4,
            capsize=3,
            label=tables.heading(metric),
        )
    axes.set_xlabel(key)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, framealpha=0.9)
    return figure


def curves(found: Mapping[str, Result], metrics: Sequence[str]) -> Figure:
    """Draws a column of `history.tsv`, the mean over folds and seeds of each method."""
    (result,), (metric,) = found.values(), metrics
    figure = Figure(figsize=(6, 3.6), dpi=80, layout="constrained")
    axes = figure.subplots()
    for name in result.methods:
        histories = [
            results.rows(result.path(cell) / "history.tsv")
            for cell in result.chosen(name)
        ]
        columns = [[float(row[metric]) for row in rows] for rows in histories]
        values = np.array([*itertools.zip_longest(*columns, fillvalue=np.nan)])
        means = np.nanmean(np.where(np.isfinite(values), values, np.nan), axis=1)
        axes.plot(range(1, len(means) + 1), means, label=name)
    axes.set_ylabel(tables.heading(metric.replace("val_", "valid_")))
    axes.set_xlabel("epoch")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, framealpha=0.9)
    return figure


def grid(found: Mapping[str, Result], metrics: Sequence[str]) -> Figure:
    """Draws metrics as tables of two parameters, which the methods' names have."""
    (result,) = found.values()
    names = {tuple(parameters(name).values()): name for name in result.methods}
    keys = [*parameters(next(iter(result.methods)))]
    down, across = (list(dict.fromkeys(values)) for values in zip(*names))
    means = [
        np.array([[result.mean(names[d, a], m) for a in across] for d in down])
        for m in metrics
    ]
    figure = _heat_maps(means, means, down, across)
    for axes, metric in zip(figure.axes, metrics):
        axes.set(title=tables.heading(metric), ylabel=keys[0], xlabel=keys[1])
    return figure


def matrix(found: Mapping[str, Result], metrics: Sequence[str]) -> Figure:
    """Draws methods by metrics, each metric with colours of its own."""
    (result,) = found.values()
    names = list(result.methods)
    means = np.array([[result.mean(n, m) for m in metrics] for n in names])
    spread = np.ptp(means, axis=0)
    shades = (means - means.min(axis=0)) / np.where(spread > 0, spread, 1)
    figure = _heat_maps([means], [shades], names, [*map(tables.heading, metrics)])
    figure.axes[0].tick_params(axis="x", labelrotation=30)
    return figure


def series(found: Mapping[str, Result], metrics: Sequence[str]) -> Figure:
    """Draws metrics as tables of methods by the settings, such as '--size=10'."""
    names = list(next(iter(found.values())).methods)
    flags, values = zip(*(setting[2:].split("=") for setting in found))
    means = [
        np.array([[r.mean(n, m) for r in found.values()] for n in names])
        for m in metrics
    ]
    figure = _heat_maps(means, means, names, values)
    for axes, metric in zip(figure.axes, metrics):
        axes.set(title=tables.heading(metric), xlabel=flags[0])
    return figure


def _heat_maps(
    values: Sequence[np.ndarray],
    shades: Sequence[np.ndarray],
    down: Sequence[str],
    across: Sequence[str],
) -> Figure:
    size = (len(values) * (1.4 + 0.62 * len(across)), 1.0 + 0.36 * len(down))
    figure = Figure(figsize=size, dpi=80, layout="constrained")
    all_axes = figure.subplots(1, len(values), squeeze=False)[0]
    for axes, table, shade in zip(all_axes, values, shades):
        axes.imshow(shade, aspect="auto", cmap="viridis").set_rasterized(True)
        axes.set_xticks(range(len(across)), across)
        axes.set_yticks(range(len(down)), down)
        middle = (shade.min() + shade.max()) / 2
        for (row, column), value in np.ndenumerate(table):
            colour = "white" if shade[row, column] <= middle else "black"
            style = {"ha": "center", "va": "center", "fontsize": 8, "color": colour}
            axes.text(column, row, f"{value:.3f}", **style)
    return figure


KINDS = {draw.__name__: draw for draw in (line, curves, grid, matrix, series)}
