"""Compares the speed of `read_letor` with scikit-learn's `load_svmlight_file`.

Run from the root of the repository, with scikit-learn installed:

    python benchmarks/parse_speed.py [FILES...]

Without FILES two synthetic files are made in a temporary directory: a dense one in
the shape of MSLR-WEB (136 features) and a sparse one. Both readers parse each file
in turn, the first to go alternating. MB are 10**6 bytes of the file as it is stored;
the ratio is the median of the ratios within a turn, above 1 where ours is faster.
Note that ours returns a dense array and scikit-learn a sparse one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_svmlight_file

from tfr_ext.data.letor import read_letor


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


def compare(path: str, repeats: int) -> str:
    """Times both readers on a file and returns a row of the table."""
    readers = {
        "ours": lambda: read_letor(path),
        "sklearn": lambda: load_svmlight_file(path, query_id=True),
    }
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    for turn in range(repeats):
        for name in sorted(readers, reverse=turn % 2 == 1):
            seconds[name].append(time_call(readers[name]))
    megabytes = os.path.getsize(path) / 1e6
    ours, theirs = (megabytes / statistics.median(x) for x in seconds.values())
    pairs = zip(seconds["ours"], seconds["sklearn"])
    ratio = statistics.median(slow / fast for fast, slow in pairs)
    name = os.path.basename(path)
    return f"{name:<20}{megabytes:>8.1f}{ours:>12.1f}{theirs:>15.1f}{ratio:>8.1f}"


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
        print(f"{'file':<20}{'MB':>8}{'ours MB/s':>12}{'sklearn MB/s':>15}{'ratio':>8}")
        for path in files:
            print(compare(path, args.repeats), flush=True)


if __name__ == "__main__":
    main()
