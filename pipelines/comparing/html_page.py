"""A comparison as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

from pipelines.comparing import effect_table, svg_plots, tables
from tfr_ext import objectives, version
from tfr_ext.core import telling
from tfr_ext.evaluation.comparison import Comparison, Result

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
        _table(comparison, lambda result, cell: cell),
        f"<p>{escape(tables.caption(comparison, title=False))}</p>",
        *(f"<p><b>Note:</b> {escape(note)}</p>" for note in comparison.notes),
        f"<h2>{escape(metric)} by fold</h2>",
        f'<div class="wide">{svg_plots.fold_means(comparison)}</div>',
        *(_differences(comparison) if len(comparison.runs) > 1 else []),
        *_curves(comparison),
        *(_tests(comparison) if len(comparison.runs) > 1 else []),
        *_spreads(comparison),
        f"<footer><p>tfr-ext {escape(version.__version__)}, "
        "<code>python -m pipelines.compare</code></p></footer>",
    ]
    page = "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            *filter(None, sections),
            "</body>",
            "</html>",
            "",
        ]
    )
    return telling.visible(page)


def _reference(comparison: Comparison) -> str:
    return comparison.references[comparison.plot_metric]


def _table(comparison: Comparison, content: Callable[[Result, str], str]) -> str:
    """Returns a table with a row for each run.

    Args:
        comparison: the comparison.
        content: gives the cell of a result and what the main table has there.
    """
    head = "".join(
        f'<th scope="col">{escape(objectives.title(metric))}</th>'
        for metric in comparison.metrics
    )
    rows = []
    for run in comparison.runs:
        cells = []
        for metric in comparison.metrics:
            cell = tables.cell(comparison, run.name, metric)
            text = f"<b>{cell.text}</b>" if cell.best else cell.text
            result = comparison.results[run.name][metric]
            cells.append(f"<td>{content(result, text + cell.mark)}</td>")
        rows.append(f'<tr><th scope="row">{escape(run.name)}</th>{"".join(cells)}</tr>')
    return (
        f'<div class="wide"><table><thead><tr><th scope="col">run</th>{head}</tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _grid(figures: Mapping[str, str]) -> str:
    return "\n".join(
        [
            '<div class="grid">',
            *(
                f"<figure><figcaption>{escape(name)}</figcaption>{svg}</figure>"
                for name, svg in figures.items()
            ),
            "</div>",
        ]
    )


def _curves(comparison: Comparison) -> list[str]:
    """Returns the sections on training, none where no run has a history."""
    sections = []
    column = svg_plots.curve_metric(comparison)
    if column is not None:
        sections += [
            "<h2>Learning curves</h2>",
            "<p>Means over folds and seeds, with bands of one standard deviation. "
            "Training that stopped early counts up to its last epoch.</p>",
            f'<div class="wide">{svg_plots.metric_curves(comparison, column)}</div>',
        ]
    losses = svg_plots.loss_curves(comparison)
    if losses:
        sections += ["<h2>Loss</h2>", _grid(losses)]
    return sections


def _differences(comparison: Comparison) -> list[str]:
    """Returns the section on the gains of runs over the reference."""
    metric = objectives.title(comparison.plot_metric)
    return [
        f"<h2>{escape(metric)}, query by query</h2>",
        f"<p>The gain of each run over {escape(_reference(comparison))}, from the "
        "query that gains most to the one that loses most. Seeds are averaged.</p>",
        _grid(svg_plots.differences(comparison)),
    ]


def _tests(comparison: Comparison) -> list[str]:
    """Returns the sections on the tests."""
    return [
        "<h2>Differences</h2>",
        _effects(comparison),
        f"<p>{escape(effect_table.caption(comparison))}</p>",
        "<h2>p-values</h2>",
        "<p>The corrected p-values, with those of the test below them. A dash marks "
        "the reference.</p>",
        _table(comparison, _p_values),
        "<h2>Wins / ties / losses</h2>",
        "<p>Numbers of queries on which a run is better than, equal to and worse than "
        "the reference.</p>",
        _table(comparison, _counts),
    ]


def _effects(comparison: Comparison) -> str:
    """Returns the table of the differences to the reference."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in effect_table.HEAD)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row.cells)}</tr>"
        for row in effect_table.rows(comparison)
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


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
        _table(comparison, _spread),
    ]


def _p_values(result: Result, _: str) -> str:
    if result.p_value is None or result.unadjusted is None:
        return "–"
    first, second = _p(result.p_value), _p(result.unadjusted)
    if result.significant:
        first = f"<b>{first}</b>"
    return f'{first}<br><span class="dim">{second}</span>'


def _p(value: float) -> str:
    return "&lt;0.001" if value < 0.001 else f"{value:.3f}"


def _counts(result: Result, _: str) -> str:
    if result.p_value is None:
        return "–"
    return f"{result.wins} / {result.ties} / {result.losses}"


def _spread(result: Result, _: str) -> str:
    first, second = (
        "–" if value is None else f"{value:.4f}"
        for value in (result.se_folds, result.sd_seeds)
    )
    return f'{first}<br><span class="dim">{second}</span>'
