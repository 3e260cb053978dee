"""What all commands do around their work."""

from __future__ import annotations

import sys
from collections.abc import Callable

import tensorflow as tf
from absl import app, flags, logging


def run(work: Callable[..., None], takes_arguments: bool = False) -> None:
    """Parses the flags, does the work, and ends the process.

    What the user can mend ends it with a message instead of a traceback.

    Args:
        work: the command itself, called when flags can be read.
        takes_arguments: whether it is called with the arguments that are not flags,
            which are a mistake otherwise.
    """

    def main(argv: list[str]) -> None:
        arguments = argv[1:]
        if arguments and not takes_arguments:
            raise app.UsageError(f"Unexpected arguments: {' '.join(arguments)}")
        if not flags.FLAGS["verbosity"].present:
            # TensorFlow's own progress reports would bury ours.
            logging.set_verbosity(logging.WARNING)
            tf.get_logger().setLevel("WARNING")
        try:
            work(arguments) if takes_arguments else work()
        except (ValueError, OSError, FloatingPointError, tf.errors.OpError) as error:
            sys.exit(f"Error: {error}")

    app.run(main)
