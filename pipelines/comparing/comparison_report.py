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
from tfr_ext.core.settings import Settings, setting
from tfr_ext.evaluation import comparable, runs, significance
from tfr_ext.evaluation.comparable import Options
from tfr_ext.evaluation.comparison import Comparison
from tfr_ext.evaluation.queries import plain_name
from tfr_ext.runs import outputs

# In the order in which they are removed.
FILES = ("comparison.json", "comparison.html", "table.tex", "table.md")
_DEFAULT = Options()


@dataclasses.dataclass(frozen=True)
class ComparisonConfig(Settings):
    """Options of a comparison of runs, shared with experiments."""

    test: str = setting(
        _DEFAULT.test,
        "Paired significance test over the queries.",
        choices=significance.TESTS,
    )
    alternative: str = setting(
        _DEFAULT.alternative,
        "What the test is to show: 'two-sided', that a run and the reference differ; "
        "'one-sided', that the best run is better than a run or, with --against=NAME, "
        "that a run is better than NAME.",
        choices=["two-sided", comparable.ONE_SIDED],
    )
    correction: str = setting(
        _DEFAULT.correction,
        "How p-values are corrected for multiple comparisons of one metric.",
        choices=significance.CORRECTIONS,
    )
    level: float = setting(
        _DEFAULT.level,
        "Significance level: corrected p-values below it are significant.",
        low=0.0,
        high=1.0,
    )
    against: str = setting(
        _DEFAULT.against,
        "Reference that runs are compared with: 'best', the run with the best mean of "
        "each metric, or the name of a run.",
    )
    num_resamples: int = setting(
        _DEFAULT.num_resamples,
        "Number of random draws of --test=randomisation.",
        low=1,
    )
    digits: int = setting(_DEFAULT.digits, "Number of decimals in the tables.", low=1)
    standard_errors: bool = setting(
        _DEFAULT.standard_errors,
        "Show the standard error over the folds in the tables.",
    )
    plot_metric: str | None = setting(
        _DEFAULT.plot_metric,
        "Metric that the plots of the page show. If left out, ndcg_10, or else the "
        "first metric.",
        kind="text",
        convert=plain_name,
    )
    title: str = setting(_DEFAULT.title, "Title of the page and of the tables.")


def read(metrics: Sequence[str], seed: int) -> Options:
    """Returns the options of a comparison that the flags give.

    Args:
        metrics: names of metrics.
        seed: seed of the randomisation test.
    """
    given = vars(config_flags.read(ComparisonConfig, flags.FLAGS))
    against = messages.visible(given["against"], runs.LONGEST_NAME)
    return Options(metrics, seed=seed, **{**given, "against": against})


def show(comparison: Comparison) -> None:
    """Prints the tables of a comparison."""
    print(tables.terminal(comparison))
    print(tables.effects_terminal(comparison))


def write(comparison: Comparison, output_dir: str) -> None:
    """Writes `comparison.json`, `table.md`, `table.tex` and `comparison.html`.

    Args:
        comparison: the comparison.
        output_dir: directory to which the files are written; made if need be.
    """
    for name, text in (
        ("table.md", tables.markdown(comparison)),
        ("table.tex", tables.latex(comparison)),
        ("comparison.html", html_page.html(comparison)),
        # Written last: a comparison that has it is complete.
        ("comparison.json", outputs.as_json(comparison.as_dict())),
    ):
        write_atomically(os.path.join(output_dir, name), text)
