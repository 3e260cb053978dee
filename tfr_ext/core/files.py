"""Files that are written whole or not at all, and errors that name a file."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, TextIO

# Errors of a write; others may come from what makes the content, such as a server.
_OF_A_WRITE = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}
# Room, in bytes, for the names of the files below a directory.
_BELOW = 256


@contextlib.contextmanager
def named(path: str) -> Iterator[None]:
    """Names a file in the errors of its context that do not say which file it is.

    Such is the error of a write to a disk that is full.

    Args:
        path: the file.

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

    Args:
        directory: the directory; if it does not exist, that in which it would be made.
            One of another file system, such as `gs://...`, is not checked.

    Raises:
        OSError: if the user may not, the file system can only be read, or a name is too
            long for it.
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


@contextlib.contextmanager
def without_wildcards(directory: str) -> Iterator[str]:
    r"""Yields a path of a directory from which TensorFlow can read variables.

    It takes the path of a checkpoint, or of the variables of a SavedModel, as a glob.
    There, `[` and a backslash never stand for themselves, as `*` and `?` can.

    Args:
        directory: the directory, which may be on another file system.
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
    return "[" in path or "\\" in path


@contextlib.contextmanager
def text_file(path: str) -> Iterator[TextIO]:
    """Opens a file to write text to; an error names it.

    Args:
        path: the file.
    """
    with named(path), open(path, "w", encoding="utf-8") as file:
        yield file


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """Opens a file that is there whole after the block, or not at all.

    It is written under another name and renamed at the end. After an error nothing is
    left behind, and an existing file stays unchanged.

    Args:
        path: the file; missing directories are created.

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
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    aside = f"{path}.writing"
    try:
        with named(path):
            with open(aside, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(aside)
        raise


def write_atomically(path: str, text: str) -> None:
    """Writes a text file that is there whole, or not at all.

    Args:
        path: the file.
        text: its whole content.
    """
    with whole_file(path) as file:
        file.write(text.encode())
