"""MRR, hits and ERR: a user reads down a ranking and may stop at each rank."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.arguments import Argument
from tfr_ext.objectives import ndcg
from tfr_ext.objectives.objective import Binary, Graded
from tfr_ext.objectives.registry import register


def first_stop(stops: tf.Tensor) -> tf.Tensor:
    """Returns the probability that the first stop is at each rank, `[batch, ranks]`.

    Args:
        stops: probability of a stop at each rank, given that there was none before,
            `[batch, ranks]`.
    """
    return stops * _exclusive_cumprod(1.0 - stops)


def reciprocal_rank(stops: tf.Tensor) -> tf.Tensor:
    """Returns `sum_r stops_r / r * prod_{l < r} (1 - stops_l)` of each list."""
    return tf.reduce_sum(first_stop(stops) / masked.ranks(stops), axis=1)


def _exclusive_cumprod(x: tf.Tensor) -> tf.Tensor:
    """Exclusive cumulative product over axis 1, by doubling.

    The gradient of tf.math.cumprod divides by its input, and loses what passes through
    a factor of exactly 0, which an item that is certainly relevant contributes.
    """
    size = masked.list_size(x)
    x = tf.concat([tf.ones_like(x[:, :1]), x[:, : size - 1]], axis=1)
    static = x.shape[1]
    for power in range(16 if static is None else max(static - 1, 0).bit_length()):
        shift = min(2**power, static) if static else tf.minimum(2**power, size)
        x *= tf.concat([tf.ones_like(x[:, :shift]), x[:, : size - shift]], axis=1)
    return x


@register
@dataclasses.dataclass(frozen=True)
class MRR(Binary):
    """Reciprocal rank of the first relevant item: a cascade that stops at that item."""

    NAME = "mrr"

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        return reciprocal_rank(ranked)


@register
@dataclasses.dataclass(frozen=True)
class Hits(Binary):
    r"""1 if there is a relevant item in the first `topn` ranks, else 0.

    For rank indicators it is the probability of that, $1 - \prod_r (1 - p_r)$.
    """

    NAME = "hits"
    TITLE = "Hits"

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        return tf.reduce_sum(first_stop(ranked), axis=1)


@register
@dataclasses.dataclass(frozen=True)
class ERR(Graded):
    """Expected reciprocal rank (Chapelle et al., CIKM 2009).

    A cascade in which rank `r` satisfies the user with probability
    `(2**label - 1) / 2**max_label`.

    Attributes:
        max_label: the highest grade of the collection; required.
    """

    NAME = "err"
    LABEL_GAIN = "exponential"
    ARGUMENTS = {"max_label": Argument(checks.positive)}

    max_label: float | None = None

    def __post_init__(self) -> None:
        """Checks the arguments."""
        if self.max_label is None:
            raise ValueError(
                f"Metric {self.NAME!r} needs `max_label`, the highest grade of the "
                "collection."
            )
        super().__post_init__()

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        largest = tf.constant(self.max_label, ranked.dtype)
        stops = ndcg.power_of_2(ranked - largest) - ndcg.power_of_2(-largest)
        return reciprocal_rank(stops)


@register
@dataclasses.dataclass(frozen=True)
class NERR(ERR):
    """Expected reciprocal rank divided by that of the ideal ranking, at one cut-off."""

    NAME = "nerr"
    TITLE = "nERR"

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        ideal = masked.top_labels(labels, masked.list_size(ranked))
        return tf.math.divide_no_nan(
            super()._value(ranked, labels, mask), super()._value(ideal, labels, mask)
        )
