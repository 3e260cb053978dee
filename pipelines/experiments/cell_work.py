"""What the processes of an experiment do: check the cells, and train them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import connection, parent_process
from typing import Any

import tensorflow as tf
from absl import flags

import tfr_ext
from pipelines import command, failures, train
from pipelines.experiments import candidates
from pipelines.experiments.cells import LOG, Cell, Plan
from pipelines.flags import flag_files, run_flags
from tfr_ext.training import run_directory, training_checks
from tfr_ext.training.sources import checksums

FLAGS = flags.FLAGS

# Cells are short: saving each epoch would take a good part of their time.
_CHECKPOINT_EPOCHS = 10
# What training leaves and an experiment has no more use for.
_LARGE = ("checkpoints", "tensorboard")


def enter(work: Callable[..., None], pipe: Any, *arguments: Any) -> None:
    """Does the work of a process, which ends when its parent does."""
    parent: Any = parent_process()

    def follow() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    train.define_flags()
    with contextlib.suppress(BrokenPipeError):  # It has ended.
        work(pipe, *arguments)


def _parse(arguments: Sequence[str], model_dir: str) -> None:
    """Parses the flags of a cell in place of those before."""
    flag_files.check(arguments)
    FLAGS.unparse_flags()
    FLAGS(["pipelines.train", *arguments, f"--model_dir={model_dir}"])


def check(pipe: Any, plan: Plan) -> None:
    """Sends the cells of a plan, or a message that tells what is wrong."""
    command.quieten()
    try:
        pipe.send(_cells(plan))
    except (*failures.MENDABLE, flags.Error) as error:
        pipe.send(failures.explain(error))


def _cells(plan: Plan) -> list[Cell]:
    found: dict[str, Cell] = {}
    cells = []
    digests: dict[tuple[str, ...], str] = {}
    for candidate in plan.candidates:
        for fold in plan.folds:
            base = candidates.in_fold(plan.base, fold)
            for seed in plan.seeds:
                arguments = (*base, *candidate.arguments(fold), f"--seed={seed}")
                try:
                    _parse(arguments, "unused")
                    if fold == plan.folds[0] and seed == plan.seeds[0]:
                        training_checks.check_flags()
                    source = run_flags.data_source()
                    if source not in digests:
                        digests[source] = checksums.of_data(FLAGS)
                        training_checks.check_data()
                except (*failures.MENDABLE, flags.Error) as error:
                    raise ValueError(
                        f"--method={candidate.method}, candidate {candidate.text!r}, "
                        f"fold {fold}: {failures.explain(error)}"
                    ) from error
                identity = {
                    "data": digests[source],
                    "flags": run_flags.identity(),
                    "tensorflow": tf.__version__,
                    "threads": plan.threads,
                    "version": tfr_ext.__version__,
                }
                text = json.dumps(identity, sort_keys=True)
                key = hashlib.sha256(text.encode()).hexdigest()[:16]
                directory = os.path.join(plan.cells_dir, key)
                cell = Cell(candidate, fold, seed, arguments, directory)
                twin = found.setdefault(f"{candidate.method}\n{key}", cell)
                if twin is not cell:
                    raise ValueError(
                        f"--method={candidate.method}: these are the same training: "
                        f"{_where(twin)}; {_where(cell)}."
                        + (" No flag has {fold}." if twin.fold != fold else "")
                    )
                cells.append(cell)
    return cells


def _where(cell: Cell) -> str:
    return f"{cell.candidate.text!r}, fold {cell.fold}, seed {cell.seed}"


def train_all(pipe: Any, threads: int, keep_models: bool) -> None:
    """Trains the cells that it is sent, and sends back whether they are trained."""
    _set_threads(threads)
    while True:
        try:
            cell = pipe.recv()
        except EOFError:
            return
        path = os.path.join(cell.directory, LOG)
        try:
            os.makedirs(cell.directory, exist_ok=True)
            log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        except OSError:
            return  # The parent process meets the same, and tells it.
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)
        pipe.send(_train(cell, keep_models))


def _train(cell: Cell, keep_models: bool) -> bool:
    """Trains a cell, and returns whether it is trained."""
    export = os.path.join(cell.directory, "export")
    was_exported = os.path.lexists(export)
    defaults = [f"--checkpoint_epochs={_CHECKPOINT_EPOCHS}"]
    if not keep_models:
        defaults += ["--noexport_model", "--nodraw_curves"]
    try:
        _parse([*defaults, *cell.arguments, "--verbose=silent"], cell.directory)
        command.quieten()
        # Half a run, on the same data in another place.
        FLAGS["overwrite"].value = run_directory.is_other_run(cell.directory)
        train.train()
    except (*failures.MENDABLE, flags.Error) as error:
        print(f"Error: {' '.join(failures.explain(error).split())}", flush=True)
        return False
    except Exception as error:  # whatever it is: the others go on
        traceback.print_exc()
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"Error: {reason}", flush=True)
        return False
    finally:
        sys.stdout.flush()
        tf.keras.backend.clear_session()
    if not keep_models:
        run_directory.RunDirectory().files.remove(_LARGE)
        if not was_exported:
            shutil.rmtree(export, ignore_errors=True)
    return True


def _set_threads(threads: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
