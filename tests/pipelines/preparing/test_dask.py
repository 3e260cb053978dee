"""Shards that workers of Dask write, through Apache Beam: `make test-dask`."""

import json
import subprocess
import sys
import time

import pytest

from tests.commands import ROOT, run_command
from tests.files import write_text
from tests.pipelines.preparing.shards import files_of, text_flags

pytest.importorskip("distributed", reason="needs Dask, which make test-dask installs")
pytest.importorskip("apache_beam")


def started(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments, "--no-dashboard"],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture
def address(tmp_path):
    """That of a scheduler with two workers, each a process."""
    file = tmp_path / "scheduler.json"
    at = ("--scheduler-file", str(file))
    processes = [started("scheduler", "--host=127.0.0.1", "--port=0", *at)]
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline and processes[0].poll() is None
        time.sleep(0.1)
    for _ in range(2):
        processes.append(started("worker", "--nthreads=1", "--no-nanny", *at))
    yield json.loads(file.read_text())["address"]
    for process in processes[::-1]:
        process.terminate()
        process.wait()


def test_two_workers_write_what_one_process_writes(address, tmp_path):
    other = write_text(tmp_path / "other.txt", seed=1)
    given = (*text_flags(tmp_path), f"--valid_path={other}", f"--test_path={other}")
    run_command("pipelines.prepare", *given, f"--output_dir={tmp_path / 'one'}")
    done = run_command(
        *("pipelines.prepare", *given, f"--output_dir={tmp_path / 'dask'}"),
        "--beam_args=--runner=apache_beam.runners.dask.dask_runner.DaskRunner",
        f"--beam_args=--dask_client_address={address.removeprefix('tcp://')}",
    )
    assert "dask_client_address" not in done.stdout + done.stderr
    assert files_of(tmp_path / "dask") == files_of(tmp_path / "one")
