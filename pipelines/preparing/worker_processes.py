"""Runs units of work in processes of this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any

from pipelines.preparing.work_units import Unit
from pipelines.start import failures
from tfr_ext.core.system import child_process

# Imported once for all processes, because this takes as long as much of the work.
_PRELOADED = ("pipelines.preparing.worker_processes",)


def num_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(units: Sequence[Unit], work: Callable[[Unit], None], num_workers: int) -> None:
    """Does the work of some units, and waits until it is done.

    Args:
        units: the units; begun in this order.
        work: a function of a module, which processes import.
        num_workers: number of processes at the same time. With one worker, or only one
            unit, the work is done in this process.

    Raises:
        OSError: if a process failed, or was killed.
    """
    num_workers = min(num_workers, len(units))
    if num_workers == 1:
        for unit in units:
            work(unit)
        return
    context = child_process.context(_PRELOADED)
    turn, problems = context.Value("q", 0), context.SimpleQueue()
    processes = [
        context.Process(target=_take_turns, args=(units, work, turn, problems))
        for _ in range(num_workers)
    ]
    try:
        for process in processes:
            process.start()
        running = {process.sentinel: process for process in processes}
        while running:
            for sentinel in connection.wait(list(running)):
                process = running.pop(sentinel)
                process.join()
                if not problems.empty():
                    raise OSError(problems.get())
                if process.exitcode:
                    raise OSError(
                        f"One of {num_workers} worker processes ended with exit code "
                        f"{process.exitcode} before its work did. If memory is short, "
                        "give --num_workers=1. The same command goes on."
                    )
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()


def _take_turns(
    units: Sequence[Unit], work: Callable[[Unit], None], turn: Any, problems: Any
) -> None:
    """Does the next unit that no process has begun, until none is left."""
    child_process.follow_parent()
    while True:
        with turn.get_lock():
            index = turn.value
            turn.value += 1
        if index >= len(units):
            return
        try:
            work(units[index])
        except failures.MENDABLE as error:
            problems.put(failures.explain(error))
            sys.exit(1)
