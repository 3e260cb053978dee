"""Shards that processes or Beam write."""

from __future__ import annotations

import dataclasses
import os
import sys

import pytest

from pipelines.preparing import runners
from tests.commands import run_command
from tests.files import WIDTH, write_text
from tests.pipelines.preparing.shards import (
    files_of,
    text_flags,
)

PLAIN = ["--num_workers=3"]
# In separate processes, which import what they need as other machines would.
BEAM = [
    "--beam_args=--direct_running_mode=multi_processing",
    "--beam_args=--direct_num_workers=2",
]


@pytest.mark.first_case
@pytest.mark.parametrize("workers", [PLAIN, BEAM])
def test_worker_processes_write_the_same(tmp_path, run, workers):
    other = write_text(tmp_path / "other.txt", seed=1)
    given = (
        *text_flags(tmp_path),
        f"--num_features={WIDTH}",  # Spares a second start of the workers.
        f"--valid_path={other}",
        f"--test_path={other}",
    )
    run_command(
        "pipelines.prepare",
        *given,
        f"--output_dir={tmp_path / 'two'}",
        *workers,
    )
    run(*given, f"--output_dir={tmp_path / 'one'}")
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")


def test_another_runner_wins(tmp_path, run):
    given = (*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    with pytest.raises(OSError, match="Beam's pipeline failed: .*NoSuchRunner"):
        run(*given, "--beam_args=--runner=NoSuchRunner", "--beam_args=--colour=red")
    printed = run(*given, "--beam_args=--runner=BundleBasedDirectRunner")
    assert "shards: " in printed
    assert runners.unknown_options(["--runner=X", "--colour=red"]) == ["--colour"]


def test_options_of_a_runner_are_known(tmp_path, monkeypatch):
    """As those of Beam's DaskRunner, which its own module defines."""
    (tmp_path / "runner_of_test.py").write_text(
        "from apache_beam.options.pipeline_options import PipelineOptions\n"
        "class OwnOptions(PipelineOptions):\n"
        "    @classmethod\n"
        "    def _add_argparse_args(cls, parser):\n"
        "        parser.add_argument('--own_address', dest='address')\n"
    )
    given = ["--own_address=x:1", "--colour=red"]
    for name in ("no_such_module.Runner", "..", "Runner"):
        found = runners.unknown_options([f"--runner={name}", *given])
        assert found == ["--own_address", "--colour"]
    monkeypatch.syspath_prepend(tmp_path)
    found = runners.unknown_options(["--runner=runner_of_test.Runner", *given])
    assert found == ["--colour"]


def test_without_beam(tmp_path, run, monkeypatch):
    given = (*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    beam = "--beam_args=--runner=BundleBasedDirectRunner"
    run(*given, f"--output_dir={tmp_path / 'beam'}", beam)
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(SystemExit, match=r"pip install tfr-ext\[beam\]"):
        run(*given, beam)
    assert "shards: " in run(*given)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "beam")


def test_workers_that_write_elsewhere_are_told(tmp_path, run, monkeypatch):
    elsewhere = str(tmp_path / "elsewhere")
    os.makedirs(os.path.join(elsewhere, ".prepare"))
    beam_run = runners.run_on_beam

    def run_elsewhere(units, work, beam_args):
        moved = [dataclasses.replace(unit, directory=elsewhere) for unit in units]
        beam_run(moved, work, beam_args)

    monkeypatch.setattr(runners, "run_on_beam", run_elsewhere)
    given = (*text_flags(tmp_path), "--beam_args=--runner=FnApiRunner")
    with pytest.raises(
        ValueError, match="pieces are missing from .* Do Beam's workers"
    ):
        run(*given, f"--output_dir={tmp_path / 'out'}")
