"""Fine-tunes BERT on any collection in BEIR's form, as SmoothI's paper on Robust04.

    pip install '.[text,table]' bm25s PyStemmer
    python examples/rerank_texts.py --encoder=DIR --corpus=corpus.jsonl \
        --queries=queries.jsonl --qrels=qrels/test.tsv --output=DIR

The protocol of Thonet et al., 2022, "Text-based IR", needs a GPU. BM25 finds 150
documents of each query, or `--run` has them, of any search engine. Three of five folds
of queries train, one selects the epoch, one is tested. There are up to 100 epochs, and
20 without a better one end the fit (`--patience=0` for all). In each, a query has a
list of two relevant documents and two others. A step takes eight lists; the learning
rate is 2e-5 for BERT and 1e-3 for the dense layer; documents of up to 800 tokens are
divided in two. SmoothI, with alpha 1 and delta 0.1, is compared with the pairwise hinge
loss, with BM25, and with the cosine of the encoder as it is.

If it is killed, the same command goes on at the fold where it was. A fit that does not
fit into the GPU's memory needs a smaller `--batch_size`. The folds are drawn here; the
paper's own are not published with it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pandas as pd
import tensorflow as tf

from tfr_ext import evaluation, training
from tfr_ext.data import RankingLists
from tfr_ext.data.text_files import encoded_name
from tfr_ext.text import CrossEncoder, EmbeddingConfig, embed

FOLDS = 5
RUNS = {"run": "score", "cosine": "cosine"}  # By their columns of the table.
LOSSES = {"smoothi_loss": {"alpha": 1.0, "delta": 0.1}, "pairwise_hinge_loss": {}}
METRICS = ("precision_1", "precision_5", "precision_10", "precision_20", "map")
METRICS += ("ndcg_1", "ndcg_5", "ndcg_10", "ndcg_20", "ndcg")
PARTS = {
    "table": ("encoder", "corpus", "queries", "qrels", "run", "depth"),
    "fits": ("num_epochs", "patience", "batch_size", "learning_rate", "parts")
    + ("document_tokens", "query_tokens"),
}
COLUMNS = ["query_id", "doc_id", "label", "score", "cosine", "query", "document"]


def main() -> None:
    """Trains and tests what the folder lacks, and prints the comparison."""
    given = arguments()
    judged = evaluation.read_qrels(str(given.qrels))
    table, run = given.output / "table.parquet", given.run
    given.output.mkdir(parents=True, exist_ok=True)
    check(given)
    if not table.exists():
        if run is None:
            run = given.output / "bm25.trec"
            search(given, run, {*judged.query_ids})
        paths = {
            name: str(path)
            for name, path in vars(given).items()
            if name in ("encoder", "corpus", "queries", "qrels")
        }
        embed(
            EmbeddingConfig(**paths, run=str(run), depth=given.depth, output=str(table))
        )
        remember(given, "table")
    frame = pd.read_parquet(table, columns=COLUMNS)
    drawn = np.random.default_rng(1).permutation(judged.num_lists) % FOLDS
    fold_of = frame["query_id"].map(dict(zip(judged.query_ids, drawn)))
    for fold, name in itertools.product(given.folds, [*RUNS, *given.losses]):
        folder = given.output / name / f"fold{fold}"
        if (folder / "metrics.json").exists():
            continue
        train, test = frame[fold_of != fold], frame[fold_of == fold]
        if name in RUNS:
            scores = test[RUNS[name]]
        else:
            scores = fitted(given, name, train, test)
        of_fold = judged.select(np.flatnonzero(drawn == fold))
        measure(test.assign(scores=scores), name, of_fold, folder)
        if name not in RUNS:
            remember(given, "fits")
    compared = [
        f"{name}={','.join(str(given.output / name / f'fold{i}') for i in given.folds)}"
        for name in (*RUNS, *given.losses)
    ]
    page = ["--output_dir", str(given.output / "comparison"), "--standard_errors"]
    command = [sys.executable, "-m", "pipelines.compare", *compared, *page]
    subprocess.run(command, check=True)


def arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("encoder", "corpus", "queries", "qrels", "output"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--run", type=pathlib.Path, help="candidates; BM25's if none")
    parser.add_argument("--depth", type=int, default=150, help="candidates of a query")
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=[*LOSSES])
    parser.add_argument(
        "--folds", nargs="+", type=int, choices=range(FOLDS), default=[*range(FOLDS)]
    )
    parser.add_argument("--num_epochs", type=int, default=100)
    parser.add_argument("--patience", type=int, default=20, help="epochs; 0 for all")
    parser.add_argument("--batch_size", type=int, default=8, help="lists of a step")
    parser.add_argument("--learning_rate", type=float, default=2e-5, help="of BERT")
    parser.add_argument("--document_tokens", type=int, default=800)
    parser.add_argument("--query_tokens", type=int, default=64)
    parser.add_argument("--parts", type=int, default=2, help="of a long document")
    return parser.parse_args()


def check(given: argparse.Namespace) -> None:
    """Checks that the flags are those of the work that is there."""
    for part in PARTS:
        path = given.output / f"{part}.json"
        kept = json.loads(path.read_text()) if path.exists() else {}
        for name, value in kept.items():
            if value != str(getattr(given, name)):
                sys.exit(
                    f"Error: {path} has --{name}={value}, not {getattr(given, name)}. "
                    "Name another --output."
                )


def remember(given: argparse.Namespace, part: str) -> None:
    """Writes the flags on which finished work depends."""
    flags = {name: str(getattr(given, name)) for name in PARTS[part]}
    (given.output / f"{part}.json").write_text(json.dumps(flags, indent=1))


def search(given: argparse.Namespace, run: pathlib.Path, judged: set[str]) -> None:
    """Writes the best documents by BM25 as a TREC run."""
    import bm25s
    import Stemmer

    documents, queries = (
        pd.read_json(path, lines=True, dtype=False, convert_dates=False)
        for path in (given.corpus, given.queries)
    )
    for of in (documents, queries):
        of["_id"] = [encoded_name(str(name)) for name in of["_id"]]
    queries = queries[queries["_id"].isin(judged)]
    texts = documents["text"]
    if "title" in documents:
        texts = documents["title"].fillna("") + " " + texts
    words = {"stopwords": "en", "stemmer": Stemmer.Stemmer("english")}
    quiet, index = {"show_progress": False}, bm25s.BM25()
    index.index(bm25s.tokenize(texts.tolist(), **words, **quiet), **quiet)
    tokens = bm25s.tokenize(queries["text"].tolist(), **words, **quiet)
    places, scores = index.retrieve(tokens, k=min(given.depth, len(texts)), **quiet)
    names = documents["_id"].to_numpy()
    with run.open("w", encoding="utf-8") as file:
        for query, of_query, found in zip(queries["_id"], places, scores):
            for rank, (place, score) in enumerate(zip(of_query, found), 1):
                if score > 0:  # Others have no word of the query.
                    file.write(f"{query} Q0 {names[place]} {rank} {score:.6f} bm25\n")


def fitted(
    given: argparse.Namespace, loss: str, train: pd.DataFrame, test: pd.DataFrame
) -> np.ndarray:
    """Returns the scores of a BERT that is trained by a loss."""
    devices = tf.config.list_physical_devices("GPU")
    strategy = tf.distribute.MirroredStrategy() if len(devices) > 1 else None
    with strategy.scope() if strategy else contextlib.nullcontext():
        ranker = CrossEncoder(
            str(given.encoder),
            loss,
            LOSSES[loss],
            learning_rate=given.learning_rate,
            batch_size=given.batch_size,
            num_epochs=given.num_epochs,
            early_stopping_patience=given.patience,
            parts=given.parts,
            query_tokens=given.query_tokens,
            document_tokens=given.document_tokens,
            validation_fraction=1 / (FOLDS - 1),
            mixed_precision=bool(devices),
        ).fit(train)
    return ranker.predict(test)


def measure(
    test: pd.DataFrame, name: str, judged: RankingLists, folder: pathlib.Path
) -> None:
    """Measures a fold, over all its relevant documents and all its queries."""
    with tempfile.TemporaryDirectory() as scratch:
        run, qrels = (pathlib.Path(scratch, name) for name in ("run", "qrels"))
        evaluation.write_qrels(str(qrels), judged)
        lines = zip(test["query_id"], test["doc_id"], test["scores"])
        text = "".join(f"{q} Q0 {d} 1 {score:.9g} {name}\n" for q, d, score in lines)
        run.write_text(text, encoding="utf-8")
        training.evaluate(
            training.EvaluationConfig(
                run=str(run),
                qrels=str(qrels),
                metrics=training.MetricsConfig(metrics=METRICS),
                output_dir=str(folder),
            )
        )


if __name__ == "__main__":
    main()
