"""Precision, recall and average precision, whose mean over lists is MAP."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tfr_ext.core import masked, sigmoids
from tfr_ext.objectives.objective import Binary
from tfr_ext.objectives.registry import register


@register
@dataclasses.dataclass(frozen=True)
class Precision(Binary):
    r"""Share of relevant items in the first `topn` ranks, or in the whole list.

    As in trec_eval, the divisor is the cut-off even for shorter lists. For positions
    $\pi$ it is $\sum_j \mathrm{rel}_j \, T(\pi_j) / \mathrm{topn}$.
    """

    NAME = "precision"
    TITLE = "P"
    READINGS = ("ranks", "positions")

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        found = tf.reduce_sum(ranked, axis=1)
        if self.topn is not None:
            return found / self.topn
        return tf.math.divide_no_nan(found, masked.num_real(mask, ranked.dtype))

    def _value_at_positions(
        self, positions: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor, slope: float
    ) -> tf.Tensor:
        self.check_positions()
        assert self.topn is not None  # as checked
        found = self.item_values(labels) * sigmoids.within(positions, self.topn, slope)
        return tf.reduce_sum(found, axis=1) / self.topn

    def check_positions(self) -> None:
        """Checks that there is a cut-off."""
        self._require_cut_off()


@register
@dataclasses.dataclass(frozen=True)
class Recall(Binary):
    r"""Share of all relevant items that are in the first `topn` ranks.

    Without a cut-off, the share that is retrieved at all. For positions $\pi$ it is
    $\sum_j \mathrm{rel}_j \, T(\pi_j)$ over the number of relevant items.
    """

    NAME = "recall"
    TITLE = "R"
    READINGS = ("ranks", "positions")

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        relevant = tf.reduce_sum(self.item_values(labels), axis=1)
        return tf.math.divide_no_nan(tf.reduce_sum(ranked, axis=1), relevant)

    def _value_at_positions(
        self, positions: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor, slope: float
    ) -> tf.Tensor:
        self.check_positions()
        assert self.topn is not None  # as checked
        relevant = self.item_values(labels)
        found = relevant * sigmoids.within(positions, self.topn, slope)
        return tf.math.divide_no_nan(
            tf.reduce_sum(found, axis=1), tf.reduce_sum(relevant, axis=1)
        )

    def check_positions(self) -> None:
        """Checks that there is a cut-off."""
        self._require_cut_off()


@register
@dataclasses.dataclass(frozen=True)
class MAP(Binary):
    r"""Average precision: the mean, over all relevant items, of the precision at each.

    For positions $\pi$ it is

    $$
    \sum_j \frac{\mathrm{rel}_j \, T(\pi_j)}{\pi_j} \Big(1 + \sum_{i \ne j}
    \mathrm{rel}_i \operatorname{sigmoid}(\mathrm{slope} (\pi_j - \pi_i)) \Big)
    $$

    divided by the number of relevant items.
    """

    NAME = "map"
    READINGS = ("ranks", "positions")
    COMPARES_POSITIONS = True

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        precision = tf.cumsum(ranked, axis=1) / masked.ranks(ranked)
        relevant = tf.reduce_sum(self.item_values(labels), axis=1)
        return tf.math.divide_no_nan(
            tf.reduce_sum(ranked * precision, axis=1), relevant
        )

    def _value_at_positions(
        self, positions: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor, slope: float
    ) -> tf.Tensor:
        relevant = self.item_values(labels)
        # An item contributes one half to its own sum.
        better = sigmoids.soft_counts(-positions, relevant, slope) + relevant / 2
        found = relevant * better / positions
        if self.topn is not None:
            found *= sigmoids.within(positions, self.topn, slope)
        return tf.math.divide_no_nan(
            tf.reduce_sum(found, axis=1), tf.reduce_sum(relevant, axis=1)
        )
