"""Truncates lists as the settings say, or to the best of a run, and reports it."""

from __future__ import annotations

import dataclasses
import functools
import glob
import os
from collections.abc import Sequence

import numpy as np

from tfr_ext.core.settings import given
from tfr_ext.data.lists import RankingLists
from tfr_ext.data.truncation import truncate
from tfr_ext.evaluation import trec, trec_names
from tfr_ext.settings.data_config import DataConfig


class LongLists:
    """Applies `rerank_run`, then `list_size` or `eval_list_size`; counts the cuts."""

    def __init__(self, config: DataConfig, split: str = "training"):
        """Chooses the rule for lists of 'training', 'validation' or 'test'."""
        self._split = split
        self._argument = "list_size" if split == "training" else "eval_list_size"
        self._list_size = getattr(config, self._argument)
        self._rerank_run, self._depth = config.rerank_run, config.rerank_depth
        self._feature = config.first_stage_feature
        self._seed = config.random_seed
        self.num_lists = self.num_cut = 0
        self._items, self._items_kept = 0, 0
        self._relevant, self._relevant_kept = 0, 0

    def __call__(self, lists: RankingLists, number: int = 0) -> RankingLists:
        """Returns lists that are no longer than allowed.

        If they are one of several pieces, `number` is that of the piece.
        """
        if not self.cuts:
            return lists
        if (self._split != "training" or self._rerank_run) and lists.doc_ids is None:
            # Named before positions change: files of a run name items by them.
            names = trec_names.document_names(lists)
            lists = dataclasses.replace(lists, doc_ids=names)
        seed = (number << 32) + self._seed
        kept = lists
        if self._rerank_run:
            kept = rerank(lists, self._rerank_run, self._depth)
        if self._list_size is not None:
            try:
                kept, _ = truncate(kept, self._list_size, seed, self._feature)
            except ValueError as error:
                raise ValueError(
                    f"{given('first_stage_feature', self._feature)}: {error}"
                ) from error
        self.num_lists += lists.num_lists
        self.num_cut += int((kept.lengths < lists.lengths).sum())
        self._items += lists.num_items
        self._items_kept += kept.num_items
        self._relevant += int((lists.labels > 0).sum())
        self._relevant_kept += int((kept.labels > 0).sum())
        return kept

    @property
    def cuts(self) -> bool:
        """Whether lists may be cut."""
        return self._list_size is not None or bool(self._rerank_run)

    def describe(self) -> str:
        """Returns in words how much was left out; empty if nothing was."""
        if not self.num_cut:
            return ""
        rule = "a random choice of their items"
        if self._feature is not None:
            rule = f"the items with the highest feature {self._feature}"
        if self._rerank_run:
            by_run = f"the {self._depth} best items of the run"
            rule = by_run if self._list_size is None else f"{by_run}, and {rule}"
        named = [given(self._argument, self._list_size)] * (self._list_size is not None)
        if self._rerank_run:
            named.insert(0, given("rerank_run", self._rerank_run))
        return (
            f"{' and '.join(named)} cut {self.num_cut:,} of "
            f"{self.num_lists:,} {self._split} lists to {rule}; "
            f"{self._items - self._items_kept:,} of {self._items:,} items are left "
            f"out, including {self._relevant - self._relevant_kept:,} of "
            f"{self._relevant:,} relevant ones."
        )

    def as_dict(self) -> dict[str, int | None] | None:
        """Returns the same in numbers; None if lists are never cut."""
        if not self.cuts:
            return None
        random = self._feature is None and self._list_size is not None
        return {
            **({"rerank_depth": self._depth} if self._rerank_run else {}),
            "list_size": self._list_size,
            "first_stage_feature": self._feature,
            "seed": self._seed if random else None,
            "lists_cut": self.num_cut,
            "items_left_out": self._items - self._items_kept,
            "relevant_left_out": self._relevant - self._relevant_kept,
        }


def rerank(lists: RankingLists, patterns: Sequence[str], depth: int) -> RankingLists:
    """Returns lists of the items that runs rank highest, in their order in the lists.

    Items are ranked by the score in the run and, if scores tie, by document name, the
    greatest first, as trec_eval ranks them. `patterns` are paths or globs of TREC runs,
    with each query in one of them; `depth` items of each list are kept.
    """
    run = _read_runs(tuple(stats(patterns)))
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
        found.sort(key=lambda i: (scores[names[i]], names[i]), reverse=True)
        kept += sorted(found[:wanted])
        lengths.append(wanted)
    return lists.with_items(np.array(kept), np.array(lengths), lists.query_ids)


def stats(patterns: Sequence[str]) -> list[tuple[str, int, int]]:
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


@functools.lru_cache(maxsize=1)
def _read_runs(found: tuple[tuple[str, int, int], ...]) -> trec.TrecRun:
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
