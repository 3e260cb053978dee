r"""Sums over a list under the kernel `exp(-|s_r - s_p| / temperature)`, all at once.

With the scores sorted, `s_1 >= s_2 >= ...`, the contribution of the better items to
rank r,

$$
B_r = \sum_{p < r} e^{-(s_p - s_r) / \mathrm{temperature}} \, x_p
= d_r (B_{r-1} + x_{r-1}), \qquad
d_r = e^{-(s_{r-1} - s_r) / \mathrm{temperature}}
$$

is a first-order recurrence, and the contribution of the worse items is its mirror
image. Nothing in it grows and nothing is subtracted, so it needs no logarithms, and
small values are accurate to rounding. All ranks are computed at once by doubling: sums
over the 1, 2, 4, ... nearest items, in O(L log L) time for a list of L.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tfr_ext.core import masked
from tfr_ext.relaxations.sorted_scores import Float, Order, as_tensor, order_scores


@dataclasses.dataclass(frozen=True)
class Kernel:
    """The kernel of a batch of lists.

    Sorted tensors have the list dimension first, `[list, batch]`, so that a shift along
    the list copies one contiguous piece of memory.

    Attributes:
        order: the order of the scores.
        decay: d, `[list, batch]`. It is 0 at the first item and at padding, which
            neither gives nor receives anything.
        temperature: the temperature, in the scores' type.
    """

    order: Order
    decay: tf.Tensor
    temperature: tf.Tensor

    def take(self, x: tf.Tensor) -> tf.Tensor:
        """Sorts a `[batch, list]` tensor into `[list, batch]`."""
        return tf.transpose(self.order.take(x))

    def give_back(self, x: tf.Tensor) -> tf.Tensor:
        """Undoes `take`."""
        return self.order.give_back(tf.transpose(x))

    def sums(self, *x: tf.Tensor) -> Sums:
        """Returns the sums of each item over the better and over the worse items.

        Args:
            *x: for each sum, one number per item, sorted.
        """
        stacked = tf.stack(x, axis=1)
        decay = self.decay[:, tf.newaxis]
        better = decay * tf.roll(stacked, 1, axis=0)
        worse = tf.roll(decay * stacked, -1, axis=0)
        size = decay.shape[0]
        # Values that are rolled around an end meet a decay of 0.
        if size is None:
            size = tf.shape(decay)[0]
            _, better, worse, _ = tf.while_loop(
                lambda reach, *_: reach < size - 1,
                lambda reach, *now: (2 * reach, *_doubled(reach, *now)),
                (1, better, worse, decay),
            )
        else:
            for power in range(max(size - 2, 0).bit_length()):
                better, worse, decay = _doubled(2**power, better, worse, decay)
        return Sums(self.order, stacked, better, worse)

    def score_adjoint(
        self, weights: tf.Tensor, means: tf.Tensor, values: tf.Tensor, *sums: Sums
    ) -> tf.Tensor:
        """Pulls adjoints back to the scores, in the original order of the items.

        The adjoint of the logit `-|s_r - s_p| / temperature` is `G[r, p] = u_r
        K[r, p] (v_p - m_r)`. With D the sum over the better items less that over the
        worse, `D x = sum_{p < r} K[r, p] x_p - sum_{p > r} K[r, p] x_p`, the slope in
        the score at rank m is, over the temperature,

        $$
        u_m (D v - m_m D 1) + (v_m D u - D (u m))
        $$

        as `s_m` is the score of both a row and a column. The slope of `|s_m - s_p|` is
        0 at a tie, and tied items share their ranks evenly, as none of them is the one
        at a rank.

        Args:
            weights: u, `[list, batch]`, sorted like the other arguments.
            means: m.
            values: v.
            *sums: the result of `sums` for v, 1, u, u m.
        """
        differences = tf.concat([x.differences() for x in sums], axis=1)
        of_values, of_ones, of_weights, of_means = tf.unstack(differences, 4, axis=1)
        rows = self._mean_of_ties(weights) * (of_values - means * of_ones)
        slopes = rows + values * of_weights - of_means
        return self.give_back(slopes / self.temperature)

    def _mean_of_ties(self, x: tf.Tensor) -> tf.Tensor:
        def tied(start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            first = tf.range(tf.shape(start)[0])[:, tf.newaxis] * tf.shape(start)[1]
            group = tf.transpose(start + first)
            sums = tf.math.unsorted_segment_sum(
                tf.reshape(x, [-1]), tf.reshape(group, [-1]), tf.size(x)
            )
            count = tf.cast(end - start, x.dtype)
            return tf.gather(sums, group) / tf.transpose(count)

        return self.order.if_tied(tied, lambda: tf.identity(x))


@dataclasses.dataclass(frozen=True)
class Sums:
    """The sums that items receive under a kernel; all are `[list, sums, batch]`.

    Attributes:
        order: the order of the scores.
        own: the summands, which is what each item gives itself.
        better: what each item gets from the better items.
        worse: what each item gets from the worse items. If items tie, the one that
            comes first in the order counts as better.
    """

    order: Order
    own: tf.Tensor
    better: tf.Tensor
    worse: tf.Tensor

    def totals(self) -> list[tf.Tensor]:
        """Returns the sums over all items, for each sum `[list, batch]`."""
        return tf.unstack(self.own + self.better + self.worse, axis=1)

    def differences(self) -> tf.Tensor:
        """Returns `better - worse`, leaving out the items that tie."""

        def tied(start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            first, last = (tf.transpose(i) for i in (start, end - 1))
            batch = tf.broadcast_to(tf.range(tf.shape(first)[1]), tf.shape(first))

            def at(x: tf.Tensor, place: tf.Tensor) -> tf.Tensor:
                by_list = tf.transpose(x, [0, 2, 1])
                found = tf.gather_nd(by_list, tf.stack([place, batch], axis=2))
                return tf.transpose(found, [0, 2, 1])

            return at(self.better, first) - at(self.worse, last)

        return self.order.if_tied(tied, lambda: self.better - self.worse)


def kernel(scores: tf.Tensor, mask: tf.Tensor, temperature: Float) -> Kernel:
    """Returns the kernel of scores.

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        temperature: positive.
    """
    order = order_scores(scores, mask)
    temperature = as_tensor(temperature, scores.dtype)
    ordered = tf.where(order.is_real, order.scores, 0)
    gaps = tf.roll(ordered, 1, axis=1) - ordered
    joined = order.is_real & (tf.range(masked.list_size(scores)) > 0)
    decay = tf.where(joined, tf.exp(-gaps / temperature), 0)
    return Kernel(order, tf.transpose(decay), temperature)


def _doubled(
    reach: int | tf.Tensor, better: tf.Tensor, worse: tf.Tensor, decay: tf.Tensor
) -> tuple:
    """Doubles the number of nearest items that sums and decays extend over."""
    better += decay * tf.roll(better, reach, axis=0)
    worse += tf.roll(decay * worse, -reach, axis=0)
    return better, worse, decay * tf.roll(decay, reach, axis=0)
