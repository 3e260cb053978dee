"""What all commands do around their work."""

from __future__ import annotations

import sys
from collections.abc import Callable

import tensorflow as tf
from absl import app, flags, logging

# What a user can mend: reported by its message, without a traceback.
MENDABLE = (ValueError, OSError, FloatingPointError, tf.errors.OpError)


def run(work: Callable[[], None]) -> None:
    """Parses the flags, does the work, and ends the process.

    What the user can mend ends it with a message instead of a traceback.

    Args:
        work: the command itself, called when flags can be read.
    """

    def main(argv: list[str]) -> None:
        if len(argv) > 1:
            raise app.UsageError(f"Unexpected arguments: {' '.join(argv[1:])}")
        quieten()
        try:
            work()
        except MENDABLE as error:
            sys.exit(f"Error: {error}")

    app.run(main)


def quieten() -> None:
    """Silences TensorFlow's own progress reports, which would bury ours."""
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
        tf.get_logger().setLevel("WARNING")
