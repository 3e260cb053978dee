"""How runs are compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfr_ext.core import checks
from tfr_ext.evaluation import significance
from tfr_ext.objectives import plain_name

BEST = "best"
ONE_SIDED = "one-sided"


@dataclasses.dataclass(frozen=True)
class Options:
    """What to compare, and how.

    Attributes:
        metrics: names such as 'ndcg_10'; by default those that all runs have.
        test: 't', 'wilcoxon' or 'randomisation'.
        alternative: 'two-sided', or 'one-sided' to test whether the best run is better
            than another, or a run better than the baseline.
        correction: 'none', 'bonferroni' or 'holm', over the comparisons of a metric.
        level: significance level.
        against: the reference: 'best' for the run with the best mean of each metric, or
            the name of a run, the baseline.
        num_resamples: number of draws of the randomisation test.
        seed: seed of these draws.
        digits: number of digits in the tables.
        standard_errors: whether the tables show standard errors.
        plot_metric: metric of the plots; by default 'ndcg_10' if it is compared, else
            the first metric.
        title: title of the page, and beginning of the captions.
    """

    metrics: Sequence[str] = ()
    test: str = "t"
    alternative: str = "two-sided"
    correction: str = "bonferroni"
    level: float = 0.05
    against: str = BEST
    num_resamples: int = 10_000
    seed: int = 1
    digits: int = 3
    standard_errors: bool = False
    plot_metric: str | None = None
    title: str = ""

    def __post_init__(self) -> None:
        """Checks the options, as far as they do not depend on the runs."""
        checks.choice("test", self.test, list(significance.TESTS))
        checks.choice("alternative", self.alternative, ["two-sided", ONE_SIDED])
        checks.choice("correction", self.correction, list(significance.CORRECTIONS))
        checks.between("level", self.level, 0.0, 1.0)
        checks.at_least("num_resamples", self.num_resamples, 1)
        checks.at_least("digits", self.digits, 1)
        if self.plot_metric is not None:
            object.__setattr__(self, "plot_metric", plain_name(self.plot_metric))
