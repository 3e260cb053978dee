"""Processes that do a part of this one's work, and end when it does."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection, forkserver, parent_process, resource_tracker
from typing import Any

from tfr_ext.core.system import termination


def context(preloaded: Sequence[str]) -> Any:
    """Returns a context of `multiprocessing` whose processes start quickly.

    They are forked from a process that has imported TensorFlow, but done nothing with
    it: a process that has used TensorFlow cannot be forked.

    Args:
        preloaded: modules that this process imports. They are without effect if it
            runs already.
    """
    found: Any = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(list(preloaded))
    with shielded():
        forkserver.ensure_running()  # All others are forked from it.
    return found


def start(
    work: Callable[..., None], *arguments: Any, preloaded: Sequence[str] = ()
) -> tuple[Any, Any]:
    """Starts a process, and returns the end of a pipe to it, and the process.

    Args:
        work: what it does, with a pipe to this process and the arguments; a function of
            a module.
        *arguments: further arguments for it.
        preloaded: modules that are imported once for all processes, besides that of
            `work`.
    """
    found = context([work.__module__, *preloaded])
    ours, its = found.Pipe()
    process = found.Process(target=_enter, args=(work, its, *arguments))
    process.start()
    its.close()
    return ours, process


def stop(process: Any) -> None:
    """Ends a process, and does not wait for it.

    If SIGTERM asked this process to end, it is asked too: a training saves all first.
    Otherwise it ends at once.

    Args:
        process: what `start` returned as such.
    """
    process.terminate() if termination.came() else process.kill()


def follow_parent() -> None:
    """Ends this process, which another one has started, when that one ends."""
    parent: Any = parent_process()

    def follow() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """Hides Ctrl-C from processes that start here: they end with this one instead."""
    # It would take the mask off, were it started later.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _enter(work: Callable[..., None], pipe: Any, *arguments: Any) -> None:
    """Does the work of a process."""
    follow_parent()
    termination.obey()
    try:
        with contextlib.suppress(BrokenPipeError):  # The parent has ended.
            work(pipe, *arguments)
    except KeyboardInterrupt:  # It was asked to end, and has saved all.
        sys.exit(128 + signal.SIGTERM)
