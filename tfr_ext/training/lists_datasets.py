"""Batches of lists for training and validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.data.batches.batching import BatchedLists, LabelTransform
from tfr_ext.data.batches.streamed_batches import StreamedBatches
from tfr_ext.data.batches.streams import StreamedLists
from tfr_ext.data.lists import RankingLists

# Validation batches of up to this size are kept from epoch to epoch.
_CACHED_BYTES = 1 << 27


class ListsDatasets:
    """Batches of lists to train on, in a new order each epoch, and to validate on.

    Attributes:
        train: the batches to train on.
        valid: the batches to validate on.
    """

    def __init__(
        self,
        train: RankingLists | StreamedLists,
        valid: RankingLists,
        batch_size: int,
        seed: int,
        label_transform: LabelTransform | None = None,
        num_grades: int | None = None,
        max_padding: float | None = None,
    ):
        """Makes batches.

        Args:
            train: lists to train on, in a new order each epoch; in memory or streamed.
            valid: lists to validate on.
            batch_size: maximum number of lists per batch.
            seed: seed of the order.
            label_transform: gives the training labels of each epoch.
            num_grades: if given, labels are distributions over this many grades.
            max_padding: maximum ratio of padded to real items, see `BatchedLists`.

        Raises:
            ValueError: If the labels do not fit `label_transform` or `num_grades`.
        """
        options: dict[str, Any] = {
            "label_transform": label_transform,
            "num_grades": num_grades,
            "max_padding": max_padding,
        }
        self.train: BatchedLists | StreamedBatches
        if isinstance(train, StreamedLists):
            self.train = StreamedBatches(train, batch_size, seed, **options)
        else:
            self.train = BatchedLists(train, batch_size, seed, **options)
        self.valid = BatchedLists(
            valid, batch_size, num_grades=num_grades, max_padding=max_padding
        )
        self._valid_bytes = 4 * valid.features.size * self.valid.padding_waste()

    def batches_of(
        self, epochs: Sequence[int], steps: int | None = None, done: int = 0
    ) -> tf.data.Dataset:
        """Returns the batches of training in some epochs, one after the other.

        Args:
            epochs: numbers of the epochs, from 0.
            steps: number of batches of an epoch; a whole pass by default.
            done: number of batches that the first of these epochs leaves out.
        """
        return self.train.dataset(steps, epochs, done)

    def build_valid_dataset(self) -> tf.data.Dataset:
        """Returns the batches to validate on."""
        batches = self.valid.dataset()
        return batches.cache() if self._valid_bytes <= _CACHED_BYTES else batches
