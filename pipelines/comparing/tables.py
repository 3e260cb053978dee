"""Tables of a comparison, as in papers, with their captions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from tfr_ext import evaluation, objectives
from tfr_ext.core import messages
from tfr_ext.core.table import DAGGER, DOWN, UP, Cell, Table
from tfr_ext.evaluation.comparable import BEST, ONE_SIDED
from tfr_ext.evaluation.comparison import Comparison, Result
from tfr_ext.evaluation.runs import Run
from tfr_ext.evaluation.significance import Effect

_TESTS = {
    "t": "paired t-test",
    "wilcoxon": "Wilcoxon signed-rank test",
    "randomisation": "randomisation test",
}
_CORRECTIONS = {
    "none": "not corrected for {} comparisons",
    "bonferroni": "Bonferroni correction over {} comparisons",
    "holm": "Holm correction over {} comparisons",
}
_EFFECTS = (
    "Mean difference to the reference over all queries that count, with the 95 % "
    "interval of Student's t and the two-sided p-value of the t-test, neither "
    "corrected for several comparisons."
)
_POOLED_EFFECTS = (
    " Over all collections, both are stratified: the variance is that within the "
    "collections."
)
# In the terminal, more lines of differences would bury the means.
_MOST_LINES = 24


def by_run(
    comparison: Comparison,
    content: Callable[[Run, Result], Cell],
    notes: Sequence[str] = (),
    head: str = "run",
) -> Table:
    """Returns a table with a row for each run and a column for each metric.

    `content` gives the cell of a run and a result of it, such as `p_value`.
    """
    metrics = comparison.metrics
    rows: list[list[Cell | str]] = [
        [run.name, *(content(run, comparison.results[run.name][m]) for m in metrics)]
        for run in comparison.runs
    ]
    return Table([head, *map(objectives.title, metrics)], rows, notes)


def means(
    comparison: Comparison, notes: Sequence[str] = (), head: str = "run"
) -> Table:
    """Returns the table of the means."""
    options = comparison.options

    def mean(run: Run, result: Result) -> Cell:
        text = f"{result.mean:.{options.digits}f}"
        if options.standard_errors:
            error = _standard_error(run, result)
            text += "" if error is None else f" ±{error:.{options.digits}f}"
        mark = {"": "", "better": UP, "worse": DOWN}[result.significant]
        if mark == DOWN and options.against == BEST:
            mark = DAGGER
        return Cell(text, mark, result.best and len(comparison.runs) > 1)

    return by_run(comparison, mean, notes, head)


def _standard_error(run: Run, result: Result) -> float | None:
    """Returns the standard error over folds, or over seeds if there is one fold."""
    if len(run.folds) > 1 or result.sd_seeds is None:
        return result.se_folds
    return result.sd_seeds / len(run.folds[0]) ** 0.5


def p_value(run: Run, result: Result) -> Cell:
    """Returns the corrected p-value, with that of the test below it."""
    if result.p_value is None or result.unadjusted is None:
        return Cell("–")
    bold, below = bool(result.significant), _p(result.unadjusted)
    return Cell(_p(result.p_value), bold=bold, below=below)


def count(run: Run, result: Result) -> Cell:
    """Returns the numbers of queries that a run wins, ties and loses."""
    if result.p_value is None:
        return Cell("–")
    return Cell(f"{result.wins} / {result.ties} / {result.losses}")


def spread(run: Run, result: Result) -> Cell:
    """Returns the standard error over folds, with the deviation of seeds below it."""
    folds, seeds = (
        "–" if value is None else f"{value:.4f}"
        for value in (result.se_folds, result.sd_seeds)
    )
    return Cell(folds, below=seeds)


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def effects(comparison: Comparison, metrics: Sequence[str] | None = None) -> Table:
    """Returns the differences to the reference, of all metrics or of some."""
    rows = []
    for metric in comparison.metrics if metrics is None else metrics:
        for run in comparison.runs:
            result = comparison.results[run.name][metric]
            if result.effect is None:
                continue
            of_all = {"": result.effect, **result.by_collection}
            for collection, effect in of_all.items():
                name = f"{run.name} on {collection}" if collection else run.name
                about = objectives.title(metric), name, comparison.references[metric]
                rows.append([*about, *_numbers(effect)])
    pooled = _POOLED_EFFECTS if len(comparison.collections) > 1 else ""
    head = "metric", "run", "against", "queries", "difference", "95 % interval", "p"
    return Table(head, rows, [_EFFECTS + pooled])


def _numbers(effect: Effect) -> tuple[str, ...]:
    return (
        f"{effect.queries:,}",
        f"{effect.difference:+.4f}",
        f"{effect.low:+.4f} to {effect.high:+.4f}",
        _p(effect.p_value),
    )


def terminal(comparison: Comparison, bold: bool | None = None) -> str:
    """Returns the table of the means as plain text.

    The best is bold, by an escape sequence, or else has a star. By default, it is bold
    if standard output is a terminal.
    """
    bold = sys.stdout.isatty() if bold is None else bold
    below = caption(comparison, "bold" if bold else "*")
    notes = [below, *(f"Note: {note}" for note in comparison.notes)]
    return means(comparison, notes, head="").to_text(bold)


def effects_terminal(comparison: Comparison) -> str:
    """Returns the differences as plain text: all, or one metric where that is too long.

    Empty if a terminal has no room for that either, or there is no difference.
    """
    table = effects(comparison)
    if len(table.rows) > _MOST_LINES:
        table = effects(comparison, [comparison.plot_metric])
    return f"\n{table.to_text()}" if 0 < len(table.rows) <= _MOST_LINES else ""


def markdown(comparison: Comparison) -> str:
    """Returns the means and the differences to the reference in Markdown."""
    tables = means(comparison, [caption(comparison)]), effects(comparison)
    return "\n".join(table.to_markdown() for table in tables if table.rows)


def latex(comparison: Comparison) -> str:
    """Returns the table of the means in LaTeX."""
    return means(comparison, [caption(comparison)], head="").to_latex()


def convention_text(comparison: Comparison) -> str:
    """Returns the convention of the metrics in words."""
    if comparison.convention is None:
        return "unknown"
    formatted = "; ".join(
        f"{key.replace('_', ' ')} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in comparison.convention.items()
        if value is not None
    )
    return messages.visible(formatted, 1000)


def caption(comparison: Comparison, bold: str = "bold", title: bool = True) -> str:
    """Returns the sentences below a table."""
    options = comparison.options
    folds = len(comparison.runs[0].folds)
    seeds = sorted({len(fold) for run in comparison.runs for fold in run.folds})
    of_fold = "a fold" if folds > 1 else "a run"
    number = " to ".join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))
    one = "seed" if seeds == [1] else "seeds"
    averaged = ", averaged by query" if seeds[-1] > 1 else ""
    sentences = [
        _as_sentence(options.title) if title else "",
        f"{_over(comparison, folds)} ({comparison.num_queries:,} test queries; "
        f"{number} {one} {of_fold}{averaged}).",
    ]
    if options.standard_errors and (folds > 1 or seeds[-1] > 1):
        over = "the folds" if folds > 1 else "the seeds"
        sentences.append(f"± is the standard error over {over}.")
    costs = [
        objectives.title(m)
        for m in comparison.metrics
        if not evaluation.higher_is_better(m)
    ]
    if costs:
        sentences.append(f"{', '.join(costs)}: lower is better.")
    if len(comparison.runs) > 1:
        sentences.append(_significance(comparison, bold))
    sentences.append(f"Convention: {convention_text(comparison)}.")
    return " ".join(filter(None, sentences))


def _over(comparison: Comparison, folds: int) -> str:
    """Returns in words what the means are taken over."""
    if len(comparison.collections) > 1:
        return f"Mean over all queries of {', '.join(comparison.collections)}"
    return f"Mean of the means of {folds} folds" if folds > 1 else "Mean over queries"


def _as_sentence(title: str) -> str:
    """Returns a title on one line, with a full stop unless it ends with a mark."""
    text = " ".join(title.split()).rstrip(".")
    return text + "." if text and text[-1] not in "?!:;" else text


def _significance(comparison: Comparison, bold: str) -> str:
    """Returns how the best is marked, and by which test differences are significant."""
    options, number = comparison.options, len(comparison.runs) - 1
    best = f"The best is in {bold}" if bold == "bold" else f"{bold} is the best"
    test = _TESTS[options.test]
    if options.test == "t" and len(comparison.collections) > 1:
        test += ", stratified by collection,"
    if options.test == "randomisation":
        test += f" with {options.num_resamples:,} draws"
    if options.alternative == ONE_SIDED:
        of_best = "the best is better than the run"
        of_baseline = "the run is better than the baseline"
        side = f"one-sided ({of_best if options.against == BEST else of_baseline})"
    else:
        side = "two-sided"
    how = f"{side} {test} over queries, level {options.level:g}"
    if number > 1:
        correction = _CORRECTIONS[options.correction].format(number)
        how += f", {correction} of each metric"
    if options.against == BEST:
        marks = f"{DAGGER} is significantly worse than the best of that metric"
    elif options.alternative == ONE_SIDED:
        marks = f"{UP} is significantly better than {options.against}"
    else:
        marks = (
            f"{UP} and {DOWN} are significantly better and worse than {options.against}"
        )
    return f"{best}; {marks}: {how}."
