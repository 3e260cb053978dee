"""Commands use TensorFlow's own allocator of memory, which keeps what it frees."""

import os
import subprocess
import sys

import pytest

from tests.commands import ROOT

KEEPS = "TF_CPU_ALLOCATOR_USE_BFC"
MOST = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
# Only that allocator counts the memory of a CPU. oneDNN, which TensorFlow computes with
# on some CPUs, has one of the same kind, whatever the variables say.
WITHOUT_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "0"}
CODE = """
import os
sysconf = os.sysconf
gigabytes = {gigabytes}
pages = (gigabytes << 30) // sysconf("SC_PAGE_SIZE")
os.sysconf = lambda name: pages if name == "SC_PHYS_PAGES" else sysconf(name)
import pipelines.train
import tensorflow as tf
x = tf.ones([1000])
try:
    keeps = tf.config.experimental.get_memory_info("CPU:0")["current"] >= 4000
except ValueError:
    keeps = False
print(keeps, os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"])
"""


def printed(code, **variables):
    """Returns the last line that Python prints where a user set some variables."""
    environment = {k: v for k, v in os.environ.items() if k not in (KEEPS, MOST)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, **WITHOUT_ONEDNN, **variables},
        check=True,
    )
    return done.stdout.split("\n")[-2]


@pytest.mark.parametrize(
    ("gigabytes", "variables", "expected"),
    [
        (16, {}, "True 65536"),
        (512, {}, "True 524288"),
        (512, {KEEPS: "0", MOST: "1000"}, "False 1000"),
    ],
)
def test_freed_memory_is_kept_unless_a_user_says_otherwise(
    gigabytes, variables, expected
):
    """The limit is the machine's memory, or TensorFlow's own if that is more."""
    assert printed(CODE.format(gigabytes=gigabytes), **variables) == expected
