"""Scheduled loss parameters in the training command.

That they go on after an interruption, `test_interruption` tests.
"""

import json
import pathlib

import numpy as np
import pytest

from tests.commands import SMALL, train
from tests.files import event_values

FLAGS = (
    *SMALL,
    "--num_epochs=5",
    "--loss_param=alpha=2",
    "--loss_schedule=alpha:exponential:3:40",
)
STEPS = 5  # of an epoch: 36 lists in batches of 8


def history(directory):
    state = json.loads((directory / "checkpoints" / "state.json").read_text())
    return state["history"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("undisturbed")
    train(*FLAGS, f"--model_dir={directory}")
    return directory


@pytest.mark.grid
def test_history_and_tensorboard_have_the_values(undisturbed):
    last_steps = STEPS * np.arange(1, 6) - 1
    expected = np.minimum(2 * 3.0 ** (last_steps / STEPS), 40)
    np.testing.assert_allclose(history(undisturbed)["alpha"], expected, rtol=1e-5)
    np.testing.assert_allclose(
        event_values(pathlib.Path(undisturbed), "epoch_alpha"), expected, rtol=1e-5
    )
    assert (
        "--loss_schedule=alpha:exponential:3:40"
        in (undisturbed / "flags.cfg").read_text()
    )


@pytest.mark.grid
def test_the_schedule_makes_a_difference(undisturbed, tmp_path):
    train(*FLAGS, f"--model_dir={tmp_path}", "--loss_schedule=")
    assert "alpha" not in history(tmp_path)
    assert history(tmp_path)["loss"] != history(undisturbed)["loss"]
