"""Runs the steps that `hlo_of_losses.py` has written, on the device that JAX has.

    python benchmarks/hlo_in_jax.py DIR [--runs N]

It needs JAX and NumPy, and nothing else: copy this file and DIR to a machine with a
GPU. Tried with JAX 0.10.2. Each step is compiled by JAX's compiler. The script fails if
the value or the gradient differs from TensorFlow's, where DIR has these. Columns: the
median milliseconds of a step; the bytes of labels, scores, value and gradient, which it
must move at least, per second; and the memory that XLA sets aside for it, over these
bytes.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
import time
from typing import Any

import jax
import numpy as np
from jax._src.lib import xla_client


def compiled(module: bytes) -> Any:
    """Compiles a serialised HloModuleProto for the first device."""
    device = jax.devices()[0]
    return device.client.compile_and_load(
        xla_client._xla.mlir.hlo_to_stablehlo(module),
        xla_client.DeviceList((device,)),
        xla_client.CompileOptions(),
    )


def run(step: Any, arguments: list[jax.Array]) -> list[jax.Array]:
    """Takes a step; returns its results once they are there."""
    results = step.execute_sharded(arguments).disassemble_into_single_device_arrays()
    return [jax.block_until_ready(result[0]) for result in results]


def measure(path: pathlib.Path, runs: int) -> str:
    """Returns the line of a step.

    Args:
        path: the file with its HLO.
        runs: how often it is timed.

    Raises:
        AssertionError: if its results are not those of TensorFlow.
    """
    arrays = np.load(path.with_suffix(".npz"))
    arguments = [jax.device_put(arrays[name]) for name in ("labels", "scores")]
    step = compiled(path.read_bytes())
    value, gradient = (np.asarray(result) for result in run(step, arguments))
    if "value" in arrays:
        expected = arrays["gradient"]
        np.testing.assert_allclose(value, arrays["value"], rtol=1e-4, err_msg=path.stem)
        atol = 1e-3 * np.abs(expected).max()
        np.testing.assert_allclose(gradient, expected, atol=atol, err_msg=path.stem)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run(step, arguments)
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times)
    least = value.nbytes + gradient.nbytes + sum(a.nbytes for a in arguments)
    memory = step.get_compiled_memory_stats().temp_size_in_bytes
    checked = "yes" if "value" in arrays else "no"
    return (
        f"| {path.stem} | {1e3 * seconds:.3f} | {least / seconds / 1e9:.3f} "
        f"| {memory / least:.1f} | {checked} |"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--runs", type=int, default=20)
    flags = parser.parse_args()
    paths = sorted(pathlib.Path(flags.directory).glob("*.hlo"))
    if not paths:
        sys.exit(f"{flags.directory} has no *.hlo of hlo_of_losses.py.")
    print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}\n")
    print("| step | ms | least bytes, GB/s | memory / least bytes | as TensorFlow |")
    print("|---|---|---|---|---|")
    for path in paths:
        print(measure(path, flags.runs), flush=True)


if __name__ == "__main__":
    main()
