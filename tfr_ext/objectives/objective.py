"""The base classes of metrics: their properties, and what they are computed from."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.arguments import Argument, Declared

GAINS = ("exponential", "linear", "power")
"""The gains of a label, see `tfr_ext.objectives.NDCG`."""

# Slope of the sigmoid that replaces a step between two positions.
SLOPE = 10.0


@dataclasses.dataclass(frozen=True)
class Metric(Declared, abc.ABC):
    """A metric of the exact ranking.

    Everything that the rest of the package asks about a metric is defined here, so that
    no other module needs to know which metrics exist.

    Attributes:
        topn: cut-off rank, or None for the whole list. A list shorter than the cut-off
            is evaluated at the ranks it has.
    """

    # The name by which `tfr_ext.objectives.get` and `--metrics` know it.
    NAME: ClassVar[str] = ""
    # The name in tables; in capitals by default.
    TITLE: ClassVar[str] = ""
    # True for a cost, which is better when lower and is minimised directly.
    is_cost: ClassVar[bool] = False
    # Whether it only distinguishes relevant and irrelevant items.
    IS_BINARY: ClassVar[bool] = False
    # Whether it may have a cut-off.
    HAS_CUT_OFF: ClassVar[bool] = True
    # The reason why a list is empty, if not the lack of a relevant item.
    EMPTY: ClassVar[str] = ""
    # Why no loss optimises it; empty if losses can.
    NO_LOSS: ClassVar[str] = ""
    # The inputs of losses: expected values at 'ranks', or 'positions' of items.
    READINGS: ClassVar[tuple[str, ...]] = ()
    # The gain of labels that is part of its definition.
    LABEL_GAIN: ClassVar[str | None] = None
    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {"topn": Argument(checks.cut_off)}

    topn: int | None = None

    def __post_init__(self) -> None:
        """Checks the arguments."""
        super().__post_init__()
        if self.topn is not None and not self.HAS_CUT_OFF:
            raise ValueError(
                f"Metric {self.NAME!r} has no cut-off, as it uses the whole list. "
                f"Leave out `topn`. Received: topn={self.topn!r}."
            )

    @abc.abstractmethod
    def per_list(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the metric of the exact ranking, ties by position.

        Args:
            labels: labels, 0 at padding, `[batch, list]`.
            scores: scores, `[batch, list]`; minus infinity where an item is not
                retrieved.
            mask: True at real items, `[batch, list]`.

        Returns:
            The metric of each list, finite, `[batch]`, and which lists are empty,
            `[batch]` bool.
        """

    @property
    def full_name(self) -> str:
        """The name with the cut-off, such as 'ndcg_10'."""
        name = self.NAME or type(self).__name__.lower()
        return name if self.topn is None else f"{name}_{self.topn}"

    @property
    def label_gain(self) -> str | None:
        """The gain of a label, such as 'exponential'; None if there is no gain."""
        return getattr(self, "gain", self.LABEL_GAIN)

    @classmethod
    def needs_max_label(cls) -> bool:
        """Returns whether the metric depends on the highest grade of the collection."""
        return cls.takes("max_label")


@dataclasses.dataclass(frozen=True)
class Objective(Metric):
    """A ranking metric as a function of expected values at ranks.

    It sees a ranking only through the expected value of an item quantity at each rank,
    `ranked[b, r] = sum_j P[b, r, j] * item_values[b, j]`. An objective with the reading
    'positions' is also a function of the positions of the items, see `at_positions`.
    """

    READINGS: ClassVar[tuple[str, ...]] = ("ranks",)
    # Whether it compares two positions, if it is computed from positions.
    COMPARES_POSITIONS: ClassVar[bool] = False

    def item_values(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns the quantity that is read at each rank; meaningless at padding."""
        return labels

    def real_values(self, labels: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns `item_values`, 0 at padding."""
        return self.item_values(labels)  # 0 for the label of padding, 0.

    @abc.abstractmethod
    def is_empty(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns which lists have no relevant item, `[batch]` bool."""

    @abc.abstractmethod
    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Returns the metric; `ranked` is 0 beyond the real items."""

    def value(self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns the metric of each list; finite, but without meaning, on empty lists.

        Args:
            ranked: expected `item_values` at the first ranks, `[batch, ranks]`.
            labels: non-negative labels, 0 at padding, `[batch, list]`.
            mask: True at real items, `[batch, list]`.
        """
        real_ranks = masked.real_ranks(mask, ranked)
        return self._value(masked.where(real_ranks, ranked), labels, mask)

    def at_positions(
        self,
        positions: tf.Tensor,
        labels: tf.Tensor,
        mask: tf.Tensor,
        slope: float = SLOPE,
    ) -> tf.Tensor:
        """Returns the metric of each list as a function of positions.

        `T(pi) = sigmoid(slope (topn + 1/2 - pi))` stands for `pi <= topn` (Qin, Liu and
        Li, "A general approximation framework for direct optimization of information
        retrieval measures", Information Retrieval 13, 2010).

        Args:
            positions: positive positions, 1 for the best, with any finite value at
                padding, `[batch, list]`.
            labels: non-negative labels, 0 at padding, `[batch, list]`.
            mask: True at real items, `[batch, list]`.
            slope: slope of the sigmoids.

        Raises:
            ValueError: If the metric cannot be computed from positions.
        """
        if "positions" not in self.READINGS:
            raise ValueError(f"{type(self).__name__} cannot use positions.")
        # Padding contributes no value, but its positions must still be valid.
        positions = tf.where(mask, positions, 1)
        return self._value_at_positions(positions, labels, mask, slope)

    def _value_at_positions(
        self, positions: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor, slope: float
    ) -> tf.Tensor:
        """Returns the metric; `positions` are 1 at padding."""
        raise NotImplementedError

    def check_positions(self) -> None:
        """Checks that the arguments make sense for a metric of positions.

        Raises:
            ValueError: If they do not.
        """

    def as_loss(self, value: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Returns the value to minimise: 0, without gradient, on empty lists.

        Args:
            value: the metric of each list, `[batch]`.
            labels: labels, 0 at padding, `[batch, list]`.
        """
        loss = value if self.is_cost else 1.0 - value
        return masked.where(self.is_empty(labels), tf.zeros_like(loss), loss)

    def per_list(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the metric of the exact ranking, ties by position."""
        values = self.real_values(labels, mask)
        if not self.is_cost:
            # An item that is not retrieved is at no rank; for a cost it ranks last.
            values = tf.where(
                tf.equal(scores, -float("inf")), tf.zeros_like(values), values
            )
        ranks = masked.num_ranks(labels, self.topn)
        ranked = masked.at_ranks(scores, mask, values, ranks)
        return self.value(ranked, labels, mask), self.is_empty(labels)

    def __call__(
        self, indicators: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Returns the metric of each list from indicators `[batch, ranks, list]`."""
        ranked = tf.linalg.matvec(indicators, self.real_values(labels, mask))
        return self.value(ranked, labels, mask)


@dataclasses.dataclass(frozen=True)
class Graded(Objective):
    """An objective of graded labels; a list without a label above 0 is empty."""

    def is_empty(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns which lists have no label above 0, `[batch]` bool."""
        # False for NaN, so that NaN stays visible.
        return tf.reduce_max(labels, axis=1) <= 0


@dataclasses.dataclass(frozen=True)
class Binary(Objective):
    """An objective of binary relevance, `label >= relevance_threshold`."""

    IS_BINARY = True
    # At 0 or below, padding (label 0 here) would count as relevant.
    ARGUMENTS = {"relevance_threshold": Argument(checks.positive)}

    relevance_threshold: float = 1.0

    def item_values(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns 1 for a relevant item, else 0; NaN for a label that is NaN."""
        relevant = tf.cast(labels >= self.relevance_threshold, labels.dtype)
        return tf.where(tf.math.is_nan(labels), labels, relevant)

    def is_empty(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns which lists have no relevant item, `[batch]` bool."""
        return tf.reduce_max(labels, axis=1) < self.relevance_threshold

    def _require_cut_off(self) -> None:
        if self.topn is None:
            raise ValueError(f"Metric {self.NAME!r} needs `topn`, the cut-off rank.")


# The declaration of an argument `gain`.
GAIN = Argument(partial(checks.choice, choices=list(GAINS)))
