"""The papers' own figures, as `published.json` has them."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

PATH = pathlib.Path(__file__).with_name("published.json")


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a paper.

    Attributes:
        paper: authors, title, venue.
        source: which table of which version it is.
        collection: what was measured on, and what the means are over.
        convention: what the metrics mean, as far as the paper says.
        metrics: names of the columns, as `pipelines.evaluate` has them.
        values: for each method the figures of the columns.
        errors: for each method that has them, the standard errors.
        marks: for each method that has them, the marks of significance.
        meaning: what each mark says.
        note: what else is to be known of the figures.
        ranked: whether the methods are rivals, of which one is the best.
    """

    paper: str
    source: str
    collection: str
    convention: str
    metrics: list[str]
    values: dict[str, list[float]]
    errors: dict[str, list[float]]
    marks: dict[str, list[str]]
    meaning: dict[str, str]
    note: str
    ranked: bool

    @property
    def digits(self) -> int:
        """The most decimals of a figure, but not more than four."""
        figures = (v for row in self.values.values() for v in row)
        return min(4, max(len(repr(v).partition(".")[2]) for v in figures))

    def value(self, method: str, metric: str) -> float:
        """Returns a figure.

        Raises:
            ValueError: if the table has no such method or metric.
        """
        column = self.metrics.index(known(metric, self.metrics, "metric"))
        return self.values[known(method, self.values, "method")][column]


@functools.cache
def _content() -> Mapping[str, Any]:
    return json.loads(PATH.read_text(encoding="utf-8"))


def papers() -> list[str]:
    """Returns the names of the papers."""
    return list(_content())


def tables(paper: str) -> list[str]:
    """Returns the names of the tables of a paper."""
    return list(_content()[known(paper, _content(), "paper")]["tables"])


def table(paper: str, name: str) -> Table:
    """Returns a table.

    Raises:
        ValueError: if there is no such paper or table.
    """
    of_paper = _content()[known(paper, _content(), "paper")]
    content = of_paper["tables"][known(name, of_paper["tables"], "published table")]

    def column(key: str) -> dict[str, list]:
        return {m: row[key] for m, row in content["rows"].items() if key in row}

    return Table(
        of_paper["paper"],
        content["source"],
        content["collection"],
        content["convention"],
        content["metrics"],
        column("values"),
        column("errors"),
        column("marks"),
        content.get("marks", {}),
        content.get("note", ""),
        content.get("ranked", True),
    )


def match(name: str, names: Iterable[str]) -> str | None:
    """Returns the one of the names that differs in case and punctuation alone."""
    return next((other for other in names if _plain(other) == _plain(name)), None)


def known(name: str, names: Iterable[str], what: str) -> str:
    """Returns the one of the names that is meant.

    Raises:
        ValueError: if there is none.
    """
    names = list(names)
    found = match(name, names)
    if found is None:
        raise ValueError(f"Unknown {what} {name!r}. Expected one of {names}.")
    return found


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", name.lower())
