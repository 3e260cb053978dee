"""Gains of labels, and their discounted sum: DCG, and NDCG, which normalises it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial

import tensorflow as tf

from tfr_ext.core import checks, masked, sigmoids
from tfr_ext.core.arguments import Argument
from tfr_ext.objectives.objective import GAIN, Graded
from tfr_ext.objectives.registry import register


def power_of_2(x: tf.Tensor) -> tf.Tensor:
    """Returns `2**x`."""
    # On a CPU this is many times as fast as tf.pow.
    return tf.exp(math.log(2.0) * x)


def relative_gains(gain: str, values: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns gains of values at ranks, up to a factor that is the same for a list.

    Only the quotient of two sums of such gains has a meaning.

    Args:
        gain: 'exponential', 'linear' or 'power'.
        values: labels, `[batch, ranks]`.
        labels: all labels of the lists, `[batch, list]`.
    """
    if gain == "linear":
        return values
    # Divided by 2**max, as is the ideal, so that no label overflows.
    largest = tf.reduce_max(labels, axis=1, keepdims=True)
    power = power_of_2(values - largest)
    return power if gain == "power" else power - power_of_2(-largest)


@register
@dataclasses.dataclass(frozen=True)
class DCG(Graded):
    """Discounted cumulative gain, `sum_r gain_r / log2(r + 1)` over the first ranks.

    NDCG divides this sum by that of the ideal ranking.

    Attributes:
        gain: 'exponential' (`2**label - 1`), 'linear' (`label`) or 'power'
            (`2**label`).
    """

    NAME = "dcg"
    NO_LOSS = "as its values are not in [0, 1]; use 'ndcg' instead"
    ARGUMENTS = {"gain": GAIN}

    gain: str = "exponential"

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        gained = ranked
        if self.gain != "linear":
            lowest = 0.0 if self.gain == "power" else 1.0
            gained = power_of_2(ranked) - lowest
        gained = tf.where(masked.real_ranks(mask, ranked), gained, 0)
        discounts = math.log(2.0) / tf.math.log1p(masked.ranks(ranked))
        return tf.reduce_sum(gained * discounts, axis=1)


@register
@dataclasses.dataclass(frozen=True)
class NDCG(Graded):
    r"""Normalised discounted cumulative gain.

    $\sum_r \mathrm{gain}_r / \log_2(r + 1)$ over the first ranks, divided by the value
    of the ideal ranking at the same cut-off. For positions $\pi$, the sum is
    $\sum_j \mathrm{gain}_j \, T(\pi_j) / \log_2(1 + \pi_j)$.

    Attributes:
        gain: 'exponential' (`2**label - 1`), 'linear' (`label`) or 'power' (`2**label`,
            with which irrelevant items have a gain too).
        expected: what is averaged over the indicators: 'relevance' for the gain of the
            expected label (SmoothI), 'gain' for the expected gain (PiRank).
    """

    NAME = "ndcg"
    READINGS = ("ranks", "positions")
    ARGUMENTS = {
        "gain": GAIN,
        "expected": Argument(partial(checks.choice, choices=["relevance", "gain"])),
    }

    gain: str = "exponential"
    expected: str = "relevance"

    def item_values(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns the labels or their gains, as `expected` says."""
        return self._gain(labels, labels) if self.expected == "gain" else labels

    def real_values(self, labels: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns `item_values`, 0 at padding."""
        values = self.item_values(labels)  # Padding has label 0, whose power is 1.
        return masked.where(mask, values) if self.gain == "power" else values

    def _gain(self, values: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return relative_gains(self.gain, values, labels)

    def _gain_at_ranks(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Returns the gains of labels at ranks, 0 beyond the real items."""
        # There the label is 0, which 'power' turns into 1.
        real_ranks = masked.real_ranks(mask, ranked)
        return masked.where(real_ranks, self._gain(ranked, labels))

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        if self.expected == "relevance":
            ranked = self._gain_at_ranks(ranked, labels, mask)
        ideal = self.ideal(labels, mask, masked.list_size(ranked))
        discounts = 1.0 / tf.math.log1p(masked.ranks(ranked))

        # As TensorFlow has it, the gradient is 20 operations.
        @tf.custom_gradient
        def value(ranked: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            def gradient(upstream: tf.Tensor) -> tf.Tensor:
                share = tf.math.divide_no_nan(upstream, ideal)
                return tf.expand_dims(share, 1) * discounts

            found = tf.reduce_sum(ranked * discounts, axis=1)
            return tf.math.divide_no_nan(found, ideal), gradient

        return value(ranked)

    def _value_at_positions(
        self, positions: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor, slope: float
    ) -> tf.Tensor:
        of_items = tf.where(mask, self._gain(labels, labels), 0)
        if self.topn is not None:
            of_items *= sigmoids.within(positions, self.topn, slope)
        found = tf.reduce_sum(of_items / tf.math.log1p(positions), axis=1)
        ranks = masked.num_ranks(labels, self.topn)
        return tf.math.divide_no_nan(found, self.ideal(labels, mask, ranks))

    def ideal(
        self, labels: tf.Tensor, mask: tf.Tensor, num_ranks: masked.Size
    ) -> tf.Tensor:
        """Returns the DCG of the ideal ranking at a cut-off, `[batch]`.

        Its gains and discounts are those of `item_values` and `1 / log1p(rank)`, so
        only the quotient of two such sums has a meaning.

        Args:
            labels: labels, 0 at padding, `[batch, list]`.
            mask: True at real items, `[batch, list]`.
            num_ranks: the cut-off.
        """
        best = masked.top_labels(self.real_values(labels, mask), num_ranks)
        if self.expected == "relevance":
            best = self._gain_at_ranks(best, labels, mask)
        discounts = 1.0 / tf.math.log1p(masked.ranks(best))
        return tf.reduce_sum(best * discounts, axis=1)
