"""Tries wrong values on every number flag of a command, and prints what it said.

python -m tests.pipelines.defined_flags COMMAND
"""

import importlib
import json
import sys

from absl import flags

FLAGS = flags.FLAGS

FLOATS = ("nan", "-nan", "inf", "-inf", "infinity", "1e999", "1e39", "x")
INTEGERS = ("-9" + "9" * 30, "9" * 30, str(2**32), "nan", "1.5", "inf")


def main():
    """Prints the flags and what they took and refused, as JSON."""
    command = sys.argv[1]
    importlib.import_module(f"pipelines.{command}").define_flags()
    own = [
        flag
        for module, several in FLAGS.flags_by_module_dict().items()
        if module.startswith("pipelines")
        for flag in several
    ]
    kinds = {"floats": FLOATS, "integers": INTEGERS}
    found = {kind: [] for kind in kinds}
    taken, refused, metrics = [], {}, {}
    for flag in own:
        kind = {"number": "floats", "integer": "integers"}.get(flag.flag_type())
        if kind is not None:
            found[kind].append(flag.name)
            for value in kinds[kind]:
                try:
                    flag.parse(value)
                    taken.append(f"--{flag.name}={value}")
                except flags.Error as error:
                    refused[flag.name] = str(error)
        if flag.name in ("metrics", "monitor", "select_by", "plot_metric"):
            flag.parse("ndcg@10")
            metrics[flag.name] = flag.value
    everything = [flag.name for flag in own]
    content = {**found, "taken": taken, "refused": refused, "metrics": metrics}
    print(json.dumps({**content, "all": everything}))


if __name__ == "__main__":
    main()
