"""Atomic writes of files and folders, and errors that name the file.

They are written aside: under a temporary name in the same folder, with a lock that the
operating system releases when the process ends, however that happens. The next write
there removes temporary files that no process holds.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, TextIO

# Names of temporary files and of lock files, which no other files have.
ASIDE = re.compile(r"\.tfr_ext-writing-[0-9a-f]{8}-[^/]*")
# Errors of a write; others may come from what makes the content, such as a server.
_OF_A_WRITE = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}
# Room, in bytes, for the names of the files below a directory.
_BELOW = 256


@contextlib.contextmanager
def named(path: str) -> Iterator[None]:
    """Names a file in the errors of its context that do not say which file it is.

    Such is the error of a write to a disk that is full.

    Examples:
        >>> with named("run.trec"):
        ...     raise OSError(28, "No space left on device")
        Traceback (most recent call last):
        OSError: [Errno 28] No space left on device: 'run.trec'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _OF_A_WRITE:
            error.filename = path
        raise


def check_may_write(directory: str) -> None:
    """Checks that this user can make files in a directory.

    If it does not exist, the directory in which it would be made is checked. Nothing is
    checked on another file system, such as `gs://...`.
    """
    if "://" in directory:
        return
    whole = folder = os.path.abspath(directory)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return
    code = 0
    names = os.fsencode(whole).split(b"/")
    if max(map(len, names)) > os.pathconf(folder, "PC_NAME_MAX"):
        code = errno.ENAMETOOLONG
    elif len(os.fsencode(whole)) + _BELOW > os.pathconf(folder, "PC_PATH_MAX"):
        code = errno.ENAMETOOLONG
    elif not os.access(folder, os.W_OK | os.X_OK):
        reads_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        code = errno.EROFS if reads_only else errno.EACCES
    if code:
        raise OSError(code, os.strerror(code), directory)


def is_within(path: str, directory: str) -> bool:
    """Returns whether a path is a directory or in it, after links are resolved."""
    path, directory = os.path.realpath(path), os.path.realpath(directory)
    return path == directory or path.startswith(directory + os.sep)


@contextlib.contextmanager
def without_wildcards(directory: str) -> Iterator[str]:
    r"""Yields a path of a directory from which TensorFlow can read variables.

    It takes the path of a checkpoint, or of the variables of a SavedModel, as a glob.
    """
    if "://" in directory or not _has_wildcards(directory):
        yield directory
        return
    # Batch systems name directories such as `123[4]`, also for temporary files.
    root = "/tmp" if _has_wildcards(tempfile.gettempdir()) else None
    with tempfile.TemporaryDirectory(dir=root) as aside:
        link = os.path.join(aside, "link")
        os.symlink(os.path.abspath(directory), link)
        yield link


def _has_wildcards(path: str) -> bool:
    return any(character in path for character in "[\\*?")


def aside_name(name: str, token: str) -> str:
    """Returns a name that `ASIDE` matches, short enough for every file system."""
    return f".tfr_ext-writing-{token}-{name[-40:]}"


def remove_abandoned(directory: str) -> None:
    """Removes temporary files that killed processes left in a directory, if it exists.

    What a living process holds stays, as does every file under another name.
    """
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(directory)
    for path in (os.path.join(directory, x) for x in names if ASIDE.fullmatch(x)):
        # It is held, has just gone, or belongs to somebody else.
        with contextlib.suppress(OSError):
            flags = os.O_NOFOLLOW | os.O_NONBLOCK
            try:
                descriptor, kind = os.open(path, os.O_RDWR | flags), fcntl.LOCK_EX
            except OSError:  # A folder, or not ours. NFS gives readers no other lock.
                descriptor, kind = os.open(path, os.O_RDONLY | flags), fcntl.LOCK_SH
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                    continue  # Its holder removed it, and somebody made another.
                if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    os.remove(path)
            finally:
                os.close(descriptor)


def _begin(
    path: str, mode: int | None = None, is_folder: bool = False
) -> tuple[str, int]:
    """Creates a temporary file or folder; returns its path and locked descriptor."""
    directory, name = os.path.split(path)
    remove_abandoned(directory)
    flags = os.O_RDONLY if is_folder else os.O_RDWR | os.O_CREAT | os.O_EXCL
    while True:
        aside = os.path.join(directory, aside_name(name, secrets.token_hex(4)))
        try:
            if is_folder:
                os.mkdir(aside)
            descriptor = os.open(aside, flags, 0o666 if mode is None else 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            with contextlib.suppress(OSError):  # NFS may have created it all the same.
                os.remove(aside)
            was_removed = is_folder and isinstance(error, FileNotFoundError)
            if was_removed and os.path.isdir(directory):
                continue  # By another process, before it was locked.
            raise
        with contextlib.suppress(OSError):  # Without locks, nobody removes it either.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.path.exists(aside):
            break
        os.close(descriptor)
    if mode not in (None, stat.S_IMODE(os.stat(aside).st_mode)):
        os.chmod(aside, mode)
    return aside, descriptor


def _replaced(path: str) -> str | None:
    """Returns the file that a write replaces, past all links; None for a pipe."""
    file = os.path.realpath(path)
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return file
    is_file = stat.S_ISREG(there.st_mode) and os.path.exists(file)
    return file if is_file and os.path.samestat(there, os.stat(file)) else None


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """Opens a file that appears complete after the block, or not at all.

    It is written aside and renamed at the end. After an error nothing is left behind,
    and an existing file stays unchanged. A file that is replaced keeps its permissions.
    A link stays, and what it points to is replaced. A pipe or a device is written
    directly. Missing directories are created.

    Examples:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "new", "run.trec")
        >>> with whole_file(path) as file:
        ...     _ = file.write(b"q1 Q0 d1 1 0.5 tag")
        ...     os.path.exists(path)
        False
        >>> os.listdir(os.path.dirname(path))
        ['run.trec']
    """
    with named(path):
        target = _replaced(path)
        if target is None:
            with open(path, "wb") as file:
                yield file
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        mode = None
        with contextlib.suppress(FileNotFoundError):
            mode = stat.S_IMODE(os.stat(target).st_mode)
        aside, descriptor = _begin(target, mode)
        try:
            # Opened by its path, so that `file.name` is one.
            with open(aside, "wb", opener=lambda *_: descriptor) as file:
                yield file
                file.flush()
                os.fsync(descriptor)
                os.replace(aside, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.remove(aside)
            raise


@contextlib.contextmanager
def text_file(path: str) -> Iterator[TextIO]:
    """Opens a text file as `whole_file` does: it appears complete, or not at all."""
    with whole_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8")
        try:
            yield text
        finally:
            text.detach()


def write_atomically(path: str, text: str) -> None:
    """Writes a text file completely or not at all, see `whole_file`."""
    with whole_file(path) as file:
        file.write(text.encode())


@contextlib.contextmanager
def folder_aside(directory: str) -> Iterator[str]:
    """Makes a temporary folder in a directory, to be renamed once it is complete.

    The block renames the folder; after an error it is removed. A missing directory is
    created.

    Examples:
        >>> import tempfile
        >>> directory = tempfile.mkdtemp()
        >>> with folder_aside(directory) as folder:
        ...     with text_file(os.path.join(folder, "model.json")) as file:
        ...         _ = file.write("{}")
        ...     os.rename(folder, os.path.join(directory, "1"))
        >>> os.listdir(directory)
        ['1']
    """
    os.makedirs(directory, exist_ok=True)
    aside, descriptor = _begin(os.path.join(directory, "version"), is_folder=True)
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        os.close(descriptor)
