"""How long does an epoch of MQ2008 take with each loss?

    python benchmarks/epoch_times.py --data DIR [--rounds N] [--seed N]

The SmoothI paper's Table 3 has the seconds of a training epoch of each loss on a GPU,
with the authors' implementations. Here each loss trains the same network (1,024 hidden
units, batch normalisation, Adam, batches of 128) on the training queries of fold 1, in
rounds of ten epochs of every loss, after two rounds that are not timed. Printed is the
median over the rounds of the time over ListNet's in the same round, with the lower and
upper quartile, beside the same ratio of the paper's figures. DIR holds
`MQ2008/Fold1/train.txt`.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tfr_ext import (
    data,  # noqa: E402
    losses,  # noqa: E402
    models,  # noqa: E402
)
from tfr_ext.training import lists_datasets  # noqa: E402

import tensorflow as tf  # noqa: E402  isort: skip

# At a time, so that what `fit` takes to start does not count.
EPOCHS = 10
# The cut-offs of the paper's variants: name, metric, topn.
VARIANTS = (
    ("P@1", "precision", 1),
    ("P@10", "precision", 10),
    ("NDCG@1", "ndcg", 1),
    ("NDCG@10", "ndcg", 10),
    ("NDCG", "ndcg", None),
)
# The paper's seconds for MQ2008 by its names, Table 3.
PAPER = {
    "ListNet": [0.56],
    "ListMLE": [12.50],
    "ListAP": [0.72],
    "LambdaLoss": [13.08, 13.17, 13.76, 13.42, 13.24],
    "Approx": [0.67, 0.68, 0.64, 0.72, 0.65],
    "FastSort-NDCG": [1.62],
    "OT-NDCG": [1.56],
    "NeuralSort-NDCG": [0.75],
    "SoftSort-NDCG": [0.73],
    "SmoothI": [0.65, 0.72, 0.69, 0.70, 1.12],
}
Arguments = dict[str, Any]
# Of each name the loss here: key and arguments.
LOSSES: dict[str, tuple[str, Arguments]] = {
    "ListNet": ("list_net_loss", {}),
    "ListMLE": ("list_mle_loss", {}),
    "ListAP": ("list_ap_loss", {}),
    "LambdaLoss": ("pairwise_logistic_loss", {}),
    "Approx": ("approx_metric_loss", {}),
    "FastSort-NDCG": ("fast_soft_rank_loss", {}),
    "OT-NDCG": ("sinkhorn_sort_loss", {}),
    "NeuralSort-NDCG": ("pirank_ndcg_loss", {"topn": None, "straight_through": False}),
    "SoftSort-NDCG": ("soft_sort_loss", {"form": "position"}),
    "SmoothI": ("smoothi_loss", {}),
}


def rows() -> dict[str, tuple[float, tf.keras.losses.Loss]]:
    """Returns the paper's seconds and the loss of each row of its table."""
    table = {}
    for name, seconds in PAPER.items():
        key, arguments = LOSSES[name]
        if len(seconds) == 1:
            table[name] = seconds[0], losses.get(key, **arguments)
            continue
        for (variant, metric, topn), its_seconds in zip(VARIANTS, seconds):
            if name == "LambdaLoss":
                cut_off = {} if topn is None else {"topn": topn}
                its: Arguments = {
                    "lambda_weight": metric,
                    "lambda_weight_params": cut_off,
                }
            else:
                its = {"metric": metric, "topn": topn}
            table[f"{name}-{variant}"] = its_seconds, losses.get(key, **its)
    return table


def trainer(num_features: int, loss: tf.keras.losses.Loss, seed: int) -> tf.keras.Model:
    """Returns the paper's network, with the same weights for each loss."""
    tf.keras.utils.set_random_seed(seed)
    network = models.MLPScorer(hidden_sizes=[1024], batch_normalization=True)
    model = models.model_builder(num_features, network).build()
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss=loss)
    return model


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    path = pathlib.Path(flags.data) / "MQ2008" / "Fold1" / "train.txt"
    lists = data.read_letor(str(path))
    datasets = lists_datasets.ListsDatasets(lists, lists, 128, flags.seed)
    batches = datasets.batches_of([0]).cache().repeat(EPOCHS)
    table = rows()
    trainers = {
        name: trainer(lists.num_features, loss, flags.seed)
        for name, (_, loss) in table.items()
    }
    times: dict[str, list[float]] = {name: [] for name in table}
    for _ in range(flags.rounds + 2):
        for name, model in trainers.items():
            start = time.perf_counter()
            model.fit(batches, verbose=0)
            times[name].append((time.perf_counter() - start) / EPOCHS)
    print(f"{'':<20}{'ours s':>8}{'ratio':>8}{'quartiles':>14}{'paper':>8}")
    for name, (seconds, _) in table.items():
        ratios = [a / b for a, b in zip(times[name][2:], times["ListNet"][2:])]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"{name:<20}{statistics.median(times[name][2:]):>8.3f}{middle:>8.2f}"
            f"{f'{low:.2f} - {high:.2f}':>14}"
            f"{seconds / PAPER['ListNet'][0]:>8.2f}"
        )


if __name__ == "__main__":
    main()
