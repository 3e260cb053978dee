r"""Soft ranks: the sort as a projection (Blondel et al., ICML 2020).

The ranks of scores `s`, 1 for the best, maximise `<-s, r>` over the permutations of
`1, ..., n`. Subtracting a quadratic term makes the maximiser unique and continuous in
the scores:

    r(s) = argmax_r <-s / eps, r> - |r|^2 / 2 = the projection of -s / eps

onto the convex hull of the permutations. With `z = (s_best - s) / eps`, sorted, it is

    r_p = z_p - v_p,    v the isotonic regression of y_p = z_p - p

so that items with similar scores form blocks. In a block, the ranks are linear in the
scores around the mean of its exact ranks; an item on its own has its exact rank. Two
items in one block are no further apart than the block is long, so a larger gap can be
cut to the list size, and no scores are too large for float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.arguments import Argument, Sharpness
from tfr_ext.relaxations import isotonic
from tfr_ext.relaxations.relaxation import Positions, register
from tfr_ext.relaxations.sorted_scores import Order, has_nan, order_scores


def soft_rank(
    scores: tf.Tensor, mask: tf.Tensor, regularization: float = 1.0
) -> tf.Tensor:
    """Returns the soft rank of each item, 1 for the best.

    Takes O(L log^2 L) time and O(L) memory for lists of L items.

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        regularization: positive. As it falls, the ranks become exact and constant in
            the scores; as it rises, they become equal. Ranks are exact where scores are
            `regularization` or more apart.

    Returns:
        A tensor like `scores`, 0 at padding. The ranks of `n` real items sum to
        `n (n + 1) / 2`.

    Examples:
        >>> scores = tf.constant([[1., 3., 2.5]])
        >>> soft_rank(scores, scores > 0).numpy()
        array([[3.  , 1.25, 1.75]], dtype=float32)
    """
    by_rank = order_scores(tf.stop_gradient(scores), mask)
    regularization = tf.constant(regularization, tf.float64)
    number, gaps = _gaps(by_rank, regularization)
    targets = tf.cumsum(gaps, axis=1) - number
    fitted = isotonic.fit(targets, by_rank.is_real)
    ranks = number + (targets - fitted)
    ranks = tf.where(has_nan(scores, mask), tf.cast(float("nan"), ranks.dtype), ranks)
    ranks = tf.where(by_rank.is_real, ranks, 0)

    @tf.custom_gradient
    def rank(scores: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            upstream = tf.cast(by_rank.take(upstream), tf.float64)
            upstream = tf.where(by_rank.is_real, upstream, 0)
            means = isotonic.block_means(fitted, upstream)
            slopes = (means - upstream) / regularization
            return by_rank.give_back(tf.cast(slopes, scores.dtype))

        return by_rank.give_back(tf.cast(ranks, scores.dtype)), gradient

    return rank(scores)


@register
@dataclasses.dataclass(frozen=True)
class FastSoftRank(Positions):
    """The soft ranks of the items, see `soft_rank`."""

    SHARPNESS = Sharpness("regularization", "lower")
    ARGUMENTS = {
        "regularization": Argument(partial(checks.between, low=1e-30, high=1e30))
    }

    regularization: float = 1.0

    def positions(self, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns positive positions, `[batch, list]`."""
        return soft_rank(scores, mask, self.regularization)


def _gaps(by_rank: Order, unit: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the ranks 1, 2, ..., and each score's distance from the one before."""
    scores = tf.cast(by_rank.scores, tf.float64)
    gaps = (scores[:, :-1] - scores[:, 1:]) / unit
    number = masked.ranks(scores)
    gaps = tf.where(by_rank.is_real[:, 1:], tf.minimum(gaps, number[:, -1:]), 0)
    return number, tf.pad(gaps, [[0, 0], [1, 0]])
