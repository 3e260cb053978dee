"""Sinkhorn ranks: soft positions by optimal transport (Cuturi et al., NeurIPS 2019)."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.arguments import Argument, Sharpness
from tfr_ext.relaxations.relaxation import Positions, register
from tfr_ext.transport import items_to_ranks

# Lists whose scores have a smaller standard deviation count as nearly tied.
_LEAST_SPREAD = 1e-6
# Scores beyond this are scaled down first, so that their squares are finite.
_LARGE = 1e15


def sinkhorn_rank(
    scores: tf.Tensor,
    mask: tf.Tensor,
    regularization: float = 0.01,
    num_iterations: int = 20,
) -> tf.Tensor:
    r"""Returns soft positions: the mean ranks that items are transported to.

    Scores are standardised and squashed, `x = sigmoid(pi / sqrt(3) (s - mean) / std)`,
    the distribution function of a logistic distribution, so that they fill (0, 1) and
    one regularisation suits any scale. They are transported to the same number of
    ranks, spaced evenly from 1 down to 0, at a cost of `(x - y)^2`. Shifting or scaling
    all scores changes nothing.

    A list of equal scores has no direction to separate in and gets no gradient.

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        regularization: strength of the entropic regularisation, above 1e-4. The
            positions become exact as it falls and the iterations increase, and become
            equal as it rises.
        num_iterations: number of Sinkhorn iterations, at least 1, all of which are
            differentiated. With fewer iterations, the positions fill the ranks less
            evenly.

    Returns:
        A tensor like `scores`, from 1 to the number of real items; 1 at padding.

    Examples:
        >>> scores = tf.constant([[1., 3., 2.]])
        >>> for regularization in (0.3, 0.1):
        ...     positions = sinkhorn_rank(scores, scores > 0, regularization)
        ...     print(positions.numpy().round(3))
        [[2.628 1.372 2.   ]]
        [[2.888 1.112 2.   ]]
    """
    x = _squashed(scores, mask)
    positions = items_to_ranks.soft_positions(x, mask, regularization, num_iterations)
    return tf.where(mask, positions, 1)


@register
@dataclasses.dataclass(frozen=True)
class SinkhornSort(Positions):
    """The mean ranks that items are transported to, see `sinkhorn_rank`."""

    SHARPNESS = Sharpness("regularization", "lower")
    ARGUMENTS = {
        "regularization": Argument(partial(checks.between, low=1e-4, high=1e30)),
        "num_iterations": Argument(partial(checks.at_least, least=1)),
    }

    regularization: float = 0.01
    num_iterations: int = 20

    def positions(self, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns positive positions, `[batch, list]`."""
        return sinkhorn_rank(scores, mask, self.regularization, self.num_iterations)


def _squashed(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the squashed scores less 1/2, which keeps their precision around 0."""
    count = tf.maximum(masked.num_real(mask, scores.dtype), 1)[:, tf.newaxis]
    scores = tf.where(mask, scores, 0)
    size = tf.reduce_max(tf.abs(scores), axis=1, keepdims=True)
    # A constant, whose value does not matter.
    scores /= tf.stop_gradient(tf.where(size > _LARGE, size, tf.ones_like(size)))
    mean = tf.reduce_sum(scores, axis=1, keepdims=True) / count
    gaps = tf.where(mask, scores - mean, 0)
    variance = tf.reduce_sum(tf.square(gaps), axis=1, keepdims=True) / count
    # Written so that NaN stays NaN.
    least = tf.constant(_LEAST_SPREAD**2, scores.dtype)
    spread = tf.sqrt(tf.where(variance < least, least, variance))
    standard = gaps / spread
    ties = tf.equal(_greatest(scores, mask), -_greatest(-scores, mask))
    standard = tf.where(ties, tf.stop_gradient(standard), standard)
    return tf.tanh(standard * (math.pi / math.sqrt(12))) / 2


def _greatest(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    return tf.reduce_max(
        tf.where(mask, scores, scores.dtype.min), axis=1, keepdims=True
    )
