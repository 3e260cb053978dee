"""SIGTERM to a command with processes: each saves what it has, and the command ends."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.commands import ROOT
from tests.helpers import KERAS_3
from tfr_ext.runs import run_progress

# Nothing is saved before the last epoch, if nothing asks for it.
TRAINING = (
    *(
        "--synthetic_num_queries=60",
        "--synthetic_list_size=5",
        "--model=mlp",
        "--hidden_sizes=4",
    ),
    *("--batch_size=4", "--num_epochs=100000", "--checkpoint_epochs=100000"),
)
COMMANDS = {
    "train": (
        *("--loss=list_net_loss", "--num_models=2", "--parallel_models=2"),
        "--model_dir={out}",
    ),
    "experiment": (
        *("--method=A: --loss=list_net_loss", "--folds=1", "--seeds=1,2", "--jobs=2"),
        "--output_dir={out}",
    ),
}


@pytest.mark.skipif(KERAS_3, reason="no logs before the first checkpoint")
@pytest.mark.first_case("command")
@pytest.mark.parametrize(
    ("command", "group"),
    [
        ("train", False),
        ("experiment", True),
        ("train", True),
        ("experiment", False),
    ],
)
def test_processes_save_all_after_sigterm(command, group, tmp_path):
    """It is sent to the command's own process, or to all, as `timeout` does."""
    flags = [flag.format(out=tmp_path) for flag in (*TRAINING, *COMMANDS[command])]
    process = subprocess.Popen(
        [sys.executable, "-m", f"pipelines.{command}", *flags],
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # Its logs appear at the end of its first epoch.
    latest = time.monotonic() + 120
    while len(found := list(tmp_path.glob("*/*/tensorboard/validation/*"))) < 2:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < latest, process.kill()
        time.sleep(0.05)
    runs = [path.parents[2] for path in found]
    assert not any((run / "checkpoints").exists() for run in runs)
    os.killpg(process.pid, signal.SIGTERM) if group else process.terminate()
    _, told = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert told == "Stopped; the same command goes on.\n"
    for run in runs:
        assert run_progress.read_progress(str(run / "checkpoints")).has_begun
