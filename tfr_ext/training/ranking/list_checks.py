"""Checks of lists that are ranked, and of their scores."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from tfr_ext.data.lists import RankingLists


def check_features(lists: RankingLists, missing: bool = False) -> None:
    """Checks that no feature is NaN.

    Args:
        lists: the lists.
        missing: whether NaN is fine, as a missing feature, but not infinity.

    Raises:
        ValueError: if one is; the message names the first list with one.
    """
    unknown = np.isinf(lists.features) if missing else np.isnan(lists.features)
    if unknown.any():
        _raise_wrong(lists, int(np.argmax(unknown.any(axis=1))), "", missing)


def check_scores(lists: RankingLists, scores: np.ndarray) -> None:
    """Checks that lists can be ranked by their scores.

    Args:
        lists: the lists.
        scores: scores `[num_items]`.

    Raises:
        ValueError: if one is not finite; the message names the first list with one.
    """
    wrong = np.flatnonzero(~np.isfinite(scores))
    if len(wrong):
        _raise_wrong(lists, int(wrong[0]), f"{scores[wrong[0]]:g}")


def _raise_wrong(
    lists: RankingLists, index: int, score: str, missing: bool = False
) -> NoReturn:
    """Raises the error of a list that cannot be ranked.

    Args:
        lists: all lists.
        index: the item that shows it.
        score: its score, if it has one.
        missing: whether NaN is fine.
    """
    q = int(np.searchsorted(lists.row_splits, index, "right")) - 1
    items = slice(lists.row_splits[q], lists.row_splits[q + 1])
    bad = np.argwhere(~np.isfinite(lists.features[items]))
    unknown = np.argwhere(np.isnan(lists.features[items]))
    if missing:
        bad, unknown = np.argwhere(np.isinf(lists.features[items])), unknown[:0]
    if len(bad):
        item, feature = (unknown if len(unknown) else bad)[0]
        value = lists.features[items][item, feature]
        why = f"feature {feature + 1} of item {item + 1} is {value:g}"
    else:
        why = f"the model gives item {index - items.start + 1} the score {score}"
    raise ValueError(f"Query {lists.query_ids[q]!r} cannot be ranked: {why}.")
