r"""Approximated positions (Qin, Liu and Li, Information Retrieval 2010).

    pi_j = 1 + sum_{i != j} sigmoid(alpha (s_i - s_j))

A position function says at which rank each item stands, whereas a relaxation of sorting
says which item stands at each rank.
"""

from __future__ import annotations

import dataclasses
from functools import partial

import tensorflow as tf

from tfr_ext.core import checks, sigmoids
from tfr_ext.core.arguments import Argument, Sharpness
from tfr_ext.relaxations.relaxation import Positions, register


def approx_positions(scores: tf.Tensor, mask: tf.Tensor, alpha: float) -> tf.Tensor:
    """Returns `1 + sum_{i != j} sigmoid(alpha (s_i - s_j))` (Qin et al., 2010).

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        alpha: positive slope; the positions become exact as it rises.

    Returns:
        A tensor like `scores`.

    Examples:
        >>> scores = tf.constant([[1., 3., 2.]])
        >>> approx_positions(scores, scores > 0, alpha=10.).numpy().round(3)
        array([[3., 1., 2.]], dtype=float32)
    """
    # An item contributes one half to its own sum.
    return 0.5 + sigmoids.soft_counts(scores, tf.cast(mask, scores.dtype), alpha)


@register
@dataclasses.dataclass(frozen=True)
class ApproxPositions(Positions):
    """Approximated positions, see `approx_positions`."""

    SHARPNESS = Sharpness("alpha", "higher")
    ARGUMENTS = {"alpha": Argument(partial(checks.between, low=1e-30, high=1e30))}

    alpha: float = 10.0

    def positions(self, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns positive positions, `[batch, list]`."""
        return approx_positions(scores, mask, self.alpha)
