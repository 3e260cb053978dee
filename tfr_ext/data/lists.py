"""Ranking lists in memory: what every reader returns and every batcher takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class RankingLists:
    """Judged items grouped into lists, one list per query, items in file order.

    Items `row_splits[q]:row_splits[q + 1]` form list `q`.

    Attributes:
        features: float32 array of shape `[num_items, num_features]`.
        labels: float32 array of shape `[num_items]`, all `>= 0`.
        row_splits: int64 array of shape `[num_lists + 1]`, from 0 to `num_items`.
        query_ids: `num_lists` query identifiers, all different.
        doc_ids: `num_items` document identifiers, or None if the source has none.
        label_distributions: float32 array of shape `[num_items, num_grades]`: for each
            item the probability of each grade, or None if there are labels only.

    Examples:
        >>> lists = RankingLists(
        ...     features=np.zeros([3, 2], np.float32),
        ...     labels=np.float32([1, 0, 2]),
        ...     row_splits=np.int64([0, 2, 3]),
        ...     query_ids=["a", "b"],
        ... )
        >>> lists.num_lists, lists.num_items, lists.num_features
        (2, 3, 2)
        >>> lists.lengths.tolist()
        [2, 1]
    """

    features: np.ndarray
    labels: np.ndarray
    row_splits: np.ndarray
    query_ids: Sequence[str]
    doc_ids: Sequence[str] | None = None
    label_distributions: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Checks that the arrays describe the same items."""
        items = len(self.labels)
        if self.features.ndim != 2 or len(self.features) != items:
            raise ValueError(
                "`features` must have shape [num_items, num_features] with "
                f"num_items = {items} as `labels` has. Received: {self.features.shape}."
            )
        splits = self.row_splits
        if len(splits) < 1 or splits[0] != 0 or splits[-1] != items:
            raise ValueError(
                f"`row_splits` must run from 0 to {items}. Received: {splits}."
            )
        if len(self.query_ids) != self.num_lists:
            raise ValueError(
                f"`query_ids` must name {self.num_lists} lists. "
                f"Received: {len(self.query_ids)}."
            )
        if self.doc_ids is not None and len(self.doc_ids) != items:
            raise ValueError(
                f"`doc_ids` must name {items} items. Received: {len(self.doc_ids)}."
            )
        if self.label_distributions is not None:
            _check_distributions(self.label_distributions, items)

    def select(self, chosen: Sequence[int] | np.ndarray) -> RankingLists:
        """Returns some of the lists, in the order given.

        Args:
            chosen: indices of lists.
        """
        chosen = np.asarray(chosen, np.int64)
        splits = self.row_splits
        items = np.concatenate(
            [np.arange(splits[q], splits[q + 1]) for q in chosen] or [chosen]
        )
        query_ids = [self.query_ids[q] for q in chosen]
        return self.with_items(items, self.lengths[chosen], query_ids)

    def with_items(
        self, items: np.ndarray, lengths: np.ndarray, query_ids: Sequence[str]
    ) -> RankingLists:
        """Returns lists of some of the items.

        Args:
            items: indices of the items, list by list.
            lengths: number of items of each list.
            query_ids: the query of each list.
        """
        distributions = self.label_distributions
        return RankingLists(
            features=self.features[items],
            labels=self.labels[items],
            row_splits=np.concatenate([[0], np.cumsum(lengths)]),
            query_ids=query_ids,
            doc_ids=self.doc_ids and [self.doc_ids[i] for i in items],
            label_distributions=None if distributions is None else distributions[items],
        )

    @property
    def num_lists(self) -> int:
        """Number of lists (queries)."""
        return len(self.row_splits) - 1

    @property
    def num_items(self) -> int:
        """Number of items (documents) over all lists."""
        return len(self.labels)

    @property
    def num_features(self) -> int:
        """Width of the feature vectors."""
        return self.features.shape[1]

    @property
    def num_grades(self) -> int | None:
        """Width of the label distributions, or None."""
        shares = self.label_distributions
        return None if shares is None else shares.shape[1]

    @property
    def max_label(self) -> float:
        """The highest label; 0 if there is none."""
        return float(self.labels.max(initial=0))

    @property
    def label_counts(self) -> dict[float, int]:
        """Number of items by label, from the lowest to the highest."""
        labels, counts = np.unique(self.labels, return_counts=True)
        return dict(zip(labels.tolist(), counts.tolist()))

    @property
    def num_empty(self) -> int:
        """Number of lists without a label above 0."""
        relevant = np.concatenate([[0], np.cumsum(self.labels > 0)])
        return int((np.diff(relevant[self.row_splits]) == 0).sum())

    @property
    def lengths(self) -> np.ndarray:
        """Number of items of each list, shape `[num_lists]`."""
        return np.diff(self.row_splits)


def are_distributions(rows: np.ndarray) -> np.ndarray:
    """Returns for each row whether it is of at least 2 probabilities that sum to 1."""
    total = rows.sum(axis=1)
    right = (rows >= 0).all(axis=1) & (np.abs(total - 1) < 1e-3)
    return right & (rows.shape[1] >= 2)


def _check_distributions(distributions: np.ndarray, items: int) -> None:
    """Raises a ValueError if some rows are not distributions over grades."""
    shape = distributions.shape
    if len(shape) != 2 or shape[0] != items or shape[1] < 2:
        raise ValueError(
            f"`label_distributions` must have shape [{items}, num_grades] with at "
            f"least 2 grades. Received: {shape}."
        )
    right = are_distributions(distributions)
    if not right.all():
        item = int(np.flatnonzero(~right)[0])
        raise ValueError(
            "Each row of `label_distributions` must be of probabilities that sum to 1. "
            f"Item {item} has {distributions[item].tolist()}."
        )
