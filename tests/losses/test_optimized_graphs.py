"""TensorFlow's optimizer of graphs takes every loss's graph.

Where it fails it only writes to the log and runs the graph as it is, which may take
twice the time; it has failed at a condition that static shapes made constant.
"""

import os
import subprocess
import sys

import pytest

# Prints what it runs between the lines of TensorFlow's log.
SCRIPT = """
import sys
import tensorflow as tf
from tests.helpers import compiled
from tests.losses import cases

every = "all" in sys.argv
for case in cases.CASES if every else cases.with_defaults():
    for shape in ([2, 60], [None, None], [2, 30], [None, 60])[: None if every else 2]:
        print(f"{case}, shape {shape}", file=sys.stderr, flush=True)
        labels = tf.zeros([shape[0] or 2, shape[1] or 30])
        compiled(case.build(), *[tf.TensorSpec(shape)] * 2)(labels, labels)
print("the end")
"""
# Parts of the sources and messages of failures.
COMPLAINTS = ("grappler", "optimize_function_graph", "topological")


@pytest.mark.any_keras
@pytest.mark.parametrize(
    "arguments",
    [[], pytest.param(["all"], marks=pytest.mark.grid)],
    ids=["defaults", "all"],
)
def test_no_graph_confuses_the_optimizer(arguments):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env={**os.environ, "PYTHONPATH": os.getcwd(), "TF_CPP_MIN_LOG_LEVEL": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("the end\n"), done.stderr[-3000:]
    case, failed = None, []
    for line in done.stderr.splitlines():
        if ", shape [" in line:
            case = line
        elif any(part in line for part in COMPLAINTS):
            failed.append(f"{case}: {line}")
    assert not failed, "\n".join(failed)
