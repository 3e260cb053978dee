"""Objectives: ranking metrics read off rank indicators.

An objective sees a ranking only through the expected value of an item quantity at
each rank, `ranked[b, r] = sum_j P[b, r, j] * item_values[b, j]`. With the indicators
of the exact sort it is the metric itself; with a relaxation's it is differentiable.
A loss is an objective read off a relaxation (`tfr_ext.losses`), a metric the same
objective read off the exact sort (`tfr_ext.metrics`).

Shapes: labels and masks are `[batch, list]`, `ranked` is `[batch, ranks]` where
`ranks` is the cut-off or the list size, whichever is smaller; results are `[batch]`.
Labels at padding are 0 here (callers clean them), and labels are not negative.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any, ClassVar

import tensorflow as tf

from tfr_ext.core import checks, masked

# Gains of a label in NDCG, see `NDCG`.
GAINS = ("exponential", "linear", "power")


@dataclasses.dataclass(frozen=True)
class Objective(abc.ABC):
    """A ranking metric as a function of expected values at ranks.

    Attributes:
        topn: cut-off rank, or None for the whole list. A list shorter than the cut-off
            counts with the ranks it has.
    """

    topn: int | None = None

    # True for a cost, which is minimised as it stands.
    is_cost: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Checks the arguments."""
        object.__setattr__(self, "topn", checks.cut_off("topn", self.topn))

    def item_values(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns what is read at each rank; without meaning at padding."""
        return labels

    def real_values(self, labels: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns `item_values`, 0 at padding."""
        return self.item_values(labels)  # As they are of 0, the label of padding.

    @abc.abstractmethod
    def is_empty(self, labels: tf.Tensor) -> tf.Tensor:
        """Tells which lists have nothing relevant, `[batch]` bool."""

    @abc.abstractmethod
    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Returns the metric; `ranked` is 0 beyond the real items."""

    def value(self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns the metric of each list; finite, but of no meaning, on empty ones.

        Args:
            ranked: expected `item_values` at the first ranks, `[batch, ranks]`.
            labels: non-negative labels, 0 at padding, `[batch, list]`.
            mask: True at real items, `[batch, list]`.
        """
        real_ranks = masked.real_ranks(mask, ranked)
        return self._value(tf.where(real_ranks, ranked, 0), labels, mask)

    def loss(self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns what a loss minimises: 0, without gradient, on empty lists."""
        value = self.value(ranked, labels, mask)
        loss = value if self.is_cost else 1.0 - value
        return tf.where(self.is_empty(labels), tf.zeros_like(loss), loss)

    def __call__(
        self, indicators: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Returns the metric of each list from indicators `[batch, ranks, list]`."""
        ranked = tf.linalg.matvec(indicators, self.real_values(labels, mask))
        return self.value(ranked, labels, mask)


@dataclasses.dataclass(frozen=True)
class _Graded(Objective):
    """An objective of graded labels: a list is empty without a label above 0."""

    def is_empty(self, labels: tf.Tensor) -> tf.Tensor:
        # Of a NaN it is False: it should be seen.
        return tf.reduce_max(labels, axis=1) <= 0


@dataclasses.dataclass(frozen=True)
class _Binary(Objective):
    """An objective of binary relevance, `label >= relevance_threshold`."""

    relevance_threshold: float = 1.0

    def item_values(self, labels: tf.Tensor) -> tf.Tensor:
        relevant = tf.cast(labels >= self.relevance_threshold, labels.dtype)
        return tf.where(tf.math.is_nan(labels), labels, relevant)

    def is_empty(self, labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_max(labels, axis=1) < self.relevance_threshold

    def __post_init__(self) -> None:
        super().__post_init__()
        # At 0 or below, padding (label 0 here) would count as relevant.
        checks.positive("relevance_threshold", self.relevance_threshold)


@dataclasses.dataclass(frozen=True)
class NDCG(_Graded):
    """Normalised discounted cumulative gain.

    `sum_r gain_r / log2(r + 1)` over the first ranks, divided by the value of the
    ideal ranking at the same cut-off.

    Attributes:
        gain: 'exponential' (`2**label - 1`), 'linear' (`label`) or 'power'
            (`2**label`, in which irrelevant items have a gain too).
        expected: what is averaged over the indicators. 'relevance': the gain of the
            expected label (SmoothI); 'gain': the expected gain (PiRank).
    """

    gain: str = "exponential"
    expected: str = "relevance"

    def __post_init__(self) -> None:
        """Checks the arguments."""
        super().__post_init__()
        checks.choice("gain", self.gain, list(GAINS))
        checks.choice("expected", self.expected, ["relevance", "gain"])

    def item_values(self, labels: tf.Tensor) -> tf.Tensor:
        """See `Objective`."""
        return self._gain(labels, labels) if self.expected == "gain" else labels

    def real_values(self, labels: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """See `Objective`."""
        values = self.item_values(labels)  # Padding has the label 0, whose power is 1.
        return tf.where(mask, values, 0) if self.gain == "power" else values

    def _gain(self, values: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        if self.gain == "linear":
            return values
        # Divided by 2**max, which the ideal is too: no overflow for any label.
        largest = tf.reduce_max(labels, axis=1, keepdims=True)
        power = _power_of_2(values - largest)
        return power if self.gain == "power" else power - _power_of_2(-largest)

    def _gain_at_ranks(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Returns the gains of labels at ranks, 0 beyond the real items."""
        # There the label is 0, of which 'power' makes 1.
        return tf.where(masked.real_ranks(mask, ranked), self._gain(ranked, labels), 0)

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        if self.expected == "relevance":
            ranked = self._gain_at_ranks(ranked, labels, mask)
        discounts = 1.0 / tf.math.log1p(masked.ranks(ranked))
        return tf.math.divide_no_nan(
            tf.reduce_sum(ranked * discounts, axis=1),
            self.ideal(labels, mask, masked.list_size(ranked)),
        )

    def ideal(
        self, labels: tf.Tensor, mask: tf.Tensor, num_ranks: masked.Size
    ) -> tf.Tensor:
        """Returns the DCG of the ideal ranking at a cut-off, `[batch]`.

        Its gains and discounts are those of `item_values` and `1 / log1p(rank)`: only
        a quotient of two such sums means something.

        Args:
            labels: labels, 0 at padding, `[batch, list]`.
            mask: True at real items, `[batch, list]`.
            num_ranks: the cut-off.
        """
        best = masked.top(self.real_values(labels, mask), num_ranks).values
        if self.expected == "relevance":
            best = self._gain_at_ranks(best, labels, mask)
        discounts = 1.0 / tf.math.log1p(masked.ranks(best))
        return tf.reduce_sum(best * discounts, axis=1)


@dataclasses.dataclass(frozen=True)
class Precision(_Binary):
    """Share of relevant items in the first `topn` ranks, or in the list without one.

    As in trec_eval, the divisor is the stated cut-off also for shorter lists.
    """

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        found = tf.reduce_sum(ranked, axis=1)
        if self.topn is not None:
            return found / self.topn
        return tf.math.divide_no_nan(found, masked.num_real(mask, ranked.dtype))


@dataclasses.dataclass(frozen=True)
class MAP(_Binary):
    """Average precision: precision at each relevant item, over all relevant items."""

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        precision = tf.cumsum(ranked, axis=1) / masked.ranks(ranked)
        relevant = tf.reduce_sum(self.item_values(labels), axis=1)
        return tf.math.divide_no_nan(
            tf.reduce_sum(ranked * precision, axis=1), relevant
        )


@dataclasses.dataclass(frozen=True)
class MRR(_Binary):
    """Reciprocal rank of the first relevant item: a cascade that stops there."""

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        return _cascade(ranked)


@dataclasses.dataclass(frozen=True)
class ERR(_Graded):
    """Expected reciprocal rank (Chapelle et al., CIKM 2009).

    A cascade where rank `r` satisfies with probability `(2**label - 1) / 2**max_label`.

    Attributes:
        max_label: the highest grade of the collection; required.
    """

    max_label: float | None = None

    def __post_init__(self) -> None:
        """Checks the arguments."""
        super().__post_init__()
        if self.max_label is None:
            raise ValueError(
                f"Metric {type(self).__name__.lower()!r} needs `max_label`, the "
                "highest grade of the collection."
            )
        checks.positive("max_label", self.max_label)

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        largest = tf.constant(self.max_label, ranked.dtype)
        return _cascade(_power_of_2(ranked - largest) - _power_of_2(-largest))


@dataclasses.dataclass(frozen=True)
class NERR(ERR):
    """Expected reciprocal rank over that of the ideal ranking at the same cut-off."""

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        ideal = masked.top(labels, masked.list_size(ranked)).values
        return tf.math.divide_no_nan(
            super()._value(ranked, labels, mask), super()._value(ideal, labels, mask)
        )


@dataclasses.dataclass(frozen=True)
class ARP(_Graded):
    """Average relevance position: the mean rank, weighted by the labels. A cost.

    With a cut-off, relevance that is not found within it counts as standing at the
    next rank: left out, it would cost nothing, and the minimum would be to push
    everything relevant below the cut-off.
    """

    is_cost: ClassVar[bool] = True

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        ranks = masked.ranks(ranked)
        total = tf.reduce_sum(labels, axis=1)
        cost = tf.reduce_sum(ranks * ranked, axis=1)
        if self.topn is not None:
            count = masked.num_real(mask, ranked.dtype)
            missed = total - tf.reduce_sum(ranked, axis=1)
            next_rank = tf.cast(self.topn + 1, ranked.dtype)
            cost += tf.where(count >= next_rank, missed * next_rank, 0)
        return tf.math.divide_no_nan(cost, total)


_OBJECTIVES: dict[str, type[Objective]] = {
    "ndcg": NDCG,
    "precision": Precision,
    "map": MAP,
    "arp": ARP,
    "mrr": MRR,
    "err": ERR,
    "nerr": NERR,
}


def names() -> list[str]:
    """Returns the names that `get` knows."""
    return list(_OBJECTIVES)


def is_cost(name: str) -> bool:
    """Tells whether the objective of that name is a cost, better when lower."""
    return _OBJECTIVES[name].is_cost


def check_effects(metric: str, **arguments: Any) -> None:
    """Checks that arguments which a metric does not have are at their defaults.

    Args:
        metric: name of the metric.
        **arguments: values of attributes, of this objective or of others.

    Raises:
        ValueError: if one that the metric does not have is not its default.
    """
    for argument, value in arguments.items():
        users = [name for name in _OBJECTIVES if argument in taken(name, **arguments)]
        default = getattr(_OBJECTIVES[users[0]], argument)
        needs = f"metric {' or '.join(map(repr, users))}"
        checks.has_effect(argument, value, default, metric in users, needs)


def get(name: str, **arguments: Any) -> Objective:
    """Builds an objective by name from those of the arguments that it has.

    Args:
        name: one of `names()`.
        **arguments: values of attributes, of this objective or of others.

    Returns:
        The objective.

    Raises:
        ValueError: if the name is unknown or an argument is out of range.

    Examples:
        >>> get("precision", topn=5, max_label=2.)
        Precision(topn=5, relevance_threshold=1.0)
    """
    checks.choice("metric", name, names())
    return _OBJECTIVES[name](**taken(name, **arguments))


def taken(metric: str, **arguments: Any) -> dict[str, Any]:
    """Returns those of the arguments that a metric has.

    Args:
        metric: name of the metric; one that is no objective has none of them.
        **arguments: values of attributes, of it or of others.

    Examples:
        >>> taken("map", gain="linear", relevance_threshold=2.)
        {'relevance_threshold': 2.0}
    """
    cls = _OBJECTIVES.get(metric)
    known = {field.name for field in dataclasses.fields(cls)} if cls else set()
    return {k: v for k, v in arguments.items() if k in known}


def _power_of_2(x: tf.Tensor) -> tf.Tensor:
    # Many times as fast as tf.pow on a CPU.
    return tf.exp(math.log(2.0) * x)


def _cascade(stops: tf.Tensor) -> tf.Tensor:
    """Returns `sum_r stops_r / r * prod_{l < r} (1 - stops_l)` of each list."""
    going_on = _exclusive_cumprod(1.0 - stops)
    return tf.reduce_sum(stops * going_on / masked.ranks(stops), axis=1)


def _exclusive_cumprod(x: tf.Tensor) -> tf.Tensor:
    """Exclusive cumulative product over axis 1, by doubling.

    tf.math.cumprod's gradient divides by its input, and loses what passes through a
    factor of exactly 0: just what an item that is surely relevant is.
    """
    size = masked.list_size(x)
    x = tf.concat([tf.ones_like(x[:, :1]), x[:, : size - 1]], axis=1)
    static = x.shape[1]
    for power in range(16 if static is None else max(static - 1, 0).bit_length()):
        shift = min(2**power, static) if static else tf.minimum(2**power, size)
        x *= tf.concat([tf.ones_like(x[:, :shift]), x[:, : size - shift]], axis=1)
    return x
