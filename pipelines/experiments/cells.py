"""The cells of an experiment: one training each."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.experiments import candidates
from pipelines.experiments.kind import Kind
from tfr_ext.core.settings import Settings
from tfr_ext.training import outputs

# The files with the output of a cell, and with the time that it took.
LOG = "log.txt"
SECONDS = "seconds.txt"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One training.

    Attributes:
        candidate: what is trained.
        fold: on which fold.
        seed: with which seed.
        config: the settings of the training, all but `model_dir`.
        directory: where its files are; named by the flags and the data's checksum.
        is_apart: whether it sets something that a process can set only once.
    """

    candidate: candidates.Candidate
    fold: str
    seed: int
    config: Settings
    directory: str
    is_apart: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether its results exist."""
        return os.path.exists(os.path.join(self.directory, "metrics.json"))

    @property
    def is_settled(self) -> bool:
        """Whether it is finished, and what it no longer needs is removed."""
        path = os.path.join(self.directory, SECONDS)
        return self.is_finished and os.path.exists(path)

    def metrics(self) -> dict[str, Any]:
        """Returns the content of its `metrics.json`.

        Raises:
            ValueError: if the file is incomplete.
        """
        return outputs.read_metrics(os.path.join(self.directory, "metrics.json"))

    def seconds(self) -> float:
        """Returns how long it took in seconds; 0 if that is unknown."""
        try:
            with open(os.path.join(self.directory, SECONDS)) as file:
                return float(file.read())
        except (FileNotFoundError, ValueError):
            return 0.0

    def failure(self) -> str:
        """Returns the last error in its log."""
        try:
            with open(os.path.join(self.directory, LOG), errors="replace") as file:
                lines = [line.strip() for line in file if line.startswith("Error: ")]
        except FileNotFoundError:
            lines = []
        return lines[-1] if lines else "it was not trained"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a cell ended.

    Attributes:
        cell: the cell.
        seconds: how long it took.
        ok: whether it finished.
    """

    cell: Cell
    seconds: float
    ok: bool


@dataclasses.dataclass(frozen=True)
class Plan:
    """The candidates, folds and seeds, and all else that defines cells.

    Attributes:
        kinds: the kinds of cells, by command.
        cells_dir: directory of the cells' directories.
        base: flags of all cells, by command; `{fold}` in them stands for the fold.
        candidates: all candidates.
        folds: names of the folds.
        seeds: seeds.
        threads: threads of a process, on which the last digits depend.
        keep_models: whether cells write large files, and keep them.
    """

    kinds: Mapping[str, Kind]
    cells_dir: str
    base: Mapping[str, Sequence[str]]
    candidates: tuple[candidates.Candidate, ...]
    folds: tuple[str, ...]
    seeds: tuple[int, ...]
    threads: int = 1
    keep_models: bool = False
