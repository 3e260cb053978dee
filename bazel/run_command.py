"""Runs a command of this repository: run_command.py MODULE [FLAGS]."""

import os
import runpy
import sys


def main() -> None:
    """Runs the module as `python -m` does, in the directory of `bazel run`."""
    os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
