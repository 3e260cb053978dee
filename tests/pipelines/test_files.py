"""No command touches files that it did not write, and none two runs at a time."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from pipelines import lock, path_flags, written
from tests.commands import ROOT
from tests.conftest import run_command
from tests.pipelines.test_train import SMALL
from tfr_ext import checkpoints, export

DATA = ("train_path", "valid_path", "test_path", "data_dir", "manual_dir", "flagfile")
PATHS = {
    "train": ("model_dir", *DATA),
    "evaluate": ("export", "run", "scores", "output_dir", *DATA),
    "compare": ("output_dir", "flagfile"),
    "experiment": ("output_dir", "cells_dir", *DATA),
    "prepare": ("output_dir", *DATA),
}
# Flags with which a command gets as far as its data; each names no loss or file of
# these lists, so that it fails there.
GIVEN = {
    "train": ("--model_dir={out}", "--overwrite"),
    "evaluate": ("--run={out}/absent.trec", "--output_dir={out}"),
    "compare": ("{out}/a", "{out}/b", "--output_dir={out}"),
    "experiment": ("--method=A: --loss=list_net_loss", "--output_dir={out}"),
    "prepare": ("--output_dir={out}", "--overwrite"),
}
OUTPUTS = {
    "train": ("metrics.json", "run.trec", "flags.cfg", "checkpoints/last-1.index"),
    "evaluate": ("metrics.json", "run.trec", "flags.cfg"),
    "compare": ("table.md", "comparison.json"),
    "experiment": ("cells.tsv", "experiment.json", "table.tex"),
    "prepare": ("manifest.json", "train-00000-of-00001.tfrecord"),
}
QUICK = tuple(flag for flag in SMALL if "num_epochs" not in flag)


def content(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def told(done):
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.mark.parametrize("command", PATHS)
def test_empty_path_flags_are_refused(command, tmp_path):
    """All flags of a command at once: each is named."""
    names = [name for name in PATHS[command] if name != "flagfile"]
    flags = [f"--{name}=" for name in names]
    message = told(run_command(f"pipelines.{command}", *flags, check=False))
    for name in names:
        assert f"flag --{name}=" in message, name
    place = "model_dir" if command == "train" else "output_dir"
    flags = ["--flagfile=", f"--{place}={tmp_path}/out"]
    message = told(run_command(f"pipelines.{command}", *flags, check=False))
    assert "--flagfile=: expected a path" in message
    assert not (tmp_path / "out").exists()


def test_every_flag_that_is_a_path_is_in_the_table():
    for command, names in PATHS.items():
        done = run_command(f"pipelines.{command}", "--helpshort", check=False)
        words = [line.strip() for line in done.stdout.splitlines()]
        found = {
            word[2:].partition(":")[0]
            for word in words
            if word.startswith("--")
            and word.partition(":")[0].endswith(
                ("_path", "_dir", "--export", "--run", "--scores")
            )
        }
        found -= {"model_dir"} if command == "experiment" else set()
        assert found <= {*names}, command


@pytest.mark.parametrize("arguments", [["--x="], ["-x="], ["--x", ""], ["--x= "]])
def test_ways_to_leave_a_flag_empty(arguments):
    assert path_flags.is_empty_in(["command", *arguments], "x")
    assert not path_flags.is_empty_in(["command", *arguments, "--x=a"][2:], "x")


@pytest.mark.parametrize("command", GIVEN)
def test_a_failing_command_leaves_every_file_as_it_was(command, tmp_path):
    """With a data file that is not there, in a directory of somebody's files."""
    names = [name for several in OUTPUTS.values() for name in several]
    for owner in ("nobody", command):
        out = tmp_path / owner
        for name in names:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text("mine")
        if owner == command:
            record = written.Files(command, "", str(out), OUTPUTS[command])
            record.claim()
        before = content(out)
        flags = [flag.format(out=out) for flag in GIVEN[command]]
        if command != "compare":
            absent = "test_path" if command == "evaluate" else "train_path"
            flags += ["--dataset=text", f"--{absent}={tmp_path}/absent.txt"]
        told(run_command(f"pipelines.{command}", *flags, check=False))
        assert content(out) == before


@pytest.mark.parametrize("name", OUTPUTS["train"])
def test_foreign_files_are_named_and_stay(name, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    for flags in ((), ("--overwrite",)):
        message = told(
            run_command(
                "pipelines.train",
                *SMALL,
                f"--model_dir={tmp_path}",
                *flags,
                check=False,
            )
        )
        assert f"did not write and would replace: {name.split('/')[0]}" in message
    assert content(tmp_path) == {name: b"mine"}


def files(directory, *names, once=()):
    return written.Files(
        "test", "output_dir", str(directory), names, once, lambda _: bool(once)
    )


def test_what_a_record_has_may_be_replaced_and_no_more(tmp_path):
    ours = files(tmp_path, "a", "b", "checkpoints", "tensorboard")
    ours.check()
    ours.claim()
    for name in ("a", "checkpoints/last-3.index", "checkpoints/best-1_temp/part"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("ours")
    mine = ("c", "checkpoints/notes.txt", "checkpoints/last.txt", "tensorboard/x")
    for name in mine:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    ours.check()
    with pytest.raises(ValueError, match="a is read, and test would replace it"):
        ours.check([str(tmp_path / "a")])
    with pytest.raises(ValueError, match="would replace: c"):
        files(tmp_path, "a", "c").check()
    ours.remove()
    assert content(tmp_path).keys() == {*mine, ".written_by_test"}
    # Of a directory without a record only what shows whose it is is believed.
    (tmp_path / ".written_by_test").unlink()
    (tmp_path / "a").write_text("older")
    with pytest.raises(ValueError, match="would replace: a"):
        ours.check()
    files(tmp_path, "a", once=("a",)).check()


def test_links_are_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("mine.txt", "last-1.index"):
        (elsewhere / name).write_text(name)
    out = tmp_path / "out"
    ours = files(out, "a", "checkpoints")
    ours.claim()
    (out / "a").symlink_to(elsewhere / "mine.txt")
    (out / "checkpoints").symlink_to(elsewhere)
    ours.remove()
    assert os.listdir(elsewhere) == ["mine.txt"]  # The checkpoint was ours.
    assert not (out / "a").is_symlink() and (out / "checkpoints").is_symlink()


def test_a_kill_frees_the_lock_and_nothing_is_left(tmp_path):
    out = tmp_path / "deep" / "out"
    code = (
        "import sys, time; from pipelines import lock\n"
        f"with lock.alone({str(out)!r}, 'training'): print('held', flush=True); "
        "time.sleep(99)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match=f"Another training is running in {out}"):
            with lock.alone(str(out), "training"):
                pass
        holder.kill()
    with lock.alone(str(out), "training"):
        pass
    assert os.listdir(out) == []
    with lock.alone(str(tmp_path / "new" / "out"), "training"):
        pass
    assert not (tmp_path / "new").exists()


def test_without_locks_it_goes_on_and_says_so(tmp_path, monkeypatch, capsys):
    def no_locks(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lock.fcntl, "flock", no_locks)
    with lock.alone(str(tmp_path), "training"):
        pass
    assert "cannot be locked (Operation not supported)" in capsys.readouterr().out


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


def test_the_last_lines_name_all_files(folder):
    shutil.rmtree(folder / "model")
    done = train(folder)
    line = next(x for x in done.stdout.splitlines() if x.startswith("Written in"))
    names = {name.rstrip("/") for name in line.partition(": ")[2].split(", ")}
    assert names == {*os.listdir(folder / "model")} - {".written_by_train"}


@pytest.mark.parametrize("state", ["finished", "unfinished"])
def test_other_data_is_refused(folder, state):
    write_data(folder / "data.txt", 5)
    if state == "unfinished":
        (folder / "model" / "metrics.json").unlink()
    before = content(folder)
    message = told(train(folder))
    assert "a run on other data" in message and "--overwrite" in message
    assert content(folder) == before


def test_a_run_of_before_goes_on_with_a_warning(folder):
    """Without a record, and without the checksum of its data."""
    model = folder / "model"
    (model / ".written_by_train").unlink()
    (model / "metrics.json").unlink()
    lines = (model / "flags.cfg").read_text().splitlines(keepends=True)
    kept = [line for line in lines if "SHA-256" not in line]
    (model / "flags.cfg").write_text("".join(kept))
    done = train(folder)
    assert done.returncode == 0, done.stderr
    assert "does not tell which data it read" in done.stdout
    assert (model / "flags.cfg").read_text() == "".join(lines)
    assert (model / "metrics.json").exists()


def test_without_its_flags_a_run_is_not_gone_on_with(folder):
    model = folder / "model"
    (model / "flags.cfg").unlink()
    for _ in ("finished", "not finished"):
        before = content(model)
        message = told(train(folder, "--loss=softmax_loss"))
        assert "not its flags.cfg" in message and "--overwrite" in message
        assert content(model) == before
        (model / "metrics.json").unlink(missing_ok=True)
    (model / ".written_by_train").unlink()
    assert "did not write" in told(train(folder, "--overwrite"))


@pytest.mark.parametrize(
    "flags",
    [
        ["--learning_rate=1e30", "--optimizer=sgd", "--loss=mean_squared_loss",
         "--batch_size=4",
         "--nobatch_normalization"],
        ["--loss_param=reduction=none"],
        ["--hidden_sizes=100000000000"],
        ["--loss=softmax_loss", "--train_path=absent.txt"],
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


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_state_is_named(text, tmp_path):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(ValueError, match="state.json does not tell .*--overwrite"):
        checkpoints.read_progress(str(tmp_path))


@pytest.mark.parametrize("text", [*BROKEN[:4], "{}", '{"max_label": "4"}'])
def test_a_broken_export_is_named(text, tmp_path):
    path = tmp_path / "tfr_ext.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="tfr_ext.json is not what"):
        export._read_max_label(str(path))


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


def test_a_killed_overwrite_loses_nothing(folder):
    """Killed before its first epoch has ended: the run of before is whole."""
    before = content(folder)
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "pipelines.train"),
            *flags_of(folder, "--overwrite", "--loss=softmax_loss"),
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
