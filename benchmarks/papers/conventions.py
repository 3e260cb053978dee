"""What the metrics mean, and what the same scores have by other conventions."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from papers import published, tables
from papers.published import Table
from papers.results import Result
from tfr_ext import data, evaluation

# What the queries of a mean are: the rule for empty lists, and the fewest documents.
QUERIES: dict[str, tuple[str, int]] = {
    "all queries, 0 without a relevant document": ("zero", 1),
    "queries with a relevant document": ("skip", 1),
    "queries with a relevant and at least 10 documents": ("skip", 10),
}


def describe(convention: Mapping[str, Any] | None) -> str:
    """Returns a convention, as `metrics.json` has it, in words."""
    if not convention:
        return "The convention of the metrics is not known."
    fields = {field.name for field in dataclasses.fields(evaluation.Convention)}
    known = {name: value for name, value in convention.items() if name in fields}
    return "Convention: " + evaluation.Convention(**known).describe()


def rules(
    result: Result,
    method: str,
    names: Sequence[str],
    table: Table | None = None,
) -> str:
    """Returns what the chosen runs of a method have by each gain and rule.

    Args:
        result: the experiment.
        method: name of the method.
        names: metrics, such as 'ndcg_10'.
        table: published figures of the method, for comparison.

    Raises:
        ValueError: if there is no such run, or its files cannot be read.
    """
    name = published.known(method, result.runs, f"method of {result.name}")
    cells = result.chosen(name)
    runs = [_read(result.path(cell)) for cell in cells]
    folds = [cell["fold"] for cell in cells]
    highest = (result.comparison.get("convention") or {}).get("max_label")
    rows = []
    for words, (empty_list, fewest) in QUERIES.items():
        for gain in ("linear", "exponential"):
            convention = evaluation.Convention(gain, empty_list, max_label=highest)
            means = _means(runs, folds, names, convention, fewest)
            rows.append([words, gain, *(f"{mean:.4f}" for mean in means)])
    shared = published.match(name, table.values) if table else None
    if table and shared:
        theirs = [f"{table.value(shared, metric):.4f}" for metric in names]
        rows.append(["published", "", *theirs])
    header = [f"{name}: the mean over", "gain", *map(tables.heading, names)]
    return tables.markdown(header, rows)


def _means(
    runs: Sequence[tuple[data.RankingLists, np.ndarray]],
    folds: Sequence[str],
    names: Sequence[str],
    convention: evaluation.Convention,
    fewest: int,
) -> list[float]:
    """Returns the means over folds, of the means over queries and seeds."""
    by_fold: dict[str, list[list[float]]] = {}
    for (lists, scores), fold in zip(runs, folds):
        values = evaluation.per_query(lists, scores, names, convention)
        counts = lists.lengths >= fewest
        if convention.empty_list == "skip":
            # ERR is 0 on an empty list, whatever the rule for NDCG.
            firsts = lists.row_splits[:-1]
            counts &= np.maximum.reduceat(lists.labels, firsts) > 0
        means = [float(np.mean(values[name][counts])) for name in names]
        by_fold.setdefault(fold, []).append(means)
    return np.mean([np.mean(m, axis=0) for m in by_fold.values()], axis=0).tolist()


def _read(path: pathlib.Path) -> tuple[data.RankingLists, np.ndarray]:
    """Reads `run.trec` and `qrels.trec` of a run."""
    try:
        judged = _judged(path / "qrels.trec")
        return evaluation.read_run(str(path / "run.trec"), judged).ranked(judged)
    except OSError as error:
        raise ValueError(f"{path} has not the files of a run: {error}") from error


def _judged(path: pathlib.Path) -> data.RankingLists:
    queries: dict[str, dict[str, float]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            query, _, document, label = line.split()
            queries.setdefault(query, {})[document] = float(label)
        except ValueError as error:
            raise ValueError(
                f"{path}:{number}: expected 'query 0 document label', received "
                f"{line!r}."
            ) from error
    labels = [label for of_query in queries.values() for label in of_query.values()]
    return data.RankingLists(
        features=np.zeros([len(labels), 0], np.float32),
        labels=np.array(labels, np.float32),
        row_splits=np.cumsum([0, *map(len, queries.values())]),
        query_ids=list(queries),
        doc_ids=[document for of_query in queries.values() for document in of_query],
    )
