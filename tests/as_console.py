"""Runs `tfr-ext COMMAND FLAGS`: python -m tests.as_console COMMAND FLAGS."""

import sys

from pipelines.start import console

if __name__ == "__main__":
    sys.argv[0] = console.NAME
    console.main()
