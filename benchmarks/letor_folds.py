"""Does SmoothI rank better than TFR's own listwise losses on LETOR folds?

    python benchmarks/letor_folds.py --data DIR [--collection mq2008]
        [--folds 1,2,3,4,5] [--seeds 1,2,3] [--jobs 2]

DIR holds the collections as their archives unpack: `MQ2008/Fold1/train.txt` and
`OHSUMED/QueryLevelNorm/Fold1/train.txt`, and so on. Every loss trains the same network
with the same budget by `python -m pipelines.train --flagfile=configs/COLLECTION.cfg`;
the best epoch is chosen by validation NDCG@10. Prints for each loss and metric the mean
over the folds on the test queries, averaged over the seeds, and the standard deviation
of that mean over the seeds; and the same for the first fold alone.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = {"mq2008": "MQ2008", "ohsumed": "OHSUMED/QueryLevelNorm"}
LOSSES = {
    "smoothi_loss": [],
    "approx_ndcg_loss T=1": ["--loss=approx_ndcg_loss", "--loss_param=temperature=1.0"],
    "softmax_loss": ["--loss=softmax_loss"],
}
METRICS = [
    "precision_1", "precision_5", "ndcg_1", "ndcg_5", "ndcg_10", "ndcg", "map",
]  # fmt: skip


def run(data: str, collection: str, loss: str, fold: int, seed: int) -> dict:
    """Trains once and returns the test metrics."""
    folder = pathlib.Path(data).resolve() / FOLDERS[collection] / f"Fold{fold}"
    with tempfile.TemporaryDirectory() as model_dir:
        command = [
            *(sys.executable, "-m", "pipelines.train"),
            f"--flagfile=configs/{collection}.cfg",
            "--dataset=text",
            f"--train_path={folder}/train.txt",
            f"--valid_path={folder}/vali.txt",
            f"--test_path={folder}/test.txt",
            f"--model_dir={model_dir}",
            f"--metrics={','.join(METRICS)}",
            f"--seed={seed}",
            "--verbose=silent",
            *LOSSES[loss],
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        with open(os.path.join(model_dir, "metrics.json")) as file:
            return json.load(file)["test"]


def main() -> None:
    """Runs everything and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--collection", choices=FOLDERS, default="mq2008")
    parser.add_argument("--folds", default="1,2,3,4,5")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    folds = [int(f) for f in args.folds.split(",")]
    seeds = [int(s) for s in args.seeds.split(",")]
    cells = [(loss, s, f) for loss in LOSSES for s in seeds for f in folds]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = dict(
            zip(
                cells,
                pool.map(
                    lambda cell: run(
                        args.data, args.collection, cell[0], cell[2], cell[1]
                    ),
                    cells,
                ),
            )
        )
    for chosen in (folds, folds[:1])[: len(folds)]:
        print_table(args.collection, results, chosen, seeds)


def print_table(
    collection: str, results: dict, folds: list[int], seeds: list[int]
) -> None:
    """Prints means over folds, and their spread over seeds."""
    print(f"{collection}, folds {folds}, seeds {seeds}")
    print(f"{'':<22}" + "".join(f"{m:>15}" for m in METRICS))
    for loss in LOSSES:
        row = f"{loss:<22}"
        for metric in METRICS:
            means = [
                np.mean([results[loss, s, f][metric] for f in folds]) for s in seeds
            ]
            spread = f" ±{np.std(means, ddof=1):.3f}" if len(seeds) > 1 else ""
            row += f"{f'{np.mean(means):.3f}{spread}':>15}"
        print(row)


if __name__ == "__main__":
    main()
