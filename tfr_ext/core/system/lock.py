"""Admits one process at a time to a directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from tfr_ext.core.files import check_may_write

_NAME = ".tfr_ext.lock"


@contextlib.contextmanager
def alone(directory: str, work: str) -> Iterator[None]:
    """Locks a directory, so that only one process at a time uses it.

    The operating system releases the lock when the process ends, however that happens.
    The lock file is removed at the end, and so is the directory if this created it and
    it is empty.

    Args:
        directory: the directory, which is created if it does not exist.
        work: what the process does there, such as 'training', for messages.

    Raises:
        ValueError: if another process holds the lock.
        OSError: if this user cannot make files there.
    """
    check_may_write(directory)
    made = _make(directory)
    path = os.path.join(directory, _NAME)
    descriptor = None
    try:
        descriptor = _locked(path, work)
        yield
    finally:
        if descriptor is not None:
            if os.fstat(descriptor).st_size == 0:  # Otherwise it is not ours.
                with contextlib.suppress(OSError):
                    os.remove(path)  # While it is locked, so that nobody else holds it.
            os.close(descriptor)
        with contextlib.suppress(OSError):
            for folder in made:
                os.rmdir(folder)


def _locked(path: str, work: str) -> int:
    """Returns the descriptor of a file that is locked and still exists."""
    while True:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:
            if os.path.islink(path):  # To a directory that does not exist.
                raise
            continue  # Another process has just removed the empty directory.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ValueError(
                f"Another {work} is running in {os.path.dirname(path)}. Wait for it to "
                "end, or choose another directory."
            ) from None
        except OSError as error:
            print(
                f"{path} cannot be locked ({error.strerror}). Make sure that no other "
                f"{work} runs there.",
                flush=True,
            )
            return descriptor
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)  # Its holder has just ended and removed the file.


def _make(directory: str) -> list[str]:
    """Creates a directory, and returns the directories created, innermost first."""
    made = []
    folder = os.path.abspath(directory)
    while not os.path.lexists(folder):
        made.append(folder)
        folder = os.path.dirname(folder)
    os.makedirs(directory, exist_ok=True)
    return made
