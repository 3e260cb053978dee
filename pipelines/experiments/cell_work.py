"""Checks and trains the cells of an experiment in child processes."""

from __future__ import annotations

import collections
import hashlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import flags

from pipelines.experiments.cells import (
    LOG,
    SECONDS,
    TRAIN,
    Cell,
    Kind,
    Outcome,
    Plan,
    in_fold,
)
from pipelines.flags import config_flags, wording
from pipelines.start import command, failures
from tfr_ext.core import messages
from tfr_ext.core.files import write_atomically
from tfr_ext.core.settings import Settings, places
from tfr_ext.core.system import child_process
from tfr_ext.runs.run_file import NOT_PART_OF_A_RUN
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.sources import named_sources
from tfr_ext.version import __version__

_WHERE_DATA_IS = ("data_dir", "train_path", "valid_path", "test_path")
# What a cell may also need. It is imported once, which takes as long as a short
# training.
_PRELOADED = ("pipelines.experiments.kinds", "tensorflow_datasets")
# A process ends after this many cells, to drop what TensorFlow keeps of each.
_CELLS_OF_A_PROCESS = 25


def check(plan: Plan) -> list[Cell]:
    """Checks every candidate, reads the data of every fold, and names all cells.

    This is done in a separate process, so that what TensorFlow keeps goes with it.
    """
    with child_process.Pool(_PRELOADED) as pool:
        try:
            found = pool.receive(pool.start(_send_cells, plan))
        except child_process.Ended as ended:
            raise ValueError(
                f"The process that checks the experiment {ended}."
            ) from None
    if isinstance(found, str):
        raise ValueError(found)
    return found


def train(
    wanted: Sequence[Cell],
    plan: Plan,
    jobs: int,
    on_end: Callable[[Outcome], None],
) -> None:
    """Trains cells that are not settled, several at a time.

    A process trains one cell after the other, since starting TensorFlow takes as long
    as a short training.

    Args:
        wanted: the cells.
        plan: the plan that they are of.
        jobs: how many run at the same time.
        on_end: called as each cell ends that was not finished before.
    """
    unsettled = [cell for cell in wanted if not cell.is_settled]
    # A process was killed just after them: how long they took is not known.
    finished = {cell.directory for cell in unsettled if cell.is_finished}
    taken = dict.fromkeys(finished, 0.0)
    # Two methods may have a cell in common.
    waiting = list({cell.directory: cell for cell in unsettled[::-1]}.values())
    idle: list[Any] = []
    running: dict[Any, tuple[Cell, float]] = {}
    num_cells: collections.Counter[Any] = collections.Counter()
    arguments = (plan.kinds, plan.threads, plan.keep_models)
    with child_process.Pool(_PRELOADED) as pool:
        while waiting or running:
            while waiting and len(running) < jobs:
                cell = waiting.pop()
                # An idle process that has sent something was killed.
                idle = [pipe for pipe in idle if not pipe.poll()]
                fresh = cell.is_apart or not idle
                pipe = pool.start(_train_all, *arguments) if fresh else idle.pop()
                pool.send(pipe, cell)
                num_cells[pipe] += 1
                running[pipe] = cell, time.monotonic()
            for pipe in pool.ready(running):
                cell, since = running.pop(pipe)
                seconds = time.monotonic() - since
                ok = _is_trained(pool, pipe, cell)
                if not ok and cell.is_finished and cell.directory not in taken:
                    # Another process removes what it no longer needs.
                    taken[cell.directory] = seconds
                    waiting.append(cell)
                    pool.end(pipe)
                    continue
                seconds = taken.get(cell.directory, seconds)
                if ok and cell.is_finished:
                    path = os.path.join(cell.directory, SECONDS)
                    write_atomically(path, f"{seconds:.1f}\n")
                if ok and num_cells[pipe] < _CELLS_OF_A_PROCESS and not cell.is_apart:
                    idle.append(pipe)
                else:
                    pool.end(pipe)
                if cell.directory not in finished:
                    on_end(Outcome(cell, seconds, ok and cell.is_finished))


def _is_trained(pool: child_process.Pool, pipe: Any, cell: Cell) -> bool:
    """Returns whether a process has trained its cell; logs it if it was killed."""
    try:
        return pool.receive(pipe)
    except child_process.Ended:
        os.makedirs(cell.directory, exist_ok=True)
        with open(os.path.join(cell.directory, LOG), "a") as log:
            log.write("\nError: its process was killed.\n")
        return False


def _send_cells(pipe: Any, plan: Plan) -> None:
    """Sends the cells of a plan, or an error message."""
    command.quieten()
    try:
        pipe.send(_cells(plan))
    except (*failures.USER_ERRORS, flags.Error) as error:
        pipe.send(failures.explain(error))


def parse(
    arguments: Sequence[str],
    settings: type[Settings] = TrainingConfig,
    command: str = TRAIN,
) -> config_flags.Parsed:
    """Parses the flags of a cell.

    Args:
        arguments: flags of the command, all but --model_dir.
        settings: the class of its settings.
        command: its name.
    """
    return config_flags.parse(settings, arguments, f"pipelines.{command}")


def identity(
    parsed: config_flags.Parsed, without: Collection[str] = ()
) -> dict[str, str]:
    """Returns the texts of the flags that define a run.

    Flags that say where its data and its files are, or what it prints, do not count;
    nor do flags that have their defaults, so that a new flag does not make it another
    run.
    """
    aside = {*NOT_PART_OF_A_RUN, *_WHERE_DATA_IS, *without}
    return {
        name: text
        for name, text in parsed.texts.items()
        if name not in aside and name in parsed.changed
    }


def _data_source(parsed: config_flags.Parsed) -> tuple[str, ...]:
    """Returns the texts of the flags that say which data is read."""
    data = parsed.settings.data
    kind = named_sources.kind(data.dataset)
    names = (
        *(*_WHERE_DATA_IS, "dataset", "manual_dir", "missing", "num_features"),
        *("rerank_run", "stream", *kind.settings),
    )
    seed = [str(data.random_seed)] * kind.is_drawn
    return (*(parsed.texts[name] for name in names), *seed)


def _cells(plan: Plan) -> list[Cell]:
    found: dict[str, Cell] = {}
    cells = []
    digests: dict[tuple[str, ...], str] = {}
    checked: set[tuple[str, ...]] = set()
    for candidate in plan.candidates:
        kind = plan.kinds[candidate.command]
        defaults = kind.defaults(plan.threads, plan.keep_models)
        for fold in plan.folds:
            base = in_fold(plan.base[candidate.command], fold)
            for seed in plan.seeds if kind.uses_seed else plan.seeds[:1]:
                arguments = (*base, *candidate.arguments(fold), f"--seed={seed}")
                values: dict[str, Any] = {}
                try:
                    parsed = parse([*defaults, *arguments], kind.settings, kind.command)
                    config = parsed.settings
                    values = _values(config)
                    if fold == plan.folds[0] and seed == plan.seeds[0]:
                        kind.check(config)
                    data = kind.data(config)
                    source = (*_data_source(parsed), data.missing)
                    if source not in digests:
                        digests[source] = named_sources.source(data).digest()
                    if (kind.command, *source) not in checked:
                        checked.add((kind.command, *source))
                        kind.check_data(config)
                    besides = kind.digest(config)
                except (*failures.USER_ERRORS, flags.Error) as error:
                    raise ValueError(
                        f"--method={candidate.method}, candidate {candidate.text!r}, "
                        f"fold {fold}: {failures.explain(error, values)}"
                    ) from error
                key = _key(plan, kind, parsed, digests[source], besides)
                directory = os.path.join(plan.cells_dir, key)
                is_apart = kind.is_apart(config)
                cell = Cell(candidate, fold, seed, config, directory, is_apart)
                twin = found.setdefault(f"{candidate.method}\n{key}", cell)
                if twin is not cell:
                    raise ValueError(
                        f"--method={candidate.method}: these two are the same "
                        f"training: {_where(twin)}; {_where(cell)}."
                        + (" No flag contains {fold}." if twin.fold != fold else "")
                    )
                cells.append(cell)
    return cells


def _values(config: Settings) -> dict[str, Any]:
    """Returns the settings by the names of their flags."""
    return {place.key: place.value(config) for place in places(type(config))}


def _key(
    plan: Plan, kind: Kind, parsed: config_flags.Parsed, digest: str, besides: str
) -> str:
    """Returns the name of a cell's directory, which depends only on its training."""
    without = [*kind.not_part, *(() if kind.uses_seed else ("seed",))]
    content = {
        "command": kind.command,
        "data": digest,
        "flags": identity(parsed, without),
        "tensorflow": tf.__version__,
        "threads": plan.threads,
        "version": __version__,
        **kind.versions(),
    }
    if besides:
        content["besides"] = besides
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _where(cell: Cell) -> str:
    return f"{cell.candidate.text!r}, fold {cell.fold}, seed {cell.seed}"


def _train_all(
    pipe: Any, kinds: Mapping[str, Kind], threads: int, keep_models: bool
) -> None:
    """Trains the cells that it is sent, and sends back whether they are trained."""
    _set_threads(threads)
    for kind in kinds.values():
        config_flags.learn(kind.settings)
    for cell in child_process.tasks(pipe):
        path = os.path.join(cell.directory, LOG)
        try:
            os.makedirs(cell.directory, exist_ok=True)
            # A finished cell keeps the log of its training.
            mode = os.O_APPEND if cell.is_finished else os.O_TRUNC
            log = os.open(path, os.O_WRONLY | os.O_CREAT | mode)
        except OSError:
            return  # The parent process meets the same error, and reports it.
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)
        with messages.worded(wording.with_flag_names):
            pipe.send(_train(cell, kinds[cell.candidate.command], keep_models))


def _train(cell: Cell, kind: Kind, keep_models: bool) -> bool:
    """Trains a cell, and returns whether it is trained."""
    try:
        command.quieten()
        kind.work(cell.config, cell.directory, keep_models)
    except failures.USER_ERRORS as error:
        values = {**_values(cell.config), "model_dir": cell.directory}
        formatted = failures.explain(error, values)
        messages.say(f"Error: {' '.join(formatted.split())}")
        return False
    except Exception as error:  # Whatever it is, the other cells go on.
        traceback.print_exc()
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        messages.say(f"Error: {reason}")
        return False
    finally:
        sys.stdout.flush()
        tf.keras.backend.clear_session()
    return True


def _set_threads(threads: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
