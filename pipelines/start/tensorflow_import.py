"""Imports TensorFlow with the settings that commands need.

It logs nothing, keeps the memory that it frees, and comes with Keras 2 where TensorFlow
Ranking is installed, which is written for it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator

# Hides TensorFlow's log messages up to a severity. TensorFlow 2.21 writes some before
# it reads the variable, to the file descriptor of the standard error, where nothing in
# Python can stop them.
_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Information, warnings and errors; what is fatal always shows.
_HIDDEN_BY_DEFAULT = "3"
_SEVERITIES = b"IWE"
_HEADER = b"WARNING: All log messages before absl::InitializeLog() is called"
_END = b"\0\n"


@contextlib.contextmanager
def _hidden() -> Iterator[None]:
    """Makes messages of TensorFlow's import obey TF_CPP_MIN_LOG_LEVEL, 3 if unset.

    A process of its own passes on the rest of the standard error meanwhile, so that the
    last words of an import that ends in a crash are not lost. Nothing is hidden if
    TensorFlow is imported already, or in a process of several threads, which must not
    fork.
    """
    level = os.environ.setdefault(_LEVEL, _HIDDEN_BY_DEFAULT)
    severities = _SEVERITIES[: int(level)] if level.isdigit() else b""
    if (
        not severities
        or "tensorflow" in sys.modules
        or sys.stderr is None
        or threading.active_count() > 1
    ):
        yield
        return
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.close(writer)
            _pass_on(reader, severities)
        finally:
            os._exit(0)
    os.close(reader)
    before = os.dup(2)
    os.dup2(writer, 2)
    os.close(writer)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # as when nobody reads the standard error
            sys.stderr.flush()
            os.write(2, _END)
        os.dup2(before, 2)
        os.close(before)
        with contextlib.suppress(ChildProcessError):  # where SIGCHLD is ignored
            os.waitpid(child, 0)


def _pass_on(reader: int, severities: bytes) -> None:
    """Writes lines, up to `_END`, to the standard error, but for some severities."""
    message = re.compile(
        rb"[%s]\d{4} [\d:.]+ +\d+ [^ ]+\.(cc|h|cu\.cc):\d+\] " % severities
    )
    with os.fdopen(reader, "rb") as lines:
        for line in lines:
            text = line.removesuffix(_END)
            if text and not message.match(text) and not text.startswith(_HEADER):
                os.write(2, text)
            if line.endswith(_END):
                return


# TensorFlow's own allocator keeps what it frees, as oneDNN's does on the CPUs where
# oneDNN is on by default. The C library gives large pieces back to the system, and
# getting them again may take as long as a step: see benchmarks/kept_memory.py.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")
# Its limit is the memory of the machine, or TensorFlow's default if that is more.
_physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
os.environ.setdefault("TF_CPU_BFC_MEM_LIMIT_IN_MB", str(max(_physical, 1 << 16)))

with _hidden():
    try:
        # By name, as every module of the commands imports this one, and the other is
        # high above what it prepares.
        importlib.import_module("tfr_ext.tfr")
    except ImportError:
        from tfr_ext import _stack

        if _stack.tfr_problem() is None:
            raise
        # TensorFlow Ranking is not there. Only its own losses need it.
    import tensorflow as tf  # noqa: F401
