"""Flags that say how runs are compared."""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from pipelines.flags import flag_types
from tfr_ext.core import telling
from tfr_ext.evaluation import comparable, runs, significance
from tfr_ext.evaluation.comparable import Options

FLAGS = flags.FLAGS


def define() -> None:
    """Defines the flags that say how runs are compared, which experiments have too."""
    default = Options()
    flags.DEFINE_enum(
        "test",
        default.test,
        significance.TESTS,
        ("Paired significance test over the queries."),
    )
    flags.DEFINE_enum(
        "alternative",
        default.alternative,
        ["two-sided", comparable.ONE_SIDED],
        "What the test is to show: 'two-sided', that a run and the reference differ; "
        "'one-sided', that the best run is better than a run or, with --against=NAME, "
        "that a run is better than NAME.",
    )
    flags.DEFINE_enum(
        "correction",
        default.correction,
        significance.CORRECTIONS,
        "How p-values are corrected for multiple comparisons of one metric.",
    )
    flag_types.define_float(
        "level",
        default.level,
        "Significance level: corrected p-values below it are significant.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_string(
        "against",
        default.against,
        "Reference that runs are compared with: 'best', the run with the best mean of "
        "each metric, or the name of a run.",
    )
    flag_types.define_integer(
        "num_resamples",
        default.num_resamples,
        "Number of random draws of --test=randomisation.",
        lower_bound=1,
    )
    flag_types.define_integer(
        "digits", default.digits, "Number of decimals in the tables.", lower_bound=1
    )
    flags.DEFINE_bool(
        "standard_errors",
        default.standard_errors,
        "Show the standard error over the folds in the tables.",
    )
    flag_types.define_metric(
        "plot_metric",
        default.plot_metric,
        "Metric that the plots of the page show. If left out, ndcg_10, or else the "
        "first metric.",
    )
    flags.DEFINE_string("title", default.title, "Title of the page and of the tables.")


def read(metrics: Sequence[str], seed: int) -> Options:
    """Returns the options of a comparison that the flags give.

    Args:
        metrics: names of metrics.
        seed: seed of the randomisation test.
    """
    return Options(
        metrics=metrics,
        test=FLAGS.test,
        alternative=FLAGS.alternative,
        correction=FLAGS.correction,
        level=FLAGS.level,
        against=telling.visible(FLAGS.against, runs.LONGEST_NAME),
        num_resamples=FLAGS.num_resamples,
        seed=seed,
        digits=FLAGS.digits,
        standard_errors=FLAGS.standard_errors,
        plot_metric=FLAGS.plot_metric,
        title=FLAGS.title,
    )
