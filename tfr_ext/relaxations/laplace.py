r"""Sums over a list under the kernel `exp(-|s_r - s_p| / temperature)`, all at once.

With the scores sorted, `s_1 >= s_2 >= ...`, what the better items give rank r,

    B_r = sum_{p < r} exp(-(s_p - s_r) / temperature) x_p = d_r (B_{r-1} + x_{r-1}),
    d_r = exp(-(s_{r-1} - s_r) / temperature)

is a recurrence of the first order, and what the worse items give is its mirror image.
Nothing in it grows and nothing is subtracted: so it needs no logarithms, and what is
small is right to rounding. It is computed for all ranks at once by doubling: sums over
the 1, 2, 4, ... nearest items, in O(L log L) for a list of L.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tfr_ext import masked
from tfr_ext.relaxations.sorted_scores import Float, Order, as_tensor, order_scores


@dataclasses.dataclass(frozen=True)
class Kernel:
    """The kernel of a batch of lists.

    Attributes:
        order: the scores in order.
        decay: d, `[2, 1, batch, list]`, from better to worse and, with the list
            reversed, from worse to better. It is 0 at the first item, and at padding,
            which nothing reaches and which reaches nothing.
        temperature: the temperature, of the scores' type.
    """

    order: Order
    decay: tf.Tensor
    temperature: tf.Tensor

    def sums(self, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns what the better items give each, and what the worse ones do.

        Args:
            x: one number an item, in order, for each of a few sums:
                `[sums, batch, list]`.

        Returns:
            Two tensors like `x`. Of items that tie, the one that comes first in the
            order counts as better.
        """
        decay = self.decay
        both = decay * tf.roll(tf.stack([x, tf.reverse(x, [2])]), 1, axis=3)
        size = decay.shape[3]
        # What is rolled around the end meets a decay of 0.
        if size is None:
            size = tf.shape(decay)[3]
            _, both, _ = tf.while_loop(
                lambda reach, *_: reach < size - 1,
                lambda reach, *now: (2 * reach, *_doubled(reach, *now)),
                (1, both, decay),
            )
        else:
            for power in range(max(size - 2, 0).bit_length()):
                both, decay = _doubled(2**power, both, decay)
        better, worse = tf.unstack(both, 2)
        return better, tf.reverse(worse, [2])

    def score_adjoint(
        self,
        weights: tf.Tensor,
        means: tf.Tensor,
        values: tf.Tensor,
        differences: tf.Tensor,
    ) -> tf.Tensor:
        """Pulls adjoints back to the scores, in the items' order.

        The adjoint of the logit `-|s_r - s_p| / temperature` is `G[r, p] = u_r
        K[r, p] (v_p - m_r)`. With D the sum over the better items less that over the
        worse, `D x = sum_{p < r} K[r, p] x_p - sum_{p > r} K[r, p] x_p`, the slope in
        the score at rank m is, over the temperature,

            u_m (D v - m_m D 1) + (v_m D u - D (u m))

        as `s_m` is the score of a row and of a column. The slope of `|s_m - s_p|` is 0
        at a tie; and of items that tie none is the one at a rank: they share evenly.

        Args:
            weights: u, `[batch, list]`, in order as all are.
            means: m.
            values: v.
            differences: D of v, 1, u and u m, `[4, batch, list]`; see `differences`.
        """
        shared = self._mean_of_ties(weights)
        of_values, of_ones, of_weights, of_means = tf.unstack(differences, 4)
        rows = shared * (of_values - means * of_ones)
        slopes = rows + values * of_weights - of_means
        return self.order.give_back(slopes / self.temperature)

    def differences(self, better: tf.Tensor, worse: tf.Tensor) -> tf.Tensor:
        """Returns `better - worse` of what `sums` gives, without the items that tie."""

        def tied(start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            first, last = (
                tf.tile(i[tf.newaxis], [tf.shape(better)[0], 1, 1])
                for i in (start, end - 1)
            )
            return tf.gather(better, first, batch_dims=2) - tf.gather(
                worse, last, batch_dims=2
            )

        return self.order.if_tied(tied, lambda: better - worse)

    def _mean_of_ties(self, x: tf.Tensor) -> tf.Tensor:
        def tied(start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
            size = tf.shape(x)[1]
            group = start + tf.range(tf.shape(x)[0])[:, tf.newaxis] * size
            flat = tf.reshape(x, [-1])
            sums = tf.math.unsorted_segment_sum(
                flat, tf.reshape(group, [-1]), tf.size(x)
            )
            return tf.gather(sums, group) / tf.cast(end - start, x.dtype)

        return self.order.if_tied(tied, lambda: tf.identity(x))


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
    upwards = tf.roll(tf.reverse(decay, [1]), 1, axis=1)
    return Kernel(order, tf.stack([decay, upwards])[:, tf.newaxis], temperature)


def _doubled(reach: int | tf.Tensor, sums: tf.Tensor, decay: tf.Tensor) -> tuple:
    """Takes sums over so many nearest items, and the decay over them, to the double."""
    sums += decay * tf.roll(sums, reach, axis=3)
    return sums, decay * tf.roll(decay, reach, axis=3)
