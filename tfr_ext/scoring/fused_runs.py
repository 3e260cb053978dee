"""The runs that are fused, and the judgements that they share."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfr_ext.core import json_files
from tfr_ext.core.messages import say
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import fusion, runs, trec
from tfr_ext.runs import outputs

SPLITS = ("test", "valid")
_KINDS: json_files.Kinds = {"convention": (dict,), "seed": (int, type(None))}


@dataclasses.dataclass(frozen=True)
class Fused:
    """A run that is fused.

    Attributes:
        path: a directory, or a TREC file.
        files: by split, the TREC file of its ranking.
        qrels: by split, the TREC file of its judgements.
        report: its `metrics.json`; empty for a TREC file.
        evaluated: what `compare` reads of it; None for a TREC file.
    """

    path: str
    files: dict[str, str]
    qrels: dict[str, str]
    report: dict[str, Any]
    evaluated: runs.Run | None

    def has(self, split: str, judged: RankingLists | None) -> bool:
        """True if the run ranks any query of the split ('test' or 'valid')."""
        if split not in self.files or judged is None or self.evaluated is not None:
            return split in self.files
        return len(trec.read_run(self.path).missing(judged)) < judged.num_lists


def find(path: str) -> Fused:
    """Finds the files of a run: a directory, or a TREC file of one or both splits."""
    if os.path.isfile(path):
        return Fused(path, dict.fromkeys(SPLITS, path), {}, {}, None)
    if not os.path.isdir(path):
        raise ValueError(
            f"{path}: expected the directory of a run, or a TREC run file. Found: "
            "nothing."
        )
    files: dict[str, str] = {}
    qrels: dict[str, str] = {}
    for split in SPLITS:
        names = outputs.trec_files(split)
        for found, name in zip((files, qrels), names):
            if os.path.isfile(os.path.join(path, name)):
                found[split] = os.path.join(path, name)
    evaluated = runs.read(path, [path])
    if "test" not in files:
        raise ValueError(
            f"{path}: expected run.trec, as a finished run has. Found: none."
        )
    report_path = os.path.join(path, "metrics.json")
    report = {}
    if os.path.exists(report_path):
        writer = "`train`, `evaluate` or `fuse`"
        report = json_files.read_object(report_path, writer, _KINDS)
    return Fused(path, files, qrels, report, evaluated)


def judgements(
    fused: Sequence[Fused], split: str, given: str | None
) -> RankingLists | None:
    """Reads the judgements in the file `given`, or else those that the runs share.

    Returns None if nothing has any.
    """
    if given is not None:
        return trec.read_qrels(given)
    paths = [run.qrels[split] for run in fused if split in run.qrels]
    if not paths:
        return None
    first = trec.read_qrels(paths[0])
    for path in paths[1:]:
        _check_same(first, paths[0], trec.read_qrels(path), path)
    return first


@dataclasses.dataclass(frozen=True)
class Joined:
    """The runs on the lists of a split.

    Attributes:
        lists: `judged`, with the other documents of the runs.
        contributed: what each run adds to each item, `[runs, items]`; minus infinity
            for an item that no run has.
    """

    judged: RankingLists
    lists: RankingLists
    contributed: np.ndarray

    def scores(self, weights: Sequence[float] | None) -> np.ndarray:
        """Returns fused scores, minus infinity where no run has the item."""
        lacking = np.isneginf(self.contributed[0])
        present = np.where(lacking, 0.0, self.contributed)
        return np.where(lacking, -np.inf, fusion.fused(present, weights))


def join(
    fused: Sequence[Fused],
    split: str,
    judged: RankingLists,
    kind: str,
    rrf_k: float,
) -> Joined:
    """Reads the rankings of a split, and says what a run lacks of it."""
    read = [trec.read_run(run.files[split], judged) for run in fused]
    lists, scores = trec.with_runs(judged, read)
    lacking = np.isneginf(scores).all(axis=0)
    name = "test" if split == "test" else "validation"
    for run, one, own in zip(fused, read, scores):
        queries = one.missing(judged)
        documents = int((np.isneginf(own) & ~lacking).sum())
        if queries:
            say(
                f"{run.path} lacks {len(queries)} of {judged.num_lists} {name} "
                f"queries, such as {queries[0]!r}: it adds nothing to their order."
            )
        if documents:
            say(
                f"{run.path} lacks {documents:,} of {int((~lacking).sum()):,} "
                f"documents of the {name} queries: there they come after all that it "
                "has."
            )
    contributed = np.stack(
        [fusion.contributions(own, lists.row_splits, kind, rrf_k) for own in scores]
    )
    contributed[:, lacking] = -np.inf
    return Joined(judged, lists, contributed)


def _check_same(
    first: RankingLists, path: str, second: RankingLists, other: str
) -> None:
    """Raises a ValueError if two files of judgements differ."""
    mine, theirs = map(_by_query, (first, second))
    for one, there, at, where in (
        (mine, theirs, path, other),
        (theirs, mine, other, path),
    ):
        for query in one:
            if query not in there:
                raise ValueError(
                    f"{where}: expected the queries of {at}. Query {query!r} is "
                    "missing: fused runs need the same queries."
                )
    for query, grades in mine.items():
        for document, grade in grades.items():
            found = theirs[query].get(document, grade)
            if found != grade:
                raise ValueError(
                    f"{other}: document {document!r} of query {query!r} has grade "
                    f"{found:g}, but {grade:g} in {path}."
                )
        if grades.keys() != theirs[query].keys():
            different = min(grades.keys() ^ theirs[query].keys())
            raise ValueError(
                f"{other}: expected the documents that {path} has for query "
                f"{query!r}. Only one of them has {different!r}: fused runs need the "
                "same judgements."
            )


def _by_query(lists: RankingLists) -> dict[str, dict[str, float]]:
    assert lists.doc_ids is not None
    splits = lists.row_splits
    return {
        query: dict(zip(lists.doc_ids[start:end], lists.labels[start:end].tolist()))
        for query, start, end in zip(lists.query_ids, splits, splits[1:])
    }
