"""Chooses the candidate of a method: the best in validation, fold by fold."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from pipelines.experiments.cells import Candidate, Cell
from tfr_ext import evaluation


@dataclasses.dataclass(frozen=True)
class Choice:
    """What was chosen for a method and a fold.

    Attributes:
        candidate: the candidate.
        valid: its validation metric, the mean over the seeds of the selection; NaN if
            it has none.
    """

    candidate: Candidate
    valid: float


# A candidate for each fold, or one for all folds by their mean.
FOLD, ALL = "fold", "all"


def choose(
    trained: Sequence[Cell], select_by: str, select_for: str = FOLD
) -> dict[tuple[str, str], Choice]:
    """Chooses a candidate for each method and fold, by validation alone.

    A candidate with an unfinished cell is not chosen. Among equals, the one that was
    given first is chosen. The only candidate of a method needs no validation metric,
    which a `run` without validation queries lacks.

    Args:
        trained: the cells of the selection.
        select_by: the validation metric.
        select_for: `FOLD`, or `ALL` for the same candidate in all folds, by the mean
            over folds.

    Returns:
        The choice by names of method and fold; none if no candidate is left.
    """
    sign = 1 if evaluation.higher_is_better(select_by) else -1
    values: dict[tuple[str, str], dict[Candidate, list[float]]] = {}
    unfinished = {
        (cell.candidate.method, cell.fold) for cell in trained if not cell.is_finished
    }
    for cell in trained:
        by_candidate = values.setdefault((cell.candidate.method, cell.fold), {})
        by_candidate.setdefault(cell.candidate, []).append(_valid(cell, select_by))
    means = {
        where: {c: float(np.mean(v)) for c, v in by_candidate.items()}
        for where, by_candidate in values.items()
    }
    choices = {}
    for method, fold in means:
        decisive = [
            of_fold
            for (other, name), of_fold in means.items()
            if other == method and (select_for == ALL or name == fold)
        ]
        scores = {
            c: sign * float(np.mean([of_fold.get(c, np.nan) for of_fold in decisive]))
            for c in means[method, fold]
        }
        possible = [c for c, score in scores.items() if np.isfinite(score)]
        if len(scores) == 1 and (method, fold) not in unfinished:
            possible = [*scores]
        if possible:
            best = max(possible, key=lambda c: scores[c])
            choices[method, fold] = Choice(best, means[method, fold][best])
    return choices


def _valid(cell: Cell, select_by: str) -> float:
    """Returns the validation metric of a cell, NaN if there is none."""
    if not cell.is_finished:
        return np.nan
    value = cell.metrics()["valid"].get(select_by)
    return np.nan if value is None else value
