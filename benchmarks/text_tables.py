"""Do the words of queries and documents add to BM25? Two old test collections.

    python benchmarks/text_tables.py --data DIR/text/vaswani --output FILE
    python benchmarks/text_tables.py --data DIR/text/cranfield --output FILE

A directory has BEIR's `corpus.jsonl.gz` and `queries.jsonl.gz`, `qrels.txt` and a run,
`bm25.run.gz`. The 100 documents of the run are ranked again for each query, in five
folds by the number of the query, with `--seeds` seeds (three): by BM25 alone, and by
`Ranker` with BM25, with the texts of queries and documents, and with both, for several
losses; by LightGBM (lambdarank) with BM25 and with both. All are at their defaults, but
for the number of words; trees stop at their best of 20 % of the queries, as `Ranker`
does.

The table has NDCG@10 and MAP of the ranked documents, over all relevant ones of the
collection: the mean over seeds and queries, and the p-value of a paired t-test with
BM25 over the queries, without correction.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import os
import pathlib
import tempfile
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import scipy.stats  # noqa: E402

import tfr_ext  # noqa: E402
from tfr_ext import gbm  # noqa: E402
from tfr_ext.data import RankingLists  # noqa: E402
from tfr_ext.sources.data_splits import Splits  # noqa: E402

BM25, TEXTS = "bm25", ["words", "text"]
COLUMNS = {"BM25": [BM25], "texts": TEXTS, "BM25 and texts": [BM25, *TEXTS]}
LOSSES = ("smoothi_loss", "pirank_ndcg_loss", "list_net_loss", "wass_rank_loss")
FOLDS = 5


def lines(path: pathlib.Path) -> dict[str, str]:
    """Returns the text of each id in JSON lines."""
    with gzip.open(path, "rt") as file:
        return {x["_id"]: x["text"] for x in map(json.loads, file)}


def read(folder: pathlib.Path) -> tuple[pd.DataFrame, dict[str, list[int]]]:
    """Returns the documents of each query, and the grades of all relevant ones."""
    corpus, queries = (lines(folder / f"{x}.jsonl.gz") for x in ("corpus", "queries"))
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.txt").read_text().splitlines():
        query, _, document, judged = line.split()
        grades.setdefault(query, {})[document] = int(judged)
    rows = []
    with gzip.open(folder / "bm25.run.gz", "rt") as file:
        for line in file:
            query, _, document, _, score, _ = line.split()
            if query in grades:
                grade = grades[query].get(document, 0)
                texts = queries[query], corpus[document]
                rows.append((query, float(score), *texts, grade))
    frame = pd.DataFrame(rows, columns=["query", BM25, *TEXTS, "label"])
    every = {query: sorted(x.values(), reverse=True) for query, x in grades.items()}
    return frame, every


def lists_of(frame: pd.DataFrame, columns: str, words: int) -> RankingLists:
    """Returns a frame as lists."""
    names = COLUMNS[columns]
    texts = [name for name in names if name in TEXTS]
    return RankingLists.from_dataframe(
        frame[["query", "label", *names]],
        *("label", "query"),
        texts=texts,
        context=texts[:1],
        text_words=words,
    )


def scored(
    method: str,
    columns: str,
    seed: int,
    words: int,
    train: pd.DataFrame,
    test: pd.DataFrame,
) -> np.ndarray:
    """Fits a method, and returns the scores of the test's rows."""
    names = ["query", *COLUMNS[columns]]
    texts = [name for name in names if name in TEXTS]
    if method != "lambdarank":
        ranker = tfr_ext.Ranker(
            method,
            query="query",
            texts=texts,
            context=texts[:1],
            settings={"text_words": words} if texts else {},
            random_state=seed,
            verbose=0,
        ).fit(train[names], train["label"])
        return ranker.predict(test[names])
    held = pd.factorize(train["query"])[0] % 5 == 0
    parts = [lists_of(train[x], columns, words) for x in (~held, held)]
    with tempfile.TemporaryDirectory() as folder:
        config = gbm.GbmConfig(
            model_dir=folder,
            draw_curves=False,
            early_stopping_patience=20,
            data=tfr_ext.training.DataConfig(seed=seed),
        )
        model = gbm.train(config, Splits(parts[0], parts[1], parts[1])).model
        return model.score_lists(lists_of(test, columns, words))


def metrics(
    frame: pd.DataFrame, scores: np.ndarray, every: dict[str, list[int]]
) -> dict[str, tuple[float, ...]]:
    """NDCG@10, average precision, NDCG@20 and P@20 of each query."""
    found: dict[str, tuple[float, ...]] = {}
    discounts = 1 / np.log2(np.arange(2, 22))
    for query, rows in frame.assign(score=scores).groupby("query", sort=False):
        ranked = rows.sort_values("score", ascending=False, kind="stable")["label"]
        gains = np.exp2(ranked.to_numpy()) - 1
        best = np.exp2(np.array(every[str(query)])) - 1
        ndcg = [
            (gains[:k] * discounts[: len(gains[:k])]).sum()
            / (best[:k] * discounts[: len(best[:k])]).sum()
            for k in (10, 20)
        ]
        relevant = gains > 0
        precision = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
        mean = (precision * relevant).sum() / len(best[best > 0])
        found[str(query)] = (ndcg[0], mean, ndcg[1], relevant[:20].sum() / 20)
    return found


def main() -> None:
    """Fits what the file lacks, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--words", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    frame, every = read(given.data)
    number = frame["query"].astype(int)
    methods = [*itertools.product(LOSSES, COLUMNS)]
    methods += [("lambdarank", "BM25"), ("lambdarank", "BM25 and texts")]
    done: dict[tuple[str, ...], dict[str, tuple[float, ...]]] = {}
    if given.output.exists():
        with given.output.open() as file:
            for *names, content in csv.reader(file):
                if int(names[2]) <= given.seeds:
                    done[tuple(names)] = json.loads(content)
    for seed, fold, (method, columns) in itertools.product(
        range(1, given.seeds + 1), range(FOLDS), methods
    ):
        key = (method, columns, str(seed), str(fold))
        if key in done:
            continue
        start = time.monotonic()
        train, test = frame[number % FOLDS != fold], frame[number % FOLDS == fold]
        scores = scored(method, columns, seed, given.words, train, test)
        done[key] = metrics(test, scores, every)
        with given.output.open("a", newline="") as file:
            csv.writer(file).writerow([*key, json.dumps(done[key])])
        print(*key, f"{time.monotonic() - start:.0f} s", flush=True)
    table(metrics(frame, frame[BM25].to_numpy(), every), done)


def table(bm25: dict[str, tuple[float, ...]], done: dict[Any, Any]) -> None:
    """Prints the means, and the p-values."""
    queries = [*bm25]
    base = np.array([bm25[query] for query in queries])
    print(f"{'BM25':<38}{base[:, 0].mean():.4f}           {base[:, 1].mean():.4f}")
    for method, columns in dict.fromkeys(key[:2] for key in done):
        names = [key for key in done if key[:2] == (method, columns)]
        seeds = [
            {k: v for key in names if key[2] == seed for k, v in done[key].items()}
            for seed in dict.fromkeys(key[2] for key in names)
        ]
        values = np.mean([[x[query] for query in queries] for x in seeds], axis=0)
        line = f"{method:<20}{columns:<18}"
        for column in (0, 1):
            p = scipy.stats.ttest_rel(values[:, column], base[:, column]).pvalue
            line += f"{values[:, column].mean():.4f} ({p:.3f})  "
        print(line)


if __name__ == "__main__":
    main()
