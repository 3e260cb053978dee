"""What do mixed precision, XLA and several steps at a time do to an epoch of MQ2008?

    python benchmarks/epoch_options.py --data DIR [--rounds N] [--epochs N]

The SmoothI paper's network and SmoothI@10, as `train` fits them: batches of fold 1 in a
new order each epoch, 128 lists at most. Each row is one setting of `--mixed_precision`,
`--jit_compile`, `--jit_compile_loss` or `--steps_per_execution`. All take turns, some
epochs at a time. Printed is the median over the rounds of the time of an epoch over
that with the defaults in the same round, with the quartiles, and the NDCG@10 of the
validation lists after all rounds. DIR holds `MQ2008/Fold1/train.txt` and `vali.txt`.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")  # as the commands do

from tfr_ext import data, evaluation, losses, models  # noqa: E402
from tfr_ext.training import (
    lists_datasets,  # noqa: E402
    restoring,  # noqa: E402
)

import tensorflow as tf  # noqa: E402  isort: skip

SEED = 1
SETTINGS: dict[str, dict[str, Any]] = {
    "the defaults": {},
    "mixed_precision=bfloat16": {"mixed_precision": "bfloat16"},
    "mixed_precision=float16": {"mixed_precision": "float16"},
    "jit_compile": {"jit_compile": True},
    "jit_compile_loss": {"jit_compile_loss": True},
    "steps_per_execution=4": {"steps_per_execution": 4},
}


def trainer(
    num_features: int,
    mixed_precision: str = "none",
    jit_compile: bool = False,
    jit_compile_loss: bool = False,
    steps_per_execution: int = 1,
) -> tf.keras.Model:
    """Returns the network, compiled with SmoothI@10, as `train` does it.

    Args:
        num_features: width of the features.
        mixed_precision: as the flag.
        jit_compile: as the flag.
        jit_compile_loss: as the flag.
        steps_per_execution: as the flag.
    """
    tf.keras.utils.set_random_seed(SEED)
    with restoring.precision(mixed_precision):
        scorer = models.MLPScorer(compact=not jit_compile)
        model = models.model_builder(num_features, scorer).build()
        loss: tf.keras.losses.Loss = losses.SmoothILoss(topn=10)
        model.compile(
            tf.keras.optimizers.Adam(1e-3),
            losses.JitCompiledLoss(loss) if jit_compile_loss else loss,
            metrics=[evaluation.Convention().keras_metric("ndcg_10")],
            jit_compile=jit_compile,
            steps_per_execution=steps_per_execution,
        )
    return model


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=3)
    flags = parser.parse_args()
    fold = pathlib.Path(flags.data) / "MQ2008" / "Fold1"
    train, valid = (
        data.read_letor(str(fold / f"{name}.txt")) for name in ("train", "vali")
    )
    batched = lists_datasets.ListsDatasets(train, valid, 128, SEED)
    trained = {
        name: trainer(train.num_features, **settings)
        for name, settings in SETTINGS.items()
    }
    times: dict[str, list[float]] = {name: [] for name in trained}
    # The same epochs again in each round, as XLA compiles each new shape of a batch.
    epochs = batched.batches_of(range(flags.epochs)).cache()
    for _ in range(flags.rounds + 1):
        for name, model in trained.items():
            start = time.perf_counter()
            model.fit(epochs, verbose=0)
            times[name].append((time.perf_counter() - start) / flags.epochs)
    print(
        f"{'':<28}{'first, ms':>10}{'ms':>8}{'ratio':>8}{'quartiles':>14}{'NDCG@10':>9}"
    )
    for name, model in trained.items():
        first, *later = times[name]
        ratios = [a / b for a, b in zip(later, times["the defaults"][1:])]
        low, middle, high = statistics.quantiles(ratios, n=4)
        _, ndcg = model.evaluate(batched.build_valid_dataset(), verbose=0)
        print(
            f"{name:<28}{1e3 * first:>10.0f}{1e3 * statistics.median(later):>8.0f}"
            f"{middle:>8.2f}{f'{low:.2f} - {high:.2f}':>14}{ndcg:>9.4f}"
        )


if __name__ == "__main__":
    main()
