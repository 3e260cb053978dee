"""What `pipelines.experiment` left, and what the papers published."""

from __future__ import annotations

import collections
import csv
import dataclasses
import json
import pathlib
import statistics
from typing import Any

PUBLISHED = pathlib.Path(__file__).with_name("published.json")


@dataclasses.dataclass(frozen=True)
class Result:
    """A finished experiment.

    Attributes:
        directory: its directory.
        comparison: content of `comparison.json`.
        experiment: content of `experiment.json`.
        selected: rows of `selected.tsv`.
        cells: rows of `cells.tsv`.
    """

    directory: pathlib.Path
    comparison: dict[str, Any]
    experiment: dict[str, Any]
    selected: list[dict[str, str]]
    cells: list[dict[str, str]]

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics that the methods were compared by."""
        return self.comparison["metrics"]

    @property
    def methods(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The figures of each method by metric."""
        return {run["name"]: run["metrics"] for run in self.comparison["runs"]}

    def mean(self, method: str, metric: str) -> float:
        """Returns a mean on test queries; after 'valid_', on validation queries."""
        if not metric.startswith("valid_"):
            return self.methods[method][metric]["mean"]
        folds = collections.defaultdict(list)
        for cell in self.chosen(method):
            folds[cell["fold"]].append(float(cell[metric]))
        return statistics.mean(map(statistics.mean, folds.values()))

    def error(self, method: str, metric: str) -> float | None:
        """Returns the standard error over folds, or over the seeds of the only fold."""
        found = self.methods[method][metric]
        if found.get("se_folds") is not None or found.get("sd_seeds") is None:
            return found.get("se_folds")
        return found["sd_seeds"] / len(self.experiment["seeds"]) ** 0.5

    def chosen(self, method: str) -> list[dict[str, str]]:
        """Returns the finished cells of the candidate that each fold chose."""
        candidates = {
            row["fold"]: row["candidate"]
            for row in self.selected
            if row["method"] == method
        }
        return [
            cell
            for cell in self.cells
            if cell["method"] == method
            and cell["status"] == "finished"
            and cell["candidate"] == candidates.get(cell["fold"])
        ]

    def path(self, cell: dict[str, str]) -> pathlib.Path:
        """Returns the directory of a cell."""
        return self.directory / cell["directory"]


def load(directory: pathlib.Path) -> Result | None:
    """Returns the result of an experiment, or None if it has not finished."""
    if not (directory / "comparison.json").exists():
        return None
    comparison, experiment = (
        json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("comparison", "experiment")
    )
    selected, cells = (
        rows(directory / f"{name}.tsv") for name in ("selected", "cells")
    )
    return Result(directory, comparison, experiment, selected, cells)


def rows(path: pathlib.Path) -> list[dict[str, str]]:
    """Returns the rows of a table with tabs."""
    with open(path, encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


@dataclasses.dataclass(frozen=True)
class Published:
    """A table of a paper.

    Attributes:
        metrics: names of the columns, as `pipelines.evaluate` has them.
        rows: 'values' of each method, and where it has them 'errors' and 'marks'.
        caption: where it is from, and what its figures and marks mean.
        ranked: whether one of the methods is the best.
    """

    metrics: list[str]
    rows: dict[str, dict[str, list]]
    caption: str
    ranked: bool

    @property
    def digits(self) -> int:
        """The most decimals of a figure, but not more than four."""
        figures = (v for row in self.rows.values() for v in row["values"])
        return min(4, max(len(repr(v).partition(".")[2]) for v in figures))

    def value(self, method: str, metric: str) -> float:
        """Returns a figure."""
        return self.rows[method]["values"][self.metrics.index(metric)]


def published(name: str) -> Published:
    """Returns PAPER/TABLE of `published.json`."""
    paper, _, table = name.partition("/")
    of_paper = json.loads(PUBLISHED.read_text(encoding="utf-8"))[paper]
    content = {**of_paper["shared"], **of_paper["tables"][table]}
    facts = [f"Published: {content['source']}", content["collection"]]
    facts.append(f"convention: {content['convention']}")
    facts += [f"{mark} {meaning}" for mark, meaning in content.get("marks", {}).items()]
    caption = f"{'; '.join(facts)}. {content.get('note', '')}".strip()
    ranked = content.get("ranked", True)
    return Published(content["metrics"], content["rows"], caption, ranked)
