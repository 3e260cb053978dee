"""Converts labels: to and from distributions over grades, binary, or random."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tfr_ext.core import checks, grades
from tfr_ext.data.lists import RankingLists

# Separates these draws from others by the same seed, such as an epoch's order.
_STREAM = 0x1ABE1


def with_label_distributions(lists: RankingLists, num_grades: int) -> RankingLists:
    """Gives lists without label distributions ones with all mass on the grade.

    Args:
        lists: the lists.
        num_grades: number of grades.

    Returns:
        The lists, with distributions over this many grades.

    Raises:
        ValueError: If the lists have distributions over another number of grades, or if
            they have none and a label is not one of 0 to `num_grades - 1`.

    Examples:
        >>> lists = RankingLists(np.zeros([2, 1], np.float32), np.float32([2, 0]),
        ...                      np.int64([0, 2]), ["q"])
        >>> with_label_distributions(lists, 3).label_distributions
        array([[0., 0., 1.],
               [1., 0., 0.]], dtype=float32)
    """
    given = lists.label_distributions
    if given is not None:
        if given.shape[1] != num_grades:
            raise ValueError(
                f"There are {num_grades} grades, but the lists have distributions over "
                f"{given.shape[1]}."
            )
        return lists
    labels = lists.labels
    wrong = (labels != np.floor(labels)) | (labels >= num_grades)
    if wrong.any():
        raise ValueError(
            f"With {num_grades} grades, labels must be integers from 0 to "
            f"{num_grades - 1}. There is a label {labels[wrong][0]:g}. The number of "
            "grades comes from `grade_values` or `max_label`, if one is given."
        )
    one_hot = np.eye(num_grades, dtype=np.float32)[labels.astype(np.int64)]
    return dataclasses.replace(lists, label_distributions=one_hot)


def expected_labels(lists: RankingLists, weights: Sequence[float]) -> RankingLists:
    """Replaces labels by the expected weights under the label distributions.

    The weights are shifted and rescaled to 0 to 1, so that labels are in that range:
    -1, 0.5, 1 become 0, 0.75, 1 (Purpura, Silvello and Susto, "Learning to Rank from
    Relevance Judgments Distributions", section 4).

    Args:
        lists: lists with label distributions, which are kept.
        weights: the weight of each grade, in increasing order.

    Returns:
        The lists, with other labels.

    Raises:
        ValueError: If the weights do not increase, there are not as many as grades, or
            the lists have no distributions.

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
            "The lists have no label distributions, which `weights` needs."
        )
    if distributions.shape[1] != len(values):
        raise ValueError(
            f"`weights` must have one number for each of the {distributions.shape[1]} "
            f"grades. Received: {values}."
        )
    wide = distributions.astype(np.float64)
    # Their sum is not quite 1.
    labels = wide @ np.array(grades.rescaled(values)) / wide.sum(axis=1)
    return dataclasses.replace(lists, labels=labels.astype(np.float32))


def binary_labels(lists: RankingLists, threshold: float) -> RankingLists:
    """Replaces labels from a threshold up by 1, and the others by 0.

    Args:
        lists: the lists. Their label distributions, which are over other grades, are
            dropped.
        threshold: the lowest label that becomes 1, positive.

    Returns:
        The lists, with other labels.

    Raises:
        ValueError: If the threshold is not positive.

    Examples:
        >>> lists = RankingLists(np.zeros([3, 1], np.float32), np.float32([2, 0, 1]),
        ...                      np.int64([0, 3]), ["q"])
        >>> binary_labels(lists, 2).labels.tolist()
        [1.0, 0.0, 0.0]
    """
    threshold = checks.positive("threshold", threshold)
    # Compared as float32, like the labels: 0.1 is a little more in float32.
    labels = (lists.labels >= np.float32(threshold)).astype(np.float32)
    return dataclasses.replace(lists, labels=labels, label_distributions=None)


@dataclasses.dataclass(frozen=True)
class BinomialLabels:
    """Replaces each label by the mean of binomial draws around it.

    A label `y` becomes `max_label * Binomial(num_trials, y / max_label) / num_trials`:
    its mean does not change, the lowest and the highest grade stay as they are, and the
    grades between them vary more the less certain they are (Purpura, Silvello and
    Susto, "Learning to Rank from Relevance Judgments Distributions", section 4).

    Pass it to `BatchedLists` as `label_transform`.

    Attributes:
        num_trials: number of draws per label; more draws stay closer to the label.
        max_label: the highest grade.
        seed: seed of the draws.
        per_epoch: whether each pass over the lists has its own draws, which depend only
            on the seed and the number of the pass; otherwise all passes have the same
            draws.

    Examples:
        >>> sampled = BinomialLabels(num_trials=32, max_label=2.0, seed=1)
        >>> sampled(np.float32([0, 1, 2, 1]), epoch=0)
        array([0.    , 1.1875, 2.    , 0.9375], dtype=float32)
    """

    num_trials: int = 32
    max_label: float = 1.0
    seed: int = 0
    per_epoch: bool = False

    def __post_init__(self) -> None:
        """Checks the arguments."""
        checks.at_least("num_trials", self.num_trials, 1)
        if not 0 < self.max_label < float("inf"):
            raise ValueError(
                "`max_label` must be a positive finite number. "
                f"Received: {self.max_label}."
            )

    def of_piece(self, number: int) -> BinomialLabels:
        """Returns a transform with other draws, for one of several pieces of the lists.

        Args:
            number: number of the piece.
        """
        return dataclasses.replace(self, seed=(number << 32) + self.seed)

    def __call__(self, labels: np.ndarray, epoch: int) -> np.ndarray:
        """Draws labels.

        Args:
            labels: labels of any shape, from 0 to `max_label`.
            epoch: number of the pass over the lists.

        Returns:
            float32 labels of the same shape.

        Raises:
            ValueError: If a label is above `max_label` or below 0.
        """
        probabilities = np.asarray(labels, np.float64) / self.max_label
        # A label such as 0.1 is a little more in float32.
        wrong = ~((probabilities >= 0) & (probabilities <= 1 + 1e-6))
        if wrong.any():
            value = np.asarray(labels)[wrong].ravel()[0]
            raise ValueError(
                f"Labels to sample around must be from 0 to `max_label` = "
                f"{self.max_label:g}. There is a label {value:g}."
            )
        number = epoch if self.per_epoch else 0
        rng = np.random.default_rng([self.seed, number, _STREAM])
        drawn = rng.binomial(self.num_trials, np.minimum(probabilities, 1))
        return (drawn * (self.max_label / self.num_trials)).astype(np.float32)
