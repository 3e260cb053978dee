"""What `pipelines.experiment` left in an experiment's directory."""

from __future__ import annotations

import collections
import csv
import dataclasses
import json
import pathlib
import statistics
from typing import Any

from papers import published


@dataclasses.dataclass(frozen=True)
class Result:
    """A finished experiment.

    Attributes:
        directory: where it is.
        name: name of its file in configs/experiments.
        comparison: what `comparison.json` has.
        experiment: what `experiment.json` has.
        selected: the rows of `selected.tsv`.
        cells: the rows of `cells.tsv`.
    """

    directory: pathlib.Path
    name: str
    comparison: dict[str, Any]
    experiment: dict[str, Any]
    selected: list[dict[str, str]]
    cells: list[dict[str, str]]

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics that the runs were compared by."""
        return self.comparison["metrics"]

    @property
    def runs(self) -> dict[str, dict[str, dict[str, Any]]]:
        """For each run its figures by metric."""
        return {run["name"]: run["metrics"] for run in self.comparison["runs"]}

    def figures(self, method: str, metric: str) -> dict[str, Any]:
        """Returns the mean of a metric, its errors and its significance.

        Args:
            method: name of a run.
            metric: a metric of the test lists; after 'valid_', of the validation lists.

        Raises:
            ValueError: if there is no such run or metric.
        """
        run = published.known(method, self.runs, f"method of {self.name}")
        if metric.startswith("valid_"):
            return self._validation(run, metric)
        name = published.known(metric, self.metrics, f"metric of {self.name}")
        return self.runs[run][name]

    def error(self, method: str, metric: str) -> float | None:
        """Returns the standard error over folds, or over the seeds of the only fold.

        None if there is but one run, or one fold of a validation metric.

        Args:
            method: name of a run.
            metric: as `figures` takes it.
        """
        found = self.figures(method, metric)
        if found.get("se_folds") is not None or found.get("sd_seeds") is None:
            return found.get("se_folds")
        return found["sd_seeds"] / len(self.experiment["seeds"]) ** 0.5

    def chosen(self, method: str) -> list[dict[str, str]]:
        """Returns the finished cells of the candidate that each fold chose.

        Args:
            method: name of a run, as it is written.

        Raises:
            ValueError: if there are none.
        """
        candidates = {
            row["fold"]: row["candidate"]
            for row in self.selected
            if row["method"] == method
        }
        cells = [
            cell
            for cell in self.cells
            if cell["method"] == method
            and cell["status"] == "finished"
            and cell["candidate"] == candidates.get(cell["fold"])
        ]
        if not cells:
            raise ValueError(
                f"No finished cell of {method!r} in {self.name}/cells.tsv is of a "
                "candidate in selected.tsv."
            )
        return cells

    def path(self, cell: dict[str, str]) -> pathlib.Path:
        """Returns the directory of a cell."""
        path = self.directory / cell["directory"]
        return path if path.exists() else pathlib.Path(cell["directory"])

    def _validation(self, method: str, metric: str) -> dict[str, Any]:
        folds = collections.defaultdict(list)
        for cell in self.chosen(method):
            if metric not in cell:
                raise ValueError(f"No column {metric!r} in {self.name}/cells.tsv.")
            if cell[metric]:
                folds[cell["fold"]].append(float(cell[metric]))
        if not folds:
            raise ValueError(f"{self.name}/cells.tsv has no {metric} of {method!r}.")
        means = [statistics.mean(values) for values in folds.values()]
        spread = statistics.stdev(means) / len(means) ** 0.5 if len(means) > 1 else None
        return {"mean": statistics.mean(means), "se_folds": spread}


def load(directory: pathlib.Path, name: str) -> Result | None:
    """Returns the result of an experiment, or None if it has not finished.

    Args:
        directory: where the directories of the experiments are.
        name: name of the experiment.

    Raises:
        ValueError: if a file of a finished experiment is missing or cannot be read.
    """
    path = directory / name
    if not (path / "comparison.json").exists():
        return None
    tables = [_rows(path / f"{file}.tsv") for file in ("selected", "cells")]
    return Result(
        path,
        name,
        _json(path / "comparison.json", ("metrics", "test", "runs")),
        _json(path / "experiment.json", ("cells", "folds", "seeds")),
        *tables,
    )


def _json(path: pathlib.Path, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} cannot be read: expected a JSON object.")
    missing = [key for key in keys if key not in content]
    if missing:
        raise ValueError(f"{path} has no {missing[0]!r}. Expected {list(keys)}.")
    return content


def _rows(path: pathlib.Path) -> list[dict[str, str]]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(
                file, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True
            )
            rows = []
            for row in reader:
                if None in row or None in row.values():
                    raise ValueError(
                        f"line {reader.line_num} has not the "
                        f"{len(reader.fieldnames or [])} cells of the header"
                    )
                rows.append(row)
            return rows
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
