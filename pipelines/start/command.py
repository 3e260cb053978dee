"""What every command does around its work."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from absl import app, flags, logging

from pipelines.flags import flag_files, help_page, wording
from pipelines.start import console, failures, interruption
from pipelines.start.tensorflow_import import tf
from tfr_ext.core import telling
from tfr_ext.core.system import termination

FLAGS = flags.FLAGS


def run(
    work: Callable[..., None],
    takes_arguments: bool = False,
    goes_on: bool = False,
    most_used: Sequence[str] = (),
) -> None:
    """Parses the flags, does the work, and ends the process.

    An error that the user can fix ends it with a message instead of a traceback, and
    Ctrl-C ends it with one line.

    Args:
        work: the command itself, called when flags can be read.
        takes_arguments: whether it is called with the arguments that are not flags,
            which are a mistake otherwise.
        goes_on: whether interrupted work goes on when it is started again.
        most_used: the flags that --help lists first.
    """

    def main(argv: list[str]) -> None:
        arguments = argv[1:]
        if arguments and not takes_arguments:
            told = telling.visible(" ".join(arguments), failures.LONGEST)
            raise app.UsageError(f"Unexpected arguments: {told}")
        quieten()
        advice = _advice if goes_on else lambda: ""
        # An error after Ctrl-C is that of what it broke off: `work` ends the process.
        try:
            with (
                interruption.work(
                    advice, termination.request, termination.may_end_at_once
                ),
                telling.worded(wording.spelled),
            ):
                work(arguments) if takes_arguments else work()
        except failures.MENDABLE as error:
            if isinstance(error, BrokenPipeError) and interruption.is_unread():
                raise
            print(f"Error: {failures.explain(error)}", file=sys.stderr)
            status = failures.status(error)
            if status == failures.STATUS_TO_TRY_AGAIN:
                _end_at_once(status)
            sys.exit(status)

    interruption.watch()
    sys.excepthook = _tell_bug
    command = sys.modules["__main__"]
    command.__doc__ = console.worded(command.__doc__ or "")  # For the help.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            line_buffering=True
        )  # So that each line shows at once, and none is lost.
    with interruption.ended_by_reader():
        app.run(main, flags_parser=lambda argv: _parse(argv, most_used))


def _parse(argv: list[str], most_used: Sequence[str]) -> list[str]:
    """Parses the flags as absl does, with those of the flag files in their place."""
    if help_page.is_wanted(argv[1:]):
        about = sys.modules["__main__"].__doc__ or ""
        print(help_page.page(about, most_used, FLAGS))
        sys.exit()
    try:
        return FLAGS([*argv[:1], *flag_files.expanded(argv[1:])])
    except flags.Error as error:
        sys.exit(f"Error: {telling.visible(str(error), failures.LONGEST)}")
    except SystemExit:  # After absl's own help, such as that of --helpfull.
        sys.exit()


def _tell_bug(*error: Any) -> None:
    """Prints a traceback as Python does, but for control characters of its texts."""
    sys.stderr.write(telling.visible("".join(traceback.format_exception(*error))))


def _end_at_once(status: int) -> NoReturn:
    """Ends the process without ending the interpreter first.

    Threads of TensorFlow still wait for a process that is gone, and may abort this one
    when the interpreter ends.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _advice() -> str:
    """Returns the advice on how to go on with interrupted work."""
    if "overwrite" in FLAGS and FLAGS.overwrite:
        return "; the same command without --overwrite goes on"
    return "; the same command goes on"


def quieten() -> None:
    """Silences TensorFlow's own progress reports, which would bury ours."""
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
        tf.get_logger().setLevel("WARNING")
