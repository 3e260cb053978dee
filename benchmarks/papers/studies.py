"""What the figures would be with other choices of candidates, or other conventions."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from papers import tables
from papers.results import Published, Result
from tfr_ext import data, evaluation

# The queries of a mean: the rule for empty lists, and the fewest documents.
QUERIES = {
    "all queries, 0 without a relevant document": ("zero", 1),
    "queries with a relevant document": ("skip", 1),
    "queries with a relevant and at least 10 documents": ("skip", 10),
}


def ways(result: Result, method: str, table: Published) -> str:
    """Returns the figures of a method by the way in which its candidate is chosen.

    All are means over folds, of the first seed, which every candidate has.
    """
    names = [m for m in result.metrics if m in table.metrics]
    by = names.index(result.experiment["select_by"])
    sign = np.array([1 if evaluation.higher_is_better(m) else -1 for m in names])
    valid, test = sign * _candidates(result, method, names)
    folds = np.arange(test.shape[1])
    of_all = valid.mean(axis=1)
    text = tables.heading(names[by])
    picks: dict[str, Callable[[int], Any]] = {
        f"validation {text} of the fold": lambda j: valid[..., by].argmax(axis=0),
        "validation value of the metric itself, of the fold": (
            lambda j: valid[..., j].argmax(axis=0)
        ),
        f"validation {text} of all folds": lambda j: of_all[:, by].argmax(),
        "validation value of the metric itself, of all folds": (
            lambda j: of_all[:, j].argmax()
        ),
        "not chosen: mean of all candidates": lambda j: slice(None),
        "test value of the metric itself, of all folds": (
            lambda j: test[..., j].mean(axis=1).argmax()
        ),
    }
    rows = []
    for words, pick in picks.items():
        means = [sign[j] * test[pick(j), folds, j].mean() for j in range(len(names))]
        rows.append([words, *(f"{mean:.3f}" for mean in means)])
    theirs = [f"{table.value(method, m):.{table.digits}f}" for m in names]
    header = ["chosen by", *map(tables.heading, names)]
    return (
        f"{tables.markdown(header, [*rows, ['published', *theirs]])}\n\n"
        f"Means over {len(folds)} folds of {len(test)} candidates, seed "
        f"{result.experiment['seeds'][0]} alone. A choice by test values is no result: "
        "it tells how far choosing can go."
    )


def _candidates(result: Result, method: str, names: list[str]) -> np.ndarray:
    """Returns validation and test values, `[split, candidate, fold, metric]`."""
    folds = [str(fold) for fold in result.experiment["folds"]]
    seed = str(result.experiment["seeds"][0])
    wanted = (method, seed, "finished")
    found: dict[str, dict[str, dict[str, str]]] = {}
    for cell in result.cells:
        if (cell["method"], cell["seed"], cell["status"]) == wanted:
            found.setdefault(cell["candidate"], {})[cell["fold"]] = cell
    cells = [[c[f] for f in folds] for c in found.values() if set(c) == set(folds)]
    columns = [[f"{split}_{name}" for name in names] for split in ("valid", "test")]
    return np.array(
        [[[[float(c[m]) for m in ms] for c in of] for of in cells] for ms in columns]
    )


def rules(result: Result, method: str, table: Published) -> str:
    """Returns what the chosen runs of a method have by each gain and rule."""
    names = sorted(table.metrics, key=lambda m: m.split("_")[0], reverse=True)
    runs = [(cell["fold"], *_read(result.path(cell))) for cell in result.chosen(method)]
    highest = result.comparison["convention"]["max_label"]
    rows = []
    for words, (empty_list, fewest) in QUERIES.items():
        for gain in ("linear", "exponential"):
            convention = evaluation.Convention(gain, empty_list, max_label=highest)
            by_fold: dict[str, list[list[float]]] = {}
            for fold, lists, scores in runs:
                values = evaluation.per_query(lists, scores, names, convention)
                counts = lists.lengths >= fewest
                if empty_list == "skip":
                    # ERR is 0 on an empty list, whatever the rule for NDCG.
                    firsts = lists.row_splits[:-1]
                    counts &= np.maximum.reduceat(lists.labels, firsts) > 0
                means = [float(np.mean(values[name][counts])) for name in names]
                by_fold.setdefault(fold, []).append(means)
            mean = np.mean([np.mean(m, axis=0) for m in by_fold.values()], axis=0)
            rows.append([words, gain, *(f"{value:.4f}" for value in mean)])
    theirs = [f"{table.value(method, metric):.4f}" for metric in names]
    header = [f"{method}: the mean over", "gain", *map(tables.heading, names)]
    return tables.markdown(header, [*rows, ["published", "", *theirs]])


def _read(path: pathlib.Path) -> tuple[data.RankingLists, np.ndarray]:
    """Reads `run.trec` and `qrels.trec` of a run."""
    judged = evaluation.read_qrels(str(path / "qrels.trec"))
    return evaluation.read_run(str(path / "run.trec"), judged).ranked(judged)


KINDS = {"ways": ways, "rules": rules}
