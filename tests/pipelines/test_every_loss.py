"""The training command with every loss of the package, in a process of its own."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tfr_ext import losses

pytestmark = pytest.mark.grid

KEYS = [key for key in losses.keys() if isinstance(losses.get(key), losses.RankingLoss)]
# What a user of a loss would add to the command.
EXTRA = {
    "pirank_ndcg_loss": [
        "--loss_schedule=temperature:exponential:0.5",
        "--loss_param=depth=2",
    ],
    "wass_rank_loss": ["--loss_diagnostics"],
    "listwise_kl_gaussian_loss": ["--loss_param=max_label=4.0"],
}

SCRIPT = textwrap.dedent(
    """
    import json, sys
    from absl import flags
    import tfr_ext
    from pipelines import train

    train.define_flags()
    for key, extra in json.loads(sys.argv[1]).items():
        flags.FLAGS.unparse_flags()
        flags.FLAGS([
            "train", f"--model_dir={sys.argv[2]}/{key}", f"--loss={key}",
            "--synthetic_num_queries=24", "--synthetic_list_size=7",
            "--hidden_sizes=4", "--num_epochs=2", "--batch_size=5",
            "--verbose=silent", *extra,
        ])
        for name in ("loss_param", "loss_schedule"):
            flags.FLAGS[name].value = [
                e.split("=", 1)[1] for e in extra if e.startswith(f"--{name}=")
            ]
        flags.FLAGS.loss_diagnostics = "--loss_diagnostics" in extra
        train.train()
    """
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs")
    wanted = json.dumps({key: EXTRA.get(key, []) for key in KEYS})
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, wanted, str(directory)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "CUDA_VISIBLE_DEVICES": "-1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return directory


def history(directory):
    with open(directory / "checkpoints" / "state.json") as file:
        return json.load(file)["history"]


@pytest.mark.parametrize("key", KEYS)
def test_the_command_trains_evaluates_and_exports(runs, key):
    with open(runs / key / "metrics.json") as file:
        results = json.load(file)
    assert results["loss"] == key and results["epochs"] == 2
    assert 0 < results["test"]["ndcg_10"] <= 1
    assert (runs / key / "export" / "1" / "saved_model.pb").exists()
    values = history(runs / key)["loss"]
    assert len(values) == 2 and np.isfinite(values).all()


def test_a_scheduled_temperature_is_in_the_history(runs):
    temperatures = history(runs / "pirank_ndcg_loss")["temperature"]
    assert len(temperatures) == 2 and temperatures[1] < temperatures[0] <= 5.0


def test_diagnostics_are_in_the_history(runs):
    values = history(runs / "wass_rank_loss")
    assert all(0 < v <= 2 for v in values["sinkhorn_error"])
    assert all(0 < v <= 2 for v in values["val_sinkhorn_error"])
