"""Compares the speed of `read_letor` with scikit-learn's and LightGBM's loaders.

Run from the root of the repository, with scikit-learn and LightGBM installed:

    python benchmarks/parse_speed.py [FILES...]

Without FILES two synthetic files are made in a temporary directory: a dense one in
the shape of MSLR-WEB (136 features) and a sparse one. All readers parse each file in
turn, each turn in another order. MB are 10**6 bytes of the file as it is stored; a
ratio is the median of the ratios within a turn, above 1 where ours is faster.

They do not return the same: ours a dense array, scikit-learn's `load_svmlight_file` a
sparse one. LightGBM's `Dataset` takes no queries from such lines: it reads a copy
without `qid:` and comments, on all cores, and sorts the values into bins, which is the
only form that it has them in.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable

import lightgbm
import numpy as np
from sklearn.datasets import load_svmlight_file

from tfr_ext.data.letor.reading import read_letor


def write_dense(path: str, megabytes: float) -> None:
    """Writes lines of 136 features, integers and decimals, as MSLR-WEB has."""
    rng = np.random.default_rng(0)
    written = line = 0
    with open(path, "w") as file:
        while written < megabytes * 1e6:
            values = np.round(rng.gamma(0.5, 20.0, 136), 6)
            values[::2] = np.floor(values[::2])
            pairs = " ".join(f"{i}:{v:g}" for i, v in enumerate(values, 1))
            written += file.write(f"{rng.integers(5)} qid:{line // 120} {pairs}\n")
            line += 1


def write_sparse(path: str, megabytes: float) -> None:
    """Writes lines of some 40 of 700 features, as the Yahoo set has."""
    rng = np.random.default_rng(0)
    written = line = 0
    with open(path, "w") as file:
        while written < megabytes * 1e6:
            chosen = np.flatnonzero(rng.random(700) < 0.06) + 1
            values = rng.random(len(chosen))
            pairs = " ".join(f"{i}:{v:.5f}" for i, v in zip(chosen, values))
            written += file.write(f"{rng.integers(5)} qid:{line // 24} {pairs}\n")
            line += 1


def time_call(call: Callable[[], object]) -> float:
    """Returns the seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def without_queries(path: str, folder: str) -> str:
    """Copies a file without its `qid:` and comments; returns the path of the copy."""
    copy = os.path.join(folder, "without_queries.txt")
    with open(path) as source, open(copy, "w") as target:
        for line in source:
            target.write(re.sub(r" qid:\S+| *#.*", "", line))
    return copy


def compare(path: str, repeats: int) -> str:
    """Times all readers on a file and returns a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        copy = without_queries(path, folder)
        readers: dict[str, Callable[[], object]] = {
            "ours": lambda: read_letor(path),
            "sklearn": lambda: load_svmlight_file(path, query_id=True),
            "lightgbm": lambda: lightgbm.Dataset(
                copy, params={"verbose": -1}
            ).construct(),
        }
        names = list(readers)
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(repeats):
            for i in range(len(names)):
                name = names[(turn + i) % len(names)]
                seconds[name].append(time_call(readers[name]))
    megabytes = os.path.getsize(path) / 1e6
    row = f"{os.path.basename(path):<20}{megabytes:>8.1f}"
    for name in names:
        row += f"{megabytes / statistics.median(seconds[name]):>15.1f}"
    for name in names[1:]:
        pairs = zip(seconds["ours"], seconds[name])
        row += f"{statistics.median(slow / fast for fast, slow in pairs):>10.1f}"
    return row


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="LETOR files, not compressed")
    parser.add_argument("--repeats", type=int, default=5, help="turns (default 5)")
    parser.add_argument(
        "--megabytes", type=float, default=60, help="size of a synthetic file"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = list(args.files)
        if not files:
            files = [os.path.join(folder, x) for x in ("dense.txt", "sparse.txt")]
            write_dense(files[0], args.megabytes)
            write_sparse(files[1], args.megabytes)
        print(
            f"{'file':<20}{'MB':>8}{'ours MB/s':>15}{'sklearn MB/s':>15}"
            f"{'lightgbm MB/s':>15}{'/ sklearn':>10}{'/ lightgbm':>11}"
        )
        for path in files:
            print(compare(path, args.repeats), flush=True)


if __name__ == "__main__":
    main()
