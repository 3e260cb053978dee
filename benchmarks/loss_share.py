"""How much longer is a training step with a loss than with the mean squared error?

    python benchmarks/loss_share.py --data DIR [--rounds N] [--jit_compile_loss]

The SmoothI paper's network (1,024 hidden units, batch normalisation, Adam) takes steps
on MQ2008's training queries of fold 1, bucketed by length, and on lists in the shape of
MSLR-WEB's (136 features, 120 items on average). Batches have 128 lists and are held in
memory. All losses take turns, one pass over the batches at a time. Printed is the
median over the rounds of the time over that of the mean squared error in the same
round, with the quartiles. DIR holds `MQ2008/Fold1/train.txt`.

With `--jit_compile_loss` XLA compiles each loss, as with that flag of `train`, but not
the squared error, nor the model. Also printed is the time of the first pass, in which
it does so.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")  # as the commands do

import numpy as np  # noqa: E402

from tfr_ext import data, losses, models  # noqa: E402
from tfr_ext.data.batches.batching import BatchedLists  # noqa: E402

import tensorflow as tf  # noqa: E402  isort: skip

SEED = 1
# By name the loss, and the ratio that the project sets itself.
LOSSES: dict[str, tuple[tf.keras.losses.Loss, float]] = {
    "MSE": (losses.get("mean_squared_loss"), 1.0),
    "SmoothI@10": (losses.SmoothILoss(topn=10), 1.05),
    "PiRank@10": (losses.PiRankNDCGLoss(topn=10), 1.05),
    "WassRank": (losses.WassRankLoss(), 1.05),
    "SmoothI": (losses.SmoothILoss(), 1.10),
}


def mslr_like(num_lists: int = 256) -> data.RankingLists:
    """Returns random lists in the shape of MSLR-WEB's.

    Args:
        num_lists: number of lists.
    """
    rng = np.random.default_rng(0)
    lengths = rng.integers(60, 180, num_lists, endpoint=True)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    features = rng.normal(size=[splits[-1], 136]).astype(np.float32)
    labels = rng.choice(5, splits[-1], p=[0.52, 0.32, 0.13, 0.02, 0.01])
    names = [str(number) for number in range(num_lists)]
    return data.RankingLists(features, labels.astype(np.float32), splits, names)


def passes(lists: data.RankingLists, loss: tf.keras.losses.Loss) -> Callable[[], None]:
    """Returns what trains a new model on each batch once.

    Args:
        lists: the lists.
        loss: the loss to train with.
    """
    tf.keras.utils.set_random_seed(SEED)
    model = models.model_builder(lists.num_features, models.MLPScorer()).build()
    optimizer = tf.keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    dataset = BatchedLists(lists, 128, SEED).dataset()
    held = list(dataset)

    # As in Keras' `fit`, one graph for all batches.
    @tf.function(input_signature=dataset.element_spec)
    def step(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = loss(labels, model(inputs, training=True))
        slopes = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(slopes, model.trainable_variables))
        return value

    def train() -> None:
        for batch in held:
            step(*batch).numpy()

    return train


def main() -> None:
    """Prints the ratios of both shapes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--jit_compile_loss", action="store_true")
    flags = parser.parse_args()
    path = pathlib.Path(flags.data) / "MQ2008" / "Fold1" / "train.txt"
    shapes = {"MQ2008": data.read_letor(str(path)), "MSLR-WEB": mslr_like()}
    for shape, lists in shapes.items():
        trained = {}
        for name, (loss, _) in LOSSES.items():
            compiled = flags.jit_compile_loss and name != "MSE"
            trained[name] = passes(
                lists, losses.JitCompiledLoss(loss) if compiled else loss
            )
        times: dict[str, list[float]] = {name: [] for name in trained}
        for _ in range(flags.rounds + 2):
            for name, train in trained.items():
                start = time.perf_counter()
                train()
                times[name].append(time.perf_counter() - start)
        print(
            f"{shape:<12}{'first, s':>9}{'ms':>8}{'ratio':>8}{'quartiles':>14}"
            f"{'at most':>9}"
        )
        for name, (_, most) in LOSSES.items():
            ratios = [a / b for a, b in zip(times[name][2:], times["MSE"][2:])]
            low, middle, high = statistics.quantiles(ratios, n=4)
            print(
                f"{name:<12}{times[name][0]:>9.1f}"
                f"{1e3 * statistics.median(times[name][2:]):>8.1f}"
                f"{middle:>8.2f}{f'{low:.2f} - {high:.2f}':>14}{most:>9.2f}"
            )


if __name__ == "__main__":
    main()
