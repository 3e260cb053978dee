"""Labels made of others: expected grades of distributions, and two classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tfr_ext.core import checks, grades
from tfr_ext.data.lists import RankingLists


def expected_labels(lists: RankingLists, weights: Sequence[float]) -> RankingLists:
    """Gives lists the expected weight of their label distributions as labels.

    The weights are shifted and rescaled to 0 to 1, so that labels are in that range:
    -1, 0.5, 1 become 0, 0.75, 1 (Purpura, Silvello and Susto, "Learning to Rank from
    Relevance Judgments Distributions", section 4).

    Args:
        lists: lists with label distributions, which stay.
        weights: the weight of each grade, rising.

    Returns:
        The lists, with other labels.

    Raises:
        ValueError: if the weights do not rise or are not as many as the grades, or the
            lists have no distributions.

    Examples:
        >>> lists = RankingLists(
        ...     np.zeros([2, 1], np.float32), np.float32([2, 0]), np.int64([0, 2]),
        ...     ["q"], label_distributions=np.float32([[0, .2, .8], [.5, .5, 0]]))
        >>> expected_labels(lists, [-1, 0.5, 1]).labels
        array([0.95 , 0.375], dtype=float32)
    """
    values = grades.check_values("weights", weights)
    distributions = lists.label_distributions
    if distributions is None:
        raise ValueError(
            "The lists have no label distributions, of which `weights` would give the "
            "expectation."
        )
    if distributions.shape[1] != len(values):
        raise ValueError(
            f"`weights` must be as many as the grades, {distributions.shape[1]}. "
            f"Received: {values}."
        )
    wide = distributions.astype(np.float64)
    # Their sum is not quite 1.
    labels = wide @ np.array(grades.rescaled(values)) / wide.sum(axis=1)
    return dataclasses.replace(lists, labels=labels.astype(np.float32))


def binary_labels(lists: RankingLists, threshold: float) -> RankingLists:
    """Makes labels from a threshold up 1, and the others 0.

    Args:
        lists: the lists. Their label distributions, which are over other grades, go.
        threshold: the least label that becomes 1, positive.

    Returns:
        The lists, with other labels.

    Raises:
        ValueError: if the threshold is not positive.

    Examples:
        >>> lists = RankingLists(np.zeros([3, 1], np.float32), np.float32([2, 0, 1]),
        ...                      np.int64([0, 3]), ["q"])
        >>> binary_labels(lists, 2).labels.tolist()
        [1.0, 0.0, 0.0]
    """
    threshold = checks.positive("threshold", threshold)
    # As a float32, which the labels are: 0.1 is a little more there.
    labels = (lists.labels >= np.float32(threshold)).astype(np.float32)
    return dataclasses.replace(lists, labels=labels, label_distributions=None)
