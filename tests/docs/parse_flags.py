"""Parses the flags of a command: python -m tests.docs.parse_flags COMMAND FILE.

FILE has, as JSON, the words of each call of the command. What is printed has, as JSON,
the error of each, or "".
"""

import importlib
import json
import pathlib
import sys
import traceback

from absl import flags

from pipelines.flags import config_flags, flag_files
from tfr_ext.training import TrainingConfig, training_checks


def error_of(command, words):
    """The traceback of an unknown flag, or of a value that is refused."""
    for name in flags.FLAGS:
        flags.FLAGS[name].unparse()
    # A page may leave out what another command on it has.
    names = [name for name in ("model_dir", "output_dir") if name in flags.FLAGS]
    left_out = [f"--{name}=DIR" for name in names]
    try:
        flags.FLAGS([command, *left_out, *flag_files.expanded(words)])
        if command == "train":
            training_checks.check(config_flags.read(TrainingConfig, flags.FLAGS))
    except (Exception, SystemExit):
        return traceback.format_exc()
    return ""


def main():
    """Parses all of them."""
    command, path = sys.argv[1:]
    importlib.import_module(f"pipelines.{command}").define_flags()
    calls = json.loads(pathlib.Path(path).read_text())
    print(json.dumps([error_of(command, words) for words in calls]))


if __name__ == "__main__":
    main()
