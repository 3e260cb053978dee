"""Keeps the items of lists that a run ranks highest, to rank them anew."""

from __future__ import annotations

import functools
import glob
import os
from collections.abc import Sequence

import numpy as np

from tfr_ext.core.settings import given
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import trec, trec_names


def rerank(lists: RankingLists, patterns: Sequence[str], depth: int) -> RankingLists:
    """Returns lists of the items that runs rank highest, in their order in the lists.

    Items are ranked by the score in the run and, if scores tie, by document name, the
    greatest first, as trec_eval ranks them.

    Args:
        lists: the lists, whose documents are named by `evaluation.document_names`.
        patterns: paths or globs of TREC runs, with each query in one of them.
        depth: number of items to keep of each list.

    Raises:
        ValueError: if a run has errors, a query is in two runs or in none, or the run
            has fewer than `depth` documents of a longer list.
        OSError: if a file cannot be read.
    """
    run = _read(tuple(_files(patterns)))
    names = trec_names.document_names(lists)
    kept, lengths = [], []
    where = given("rerank_run", tuple(patterns))
    for query, start, end in zip(
        trec_names.QueryNames()(lists.query_ids), lists.row_splits, lists.row_splits[1:]
    ):
        if query not in run.encoded:
            raise ValueError(
                f"{where}: expected a ranking of every query of the data. Query "
                f"{query!r} is in no run."
            )
        scores = run.encoded[query]
        found = [i for i in range(start, end) if names[i] in scores]
        wanted = min(depth, int(end - start))
        if len(found) < wanted:
            lacking = next(n for n in names[start:end] if n not in scores)
            raise ValueError(
                f"{where}: expected at least {wanted} of the {end - start} documents "
                f"of query {query!r}. Found: {len(found)}, without {lacking!r} for "
                "one. Documents are matched by their names in the data."
            )
        found.sort(key=lambda i: names[i], reverse=True)
        found.sort(key=lambda i: -scores[names[i]])
        kept += sorted(found[:wanted])
        lengths.append(wanted)
    return lists.with_items(np.array(kept), np.array(lengths), lists.query_ids)


def _files(patterns: Sequence[str]) -> list[tuple[str, int, int]]:
    """Returns path, time and size of each file, so that a changed one is read again."""
    found = []
    for pattern in patterns:
        paths = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
        if not paths:
            raise FileNotFoundError(f"`rerank_run`: nothing is at {pattern!r}.")
        for path in paths:
            about = os.stat(path)
            found.append((path, about.st_mtime_ns, about.st_size))
    return list(dict.fromkeys(found))


def files(patterns: Sequence[str]) -> list[str]:
    """Returns the paths of the runs.

    Raises:
        FileNotFoundError: if nothing is at a path or glob.
    """
    return [path for path, _, _ in _files(patterns)]


@functools.lru_cache(maxsize=1)
def _read(found: tuple[tuple[str, int, int], ...]) -> trec.TrecRun:
    """Reads runs, once for all splits."""
    documents: dict = {}
    owner: dict[str, str] = {}
    for path, _, _ in found:
        for query, scores in trec.read_run(path).documents.items():
            if query in documents:
                raise ValueError(
                    f"`rerank_run`: query {query!r} is in both {owner[query]} and "
                    f"{path}. Expected it in one."
                )
            documents[query], owner[query] = scores, path
    return trec.TrecRun(documents, "rerank_run")
