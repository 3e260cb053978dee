"""Training that ends in the middle of an epoch, and goes on there."""

import dataclasses
import json
import os
import pathlib
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from tfr_ext.core.system import termination
from tfr_ext.runs import run_progress
from tfr_ext.training import (
    DataConfig,
    LossConfig,
    ModelConfig,
    TrainingConfig,
    member_processes,
    train,
)

# Seven batches an epoch, the last of one list. All that draws or counts is on.
CONFIG = TrainingConfig(
    data=DataConfig(
        synthetic_num_queries=33,
        synthetic_list_size=6,
        synthetic_document_features=3,
        synthetic_query_features=2,
    ),
    model=ModelConfig(
        hidden_sizes=(4,),
        dropout=0.3,
        batch_normalization=True,
        feature_noise=0.1,
        feature_transforms=("standard",),
    ),
    loss=LossConfig(
        "soft_sort_loss",
        schedules={"temperature": "linear:0.5"},
        loss_diagnostics=True,
    ),
    learning_rate=0.01,
    learning_rate_schedule="cosine:1",
    num_epochs=3,
    label_sampling="epoch",
    batch_size=3,
    max_padding=0,
    verbose="line",
    draw_curves=False,
    export_model=False,
)
STEPS = 7
# For where the loss does not matter: its graph is built soon.
PLAIN = LossConfig("list_net_loss")


class Ask(tf.keras.callbacks.Callback):
    """Asks training to end after so many batches in all; 0 for never."""

    def __init__(self, batches=0, how=termination.request):
        super().__init__()
        self.left, self._how = batches, how
        self.epochs = []

    def on_train_batch_begin(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            self._how()

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(epoch)


def run(directory, callback=None, **given):
    config = dataclasses.replace(CONFIG, model_dir=str(directory), **given)
    return train(config, callbacks=[callback or Ask()])


def state(directory):
    return run_progress.read_progress(str(directory / "checkpoints"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("undisturbed") / "run"
    return run(directory), directory


def assert_same(found, directory, undisturbed):
    expected, other = undisturbed
    assert found.history == expected.history
    assert found.metrics == expected.metrics
    assert (directory / "run.trec").read_text() == (other / "run.trec").read_text()
    assert state(directory) == state(other)


@pytest.mark.first_case
@pytest.mark.parametrize("asked", [[9, 1], [1, 1, 2], [7], [3], [21], [20]], ids=str)
def test_asked_to_end_it_saves_and_goes_on_there(asked, tmp_path, undisturbed, capsys):
    done = 0
    for batches in asked:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", Ask(batches))
        done += batches
        found = state(tmp_path / "run")
        assert (found.epochs, found.batches) == divmod(done, STEPS)
    capsys.readouterr()
    callback = Ask()
    result = run(tmp_path / "run", callback)
    assert f"Going on after {found.describe()}." in capsys.readouterr().out
    assert callback.epochs == list(range(found.epochs, 3))
    assert_same(result, tmp_path / "run", undisturbed)
    names = os.listdir(tmp_path / "run" / "checkpoints")
    assert {name.split(".")[0] for name in names} == {
        *("state", "last-3", f"best-{result.best_epoch}")
    }


class Killed(Exception):
    """Stands for a process that is gone."""


def killed():
    raise Killed


@pytest.mark.first_case
@pytest.mark.parametrize("kept", [2, 6])
def test_killed_it_goes_on_from_the_last_minute(kept, tmp_path, undisturbed):
    """Killed in a batch of the second epoch, with checkpoints after each batch."""
    directory = tmp_path / "run"
    with pytest.raises(Killed):
        run(directory, Ask(STEPS + kept + 1, killed), checkpoint_minutes=1e-9)
    assert (state(directory).epochs, state(directory).batches) == (1, kept)
    result = run(directory, checkpoint_minutes=0.0)
    assert_same(result, directory, undisturbed)


@pytest.mark.grid
@pytest.mark.parametrize("every", [1, 2])
def test_executions_of_several_steps_and_rare_checkpoints(every, tmp_path):
    """Three steps an execution; without a schedule, which is set once an execution."""
    given = {
        "steps_per_execution": 3,
        "checkpoint_epochs": every,
        "loss": LossConfig(),
        "data": dataclasses.replace(CONFIG.data, synthetic_num_queries=30),
        "num_epochs": 4,
    }
    expected = run(tmp_path / "undisturbed", **given)
    directory = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(directory, Ask(4), **given)  # Asked in the third, or in the fourth epoch.
    assert state(directory).batches % 3 == 0
    result = run(directory, **given)
    assert result.history == expected.history
    assert result.metrics == expected.metrics


def test_without_minutes_there_is_nothing_in_an_epoch(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path / "run", Ask(STEPS, killed), checkpoint_minutes=0.0, loss=PLAIN)
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize("wrong", [-1, 1.5, None, "2", True])
def test_a_wrong_number_of_batches_is_told(wrong, tmp_path):
    content = dataclasses.asdict(run_progress.Progress()) | {"batches": wrong}
    (tmp_path / "state.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="state.json .*batches"):
        run_progress.read_progress(str(tmp_path))


def test_a_bad_loss_names_its_batch_in_an_epoch_gone_on_with(tmp_path):
    """The batch is the fifth of the epoch, and not of the call of `fit`."""

    class Spoil(tf.keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == 1:
                for variable in self.model.trainable_variables:
                    variable.assign(np.nan * variable)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", Ask(3), loss=PLAIN)
    with pytest.raises(FloatingPointError, match="epoch 1, batch 5. .*weights"):
        run(tmp_path / "run", Spoil(), loss=PLAIN)


def test_nothing_interrupts_what_has_ended():
    """The error of a thread that was asking, for seconds, whether others are there."""
    told = []
    before = signal.signal(signal.SIGUSR1, lambda *_: told.append("a signal"))
    try:
        with termination.interruptible() as interrupt:
            pass
        assert interrupt(ValueError("Nobody is there."))
        with pytest.raises(ValueError, match="Nobody is there"):
            with termination.interruptible() as interrupt:
                interrupt(ValueError("Nobody is there."))
                time.sleep(60)
        assert not told
    finally:
        signal.signal(signal.SIGUSR1, before)


def saving(config, origin, before_writing):
    """Writes as it ends, like a training that was asked to."""
    with termination.polled():
        before_writing()
    pathlib.Path(config.model_dir).write_text("saved")


def test_a_model_may_write_though_sigterm_comes_as_it_asks(tmp_path, monkeypatch):
    monkeypatch.setattr(termination._State, "came", False)
    calls = []

    def before_writing():
        calls.append(None)
        if len(calls) == 1:
            termination.request()
            raise KeyboardInterrupt

    config = dataclasses.replace(CONFIG, model_dir=str(tmp_path / "model"))
    with pytest.raises(KeyboardInterrupt):
        member_processes.train(config, [config], saving, None, before_writing)
    assert (tmp_path / "model").read_text() == "saved"
