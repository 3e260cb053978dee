"""A comparison as one self-contained HTML page, with plots in its text colour."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import numpy as np

from pipelines.comparing import tables
from tfr_ext import evaluation, objectives, version
from tfr_ext.core import messages
from tfr_ext.evaluation.comparison import Comparison

# Between black and white, so that they show on either.
_COLOURS = (
    *("#3f8fd2", "#e07b28", "#3ba457", "#d9534f", "#9673c9"),
    *("#a5745f", "#d973b4", "#7f8c8d", "#a8a820", "#20a8b8"),
)
_LINES = ("-", "--", ":", "-.")
_BETTER, _WORSE = _COLOURS[0], _COLOURS[1]

# Stands for the text colour of the page until the SVG is written.
_INK = "#010203"

# Width and height in inches of a plot for each run.
_SMALL = (3.4, 2.2)

# Bands of more runs than these would hide each other.
_MOST_BANDS = 8

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --dim: #666; }
@media (prefers-color-scheme: dark) { :root { --dim: #aaa; } }
body { font: 16px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 74rem;
  padding: 1rem; background: Canvas; color: CanvasText; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.wide { overflow-x: auto; }
.wide > svg { display: block; width: 100%; min-width: 34rem; max-width: 52rem; }
.grid { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr)); }
figure { margin: 0; } figcaption { font-weight: 600; overflow-wrap: anywhere; }
figure > svg { display: block; width: 100%; max-width: 26rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: left; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
thead th { border-bottom-width: 2px; }
tbody th { font-weight: 500; position: sticky; left: 0; background: Canvas; }
.dim, footer { color: var(--dim); font-size: .85rem; }
"""


def html(comparison: Comparison) -> str:
    """Returns the page, with tables, plots and explanations."""
    title = comparison.options.title or "Comparison of runs"
    metric = objectives.title(comparison.plot_metric)
    sections = [
        f"<h1>{escape(title)}</h1>",
        tables.means(comparison, [tables.caption(comparison, title=False)]).to_html(),
        *(f"<p><b>Note:</b> {escape(note)}</p>" for note in comparison.notes),
        f"<h2>{escape(metric)} by fold</h2>",
        f'<div class="wide">{fold_means(comparison)}</div>',
        *(_differences(comparison) if len(comparison.runs) > 1 else []),
        *_curves(comparison),
        *(_tests(comparison) if len(comparison.runs) > 1 else []),
        *_spreads(comparison),
        f"<footer><p>tfr-ext {escape(version.__version__)}, "
        "<code>python -m pipelines.compare</code></p></footer>",
    ]
    lines = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
        *filter(None, sections),
        "</body>\n</html>\n",
    ]
    return messages.visible("\n".join(lines))


def _grid(figures: Mapping[str, str]) -> str:
    drawn = (
        f"<figure><figcaption>{escape(name)}</figcaption>{svg}</figure>"
        for name, svg in figures.items()
    )
    return "\n".join(['<div class="grid">', *drawn, "</div>"])


def _curves(comparison: Comparison) -> list[str]:
    """Returns the sections on training, none where no run has a history."""
    sections = []
    column = curve_metric(comparison)
    if column is not None:
        sections += [
            "<h2>Learning curves</h2>",
            "<p>Means over folds and seeds, with bands of one standard deviation. "
            "Training that stopped early counts up to its last epoch.</p>",
            f'<div class="wide">{metric_curves(comparison, column)}</div>',
        ]
    losses = loss_curves(comparison)
    if losses:
        sections += ["<h2>Loss</h2>", _grid(losses)]
    return sections


def _differences(comparison: Comparison) -> list[str]:
    """Returns the section on the gains of runs over the reference."""
    metric = objectives.title(comparison.plot_metric)
    reference = escape(comparison.references[comparison.plot_metric])
    return [
        f"<h2>{escape(metric)}, query by query</h2>",
        f"<p>The gain of each run over {reference}, from the "
        "query that gains most to the one that loses most. Seeds are averaged.</p>",
        _grid(differences(comparison)),
    ]


def _tests(comparison: Comparison) -> list[str]:
    """Returns the sections on the tests."""
    return [
        "<h2>Differences</h2>",
        tables.effects(comparison).to_html(),
        "<h2>p-values</h2>",
        "<p>The corrected p-values, with those of the test below them. A dash marks "
        "the reference.</p>",
        tables.by_run(comparison, tables.p_value).to_html(),
        "<h2>Wins / ties / losses</h2>",
        "<p>Numbers of queries on which a run is better than, equal to and worse than "
        "the reference.</p>",
        tables.by_run(comparison, tables.count).to_html(),
    ]


def _spreads(comparison: Comparison) -> list[str]:
    """Returns the section on the spread, nothing of one fold and one seed."""
    results = [r for of_run in comparison.results.values() for r in of_run.values()]
    if all(r.se_folds is None and r.sd_seeds is None for r in results):
        return []
    return [
        "<h2>Spread</h2>",
        "<p>The standard error over the folds, and below it the standard deviation of "
        "the mean over seeds. A dash means that there is only one fold, or only one "
        "seed.</p>",
        tables.by_run(comparison, tables.spread).to_html(),
    ]


def differences(comparison: Comparison) -> dict[str, str]:
    """Draws as SVGs the gain of each run over the reference, by query, best first."""
    metric = comparison.plot_metric
    names = [run.name for run in comparison.runs]
    values = comparison.values[metric]
    sign = 1 if evaluation.higher_is_better(metric) else -1
    gains = sign * (values - values[names.index(comparison.references[metric])])
    limit = float(np.abs(gains).max()) * 1.05 or 1.0
    drawn: dict[str, str] = {}
    for name, gain in zip(names, gains):
        if name == comparison.references[metric]:
            continue
        with _figure(*_SMALL) as (figure, axis):
            result = comparison.results[name][metric]
            heights = np.sort(gain)[::-1]
            heights = np.append(heights, heights[-1])  # A step for the last one, too.
            for colour, part in (
                (_BETTER, np.maximum(heights, 0)),
                (_WORSE, np.minimum(heights, 0)),
            ):
                place = np.arange(len(part))
                axis.fill_between(place, part, step="post", color=colour, linewidth=0)
            axis.axhline(0, color=_INK, linewidth=0.6)
            axis.set(xlim=(0, len(gain)), ylim=(-limit, limit), xlabel="queries")
            axis.text(
                0.97,
                0.93,
                f"{result.wins} better\n{result.ties} equal\n{result.losses} worse",
                transform=axis.transAxes,
                ha="right",
                va="top",
            )
            drawn[name] = _svg(figure, f"d{len(drawn)}")
    return drawn


def fold_means(comparison: Comparison) -> str:
    """Draws the mean of each fold, and of all, for each run."""
    metric = comparison.plot_metric
    values = comparison.fold_means[metric]
    with _figure(6.4, 1.1 + 0.28 * len(values)) as (figure, axis):
        rows = np.arange(len(values))
        if values.shape[1] > 1:
            for k, fold in enumerate(values.T):
                # Side by side, so that equal ones show.
                shift = 0.3 * (k / (values.shape[1] - 1) - 0.5)
                colour = _COLOURS[k % len(_COLOURS)]
                label = f"fold {k + 1}"
                axis.plot(fold, rows + shift, "o", ms=4, color=colour, label=label)
        means = [comparison.results[r.name][metric].mean for r in comparison.runs]
        axis.plot(means, rows, "|", ms=13, mew=2, color=_INK, label="mean")
        axis.set_yticks(rows, [run.name for run in comparison.runs], parse_math=False)
        axis.set(ylim=(len(values) - 0.5, -0.5), xlabel=objectives.title(metric))
        axis.grid(axis="x", alpha=0.15)
        # Outside, because no corner is sure to be free.
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=6, frameon=False)
        return _svg(figure, "f")


def curve_metric(comparison: Comparison) -> str | None:
    """Returns the validation metric that most runs have a curve of, if any has one.

    That of the plots comes first where as many have it.
    """
    wanted = f"val_{comparison.plot_metric}"
    counts: dict[str, int] = {}
    for run in comparison.runs:
        for name in {name for member in run.members for name in member.history}:
            if name.startswith("val_") and name != "val_loss" and len(run.curve(name)):
                counts[name] = counts.get(name, 0) + 1
    if not counts:
        return None
    return min(counts, key=lambda name: (-counts[name], name != wanted, name))


def metric_curves(comparison: Comparison, column: str) -> str:
    """Draws a validation metric over the epochs, a line for each run that has it."""
    curves = {run.name: run.curve(column) for run in comparison.runs}
    curves = {name: curve for name, curve in curves.items() if len(curve)}
    with _figure(6.4, 3.2 + 0.09 * len(curves)) as (figure, axis):
        for i, curve in enumerate(curves.values()):
            line = _LINES[i // len(_COLOURS) % len(_LINES)]
            colour = _COLOURS[i % len(_COLOURS)]
            _draw(axis, curve, str(i), colour, line, len(curves) <= _MOST_BANDS)
        axis.set(
            xlabel="epoch",
            ylabel=f"validation {objectives.title(column[len('val_') :])}",
        )
        axis.grid(alpha=0.15)
        legend = axis.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False
        )
        # As they are: no formulas, and none left out for an underscore.
        for text, name in zip(legend.get_texts(), curves):
            text.set_parse_math(False)
            text.set_text(name)
        return _svg(figure, "m")


def loss_curves(comparison: Comparison) -> dict[str, str]:
    """Draws the training and the validation loss of each run that has them."""
    drawn: dict[str, str] = {}
    for run in comparison.runs:
        lines = [
            (label, colour, run.curve(column))
            for label, column, colour in (
                ("training", "loss", _COLOURS[0]),
                ("validation", "val_loss", _COLOURS[1]),
            )
        ]
        if not any(len(curve) for _, _, curve in lines):
            continue
        with _figure(*_SMALL) as (figure, axis):
            for label, colour, curve in lines:
                if len(curve):
                    _draw(axis, curve, label, colour, "-", True)
            axis.set(xlabel="epoch")
            axis.grid(alpha=0.15)
            axis.legend(frameon=False)
            drawn[run.name] = _svg(figure, f"l{len(drawn)}")
    return drawn


def _draw(
    axis: Any, curve: np.ndarray, label: str, colour: str, line: str, band: bool
) -> None:
    """Draws the mean of some curves and, if wanted, their standard deviation."""
    there = np.isfinite(curve).any(axis=0)
    epochs, curve = np.arange(1, curve.shape[1] + 1)[there], curve[:, there]
    mean, deviation = np.nanmean(curve, axis=0), np.nanstd(curve, axis=0)
    marker = "o" if len(epochs) == 1 else None
    axis.plot(epochs, mean, line, color=colour, label=label, marker=marker)
    if band and len(curve) > 1:
        low, high = mean - deviation, mean + deviation
        axis.fill_between(epochs, low, high, color=colour, alpha=0.18, linewidth=0)
    axis.xaxis.get_major_locator().set_params(integer=True)


@contextlib.contextmanager
def _figure(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """Gives a figure with one axis, in the style of the page."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": _INK,
        "axes.labelcolor": _INK,
        "grid.color": _INK,
        "legend.labelcolor": _INK,
        "text.color": _INK,
        "xtick.color": _INK,
        "ytick.color": _INK,
    }
    with matplotlib.rc_context(style):
        # To measure all text takes long, and small plots have nothing long to measure.
        layout = None if (width, height) == _SMALL else "constrained"
        figure, axis = pyplot.subplots(figsize=(width, height), layout=layout)
        if layout is None:
            figure.subplots_adjust(left=0.17, right=0.97, bottom=0.22, top=0.97)
        try:
            yield figure, axis
        finally:
            pyplot.close(figure)


def _svg(figure: Any, name: str) -> str:
    """Returns a figure as an SVG element, whose identifiers begin with `name`."""
    import matplotlib

    file = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": "tfr-ext"}):  # The same every time.
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text, count=2)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = text.replace("xlink:href", "href").replace(_INK, "currentColor")
    # The view box stays: the page says how wide it is.
    return re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1).replace(
        f' height="{figure.get_size_inches()[1] * 72:g}pt"', "", 1
    )
