"""What the figures of a method are, if its candidate is chosen in other ways."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from papers import published, tables
from papers.published import Table
from papers.results import Result
from tfr_ext import evaluation as conventions


def ways(result: Result, method: str, theirs: Table | None) -> str:
    """Returns the figures of a method by the way in which its candidate is chosen.

    All are means over folds, of the first initialisation, so that every candidate has
    the same.

    Args:
        result: an experiment.
        method: name of a run.
        theirs: the paper's figures.

    Raises:
        ValueError: if there is no such method, none of its candidates was trained on
            all folds, or the metric that chose is not in the paper's table.
    """
    run = published.known(method, result.runs, f"method of {result.name}")
    metrics = [m for m in result.metrics if theirs is None or m in theirs.metrics]
    by = result.experiment["select_by"]
    select = metrics.index(
        published.known(by, metrics, f"metric that {result.name} shares")
    )
    valid, test = _figures(result, run, metrics)
    sign = np.array([1 if conventions.higher_is_better(m) else -1 for m in metrics])
    valid, test = sign * valid, sign * test

    def means(value: Callable[[int], np.ndarray]) -> list[str]:
        values = [sign[j] * np.mean(value(j)) for j in range(len(metrics))]
        return [f"{value:.3f}" for value in values]

    folds = np.arange(test.shape[1])
    of_all = valid.mean(axis=1)
    text = tables.heading(by)
    rows = {
        f"validation {text} of the fold": means(
            lambda j: test[valid[..., select].argmax(axis=0), folds, j]
        ),
        "validation value of the metric itself, of the fold": means(
            lambda j: test[valid[..., j].argmax(axis=0), folds, j]
        ),
        f"validation {text} of all folds": means(
            lambda j: test[of_all[:, select].argmax(), :, j]
        ),
        "validation value of the metric itself, of all folds": means(
            lambda j: test[of_all[:, j].argmax(), :, j]
        ),
        "not chosen: mean of all candidates": means(lambda j: test[..., j]),
        "test value of the metric itself, of all folds": means(
            lambda j: test[..., j].mean(axis=1).max()
        ),
    }
    if theirs is not None:
        name = published.known(run, theirs.values, "published method")
        rows["published"] = [
            f"{theirs.value(name, m):.{theirs.digits}f}" for m in metrics
        ]
    header = ["chosen by", *map(tables.heading, metrics)]
    return (
        f"{tables.markdown(header, [[key, *row] for key, row in rows.items()])}\n\n"
        f"Means over {len(folds)} folds of {len(test)} candidates, seed "
        f"{result.experiment['seeds'][0]} alone. A choice by test values is no result: "
        "it tells how far choosing can go."
    )


def _figures(
    result: Result, method: str, metrics: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns validation and test values, `[candidate, fold, metric]`."""
    folds = [str(fold) for fold in result.experiment["folds"]]
    seed = str(result.experiment["seeds"][0])
    found: dict[str, dict[str, dict[str, str]]] = {}
    for cell in result.cells:
        if (cell["method"], cell["seed"]) == (method, seed) and (
            cell["status"] == "finished"
        ):
            found.setdefault(cell["candidate"], {})[cell["fold"]] = cell
    whole = [cells for cells in found.values() if set(cells) == set(folds)]
    if not whole:
        raise ValueError(
            f"No candidate of {method!r} in {result.name}/cells.tsv has all folds."
        )
    for column in (f"{split}_{m}" for split in ("valid", "test") for m in metrics):
        if column not in result.cells[0]:
            raise ValueError(f"No column {column!r} in {result.name}/cells.tsv.")

    def values(split: str) -> np.ndarray:
        return np.array(
            [
                [[float(cells[f][f"{split}_{m}"]) for m in metrics] for f in folds]
                for cells in whole
            ]
        )

    return values("valid"), values("test")
