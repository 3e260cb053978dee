"""Trains methods on folds with seeds, and chooses hyper-parameters by validation.

python -m pipelines.experiment --flagfile=configs/experiments/NAME.cfg --output_dir=DIR

This command also takes every flag of `pipelines.train`, which then holds for all
methods, as do those of other commands that methods name, for the methods whose command
has them; `{fold}` in a value stands for the fold. Finished work is not repeated: if the
experiment was killed, the same command goes on with it.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

from absl import flags

from pipelines.comparing import comparison_report
from pipelines.experiments import cell_work, cells, selection
from pipelines.experiments.experiment_config import ExperimentConfig
from pipelines.experiments.kinds import KINDS
from pipelines.flags import config_flags
from pipelines.start import command, failures
from tfr_ext.core import messages
from tfr_ext.core.settings import places
from tfr_ext.core.system import lock
from tfr_ext.evaluation import comparable, comparison
from tfr_ext.runs import outputs, owned_files
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources import data_splits

FLAGS = flags.FLAGS

# The flags that say where the lists of all cells come from.
_WHERE = (
    *("dataset", "train_path", "valid_path", "test_path", "data_dir", "manual_dir"),
    *("list_size", "eval_list_size", "seed", "data_seed"),
)
_MOST_USED = (
    *("output_dir", "method", "folds", "seeds", "dataset", "metrics", "monitor"),
    *("select_by", "jobs", "cells_dir"),
)
# Number of cells whose times give the estimate for the others.
_RECENT = 20


def define_flags() -> None:
    """Defines the flags of this command."""
    config_flags.define(ExperimentConfig, required=["output_dir", "method"])
    config_flags.define(comparison.Options)
    for kind in KINDS.values():
        config_flags.define(kind.settings, without=list(FLAGS))


@dataclasses.dataclass(frozen=True)
class _Experiment:
    """An experiment to run.

    Attributes:
        base: the flags that all cells of a command share, by command.
        data: where the lists come from, with `{fold}` in place of the fold.
    """

    config: ExperimentConfig
    methods: dict[str, list[cells.Candidate]]
    base: Mapping[str, Sequence[str]]
    data: DataConfig
    select_by: str
    comparison: comparison.Options


def experiment() -> None:
    """Runs the experiment as the flags say, and leaves all files in --output_dir."""
    for name, instead in (
        ("model_dir", "--output_dir"),
        ("num_threads", "--threads"),
        ("seed", "--seeds"),
        ("overwrite", "another --output_dir"),
    ):
        if name in FLAGS and FLAGS[name].present:
            raise ValueError(f"--{name} has no meaning here. Give {instead}.")
    config = config_flags.read(ExperimentConfig, FLAGS)
    methods = cells.parse_methods(config.method, KINDS)
    select_by = config.select_by or FLAGS.monitor
    if select_by not in FLAGS.metrics:
        raise ValueError(
            f"--select_by={select_by} must be among "
            f"--metrics={','.join(FLAGS.metrics)}."
        )
    options = comparison_report.read(FLAGS.metrics, comparison.Options().seed)
    if options.against not in (comparable.BEST, *methods):
        raise ValueError(
            f"--against={options.against} must be {comparable.BEST!r} or the "
            f"name of a method: {', '.join(methods)}."
        )
    if options.plot_metric not in (None, *options.metrics):
        raise ValueError(
            f"--plot_metric={options.plot_metric} must be among "
            f"--metrics={','.join(options.metrics)}."
        )
    work = _Experiment(
        config,
        methods,
        base_flags(),
        _data(),
        select_by,
        options,
    )
    names = (*comparison_report.FILES, *selection.FILES)
    inputs = data_splits.paths(work.data)
    with owned_files.in_output_dir(
        "experiment", config.output_dir, names, "experiment", inputs
    ) as files:
        assert files is not None  # The flag is required.
        with lock.alone(config.cells_directory(), "experiment"):
            _run(work, files)


def base_flags() -> dict[str, list[str]]:
    """Returns the given flags that hold for all methods, by command."""
    own = {place.key for place in places(ExperimentConfig)}
    return {
        name: config_flags.given(kind.settings, FLAGS, without=own)
        for name, kind in KINDS.items()
    }


def _data() -> DataConfig:
    """Returns the flags of the lists of all cells; methods may set the other flags."""
    where: dict[str, Any] = {name: FLAGS[name].value for name in _WHERE}
    return DataConfig(**where)


def _run(work: _Experiment, files: owned_files.OwnedFiles) -> None:
    start = time.monotonic()
    config, methods, seeds = work.config, work.methods, work.config.seeds
    base = work.base
    if data_splits.is_random(work.data) and work.data.data_seed is None:
        same = f"--data_seed={seeds[0]}"  # All seeds get the same queries.
        base = {name: [*given, same] for name, given in base.items()}
    plan = cells.Plan(
        kinds=KINDS,
        cells_dir=config.cells_directory(),
        base=base,
        candidates=tuple(c for found in methods.values() for c in found),
        folds=config.folds,
        seeds=seeds,
        threads=config.threads,
        keep_models=config.keep_models,
    )
    messages.say(
        f"{_count(methods, 'method')}, {_count(plan.candidates, 'candidate')}, "
        f"{_count(plan.folds, 'fold')}, {_count(seeds, 'seed')}. Reading the data ...",
    )
    everything = cell_work.check(plan)
    cached = {cell for cell in everything if cell.is_finished}
    first = seeds[: config.selection_seeds]
    several = {name for name, found in methods.items() if len(found) > 1}
    phases = {
        "select": [
            cell
            for cell in everything
            if cell.seed in first or cell.candidate.method not in several
        ]
    }
    later = len(several) * len(plan.folds) * (len(seeds) - len(first))
    progress = _Progress(phases["select"], later, config.jobs, work.select_by)
    messages.say(_announcement(plan, phases["select"], later, config.jobs))
    cell_work.train(phases["select"], plan, config.jobs, progress.tell)
    choices = selection.choose(
        [cell for cell in phases["select"] if cell.seed in first],
        work.select_by,
        config.select_for,
    )
    picked = {(fold, choice.candidate) for (_, fold), choice in choices.items()}
    chosen = [x for x in everything if (x.fold, x.candidate) in picked]
    phases["final"] = [cell for cell in chosen if cell not in set(phases["select"])]
    progress.expect(phases["final"])
    cell_work.train(phases["final"], plan, config.jobs, progress.tell)
    trained = [*phases["select"], *phases["final"]]
    failed = [cell for cell in trained if not cell.is_finished]
    files.claim()
    files.remove(comparison_report.FILES)  # They may be from other cells.
    selection.write(
        files.directory,
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
            "jobs": config.jobs,
            "folds": list(plan.folds),
            "seeds": list(seeds),
            "selection_seeds": len(first),
            "select_by": work.select_by,
            "select_for": config.select_for,
            "flags": [
                *dict.fromkeys(flag for given in base.values() for flag in given),
                *(f"--method={text}" for text in config.method),
            ],
            "versions": outputs.versions(),
        },
    )
    wrong = []
    try:
        _compare(work, chosen)
    except failures.USER_ERRORS as error:
        wrong.append(f"The comparison is not complete: {failures.explain(error)}")
    if failed:
        wrong.append(
            f"{len(failed)} of {len(trained)} cells failed; the same command tries "
            "them again:"
        )
        wrong += [f"  {_describe(cell)}: {cell.failure()}" for cell in failed]
    if wrong:
        sys.exit(messages.visible("Error: " + "\n".join(wrong)))


def _count(things: Sized, name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"


def _announcement(
    plan: cells.Plan, wanted: list[cells.Cell], later: int, jobs: int
) -> str:
    """Returns a text that announces the experiment."""
    left = _unfinished(wanted)
    then = f", then up to {later:,} with the candidates chosen" if later else ""
    return (
        f"Cells to train: {left:,}{then}. Up to {jobs} at a time, each in a "
        f"process with --threads={plan.threads}; files and {cells.LOG} of each are in "
        f"a directory of its own in {plan.cells_dir}."
    )


def _compare(work: _Experiment, chosen: list[cells.Cell]) -> None:
    """Compares the methods whose chosen cells are all finished."""
    whole = {}
    for method in work.methods:
        wanted = [cell for cell in chosen if cell.candidate.method == method]
        found = [cell.directory for cell in wanted if cell.is_finished]
        # Where nothing could be chosen, each seed is missing.
        missing = len(work.config.folds) - len({cell.fold for cell in wanted})
        num_cells = len(wanted) + missing * len(work.config.seeds)
        if len(found) < num_cells:
            messages.say(
                f"{method} is not compared: {num_cells - len(found)} of its "
                f"{num_cells} cells have not finished."
            )
        else:
            whole[method] = found
    if not whole or work.comparison.against not in (comparable.BEST, *whole):
        messages.say(
            "Nothing is compared: "
            + (
                f"cells of the baseline, {work.comparison.against}, are missing."
                if whole
                else "no method has finished."
            )
        )
        return
    output_dir = work.config.output_dir or ""
    compared = comparison.compare(whole, work.comparison)
    comparison_report.write(compared, output_dir)
    comparison_report.show(compared)
    messages.say(f"Written: {output_dir}/comparison.html, and the tables beside it.")


class _Progress:
    """Prints how each cell ended, and how long the others will take."""

    def __init__(self, wanted: list[cells.Cell], later: int, jobs: int, select_by: str):
        """Initialises the progress."""
        self._jobs, self._select_by = jobs, select_by
        self.seconds: dict[cells.Cell, float] = {}
        self._left = _unfinished(wanted) + later
        self._failed = 0
        if len(wanted) > _unfinished(wanted):
            messages.say(
                f"{len(wanted) - _unfinished(wanted)} cells are finished already."
            )

    def expect(self, wanted: list[cells.Cell]) -> None:
        """Sets the cells of the final phase."""
        self._left = _unfinished(wanted)

    def tell(self, outcome: cells.Outcome) -> None:
        """Prints a line about a cell that ended."""
        cell = outcome.cell
        self._left -= 1
        if outcome.ok:
            self.seconds[cell] = outcome.seconds
            result = _result(cell, self._select_by)
        else:
            self._failed += 1
            result = f"FAILED, {cell.failure()} (see {cell.directory}/{cells.LOG})"
        text = f"{_describe(cell)}: {result} ({outcome.seconds:.0f} s)."
        if self._left and self.seconds:
            recent = list(self.seconds.values())[-_RECENT:]
            left = self._left * sum(recent) / len(recent) / self._jobs
            text += f" Cells left: {self._left}, about {_duration(left)}"
            text += f", {self._failed} failed." if self._failed else "."
        messages.say(text)


def _result(cell: cells.Cell, name: str) -> str:
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
    command.run(experiment, goes_on=True, most_used=_MOST_USED)
