"""Handles Ctrl-C and SIGTERM: a command prints one line, and exits.

The status is that of a shell for a process that a signal ended: 130, and 143. Where
nobody reads the output any more, a command ends without a line, with 141.

While modules are imported and flags are read, it ends at once. At work it raises
`KeyboardInterrupt`, so that files and processes are closed; what cannot be interrupted
so, such as a long operation of TensorFlow, is left behind. SIGTERM, which clouds send
before they take a machine away, does the same at work, except that training goes on to
the end of the batch and saves what it has.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

# Seconds until the interpreter must have noticed, and until everything must be closed.
_TO_NOTICE, _TO_CLOSE = 2.0, 10.0
# Seconds after SIGTERM in which training may save; Kubernetes kills after 30.
_TO_SAVE = 25.0


class _State:
    """How far a command has come, with the functions that `work` was given."""

    advice: Callable[[], str] | None = None
    request: Callable[[], bool]
    may_end: Callable[[], bool]
    interrupted = False
    status = 0


def watch() -> None:
    """Lets Ctrl-C end this process, which has no work to close yet."""
    # A shell that starts a process in the background hides Ctrl-C from it.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _handle)


@contextlib.contextmanager
def work(
    advice: Callable[[], str],
    request: Callable[[], bool],
    may_end: Callable[[], bool],
) -> Iterator[None]:
    """Lets signals interrupt the work in this context, and then end the process.

    Args:
        advice: gives what the line says after 'Stopped', such as '; run it again'.
        request: asks the work to end soon, after SIGTERM; returns whether it will.
        may_end: returns whether the work has nothing to close, so that a signal ends
            the process at once.
    """
    watch()
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _handle)
    _exit_outside_python(_TO_NOTICE)
    _State.request, _State.may_end = staticmethod(request), staticmethod(may_end)
    _State.advice = advice  # Last: from here on, a signal finds the others.
    try:
        yield
    except BaseException:
        # TensorFlow may have made another exception of it.
        if not _State.interrupted:
            raise
    finally:
        if _State.interrupted:  # ... or have dropped it.
            _say_and_exit()
        _State.advice = None


@contextlib.contextmanager
def ended_by_reader() -> Iterator[None]:
    """Ends the process quietly once the reader of its output has stopped, as `head`."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        if not is_unread():
            raise
        nothing = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # The interpreter flushes once more when it ends.
            os.dup2(nothing, stream)
        sys.exit(128 + signal.SIGPIPE)


def is_unread() -> bool:
    """Returns whether the reader of standard output or error has stopped.

    Other pipes break too, such as that to a process that was killed.
    """
    poll = select.poll()
    for stream in (1, 2):
        poll.register(stream, 0)
    return any(x & (select.POLLERR | select.POLLHUP) for _, x in poll.poll(0))


def _handle(number: int, _: Any) -> None:
    status = 128 + number
    # A second one does not wait.
    if _State.advice is None or _State.interrupted or _State.may_end():
        _say()
        os._exit(status)
    _State.interrupted, _State.status = True, status
    sys.unraisablehook = lambda _: None
    if number == signal.SIGINT or not _State.request():
        raise KeyboardInterrupt


def _exit_outside_python(patience: float) -> None:
    """Exits if a signal comes while the main thread is not in Python."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def wait() -> None:
        number = 0
        while number not in (signal.SIGINT, signal.SIGTERM):
            number = os.read(reading, 1)[0]
        time.sleep(patience)
        # Python has seen the signal, or will where training asks for it.
        is_seen = _State.interrupted
        if number == signal.SIGTERM and (is_seen or _State.request()):
            # The line says how to go on even if what a command does takes too long.
            time.sleep(_TO_SAVE - patience)
        elif is_seen:
            return
        _say()
        os._exit(128 + number)

    threading.Thread(target=wait, daemon=True).start()


def _say() -> None:
    """Prints the line, and makes it the last."""
    advice = "" if _State.advice is None else _State.advice()
    # A progress bar, or the terminal's ^C, has begun a line.
    start = "\n" if sys.stderr is not None and os.isatty(2) else ""
    os.write(2, f"{start}Stopped{advice}.\n".encode())
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)


def _say_and_exit() -> NoReturn:
    """Prints the line and exits, even if a thread blocks the interpreter."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    _say()
    timer = threading.Timer(_TO_CLOSE, os._exit, [_State.status])
    timer.daemon = True
    timer.start()
    sys.exit(_State.status)
