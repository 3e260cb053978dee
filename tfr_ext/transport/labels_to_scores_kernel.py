"""The ranking cost (WassRank, Algorithm 2), and products with its kernel.

See the note at the head of `tfr_ext.transport.labels_to_scores_few` for the formulas.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from tfr_ext.core import masked
from tfr_ext.core.masked import ranking
from tfr_ext.transport.sinkhorn import NOTHING, log_add

# Gains above this are alike. b**31 is less for any base b up to 9.
_MAX_LOG_GAIN = 69.0


class RankingCost(NamedTuple):
    """The ranking cost matrix (WassRank, Algorithm 2), as a function of labels.

    It is 0 on the diagonal, `variance_penalty` between items of the same label, and
    else the difference of their gains `gain_base**label - 1`, plus `relevance_gap` if
    one label is 0.

    Attributes:
        variance_penalty: positive.
        relevance_gap: not negative.
        gain_base: above 1.
    """

    variance_penalty: float = math.e
    relevance_gap: float = 100.0
    gain_base: float = 4.0

    def positions(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns where labels are on the line whose distances are the cost."""
        log_gain = tf.minimum(labels * math.log(self.gain_base), _MAX_LOG_GAIN)
        gap = tf.constant(self.relevance_gap, labels.dtype)
        return tf.where(tf.equal(labels, 0), -gap, tf.math.expm1(log_gain))

    def matrix(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns the whole matrix, `[batch, list, list]`; for small lists.

        Args:
            labels: non-negative labels `[batch, list]`.

        Examples:
            >>> cost = RankingCost(variance_penalty=1., relevance_gap=10.)
            >>> cost.matrix(tf.constant([[1., 0., 0.]])).numpy()
            array([[[ 0., 13., 13.],
                    [13.,  0.,  1.],
                    [13.,  1.,  0.]]], dtype=float32)
        """
        places = self.positions(labels)
        cost = tf.abs(places[:, :, tf.newaxis] - places[:, tf.newaxis, :])
        same = tf.equal(labels[:, :, tf.newaxis], labels[:, tf.newaxis, :])
        cost = tf.where(same, tf.constant(self.variance_penalty, labels.dtype), cost)
        return tf.linalg.set_diag(cost, tf.zeros_like(labels))


class RankingKernel:
    """Products with the ranking cost's kernel, for any labels, in the log domain.

    Over labels in order the sums with what is above, and with what is below, are scans;
    these are done by doubling, with differences of positions only, so that nothing is
    lost where costs are very large.
    """

    def __init__(
        self,
        labels: tf.Tensor,
        mask: tf.Tensor,
        cost: RankingCost,
        regularization: float,
    ):
        """Initialises the kernel.

        Args:
            labels: non-negative labels, `[batch, list]`.
            mask: True at real items, `[batch, list]`.
            cost: the ranking cost.
            regularization: positive.
        """
        dtype = labels.dtype
        batch, size = tf.shape(labels)[0], masked.list_size(labels)
        self._shape = [batch, size]
        self._mask = mask
        order = ranking(labels, mask)
        by_rank = tf.gather(labels, order, batch_dims=1)
        starts = tf.concat(
            [tf.zeros_like(mask[:, :1]), tf.not_equal(by_rank[:, 1:], by_rank[:, :-1])],
            axis=1,
        )
        number = tf.cumsum(tf.cast(starts, tf.int32), axis=1)
        rows = tf.range(batch)[:, tf.newaxis] * size
        # The group of each item, in the items' order, counted over the batch.
        flat = tf.scatter_nd(
            tf.reshape(order + rows, [-1, 1]),
            tf.reshape(number + rows, [-1]),
            [batch * size],
        )
        self._groups = flat
        items = tf.reshape(tf.cast(mask, dtype), [-1])
        count = self._sum(items)
        self._exists = count > 0
        places = cost.positions(labels) / regularization
        lowest = tf.reduce_min(tf.where(mask, places, labels.dtype.max), axis=1)
        self._places = tf.where(
            self._exists,
            self._max(tf.where(mask, places, NOTHING)),
            lowest[:, tf.newaxis],
        )
        penalty = tf.constant(cost.variance_penalty / regularization, dtype)
        alone = tf.equal(count, 1)
        self._within = tf.where(alone, tf.zeros_like(count), -penalty)
        log_rest = tf.where(~alone, tf.math.log(-tf.math.expm1(-penalty)), NOTHING)
        self._log_rest = self._of_item(log_rest)

    def log_product(self, log_x: tf.Tensor) -> tf.Tensor:
        """Returns `log(M x)`.

        Args:
            log_x: log of non-negative numbers, `[batch, list]`; padding is left out.

        Returns:
            A tensor of the same shape, without meaning at padding.
        """
        log_x = tf.where(self._mask, log_x, NOTHING)
        most = self._max(log_x)
        relative = tf.exp(log_x - self._of_item(most))
        relative = tf.where(self._mask, relative, 0.0)
        sums = most + tf.math.log(self._sum(tf.reshape(relative, [-1])))
        sums = tf.where(self._exists, sums, NOTHING)
        product = log_add(self._others(sums), self._within + sums)
        return log_add(self._of_item(product), self._log_rest + log_x)

    def _others(self, sums: tf.Tensor) -> tf.Tensor:
        """Returns log sum over other groups h of exp(-|x_g - x_h|) exp(sums_h)."""
        above = _scan(sums, self._places)
        below = _scan(tf.reverse(sums, [1]), -tf.reverse(self._places, [1]))
        return log_add(above, tf.reverse(below, [1]))

    def _max(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the maximum over each group, `[batch, groups]`."""
        found = tf.math.unsorted_segment_max(
            tf.reshape(x, [-1]), self._groups, self._shape[0] * self._shape[1]
        )
        return tf.reshape(tf.maximum(found, NOTHING), self._shape)

    def _sum(self, flat: tf.Tensor) -> tf.Tensor:
        """Returns the sum over each group, `[batch, groups]`."""
        found = tf.math.unsorted_segment_sum(
            flat, self._groups, self._shape[0] * self._shape[1]
        )
        return tf.reshape(found, self._shape)

    def _of_item(self, per_group: tf.Tensor) -> tf.Tensor:
        taken = tf.gather(tf.reshape(per_group, [-1]), self._groups)
        return tf.reshape(taken, self._shape)


def _scan(sums: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Returns log sum_{h < g} exp(sums_h - (x_h - x_g)), for places x that fall."""
    size = masked.list_size(sums)
    index = tf.range(size)

    def shifted(x: tf.Tensor, by: masked.Size, fill: float) -> tf.Tensor:
        # Not a pad and a slice, whose sizes XLA would have to know.
        moved = tf.gather(x, tf.maximum(index - by, 0), axis=1)
        return tf.where(index < by, tf.constant(fill, x.dtype), moved)

    def distance(by: masked.Size) -> tf.Tensor:
        return tf.maximum(shifted(places, by, 0) - places, 0)

    def step(by: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        before = shifted(total, by, NOTHING) - distance(by)
        return 2 * by, log_add(total, before)

    _, total = tf.while_loop(
        lambda by, _: by < size, step, (tf.constant(1), sums), maximum_iterations=31
    )
    return shifted(total, 1, NOTHING) - distance(1)
