"""Runs that go on, are refused or replaced, and files of them that are cut."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from tests.commands import ROOT, run_command, told
from tests.files import content
from tests.helpers import needs_tfr
from tfr_ext.runs import outputs, run_progress
from tfr_ext.serving import model_file
from tfr_ext.training import checkpoints


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, and the text that it was trained on."""
    folder = tmp_path_factory.mktemp("finished")
    write_data(folder / "data.txt", 3)
    run_command("pipelines.train", *flags_of(folder))
    return folder


def write_data(path, step):
    path.write_text(
        "".join(
            f"{(q * d) % 3} qid:{q} 1:0.{(q * step + d) % 7} 2:0.{d}\n"
            for q in range(1, 31)
            for d in range(1, 4)
        )
    )


def flags_of(folder, *others):
    return (
        "--dataset=text",
        f"--train_path={folder}/data.txt",
        f"--model_dir={folder}/model",
        "--hidden_sizes=4",
        "--num_epochs=2",
        "--loss=list_net_loss",
        "--verbose=silent",
        "--noexport_model",
        "--nodraw_curves",
        *others,
    )


@pytest.fixture
def folder(finished, tmp_path):
    """A copy of it, with the same paths inside."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model" / "flags.cfg"
    path.write_text(path.read_text().replace(str(finished), str(tmp_path)))
    return tmp_path


def train(folder, *others):
    return run_command("pipelines.train", *flags_of(folder, *others), check=False)


@pytest.mark.grid
def test_the_last_lines_name_all_files(folder):
    shutil.rmtree(folder / "model")
    done = train(folder)
    line = next(x for x in done.stdout.splitlines() if x.startswith("Written in"))
    names = {name.rstrip("/") for name in line.partition(": ")[2].split(", ")}
    assert names == {*os.listdir(folder / "model")} - {".written_by_train"}


@pytest.mark.first_case
@pytest.mark.parametrize("state", ["finished", "unfinished"])
def test_other_data_is_refused(folder, state):
    write_data(folder / "data.txt", 5)
    if state == "unfinished":
        (folder / "model" / "metrics.json").unlink()
    before = content(folder)
    message = told(train(folder))
    assert "a run on other data" in message and "--overwrite" in message
    assert content(folder) == before


def test_without_its_flags_a_run_is_not_gone_on_with(folder):
    model = folder / "model"
    (model / "flags.cfg").unlink()
    for _ in ("finished", "not finished"):
        before = content(model)
        message = told(train(folder, "--loss=smoothi_loss"))
        assert "without its flags.cfg" in message and "--overwrite" in message
        assert content(model) == before
        (model / "metrics.json").unlink(missing_ok=True)
    (model / ".written_by_train").unlink()
    assert "did not write" in told(train(folder, "--overwrite"))


@pytest.mark.first_case
@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(
            ["--learning_rate=1e30", "--optimizer=sgd", "--loss=mean_squared_loss",
             "--batch_size=4",
             "--nobatch_normalization"],
            marks=needs_tfr),
        ["--loss_param=reduction=none"],
        ["--hidden_sizes=100000000000"],
        ["--loss=smoothi_loss", "--train_path=absent.txt"],
    ],
    ids=["loss not finite", "reduction", "out of memory", "no data"],
)  # fmt: skip
def test_a_run_that_never_trained_takes_and_locks_nothing(folder, flags):
    before = content(folder)
    done = train(folder, *flags, "--overwrite")
    assert done.returncode != 0
    assert content(folder) == before
    done = train(folder, *flags, f"--model_dir={folder}/new")
    assert done.returncode != 0
    assert not (folder / "new").exists()


def test_reduction_is_refused_by_name(tmp_path):
    done = run_command(
        "pipelines.train",
        f"--model_dir={tmp_path}",
        "--loss_param=reduction=none",
        check=False,
    )
    assert "--loss_param=reduction" in told(done)


BROKEN = ["", "[]", "{}x", "{", '{"epochs": "2"}', '{"epochs": 2}', "[" * 99999, "\0"]


@pytest.mark.parametrize("text", BROKEN, ids=[*map(str, range(len(BROKEN)))])
def test_a_broken_state_is_named(text, tmp_path):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(ValueError, match="state.json does not say .*overwrite"):
        run_progress.read_progress(str(tmp_path))


@pytest.mark.parametrize("text", [*BROKEN, '{"valid": 1, "test": {}}'])
def test_broken_metrics_are_named(text, tmp_path):
    path = tmp_path / "metrics.json"
    path.write_text(text)
    with pytest.raises(
        ValueError, match="metrics.json: expected a JSON object.* Remove"
    ):
        outputs.read_metrics(str(path))


NAMES = '{"max_label": 4, "feature_names": "xy"}'


@pytest.mark.parametrize("text", [*BROKEN[:4], "{}", '{"max_label": "4"}', NAMES])
def test_a_broken_export_is_named(text, tmp_path):
    path = tmp_path / "assets.extra" / "model.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ValueError, match="model.json.*Export the model again"):
        model_file.read(str(tmp_path))


@pytest.mark.grid
@pytest.mark.parametrize(
    "name", ["checkpoints/state.json", "metrics.json", "checkpoints/last-2.index",
             "checkpoints/last-2.data-00000-of-00001"]
)  # fmt: skip
def test_a_cut_file_is_named_and_overwrite_helps(folder, name):
    model = folder / "model"
    if name != "metrics.json":
        (model / "metrics.json").unlink()
    os.truncate(model / name, 40)
    message = told(train(folder))
    assert name.partition(".")[0] in message
    assert "--overwrite" in message or "Remove this file" in message
    assert train(folder, "--overwrite").returncode == 0


@pytest.mark.grid
def test_a_killed_overwrite_loses_nothing(folder):
    """Killed before its first epoch has ended: the run of before is whole."""
    before = content(folder)
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "pipelines.train"),
            *flags_of(folder, "--overwrite", "--loss=smoothi_loss"),
        ],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        lock_file = folder / "model" / ".tfr_ext.lock"
        while not lock_file.exists():
            time.sleep(0.01)
            assert process.poll() is None
        process.kill()
    lock_file.unlink()
    assert content(folder) == before
    assert "is finished" in train(folder).stdout


def test_checkpoints_of_somebody_else_stay(folder):
    """Also where training has no record: TensorFlow Ranking's pipeline in own code."""
    training = checkpoints.ResumableTraining(
        str(folder / "checkpoints"), "val_loss", higher_is_better=False
    )
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "last-1.index").write_text("mine")
    with pytest.raises(ValueError, match="has last-1.index, but no state.json"):
        training.restore(None)
    state = json.loads((folder / "model/checkpoints/state.json").read_text())
    assert state["epochs"] == 2
