"""Ranks OHSUMED by LambdaMART, fold by fold, for a second ranker to rank its best anew.

    python benchmarks/first_stage.py --data DIR [--output DIR]

DIR has OHSUMED, as --manual_dir of `tfr-ext train`; what is prepared of it goes to
data/prepared, as in the experiments. Trains trees on each fold and
leaves the run of each split in OUTPUT/ohsumed_foldK/{test,valid,train}.trec, which is
what --rerank_run of configs/experiments/kl_network_ohsumed_top150.cfg names. Prints
NDCG@10 of the test queries, and how many relevant documents are not among the best 150.
Trees rank the lists that they were trained on better than others.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tfr_ext import gbm  # noqa: E402
from tfr_ext.core.messages import say  # noqa: E402
from tfr_ext.evaluation import trec  # noqa: E402
from tfr_ext.sources import data_splits, long_lists  # noqa: E402
from tfr_ext.training import DataConfig, MetricsConfig  # noqa: E402

DEPTH = 150


def main() -> None:
    """Trains on each fold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("models/first_stage")
    )
    arguments = parser.parse_args()
    for fold in range(1, 6):
        rank(fold, arguments.data, arguments.output / f"ohsumed_fold{fold}")


def rank(fold: int, data_dir: pathlib.Path, output: pathlib.Path) -> None:
    """Trains on a fold, and writes the runs of its splits.

    Args:
        fold: the number of the fold.
        data_dir: the directory with the collection.
        output: where the runs go.
    """
    data = DataConfig(
        dataset=f"ohsumed/fold{fold}",
        manual_dir=str(data_dir),
        data_dir="data/prepared",
    )
    result = gbm.train(
        gbm.GbmConfig(
            data=data,
            evaluation=MetricsConfig(metrics=("ndcg_10",)),
            num_trees=300,
            learning_rate=0.05,
            num_leaves=15,
            early_stopping_patience=100,
            draw_curves=False,
            model_dir=str(output / "trees"),
        )
    )
    for split, name in (("test", "run.trec"), ("valid", "run.valid.trec")):
        shutil.copyfile(output / "trees" / name, output / f"{split}.trec")
    splits: Any = data_splits.load(data)
    train, test = splits.train, splits.test
    trec.write_run(
        str(output / "train.trec"), train, result.model.score_lists(train), "LambdaMART"
    )
    best = long_lists.rerank(test, [str(output / "test.trec")], DEPTH)
    relevant, kept = ((lists.labels > 0).sum() for lists in (test, best))
    say(
        f"Fold {fold}: test NDCG@10 {result.metrics['test']['ndcg_10']:.4f}; "
        f"{relevant - kept} of {relevant} relevant documents are not among the best "
        f"{DEPTH}."
    )


if __name__ == "__main__":
    main()
