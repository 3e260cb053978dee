"""How long does training wait for its input?

    python benchmarks/input_wait.py [--queries N] [--rounds N] [--hidden_sizes 1024]

Trains on lists in the shape of MSLR-WEB (synthetic: 6,000 queries of 120 items of 136
features, batches of 128) as `pipelines.train` does, SmoothI loss and Adam, and times
around each step how long the next batch keeps the trainer waiting. The peer is the
same epoch from batches that are in memory as tensors beforehand, which waits for
nothing; the two take turns. Printed for each scorer: the share of the epoch's time
that is waiting, and the ratio of the epoch's time to the peer's, which also holds what
the work of the input takes away from the step on the same cores; medians over the
rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tfr_ext import data, losses, models  # noqa: E402

import tensorflow as tf  # noqa: E402  isort: skip


class Trainer:
    """A model and its step."""

    def __init__(self, num_features: int, hidden_sizes: list[int]):
        """Builds the model."""
        builder = models.model_builder(num_features, models.MLPScorer(hidden_sizes))
        self._model = builder.build()
        self._loss = losses.SmoothILoss()
        self._optimizer = tf.keras.optimizers.Adam(1e-3)
        self._optimizer.build(self._model.trainable_variables)
        self._step = tf.function(self._train, reduce_retracing=True)

    def _train(self, features: dict, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = self._loss(labels, self._model(features, training=True))
        variables = self._model.trainable_variables
        gradients = tape.gradient(loss, variables)
        self._optimizer.apply_gradients(zip(gradients, variables))
        return loss

    def epoch(self, batches: Iterable) -> tuple[float, float]:
        """Trains on some batches; returns the seconds in all, and those waiting."""
        waiting = 0.0
        start = before = time.perf_counter()
        for features, labels in batches:
            waiting += time.perf_counter() - before
            self._step(features, labels).numpy()
            before = time.perf_counter()
        return before - start, waiting


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--hidden_sizes", nargs="*", default=["1024", "256,128", "64"], help="scorers"
    )
    args = parser.parse_args()
    lists = data.synthetic_lists(args.queries, 120, 131, 5)
    batched = data.BatchedLists(lists, 128, seed=0, max_padding=data.MAX_PADDING)
    ready = list(batched.dataset())
    print(f"{'hidden units':<14}{'s/epoch':>9}{'waiting':>9}{'/ in memory':>13}")
    for name in args.hidden_sizes:
        trainer = Trainer(lists.num_features, [int(size) for size in name.split(",")])
        trainer.epoch(ready[:3])
        trainer.epoch(batched.dataset())
        rounds = [
            (trainer.epoch(batched.dataset()), trainer.epoch(ready)[0])
            for _ in range(args.rounds)
        ]
        total = statistics.median(own for (own, _), _ in rounds)
        share = statistics.median(wait / own for (own, wait), _ in rounds)
        ratio = statistics.median(own / peer for (own, _), peer in rounds)
        print(f"{name:<14}{total:>9.2f}{share:>9.1%}{ratio:>13.3f}", flush=True)


if __name__ == "__main__":
    main()
