"""The training command with every loss of the package."""

import json

import numpy as np
import pytest

from tests.commands import train
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


@pytest.mark.parametrize("key", KEYS)
def test_the_command_trains_evaluates_and_exports(key, tmp_path):
    train(
        *("--synthetic_num_queries=24", "--synthetic_list_size=7", "--hidden_sizes=4"),
        *("--num_epochs=2", "--batch_size=5", "--verbose=silent", "--nodraw_curves"),
        *(f"--loss={key}", *EXTRA.get(key, []), f"--model_dir={tmp_path}/run"),
    )
    run = tmp_path / "run"
    results = json.loads((run / "metrics.json").read_text())
    assert results["loss"] == key and results["epochs"] == 2
    assert 0 < results["test"]["ndcg_10"] <= 1
    assert (run / "export" / "1" / "saved_model.pb").exists()
    history = json.loads((run / "checkpoints" / "state.json").read_text())["history"]
    assert len(history["loss"]) == 2 and np.isfinite(history["loss"]).all()
    if key == "pirank_ndcg_loss":
        temperatures = history["temperature"]
        assert len(temperatures) == 2 and temperatures[1] < temperatures[0] <= 5.0
    if key == "wass_rank_loss":
        for name in ("sinkhorn_error", "val_sinkhorn_error"):
            assert all(0 < value <= 2 for value in history[name])
