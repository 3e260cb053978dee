"""How much faster is a step if TensorFlow keeps the memory that it frees?

    python benchmarks/kept_memory.py --data DIR [--rounds N]

The commands set TF_CPU_ALLOCATOR_USE_BFC=1, TensorFlow's own allocator, which keeps
memory; without it, the C library gives large pieces back to the system. TensorFlow with
oneDNN, its default on CPUs with AVX-512 VNNI or AVX VNNI, keeps memory either way, so
the processes here run without oneDNN. The steps are those of `loss_share.py` with
SmoothI@10, in a process for each setting; the two take turns, one pass over the batches
at a time. Printed are the median over the rounds of the time with kept memory over that
without, with the quartiles, the page faults of a pass, and the peak memory of the
process. DIR holds `MQ2008/Fold1/train.txt`.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

_VARIABLE = "TF_CPU_ALLOCATOR_USE_BFC"
_SHAPES = ("MQ2008", "MSLR-WEB")


def work(shape: str, folder: str) -> None:
    """Makes a pass for each line of the standard input, and prints what it took.

    Args:
        shape: one of `_SHAPES`.
        folder: the argument `--data`.
    """
    # Each process imports TensorFlow with a setting of its own.
    import loss_share

    from tfr_ext import data

    if shape == "MQ2008":
        path = pathlib.Path(folder) / "MQ2008" / "Fold1" / "train.txt"
        lists = data.read_letor(str(path))
    else:
        lists = loss_share.mslr_like()
    train = loss_share.passes(lists, loss_share.LOSSES["SmoothI@10"][0])
    for _ in range(2):
        train()
    for _ in sys.stdin:
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        start = time.perf_counter()
        train()
        elapsed = time.perf_counter() - start
        used = resource.getrusage(resource.RUSAGE_SELF)
        found = elapsed, used.ru_minflt - faults, used.ru_maxrss / 1024
        print(json.dumps(found), flush=True)


class Process:
    """A process that makes passes."""

    def __init__(self, setting: str, shape: str, folder: str):
        """Starts it.

        Args:
            setting: value of the variable.
            shape: see `work`.
            folder: see `work`.
        """
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--data", folder, "--shape", shape],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                _VARIABLE: setting,
                "TF_ENABLE_ONEDNN_OPTS": "0",
                "TF_CPP_MIN_LOG_LEVEL": "3",
            },
        )

    def train(self) -> tuple[float, int, float]:
        """Returns seconds and page faults of a pass, and the most MB so far."""
        print(file=self._process.stdin, flush=True)
        assert self._process.stdout is not None
        seconds, faults, most = json.loads(self._process.stdout.readline())
        return seconds, faults, most

    def close(self) -> None:
        """Ends it."""
        self._process.communicate()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--shape", choices=_SHAPES, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.shape:
        work(flags.shape, flags.data)
        return
    print(
        f"{'shape':<10}{'ratio':>6}{'quartiles':>14}{'page faults':>20}{'peak MB':>14}"
    )
    for shape in _SHAPES:
        pair = [Process(setting, shape, flags.data) for setting in "01"]
        rounds = [[each.train() for each in pair] for _ in range(flags.rounds)]
        for each in pair:
            each.close()
        ratios = [kept[0] / freed[0] for freed, kept in rounds]
        low, middle, high = statistics.quantiles(ratios, n=4)
        faults = [statistics.median(each[1] for each in x) for x in zip(*rounds)]
        most = [each[2] for each in rounds[-1]]
        print(
            f"{shape:<10}{middle:>6.2f}{f'{low:.2f} - {high:.2f}':>14}"
            f"{f'{faults[0]:,.0f} -> {faults[1]:,.0f}':>20}"
            f"{f'{most[0]:,.0f} -> {most[1]:,.0f}':>14}",
            flush=True,
        )


if __name__ == "__main__":
    main()
