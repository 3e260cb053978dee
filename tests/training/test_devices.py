"""Which devices training uses, why there are none, and batches of one shape."""

import glob
import os

import pytest
import tensorflow as tf

from tests.commands import SMALL, bad, train
from tfr_ext.training import LossConfig, TrainingConfig, replicas


class Gpu:
    """A GPU as TensorFlow lists it."""

    def __init__(self, number):
        self.name = f"/physical_device:GPU:{number}"


@pytest.fixture
def machine(monkeypatch):
    """A machine whose GPUs, driver and TensorFlow a test describes."""
    set_to = {"visible": None, "growth": {}, "gpus": []}
    config = tf.config
    monkeypatch.setattr(config, "list_physical_devices", lambda kind: set_to["gpus"])
    monkeypatch.setattr(config, "get_visible_devices", lambda kind: set_to["gpus"])
    monkeypatch.setattr(
        config, "set_visible_devices", lambda x, kind: set_to.update(visible=x)
    )
    monkeypatch.setattr(config.experimental, "get_memory_growth", lambda gpu: None)
    monkeypatch.setattr(
        config.experimental, "set_memory_growth", set_to["growth"].__setitem__
    )
    monkeypatch.setattr(tf.test, "is_built_with_cuda", lambda: True)
    monkeypatch.setattr(glob, "glob", lambda pattern: [pattern])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return set_to


def test_why_there_is_no_gpu(machine, monkeypatch, capsys):
    """The first cause that holds, as an error if a GPU is asked for, else as a line."""
    for change, told in [
        (lambda: None, "cannot be loaded; pip install 'tensorflow[and-cuda]'"),
        (lambda: monkeypatch.setattr(glob, "glob", lambda _: []), "there is no driver"),
        (
            lambda: monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1"),
            "variable CUDA_VISIBLE_DEVICES='-1' hides all",
        ),
        (
            lambda: monkeypatch.setattr(tf.test, "is_built_with_cuda", lambda: False),
            "this TensorFlow is built for CPUs only",
        ),
    ]:
        change()
        assert told in replicas.why_none()
        with pytest.raises(ValueError, match="`gpus=1`: TensorFlow sees no GPU, as"):
            replicas.choose_gpus([1], True)
        replicas.choose_gpus([], True, are_wanted=True)
        out = capsys.readouterr().out
        assert told in out and out.endswith("Training uses the CPU.\n")
    replicas.choose_gpus([], True)
    assert not capsys.readouterr().out  # No driver: nobody expects a GPU.


@pytest.mark.parametrize("growth", [True, False])
@pytest.mark.parametrize("numbers", [[], [1], [2, 0]])
def test_gpus_are_chosen_by_number(machine, numbers, growth):
    machine["gpus"] = gpus = [Gpu(k) for k in range(3)]
    replicas.choose_gpus(numbers, growth)
    chosen = [gpus[k] for k in numbers] or gpus
    assert machine["visible"] == (chosen if numbers else None)
    assert machine["growth"] == dict.fromkeys(chosen, growth)
    with pytest.raises(ValueError, match="`gpus=3`: there is no GPU 3. .* sees 3,"):
        replicas.choose_gpus([3], growth)


def test_a_choice_that_comes_too_late_is_told(machine, monkeypatch):
    def fail(*_):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    machine["gpus"] = [Gpu(0), Gpu(1)]
    monkeypatch.setattr(tf.config, "set_visible_devices", fail)
    with pytest.raises(ValueError, match="`gpus=1` .* only before TensorFlow uses"):
        replicas.choose_gpus([1], True)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"gpus": (0, 1)}, "`gpus=0,1`: it trains on one"),
        ({"gpus": (0, 0), "strategy": "mirrored"}, "names a GPU twice"),
        (
            {"strategy": "parameter_server", "mixed_precision": "float16"},
            "which needs a scaled",
        ),
        (
            {"strategy": "parameter_server", "jit_compile_loss": True},
            "`jit_compile_loss=True`: XLA",
        ),
        ({"jit_compile": True, "jit_compile_loss": True}, "has no meaning with `jit"),
        (
            {
                "strategy": "parameter_server",
                "loss": LossConfig(loss_diagnostics=True),
            },
            "`loss_diagnostics=True`: workers",
        ),
    ],
)
def test_settings_that_do_not_go_together(settings, told):
    with pytest.raises(ValueError) as error:
        TrainingConfig(**settings)
    assert told in str(error.value)


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="there is a GPU")
def test_a_command_that_finds_no_gpu(tmp_path):
    message = bad(tmp_path, *SMALL, "--gpus=0")
    assert message.startswith("Error: --gpus=0: TensorFlow sees no GPU, as ")
    done = train(
        *(*SMALL, "--loss=list_net_loss", "--num_epochs=1", "--strategy=mirrored"),
        *("--noexport_model", "--nodraw_curves", f"--model_dir={tmp_path}"),
    )
    assert "TensorFlow sees no GPU, as" in done.stdout


def test_a_loss_that_counts_over_replicas_is_not_compiled(tmp_path):
    flags = ["--strategy=mirrored", "--logical_cpus=2", "--jit_compile_loss"]
    message = bad(tmp_path, *SMALL, *flags, "--loss=pointwise_kl_binomial_loss")
    assert "what XLA compiles cannot ask the other of 2 replicas" in message
