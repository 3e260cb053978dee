"""Formats errors that the user can fix."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from absl import flags

from pipelines.flags import wording
from pipelines.start.tensorflow_import import tf
from tfr_ext.core import messages
from tfr_ext.core.system import clusters

FLAGS = flags.FLAGS

# Errors that a user can fix: `explain` reports them, without a traceback.
USER_ERRORS = (ValueError, OSError, MemoryError, FloatingPointError, tf.errors.OpError)

_FULL = {
    errno.ENOSPC: "is full",
    errno.EDQUOT: "has no room left for this user",
    errno.EFBIG: "does not hold files of this size",
}
# The same in errors of TensorFlow and Beam: a path, and what the system says.
# Only at the beginning of a word, or a word of 100,000 characters took a minute.
_FULL_TEXT = re.compile(rf"(?:(?<!\S)(\S+); )?({'|'.join(map(os.strerror, _FULL))})")
# Errors of files that this user may not write, or read.
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_REFUSED_TEXT = re.compile(rf"(/\S+); ({'|'.join(map(os.strerror, _REFUSED))})")
# Where TensorFlow says which file it could not use, and why.
_OF_A_FILE = re.compile(r"/\S+; [A-Z][\w/ ]+")
# The flags that decide how much memory a command needs, and where it writes.
_SIZES = (
    *("batch_size", "list_size", "eval_list_size", "hidden_sizes", "jobs"),
    *("shard_megabytes", "synthetic_num_queries", "synthetic_list_size"),
)
_PLACES = (
    *("model_dir", "output_dir", "output", "export_dir", "cells_dir", "data_dir"),
)
# How TensorFlow names another process of a cluster.
_PEER = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")
_OF_ANOTHER = (
    *(tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError),
    tf.errors.DeadlineExceededError,
)
# Exit status when another process is gone: of those after which Kubeflow restarts a
# process, the one that is left to users.
STATUS_TO_TRY_AGAIN = 138
# How NumPy refuses arrays that no machine can hold.
_TOO_LARGE = ("array is too big", "Maximum allowed dimension exceeded")
# Longer messages, in characters, lose their middle.
LONGEST = 10_000
_ROOM = "Free some space there, or name a directory on another disk."


def explain(error: BaseException, values: Mapping[str, Any] | None = None) -> str:
    """Returns the message for an error: one of `USER_ERRORS`, or an error of flags."""
    if values is None:
        values = {name: FLAGS[name].value for name in FLAGS}
    return messages.visible(_explained(error, values), LONGEST)


def _explained(error: BaseException, values: Mapping[str, Any]) -> str:
    text = wording.with_hints(
        wording.with_flag_names(str(error) or type(error).__name__)
    )
    first = re.sub(r"\{\{[^{}]*\}\} ?", "", text.splitlines()[0]).strip()
    if isinstance(error, OSError) and error.errno in _FULL:
        disk = _disk(error.filename, values)
        return f"{disk} {_FULL[error.errno]}. {_ROOM} ({first})"
    full = _FULL_TEXT.search(text)
    if isinstance(error, (OSError, tf.errors.OpError)) and full:
        reason = next(_FULL[code] for code in _FULL if os.strerror(code) == full[2])
        return f"{_disk(full[1], values)} {reason}. {_ROOM} ({first})"
    closed = _closed_place(error, text, values)
    if closed:
        return f"{closed}. Name a directory in which you may write. ({first})"
    if isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError)) or (
        isinstance(error, ValueError) and text.startswith(_TOO_LARGE)
    ):
        sizes = [f"--{name}" for name in _SIZES if values.get(name) is not None]
        advice = f" Reduce {_either(sizes)}." if sizes else ""
        return f"There is not enough memory.{advice} ({first})"
    peer = _gone_peer(error)
    if peer:
        lines = text.splitlines()
        of_peers = (x for x in lines if "aborted by" in x or _PEER.search(x))
        line = next(of_peers, first)
        return (
            f"{peer[0].capitalize()} {peer[1]} of TF_CONFIG is gone, or cannot be "
            "reached. Start the same command again in all processes: they go on from "
            f"the last checkpoint. ({line})"
        )
    if isinstance(error, (OSError, tf.errors.OpError)) and _OF_A_FILE.match(first):
        return first  # What follows is advice on devices, and a trace.
    return text


def status(error: BaseException) -> int:
    """Returns the exit status for an error."""
    return STATUS_TO_TRY_AGAIN if _gone_peer(error) else 1


def _gone_peer(error: BaseException) -> tuple[str, int] | None:
    """Returns the job and number of another process, if an error says it is gone."""
    # Any error may name a device of this process in the same way.
    text = str(error)
    of_another = isinstance(error, _OF_ANOTHER) or "ollective ops is aborted" in text
    if not of_another or clusters.VARIABLE not in os.environ:
        return None
    named = [(job, int(index)) for job, index in _PEER.findall(text)]
    cluster = None
    with contextlib.suppress(ValueError):  # Not while another error is explained.
        cluster = clusters.from_environment()
    for task in cluster.tasks if cluster and len({*named}) > 1 else ():
        # Processes that are still there are named because they found out.
        if (task.job, task.index) in named and not task.is_reachable():
            return task.job, task.index
    return named[0] if named else None


def _disk(path: str | None, values: Mapping[str, Any]) -> str:
    """Returns the name of the disk of a file, as the subject of a sentence."""
    given = [values.get(name) or [] for name in _PLACES]
    places = [
        place for one in given for place in ([one] if isinstance(one, str) else one)
    ]
    if path is None:
        places.append(tempfile.gettempdir())
        return f"The disk of {min(places, key=_free)}"
    directory = os.path.dirname(os.path.abspath(path))
    for place in places:
        if f"{directory}{os.sep}".startswith(f"{os.path.abspath(place)}{os.sep}"):
            return f"The disk of {place}"
    return f"The disk of {directory}"


def _closed_place(
    error: BaseException, text: str, values: Mapping[str, Any]
) -> str | None:
    """Returns which flag names an unwritable place, if an error says so."""
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        for name in _PLACES:
            place = values.get(name)
            if not isinstance(place, str) or name == "data_dir":
                continue
            parent = os.path.dirname(place) if name == "output" else place
            while parent and not os.path.lexists(parent):
                parent = os.path.dirname(parent)
            is_it = f"{error.filename}/".startswith(f"{parent}/")
            if is_it and os.path.isfile(parent):
                return f"--{name}={place}: {parent} is a file, expected a directory"
    found = _REFUSED_TEXT.match(text) if isinstance(error, tf.errors.OpError) else None
    path, why = (found[1], found[2]) if found else (None, None)
    is_long = isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG
    if isinstance(error, OSError) and (is_long or error.errno in _REFUSED):
        path, why = error.filename, os.strerror(error.errno or 0)
    if not isinstance(path, str) or (_may_write(path) and not is_long):
        return None
    path = os.path.realpath(path)
    for name in _PLACES:
        given = values.get(name) or []
        for place in [given] if isinstance(given, str) else given:
            folder = os.path.realpath(place)
            if name == "output":
                folder = os.path.dirname(folder)
            # A missing folder of the place may be what could not be made.
            if os.path.commonpath([folder, path]) in (folder, path):
                return f"--{name}={place} cannot be written: {why}"
    return None


def _may_write(path: str) -> bool:
    """Returns whether this user may write a file; True also if it cannot be read."""
    if os.path.isfile(path):
        return os.access(path, os.W_OK) or not os.access(path, os.R_OK)
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return os.access(folder, os.W_OK | os.X_OK)


def _free(directory: str) -> int:
    """Returns the free bytes on the disk of a directory, which may not exist yet."""
    directory = os.path.abspath(directory)
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return shutil.disk_usage(directory).free


def _either(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
