"""Writes the steps of losses as HLO, which `hlo_in_jax.py` runs where only JAX is.

    python benchmarks/hlo_of_losses.py --output DIR [--losses KEY ...] [--sizes N ...]

A step is the forward and backward pass of a loss, lowered for XLA at fixed shapes: 32
lists of 200 items, 4 of 1,000, 1 of 10,000, or 1 of another size. For each, DIR gets a
file KEY-BATCHxSIZE.hlo, the serialised HloModuleProto before optimisation, and a file
.npz with labels and scores and, up to `--check_up_to` items, the value and the gradient
that TensorFlow finds without XLA. TensorFlow Ranking's ApproxNDCG is added for
comparison, if it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
from typing import Any

import growth
import numpy as np
import timing

import tensorflow as tf  # isort: skip

BATCHES = {200: 32, 1000: 4, 10000: 1}
PEER = "approx_ndcg_loss"


def write(directory: pathlib.Path, key: str, shape: timing.Shape, check: bool) -> None:
    """Writes the files of a loss at one shape.

    Args:
        directory: where they go.
        key: key of the loss.
        shape: number of lists, and items of each.
        check: whether to write what TensorFlow finds.
    """
    loss = growth.make(key)
    labels, scores = timing.lists(shape, growth.NUM_GRADES)
    lowered: Any = timing.step(loss, jit_compile=True)
    module = lowered.experimental_get_compiler_ir(labels, scores)("hlo_serialized")
    path = directory / f"{key}-{shape[0]}x{shape[1]}"
    path.with_suffix(".hlo").write_bytes(module)
    arrays = {"labels": labels, "scores": scores}
    if check:
        arrays["value"], arrays["gradient"] = timing.step(loss)(labels, scores)
    np.savez(path.with_suffix(".npz"), **{k: v.numpy() for k, v in arrays.items()})


def main() -> None:
    """Writes the files of all losses at all sizes."""
    peers = [PEER] if importlib.util.find_spec("tensorflow_ranking") else []
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", required=True)
    parser.add_argument("--losses", nargs="+", default=growth.own_losses() + peers)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(BATCHES))
    parser.add_argument("--check_up_to", type=int, default=1000)
    flags = parser.parse_args()
    directory = pathlib.Path(flags.output)
    directory.mkdir(parents=True, exist_ok=True)
    for key in flags.losses:
        for size in flags.sizes:
            shape = (BATCHES.get(size, 1), size)
            try:
                write(directory, key, shape, check=size <= flags.check_up_to)
            except tf.errors.OpError as error:
                print(f"{key} {shape}: XLA does not take it: {error.message[:200]}")
    print(f"{len(list(directory.glob('*.hlo')))} steps are in {directory}.")


if __name__ == "__main__":
    main()
