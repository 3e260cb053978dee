"""Prints the library's messages in the wording of the program that calls it.

The library refers to its arguments, as in `` `batch_size=8` ``. A program in which
these have other names, such as a command with flags, replaces them with its own.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator

from absl import logging as absl_logging

_wording: contextvars.ContextVar[Callable[[str], str]] = contextvars.ContextVar(
    "wording", default=str
)

_silent: contextvars.ContextVar[bool] = contextvars.ContextVar("silent", default=False)

_issues: contextvars.ContextVar[bool] = contextvars.ContextVar("issues", default=False)

# What moves the cursor, starts an escape sequence or reorders what is displayed, and
# the halves of surrogate pairs, which no output takes.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff]"
)


def visible(text: str, most: int | None = None) -> str:
    r"""Returns a text with its control characters as Python escapes them.

    Names and messages of others go through this before a terminal or a page shows them.
    Tabs and newlines stay. Beyond `most` characters, the middle is cut out.

    Examples:
        >>> print(visible("\x1b[31mred"), visible("abcdefgh", 6))
        \x1b[31mred abc [... 2 characters ...] fgh
    """
    text = _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)
    if most is None or len(text) <= most:
        return text
    cut = f" [... {len(text) - most // 2 * 2:,} characters ...] "
    return text[: most // 2] + cut + text[-(most // 2) :]


def say(text: str) -> None:
    """Prints a line."""
    if not _silent.get():
        print(visible(_wording.get()(text)), flush=True)


def takes_bars() -> bool:
    """Returns whether the standard output is a terminal or a notebook."""
    # A program may have closed it, or put an object of its own there.
    with contextlib.suppress(AttributeError, ValueError):
        if sys.stdout.isatty():
            return True
    # IPython is in a notebook's process already; elsewhere it need not be installed.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def warn(text: str) -> None:
    """Prints a warning, or issues a UserWarning in `issuing_warnings`.

    Examples:
        >>> warn("All labels are 0.")
        Warning: All labels are 0.
    """
    if _issues.get():
        warnings.warn(text, UserWarning, stacklevel=_depth_of_caller())
    else:
        say(f"Warning: {text}")


def _depth_of_caller() -> int:
    """Returns the `stacklevel`, seen from `warn`, of the caller of this package."""
    package = __name__.partition(".")[0]
    frame: types.FrameType | None = sys._getframe(1)
    depth = last = 1
    while frame is not None:
        name = frame.f_globals.get("__name__", "").partition(".")[0]
        is_decorator = name == "contextlib" and last == depth - 1
        if name == package or is_decorator:
            last = depth
        frame, depth = frame.f_back, depth + 1
    return last + 1


@contextlib.contextmanager
def worded(wording: Callable[[str], str]) -> Iterator[None]:
    """Makes `say` print what `wording` returns for each line in this context.

    Examples:
        >>> with worded(str.upper):
        ...     say("done")
        DONE
    """
    token = _wording.set(wording)
    try:
        yield
    finally:
        _wording.reset(token)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Makes `say` and `warn` print nothing in this context.

    Examples:
        >>> with silent():
        ...     say("done")
    """
    tokens = _silent.set(True), _issues.set(False)
    try:
        yield
    finally:
        _silent.reset(tokens[0])
        _issues.reset(tokens[1])


@contextlib.contextmanager
def issuing_warnings() -> Iterator[None]:
    """Makes `warn` issue a UserWarning in this context, except in a command.

    Examples:
        >>> with warnings.catch_warnings(record=True) as found, issuing_warnings():
        ...     warn("All labels are 0.")
        >>> [str(one.message) for one in found]
        ['All labels are 0.']
    """
    token = _issues.set(_wording.get() is str)
    try:
        yield
    finally:
        _issues.reset(token)


@contextlib.contextmanager
def without_logged(text: str) -> Iterator[None]:
    """Hides log messages of absl and TensorFlow that contain a text.

    Examples:
        >>> with without_logged("of no use"):
        ...     absl_logging.warning("This is of no use.")
    """

    def wanted(record: logging.LogRecord) -> bool:
        return text not in record.getMessage()

    loggers = absl_logging.get_absl_logger(), logging.getLogger("tensorflow")
    for logger in loggers:
        logger.addFilter(wanted)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(wanted)
