"""Locks a directory or a file, for one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import time
from collections.abc import Iterator

from tfr_ext.core.files import aside_name, check_may_write, remove_abandoned

_NAME = ".tfr_ext.lock"
# For how long another process may look whether it can remove a lock.
_SECONDS = 0.2


@contextlib.contextmanager
def alone(directory: str, work: str) -> Iterator[None]:
    """Locks a directory, so that only one process at a time uses it.

    The operating system releases the lock when the process ends, however that happens.
    A missing directory is created. The lock file is removed at the end, and so is the
    directory if this created it and it is empty. What killed processes have left aside
    there is removed. If another process holds the lock, or may hold it, this raises a
    ValueError. `work` is what the process does, such as 'training', for messages.
    """
    check_may_write(directory)
    with _held(directory, _NAME, work, f"is at work in {directory}", "directory"):
        remove_abandoned(directory)
        yield


@contextlib.contextmanager
def alone_with(path: str, work: str) -> Iterator[None]:
    """Locks a file, so that only one process at a time writes it.

    Others may write other files in its directory. The file need not exist, and may be a
    link. For `work` and the ValueError see `alone`.
    """
    directory, name = os.path.split(os.path.realpath(path))
    # Killed processes leave it as they leave what they write aside.
    token = hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
    lock = aside_name(f"{name}.lock", token)
    with _held(directory, lock, work, f"is writing {path}", "file"):
        yield


@contextlib.contextmanager
def _held(
    directory: str, name: str, work: str, does: str, place: str
) -> Iterator[None]:
    """Holds a lock file in a directory."""
    made = _make(directory)
    path = os.path.join(directory, name)
    descriptor = None
    try:
        try:
            descriptor = _locked(path, work)
        except BlockingIOError:
            raise ValueError(
                f"This {work} cannot start: another process {does}. Wait for it to "
                f"end, or choose another {place}."
            ) from None
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
    deadline = time.monotonic() + _SECONDS
    while True:
        _make_all(os.path.dirname(path) or ".")
        try:
            descriptor = _opened(path)
        except FileNotFoundError:
            if os.path.islink(path):  # To a directory that does not exist.
                raise
            continue  # Another process has just removed the empty directory.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
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


def _opened(path: str) -> int:
    """Opens a lock file, which another user may have made."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except PermissionError:
        if not os.path.lexists(path) or os.lstat(path).st_uid == os.geteuid():
            raise
    try:
        return os.open(path, os.O_RDONLY)  # That is enough to lock it.
    except PermissionError:
        owner = _owner(path)
        raise ValueError(
            f"{path} belongs to {owner} and cannot be read, so nothing says whether a "
            f"process of {owner} is at work there. If none is, remove this file, or "
            f"have {owner} remove it."
        ) from None


def _owner(path: str) -> str:
    number = os.lstat(path).st_uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _make(directory: str) -> list[str]:
    """Creates a directory, and returns the directories created, innermost first."""
    made = []
    folder = os.path.abspath(directory)
    while not os.path.lexists(folder):
        made.append(folder)
        folder = os.path.dirname(folder)
    _make_all(directory)
    return made


def _make_all(directory: str) -> None:
    """Creates directories, though another process may just remove what it made."""
    for attempts_left in reversed(range(10)):
        try:
            return os.makedirs(directory, exist_ok=True)
        except FileNotFoundError:
            if not attempts_left:
                raise
