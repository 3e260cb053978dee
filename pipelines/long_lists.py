"""Long training lists, cut as the flags say and told."""

from __future__ import annotations

from typing import Any

from tfr_ext import data


class LongLists:
    """What `--list_size` does to training lists, and how much of it.

    Attributes:
        num_lists: lists seen.
        num_cut: lists cut.
    """

    def __init__(self, flags: Any):
        """Initialises the rule.

        Args:
            flags: parsed flags, see `pipelines.flags.define_data_flags`.

        Raises:
            ValueError: if they do not fit each other.
        """
        if flags.first_stage_feature is not None and flags.list_size is None:
            raise ValueError(
                "--first_stage_feature has no meaning without --list_size."
            )
        self._list_size = flags.list_size
        self._feature = flags.first_stage_feature
        self._seed = flags.seed
        self.num_lists = self.num_cut = 0
        self._items, self._items_kept = 0, 0
        self._relevant, self._relevant_kept = 0, 0

    def __call__(self, lists: data.RankingLists, number: int = 0) -> data.RankingLists:
        """Returns lists that are no longer than allowed.

        Args:
            lists: training lists.
            number: their number, if they are one of several pieces.

        Raises:
            ValueError: if the feature that chooses the items is not one of theirs.
        """
        if self._list_size is None:
            return lists
        seed = (number << 32) + self._seed
        try:
            kept, cut = data.truncate(lists, self._list_size, seed, self._feature)
        except ValueError as error:
            raise ValueError(
                f"--first_stage_feature={self._feature}: {error}"
            ) from error
        self.num_lists += lists.num_lists
        self.num_cut += cut
        self._items += lists.num_items
        self._items_kept += kept.num_items
        self._relevant += int((lists.labels > 0).sum())
        self._relevant_kept += int((kept.labels > 0).sum())
        return kept

    def describe(self) -> str:
        """Returns in words what was left out; nothing if nothing was."""
        if not self.num_cut:
            return ""
        rule = "a random choice of their items"
        if self._feature is not None:
            rule = f"the items with the highest feature {self._feature}"
        return (
            f"--list_size={self._list_size} cut {self.num_cut:,} of "
            f"{self.num_lists:,} training lists to {rule}; "
            f"{self._items - self._items_kept:,} of {self._items:,} items are left "
            f"out, {self._relevant - self._relevant_kept:,} of {self._relevant:,} "
            "relevant ones among them."
        )
