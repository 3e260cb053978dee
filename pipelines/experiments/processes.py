"""Starts and watches the processes of an experiment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any

from pipelines.experiments.cells import LOG, SECONDS, Cell, Outcome, Plan
from tfr_ext.core.files import write_atomically
from tfr_ext.core.system import child_process

# What a cell may also need. It is imported once, which takes as long as a short
# training.
_PRELOADED = ("pipelines.experiments.kinds", "tensorflow_datasets")
# A process ends after this many cells, to drop what TensorFlow keeps of each.
_CELLS_OF_A_PROCESS = 25


def check(work: Callable[..., None], plan: Plan) -> list[Cell]:
    """Checks every candidate, reads the data of every fold, and names all cells.

    This is done in a separate process, so that what TensorFlow keeps goes with it.

    Args:
        work: what the process does, with a pipe to this one and the plan.
        plan: the plan.

    Raises:
        ValueError: if a candidate's flags are wrong, or the data has errors.
    """
    pipe, process = child_process.start(work, plan, preloaded=_PRELOADED)
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
    start: Callable[[], Worker],
    jobs: int,
    on_end: Callable[[Outcome], None],
) -> None:
    """Runs cells that are not settled, several at a time.

    Args:
        wanted: the cells.
        start: starts a process that trains cells.
        jobs: how many run at the same time.
        on_end: called as each cell ends that was not finished before.
    """
    unsettled = [cell for cell in wanted if not cell.is_settled]
    # A process was killed just after them: how long they took is not known.
    finished = {cell.directory for cell in unsettled if cell.is_finished}
    taken = dict.fromkeys(finished, 0.0)
    # Two methods may have a cell in common.
    waiting = list({cell.directory: cell for cell in unsettled[::-1]}.values())
    idle: list[Worker] = []
    running: dict[Any, tuple[Worker, Cell, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                cell = waiting.pop()
                fresh = cell.is_apart or not idle
                worker = start() if fresh else idle.pop()
                if not worker.send(cell):  # It was killed while it was idle.
                    worker.end()
                    worker = start()
                    worker.send(cell)
                running[worker.pipe] = (worker, cell, time.monotonic())
            for pipe in connection.wait(list(running)):
                worker, cell, since = running.pop(pipe)
                seconds = time.monotonic() - since
                ok = worker.result()
                if not ok and cell.is_finished and cell.directory not in taken:
                    # Another process removes what it no longer needs.
                    taken[cell.directory] = seconds
                    waiting.append(cell)
                    worker.end()
                    continue
                seconds = taken.get(cell.directory, seconds)
                if ok and cell.is_finished:
                    path = os.path.join(cell.directory, SECONDS)
                    write_atomically(path, f"{seconds:.1f}\n")
                if ok and worker.num_cells < _CELLS_OF_A_PROCESS and not cell.is_apart:
                    idle.append(worker)
                else:
                    worker.end()
                if cell.directory not in finished:
                    on_end(Outcome(cell, seconds, ok and cell.is_finished))
    finally:
        ending = [*idle, *(worker for worker, *_ in running.values())]
        for worker in ending:
            worker.stop()  # All at once, since each may have much to save.
        for worker in ending:
            worker.end()


class Worker:
    """A process that trains one cell after the other.

    Starting TensorFlow takes as long as a short training.
    """

    def __init__(self, work: Callable[..., None], *arguments: Any):
        """Starts the process.

        Args:
            work: what it does, with a pipe to this process.
            *arguments: further arguments for it.
        """
        self.pipe, self._process = child_process.start(
            work, *arguments, preloaded=_PRELOADED
        )
        self.num_cells = 0

    def send(self, cell: Cell) -> bool:
        """Sends it a cell, and returns whether it is alive to take it."""
        self._cell = cell
        self.num_cells += 1
        try:
            self.pipe.send(cell)
        except OSError:
            return False
        return True

    def result(self) -> bool:
        """Returns whether the cell that it was sent is trained."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            os.makedirs(self._cell.directory, exist_ok=True)
            with open(os.path.join(self._cell.directory, LOG), "a") as log:
                log.write("\nError: its process was killed.\n")
            return False

    def stop(self) -> None:
        """Ends the process, and does not wait for that."""
        child_process.stop(self._process)

    def end(self) -> None:
        """Ends the process."""
        self.pipe.close()
        self.stop()
        self._process.join()
