"""The files that an experiment writes besides its cells."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.comparing import comparison_files
from pipelines.experiments.cells import Cell
from pipelines.experiments.selection import Choice
from tfr_ext.core.files import write_atomically
from tfr_ext.training import outputs, written

NAMES = ("experiment.json", "cells.tsv", "selected.tsv")


def files(output_dir: str) -> written.Files:
    """Returns the files of an experiment in its directory, besides its cells.

    Args:
        output_dir: the directory.
    """
    names = (*comparison_files.FILES[::-1], *NAMES)
    return written.Files("experiment", "output_dir", output_dir, names)


def write(
    directory: str,
    phases: Mapping[str, Sequence[Cell]],
    choices: Mapping[tuple[str, str], Choice],
    chosen: Sequence[Cell],
    facts: Mapping[str, Any],
) -> None:
    """Writes `cells.tsv`, `selected.tsv` and `experiment.json`.

    Args:
        directory: where the files are written.
        phases: the cells of each phase; one of an earlier phase is not repeated.
        choices: the choices, by names of method and fold.
        chosen: the cells of the chosen candidates.
        facts: the content of `experiment.json`.
    """
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
