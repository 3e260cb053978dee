"""Ordered pair accuracy, a metric of pairs that rank indicators cannot express."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tfr_ext.core import blocks, masked
from tfr_ext.objectives.objective import Metric
from tfr_ext.objectives.registry import register


@register
@dataclasses.dataclass(frozen=True)
class OPA(Metric):
    """The share of pairs with different labels that a ranking puts in the right order.

    It is a step function of which item stands where, so it is only a metric: no loss
    optimises it. Ties in score are broken by position, as in all metrics here, so a tie
    that `tfr.keras.metrics.OPAMetric` counts as wrong may be right. A list without two
    items of different labels is empty.

    Attributes:
        topn: None, as the metric uses all pairs.

    Examples:
        >>> labels, scores = tf.constant([[0., 1., 2.]]), tf.constant([[3., 1., 2.]])
        >>> value, empty = OPA().per_list(labels, scores, labels >= 0)
        >>> round(float(value[0]), 4), bool(empty[0])
        (0.3333, False)
    """

    NAME = "opa"
    HAS_CUT_OFF = False
    EMPTY = "one label only"
    NO_LOSS = "as it is a step function of the ranking"

    def per_list(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the metric of the exact ranking, ties by position."""
        ranked = masked.at_ranks(scores, mask, labels)
        real = masked.real_ranks(mask, ranked)[:, tf.newaxis, :]
        ranks = masked.ranks(ranked)

        def block(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            """Counts, for each row's item, later items of lower and higher label."""
            label, rank = rows[..., :1], rows[..., 1:]
            behind = real & (ranks[:, tf.newaxis, :] > rank)
            counts = [
                tf.reduce_sum(tf.cast(behind & unlike, rows.dtype), axis=2)
                for unlike in (
                    label > ranked[:, tf.newaxis, :],
                    label < ranked[:, tf.newaxis, :],
                )
            ]
            return tf.stack(counts, axis=2), tf.zeros([], rows.dtype)

        rows = tf.stack([ranked, tf.broadcast_to(ranks, tf.shape(ranked))], axis=2)
        counts, _ = blocks.by_rows(block, rows, tf.zeros([], rows.dtype))
        right, wrong = tf.unstack(tf.reduce_sum(counts, axis=1), axis=1)
        pairs = right + wrong
        return tf.math.divide_no_nan(right, pairs), pairs <= 0
