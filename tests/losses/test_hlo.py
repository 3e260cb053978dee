"""What XLA makes of a loss gives the same numbers in JAX as in TensorFlow."""

import os
import pathlib
import subprocess
import sys

import pytest

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
# What `hlo_in_jax.py` needs does not install beside TensorFlow 2.15.
JAX_PYTHON = os.environ.get("TFR_EXT_JAX_PYTHON")
without_jax = pytest.mark.skipif(
    not JAX_PYTHON, reason="TFR_EXT_JAX_PYTHON names no Python with JAX"
)


def lowered(directory, *arguments):
    subprocess.run(
        [sys.executable, BENCHMARKS / "hlo_of_losses.py", "--output", directory]
        + ["--sizes", "12", *arguments],
        check=True,
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS.parent)},
    )


def in_jax(directory):
    return subprocess.run(
        [JAX_PYTHON, BENCHMARKS / "hlo_in_jax.py", directory, "--runs", "1"],
        capture_output=True,
        text=True,
        check=False,
    )


@without_jax
@pytest.mark.grid
def test_every_loss_is_the_same_in_jax(tmp_path):
    lowered(tmp_path)
    done = in_jax(tmp_path)
    assert done.returncode == 0, done.stderr
    names = {path.stem for path in tmp_path.glob("*.hlo")}
    rows = [line for line in done.stdout.splitlines() if line.endswith("| yes |")]
    assert {row.split()[1] for row in rows} == names and len(names) > 10


@without_jax
def test_another_value_is_found(tmp_path):
    lowered(tmp_path, "--losses", "smoothi_loss", "list_net_loss")
    assert in_jax(tmp_path).returncode == 0
    # The step of one loss with the numbers of the other.
    (tmp_path / "list_net_loss-1x12.npz").replace(tmp_path / "smoothi_loss-1x12.npz")
    (tmp_path / "list_net_loss-1x12.hlo").unlink()
    done = in_jax(tmp_path)
    assert done.returncode != 0 and "smoothi_loss-1x12" in done.stderr
