"""What categories cost, and that numbers alone cost nothing more.

    python benchmarks/categories.py step
    python benchmarks/categories.py many [--brands N]
    python benchmarks/categories.py numbers --old CHECKOUT [--rounds N]

`step`: milliseconds of a training step (128 lists of 20 items, 10 numbers, hidden
layers of 256 and 128, Adam) without categories, with one of 100,000 values, and the
same compiled by XLA; the steps take turns, and the ratios are medians of those within a
turn. `many`: seconds and the peak of memory of the vocabulary of two million brands,
four rows each, from a data frame. `numbers`: epochs in the shape of MSLR-WEB (136
features, 120 items a list) by this checkout and by an older one, in turn, each in a
process of its own that tells the median of 15; the ratio's median over the rounds, with
the 95 % interval of that median (order statistics).
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

VALUES, TURNS, BATCHES = 100_000, 15, 10


def model_of(keys: int, jit_compile: bool) -> Callable[[], None]:
    """Returns a function that trains for some steps."""
    import tensorflow as tf

    from tfr_ext import data, losses, models

    rng = np.random.default_rng(0)
    spec, ids = None, {}
    if keys:
        brand = data.Feature("brand", "category")
        spec = data.FeatureSpec((data.Feature("x", width=10), brand))
        ids = {"ids": np.sort(rng.choice(2**62, keys))}
        counts = np.ones(keys, np.int64)
    scorer = models.MLPScorer([256, 128], compact=not jit_compile)
    known = {"brand": models.Vocabulary(ids["ids"], counts)} if keys else None
    model = models.model_builder(10, scorer, None, spec, known).build()
    model.compile("adam", losses.SmoothILoss(), jit_compile=jit_compile)
    x: dict[str, Any] = {
        "float_features": rng.normal(size=[128, 20, 10]).astype(np.float32),
        "mask": np.ones([128, 20], bool),
    }
    if keys:
        x["ids"] = rng.choice(ids["ids"], [128, 20, 1])
    y = rng.integers(0, 5, [128, 20]).astype(np.float32)
    batches = tf.data.Dataset.from_tensors((x, y)).repeat(BATCHES)
    return lambda: model.fit(batches, verbose=0)


def step() -> None:
    """Prints the times of steps."""
    forms = {
        "numbers": (0, False),
        "100,000 values": (VALUES, False),
        "numbers, XLA": (0, True),
        "100,000 values, XLA": (VALUES, True),
    }
    calls = {name: model_of(*form) for name, form in forms.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(TURNS + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn:
                times[name].append((time.perf_counter() - start) / BATCHES * 1e3)
    for name, found in times.items():
        print(f"{name:<22}{statistics.median(found):7.1f} ms")
    for one, other in (
        ("100,000 values", "numbers"),
        ("100,000 values, XLA", "100,000 values"),
    ):
        ratios = [a / b for a, b in zip(times[one], times[other])]
        print(f"{one} / {other}: {statistics.median(ratios):.2f}")


def many(brands: int) -> None:
    """Prints what the vocabulary of many brands takes."""
    import pandas

    from tfr_ext import data, models

    rng = np.random.default_rng(0)
    brand = rng.permutation(np.repeat(np.arange(brands), 4))
    frame = pandas.DataFrame({"query": np.arange(len(brand)) // 20, "y": 0.0})
    frame["brand"] = [f"brand {x}" for x in brand]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    lists = data.RankingLists.from_dataframe(
        frame, "y", "query", features=[], categories=["brand"]
    )
    read = time.perf_counter()
    (known,) = models.vocabularies([lists]).values()
    end = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{brands:,} brands, {lists.num_items:,} rows: ids {read - start:.1f} s, "
        f"vocabulary {end - read:.1f} s ({len(known.keys):,} kept), "
        f"{(peak - before) / 2**20:.2f} GiB more than the frame ({before / 2**20:.2f})"
    )


EPOCHS = """
import os, statistics, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
from tfr_ext import data, losses, models
rng = np.random.default_rng(0)
lists = data.RankingLists.from_arrays(
    rng.normal(size=[60_000, 136]).astype("float32"), rng.integers(0, 5, 60_000),
    group=[120] * 500)
model = models.model_builder(136, models.MLPScorer([1024])).build()
model.compile("adam", losses.SmoothILoss())
batches = data.BatchedLists(lists, 32, seed=1).dataset()
model.fit(batches, verbose=0)
times = []
for _ in range(15):
    start = time.perf_counter()
    model.fit(batches, verbose=0)
    times.append(time.perf_counter() - start)
print(statistics.median(times))
"""


def numbers(old: str, rounds: int) -> None:
    """Prints the ratio of this checkout's epochs to an older one's."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    def seconds(checkout: str) -> float:
        environment = {**os.environ, "PYTHONPATH": checkout}
        done = subprocess.run(
            [sys.executable, "-c", EPOCHS],
            env=environment,
            cwd=checkout,
            check=True,
            capture_output=True,
            text=True,
        )
        return float(done.stdout.split()[-1])

    ratios = []
    for number in range(rounds):
        pair = [old, here][:: 1 if number % 2 else -1]
        found = {checkout: seconds(checkout) for checkout in pair}
        ratios.append(found[here] / found[old])
        print(f"{found[here]:.2f} s here, {found[old]:.2f} s there", flush=True)
    ratios.sort()
    # Ranks whose interval covers the median with at least 95 %.
    low = int(rounds / 2 - 0.98 * rounds**0.5)
    print(
        f"median ratio {statistics.median(ratios):.3f}, "
        f"95 % interval {ratios[low]:.3f} to {ratios[-1 - low]:.3f}"
    )


def main() -> None:
    """Runs what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["step", "many", "numbers"])
    parser.add_argument("--brands", type=int, default=2_000_000)
    parser.add_argument("--old")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    if given.part == "step":
        step()
    elif given.part == "many":
        many(given.brands)
    elif given.old is None:
        parser.error("numbers needs --old, an older checkout")
    else:
        numbers(os.path.abspath(given.old), given.rounds)


if __name__ == "__main__":
    main()
