"""Truncates lists, at random or by the score of a first stage."""

from __future__ import annotations

import numpy as np

from tfr_ext.core import checks
from tfr_ext.data.lists import RankingLists


def truncate(
    lists: RankingLists,
    list_size: int,
    seed: int,
    first_stage_feature: int | None = None,
) -> tuple[RankingLists, int]:
    """Cuts long lists down to some of their items, which keep their order.

    Args:
        lists: the lists.
        list_size: maximum number of items of a list, at least 1.
        seed: seed of the random choice of items.
        first_stage_feature: number of a feature, counted from 1 as in LETOR text, such
            as the score of a first-stage ranker. The items with its highest values are
            kept (the first of equal ones), and the seed has no effect.

    Returns:
        The lists, and how many of them were cut.

    Raises:
        ValueError: If `list_size` is less than 1, or there is no such feature.

    Examples:
        >>> lists = RankingLists(np.float32([[3.], [9.], [5.]]), np.float32([0, 1, 2]),
        ...                      np.int64([0, 3]), ["q"])
        >>> cut, count = truncate(lists, 2, seed=0, first_stage_feature=1)
        >>> cut.labels.tolist(), count
        ([1.0, 2.0], 1)
    """
    checks.at_least("list_size", list_size, 1)
    if first_stage_feature is not None and not (
        1 <= first_stage_feature <= lists.num_features
    ):
        raise ValueError(
            f"`first_stage_feature` must be from 1 to {lists.num_features}, the number "
            f"of features. Received: {first_stage_feature}."
        )
    long = np.flatnonzero(lists.lengths > list_size)
    if not len(long):
        return lists, 0
    rng = np.random.default_rng(seed)
    kept = np.ones(lists.num_items, bool)
    for q in long:
        start, end = lists.row_splits[q], lists.row_splits[q + 1]
        if first_stage_feature is None:
            order = rng.permutation(end - start)
        else:
            first_stage = lists.features[start:end, first_stage_feature - 1]
            order = np.argsort(-first_stage, kind="stable")
        kept[start + order[list_size:]] = False
    cut = lists.with_items(
        np.flatnonzero(kept), np.minimum(lists.lengths, list_size), lists.query_ids
    )
    return cut, len(long)
