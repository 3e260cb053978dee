"""What does a pretrained encoder add to BM25, and does the loss matter?

    tfr-ext embed --encoder=DIR --corpus=F --queries=F --run=F --qrels=Q --output=TABLE
    python benchmarks/text_ranking.py --table TABLE --qrels Q --output FILE

The candidates of the run are ranked again for each query, in five folds by the number
of the query, with three seeds: by their BM25 score, by the cosine of query and
document, by the fusion of both z-scores, with the weight that is best for the queries
of the other folds; and by linear scorers (`Ranker`, model 'linear', learning rate .1,
100 epochs) of score, cosine and length, standardised within each query, and of these
and the numbers of both embeddings, with four losses.

The table has NDCG@10, MAP, NDCG@20 and P@20 over all relevant documents of the
collection: means over seeds and queries, and the p-values of paired t-tests of NDCG@10
over the queries, with BM25, with the fusion, and with SmoothI's scorer of the same
features, without correction.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import scipy.stats  # noqa: E402
from text_tables import metrics  # noqa: E402

import tfr_ext  # noqa: E402

NUMBERS = ["score", "cosine", "length"]
EMBEDDINGS = ["query_embedding", "document_embedding"]
COLUMNS = {"numbers": NUMBERS, "embeddings": [*NUMBERS, *EMBEDDINGS]}
LOSSES = ("smoothi_loss", "approx_ndcg_loss", "pairwise_hinge_loss", "softmax_loss")
FOLDS, SEEDS = 5, (1, 2, 3)

Values = dict[str, tuple[float, ...]]


def linear(
    loss: str, columns: str, seed: int, train: pd.DataFrame, test: pd.DataFrame
) -> np.ndarray:
    """Fits a linear scorer, and returns the scores of the test's rows."""
    names = ["query_id", *COLUMNS[columns]]
    with_vectors = columns == "embeddings"
    ranker = tfr_ext.Ranker(
        loss,
        query="query_id",
        model="linear",
        feature_transforms=["query_standard"],
        learning_rate=0.1,
        num_epochs=100,
        embeddings=EMBEDDINGS if with_vectors else (),
        context=EMBEDDINGS[:1] if with_vectors else (),
        settings={"embedding_inputs": True} if with_vectors else {},
        random_state=seed,
        verbose=0,
    ).fit(train[names], train["label"])
    return ranker.predict(test[names])


def standardised(frame: pd.DataFrame, column: str) -> np.ndarray:
    """Returns z-scores within queries."""
    of_query = frame.groupby("query_id", sort=False)[column]
    spread = of_query.transform("std").fillna(0).replace(0, 1)
    return ((frame[column] - of_query.transform("mean")) / spread).to_numpy()


def fused(frame: pd.DataFrame, every: dict[str, list[int]], fold: pd.Series) -> Values:
    """Returns what the fusion is worth, its weight chosen on the other folds."""
    one, other = (standardised(frame, x) for x in ("score", "cosine"))
    of_weights = [
        metrics(frame, share * one + (1 - share) * other, every)
        for share in np.linspace(0, 1, 21)
    ]
    found: Values = {}
    for number in range(FOLDS):
        here = set(frame["query_id"][fold == number])
        others = [query for query in of_weights[0] if query not in here]
        best = max(of_weights, key=lambda x: np.mean([x[q][0] for q in others]))
        found |= {query: best[query] for query in here}
    return found


def main() -> None:
    """Fits what the file lacks, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", type=pathlib.Path, required=True)
    parser.add_argument("--qrels", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    given = parser.parse_args()
    frame = pd.read_parquet(given.table)
    frame["query"] = frame["query_id"]  # As `metrics` has it.
    grades: dict[str, list[int]] = {}
    for line in given.qrels.read_text().splitlines():
        query, _, _, judged = line.split()
        grades.setdefault(query, []).append(int(judged))
    every = {query: sorted(x, reverse=True) for query, x in grades.items()}
    fold = frame["query_id"].astype(int) % FOLDS
    done: dict[tuple[str, ...], Values] = {}
    if given.output.exists():
        with given.output.open() as file:
            for *names, content in csv.reader(file):
                done[tuple(names)] = json.loads(content)
    for seed, number, columns, loss in itertools.product(
        SEEDS, range(FOLDS), COLUMNS, LOSSES
    ):
        key = (columns, loss, str(seed), str(number))
        if key in done:
            continue
        start = time.monotonic()
        train, test = frame[fold != number], frame[fold == number]
        scores = linear(loss, columns, seed, train, test)
        done[key] = metrics(test, scores, every)
        with given.output.open("a", newline="") as file:
            csv.writer(file).writerow([*key, json.dumps(done[key])])
        print(*key, f"{time.monotonic() - start:.0f} s", flush=True)
    found: dict[tuple[str, str], np.ndarray] = {}
    queries = [*dict.fromkeys(frame["query_id"])]
    for name, values in (
        ("BM25", metrics(frame, frame["score"].to_numpy(), every)),
        ("cosine", metrics(frame, frame["cosine"].to_numpy(), every)),
        ("fusion", fused(frame, every, fold)),
    ):
        found[name, ""] = np.array([values[query] for query in queries])
    for columns, loss in itertools.product(COLUMNS, LOSSES):
        of_seeds = [
            {q: x for key, y in done.items() if key[:3] == wanted for q, x in y.items()}
            for wanted in ((columns, loss, str(seed)) for seed in SEEDS)
        ]
        found[columns, loss] = np.mean(
            [[values[query] for query in queries] for values in of_seeds], axis=0
        )
    table(found)


def table(found: dict[tuple[str, str], np.ndarray]) -> None:
    """Prints the means, and the p-values."""
    print(f"{'':<32}NDCG@10  MAP    NDCG@20  P@20   p: BM25  fusion  SmoothI")
    for (columns, loss), values in found.items():
        ps = []
        for other in (("BM25", ""), ("fusion", ""), (columns, LOSSES[0])):
            same = other == (columns, loss) or other not in found
            base = values if same else found[other]
            p = 1.0 if same else scipy.stats.ttest_rel(values, base).pvalue[0]
            ps.append("-" if same else f"{p:.3f}")
        means = "  ".join(f"{x:.3f}" for x in values.mean(axis=0))
        print(f"{columns:<12}{loss:<20}{means}  {'  '.join(ps)}")


if __name__ == "__main__":
    main()
