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
    """How many contexts poll `is_requested` or only serve, and whether SIGTERM came."""

    listeners = 0
    servers = 0
    requested = False
    came = False


@contextlib.contextmanager
def polled() -> Iterator[None]:
    """Declares that the work in this context polls `is_requested`.

    Examples:
        >>> request()  # Nobody would heed it.
        False
        >>> with polled():
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
    """Declares that this process may exit at once, as a server may, in this context.

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
    """Returns whether nothing is lost if this process exits at once."""
    return _State.servers > 0


def request() -> bool:
    """Requests a graceful shutdown; returns whether the work polls for it."""
    _State.came = True
    _State.requested = _State.listeners > 0
    return _State.requested


def came() -> bool:
    """Returns whether a shutdown was requested, even if no work polled for it."""
    return _State.came


def handle_sigterm() -> None:
    """Makes SIGTERM request a shutdown, or exit at once if no work polls for it."""

    def handle(number: int, _: Any) -> None:
        if not request():
            os._exit(128 + number)

    signal.signal(signal.SIGTERM, handle)


def is_requested() -> bool:
    """Returns whether the work should stop."""
    return _State.requested


def end() -> NoReturn:
    """Stops the work by a KeyboardInterrupt, even if another worker got the signal."""
    if not _State.requested:
        signal.raise_signal(signal.SIGTERM)
    raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[Exception], bool]]:
    """Yields a function with which another thread raises an error in this context.

    The function works where Python runs or waits in the main thread, and returns
    whether this is the main thread. After the context it does nothing.
    """
    errors: list[Exception] = []
    lock, is_open = threading.Lock(), True
    main = threading.main_thread()
    is_main = threading.current_thread() is main

    def raise_error(*_: Any) -> None:
        if is_open:
            raise errors[0]

    def interrupt(error: Exception) -> bool:
        with lock:
            if is_main and is_open:
                errors.append(error)
                signal.pthread_kill(main.ident or 0, signal.SIGUSR1)
        return is_main

    before = signal.signal(signal.SIGUSR1, raise_error) if is_main else None
    try:
        yield interrupt
    finally:
        is_open = False
        with lock:  # So that no signal is on its way.
            if is_main:
                signal.signal(signal.SIGUSR1, before)
