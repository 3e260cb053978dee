"""Padded batches of lists in memory, bucketed by length and shuffled by a seed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from tfr_ext.core import checks
from tfr_ext.core.inputs import PADDING_LABEL
from tfr_ext.data.batches.batch_datasets import dataset_of
from tfr_ext.data.batches.buckets import cut_by_padding
from tfr_ext.data.features import FeatureSpec
from tfr_ext.data.fingerprints import FILL
from tfr_ext.data.labels import with_label_distributions
from tfr_ext.data.lists import RankingLists

FEATURES = "float_features"
"""Key of the features `[batch, list, features]` of a batch."""
MASK = "mask"
"""Key of the mask `[batch, list]` of a batch, True at real items."""
IDS, CONTEXT_IDS = "ids", "context_ids"
"""Keys of the ids of categories of items `[batch, list, ids]` and of lists
`[batch, ids]`, see `RankingLists`; -2 at padding."""

# Features and labels, and weights where the lists have some.
Batch: TypeAlias = (
    tuple[dict[str, np.ndarray], np.ndarray]
    | tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]
)
LabelTransform = Callable[[np.ndarray, int], np.ndarray]
"""Maps all labels and the number of a pass to the labels of that pass."""

# Number of batches whose lists are sorted by length together: a higher number leaves
# less padding, a lower one mixes short and long lists more freely in an epoch.
_BUCKET_BATCHES = 32
_RUN_LISTS = 4096
# Bytes, of the widest registers that TensorFlow computes with.
_ALIGNMENT = 64
MAX_PADDING = 1.25
"""The default maximum ratio of padded to real items in training."""


def padded_positions(
    lists: RankingLists, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the item indices of lists `[batch]`, and the mask of real items.

    Both are `[batch, list]`, padded to the longest list; indices are 0 at padding.
    """
    lengths = lists.lengths[chosen]
    offsets = np.arange(lengths.max(initial=0))
    mask = offsets < lengths[:, np.newaxis]
    where = lists.row_splits[chosen][:, np.newaxis] + offsets
    return np.where(mask, where, 0), mask


def padded_batch(
    lists: RankingLists, chosen: np.ndarray, distributions: bool = False
) -> Batch:
    """Returns some lists as a batch that a model takes.

    Args:
        lists: the lists.
        chosen: indices of lists, `[batch]`.
        distributions: whether the labels are the lists' label distributions.

    Returns:
        `({'float_features': [batch, list, features], 'mask': [batch, list]}, labels)`
        with labels `[batch, list]`, or `[batch, list, grades]` if `distributions`;
        padding has features 0, mask False and label -1 throughout. If the lists have
        weights, these follow: `[batch, list]`, 0 at padding. If they have categories,
        the features have `ids` and `context_ids` too, and numbers only if they have
        some.
    """
    where, mask = padded_positions(lists, chosen)
    inputs = {}
    if lists.num_features or lists.spec is None:
        features = _aligned((*where.shape, lists.num_features))
        np.take(lists.features, where, axis=0, out=features, mode="clip")
        features[~mask] = 0
        inputs[FEATURES] = features
    inputs[MASK] = mask
    if lists.ids is not None:
        inputs[IDS] = np.where(mask[..., np.newaxis], lists.ids[where], FILL)
    if lists.context_ids is not None:
        inputs[CONTEXT_IDS] = lists.context_ids[chosen]
    source = lists.label_distributions if distributions else lists.labels
    if source is None:
        raise ValueError("The lists have no label distributions.")
    labels = source[where]
    labels[~mask] = PADDING_LABEL
    if lists.weights is None:
        return inputs, labels
    return inputs, labels, np.where(mask, lists.weights[where], np.float32(0))


def _aligned(shape: tuple[int, ...]) -> np.ndarray:
    """Returns an aligned array, which TensorFlow takes without a copy."""
    size = 4 * math.prod(shape)
    held = np.empty(size + _ALIGNMENT, np.uint8)
    start = -held.ctypes.data % _ALIGNMENT
    return held[start : start + size].view(np.float32).reshape(shape)


def input_signature(
    num_features: int, spec: FeatureSpec | None = None
) -> dict[str, tf.TensorSpec]:
    """Returns the shapes and types of the inputs of a model, as `tf.TensorSpec`s."""
    inputs = {}
    if num_features or spec is None:
        inputs[FEATURES] = tf.TensorSpec([None, None, num_features], tf.float32)
    inputs[MASK] = tf.TensorSpec([None, None], tf.bool)
    if spec is not None and spec.num_ids:
        inputs[IDS] = tf.TensorSpec([None, None, spec.num_ids], tf.int64)
    if spec is not None and spec.num_context_ids:
        inputs[CONTEXT_IDS] = tf.TensorSpec([None, spec.num_context_ids], tf.int64)
    return inputs


def batch_signature(
    num_features: int,
    num_grades: int | None,
    has_weights: bool = False,
    spec: FeatureSpec | None = None,
) -> tuple:
    """Returns the `tf.TensorSpec`s of batches, whose labels may be distributions."""
    grades = [] if num_grades is None else [num_grades]
    weights = [tf.TensorSpec([None, None], tf.float32)] * has_weights
    labels = tf.TensorSpec([None, None, *grades], tf.float32)
    return input_signature(num_features, spec), labels, *weights


class BatchedLists:
    """Batches of lists, in a new order each epoch, as a `tf.data.Dataset`.

    An epoch shuffles the lists, sorts runs of 32 batches by length, so that lists of
    similar length share a batch and padding stays small, and shuffles the batches. If
    full batches would still need more than `max_padding`, the first epoch makes smaller
    ones, as few as possible, and later epochs make as many. The order depends only on
    the seed and the number of the epoch.

    If the lists have weights, a batch has them after its labels, as Keras's `fit` takes
    them for the loss.

    Without a seed, which is for evaluation, the lists keep their order, or with
    `max_padding` are ordered by length.

    Attributes:
        epoch: number of the epoch that the next iteration of the dataset yields.
        num_batches: number of batches of an epoch.

    Examples:
        >>> lists = RankingLists(np.zeros([3, 2], np.float32), np.float32([1, 0, 2]),
        ...                      np.int64([0, 2, 3]), ["a", "b"])
        >>> for features, labels in BatchedLists(lists, batch_size=2).dataset():
        ...     print(features["float_features"].shape, labels.numpy().tolist())
        (2, 2, 2) [[1.0, 0.0], [2.0, -1.0]]
    """

    def __init__(
        self,
        lists: RankingLists,
        batch_size: int,
        seed: int | None = None,
        bucket_by_length: bool = True,
        label_transform: LabelTransform | None = None,
        num_grades: int | None = None,
        max_padding: float | None = None,
        first_epoch: int = 0,
    ):
        """Initialises the batches.

        Args:
            lists: the lists.
            batch_size: maximum number of lists per batch; some batches of an epoch may
                have fewer.
            seed: seed of the shuffling; None for no shuffling.
            bucket_by_length: whether shuffled lists are batched by length.
            label_transform: gives the labels of each pass over the lists, such as
                `BinomialLabels`.
            num_grades: if given, labels are distributions over this many grades,
                `[batch, list, grades]`: those of the lists, or else one-hot.
            max_padding: maximum ratio of all items, padding included, to real items
                that batches by length may need, at least 1; None for full batches,
                however much padding they need.
            first_epoch: the epoch that decides the number of batches of all epochs.

        Raises:
            ValueError: If an argument is out of range, `label_transform` refuses
                the labels, or they are not grades.
        """
        checks.at_least("batch_size", batch_size, 1)
        if max_padding is not None and not max_padding >= 1:
            raise ValueError(
                f"`max_padding` must be None or at least 1. Received: {max_padding}."
            )
        if label_transform is not None and num_grades is not None:
            raise ValueError("`label_transform` gives labels that are not grades.")
        if num_grades is not None:
            lists = with_label_distributions(lists, num_grades)
        self._num_grades = num_grades
        self._lists = lists
        self._batch_size = batch_size
        self._seed = seed
        self._bucket = bucket_by_length and (
            seed is not None or max_padding is not None
        )
        self._max_padding = max_padding
        self._label_transform = label_transform
        self.epoch = 0
        # How many batches each run of lists has, in all epochs.
        self._batches_per_run: list[int] = []
        self._last_order: tuple[int, list[np.ndarray]] = (-1, [])
        self.num_batches = len(self.order(first_epoch))
        # Raises errors now, not in the middle of a dataset.
        self._last_labels = 0, self.lists(0)

    def order(self, epoch: int) -> list[np.ndarray]:
        """Returns which lists are in each batch of an epoch."""
        known, order = self._last_order  # Other threads may ask for other epochs.
        if known != epoch:
            order = self._order(epoch)
            self._last_order = epoch, order
        return order

    def _order(self, epoch: int) -> list[np.ndarray]:
        lists, size = self._lists, self._batch_size
        order = np.arange(lists.num_lists)
        rng = None
        if self._seed is not None:
            rng = np.random.default_rng([self._seed, epoch])
            order = rng.permutation(order)
        if not self._bucket:
            return [order[i : i + size] for i in range(0, len(order), size)]
        batches: list[np.ndarray] = []
        if rng is None:
            order = np.argsort(lists.lengths, kind="stable")
        # Large batches need no more lists to choose from, and the cut takes time and
        # memory in proportion to the lists of a run times those of a batch.
        length = min(size * _BUCKET_BATCHES, max(_RUN_LISTS, 4 * size))
        for number, start in enumerate(range(0, len(order), length)):
            run = order[start : start + length]
            run = run[np.argsort(lists.lengths[run], kind="stable")]
            first = number == len(self._batches_per_run)
            ends = cut_by_padding(
                lists.lengths[run],
                size,
                self._max_padding,
                None if first else self._batches_per_run[number],
            )
            if first:
                self._batches_per_run.append(len(ends))
            batches += np.split(run, ends[:-1])
        return (
            batches
            if rng is None
            else [batches[i] for i in rng.permutation(len(batches))]
        )

    def lists(self, epoch: int) -> RankingLists:
        """Returns all lists, with the labels that they have in an epoch."""
        if self._label_transform is None:
            return self._lists
        labels = self._label_transform(self._lists.labels, epoch)
        return dataclasses.replace(self._lists, labels=labels)

    def padding_waste(self, epoch: int = 0) -> float:
        """Returns the ratio of padded to real items, over one epoch."""
        lengths = self._lists.lengths
        padded = sum(len(b) * lengths[b].max() for b in self.order(epoch))
        return float(padded / max(1, self._lists.num_items))

    def dataset(
        self,
        steps: int | None = None,
        epochs: Sequence[int] | None = None,
        done: int = 0,
    ) -> tf.data.Dataset:
        """Returns a dataset of one epoch; each iteration over it is the next epoch.

        Args:
            steps: number of batches of an epoch, taken in turn from an endless sequence
                of passes over the lists. A whole pass by default.
            epochs: numbers of the epochs that each iteration yields, one after the
                other. The next epoch by default.
            done: number of batches that the first of these epochs leaves out.
        """
        steps = steps or self.num_batches
        lists = self._lists
        signature = batch_signature(
            lists.num_features, self._num_grades, lists.has_weights, lists.spec
        )

        def begin() -> int:
            if epochs is None:
                self.epoch += 1
            return self.epoch - 1

        def batch(first: int, number: int) -> Batch:
            epoch, step = divmod(number + done, steps)
            epoch = first + epoch if epochs is None else epochs[epoch]
            return self._batch(epoch * steps + step)

        count = steps * (1 if epochs is None else len(epochs)) - done
        return dataset_of(begin, batch, count, signature)

    def _batch(self, step: int) -> Batch:
        """Returns a batch of the endless sequence of passes."""
        number, position = divmod(step, self.num_batches)
        known, lists = self._last_labels
        if known != number:
            lists = self.lists(number)
            self._last_labels = number, lists
        chosen = self.order(number)[position]
        return padded_batch(lists, chosen, self._num_grades is not None)


def score_lists(
    score: Callable[[dict[str, np.ndarray]], tf.Tensor],
    lists: RankingLists,
    batch_size: int,
) -> np.ndarray:
    """Scores all items.

    Args:
        score: a model or function that maps the features of a batch to scores `[batch,
            list]`.
        lists: the lists.
        batch_size: number of lists per batch.

    Returns:
        float32 scores `[num_items]`, in the order of the items.
    """
    scores = np.empty(lists.num_items, np.float32)
    for chosen in BatchedLists(lists, batch_size, max_padding=MAX_PADDING).order(0):
        features = padded_batch(lists, chosen)[0]
        where, mask = padded_positions(lists, chosen)
        scores[where[mask]] = np.asarray(score(features))[mask]
    return scores
