"""Batches of one shape, for devices that must know all shapes, such as a TPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core.inputs import PADDING_LABEL
from tfr_ext.core.settings import given
from tfr_ext.data.batches.batching import FEATURES, MASK
from tfr_ext.training.fitting import lists_datasets


class FixedShapes(lists_datasets.ListsDatasets):
    """The batches of a `ListsDatasets`, all padded to as many lists of the same length.

    A list that is nothing but padding counts neither in a step nor in a metric. It does
    count, as 0, in the loss that is shown.

    Attributes:
        has_empty_rows: see `RankingModel`.
        train: see `ListsDatasets`.
        valid: see `ListsDatasets`.
    """

    has_empty_rows = True

    def __init__(
        self, batches: lists_datasets.ListsDatasets, batch_size: int, list_size: int
    ):
        """Initialises the batches.

        Args:
            batches: the batches as they are.
            batch_size: number of lists of each batch.
            list_size: number of items of each list.
        """
        self.train, self.valid = batches.train, batches.valid
        self._batches = batches
        self._sizes = [batch_size, list_size]

    def batches_of(
        self, epochs: Sequence[int], steps: int | None = None, done: int = 0
    ) -> tf.data.Dataset:
        """Returns the batches of training, see `ListsDatasets`.

        Args:
            epochs: numbers of the epochs, from 0.
            steps: number of batches of an epoch; a whole pass by default.
            done: number of batches that the first of these epochs leaves out.
        """
        return self._padded(self._batches.batches_of(epochs, steps, done))

    def build_valid_dataset(self) -> tf.data.Dataset:
        """Returns the batches to validate on."""
        return self._padded(self._batches.build_valid_dataset())

    def _padded(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        return batches.map(self._pad, tf.data.AUTOTUNE, deterministic=True)

    def _pad(self, features: dict[str, tf.Tensor], *rest: tf.Tensor) -> tuple:
        labels, *weights = rest
        inputs = {
            FEATURES: self._filled(features[FEATURES], 0.0),
            MASK: self._filled(features[MASK], False),
        }
        return (
            inputs,
            self._filled(labels, PADDING_LABEL),
            *(self._filled(one, 0.0) for one in weights),
        )

    def _filled(self, x: tf.Tensor, value: Any) -> tf.Tensor:
        rest = x.shape[2:].as_list()
        missing = tf.maximum(tf.constant(self._sizes) - tf.shape(x)[:2], 0)
        after = tf.concat([missing, tf.zeros([len(rest)], tf.int32)], 0)
        paddings = tf.stack([tf.zeros_like(after), after], axis=1)
        filled = tf.pad(x, paddings, constant_values=tf.constant(value, x.dtype))
        return tf.ensure_shape(filled, [*self._sizes, *rest])


def check_batch_size(batch_size: int, strategy: tf.distribute.Strategy) -> None:
    """Checks that all replicas get batches of one size.

    Args:
        batch_size: number of lists of all replicas together.
        strategy: the strategy.

    Raises:
        ValueError: if they would not.
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(
            f"{given('batch_size', batch_size)} must be a multiple of {replicas}, the "
            "number of the TPU's cores, which need batches of one size."
        )
