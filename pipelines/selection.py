"""Which candidate of a method is chosen: the best in validation, fold by fold."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from pipelines.candidates import Candidate
from pipelines.cells import Cell
from tfr_ext import metrics


@dataclasses.dataclass(frozen=True)
class Choice:
    """What was chosen for a method and a fold.

    Attributes:
        candidate: the candidate.
        valid: its validation metric, the mean over the seeds of the selection.
    """

    candidate: Candidate
    valid: float


def choose(trained: Sequence[Cell], select_by: str) -> dict[tuple[str, str], Choice]:
    """Chooses a candidate for each method and fold, by validation alone.

    A candidate of which a cell is not finished is not chosen. Of equals the one that
    was given first is.

    Args:
        trained: the cells of the selection.
        select_by: the validation metric.

    Returns:
        The choice by names of method and fold; nothing where no candidate is left.
    """
    sign = 1 if metrics.higher_is_better(select_by) else -1
    values: dict[tuple[str, str], dict[Candidate, list[float]]] = {}
    for cell in trained:
        by_candidate = values.setdefault((cell.candidate.method, cell.fold), {})
        by_candidate.setdefault(cell.candidate, []).append(_valid(cell, select_by))
    choices = {}
    for where, by_candidate in values.items():
        means = {c: float(np.mean(v)) for c, v in by_candidate.items()}
        possible = [c for c, mean in means.items() if np.isfinite(mean)]
        if possible:
            best = max(possible, key=lambda c: sign * means[c])
            choices[where] = Choice(best, means[best])
    return choices


def _valid(cell: Cell, select_by: str) -> float:
    """Returns the validation metric of a cell, NaN if there is none."""
    if not cell.is_finished:
        return np.nan
    value = cell.metrics()["valid"].get(select_by)
    return np.nan if value is None else value
