"""Child processes that exit with their parent."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import connection, forkserver, parent_process, resource_tracker
from typing import Any

from tfr_ext.core.system import termination


class Ended(Exception):
    """A process ended before its work did. The text says with which exit code."""


class Pool:
    """Child processes, each known by the pipe to it.

    They end with the context of the pool, and also if this process is killed.
    """

    def __init__(self, preloaded: Sequence[str] = ()):
        """Initialises the pool.

        Only the first pool's `preloaded` modules are imported, once for all processes.
        """
        self._preloaded = preloaded
        self._processes: dict[Any, Any] = {}

    def __enter__(self) -> Pool:
        """Returns this pool."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all processes."""
        self.stop()  # All at once, since each may have much to save.
        for pipe, process in self._processes.items():
            pipe.close()
            process.join()

    def __len__(self) -> int:
        """Returns the number of processes that were not joined."""
        return len(self._processes)

    def start(self, work: Callable[..., None], *arguments: Any) -> Any:
        """Starts a process, and returns the pipe to it.

        `work`, a function of a module, gets a pipe to this process and the arguments.
        """
        context = _context([work.__module__, *self._preloaded])
        ours, its = context.Pipe()
        process = context.Process(target=_enter, args=(work, its, *arguments))
        process.start()
        its.close()
        self._processes[ours] = process
        return ours

    def ready(self, among: Iterable[Any] | None = None) -> list[Any]:
        """Waits for pipes, by default any, whose processes sent something or ended."""
        return connection.wait(list(self._processes if among is None else among))

    def send(self, pipe: Any, message: Any) -> None:
        """Sends something to a process; if it has ended, `receive` will say so."""
        with contextlib.suppress(ConnectionError):
            pipe.send(message)

    def receive(self, pipe: Any) -> Any:
        """Returns a message of a process, or raises `Ended` if it has ended instead."""
        try:
            return pipe.recv()
        except (EOFError, OSError):
            process = self._processes[pipe]
            process.join()
            raise Ended(f"ended with exit code {process.exitcode}") from None

    def stop(self, *pipes: Any) -> None:
        """Ends processes, all by default, without waiting for that.

        If SIGTERM asked this process to end, they are asked too: a training saves all
        first. Otherwise they end at once.
        """
        for pipe in pipes or self._processes:
            process = self._processes[pipe]
            if process.is_alive():  # Else its number may be that of another by now.
                process.terminate() if termination.came() else process.kill()

    def join(self, pipe: Any) -> None:
        """Waits for the end of a process, which gets no more tasks."""
        pipe.close()
        self._processes.pop(pipe).join()

    def end(self, pipe: Any) -> None:
        """Ends a process, as `stop` does, and waits for that."""
        self.stop(pipe)
        self.join(pipe)


def tasks(pipe: Any) -> Iterator[Any]:
    """Yields, in a process of a pool, the tasks sent to it, until its parent ends."""
    with contextlib.suppress(EOFError):
        while True:
            yield pipe.recv()


def _context(preloaded: Sequence[str]) -> Any:
    """Returns a context of `multiprocessing` whose processes start quickly.

    They are forked from a process that has imported TensorFlow, but done nothing with
    it: a process that has used TensorFlow cannot be forked.
    """
    found: Any = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(list(preloaded))
    # Started later, it would lift the mask.
    resource_tracker.ensure_running()
    # Hides Ctrl-C from all of them: they end with this process instead. SIGTERM, which
    # may come to all, must not end the one that they are forked from: how each ended
    # would not be known, and this process would not wait until they have saved all.
    hidden = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, hidden)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return found


def _enter(work: Callable[..., None], pipe: Any, *arguments: Any) -> None:
    """Does the work of a child process."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    termination.handle_sigterm()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        with contextlib.suppress(BrokenPipeError):  # The parent has ended.
            work(pipe, *arguments)
    except KeyboardInterrupt:  # It was asked to end, and has saved all.
        sys.exit(128 + signal.SIGTERM)


def _end_with_parent() -> None:
    parent: Any = parent_process()
    connection.wait([parent.sentinel])
    os._exit(1)
