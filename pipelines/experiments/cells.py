"""The cells of an experiment: one training each."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from pipelines.experiments import candidates
from tfr_ext.training import outputs
from tfr_ext.training.config import TrainingConfig

# Where what a cell printed goes, and how long it took.
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
    """

    candidate: candidates.Candidate
    fold: str
    seed: int
    config: TrainingConfig
    directory: str

    @property
    def is_finished(self) -> bool:
        """Whether its results are there."""
        return os.path.exists(os.path.join(self.directory, "metrics.json"))

    @property
    def is_apart(self) -> bool:
        """Whether it sets what a process can set once."""
        return self.config.logical_cpus > 1

    def metrics(self) -> dict[str, Any]:
        """Returns the content of its `metrics.json`.

        Raises:
            ValueError: if that is cut short.
        """
        return outputs.read_metrics(os.path.join(self.directory, "metrics.json"))

    def seconds(self) -> float:
        """Returns how long it took, 0 if that is not known."""
        try:
            with open(os.path.join(self.directory, SECONDS)) as file:
                return float(file.read())
        except (FileNotFoundError, ValueError):
            return 0.0

    def failure(self) -> str:
        """Returns the last line of its log that tells an error."""
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
    """Candidates, folds and seeds, with what makes them cells.

    Attributes:
        cells_dir: directory of the cells' directories.
        base: flags of all cells; `{fold}` in them stands for the fold.
        candidates: all candidates.
        folds: names of the folds.
        seeds: seeds.
        threads: threads of a process, on which the last digits depend.
        keep_models: whether cells keep large files, and so make them.
    """

    cells_dir: str
    base: tuple[str, ...]
    candidates: tuple[candidates.Candidate, ...]
    folds: tuple[str, ...]
    seeds: tuple[int, ...]
    threads: int = 1
    keep_models: bool = False
