"""Flags that say how runs are compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from absl import flags

from pipelines.flags import config_flags
from tfr_ext.core import telling
from tfr_ext.core.settings import Settings, setting
from tfr_ext.evaluation import comparable, runs, significance
from tfr_ext.evaluation.comparable import Options
from tfr_ext.evaluation.queries import plain_name

_DEFAULT = Options()


@dataclasses.dataclass(frozen=True)
class ComparisonConfig(Settings):
    """How runs are compared, which experiments say too."""

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
    against = telling.visible(given["against"], runs.LONGEST_NAME)
    return Options(metrics, seed=seed, **{**given, "against": against})
