"""Trains methods on folds with seeds; chooses hyper-parameters by validation.

python -m pipelines.experiment --flagfile=configs/experiments/NAME.cfg --output_dir=DIR

Every flag of `pipelines.train` is one of this command too, and holds for all methods;
`{fold}` in its value stands for the fold. What is finished is not done again: killed
and started once more, the experiment goes on.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sized

import tensorflow as tf
from absl import flags

import tfr_ext
from pipelines import command, compare, failures
from pipelines.comparing import comparison_files, tables
from pipelines.experiments import (
    candidates,
    cells,
    experiment_files,
    processes,
    selection,
)
from pipelines.flags import (
    flag_types,
    path_flags,
    run_flags,
    shared_flags,
    training_flags,
)
from tfr_ext.evaluation import comparison, comparison_options
from tfr_ext.training import lock
from tfr_ext.training.sources import data_splits

FLAGS = flags.FLAGS

# Cells from whose times that of the others is estimated.
_RECENT = 20


def define_flags() -> None:
    """Defines the flags of this command."""
    shared_flags.define_data_flags()
    shared_flags.define_metric_flags()
    training_flags.define_training_flags(model_dir=False)
    path_flags.define("output_dir", "Directory that gets everything.", required=True)
    flags.DEFINE_multi_string(
        "method",
        None,
        "A method as NAME: FLAGS, the flags of `pipelines.train` that make it. {a|b} "
        "in a flag is a choice, and the candidates are all combinations. Repeatable; "
        "several of one NAME add up.",
        required=True,
    )
    flags.DEFINE_list("folds", ["1"], "Names of the folds, for {fold} in any flag.")
    flags.DEFINE_list("seeds", [str(shared_flags.DEFAULT_SEED)], "Seeds.")
    flag_types.define_integer(
        "selection_seeds",
        1,
        "How many of the first --seeds every candidate is trained with. The chosen one "
        "is trained with all.",
        lower_bound=1,
    )
    flag_types.define_metric(
        "select_by",
        None,
        "Validation metric by which a candidate is chosen for each method and fold; "
        "--monitor if left out.",
    )
    flags.DEFINE_enum(
        "select_for",
        selection.FOLD,
        [selection.FOLD, selection.ALL],
        "'fold' chooses a candidate for each fold by its own validation queries, 'all' "
        "one for all folds by the mean over their validation queries. With "
        "cross-validation folds these are test queries of other folds: 'all' is less "
        "noisy, and common, but not blind.",
    )
    path_flags.define(
        "cells_dir",
        "Directory of the cells, which experiments may share; 'cells' in --output_dir "
        "if left out.",
    )
    flag_types.define_integer("jobs", 2, "Processes at a time.", lower_bound=1)
    flag_types.define_integer(
        "threads",
        1,
        "Threads of each process for one operation. The last digits of results depend "
        "on it.",
        lower_bound=1,
    )
    flags.DEFINE_bool(
        "keep_models", False, "Keep each cell's checkpoints, export and TensorBoard."
    )
    compare.define_options()
    # So that --helpshort lists them.
    for module in (shared_flags, training_flags, compare):
        flags.adopt_module_key_flags(module)


def experiment() -> None:
    """Runs the experiment as the flags say, and leaves all files in --output_dir."""
    methods = candidates.parse_methods(FLAGS.method)
    seeds = shared_flags.parse_integers(
        FLAGS.seeds, "seeds", 0, flag_types.HIGHEST_SEED
    )
    for name, given in (("seeds", seeds), ("folds", FLAGS.folds)):
        if not given or len(set(given)) < len(given):
            raise ValueError(f"--{name} must be different values. Received: {given}.")
    for name, instead in (
        ("model_dir", "--output_dir"),
        ("seed", "--seeds"),
        ("overwrite", "another --output_dir"),
    ):
        if FLAGS[name].present:
            raise ValueError(f"--{name} has no meaning here. Give {instead}.")
    select_by = FLAGS.select_by or FLAGS.monitor
    if select_by not in FLAGS.metrics:
        raise ValueError(
            f"--select_by={select_by} must be among "
            f"--metrics={','.join(FLAGS.metrics)}."
        )
    compare.options(FLAGS.metrics, comparison.Options().seed)  # Are they right?
    if FLAGS.against not in (comparison_options.BEST, *methods):
        raise ValueError(
            f"--against={FLAGS.against} must be {comparison_options.BEST!r} or the "
            f"name of a method: {', '.join(methods)}."
        )
    if FLAGS.plot_metric not in (None, *FLAGS.metrics):
        raise ValueError(
            f"--plot_metric={FLAGS.plot_metric} must be among "
            f"--metrics={','.join(FLAGS.metrics)}."
        )
    with lock.alone(FLAGS.output_dir, "experiment"):
        with lock.alone(_cells_dir(), "experiment"):
            _run(methods, seeds, select_by)


def _run(
    methods: dict[str, list[candidates.Candidate]], seeds: list[int], select_by: str
) -> None:
    start = time.monotonic()
    files = experiment_files.files(FLAGS.output_dir)
    files.check(data_splits.paths(FLAGS))
    base = run_flags.given()
    if run_flags.has_random_data() and FLAGS.data_seed is None:
        base.append(f"--data_seed={seeds[0]}")  # All seeds have the same queries.
    plan = cells.Plan(
        cells_dir=_cells_dir(),
        base=tuple(base),
        candidates=tuple(c for found in methods.values() for c in found),
        folds=tuple(FLAGS.folds),
        seeds=tuple(seeds),
        threads=FLAGS.threads,
    )
    print(
        f"{_count(methods, 'method')}, {_count(plan.candidates, 'candidate')}, "
        f"{_count(plan.folds, 'fold')}, {_count(seeds, 'seed')}. Reading the data ...",
        flush=True,
    )
    everything = processes.check(plan)
    cached = {cell for cell in everything if cell.is_finished}
    first = seeds[: FLAGS.selection_seeds]
    several = {name for name, found in methods.items() if len(found) > 1}
    phases = {
        "select": [
            cell
            for cell in everything
            if cell.seed in first or cell.candidate.method not in several
        ]
    }
    later = len(several) * len(plan.folds) * (len(seeds) - len(first))
    progress = _Progress(phases["select"], later)
    print(_announcement(plan, phases["select"], later), flush=True)
    _train(phases["select"], progress)
    choices = selection.choose(
        [cell for cell in phases["select"] if cell.seed in first],
        select_by,
        FLAGS.select_for,
    )
    chosen = [
        cell
        for cell in everything
        if _is_chosen(cell, choices.get((cell.candidate.method, cell.fold)))
    ]
    phases["final"] = [cell for cell in chosen if cell not in set(phases["select"])]
    progress.expect(phases["final"])
    _train(phases["final"], progress)
    trained = [*phases["select"], *phases["final"]]
    failed = [cell for cell in trained if not cell.is_finished]
    files.claim()
    files.remove(comparison_files.FILES)  # They may be of other cells.
    experiment_files.write(
        FLAGS.output_dir,
        phases,
        choices,
        chosen,
        {
            "cells": len(trained),
            "candidates": len(plan.candidates),
            "failed": len(failed),
            "cached": len(cached.intersection(trained)),
            "seconds": round(time.monotonic() - start, 1),
            "cell_seconds": round(sum(cell.seconds() for cell in trained), 1),
            "jobs": FLAGS.jobs,
            "folds": list(plan.folds),
            "seeds": seeds,
            "selection_seeds": len(first),
            "select_by": select_by,
            "select_for": FLAGS.select_for,
            "flags": [*plan.base, *(f"--method={text}" for text in FLAGS.method)],
            "versions": {
                "tfr_ext": tfr_ext.__version__,
                "tensorflow": tf.__version__,
            },
        },
    )
    wrong = []
    try:
        _compare(methods, chosen, len(plan.folds) * len(seeds))
    except failures.MENDABLE as error:
        wrong.append(f"The comparison is not complete: {failures.explain(error)}")
    if failed:
        wrong.append(
            f"{len(failed)} of {len(trained)} cells failed; the same command tries "
            "them again:"
        )
        wrong += [f"  {_describe(cell)}: {cell.failure()}" for cell in failed]
    if wrong:
        sys.exit("Error: " + "\n".join(wrong))


def _count(things: Sized, name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"


def _cells_dir() -> str:
    return FLAGS.cells_dir or os.path.join(FLAGS.output_dir, "cells")


def _is_chosen(cell: cells.Cell, choice: selection.Choice | None) -> bool:
    return choice is not None and cell.candidate == choice.candidate


def _announcement(plan: cells.Plan, wanted: list[cells.Cell], later: int) -> str:
    """Returns what the experiment is about to do.

    Args:
        plan: the plan.
        wanted: the cells of the first phase.
        later: number of cells of the next.
    """
    left = _unfinished(wanted)
    then = f", then up to {later:,} with the candidates chosen" if later else ""
    return (
        f"Cells to train: {left:,}{then}. Up to {FLAGS.jobs} at a time, each in a "
        f"process with --threads={plan.threads}; files and {cells.LOG} of each are in "
        f"a directory of its own in {plan.cells_dir}."
    )


def _train(wanted: list[cells.Cell], progress: _Progress) -> None:
    processes.run(wanted, FLAGS.jobs, FLAGS.threads, FLAGS.keep_models, progress.tell)


def _compare(methods: Iterable[str], chosen: list[cells.Cell], num_cells: int) -> None:
    """Compares the methods of which every chosen cell is finished."""
    runs = {
        method: [
            cell.directory
            for cell in chosen
            if cell.candidate.method == method and cell.is_finished
        ]
        for method in methods
    }
    for method, directories in runs.items():
        if len(directories) < num_cells:
            print(
                f"{method} is not compared: {num_cells - len(directories)} of its "
                f"{num_cells} cells are missing."
            )
    whole = {m: found for m, found in runs.items() if len(found) == num_cells}
    if not whole or FLAGS.against not in (comparison_options.BEST, *whole):
        print(
            "Nothing is compared: "
            + (
                f"the baseline, {FLAGS.against}, is missing."
                if whole
                else "no method is finished."
            )
        )
        return
    compared = comparison.compare(
        whole, compare.options(FLAGS.metrics, comparison.Options().seed)
    )
    comparison_files.write(compared, FLAGS.output_dir)
    print(tables.terminal(compared))
    print(f"Written: {FLAGS.output_dir}/comparison.html, and the tables beside it.")


class _Progress:
    """Tells how each cell ended, and how long the others will take."""

    def __init__(self, wanted: list[cells.Cell], later: int):
        """Initialises the progress.

        Args:
            wanted: the cells of this phase.
            later: number of cells of the next.
        """
        self.seconds: dict[cells.Cell, float] = {}
        self._left = _unfinished(wanted) + later
        self._failed = 0
        if len(wanted) > _unfinished(wanted):
            print(f"{len(wanted) - _unfinished(wanted)} cells are finished already.")

    def expect(self, wanted: list[cells.Cell]) -> None:
        """Says which cells the last phase has.

        Args:
            wanted: the cells.
        """
        self._left = _unfinished(wanted)

    def tell(self, outcome: cells.Outcome) -> None:
        """Prints a line about a cell that ended."""
        cell = outcome.cell
        self._left -= 1
        if outcome.ok:
            self.seconds[cell] = outcome.seconds
            result = _result(cell)
        else:
            self._failed += 1
            result = f"FAILED, {cell.failure()} (see {cell.directory}/{cells.LOG})"
        text = f"{_describe(cell)}: {result} ({outcome.seconds:.0f} s)."
        if self._left and self.seconds:
            recent = list(self.seconds.values())[-_RECENT:]
            left = self._left * sum(recent) / len(recent) / FLAGS.jobs
            text += f" Cells left: {self._left}, about {_duration(left)}"
            text += f", {self._failed} failed." if self._failed else "."
        print(text, flush=True)


def _result(cell: cells.Cell) -> str:
    name = FLAGS.select_by or FLAGS.monitor
    value = cell.metrics()["valid"].get(name)
    return f"validation {name} " + ("-" if value is None else f"{value:.4f}")


def _describe(cell: cells.Cell) -> str:
    return (
        f"{cell.candidate.method}, fold {cell.fold}, seed {cell.seed}, "
        f"{cell.candidate.text or 'no flags of its own'}"
    )


def _unfinished(wanted: Iterable[cells.Cell]) -> int:
    return len({cell.directory for cell in wanted if not cell.is_finished})


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return (
        f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
    )


if __name__ == "__main__":
    define_flags()
    command.run(experiment, goes_on=True)
