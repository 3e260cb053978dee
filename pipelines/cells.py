"""The cells of an experiment: one training each, in a process of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import multiprocessing
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection
from typing import Any

import tensorflow as tf
from absl import flags

import tfr_ext
from pipelines import candidates, checksums, command, train, training_flags
from tfr_ext import checkpoints

FLAGS = flags.FLAGS

# Where what a cell printed goes.
LOG = "log.txt"
_SECONDS = "seconds.txt"
# What a cell may need besides, imported once: that takes as long as a short training.
_PRELOADED = ("pipelines.elwc_source", "pipelines.tfds_source", "tensorflow_datasets")
# Cells are short: saving each epoch would take a good part of their time.
_CHECKPOINT_EPOCHS = 10
# What TensorFlow keeps of one cell after the other is dropped now and then.
_CELLS_OF_A_PROCESS = 25
# What training leaves and an experiment has no more use for.
_LARGE = ("checkpoints", "export", "tensorboard")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One training.

    Attributes:
        candidate: what is trained.
        fold: on which fold.
        seed: with which seed.
        arguments: the flags of `pipelines.train`, all but --model_dir.
        directory: where its files are; named by the flags and the data's checksum.
    """

    candidate: candidates.Candidate
    fold: str
    seed: int
    arguments: tuple[str, ...]
    directory: str

    @property
    def is_finished(self) -> bool:
        """Whether its results are there."""
        return os.path.exists(os.path.join(self.directory, "metrics.json"))

    @property
    def is_apart(self) -> bool:
        """Whether it sets what a process can set once."""
        return any(flag.startswith("--logical_cpus") for flag in self.arguments)

    def metrics(self) -> dict[str, Any]:
        """Returns the content of its `metrics.json`."""
        with open(os.path.join(self.directory, "metrics.json")) as file:
            return json.load(file)

    def seconds(self) -> float:
        """Returns how long it took, 0 if that is not known."""
        try:
            with open(os.path.join(self.directory, _SECONDS)) as file:
                return float(file.read())
        except FileNotFoundError:
            return 0.0

    def failure(self) -> str:
        """Returns the last line that it printed, which tells why it failed."""
        try:
            with open(os.path.join(self.directory, LOG), errors="replace") as file:
                lines = [line.strip() for line in file if line.strip()]
        except FileNotFoundError:
            lines = []
        # A process that was killed says nothing.
        return lines[-1] if lines and "rror" in lines[-1] else "it was killed"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a cell ended.

    Attributes:
        cell: the cell.
        seconds: how long it took.
        ok: whether it finished.
    """

    cell: Cell
    seconds: float
    ok: bool


@dataclasses.dataclass(frozen=True)
class Plan:
    """Candidates, folds and seeds, with what makes them cells.

    Attributes:
        output_dir: directory of the experiment.
        base: flags of all cells; `{fold}` in them stands for the fold.
        candidates: all candidates.
        folds: names of the folds.
        seeds: seeds.
    """

    output_dir: str
    base: tuple[str, ...]
    candidates: tuple[candidates.Candidate, ...]
    folds: tuple[str, ...]
    seeds: tuple[int, ...]


def check(plan: Plan) -> list[Cell]:
    """Checks every candidate, reads the data of every fold, and names all cells.

    In a process of its own, so that the caller's flags stay as they are.

    Raises:
        ValueError: if a candidate's flags are wrong, or the data has errors.
    """
    pipe, process = _start(_check, plan)
    try:
        found = pipe.recv()
    except EOFError:
        process.join()
        raise ValueError(
            f"The process that checks the experiment ended with {process.exitcode}."
        ) from None
    process.join()
    if isinstance(found, str):
        raise ValueError(found)
    return found


def run(
    wanted: Sequence[Cell],
    jobs: int,
    threads: int,
    keep_models: bool,
    on_end: Callable[[Outcome], None],
) -> None:
    """Runs cells that are not finished, several at a time.

    Args:
        wanted: the cells.
        jobs: how many run at a time.
        threads: threads of each for one operation of TensorFlow.
        keep_models: whether checkpoints, exports and TensorBoard's logs stay.
        on_end: called as each cell ends.
    """
    waiting = [cell for cell in wanted if not cell.is_finished][::-1]
    idle: list[_Worker] = []
    running: dict[Any, tuple[_Worker, Cell, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                cell = waiting.pop()
                fresh = cell.is_apart or not idle
                worker = _Worker(threads, keep_models) if fresh else idle.pop()
                worker.pipe.send(cell)
                running[worker.pipe] = (worker, cell, time.monotonic())
            for pipe in connection.wait(list(running)):
                worker, cell, start = running.pop(pipe)
                seconds = time.monotonic() - start
                ok = worker.result()
                if cell.is_finished:
                    path = os.path.join(cell.directory, _SECONDS)
                    checkpoints.write_atomically(path, f"{seconds:.1f}\n")
                if ok and worker.num_cells < _CELLS_OF_A_PROCESS and not cell.is_apart:
                    idle.append(worker)
                else:
                    worker.end()
                on_end(Outcome(cell, seconds, ok and cell.is_finished))
    finally:
        for worker in [*idle, *(busy for busy, *_ in running.values())]:
            worker.end()


class _Worker:
    """A process that trains one cell after the other.

    Starting TensorFlow takes as long as a short training.
    """

    def __init__(self, threads: int, keep_models: bool):
        """Starts the process.

        Args:
            threads: its threads for one operation of TensorFlow.
            keep_models: whether large files of cells stay.
        """
        self.pipe, self._process = _start(_train_all, threads, keep_models)
        self.num_cells = 0

    def result(self) -> bool:
        """Returns whether the cell that it was sent is trained."""
        self.num_cells += 1
        try:
            return self.pipe.recv()
        except EOFError:  # It was killed.
            return False

    def end(self) -> None:
        """Ends the process."""
        self.pipe.close()
        self._process.terminate()
        self._process.join()


@contextlib.contextmanager
def alone(directory: str) -> Iterator[None]:
    """Holds a directory for one experiment at a time.

    Args:
        directory: which is made if it is not there.

    Raises:
        ValueError: if another one is running in it.
    """
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "lock"), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"--output_dir={directory}: an experiment is running in it."
            ) from None
        yield


def _start(work: Callable[..., None], *arguments: Any) -> tuple[Any, Any]:
    """Starts a process, and returns the end of a pipe to it, and it."""
    # Forked from one that has imported TensorFlow, but done nothing with it.
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pipelines.cells", *_PRELOADED])
    ours, its = context.Pipe()
    process = context.Process(target=_enter, args=(work, its, *arguments))
    process.start()
    its.close()
    return ours, process


def _enter(work: Callable[..., None], pipe: Any, *arguments: Any) -> None:
    """Does the work of a process, which ends when its parent does."""
    parent: Any = multiprocessing.parent_process()

    def follow() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    train.define_flags()
    work(pipe, *arguments)


def _parse(arguments: Sequence[str], model_dir: str) -> None:
    """Parses the flags of a cell in place of those before."""
    FLAGS.unparse_flags()
    FLAGS(["pipelines.train", *arguments, f"--model_dir={model_dir}"])


def _check(pipe: Any, plan: Plan) -> None:
    """Sends the cells of a plan, or a message that tells what is wrong."""
    command.quieten()
    try:
        pipe.send(_cells(plan))
    except (*command.MENDABLE, flags.Error) as error:
        pipe.send(str(error) or type(error).__name__)


def _cells(plan: Plan) -> list[Cell]:
    found, digests = [], {}
    for candidate in plan.candidates:
        for fold in plan.folds:
            base = candidates.in_fold(plan.base, fold)
            for seed in plan.seeds:
                arguments = (*base, *candidate.arguments(fold), f"--seed={seed}")
                try:
                    _parse(arguments, "unused")
                    if fold == plan.folds[0] and seed == plan.seeds[0]:
                        train.check_flags()
                    source = training_flags.data_source()
                    if source not in digests:
                        digests[source] = checksums.of_data(FLAGS)
                except (*command.MENDABLE, flags.Error) as error:
                    raise ValueError(
                        f"--method={candidate.method}, candidate {candidate.text!r}, "
                        f"fold {fold}: {error}"
                    ) from error
                identity = {
                    "data": digests[source],
                    "flags": training_flags.identity(),
                    "version": tfr_ext.__version__,
                }
                text = json.dumps(identity, sort_keys=True)
                key = hashlib.sha256(text.encode()).hexdigest()[:16]
                directory = os.path.join(plan.output_dir, "cells", key)
                found.append(Cell(candidate, fold, seed, arguments, directory))
    return found


def _train_all(pipe: Any, threads: int, keep_models: bool) -> None:
    """Trains the cells that it is sent, and sends back whether they are trained."""
    _set_threads(threads)
    while True:
        try:
            cell = pipe.recv()
        except EOFError:
            return
        os.makedirs(cell.directory, exist_ok=True)
        path = os.path.join(cell.directory, LOG)
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)
        pipe.send(_train(cell, keep_models))


def _train(cell: Cell, keep_models: bool) -> bool:
    """Trains a cell, and returns whether it is trained."""
    defaults = [f"--checkpoint_epochs={_CHECKPOINT_EPOCHS}"]
    if not keep_models:
        defaults += ["--noexport_model", "--nodraw_curves"]
    try:
        _parse([*defaults, *cell.arguments, "--verbose=silent"], cell.directory)
        command.quieten()
        # Half a run, on the same data in another place.
        FLAGS["overwrite"].value = training_flags.is_other_run(cell.directory)
        train.train()
    except (*command.MENDABLE, flags.Error) as error:
        print(f"Error: {' '.join(str(error).split())}", flush=True)
        return False
    except Exception:
        traceback.print_exc()
        return False
    finally:
        sys.stdout.flush()
        tf.keras.backend.clear_session()
    if not keep_models:
        for name in _LARGE:
            shutil.rmtree(os.path.join(cell.directory, name), ignore_errors=True)
    return True


def _set_threads(threads: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
