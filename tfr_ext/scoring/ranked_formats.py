"""The text of ranked lists in each output format."""

from __future__ import annotations

import csv
import functools
import io
import json
from collections.abc import Callable, Iterator

import numpy as np

from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import trec, trec_names
from tfr_ext.scoring.rank_config import RankConfig

_COLUMNS = ("query_id", "doc_id", "position", "rank", "score")
# An item: its name, its position in its list from 1, and its score.
_Item = tuple[str, int, float]


def head(config: RankConfig) -> str:
    """Returns the text before all lists: the names of the columns of a table."""
    delimiter = _DELIMITERS.get(config.output_format)
    return "" if delimiter is None else delimiter.join(_COLUMNS) + "\n"


def _trec(config: RankConfig, lists: RankingLists, scores: np.ndarray) -> Iterator[str]:
    return trec.run_lines(lists, scores, config.tag, config.topn)


def _jsonl(
    config: RankConfig, lists: RankingLists, scores: np.ndarray
) -> Iterator[str]:
    for query, items in _ranked(config, lists, scores):
        shown = [
            {"doc_id": name, "position": position, "score": score}
            for name, position, score in items
        ]
        content = {"query_id": query, "items": shown}
        yield json.dumps(content, ensure_ascii=False) + "\n"


def _table(
    delimiter: str, config: RankConfig, lists: RankingLists, scores: np.ndarray
) -> Iterator[str]:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    for query, items in _ranked(config, lists, scores):
        writer.writerows(
            (query, name, position, rank, f"{score:.9g}")
            for rank, (name, position, score) in enumerate(items, 1)
        )
    yield text.getvalue()


def _ranked(
    config: RankConfig, lists: RankingLists, scores: np.ndarray
) -> Iterator[tuple[str, list[_Item]]]:
    """Yields each query with its items, the best first."""
    # The names of the source: these formats can hold any name, unlike a run.
    names = trec_names.item_names(lists)
    splits = lists.row_splits.tolist()
    for query, start, end in zip(lists.query_ids, splits, splits[1:]):
        order = trec.best_first(scores[start:end])[: config.topn]
        # The shortest text of this float32, instead of 17 digits.
        rounded = [float(f"{score:.9g}") for score in scores[start + order].tolist()]
        yield (
            query,
            [
                (names[start + i], i + 1, score)
                for i, score in zip(order.tolist(), rounded)
            ],
        )


_DELIMITERS = {"csv": ",", "tsv": "\t"}
WRITERS: dict[str, Callable[[RankConfig, RankingLists, np.ndarray], Iterator[str]]] = {
    "trec": _trec,
    "jsonl": _jsonl,
    **{name: functools.partial(_table, mark) for name, mark in _DELIMITERS.items()},
}
