"""Checkpoints, and those of the other Keras."""

import dataclasses
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import KERAS_3
from tfr_ext import models
from tfr_ext.runs import run_progress
from tfr_ext.training import (
    DataConfig,
    LossConfig,
    ModelConfig,
    TrainingConfig,
    checkpoints,
    train,
)

pytestmark = pytest.mark.stack_b

# Two of the four epochs of `CONFIG`, trained on stack A.
HALF = pathlib.Path(__file__).with_name("half_a_run")
CONFIG = TrainingConfig(
    data=DataConfig(
        synthetic_num_queries=20,
        synthetic_list_size=5,
        synthetic_document_features=3,
        synthetic_query_features=2,
    ),
    model=ModelConfig(
        "mlp",
        hidden_sizes=(3,),
        dropout=0.3,
        feature_transforms=("standard",),
        head="expected_grade",
    ),
    loss=LossConfig(schedules={"alpha": "linear:5"}),
    learning_rate=0.01,
    learning_rate_schedule="exponential:0.9",
    num_epochs=4,
    batch_size=4,
    verbose="silent",
    draw_curves=False,
    export_model=False,
)
ATTENTIVE = ModelConfig(
    "dasalc",
    num_layers=1,
    num_heads=2,
    attention_size=3,
    hidden_sizes=(3,),
    dropout=0.3,
    feature_noise=0.1,
)
# What all four gave there, without a break.
HISTORY = {
    "loss": [0.49158931, 0.48562881, 0.48591235, 0.48135439],
    "ndcg_10": [0.57807988, 0.62305135, 0.65798283, 0.66801518],
    "val_loss": [0.51068258, 0.51095808, 0.50926107, 0.50578141],
    "val_ndcg_10": [0.74012387, 0.75031644, 0.75031644, 0.78304887],
    "alpha": [5 / 3, 8 / 3, 11 / 3, 14 / 3],
}


@pytest.fixture
def half(tmp_path):
    return str(shutil.copytree(HALF, tmp_path / "run"))


def trained(directory):
    return train(dataclasses.replace(CONFIG, model_dir=str(directory)))


def assert_history(history):
    assert {*history} == {*HISTORY}
    for name, values in HISTORY.items():
        np.testing.assert_allclose(history[name], values, rtol=2e-5, err_msg=name)


def test_training_gives_what_it_gave(tmp_path):
    """With either Keras: both draw the same first weights, and the same dropout."""
    assert_history(trained(tmp_path / "run").history)


@pytest.mark.skipif(not KERAS_3, reason="the run is one of Keras 2")
def test_a_half_run_of_the_other_keras_is_refused(half):
    with pytest.raises(ValueError, match="last-2: .* Keras 2 wrote it, .* Keras 3"):
        trained(half)


@pytest.mark.skipif(not KERAS_3, reason="the run is one of Keras 2")
def test_the_best_epoch_of_the_other_keras_is_refused():
    progress = run_progress.read_progress(str(HALF / "checkpoints"))
    model = models.model_builder(3, models.MLPScorer([3])).build()
    with pytest.raises(ValueError, match="best-2: .* Keras 2 wrote it"):
        checkpoints.restore_best(model, str(HALF / "checkpoints"), progress)


def test_another_model_is_refused(tmp_path):
    """Not even the best epoch leaves some weights as they were."""
    small, large = (
        models.model_builder(3, models.MLPScorer(sizes)).build()
        for sizes in ([3], [3, 3])
    )
    tf.train.Checkpoint(model=small).write(str(tmp_path / "best-1"))
    progress = run_progress.Progress(epochs=1, best_epoch=1)
    with pytest.raises(ValueError, match="best-1: the checkpoint cannot be read"):
        checkpoints.restore_best(large, str(tmp_path), progress)
    again = models.model_builder(3, models.MLPScorer([3])).build()
    checkpoints.restore_best(again, str(tmp_path), progress)
    for found, expected in zip(again.get_weights(), small.get_weights(), strict=True):
        np.testing.assert_array_equal(found, expected)


class Break(tf.keras.callbacks.Callback):
    """Ends training after the second epoch, as Ctrl-C does."""

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt


@pytest.mark.first_case
@pytest.mark.parametrize(
    "settings",
    [
        {"mixed_precision": "float16"},
        {"mixed_precision": "bfloat16", "jit_compile": True},
        {"optimizer": "adagrad", "steps_per_execution": 3},
        {"model": ATTENTIVE},
    ],
    ids=str,
)
def test_a_run_that_was_broken_off_goes_on_as_if_it_had_not_been(tmp_path, settings):
    # A loss whose graph is built soon.
    config = dataclasses.replace(CONFIG, loss=LossConfig("list_net_loss"), **settings)
    whole, broken = (
        dataclasses.replace(config, model_dir=str(tmp_path / name))
        for name in ("whole", "broken")
    )
    with pytest.raises(KeyboardInterrupt):
        train(broken, callbacks=[Break()])
    found, expected = train(broken), train(whole)
    assert found.history == expected.history
    weights = zip(found.model.get_weights(), expected.model.get_weights(), strict=True)
    for one, other in weights:
        np.testing.assert_array_equal(one, other)
