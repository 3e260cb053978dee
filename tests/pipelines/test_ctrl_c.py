"""Ctrl-C and SIGTERM: one line, status 130 or 143, no traceback, wherever it is."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tests.commands import ROOT, run_command
from tests.files import write_run
from tests.pipelines.experiments import flags_of, write_folds

COMMANDS = (
    *("compare", "embed", "evaluate", "experiment", "export", "fuse", "prepare"),
    *("rank", "train", "train_gbm"),
)
SAVING = "tfr_ext.training.checkpoints.ResumableTraining"
GOES_ON = "Stopped; the same command goes on.\n"
SMALL = ("--synthetic_num_queries=30", "--synthetic_list_size=5", "--hidden_sizes=4")


def flags(command, folder):
    """Flags of a small piece of work."""
    if command == "compare":
        return [write_run(folder / name, {"map": [1, 0, 1]}) for name in "ab"]
    if command == "evaluate":
        return [*SMALL[:2], f"--scores={folder}/none"]
    if command == "embed":
        names = ("encoder", "corpus", "output")
        return [f"--{flag}={folder}/{flag}" for flag in names]
    if command == "fuse":
        return [f"{folder}/none", "--weights=valid"]
    if command == "export":
        return [f"--model_dir={folder}/none"]
    if command == "rank":
        names = {"export": "none", "input": "none", "output": "new.trec"}
        return [f"--{flag}={folder}/{name}" for flag, name in names.items()]
    if command == "train":
        # Neither the loss nor what is written at last is tested.
        quick = ("--loss=list_net_loss", "--noexport_model", "--nodraw_curves")
        return [*SMALL, *quick, "--num_epochs=2", f"--model_dir={folder}/run"]
    if command == "train_gbm":
        return [*SMALL[:2], "--num_trees=2", f"--model_dir={folder}/run"]
    if command == "prepare":
        return [*SMALL[:2], f"--output_dir={folder}/shards"]
    method = "--method=A: --loss=list_net_loss"
    return [*SMALL, "--num_epochs=1", method, f"--output_dir={folder}/out"]


def interrupted(where, function, command, *more, by="SIGINT"):
    done = run_command(
        "tests.pipelines.interrupted",
        *(by, where, function, f"pipelines.{command}", *more),
        check=False,
    )
    assert done.returncode == 128 + getattr(signal, by), done.stderr
    return done


@pytest.mark.parametrize("command", COMMANDS)
def test_while_modules_are_imported(command, tmp_path):
    # TensorFlow takes seconds; this one takes for ever.
    (tmp_path / "tensorflow.py").write_text(
        "import time\nprint('importing', flush=True)\ntime.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", f"pipelines.{command}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test may run in the background, where shells hide it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "Stopped.\n")
    assert process.returncode == 130


@pytest.mark.parametrize("command", COMMANDS)
def test_while_flags_are_read(command, tmp_path):
    done = interrupted(
        "waits",
        "pipelines.flags.flag_files.expanded",
        command,
        *flags(command, tmp_path),
    )
    assert (done.stdout, done.stderr) == ("", "Stopped.\n")


@pytest.mark.parametrize(
    "command, function, line",
    [
        ("compare", "tfr_ext.evaluation.runs.read", "Stopped.\n"),
        ("embed", "tfr_ext.text.encoder.Encoder.load", GOES_ON),
        ("evaluate", "tfr_ext.sources.data_splits.load_test", "Stopped.\n"),
        ("experiment", "pipelines.experiments.cells.parse_methods", GOES_ON),
        ("export", "tfr_ext.runs.run_directory.flag_file", "Stopped.\n"),
        ("fuse", "tfr_ext.scoring.fused_runs.find", "Stopped.\n"),
        ("prepare", "tfr_ext.sources.named_sources.source", GOES_ON),
        ("rank", "tfr_ext.data.file_names.find_files", "Stopped.\n"),
        ("train", "tfr_ext.sources.data_splits.load", GOES_ON),
        ("train_gbm", "tfr_ext.sources.data_splits.load", "Stopped.\n"),
    ],
)
def test_at_work(command, function, line, tmp_path):
    done = interrupted("waits", function, command, *flags(command, tmp_path))
    assert done.stderr == line


# What is around the work is one for all commands.
EVALUATING = ("tfr_ext.sources.data_splits.load_test", "evaluate")


@pytest.mark.parametrize("where", ["drops", "another"])
def test_whatever_the_work_makes_of_it(where, tmp_path):
    done = interrupted(where, *EVALUATING, *flags("evaluate", tmp_path))
    assert done.stderr == "Stopped.\n"


def test_a_signal_to_end_at_work(tmp_path):
    more = flags("evaluate", tmp_path)
    done = interrupted("waits", *EVALUATING, *more, by="SIGTERM")
    assert done.stderr == "Stopped.\n"


def test_a_signal_to_end_in_native_code_of_what_heeds_none(tmp_path):
    # Such as TensorFlow that reads from a pipe; it would end well after 15 seconds.
    done = interrupted(
        *("native", "tfr_ext.data.file_names.find_files", "rank"),
        *flags("rank", tmp_path),
        by="SIGTERM",
    )
    assert done.stderr == "Stopped.\n"


@pytest.mark.first_case
@pytest.mark.parametrize(
    "function, place",
    [
        (f"{SAVING}.on_train_batch_end", "batch 1 of epoch 1"),
        (f"{SAVING}._save_all", "batch 1 of epoch 2"),
        # There is nothing to save any more in the last epoch.
        ("tfr_ext.training.run_steps.write_report", None),
    ],
)
def test_a_signal_to_end_in_training(function, place, tmp_path):
    more = [*flags("train", tmp_path), "--batch_size=5", "--verbose=line"]
    done = interrupted(
        "on" if place else "waits", function, "train", *more, by="SIGTERM"
    )
    assert done.stderr == GOES_ON
    assert not (tmp_path / "run" / "metrics.json").exists()
    again = run_command("pipelines.train", *more).stdout
    assert f"Going on after {place or 'epoch 2'}." in again and "Best epoch" in again


@pytest.mark.parametrize("command", ["train", "prepare"])
def test_what_began_anew_goes_on_without_that_flag(command, tmp_path):
    function = {
        "train": "tfr_ext.sources.data_splits.load",
        "prepare": "tfr_ext.sources.named_sources.source",
    }[command]
    more = [*flags(command, tmp_path), "--overwrite"]
    done = interrupted("waits", function, command, *more)
    assert done.stderr == "Stopped; the same command without --overwrite goes on.\n"


@pytest.mark.first_case
@pytest.mark.parametrize(
    "where, function",
    [
        ("waits", f"{SAVING}._save_all"),
        # In a thread of tf.data, while TensorFlow waits for it.
        ("native", "tfr_ext.data.batches.batching.padded_positions"),
    ],
)
def test_in_training(where, function, tmp_path):
    more = flags("train", tmp_path)
    done = interrupted(where, function, "train", *more)
    assert done.stderr == GOES_ON
    done = run_command("pipelines.train", *more)
    assert "Best epoch" in done.stdout


@pytest.mark.grid
@pytest.mark.parametrize(
    "function",
    [
        "pipelines.experiments.cell_work.check",
        "pipelines.experiments.cell_work.Outcome",
    ],
)
def test_the_processes_of_an_experiment_end_and_say_nothing(function, tmp_path):
    write_folds(tmp_path)
    out = tmp_path / "out"
    done = interrupted(
        "waits",
        function,
        "experiment",
        *(*flags_of(tmp_path, "--num_epochs=5"), f"--output_dir={out}"),
    )
    assert done.stderr == GOES_ON
    deadline = time.monotonic() + 60
    while _open_files(out):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _open_files(folder):
    found = []
    for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(folder) in os.readlink(link):
                found.append(link)
        except OSError:
            pass
    return found
