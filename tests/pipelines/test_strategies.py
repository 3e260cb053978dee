"""Several replicas and several processes give what one gives; a process each."""

import os
import re
import time

import numpy as np
import pytest

from tests.commands import run_command, train
from tests.helpers import needs_tfr
from tests.pipelines.task_processes import (
    FLAGS,
    assert_same_run,
    ended,
    history,
    started,
    workers,
)

# Two replicas of each loss are tested in tests/losses/test_replicas.py.
pytestmark = pytest.mark.grid


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    directory = tmp_path_factory.mktemp("alone")
    train(*FLAGS, f"--model_dir={directory}")
    return directory


@pytest.fixture(scope="module")
def alone_with_tfr(tmp_path_factory):
    directory = tmp_path_factory.mktemp("alone_with_tfr")
    train(*FLAGS, f"--model_dir={directory}", "--loss=softmax_loss")
    return directory


@pytest.mark.parametrize("count", [2, 4])
def test_mirrored_over_several_devices(alone, tmp_path, count):
    more = ("--strategy=mirrored", f"--logical_cpus={count}")
    train(*FLAGS, f"--model_dir={tmp_path}", *more)
    assert_same_run(tmp_path, alone)


@needs_tfr
def test_mirrored_with_a_loss_of_tfr(alone_with_tfr, tmp_path):
    train(
        *FLAGS,
        f"--model_dir={tmp_path}",
        "--strategy=mirrored",
        "--logical_cpus=2",
        "--loss=softmax_loss",
    )
    assert_same_run(tmp_path, alone_with_tfr)


@pytest.mark.parametrize("kind", ["two", "three", "chief"])
def test_several_processes(alone, tmp_path, kind):
    cluster, tasks = workers(3 if kind == "three" else 2)
    if kind == "chief":
        first, second = cluster["worker"]
        cluster = {"chief": [first], "worker": [second]}
        tasks = [("chief", 0), ("worker", 0)]
    model = tmp_path / "model"
    outputs = ended(started(model, tasks, cluster, "pipelines.train"))
    assert_same_run(model, alone)
    # One writer, and nothing of the others is left.
    assert re.search("Exported for serving", outputs[0][0])
    for out, _ in outputs[1:]:
        assert "Exported" not in out and "Epoch" not in out
    assert sorted(os.listdir(model)) == sorted(os.listdir(alone))


SAVING = "tfr_ext.training.checkpoints.ResumableTraining"


def test_mirrored_goes_on_inside_an_epoch(alone, tmp_path):
    more = (
        *FLAGS,
        f"--model_dir={tmp_path}",
        "--strategy=mirrored",
        "--logical_cpus=2",
    )
    command = (
        "SIGTERM",
        "on",
        f"{SAVING}.on_train_batch_end",
        "pipelines.train",
        *more,
    )
    done = run_command("tests.pipelines.interrupted", *command, check=False)
    assert done.returncode == 143, done.stderr
    again = run_command("pipelines.train", *more).stdout
    assert "Going on after batch 1 of epoch 1." in again
    assert_same_run(tmp_path, alone)


@pytest.mark.parametrize(
    "batch_size, place", [(13, "epoch 1"), (2, "batch 16 of epoch 1")]
)
def test_if_one_worker_must_end_all_save_and_end(alone, tmp_path, batch_size, place):
    """The signal comes to the second one, in the first batch."""
    model, size = tmp_path / "model", f"--batch_size={batch_size}"
    if batch_size != 13:
        alone = tmp_path / "alone"
        train(*FLAGS, f"--model_dir={alone}", size)
    cluster, tasks = workers(2)
    strike = ("SIGTERM", "on", f"{SAVING}.on_train_batch_end", "pipelines.train")
    processes = [
        *started(model, tasks[:1], cluster, "pipelines.train", size),
        *started(
            model, tasks[1:], cluster, "tests.pipelines.interrupted", *strike, size
        ),
    ]
    ended(processes, 143)
    outputs = ended(started(model, tasks, cluster, "pipelines.train", size))
    assert f"Going on after {place}." in outputs[0][0]
    assert_same_run(model, alone)


@pytest.mark.parametrize("victim", [0, 2])
def test_one_of_three_is_killed(alone, tmp_path, victim):
    """The others end soon and name it; all started again go on to the same end."""
    model = tmp_path / "model"
    cluster, tasks = workers(3)
    command = ("pipelines.train", "--num_epochs=12", "--early_stopping_patience=0")
    processes = started(model, tasks, cluster, *command)
    for line in processes[0].stdout:
        if line.startswith("Epoch 3/"):
            break
    else:
        pytest.fail(processes[0].stderr.read()[-3000:])
    processes[victim].kill()
    begin = time.monotonic()
    others = [one for i, one in enumerate(processes) if i != victim]
    outputs = ended(others, 138)
    assert time.monotonic() - begin < 60
    assert any(f"Worker {victim} of TF_CONFIG is gone" in err for _, err in outputs)
    for _, errors in outputs:
        last = errors.strip().splitlines()[-1]
        assert re.match(r"Error: Worker \d of TF_CONFIG is gone", last), errors[-2000:]
    assert "Going on after" in ended(started(model, tasks, cluster, *command))[0][0]
    train(*FLAGS, f"--model_dir={tmp_path / 'undisturbed'}", *command[1:])
    assert_same_run(model, tmp_path / "undisturbed")


@pytest.mark.parametrize(
    "flags",
    [
        ["--jit_compile"],
        ["--jit_compile_loss"],
        ["--mixed_precision=float16"],
        ["--mixed_precision=bfloat16"],
        ["--mixed_precision=float16", "--jit_compile"],
    ],
    ids=" ".join,
)
def test_precision_and_xla_train_to_the_same_quality(alone, tmp_path, flags):
    train(*FLAGS, f"--model_dir={tmp_path}", *flags)
    if not any(flag.startswith("--mixed_precision") for flag in flags):
        assert_same_run(tmp_path, alone)
        return
    (own, _), (expected, _) = history(tmp_path), history(alone)
    np.testing.assert_allclose(own["val_loss"], expected["val_loss"], rtol=0.01)
