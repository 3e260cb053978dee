"""Flags that say how runs are compared."""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from pipelines.flags import flag_types
from tfr_ext.evaluation import comparison_options, significance
from tfr_ext.evaluation.comparison_options import Options

FLAGS = flags.FLAGS


def define() -> None:
    """Defines how runs are compared; experiments have these flags too."""
    default = Options()
    flags.DEFINE_enum(
        "test", default.test, significance.TESTS, "Paired test over queries."
    )
    flags.DEFINE_enum(
        "alternative",
        default.alternative,
        ["two-sided", comparison_options.ONE_SIDED],
        "What a test is to show: that a run and the reference differ, or 'one-sided', "
        "that the best is better than a run, or with --against=NAME a run than that.",
    )
    flags.DEFINE_enum(
        "correction",
        default.correction,
        significance.CORRECTIONS,
        "How p-values are corrected for the several comparisons of one metric.",
    )
    flag_types.define_float(
        "level",
        default.level,
        "Corrected p-values below it are significant.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_string(
        "against",
        default.against,
        "What runs are compared with: 'best', the run with the best mean of each "
        "metric, or the name of a run.",
    )
    flag_types.define_integer(
        "num_resamples",
        default.num_resamples,
        "Draws of --test=randomisation.",
        lower_bound=1,
    )
    flag_types.define_integer(
        "digits", default.digits, "Digits of the tables.", lower_bound=1
    )
    flags.DEFINE_bool(
        "standard_errors",
        default.standard_errors,
        "Whether tables have the standard error over folds.",
    )
    flag_types.define_metric(
        "plot_metric",
        default.plot_metric,
        "Metric of the plots of the page; ndcg_10, or else the first, if left out.",
    )
    flags.DEFINE_string("title", default.title, "Title of the page and the tables.")


def read(metrics: Sequence[str], seed: int) -> Options:
    """Returns how the flags say that runs are compared.

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
        against=FLAGS.against,
        num_resamples=FLAGS.num_resamples,
        seed=seed,
        digits=FLAGS.digits,
        standard_errors=FLAGS.standard_errors,
        plot_metric=FLAGS.plot_metric,
        title=FLAGS.title,
    )
