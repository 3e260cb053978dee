"""Starts training in several processes on this machine, and compares what they give."""

import json
import os
import subprocess
import sys

import numpy as np

from tests.commands import ROOT, free_ports

# 66 training lists in batches of 13, which is 7 + 6 lists: unequal shares; the last
# batch has one list, so that one of two replicas has none.
FLAGS = (
    "--flagfile=configs/quickstart.cfg",
    "--synthetic_num_queries=110",
    "--synthetic_list_size=9",
    "--model=mlp",
    "--hidden_sizes=8",
    "--batch_size=13",
    "--feature_transforms=log1p,query_minmax,standard,clip:-3:3",
    "--num_epochs=3",
    "--metrics=ndcg_10,map,err_5",
    "--verbose=line",
    "--loss_diagnostics",
)


def history(directory):
    state = json.loads((directory / "checkpoints" / "state.json").read_text())
    return state["history"], state["best_epoch"]


def assert_same_run(directory, expected):
    """Losses and metrics of every epoch, and those of the test, to rounding."""
    (own, best), (other, other_best) = history(directory), history(expected)
    assert best == other_best and own.keys() == other.keys()
    for name in own:
        np.testing.assert_allclose(own[name], other[name], rtol=2e-4, err_msg=name)
    reports = [
        json.loads((path / "metrics.json").read_text())["test"]
        for path in (directory, expected)
    ]
    for name in reports[0]:
        np.testing.assert_allclose(reports[0][name], reports[1][name], rtol=2e-3)


def started(directory, tasks, cluster, command, *arguments, strategy="multi_worker"):
    """Starts some processes of a cluster."""
    # What another module runs, it gets before its flags.
    flags = [x for x in arguments if x.startswith("--")]
    first = [x for x in arguments if not x.startswith("--")]
    return [
        subprocess.Popen(
            [
                *(sys.executable, "-m", command, *first, *FLAGS, *flags),
                f"--model_dir={directory}",
                f"--strategy={strategy}",
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "TF_CONFIG": json.dumps(
                    {"cluster": cluster, "task": {"type": kind, "index": index}}
                ),
            },
        )
        for kind, index in tasks
    ]


def ended(processes, code=0):
    """Waits for processes, and returns what they printed."""
    try:
        outputs = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs):
        assert process.returncode == code, errors[-3000:]
    return outputs


def workers(count):
    addresses = [f"localhost:{port}" for port in free_ports(count)]
    return {"worker": addresses}, [("worker", i) for i in range(count)]
