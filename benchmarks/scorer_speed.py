"""How long does an epoch take with each scorer, and how much memory do long lists need?

    python benchmarks/scorer_speed.py [--rounds N]

Epochs: each scorer, with its default sizes, trains with SmoothI@10 on synthetic lists
in the shape of MQ2008's training queries (480 lists of 8 to 40 items, 46 features,
batches of 32), in rounds of one epoch of every scorer. Printed is the median over the
rounds of the time over that of `mlp` in the same round.

Memory: what three training steps on 8 lists of 1,000 items of 136 features add to the
peak of a separate process, which has taken a step on short lists before, in MB.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import timing  # noqa: E402

from tfr_ext import losses, models  # noqa: E402
from tfr_ext.models import presets  # noqa: E402

import tensorflow as tf  # noqa: E402  isort: skip

LONG = (8, 1000, 136)


def built(name: str, num_features: int) -> tf.keras.Model:
    """Returns a compiled model with the default sizes of a scorer.

    Args:
        name: name of the scorer.
        num_features: width of the features.
    """
    scorer = presets.scorer(name, dict.fromkeys(presets.OPTIONS))
    model = models.model_builder(num_features, scorer).build()
    model.compile("adam", losses.SmoothILoss(topn=10))
    return model


def lists(num_lists: int, size: int, num_features: int, low: int) -> list:
    """Returns features, mask and labels of random lists.

    Args:
        num_lists: number of lists.
        size: length of the longest.
        num_features: width of the features.
        low: length of the shortest.
    """
    rng = np.random.default_rng(0)
    lengths = np.sort(rng.integers(low, size, num_lists, endpoint=True))
    mask = np.arange(size) < lengths[:, np.newaxis]
    features = rng.normal(size=[num_lists, size, num_features]).astype(np.float32)
    labels = np.where(mask, rng.integers(0, 3, mask.shape), -1).astype(np.float32)
    return [{"float_features": features, "mask": mask}, labels]


def epochs(rounds: int) -> None:
    """Prints the ratio of each scorer's epoch to that of the MLP.

    Args:
        rounds: number of rounds that are timed.
    """
    data = tf.data.Dataset.from_tensor_slices(tuple(lists(480, 40, 46, 8))).batch(32)
    data = data.cache()
    trained = {name: built(name, 46) for name in presets.PRESETS}
    times: dict[str, list[float]] = {name: [] for name in trained}
    for turn in range(rounds + 1):
        for name, model in trained.items():
            start = time.perf_counter()
            model.fit(data, epochs=1, verbose=0)
            if turn:  # The first also compiles.
                times[name].append(time.perf_counter() - start)
    print("scorer          an epoch over mlp's: median (quartiles)")
    for name, found in times.items():
        ratios = [a / b for a, b in zip(found, times["mlp"])]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{name:<15} {middle:6.2f} ({low:.2f} to {high:.2f})")


def memory() -> None:
    """Prints what training on long lists with each scorer adds to a process."""
    print("scorer          MB of three steps on 8 lists of 1,000 x 136")
    for name in presets.PRESETS:
        print(f"{name:<15} {float(timing.own_process('--memory_of', name)):6.0f}")


def added(name: str) -> float:
    """Returns what three steps on long lists add to this process, in MB.

    Args:
        name: name of the scorer.
    """
    num_lists, size, num_features = LONG
    model = built(name, num_features)
    model.train_on_batch(*lists(num_lists, 16, num_features, 16))
    x, y = lists(num_lists, size, num_features, size)

    def steps() -> None:
        for _ in range(3):
            model.train_on_batch(x, y)

    return timing.added_while(steps)


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory_of", help="prints the memory of one scorer alone")
    arguments = parser.parse_args()
    if arguments.memory_of:
        print(added(arguments.memory_of))
        return
    epochs(arguments.rounds)
    memory()


if __name__ == "__main__":
    main()
