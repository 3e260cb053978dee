"""Compares the scores of an exported model with those of its training run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tfr_ext.data.batches.batching import score_lists
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import trec, trec_names
from tfr_ext.models.combination import SPREAD_FLOOR, parts_of

# The greatest difference of two scores, relative to the greatest score of the list. The
# export runs the same operations in another graph, so that sums may be rounded in
# another order; half precision rounds after 8 bits.
TOLERANCE = 1e-4
HALF_TOLERANCE = 3e-2


class Expected(NamedTuple):
    """Expected scores `[num_items]`, and the bounds to which rounding may move them."""

    scores: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray

    def moved(self, scores: np.ndarray) -> Expected:
        """Returns the expectation of other scores, with bounds mirrored around both."""
        change = self.scores + scores
        return Expected(scores, change - self.highest, change - self.lowest)


def around(scores: np.ndarray, lists: RankingLists, tolerance: float) -> Expected:
    """Expects scores, to within `tolerance`, a share of the list's greatest score."""
    scores = scores.astype(float)
    allowed = tolerance * np.maximum(_by_list(np.max, np.abs(scores), lists), 1e-6)
    return Expected(scores, scores - allowed, scores + allowed)


def of_model(
    model: Any, lists: RankingLists, batch_size: int, tolerance: float
) -> Expected:
    """Expects the scores of a model, which may combine others.

    A z-score magnifies the rounding of scores that are close to each other, and a rank
    jumps where two scores are all but equal: the bounds of a combination of models
    follow from the tolerance of the scores of each.
    """
    scores = score_lists(model, lists, batch_size)
    combined = parts_of(model)
    if combined is None:
        return around(scores, lists, tolerance)
    combination, parts = combined
    found = [of_model(part, lists, batch_size, tolerance) for part in parts]
    bounds = [_BOUNDS[combination](one, lists) for one in found]
    lowest, highest = np.mean(bounds, axis=0)
    # Rounding of the mean itself, and items of one score, which a run tells apart.
    slack = around(scores, lists, tolerance)
    return Expected(
        slack.scores,
        lowest + slack.lowest - slack.scores,
        highest + slack.highest - slack.scores,
    )


def check(
    lists: RankingLists, exported: np.ndarray, expected: Expected, of_run: str
) -> None:
    """Checks that an export scores lists as its run did.

    In the error, `of_run` says where the scores of the run come from.
    """
    exported = exported.astype(float)
    # Written so that a NaN of either is a difference.
    same = (expected.lowest <= exported) & (exported <= expected.highest)
    wrong = np.flatnonzero(~same)
    if not len(wrong):
        return
    item = wrong[0]
    q = int(np.searchsorted(lists.row_splits, item, "right")) - 1
    raise ValueError(
        f"The export scores {len(wrong):,} of {lists.num_items:,} test items "
        f"differently from {of_run}. The first is item "
        f"{item - lists.row_splits[q] + 1} of query {lists.query_ids[q]!r}: "
        f"{exported[item]:g} instead of {expected.scores[item]:g}. Nothing was "
        "exported."
    )


def read_scores(path: str, lists: RankingLists) -> np.ndarray:
    """Returns the scores of lists in a run file.

    Args:
        path: the `run.trec` of a training run, on these lists.
        lists: its test lists.

    Raises:
        ValueError: If the file lacks an item, or has another format.
        OSError: If it cannot be read.
    """
    documents = trec.read_run(path, lists).encoded
    names = trec_names.document_names(lists)
    scores = []
    for q, query in enumerate(trec_names.QueryNames()(lists.query_ids)):
        for i in range(lists.row_splits[q], lists.row_splits[q + 1]):
            score = documents.get(query, {}).get(names[i])
            if score is None:
                raise ValueError(
                    f"{path}: there is no score for item {names[i]!r} of query "
                    f"{query!r}, which is a test list of the run."
                )
            scores.append(score)
    return np.array(scores)


def _by_list(statistic: Any, values: np.ndarray, lists: RankingLists) -> np.ndarray:
    """Returns a statistic of each list, for each of its items."""
    found = np.zeros(len(values))
    for start, end in zip(lists.row_splits, lists.row_splits[1:]):
        if end > start:
            found[start:end] = statistic(values[start:end])
    return found


def _scores(one: Expected, lists: RankingLists) -> tuple[np.ndarray, np.ndarray]:
    """Returns the bounds of scores, of which the mean is taken."""
    del lists
    return one.lowest, one.highest


def _zscores(one: Expected, lists: RankingLists) -> tuple[np.ndarray, np.ndarray]:
    """Returns the bounds of the z-scores."""
    greatest = _by_list(np.max, np.abs(one.scores), lists)
    spread = _by_list(np.std, one.scores, lists)
    spread = np.maximum(np.hypot(spread, SPREAD_FLOOR * greatest), 1e-30)
    z = (one.scores - _by_list(np.mean, one.scores, lists)) / spread
    # A change of all scores by r moves the mean and the deviation by r at most.
    r = _by_list(np.max, one.highest - one.lowest, lists) / 2
    allowed = r / spread * (2 + np.abs(z))
    return z - allowed, z + allowed


def _ranks(one: Expected, lists: RankingLists) -> tuple[np.ndarray, np.ndarray]:
    """Returns the bounds of the ranks, with a minus sign."""
    lowest, highest = np.empty(len(one.scores)), np.empty(len(one.scores))
    for start, end in zip(lists.row_splits, lists.row_splits[1:]):
        here = slice(start, end)
        low, high = np.sort(one.lowest[here]), np.sort(one.highest[here])
        # At best as many are before it as are surely better, at worst as many as may be
        # as good, itself among them.
        surely = len(low) - np.searchsorted(low, one.highest[here], "right")
        perhaps = len(high) - np.searchsorted(high, one.lowest[here], "left")
        highest[here], lowest[here] = -(surely + 1.0), -perhaps.astype(float)
    return lowest, highest


_BOUNDS = {"mean": _scores, "zscore": _zscores, "rank": _ranks}
