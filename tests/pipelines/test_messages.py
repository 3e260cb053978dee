"""What commands say of wrong flags, flag files, JSON files, full disks and memory."""

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from absl import flags as absl_flags

from pipelines.experiments import cells
from pipelines.experiments.cells import Candidate
from pipelines.flags import flag_files
from pipelines.start import failures
from tests.commands import ROOT, run_command
from tests.files import write_run
from tfr_ext.core import decimals, json_files, setting_kinds
from tfr_ext.evaluation import runs
from tfr_ext.training import TrainingConfig, schedules

COMMANDS = (
    *("compare", "embed", "evaluate", "experiment", "export", "fuse", "prepare"),
    *("rank", "train", "train_gbm"),
)
WITHOUT_NUMBERS = {
    "export": ["floats", "integers"],
    "fuse": ["integers"],
    "embed": ["floats"],
}
NOT_FINITE = ("nan", "-nan", "inf", "-inf", "infinity", "1e999", "1e39", "-1e39")
WRONG_JSON = {
    "nothing": "",
    "a list": "[]",
    "no entry": "{}",
    "a number": "3",
    "broken": '{"convention": {',
    "deep": "[" * 200_000,
    "deep objects": '{"a":' * 200_000,
    "binary": "\x00\x01",
}


@pytest.fixture(scope="module", params=COMMANDS)
def command_flags(request):
    """A command's flags, of this project."""
    done = run_command("tests.pipelines.defined_flags", request.param)
    return {"command": request.param, **json.loads(done.stdout.splitlines()[-1])}


def test_no_number_flag_takes_what_is_no_number(command_flags):
    """The command parsed each of its flags with each wrong value."""
    without = [x for x in ("floats", "integers") if not command_flags[x]]
    assert without == WITHOUT_NUMBERS.get(command_flags["command"], [])
    assert command_flags["taken"] == []
    for flag, text in command_flags["refused"].items():
        assert f"--{flag}=" in text, flag


def test_every_metric_flag_knows_the_cut_off_as_papers_write_it(command_flags):
    metric_flags = {"metrics", "monitor", "select_by", "plot_metric"}
    found = metric_flags.intersection(command_flags["all"])
    assert found == set(command_flags["metrics"]) and (found or command_flags["all"])
    assert all(v in ("ndcg_10", ["ndcg_10"]) for v in command_flags["metrics"].values())


def parsed(kind, *texts, **given):
    """What texts give a setting of a kind."""
    return setting_kinds.parse(setting_kinds.Setting("", "", kind, **given), texts)


@pytest.mark.parametrize("value", NOT_FINITE)
def test_no_list_or_parameter_takes_what_is_no_number(value):
    assert not decimals.is_finite(float(value))
    with pytest.raises(ValueError, match="must be finite"):
        parsed("numbers", f"0,{value}")
    for text in (value, f"[0, {value}]" if "e" in value else value):
        with pytest.raises(ValueError, match="must have finite"):
            parsed("parameters", f"alpha={text}")
    for form in ("exponential:{}", "exponential:2:{}", "step:{}:2", "linear:{}"):
        with pytest.raises(ValueError, match="Unknown schedule"):
            schedules.loss_parameter(form.format(value), 1.0, 5, 9)
    for form in ("exponential:{}", "step:{}:0.5", "step:2:{}", "cosine:{}"):
        with pytest.raises(ValueError, match="Unknown learning-rate schedule"):
            schedules.learning_rate(form.format(value), 1.0, 5, 9)


def test_parameters_that_are_numbers_and_words_stay():
    given = ["a=1e30", "b=[0, 0.5]", "c=map", "d=None", "e={'x': 2}", "f=information"]
    assert parsed("parameters", *given) == {
        "a": 1e30,
        "b": [0, 0.5],
        "c": "map",
        "d": None,
        "e": {"x": 2},
        "f": "information",
    }
    assert parsed("numbers", "1,2.5") == (1, 2.5)
    assert parsed("integers", "1, 2", high=2) == (1, 2)
    for wrong in ("3", "-1", "1.0", "x", str(2**70)):
        with pytest.raises(ValueError, match=f"must .* 0 to 2 .*'{wrong}'"):
            parsed("integers", wrong, high=2)


@pytest.mark.parametrize(
    "flags, text",
    [
        (["--hidden_sizes=8,99999999999999999999"], "--hidden_sizes must be integers"),
        (["--label_weights=0,nan"], "--label_weights must be finite"),
        (["--head=grades", "--grade_values=0,inf"], "--grade_values must be finite"),
        (["--loss_param=alpha=nan"], "--loss_param must have finite numbers"),
        (["--lambda_weight=ndcg", "--lambda_weight_param=topn=inf"], "_param must"),
    ],
)
@pytest.mark.first_case
def test_training_refuses_lists_and_parameters(flags, text, tmp_path):
    done = run_command(
        "pipelines.train", *flags, f"--model_dir={tmp_path}/run", check=False
    )
    assert done.returncode == 1 and text in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "run").exists()


def flag_file(folder, kind):
    """Makes a flag file that is wrong, or not there."""
    path = folder / f"{kind}.cfg"
    if kind == "binary":
        path.write_bytes(b"--seed=1\n\xff\xfe\x80")
    elif kind == "directory":
        path.mkdir()
    elif kind == "itself":
        path.write_text(f"# a loop\n--flagfile={path}\n")
    elif kind == "loop":
        (folder / "other.cfg").write_text(f"--flagfile={path}\n")
        path.write_text(f"--flagfile={folder}/./other.cfg\n")
    elif kind == "includes":
        path.write_text(f"--flagfile {folder}/none\n--flagfile={folder}/none\n")
    return path


FLAG_FILES = {
    "binary": "expected lines of text",
    "directory": "Is a directory",
    "missing": "No such file",
    "itself": "includes itself",
    "loop": "includes itself",
    "includes": "No such file",
}


@pytest.mark.parametrize("kind", FLAG_FILES)
def test_flag_files_are_named(kind, tmp_path):
    path = flag_file(tmp_path, kind)
    named = tmp_path / "none" if kind == "includes" else path
    for arguments in ([f"--flagfile={path}"], ["-flagfile", str(path)]):
        with pytest.raises(absl_flags.Error) as error:
            flag_files.expanded(["--seed=1", *arguments])
        assert str(named) in str(error.value)
        assert FLAG_FILES[kind] in str(error.value)
    for arguments in (["--seed=1", "--", f"--flagfile={path}"], ["-flagfile"]):
        assert flag_files.expanded(arguments) == arguments
    assert flag_files.expanded(["--flagfile=", "--flagfile", "", "x"]) == ["x"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_names_a_flag_file_that_is_wrong(command, tmp_path):
    path = flag_file(tmp_path, "binary")
    done = run_command(f"pipelines.{command}", f"--flagfile={path}", check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"Error: --flagfile={path}: expected lines of text")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", WRONG_JSON)
def test_json_that_is_wrong_is_an_error_that_names_the_file(kind, tmp_path):
    directory = write_run(tmp_path / "a", {"map": [1, 0]})
    path = tmp_path / "a" / "metrics.json"
    path.write_text(WRONG_JSON[kind])
    cell = cells.Cell(Candidate("A", ()), "1", 1, TrainingConfig(), directory)
    for read in (
        lambda: json_files.read_object(str(path), "a test", {"x": (int,)}),
        lambda: runs.read("A", [directory]),
        cell.metrics,
    ):
        with pytest.raises(ValueError, match="expected a JSON object") as error:
            read()
        assert str(error.value).startswith(f"{path}: ")
    (tmp_path / "a" / cells.SECONDS).write_text("x")
    assert cell.seconds() == 0


def test_json_entries_of_another_type(tmp_path):
    path = tmp_path / "x.json"
    kinds = {"a": (int,), "b": (float, type(None)), "c": (bool,)}
    path.write_text('{"a": 1, "b": 2, "c": true, "d": []}')
    assert json_files.read_object(str(path), "a test", kinds)["d"] == []
    path.write_text('{"a": 1, "c": false}')
    assert json_files.read_object(str(path), "a test", kinds)["a"] == 1
    for text, told in (
        ('{"a": true, "c": true}', "'a' must be an integer. Found: a boolean"),
        ('{"a": 1.5, "c": true}', "'a' must be an integer. Found: a number"),
        ('{"a": 1, "b": [], "c": true}', "'b' must be a number or nothing"),
        ('{"a": 1}', "'c' must be a boolean. Found: nothing"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=told):
            json_files.read_object(str(path), "a test", kinds)


@pytest.mark.parametrize("entry", ["convention", "labels", "eval_list_size", "seed"])
@pytest.mark.parametrize("value", [3.5, "x", [], {"y": []}])
def test_compare_reads_entries_or_names_the_file(entry, value, tmp_path):
    directory = write_run(tmp_path / "a", {"map": [1, 0]}, **{})
    path = tmp_path / "a" / "metrics.json"
    path.write_text(json.dumps({"convention": {"gain": "linear"}, entry: value}))
    try:
        runs.read("A", [directory])
    except ValueError as error:
        assert str(error).startswith(f"{path}: ") and entry in str(error)


def memory_errors():
    yield MemoryError()
    try:
        np.empty(2**60, np.float64)
    except ValueError as error:
        yield error
    try:
        np.empty(2**45, np.float64)
    except MemoryError as error:
        yield error
    message = "{{node x}} OOM when allocating tensor with shape[9] \n\nTraceback: ..."
    yield tf.errors.ResourceExhaustedError(None, None, message)


@pytest.mark.parametrize("error", memory_errors(), ids=lambda e: type(e).__name__)
def test_too_little_memory_is_told_in_a_line_with_what_to_reduce(error, monkeypatch):
    assert isinstance(error, failures.USER_ERRORS)
    values = absl_flags.FlagValues()
    for name, value in (("batch_size", 128), ("list_size", None), ("x", 1)):
        absl_flags.DEFINE_integer(name, value, "", flag_values=values)
    absl_flags.DEFINE_list("hidden_sizes", ["8"], "", flag_values=values)
    values(["test"])
    monkeypatch.setattr(failures, "FLAGS", values)
    text = failures.explain(error)
    assert text.startswith(
        "There is not enough memory. Reduce --batch_size or --hidden_sizes. ("
    )
    assert "\n" not in text and "{{" not in text


@pytest.mark.parametrize(
    "error, place",
    [
        (OSError(errno.ENOSPC, "No space left on device"), "{run}"),
        (OSError(errno.ENOSPC, "No space left on device", "/far/x"), "/far"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "{run}/a/b"), "{run}"),
        (OSError(errno.EFBIG, "File too large", "{run}/a/b"), "{run}"),
        (
            tf.errors.ResourceExhaustedError(
                None, None, "{{x}} {run}/ckpt/y.tmp; No space left on device [Op:Save]"
            ),
            "{run}",
        ),
        (
            tf.errors.InternalError(None, None, "/far/x.tmp; No space left on device"),
            "/far",
        ),
        (
            tf.errors.UnknownError(None, None, "{run}/x.tmp; File too large [Op:Save]"),
            "{run}",
        ),
        (OSError("Beam failed: /far/x; No space left on device"), "/far"),
    ],
)
def test_a_full_disk_is_told_before_what_tensorflow_says(
    error, place, tmp_path, monkeypatch
):
    assert isinstance(error, failures.USER_ERRORS)
    run = str(tmp_path / "run")
    values = absl_flags.FlagValues()
    absl_flags.DEFINE_string("model_dir", run, "", flag_values=values)
    values(["test"])
    monkeypatch.setattr(failures, "FLAGS", values)
    monkeypatch.setattr(failures.tempfile, "gettempdir", lambda: run)
    if isinstance(error, OSError):
        if error.filename:
            error.filename = error.filename.replace("{run}", run)
    else:
        message = error.message.replace("{run}", run)
        error = type(error)(None, None, message)
    text = failures.explain(error)
    assert text.startswith(f"The disk of {place.format(run=run)} ")
    assert "Free some space there" in text and "\n" not in text


@pytest.mark.parametrize(
    "error, told",
    [
        (OSError(errno.EROFS, "Read-only file system", "/run/a/b"), "/run "),
        (OSError(errno.EACCES, "Permission denied", "/"), "/run "),
        (tf.errors.PermissionDeniedError(None, None, "/run/x; Permission denied"), "/"),
        (tf.errors.PermissionDeniedError(None, None, "/far/x; Permission denied"), ""),
        (OSError(errno.EACCES, "Permission denied"), ""),
        (OSError(errno.ENOENT, "No such file", "/run/x"), ""),
    ],
)
def test_a_place_that_cannot_be_written_is_told_with_its_flag(error, told, monkeypatch):
    monkeypatch.setattr(failures, "_may_write", lambda path: False)
    text = failures.explain(error, {"model_dir": ["/run"], "output": "/else/x.trec"})
    assert text.startswith(f"--model_dir={told}") == bool(told), text


@pytest.mark.parametrize(
    "text, told",
    [
        (
            "Graph execution error:\n\nDetected at node x\n  File y\n\nCollective ops "
            "is aborted by: Error reported from /job:worker/task:1: Task "
            "/job:worker/replica:0/task:1 heartbeat timeout.",
            "Worker 1 of TF_CONFIG is gone, ",
        ),
        ("/job:chief/replica:0/task:0 is down", "Chief 0 of TF_CONFIG is gone, "),
        ("The error is of no other process.", "The error is of no"),
    ],
)
def test_a_worker_that_is_gone_is_named_in_a_line(text, told, monkeypatch):
    error = tf.errors.UnavailableError(None, None, text)
    assert not failures.explain(error).startswith("Worker 1 of TF_CONFIG")
    monkeypatch.setenv("TF_CONFIG", "{}")
    found = failures.explain(error)
    assert found.startswith(told) and "\n" not in found
    assert "Detected" not in found and "Graph execution" not in found


@pytest.mark.parametrize(
    "kind, told",
    [
        (tf.errors.ResourceExhaustedError, "There is not enough memory. "),
        (tf.errors.InvalidArgumentError, "Wrong on /job:worker/"),
    ],
)
def test_a_device_of_this_worker_is_not_one_that_is_gone(kind, told, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    text = "Wrong on /job:worker/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
    assert failures.explain(kind(None, None, text)).startswith(told)


@pytest.mark.grid
def test_a_disk_that_is_full_at_each_file_of_training(tmp_path):
    """The more a process may write to a file, the later it meets the limit."""
    script = (
        "import resource, signal, runpy, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "limit = int(sys.argv.pop(1))\n"
        "import pipelines.train\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
        "runpy.run_module('pipelines.train', run_name='__main__', alter_sys=True)\n"
    )
    # The bytes that a file may have, and the first file that has more.
    refused = {100: ".written_by_train", 1_000: "flags.cfg", 4_000: "best-1"}
    refused |= {30_000: "curves.png", 100_000: "saved_model.pb"}
    written = []
    for limit, file in refused.items():
        directory = tmp_path / str(limit)
        done = subprocess.run(
            [
                *(sys.executable, "-c", script, str(limit)),
                *("--synthetic_num_queries=60", "--synthetic_list_size=8"),
                *("--num_epochs=1", "--hidden_sizes=16", "--verbose=silent"),
                f"--model_dir={directory}",
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        assert done.returncode == 1 and "Traceback" not in done.stderr
        told = f"Error: The disk of {directory} does not hold files of this size."
        last = done.stderr.splitlines()[-1]
        assert last.startswith(told) and file in last, done.stderr
        # The first file that does not fit leaves no directory behind.
        written.append(len(os.listdir(directory)) if directory.exists() else 0)
    assert written == sorted(set(written))  # Each got further.
