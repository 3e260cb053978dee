"""Changes labels as the settings say."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from tfr_ext.core import grades
from tfr_ext.core.settings import given
from tfr_ext.data.batches.streams import StreamedLists
from tfr_ext.data.labels import binary_labels, expected_labels
from tfr_ext.data.lists import RankingLists
from tfr_ext.settings.data_config import DataConfig

AnyLists: TypeAlias = RankingLists | StreamedLists


@dataclasses.dataclass(frozen=True)
class Labels:
    """Changes to the labels of all splits, by `label_weights` and `binarize_labels`."""

    weights: list[float] | None
    threshold: float | None

    def __call__(self, lists: RankingLists) -> RankingLists:
        """Returns lists with the changed labels."""
        if self.weights is not None:
            try:
                lists = expected_labels(lists, self.weights)
            except ValueError as error:
                weights = given("label_weights", tuple(self.weights))
                raise ValueError(f"{weights}: {error}") from error
        if self.threshold is not None:
            lists = binary_labels(lists, self.threshold)
        return lists

    def describe(self) -> str:
        """Describes the labels in words."""
        steps = []
        if self.weights is not None:
            weights = ", ".join(f"{weight:g}" for weight in self.weights)
            steps.append(
                "expected weight of the label distribution, weights "
                f"{weights} rescaled to 0 to 1"
            )
        if self.threshold is not None:
            steps.append(f"1 from {self.threshold:g} up, else 0")
        return "; then ".join(steps) or "as given"

    @property
    def values(self) -> list[float] | None:
        """The label of each grade of a label distribution, if the settings give it."""
        if self.weights is None or self.threshold is not None:
            return None
        return grades.rescaled(self.weights)

    def highest(self, max_label: float | None, all_lists: Sequence[AnyLists]) -> float:
        """Returns the highest grade: as given, or by definition, or as found.

        `all_lists` have the changed labels.
        """
        found = found_highest(all_lists)
        if max_label is not None:
            if found > np.float32(max_label):
                raise ValueError(
                    f"{given('max_label', max_label)}, but there is a label {found:g}."
                )
            return max_label
        if self.weights is not None or self.threshold is not None:
            return 1.0
        return found or 1.0


AS_GIVEN = Labels(None, None)


def from_config(config: DataConfig) -> Labels:
    """Returns how the settings change labels."""
    return Labels(list(config.label_weights) or None, config.binarize_labels)


def found_highest(all_lists: Sequence[AnyLists]) -> float:
    """Returns the highest label of some lists."""
    return max(lists.max_label for lists in all_lists)
