r"""NeuralSort: a row-stochastic relaxation of sorting (Grover et al., ICLR 2019).

For `n` real items with scores `s` and temperature `tau`, the row of rank `r` is

$$
P_r = \operatorname{softmax}_j
\Big( \frac{(n + 1 - 2 r) \, s_j - \sum_i |s_j - s_i|}{\tau} \Big)
$$

(Swezey et al., "PiRank", NeurIPS 2021, Eq. 12). `plain_neural_sort` implements this
directly; the other functions give the same numbers without the matrix of differences,
and with full precision even if scores are far apart, see
`tfr_ext.relaxations.neural_sort_fast`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.annealed import Annealable
from tfr_ext.core.arguments import Argument, Sharpness
from tfr_ext.relaxations.neural_sort_fast import (
    neural_sort,
    neural_sort_expectation,
    neural_sort_log_likelihood,
)
from tfr_ext.relaxations.relaxation import Indicators, register
from tfr_ext.relaxations.sorted_scores import Float

__all__ = [
    "NeuralSort",
    "neural_sort",
    "neural_sort_expectation",
    "neural_sort_log_likelihood",
    "plain_neural_sort",
]


def plain_neural_sort(
    scores: tf.Tensor, mask: tf.Tensor, num_ranks: int, temperature: Float = 5.0
) -> tf.Tensor:
    """Returns NeuralSort's rank indicators as they are defined.

    Args:
        scores: see `neural_sort`, also for the other arguments.
        mask: True at real items.
        num_ranks: number of rows.
        temperature: positive.
    """
    real = tf.cast(mask, scores.dtype)
    gaps = tf.abs(scores[:, :, tf.newaxis] - scores[:, tf.newaxis, :])
    from_all = tf.linalg.matvec(gaps, real)
    rank = tf.range(1, num_ranks + 1, dtype=scores.dtype)
    slope = masked.num_real(mask, scores.dtype)[:, tf.newaxis] + 1 - 2 * rank
    logits = slope[:, :, tf.newaxis] * scores[:, tf.newaxis] - from_all[:, tf.newaxis]
    logits = tf.where(mask[:, tf.newaxis], logits / temperature, scores.dtype.min)
    of_real_ranks = masked.real_ranks(mask, slope)[:, :, tf.newaxis]
    return tf.where(of_real_ranks, tf.nn.softmax(logits), 0)


@register
@dataclasses.dataclass(frozen=True)
class NeuralSort(Indicators):
    """NeuralSort's rank indicators, see `neural_sort`.

    Attributes:
        temperature: positive; the rows become exact as it falls.
        straight_through: whether to use the value of the exact sort and only the
            gradient of the relaxation.
    """

    SHARPNESS = Sharpness("temperature", "lower")
    ANY_NUM_RANKS = True
    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {
        "temperature": Argument(checks.temperature, annealable=True),
        "straight_through": Argument(checks.boolean),
    }

    temperature: Annealable = 5.0
    straight_through: bool = True

    def indicators(
        self, scores: tf.Tensor, mask: tf.Tensor, num_ranks: masked.Size
    ) -> tf.Tensor:
        """Returns rank indicators, `[batch, num_ranks, list]`."""
        return neural_sort(scores, mask, num_ranks, self.now("temperature"))

    def expectation(
        self,
        scores: tf.Tensor,
        mask: tf.Tensor,
        values: tf.Tensor,
        num_ranks: masked.Size,
    ) -> tf.Tensor:
        """Returns the expected value at each rank, `[batch, num_ranks]`."""
        return neural_sort_expectation(
            scores,
            mask,
            tf.stop_gradient(values),
            num_ranks,
            self.now("temperature"),
            self.straight_through,
        )

    def smooth(self) -> NeuralSort:
        """Returns the relaxation with its relaxed value, not the exact one."""
        smooth = copy.copy(self)  # It follows the same schedule.
        object.__setattr__(smooth, "straight_through", False)
        return smooth
