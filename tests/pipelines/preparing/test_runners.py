"""The processes that prepare shards: killed, at fault, or one of them gone."""

import os
import pathlib
import signal
import time

import pytest

from pipelines.preparing import runners
from tests.commands import run_command
from tests.files import write_text


def write_name(name):
    """Work: a unit is a path, and what its name says happens."""
    path = pathlib.Path(name)
    if path.name == "bad":
        raise OSError(f"{path} is bad")
    if path.name == "wrong":
        raise TypeError
    if path.name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if path.name == "slow":
        time.sleep(600)
    path.write_text(str(os.getpid()))


def units(tmp_path, *names):
    return [str(tmp_path / name) for name in names]


@pytest.mark.parametrize("num_workers", [1, 2, 9])
def test_each_unit_is_done_once(tmp_path, num_workers):
    names = [str(i) for i in range(7)]
    runners.run_here(units(tmp_path, *names), write_name, num_workers)
    done = {path.name: int(path.read_text()) for path in tmp_path.iterdir()}
    assert sorted(done) == names
    workers = set(done.values())
    assert len(workers) <= num_workers
    assert (os.getpid() in workers) == (num_workers == 1)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("bad", "bad is bad"),
        ("killed", "ended with exit code -9 .* The same command goes on"),
        ("wrong", "ended with exit code 1 "),
    ],
)
def test_a_fault_in_one_ends_all(tmp_path, name, told):
    with pytest.raises(OSError, match=told):
        runners.run_here(units(tmp_path, "slow", name, "x"), write_name, 2)


def test_errors_of_the_data_are_told_as_in_one_process(tmp_path):
    path = write_text(tmp_path / "train.txt", seed=0, queries=80)
    with open(path, "ab") as file:
        file.write(b"\n1 qid:new 7:x\n")
    told = {
        run_command(
            "pipelines.prepare",
            "--dataset=text",
            f"--train_path={path}",
            "--shard_megabytes=0.002",
            f"--output_dir={tmp_path / workers}",
            f"--num_workers={workers}",
            check=False,
        ).stderr
        for workers in ("1", "2")
    }
    assert len(told) == 1 and told.pop().startswith(f"Error: {path}:")


def test_either_processes_or_beam(tmp_path):
    done = run_command(
        "pipelines.prepare",
        "--dataset=synthetic",
        f"--output_dir={tmp_path / 'out'}",
        "--num_workers=2",
        "--beam_args=--runner=FnApiRunner",
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: --num_workers cannot be given with")
    assert not (tmp_path / "out").exists()
