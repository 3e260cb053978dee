"""Compares runs query by query, and says which differences are significant.

python -m pipelines.compare NAME=DIRECTORIES NAME=DIRECTORIES ... [--output_dir=DIR]

Each NAME=DIRECTORIES is a run: directories of `pipelines.train` or
`pipelines.evaluate`, or files per_query.tsv, separated by commas; globs are allowed in
quotes. Several directories are the folds and seeds of the run. NAME= can be left out if
there is only one.

COLLECTION:PATH instead of a path pools collections: means and tests are then over all
queries, and the t-test is stratified by collection.
"""

from __future__ import annotations

import dataclasses

from absl import flags

from pipelines.comparing import comparison_report
from pipelines.flags import config_flags
from pipelines.start import command
from tfr_ext.core import messages
from tfr_ext.core.setting_kinds import HIGHEST_SEED
from tfr_ext.core.settings import Settings, setting
from tfr_ext.evaluation import comparison, runs
from tfr_ext.evaluation.queries import plain_name
from tfr_ext.runs import owned_files

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class CompareConfig(Settings):
    """The runs to compare, and where the files go."""

    metrics: tuple[str, ...] = setting(
        (),
        "Metrics to compare. If left out, those that all runs have.",
        kind="texts",
        convert=plain_name,
    )
    seed: int = setting(
        comparison.Options().seed,
        "Seed of the random draws of --test=randomisation.",
        high=HIGHEST_SEED,
    )
    output_dir: str | None = setting(
        None,
        "Directory to which comparison.json, table.md, table.tex and comparison.html "
        "are written.",
        kind="path",
    )


def define_flags() -> None:
    """Defines the flags of this command."""
    config_flags.define(CompareConfig)
    config_flags.define(comparison.Options)


def compare(arguments: list[str]) -> None:
    """Compares as the flags say."""
    if len(arguments) < 2:
        raise ValueError(
            "Expected at least two runs, as in NAME=DIRECTORIES. Received: "
            f"{' '.join(arguments) or 'none'}."
        )
    compared_runs = runs.parse(arguments)
    paths = (path for several in compared_runs.values() for path in several)
    inputs = (runs.in_collection(path)[1] for path in paths)
    names = comparison_report.FILES
    with owned_files.in_output_dir(
        "compare", FLAGS.output_dir, names, "comparison", inputs
    ) as files:
        _compare(compared_runs, files)


def _compare(
    compared_runs: dict[str, list[str]], files: owned_files.OwnedFiles | None
) -> None:
    """Compares runs, and writes the files of --output_dir."""
    compared = comparison.compare(
        compared_runs, comparison_report.read(FLAGS.metrics, FLAGS.seed)
    )
    comparison_report.show(compared)
    if files is not None:
        files.claim(anew=True)
        comparison_report.write(compared, FLAGS.output_dir)
        messages.say(
            f"Written: {FLAGS.output_dir}/comparison.html, and the tables beside it."
        )


if __name__ == "__main__":
    define_flags()
    command.run(compare, takes_arguments=True)
