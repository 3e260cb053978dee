"""Graceful shutdown on SIGTERM.

A cloud sends SIGTERM some seconds before it takes a machine away. A command receives it
in `pipelines.start.interruption`, which calls `request`; training asks `is_requested`
after each batch, and saves all. Processes that a command has started get SIGTERM from
the command (`child_process`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn


class _State:
    """How many ask `is_requested`, how many only serve, and whether SIGTERM came."""

    listeners = 0
    servers = 0
    requested = False
    came = False


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """Tells, in its context, that `is_requested` is asked again and again.

    Examples:
        >>> request()  # Nobody would heed it.
        False
        >>> with heeded():
        ...     print(is_requested(), request(), is_requested())
        False True True
        >>> is_requested()
        False
    """
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler) and threading.current_thread() is threading.main_thread():
        # TensorFlow's strategy for several workers has put its own in its place.
        signal.signal(signal.SIGTERM, handler)
    _State.listeners += 1
    try:
        yield
    finally:
        _State.listeners -= 1
        if not _State.listeners:
            _State.requested = False


@contextlib.contextmanager
def nothing_to_close() -> Iterator[None]:
    """Tells, in its context, that this process may end at once, as a server may.

    Examples:
        >>> with nothing_to_close():
        ...     may_end_at_once()
        True
        >>> may_end_at_once()
        False
    """
    _State.servers += 1
    try:
        yield
    finally:
        _State.servers -= 1


def may_end_at_once() -> bool:
    """Tells whether nothing is lost if this process ends at once."""
    return _State.servers > 0


def request() -> bool:
    """Asks the work to end; returns whether it will heed that."""
    _State.came = True
    _State.requested = _State.listeners > 0
    return _State.requested


def came() -> bool:
    """Returns whether this process was asked to end, heeded or not."""
    return _State.came


def obey() -> None:
    """Lets SIGTERM ask this process, and end it at once if nobody would heed that."""

    def handle(number: int, _: Any) -> None:
        if not request():
            os._exit(128 + number)

    signal.signal(signal.SIGTERM, handle)


def is_requested() -> bool:
    """Returns whether the work should end."""
    return _State.requested


def end() -> NoReturn:
    """Ends the work, even if another worker got the signal.

    Raises:
        KeyboardInterrupt: always.
    """
    if not _State.requested:
        signal.raise_signal(signal.SIGTERM)
    raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[Exception], bool]]:
    """Yields a function with which another thread raises an error in this context.

    It has its effect where Python runs or waits in the main thread, and returns whether
    this is the main thread.
    """
    errors: list[Exception] = []
    main = threading.main_thread()
    is_main = threading.current_thread() is main

    def raise_error(*_: Any) -> NoReturn:
        raise errors[0]

    def interrupt(error: Exception) -> bool:
        if is_main:
            errors.append(error)
            signal.pthread_kill(main.ident or 0, signal.SIGUSR1)
        return is_main

    before = signal.signal(signal.SIGUSR1, raise_error) if is_main else None
    try:
        yield interrupt
    finally:
        if is_main:
            signal.signal(signal.SIGUSR1, before)
