"""Runs a command that gets a signal when it calls a function.

python -m tests.pipelines.interrupted SIGNAL WHERE FUNCTION COMMAND FLAGS

The first call of FUNCTION, such as `tfr_ext.sources.data_splits.load`, sends
the signal, such as SIGINT, to all processes of the command, as a terminal does. WHERE
says what it does then: 'waits' for it, goes 'on', 'drops' it, makes 'another' error of
it, or gets it in the middle of 'native' code.
"""

import importlib
import os
import runpy
import signal
import sys
import threading
import time

import tensorflow as tf


def strike(number, where, original, *arguments, **named):
    native = where == "native"
    try:
        if native:
            # The interpreter does not run in the main thread before it is over.
            signal.pthread_sigmask(signal.SIG_BLOCK, {number})
        os.killpg(0, number)
        time.sleep({"on": 0, "native": 15}.get(where, 60))
    except KeyboardInterrupt:
        if where == "another":
            raise tf.errors.InternalError(None, None, "KeyboardInterrupt: ") from None
        if where == "waits":
            raise
    return original(*arguments, **named)


def main():
    """Patches the function, and becomes the command."""
    name_of_signal, where, function, command, *rest = sys.argv[1:]
    number = getattr(signal, name_of_signal)
    os.setpgid(0, 0)
    # A test may run in the background, where shells hide it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    path, _, name = function.rpartition(".")
    try:
        home = importlib.import_module(path)
    except ImportError:  # a class
        module, _, owner = path.rpartition(".")
        home = getattr(importlib.import_module(module), owner)
    original, done = getattr(home, name), threading.Event()

    def patched(*arguments, **named):
        if done.is_set():
            return original(*arguments, **named)
        done.set()
        return strike(number, where, original, *arguments, **named)

    setattr(home, name, patched)
    sys.argv = [command, *rest]
    runpy.run_module(command, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
