r"""SoftSort: the simplest relaxation of sorting (Prillo and Eisenschlos, ICML 2020).

With `s_(r)` the score at rank `r` of the exact sort, Eq. 5:

$$
P_r = \operatorname{softmax}_j \Big( -\frac{|s_{(r)} - s_j|}{\mathrm{temperature}} \Big)
$$

`soft_sort` implements this directly; the other functions compute expectations and
positions without a matrix of all ranks and items, see
`tfr_ext.relaxations.soft_sort_fast`.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.annealed import Annealable
from tfr_ext.core.arguments import Argument, Sharpness
from tfr_ext.core.ranking import ranking
from tfr_ext.relaxations.relaxation import Indicators, Positions, register
from tfr_ext.relaxations.soft_sort_fast import (
    soft_sort_expectation,
    soft_sort_positions,
)
from tfr_ext.relaxations.sorted_scores import Float, as_tensor

__all__ = [
    "SoftSort",
    "SoftSortPositions",
    "soft_sort",
    "soft_sort_expectation",
    "soft_sort_positions",
]

# Logits this far below the best have no mass.
_FAR = 1e30


def soft_sort(
    scores: tf.Tensor,
    mask: tf.Tensor,
    num_ranks: masked.Size | None = None,
    temperature: Float = 1.0,
) -> tf.Tensor:
    """Returns SoftSort's rank indicators, `softmax_j(-|s_(r) - s_j| / temperature)`.

    `s_(r)`, the score at rank `r` of the exact sort, is differentiated too.

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        num_ranks: number of rows, by default one for each item.
        temperature: positive; the rows become exact as it falls.

    Returns:
        A tensor of shape `[batch, num_ranks, list]`; each row sums to 1 over the real
        items and is 0 at padding. Rows beyond the number of real items are 0.

    Examples:
        >>> scores = tf.constant([[1., 3., 2.]])
        >>> soft_sort(scores, scores > 0, 1, temperature=1.).numpy().round(3)
        array([[[0.09 , 0.665, 0.245]]], dtype=float32)
    """
    fixed = tf.stop_gradient(scores)
    by_rank = tf.gather(fixed, ranking(fixed, mask, num_ranks), batch_dims=1)
    # Tied items share the slope of the score at their ranks.
    tied = tf.equal(by_rank[:, :, tf.newaxis], fixed[:, tf.newaxis, :])
    tied &= mask[:, tf.newaxis]
    tied = tf.cast(tied, scores.dtype)
    share = tf.math.divide_no_nan(tied, tf.reduce_sum(tied, axis=2, keepdims=True))
    by_rank += tf.linalg.matvec(share, scores - fixed)
    gaps = by_rank[:, :, tf.newaxis] - scores[:, tf.newaxis, :]
    # For the largest floats, the gap or its quotient may overflow.
    logits = -tf.abs(gaps) / as_tensor(temperature, scores.dtype)
    logits = tf.where(logits < -_FAR, tf.constant(-_FAR, scores.dtype), logits)
    real = mask[:, tf.newaxis, :] & (masked.real_ranks(mask, by_rank))[:, :, tf.newaxis]
    return tf.where(real, tf.nn.softmax(tf.where(real, logits, -2 * _FAR)), 0)


@register
@dataclasses.dataclass(frozen=True)
class SoftSort(Indicators):
    """SoftSort's rank indicators, see `soft_sort`."""

    SHARPNESS = Sharpness("temperature", "lower")
    ANY_NUM_RANKS = True
    ARGUMENTS = {"temperature": Argument(checks.temperature, annealable=True)}

    temperature: Annealable = 1.0

    def indicators(
        self, scores: tf.Tensor, mask: tf.Tensor, num_ranks: masked.Size
    ) -> tf.Tensor:
        """See `Indicators`."""
        ranks = masked.minimum(num_ranks, masked.list_size(scores))
        rows = soft_sort(scores, mask, ranks, self.now("temperature"))
        return tf.pad(rows, [[0, 0], [0, num_ranks - ranks], [0, 0]])

    def expectation(
        self,
        scores: tf.Tensor,
        mask: tf.Tensor,
        values: tf.Tensor,
        num_ranks: masked.Size,
    ) -> tf.Tensor:
        """See `Indicators`."""
        return soft_sort_expectation(
            scores,
            mask,
            tf.stop_gradient(values),
            num_ranks,
            self.now("temperature"),
        )


@register
@dataclasses.dataclass(frozen=True)
class SoftSortPositions(Positions):
    """The expected positions of the items under SoftSort, see `soft_sort_positions`."""

    SHARPNESS = SoftSort.SHARPNESS
    ARGUMENTS = SoftSort.ARGUMENTS

    temperature: Annealable = 1.0

    def positions(self, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """See `Positions`."""
        return soft_sort_positions(scores, mask, self.now("temperature"))
