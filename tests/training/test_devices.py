"""Which devices training uses, why there are none, and batches of one shape."""

import glob
import os
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.commands import SMALL, bad, train
from tfr_ext import losses
from tfr_ext.data import RankingLists
from tfr_ext.metrics import RankingMetric
from tfr_ext.models import MLPScorer, model_builder
from tfr_ext.training import LossConfig, TrainingConfig
from tfr_ext.training.fitting import devices, fixed_shapes, lists_datasets


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
        assert told in devices.why_none()
        with pytest.raises(ValueError, match="`gpus=1`: TensorFlow sees no GPU, as"):
            devices.choose_gpus([1], True)
        devices.choose_gpus([], True, are_wanted=True)
        out = capsys.readouterr().out
        assert told in out and out.endswith("Training uses the CPU.\n")
    devices.choose_gpus([], True)
    assert not capsys.readouterr().out  # No driver: nobody expects a GPU.


@pytest.mark.parametrize("growth", [True, False])
@pytest.mark.parametrize("numbers", [[], [1], [2, 0]])
def test_gpus_are_chosen_by_number(machine, numbers, growth):
    machine["gpus"] = gpus = [Gpu(k) for k in range(3)]
    devices.choose_gpus(numbers, growth)
    chosen = [gpus[k] for k in numbers] or gpus
    assert machine["visible"] == (chosen if numbers else None)
    assert machine["growth"] == dict.fromkeys(chosen, growth)
    with pytest.raises(ValueError, match="`gpus=3`: there is no GPU 3. .* sees 3,"):
        devices.choose_gpus([3], growth)


def test_a_choice_that_comes_too_late_is_told(machine, monkeypatch):
    def fail(*_):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    machine["gpus"] = [Gpu(0), Gpu(1)]
    monkeypatch.setattr(tf.config, "set_visible_devices", fail)
    with pytest.raises(ValueError, match="`gpus=1` .* only before TensorFlow uses"):
        devices.choose_gpus([1], True)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"gpus": (0, 1)}, "`gpus=0,1`: it trains on one"),
        ({"gpus": (0, 0), "strategy": "mirrored"}, "names a GPU twice"),
        ({"gpus": (0,), "strategy": "tpu"}, "does not go with `gpus=0`"),
        ({"tpu": "local"}, "`strategy='none'` does not go with `tpu='local'`"),
        ({"strategy": "tpu", "mixed_precision": "float16"}, "which needs a scaled"),
        ({"strategy": "tpu", "jit_compile_loss": True}, "`jit_compile_loss=True`: XLA"),
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
        *(*SMALL, "--num_epochs=1", "--strategy=mirrored"), f"--model_dir={tmp_path}"
    )
    assert "TensorFlow sees no GPU, as" in done.stdout


def test_a_loss_that_counts_over_replicas_is_not_compiled(tmp_path):
    flags = ["--strategy=mirrored", "--logical_cpus=2", "--jit_compile_loss"]
    message = bad(tmp_path, *SMALL, *flags, "--loss=pointwise_kl_binomial_loss")
    assert "what XLA compiles cannot ask the other of 2 replicas" in message


@pytest.mark.parametrize("tpu", ["", "local", "grpc://localhost:1"])
def test_a_command_that_finds_no_tpu(tmp_path, monkeypatch, tpu):
    monkeypatch.delenv("TPU_NAME", raising=False)
    message = bad(tmp_path, *SMALL, "--strategy=tpu", f"--tpu={tpu}")
    (line,) = [x for x in message.splitlines() if x.startswith("Error")]
    assert line.startswith(f"Error: --strategy=tpu with --tpu={tpu}: ")
    assert "no TPU" in line or "nothing listens at localhost:1." in line


@pytest.mark.parametrize("weighted", [False, True])
def test_batches_of_one_shape_train_as_those_they_come_from(weighted):
    """Lists of several lengths, the last one in a batch of its own."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 13)
    count = lengths.sum()
    lists = RankingLists(
        rng.normal(size=[count, 3]).astype(np.float32),
        rng.integers(0, 3, count).astype(np.float32),
        np.concatenate([[0], np.cumsum(lengths)]),
        [str(k) for k in range(13)],
        weights=rng.random(count, np.float32) if weighted else None,
    )
    results = []
    for list_size in (None, 11):
        batches = lists_datasets.ListsDatasets(lists, lists, 4, seed=1)
        if list_size:
            batches = fixed_shapes.FixedShapes(batches, 4, list_size)
            shape = batches.build_valid_dataset().element_spec[1].shape
            assert shape == [4, list_size]
        tf.keras.utils.set_random_seed(1)
        scorer = MLPScorer([6], compact=list_size is None)
        model = model_builder(lists.num_features, scorer).build()
        model.has_empty_rows = batches.has_empty_rows
        metric = RankingMetric("ndcg", topn=3)
        # The bias of the scores has no gradient but rounding, which Adam would enlarge.
        optimizer = tf.keras.optimizers.SGD(0.5)
        model.compile(
            optimizer, losses.SmoothILoss(), metrics=[metric], weighted_metrics=[]
        )
        model.fit(batches.batches_of(range(2)), epochs=2, steps_per_epoch=4, verbose=0)
        metrics = model.evaluate(batches.build_valid_dataset(), verbose=0)
        results.append([*model.get_weights(), metrics[1]])
    for own, expected in zip(*results):
        np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-5)


def test_cores_of_a_tpu_get_batches_of_one_size():
    strategy = types.SimpleNamespace(num_replicas_in_sync=8)
    fixed_shapes.check_batch_size(64, strategy)
    with pytest.raises(ValueError, match="`batch_size=60` must be a multiple of 8"):
        fixed_shapes.check_batch_size(60, strategy)
