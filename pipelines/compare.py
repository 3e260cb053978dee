"""Compares runs query by query, and tells which differences are significant.

python -m pipelines.compare NAME=DIRECTORIES NAME=DIRECTORIES ... [--output_dir=DIR]

Each NAME=DIRECTORIES is a run: directories of `pipelines.train` or
`pipelines.evaluate`, or files per_query.tsv, separated by commas; globs are allowed in
quotes. Several are the run's folds and seeds. NAME= can be left out for one directory.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from pipelines import command
from pipelines.comparing import comparison_files, tables
from pipelines.flags import flag_types, path_flags
from tfr_ext.evaluation import comparison, comparison_options, runs, significance

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the flags of this command."""
    flag_types.define_metrics(
        "metrics", [], "Metrics to compare; those that all runs have if left out."
    )
    flag_types.define_seed(
        "seed",
        comparison.Options().seed,
        "Seed of the draws of --test=randomisation.",
    )
    path_flags.define(
        "output_dir",
        "Directory that gets comparison.json, table.md, table.tex and comparison.html.",
    )
    define_options()


def define_options() -> None:
    """Defines how runs are compared; experiments have these flags too."""
    default = comparison.Options()
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


def options(metrics: Sequence[str], seed: int) -> comparison.Options:
    """Returns how the flags say that runs are compared.

    Args:
        metrics: names of metrics.
        seed: seed of the randomisation test.
    """
    return comparison.Options(
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


def compare(arguments: list[str]) -> None:
    """Compares as the flags say.

    Args:
        arguments: the runs.
    """
    if len(arguments) < 2:
        raise ValueError(
            "Expected at least two runs, as in NAME=DIRECTORIES. Received: "
            f"{' '.join(arguments) or 'none'}."
        )
    compared_runs = runs.parse(arguments)
    files = None
    if FLAGS.output_dir is not None:
        files = comparison_files.files(FLAGS.output_dir)
        files.check(path for paths in compared_runs.values() for path in paths)
    compared = comparison.compare(compared_runs, options(FLAGS.metrics, FLAGS.seed))
    print(tables.terminal(compared))
    if files is not None:
        files.claim()
        files.remove()
        comparison_files.write(compared, FLAGS.output_dir)
        print(f"Written: {FLAGS.output_dir}/comparison.html, and the tables beside it.")


if __name__ == "__main__":
    define_flags()
    command.run(compare, takes_arguments=True)
