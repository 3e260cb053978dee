"""Is a neural ensemble, or its fusion with LambdaMART, ahead of LambdaMART?

    python benchmarks/rankers.py --experiments DIR [--against RANKER] [--docs DIR]

DIR has what the experiments configs/experiments/rankers_trees_*.cfg and
rankers_losses_*.cfg left: DIR/rankers_trees_mq2008 and so on. Averages the three seeds
of each kind of trees, fuses LambdaMART with the ensemble of three networks (z-scores,
equal weights), compares all with LambdaMART (or RANKER) on the queries of all
collections together and of each, and prints the tables that
docs/reproduction/rankers.md includes; --docs writes them there.
"""

from __future__ import annotations

import argparse
import collections
import csv
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from papers import tables  # noqa: E402

from tfr_ext.evaluation import comparison  # noqa: E402
from tfr_ext.training import FusionConfig, fuse  # noqa: E402

COLLECTIONS = {"mq2008": "MQ2008", "ohsumed": "OHSUMED", "mslr35": "MSLR sample"}
METRICS = ("ndcg_10", "map")
BASELINE = "LambdaMART"
ENSEMBLE = "Ensemble LambdaLoss"
# The fusions: the name of each, and what it fuses, fold by fold, with equal weights.
FUSIONS = {
    "LambdaMART, 3 seeds": ("LambdaMART",),
    "YetiRank, 3 seeds": ("YetiRank",),
    "Fusion: LambdaMART, 3 seeds + ensemble": ("LambdaMART, 3 seeds", ENSEMBLE),
}
# Fold by fold, the directories of the seeds.
Runs = dict[str, dict[str, list[str]]]


def main() -> None:
    """Writes the tables, and prints them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=pathlib.Path, required=True)
    parser.add_argument("--docs", type=pathlib.Path)
    parser.add_argument("--against", default=BASELINE)
    arguments = parser.parse_args()
    folder = arguments.experiments
    runs: dict[str, Runs] = {name: chosen(folder, name) for name in COLLECTIONS}
    for name, found in runs.items():
        fuse_seeds(found, folder / "rankers_fused" / name)
    methods = [
        method
        for method in runs["mq2008"]
        if all(len(found.get(method, ())) == 5 for found in runs.values())
    ]
    paths = {
        method: [
            f"{name}:{path}"
            for name, found in runs.items()
            for seeds in found[method].values()
            for path in seeds
        ]
        for method in methods
    }
    options = comparison.Options(
        metrics=METRICS, correction="none", against=arguments.against
    )
    compared = comparison.compare(paths, options)
    text = {f"rankers_{m}": table(compared, m, paths) for m in METRICS}
    for name, lines in text.items():
        print(f"{name}\n{lines}")
        if arguments.docs:
            target = arguments.docs / "reproduction" / "pooled" / f"{name}.md"
            target.write_text(f"{lines}\n", encoding="utf-8")


def chosen(folder: pathlib.Path, collection: str) -> Runs:
    """Returns the directories of the chosen cells by method and fold.

    Args:
        folder: the directory of the experiments.
        collection: the collection.
    """
    found: Runs = collections.defaultdict(lambda: collections.defaultdict(list))
    for part in ("trees", "losses"):
        directory = folder / f"rankers_{part}_{collection}"
        with (directory / "selected.tsv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                path = os.path.normpath(directory / row["directory"])
                found[row["method"]][row["fold"]].append(path)
    return found


def fuse_seeds(found: Runs, folder: pathlib.Path) -> None:
    """Fuses what `FUSIONS` says, fold by fold, and adds it to the runs.

    Args:
        found: the runs of a collection.
        folder: where the fused runs go.
    """
    for number, (name, parts) in enumerate(FUSIONS.items()):
        for fold in found[BASELINE]:
            directory = folder / f"fusion_{number}" / f"fold_{fold}"
            runs = tuple(path for part in parts for path in found[part][fold])
            fuse(FusionConfig(runs=runs, output_dir=str(directory)))
            found[name][fold] = [str(directory)]


def table(
    compared: comparison.Comparison, metric: str, paths: dict[str, list[str]]
) -> str:
    """Returns a table of the differences to the baseline, best first.

    Args:
        compared: the comparison.
        metric: the metric.
        paths: the directories of each method, after the name of the collection.
    """
    rows = []
    results = {name: found[metric] for name, found in compared.results.items()}
    for name, result in sorted(results.items(), key=lambda item: -item[1].mean):
        effect = result.effect
        row = [name, f"{result.mean:.4f}"]
        if effect is None:
            rows.append([*row, *[""] * (3 + len(COLLECTIONS))])
            continue
        rows.append(
            [
                *row,
                f"{effect.difference:+.4f}",
                f"{effect.low:+.4f} to {effect.high:+.4f}",
                f"{effect.p_value:.4f}",
                *(f"{result.by_collection[c].difference:+.4f}" for c in COLLECTIONS),
            ]
        )
    titles = ["ranker", "mean", "difference", "95 % interval", "p"]
    return tables.markdown([*titles, *COLLECTIONS.values()], rows)


if __name__ == "__main__":
    main()
