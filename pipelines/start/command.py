"""Runs a command: parses flags, reports errors, and ends the process."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import textwrap
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from absl import app, flags, logging

from pipelines.flags import flag_files, wording
from pipelines.start import console, failures, interruption
from pipelines.start.tensorflow_import import tf
from tfr_ext.core import messages
from tfr_ext.core.system import termination

FLAGS = flags.FLAGS

# The order of the flags' groups in the help, after those of the command itself.
GROUPS = ("data", "model", "loss", "training", "evaluation", "run")
_HELP = ("-?", "-h", "-help", "--help", "-helpshort", "--helpshort")
_HELP_WIDTH = 88
_HELP_END = (
    "--flagfile=FILE reads flags from a file; later flags override earlier ones. "
    "--helpfull also lists the flags of absl."
)


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
            formatted = messages.visible(" ".join(arguments), failures.LONGEST)
            raise app.UsageError(f"Unexpected arguments: {formatted}")
        quieten()
        advice = _advice if goes_on else lambda: ""
        # An error after Ctrl-C is that of what it broke off: `work` ends the process.
        try:
            with (
                interruption.work(
                    advice, termination.request, termination.may_end_at_once
                ),
                messages.worded(wording.with_flag_names),
            ):
                work(arguments) if takes_arguments else work()
        except failures.USER_ERRORS as error:
            if isinstance(error, BrokenPipeError) and interruption.is_unread():
                raise
            print(f"Error: {failures.explain(error)}", file=sys.stderr)
            status = failures.status(error)
            if status == failures.STATUS_TO_TRY_AGAIN:
                _end_at_once(status)
            sys.exit(status)

    interruption.watch()
    sys.excepthook = _print_traceback
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
    if _is_help_wanted(argv[1:]):
        about = sys.modules["__main__"].__doc__ or ""
        print(_help(about, most_used))
        sys.exit()
    try:
        return FLAGS([*argv[:1], *flag_files.expanded(argv[1:])])
    except flags.Error as error:
        sys.exit(f"Error: {messages.visible(str(error), failures.LONGEST)}")
    except SystemExit:  # After absl's own help, such as that of --helpfull.
        sys.exit()


def _is_help_wanted(arguments: Sequence[str]) -> bool:
    """Returns whether a command line asks for help.

    Examples:
        >>> [_is_help_wanted(x) for x in (["--seed=1", "-h"], ["--", "-h"])]
        [True, False]
    """
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(argument in _HELP for argument in before)


def _help(about: str, most_used: Sequence[str]) -> str:
    """Returns an example, the flags that most users need, then all others."""
    own = {
        flag.name: flag
        for module, several in FLAGS.flags_by_module_dict().items()
        if module.startswith(("pipelines.", "__main__")) or "/pipelines/" in module
        for flag in several
    }
    sections = [about.strip()]
    if most_used:
        sections.append(_help_section("most used", [own[name] for name in most_used]))
    left = [flag for name, flag in own.items() if name not in most_used]
    titles = [wording.group(flag.name) or "this command" for flag in left]
    others = [title for title in dict.fromkeys(titles) if title not in GROUPS]
    for group in (*others, *GROUPS):
        members = [flag for flag, title in zip(left, titles) if title == group]
        if members:
            sections.append(_help_section(group, members))
    return "\n\n".join([*sections, textwrap.fill(_HELP_END, _HELP_WIDTH)])


def _help_section(title: str, several: Sequence[flags.Flag]) -> str:
    return "\n".join([f"{title.capitalize()}:", *map(_help_entry, several)])


def _help_entry(flag: flags.Flag) -> str:
    """Returns the entry of a flag."""
    name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
    text = " ".join(flag.help.partition(";\n    repeat this option")[0].split())
    if flag.default not in (None, [], (), ""):
        text += f" (default: {str(flag.default_as_str)[1:-1].replace(',', ', ')})"
    return textwrap.fill(
        f"{name}: {text}",
        _HELP_WIDTH,
        initial_indent="  ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _print_traceback(*error: Any) -> None:
    """Prints a traceback as Python does, with control characters escaped."""
    sys.stderr.write(messages.visible("".join(traceback.format_exception(*error))))


def _end_at_once(status: int) -> NoReturn:
    """Exits without finalizing the interpreter.

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
