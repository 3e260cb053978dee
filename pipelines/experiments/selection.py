"""Chooses each method's best candidate in validation, and writes the choice."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipelines.experiments.cells import Candidate, Cell
from tfr_ext import evaluation
from tfr_ext.core.files import write_atomically
from tfr_ext.runs import outputs

FILES = ("experiment.json", "cells.tsv", "selected.tsv")


@dataclasses.dataclass(frozen=True)
class Choice:
    """The candidate chosen for a method and a fold.

    `valid` is its mean validation metric over the seeds of the selection; NaN if none.
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
    which a `run` without validation queries lacks. `ALL` chooses the same candidate in
    all folds, by the mean over folds.

    Returns the choice by names of method and fold; none if no candidate is left.
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


def write(
    directory: str,
    phases: Mapping[str, Sequence[Cell]],
    choices: Mapping[tuple[str, str], Choice],
    chosen: Sequence[Cell],
    facts: Mapping[str, Any],
) -> None:
    """Writes `cells.tsv`, `selected.tsv` and `experiment.json`."""
    rows: dict[Cell, dict[str, str]] = {}
    for phase, cells in phases.items():
        for cell in cells:
            if cell not in rows:
                rows[cell] = _row(directory, phase, cell)
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    _write_table(os.path.join(directory, "cells.tsv"), columns, list(rows.values()))
    _write_table(
        os.path.join(directory, "selected.tsv"),
        ["method", "fold", "seed", "candidate", "valid", "directory"],
        [_selected(directory, choices, cell) for cell in chosen],
    )
    write_atomically(os.path.join(directory, "experiment.json"), outputs.as_json(facts))


def _selected(
    directory: str, choices: Mapping[tuple[str, str], Choice], cell: Cell
) -> dict[str, str]:
    choice = choices[cell.candidate.method, cell.fold]
    return {
        "method": cell.candidate.method,
        "fold": cell.fold,
        "seed": str(cell.seed),
        "candidate": choice.candidate.text,
        "valid": "" if math.isnan(choice.valid) else f"{choice.valid:.9g}",
        "directory": os.path.relpath(cell.directory, directory),
    }


def _row(directory: str, phase: str, cell: Cell) -> dict[str, str]:
    row = {
        "method": cell.candidate.method,
        "candidate": cell.candidate.text,
        "fold": cell.fold,
        "seed": str(cell.seed),
        "phase": phase,
        "status": "finished" if cell.is_finished else "failed",
        "seconds": f"{cell.seconds():.1f}",
        "directory": os.path.relpath(cell.directory, directory),
    }
    if cell.is_finished:
        found = cell.metrics()
        for split in ("valid", "test"):
            for name, value in found[split].items():
                row[f"{split}_{name}"] = "" if value is None else f"{value:.9g}"
    return row


def _write_table(
    path: str, columns: Sequence[str], rows: Sequence[Mapping[str, str]]
) -> None:
    lines = ["\t".join(columns)]
    lines += ["\t".join(row.get(name, "") for name in columns) for row in rows]
    write_atomically(path, "\n".join(lines) + "\n")
