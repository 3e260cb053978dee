"""How good is a single feature of OHSUMED, and what does a first stage of 150 cost?

    python benchmarks/ohsumed_features.py --data DIR

DIR has the folds, DIR/Fold1/test.txt to DIR/Fold5/test.txt. Ranks the documents of each
query by each feature alone, higher first, and prints trec_eval's P@1, NDCG@5 and MAP of
the feature with the best MAP: of all documents, and of the 150 best by that feature,
where relevant documents that it leaves out count as not found. Then the same of a
ranking by the labels, the best there is, and how many features exceed the best figures
of the paper on judgement distributions. Queries without a relevant document count 0.
"""

from __future__ import annotations

import argparse
import pathlib

import numpy as np
import pytrec_eval
from papers import results

from tfr_ext import data

MEASURES = {"P_1": "P@1", "ndcg_cut_5": "NDCG@5", "map": "MAP"}
COLUMNS = ("precision_1", "ndcg_5", "map")
FIRST_STAGE = 150


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    folder = parser.parse_args().data
    queries = []
    for fold in range(1, 6):
        lists = data.read_letor(str(folder / f"Fold{fold}" / "test.txt"))
        for start, end in zip(lists.row_splits[:-1], lists.row_splits[1:]):
            queries.append((lists.features[start:end], lists.labels[start:end]))
    qrels = {
        str(q): {str(d): int(label) for d, label in enumerate(labels)}
        for q, (_, labels) in enumerate(queries)
    }
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"P.1", "ndcg_cut.5", "map"})

    def figures(scores: list[np.ndarray], kept: list[np.ndarray]) -> list[float]:
        run = {
            # trec_eval has an order of its own for ties: here they stay as they stood.
            str(q): {str(d): -float(rank) for rank, d in enumerate(order) if keep[d]}
            for q, (keep, order) in enumerate(
                zip(kept, (np.argsort(-s, kind="stable") for s in scores))
            )
        }
        found = evaluator.evaluate(run).values()
        return [sum(v[name] for v in found) / len(queries) for name in MEASURES]

    everything = [np.ones(len(labels), bool) for _, labels in queries]
    of_features = [
        figures([features[:, j] for features, _ in queries], everything)
        for j in range(queries[0][0].shape[1])
    ]
    best = int(np.argmax([row[-1] for row in of_features]))
    first_stage = []
    for features, labels in queries:
        keep = np.zeros(len(labels), bool)
        keep[np.argsort(-features[:, best], kind="stable")[:FIRST_STAGE]] = True
        first_stage.append(keep)
    feature = [features[:, best] for features, _ in queries]
    judged = [labels for _, labels in queries]
    rows = {
        f"feature {best + 1}, all documents": of_features[best],
        f"feature {best + 1}, best {FIRST_STAGE}": figures(feature, first_stage),
        "labels, all documents": figures(judged, everything),
        f"labels, best {FIRST_STAGE}": figures(judged, first_stage),
    }
    print(f"{'':<27}" + "".join(f"{name:>9}" for name in MEASURES.values()))
    for name, row in rows.items():
        print(f"{name:<27}" + "".join(f"{value:>9.3f}" for value in row))
    table = results.published("kl/ohsumed")
    theirs = [max(table.value(loss, m) for loss in table.rows) for m in COLUMNS]
    above = sum(all(a > b for a, b in zip(row, theirs)) for row in of_features)
    print(f"{above} features exceed the paper's best {theirs} in all three.")
    left = sum(int((y[~k] > 0).sum()) for y, k in zip(judged, first_stage))
    relevant = sum(int((y > 0).sum()) for y in judged)
    print(f"{left} of {relevant} relevant documents are not among the {FIRST_STAGE}.")


if __name__ == "__main__":
    main()
