"""Reads runs that `pipelines.train` and `pipelines.evaluate` wrote, to compare them.

A run has one or several directories, for folds and for seeds of each fold. Directories
with the same evaluated queries are seeds of one fold; folds have no query in common.
"""

from __future__ import annotations

import dataclasses
import glob
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfr_ext.core import decimals, json_files, messages
from tfr_ext.data import text_files

# Longer names of runs, in characters, lose their middle.
LONGEST_NAME = 200
# The types of the entries of a metrics.json.
_KINDS: json_files.Kinds = {
    "convention": (dict,),
    "labels": (str, type(None)),
    "eval_list_size": (dict, type(None)),
    "seed": (int, type(None)),
}


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """The evaluation in one directory.

    Attributes:
        path: its `per_query.tsv`.
        queries: the queries, in the order of the file.
        values: of each metric, `[queries]`, NaN where a query does not count.
        convention: what `metrics.json` says about metrics and labels; None without it.
        history: each column of `history.tsv` except the epoch, `[epochs]`; empty
            without that file.
        collection: the collection, if the command line names some; its name and a
            colon are then the beginning of each query's name.
        left_out: in words, how much was cut off the lists; None if lists are not cut.
    """

    path: str
    queries: tuple[str, ...]
    values: dict[str, np.ndarray]
    convention: dict[str, Any] | None
    seed: int | None
    history: dict[str, np.ndarray]
    collection: str = ""
    left_out: str | None = None

    def aligned(self, metric: str, queries: Sequence[str]) -> np.ndarray:
        """Returns the values of a metric in another order of the same queries."""
        if self.queries == tuple(queries):
            return self.values[metric]
        place = {query: i for i, query in enumerate(self.queries)}
        return self.values[metric][[place[query] for query in queries]]


@dataclasses.dataclass(frozen=True)
class Run:
    """All evaluations of one system: for each fold, those of its seeds."""

    name: str
    folds: tuple[tuple[Evaluated, ...], ...]

    @property
    def members(self) -> list[Evaluated]:
        """The evaluations of all directories."""
        return [member for fold in self.folds for member in fold]

    @property
    def metrics(self) -> list[str]:
        """The metrics that all directories have."""
        return [
            name
            for name in self.members[0].values
            if all(name in member.values for member in self.members)
        ]

    def curve(self, column: str) -> np.ndarray:
        """Returns a column of the histories, `[directories, epochs]`.

        NaN where a directory lacks the epoch or the number. If no directory has a
        number, the result has no rows.
        """
        found = [m.history[column] for m in self.members if column in m.history]
        curve = np.full([len(found), max(map(len, found), default=0)], np.nan)
        for row, values in zip(curve, found):
            row[: len(values)] = values
        curve[~np.isfinite(curve)] = np.nan
        return curve if np.isfinite(curve).any() else curve[:0]


def parse(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Returns the paths of each run that a command line names.

    Args:
        arguments: each of the form `[NAME=]PATHS`, with paths or globs separated by
            commas; each may be `COLLECTION:PATH`.

    Raises:
        ValueError: If a glob matches nothing, a run has no name, or two have the same.
    """
    found: dict[str, list[str]] = {}
    for argument in arguments:
        name, paths = _named(argument)
        if name is None:
            if len(paths) > 1 or in_collection(paths[0])[0]:
                raise ValueError(
                    f"{argument}: several directories need a name, as in "
                    f"NAME={argument}."
                )
            directory = paths[0] if os.path.isdir(paths[0]) else _parent(paths[0])
            name = os.path.basename(os.path.abspath(directory))
        name = messages.visible(name, LONGEST_NAME)
        if not name.strip():
            raise ValueError(f"{argument}: expected a name before '='.")
        if name in found:
            raise ValueError(
                f"Two runs are called {name!r}: {','.join(found[name])} and "
                f"{','.join(paths)}. Name them, as in NAME={paths[0]}."
            )
        found[name] = paths
    return found


def read(name: str, paths: Sequence[str]) -> Run:
    """Reads the folds and seeds of a run.

    Args:
        name: name of the run.
        paths: directories with a `per_query.tsv`, or such files themselves; each may
            be `COLLECTION:PATH`. Queries of different collections are different ones,
            whatever their names.

    Raises:
        ValueError: If a path is given twice or cannot be read, if only some have a
            collection, or if two have some but not all queries in common.
    """
    if not paths:
        raise ValueError(f"{name}: the run has no directories.")
    folds: dict[frozenset[str], list[Evaluated]] = {}
    places = set()
    named = [in_collection(path) for path in paths]
    if len({bool(collection) for collection, _ in named}) > 1:
        bare = next(path for collection, path in named if not collection)
        raise ValueError(
            f"{name}: {bare} has no collection, but other directories of the run have "
            f"one. Name it, as in COLLECTION:{bare}."
        )
    for collection, path in named:
        member = _read_directory(path)
        if collection:
            member = dataclasses.replace(
                member,
                collection=collection,
                queries=tuple(f"{collection}:{query}" for query in member.queries),
            )
        place = os.path.realpath(member.path)
        if place in places:
            raise ValueError(f"{name}: {member.path} is given twice.")
        places.add(place)
        folds.setdefault(frozenset(member.queries), []).append(member)
    owner: dict[str, Evaluated] = {}
    for queries, members in folds.items():
        for query in members[0].queries:
            other = owner.setdefault(query, members[0])
            if other is not members[0]:
                common = queries & set(other.queries)
                raise ValueError(
                    f"{name}: {other.path} ({len(other.queries)} queries) and "
                    f"{members[0].path} ({len(queries)}) have {len(common)} queries in "
                    f"common, such as {query!r}. Seeds of a fold must have all queries "
                    "in common, and folds none."
                )
    return Run(name, tuple(map(tuple, folds.values())))


def _named(argument: str) -> tuple[str | None, list[str]]:
    """Splits `[NAME=]PATHS`, where either part may contain further '=' signs."""
    parts = argument.split("=")
    for k in range(len(parts)):
        text = "=".join(parts[k:])
        whole = _matches(text)  # Its name may have commas.
        paths = [whole] if whole else [_matches(p) for p in text.split(",")]
        if all(paths):
            return "=".join(parts[:k]) if k else None, sum(paths, [])
    patterns = argument.partition("=")[2] or argument
    missing = next(p for p in patterns.split(",") if not _matches(p))
    raise ValueError(f"{argument}: nothing is at {missing!r}.")


def in_collection(path: str) -> tuple[str, str]:
    """Splits `COLLECTION:PATH`; a path that exists as it stands has no collection.

    Examples:
        >>> in_collection("mq2008:runs/a"), in_collection("runs/a")
        (('mq2008', 'runs/a'), ('', 'runs/a'))
    """
    collection, colon, rest = path.partition(":")
    is_name = collection and not {*"=/\\"} & {*collection}
    if not colon or not is_name or not rest or os.path.exists(path):
        return "", path
    return collection, rest


def _matches(pattern: str) -> list[str]:
    if os.path.exists(pattern):
        return [pattern]
    found = sorted(glob.glob(pattern))
    if found:
        return found
    collection, rest = in_collection(pattern)
    if not collection:
        return []
    inner = [rest] if os.path.exists(rest) else sorted(glob.glob(rest))
    return [f"{collection}:{path}" for path in inner]


def _parent(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


def _read_directory(path: str) -> Evaluated:
    directory, file = path, os.path.join(path, "per_query.tsv")
    if not os.path.isdir(path):
        directory, file = _parent(path), path
    if not os.path.isfile(file):
        raise ValueError(
            f"{path}: expected a directory with per_query.tsv, as a finished run has, "
            "or such a file."
        )
    queries, values = _read_table(file, "query")
    if not queries:
        raise ValueError(f"{file}: expected at least one query. Found: none.")
    report: dict[str, Any] = {}
    history: dict[str, np.ndarray] = {}
    # Under another name, the other files may belong to another run.
    if os.path.basename(file) == "per_query.tsv":
        report = _read_report(os.path.join(directory, "metrics.json"))
        curves = os.path.join(directory, "history.tsv")
        if os.path.exists(curves):
            history = _read_table(curves, "epoch", any_number=True)[1]
    convention, left_out = report.get("convention"), None
    if convention is not None:
        if "labels" in report:
            convention = {**convention, "labels": report["labels"]}
        cut = report.get("eval_list_size") or {}
        if cut.get("test"):
            # Lists that are truncated differently are a different task.
            said = [f"{k.replace('_', ' ')} {v}" for k, v in cut["test"].items()]
            rules = [*cut["test"], "lists_cut"].index("lists_cut")  # Then come counts.
            convention = {**convention, "lists_cut": ", ".join(said[:rules])}
            left_out = ", ".join(said[rules:])
    return Evaluated(
        *(file, tuple(queries), values, convention, report.get("seed"), history),
        left_out=left_out,
    )


def _read_report(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        return {}
    writer = "`train` or `evaluate`"
    return json_files.read_object(path, writer, _KINDS)


def _read_table(
    path: str, key: str, any_number: bool = False
) -> tuple[list[str], dict[str, np.ndarray]]:
    """Reads a tab-separated file of numbers, whose first column is headed `key`.

    Returns the cells of the first column, as `text_files.encoded_name` writes them, and
    the other columns as numbers, NaN for empty cells.
    """
    lines = text_files.read_lines(path)
    header = next(lines, (1, ""))[1].split("\t")
    if header[0] != key or len(set(header)) < len(header) or len(header) < 2:
        raise ValueError(
            f"{path}:1: expected a header '{key}', then distinct names, separated "
            f"by tabs. Found: {' '.join(header)[:60]!r}"
        )
    rows: dict[str, list[float]] = {}
    for number, line in lines:
        first, *cells = line.split("\t")
        # Files that were not written here may have names as they are.
        first = text_files.encoded_name(first)
        if len(cells) != len(header) - 1:
            raise ValueError(
                f"{path}:{number}: expected {len(header)} cells, as the header has. "
                f"Found: {len(cells) + 1}."
            )
        if first in rows:
            raise ValueError(f"{path}:{number}: {key} {first!r} comes twice.")
        rows[first] = [
            _number(cell, any_number, f"{path}:{number}: {name}")
            for name, cell in zip(header[1:], cells)
        ]
    table = np.array(list(rows.values()), np.float64).reshape(-1, len(header) - 1)
    return list(rows), dict(zip(header[1:], table.T))


def _number(cell: str, any_number: bool, where: str) -> float:
    if not cell:
        return math.nan
    try:
        number = decimals.parse_number(cell, finite=not any_number)
    except ValueError:
        number = math.nan
        any_number = False
    if not any_number and not math.isfinite(number):
        raise ValueError(f"{where}: expected a finite number. Found: {cell!r}")
    return number
