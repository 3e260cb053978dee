"""From lists in memory to padded batches: bucketed by length, shuffled by a seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from tfr_ext.data.label_distributions import with_label_distributions
from tfr_ext.data.lists import RankingLists
from tfr_ext.inputs import PADDING_LABEL

FEATURES = "float_features"
MASK = "mask"

Batch = tuple[dict[str, np.ndarray], np.ndarray]
# From all labels and the number of a pass over the lists to the labels of that pass.
LabelTransform = Callable[[np.ndarray, int], np.ndarray]

# Batches whose lists are sorted by length together: more leave less padding, fewer
# mix short and long lists in the order of an epoch more freely.
_BUCKET_BATCHES = 32


def padded_positions(
    lists: RankingLists, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns where the items of some lists are, padded to the longest of them.

    Args:
        lists: the lists.
        chosen: indices of lists, `[batch]`.

    Returns:
        Item indices `[batch, list]` (0 at padding), and the mask of real items.
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
        padding has features 0, mask False and label -1 throughout.
    """
    where, mask = padded_positions(lists, chosen)
    features = lists.features[where]
    features[~mask] = 0
    source = lists.label_distributions if distributions else lists.labels
    if source is None:
        raise ValueError("The lists have no label distributions.")
    labels = source[where]
    labels[~mask] = PADDING_LABEL
    return {FEATURES: features, MASK: mask}, labels


def cut_by_items(
    order: np.ndarray, lengths: np.ndarray, max_items: int
) -> Iterator[np.ndarray]:
    """Cuts lists, sorted by length, into batches of a bounded number of padded items.

    Args:
        order: indices of lists, from short to long.
        lengths: length of each list.
        max_items: most items, padding included, of a batch of more than one list.

    Yields:
        Consecutive pieces of `order`.
    """
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end - start + 1) * lengths[order[end]] > max_items:
            yield order[start:end]
            start = end


class BatchedLists:
    """Batches of lists, in a new order each epoch, as a `tf.data.Dataset`.

    An epoch shuffles the lists, sorts runs of 32 batches by length so that lists of
    like length share a batch and padding stays small, and shuffles the batches. The
    order depends on the seed and the number of the epoch only.

    Without a seed the lists stay in their order: for evaluation.

    Attributes:
        epoch: number of the epoch that the next iteration of the dataset gives.

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
    ):
        """Initialises the batches.

        Args:
            lists: the lists.
            batch_size: lists per batch; the last batch of an epoch may have fewer.
            seed: seed of the shuffling; None keeps the order of the lists.
            bucket_by_length: whether shuffled lists are batched by length.
            label_transform: gives the labels of each pass over the lists, such as
                `BinomialLabels`.
            num_grades: if given, labels are distributions over so many grades,
                `[batch, list, grades]`: those of the lists, or else one-hot.

        Raises:
            ValueError: if an argument is out of range, `label_transform` refuses
                the labels, or they are not grades.
        """
        if batch_size < 1:
            raise ValueError(
                f"`batch_size` must be at least 1. Received: {batch_size}."
            )
        if label_transform is not None and num_grades is not None:
            raise ValueError("`label_transform` gives labels that are not grades.")
        if num_grades is not None:
            lists = with_label_distributions(lists, num_grades)
        self._num_grades = num_grades
        self._lists = lists
        self._batch_size = batch_size
        self._seed = seed
        self._bucket = bucket_by_length
        self._label_transform = label_transform
        self.epoch = 0
        self.lists(0)  # what it refuses is told now, not in the middle of a dataset

    @property
    def num_batches(self) -> int:
        """Number of batches of an epoch."""
        return -(-self._lists.num_lists // self._batch_size)

    def order(self, epoch: int) -> list[np.ndarray]:
        """Returns which lists stand in each batch of an epoch."""
        lists, size = self._lists, self._batch_size
        if self._seed is None:
            order = np.arange(lists.num_lists)
            return [order[i : i + size] for i in range(0, len(order), size)]
        rng = np.random.default_rng([self._seed, epoch])
        order = rng.permutation(lists.num_lists)
        if not self._bucket:
            return [order[i : i + size] for i in range(0, len(order), size)]
        batches = []
        for i in range(0, len(order), size * _BUCKET_BATCHES):
            run = order[i : i + size * _BUCKET_BATCHES]
            run = run[np.argsort(lists.lengths[run], kind="stable")]
            batches += [run[j : j + size] for j in range(0, len(run), size)]
        return [batches[i] for i in rng.permutation(len(batches))]

    def lists(self, epoch: int) -> RankingLists:
        """Returns all lists, with the labels that they have in an epoch."""
        if self._label_transform is None:
            return self._lists
        labels = self._label_transform(self._lists.labels, epoch)
        return dataclasses.replace(self._lists, labels=labels)

    def padding_waste(self, epoch: int = 0) -> float:
        """Returns padded items over real items, over one epoch."""
        lengths = self._lists.lengths
        padded = sum(len(b) * lengths[b].max() for b in self.order(epoch))
        return float(padded / max(1, self._lists.num_items))

    def dataset(self, steps: int | None = None) -> tf.data.Dataset:
        """Returns one epoch as a dataset; each iteration of it is the next epoch.

        Args:
            steps: batches of an epoch: the next so many of an endless row of passes
                over the lists. A whole pass by default.
        """
        steps = steps or self.num_batches

        def batches() -> Iterator[Batch]:
            epoch, self.epoch = self.epoch, self.epoch + 1
            order: list[np.ndarray] = []
            lists = self._lists
            for step in range(epoch * steps, (epoch + 1) * steps):
                number, position = divmod(step, self.num_batches)
                if position == 0 or not order:
                    order = self.order(number)
                    lists = self.lists(number)
                yield padded_batch(lists, order[position], self._num_grades is not None)

        features = self._lists.num_features
        grades = [] if self._num_grades is None else [self._num_grades]
        signature = (
            {
                FEATURES: tf.TensorSpec([None, None, features], tf.float32),
                MASK: tf.TensorSpec([None, None], tf.bool),
            },
            tf.TensorSpec([None, None, *grades], tf.float32),
        )
        dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
        cardinality = tf.data.experimental.assert_cardinality(steps)
        return dataset.apply(cardinality).prefetch(tf.data.AUTOTUNE)


def score_lists(
    score: Callable[[dict[str, np.ndarray]], tf.Tensor],
    lists: RankingLists,
    batch_size: int,
) -> np.ndarray:
    """Scores all items.

    Args:
        score: a model or function from the features of a batch to scores
            `[batch, list]`.
        lists: the lists.
        batch_size: lists per batch.

    Returns:
        float32 scores `[num_items]`, in the order of the items.
    """
    scores = np.empty(lists.num_items, np.float32)
    for chosen in BatchedLists(lists, batch_size).order(0):
        features, _ = padded_batch(lists, chosen)
        items = slice(lists.row_splits[chosen[0]], lists.row_splits[chosen[-1] + 1])
        scores[items] = np.asarray(score(features))[features[MASK]]
    return scores
