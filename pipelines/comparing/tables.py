"""Tables of a comparison, as in the papers, for the terminal, Markdown and LaTeX."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
import unicodedata

from pipelines.comparing.markdown_text import as_markdown
from tfr_ext import evaluation, objectives
from tfr_ext.core import telling
from tfr_ext.evaluation.comparable import BEST, ONE_SIDED, Options
from tfr_ext.evaluation.comparison import Comparison

DAGGER, UP, DOWN = "†", "↑", "↓"

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
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "∞": r"$\infty$",
    DAGGER: r"$^{\dagger}$",
    UP: r"$\uparrow$",
    DOWN: r"$\downarrow$",
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell of a table, for one metric of one run.

    Attributes:
        text: the mean, with its standard error if the options want it.
        mark: '', a dagger or an arrow.
        best: whether it is set in bold.
    """

    text: str
    mark: str
    best: bool


def cell(comparison: Comparison, run: str, metric: str) -> Cell:
    """Returns a cell of the table."""
    result, options = comparison.results[run][metric], comparison.options
    text = f"{result.mean:.{options.digits}f}"
    if options.standard_errors:
        error = _standard_error(comparison, run, metric)
        text += "" if error is None else f" ±{error:.{options.digits}f}"
    mark = {"": "", "better": UP, "worse": DOWN}[result.significant]
    if mark == DOWN and options.against == BEST:
        mark = DAGGER
    return Cell(text, mark, result.best and len(comparison.runs) > 1)


def _standard_error(comparison: Comparison, run: str, metric: str) -> float | None:
    """Returns the standard error over folds, or over seeds if there is one fold."""
    result = comparison.results[run][metric]
    folds = next(one.folds for one in comparison.runs if one.name == run)
    if len(folds) > 1 or result.sd_seeds is None:
        return result.se_folds
    return result.sd_seeds / len(folds[0]) ** 0.5


def convention_text(comparison: Comparison) -> str:
    """Returns what the metrics mean, in words."""
    if comparison.convention is None:
        return "unknown"
    told = "; ".join(
        f"{key.replace('_', ' ')} {value:g}"
        if isinstance(value, float)
        else f"{key.replace('_', ' ')} {value}"
        for key, value in comparison.convention.items()
        if value is not None
    )
    return telling.visible(told, 1000)


def caption(comparison: Comparison, bold: str = "bold", title: bool = True) -> str:
    """Returns the sentences below a table.

    Args:
        comparison: the comparison.
        bold: how the best is marked.
        title: whether it begins with the title.
    """
    options = comparison.options
    folds = len(comparison.runs[0].folds)
    seeds = sorted({len(fold) for run in comparison.runs for fold in run.folds})
    of_fold = "a fold" if folds > 1 else "a run"
    sentences = [_as_sentence(options.title) if title else ""]
    sentences.append(
        (_pooled(comparison) or _over(folds))
        + f" ({comparison.num_queries:,} test queries; "
        + (
            f"{seeds[0]} {'seed' if seeds == [1] else 'seeds'}"
            if len(seeds) == 1
            else f"{seeds[0]} to {seeds[-1]} seeds"
        )
        + f" {of_fold}"
        + (", averaged by query)." if seeds[-1] > 1 else ").")
    )
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
    number = len(comparison.runs) - 1
    if number:
        pooled = bool(_pooled(comparison))
        sentences.append(_significance(options, number, bold, pooled))
    sentences.append(f"Convention: {convention_text(comparison)}.")
    return " ".join(filter(None, sentences))


def _over(folds: int) -> str:
    """Returns what the means of one collection are over."""
    return f"Mean of the means of {folds} folds" if folds > 1 else "Mean over queries"


def _pooled(comparison: Comparison) -> str:
    """Returns what the means of several collections are over; empty for one."""
    names = comparison.collections
    return f"Mean over all queries of {', '.join(names)}" if len(names) > 1 else ""


def _as_sentence(title: str) -> str:
    """Returns a title on one line, with a full stop unless it ends with a mark."""
    text = " ".join(title.split()).rstrip(".")
    return text + "." if text and text[-1] not in "?!:;" else text


def _significance(options: Options, number: int, bold: str, pooled: bool) -> str:
    """Returns what is best, and by which test a difference is significant.

    Args:
        options: how runs are compared.
        number: number of comparisons of a metric.
        bold: how the best is marked.
        pooled: whether the queries are of several collections.
    """
    best = f"The best is in {bold}" if bold == "bold" else f"{bold} is the best"
    test = _TESTS[options.test]
    if pooled and options.test == "t":
        test += ", stratified by collection,"
    if options.test == "randomisation":
        test += f" with {options.num_resamples:,} draws"
    if options.alternative == ONE_SIDED:
        of_best = "the best is better than the run"
        of_baseline = "the run is better than the baseline"
        side = f"one-sided ({of_best if options.against == BEST else of_baseline})"
    else:
        side = "two-sided"
    how = (
        f"{side} {test} over queries, level {options.level:g}, "
        + _CORRECTIONS[options.correction].format(number)
        + " of each metric"
        if number > 1
        else f"{side} {test} over queries, level {options.level:g}"
    )
    if options.against == BEST:
        marks = f"{DAGGER} is significantly worse than the best of that metric"
    elif options.alternative == ONE_SIDED:
        marks = f"{UP} is significantly better than {options.against}"
    else:
        marks = (
            f"{UP} and {DOWN} are significantly better and worse than {options.against}"
        )
    return f"{best}; {marks}: {how}."


def terminal(comparison: Comparison, bold: bool | None = None) -> str:
    """Returns the table as plain text.

    Args:
        comparison: the comparison.
        bold: whether the best is bold, by an escape sequence; otherwise it has a star.
            By default, whether standard output is a terminal.
    """
    bold = sys.stdout.isatty() if bold is None else bold
    names = [run.name for run in comparison.runs]
    columns = [["", *map(telling.visible, names)]]
    for metric in comparison.metrics:
        cells = [cell(comparison, name, metric) for name in names]
        star = "" if bold else "*"
        column = [
            objectives.title(metric),
            *(one.text + (star if one.best else "") + one.mark for one in cells),
        ]
        columns.append(column)
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for name, row in zip(["", *names], zip(*columns)):
        padded = [f"{text:<{width}}" for text, width in zip(row, widths)]
        if bold and name:
            padded[1:] = [
                _bold(text) if cell(comparison, name, metric).best else text
                for text, metric in zip(padded[1:], comparison.metrics)
            ]
        lines.append("  ".join(padded).rstrip())
    texts = [caption(comparison, "bold" if bold else "*")]
    texts += [f"Note: {note}" for note in comparison.notes]
    return "\n".join([*lines, *(textwrap.fill(telling.visible(x), 88) for x in texts)])


def _bold(padded: str) -> str:
    text = padded.rstrip()
    return f"\033[1m{text}\033[0m" + " " * (len(padded) - len(text))


def markdown(comparison: Comparison) -> str:
    """Returns the table in Markdown."""
    lines = [
        "| run | " + " | ".join(map(objectives.title, comparison.metrics)) + " |",
        "|---|" + "---|" * len(comparison.metrics),
    ]
    for run in comparison.runs:
        cells = []
        for metric in comparison.metrics:
            one = cell(comparison, run.name, metric)
            cells.append(
                f"**{one.text}**{one.mark}" if one.best else one.text + one.mark
            )
        lines.append(f"| {as_markdown(run.name)} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", as_markdown(caption(comparison)), ""])


def latex(comparison: Comparison) -> str:
    """Returns the table in LaTeX, for a document that uses the package booktabs."""
    lines = [
        "% Needs \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{escaped(caption(comparison))}}}",
        f"\\begin{{tabular}}{{l{'l' * len(comparison.metrics)}}}",
        "\\toprule",
        " & ".join(
            ["", *(escaped(objectives.title(m)) for m in comparison.metrics)]
        ).strip()
        + " \\\\",
        "\\midrule",
    ]
    for run in comparison.runs:
        cells = [escaped(" ".join(run.name.split()))]
        for metric in comparison.metrics:
            one = cell(comparison, run.name, metric)
            text = escaped(one.text)
            text = f"\\textbf{{{text}}}" if one.best else text
            cells.append(text + escaped(one.mark))
        lines.append(" & ".join(cells) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", "\\end{table}", ""])


def escaped(text: str) -> str:
    r"""Returns text as LaTeX sets it.

    Examples:
        >>> escaped('SmoothI_α & 5%')
        'SmoothI\\_$\\alpha$ \\& 5\\%'
    """
    shown = telling.visible(text)
    return "".join(_LATEX.get(c) or _greek(c) or c for c in shown)


def _greek(character: str) -> str:
    """Returns the command of a small Greek letter, which pdfLaTeX does not know."""
    name = unicodedata.name(character, "").split()
    if name[:3] != ["GREEK", "SMALL", "LETTER"] or len(name) != 4:
        return ""
    other = {"lamda": "\\lambda", "omicron": "o"}
    command = name[3].lower()
    return "$" + other.get(command, "\\" + command) + "$"
