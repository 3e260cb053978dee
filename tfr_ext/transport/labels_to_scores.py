"""WassRank's transport problem, and Sinkhorn's iteration for it."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.arguments import Argument, Declared
from tfr_ext.transport.labels_to_scores_few import sinkhorn_of_few_labels
from tfr_ext.transport.labels_to_scores_kernel import RankingCost, RankingKernel
from tfr_ext.transport.sinkhorn import Distribution, Potentials, sinkhorn, softmax

# Log of a probability that is 0 for any purpose, and finite.
_LEAST_LOG_PROBABILITY = -1e30


def ranking_sinkhorn(
    labels: tf.Tensor,
    target: Distribution,
    prediction: Distribution,
    mask: tf.Tensor,
    cost: RankingCost,
    regularization: float,
    num_iterations: int,
    dtype: tf.DType = tf.float64,
) -> Potentials:
    """Runs Sinkhorn's iteration for the ranking cost.

    The same numbers as `sinkhorn` with the whole kernel, many times as fast: see the
    notes at the heads of `labels_to_scores_few` and `labels_to_scores_kernel`.

    Args:
        labels: non-negative float64 labels, 0 at padding, `[batch, list]`.
        target: the same for all items of a label, float64.
        prediction: any distribution, float64.
        mask: True at real items, `[batch, list]`. Each list must have one.
        cost: the ranking cost.
        regularization: positive.
        num_iterations: at least 1.
        dtype: float32 is faster where labels are many, and then less exact.

    Returns:
        The potentials in float64. No gradient passes.
    """
    few = sinkhorn_of_few_labels(
        labels, target, prediction, mask, cost, regularization, num_iterations
    )

    def by_kernel() -> Potentials:
        kernel = RankingKernel(tf.cast(labels, dtype), mask, cost, regularization)
        found = sinkhorn(
            tf.cast(target.log, dtype),
            tf.cast(prediction.log, dtype),
            kernel.log_product,
            mask,
            num_iterations,
        )
        return Potentials(*(tf.cast(x, tf.float64) for x in found))

    return tf.cond(few.usable, lambda: few.potentials, by_kernel)


def _check_gap(argument: str, value: Any) -> float:
    gap = checks.not_negative(argument, value)
    return gap if gap == 0 else checks.between(argument, gap, 0, 1e30)


@dataclasses.dataclass(frozen=True)
class RankingTransport(Declared):
    """Transport of `softmax(score_scale * scores)` to `softmax(labels)`: WassRank's.

    Attributes:
        regularization: of the entropy, between 1e-6 and 1e30; the paper's lambda.
        num_iterations: Sinkhorn iterations, at least 1.
        variance_penalty: cost between items of the same label, positive; alpha.
        relevance_gap: further cost between a relevant item and one of label 0, not
            negative; beta.
        gain_base: base of the gain, above 1; b.
        score_scale: positive; epsilon.
    """

    # So that costs over the regularization, and their differences, are finite.
    ARGUMENTS = {
        "regularization": Argument(partial(checks.between, low=1e-6, high=1e30)),
        "num_iterations": Argument(partial(checks.at_least, least=1)),
        "variance_penalty": Argument(partial(checks.between, low=0, high=1e30)),
        "relevance_gap": Argument(_check_gap),
        "gain_base": Argument(partial(checks.between, low=1, high=1e3)),
        "score_scale": Argument(partial(checks.between, low=0, high=1e30)),
    }

    regularization: float
    num_iterations: int
    variance_penalty: float
    relevance_gap: float
    gain_base: float
    score_scale: float

    def solve(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, Potentials]:
        """Runs the iterations.

        Args:
            labels: non-negative labels, `[batch, list]`, at least one item a list.
            scores: scores, `[batch, list]`.
            mask: True at real items.

        Returns:
            The target and the prediction, both distributions over the real items, 0 at
            padding, and the potentials, all in float64. No gradient passes.
        """
        dtype = scores.dtype
        labels, scores = (tf.cast(x, tf.float64) for x in (labels, scores))
        target = softmax(labels, mask)
        # The gap, or the product, of the largest floats is not finite.
        largest = -_LEAST_LOG_PROBABILITY / self.score_scale
        scores = tf.clip_by_value(scores, -largest, largest)
        prediction = softmax(self.score_scale * scores, mask)
        potentials = ranking_sinkhorn(
            labels,
            target,
            prediction,
            mask,
            self._cost,
            self.regularization,
            self.num_iterations,
            dtype,
        )
        return target.mass, prediction.mass, potentials

    def marginal_error(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Returns how far the iterations are from convergence, of each list.

        Args:
            labels: labels, 0 at padding, `[batch, list]`.
            scores: scores, 0 at padding, `[batch, list]`.
            mask: True at real items, `[batch, list]`.

        Returns:
            `[batch]` sums of the absolute differences between the target and the
            target marginal of the transport plan: 0 at convergence, at most 2. The
            other marginal is exact after each iteration.
        """
        labels, scores, mask = masked.at_least_one_item(labels, scores, mask)
        solved = mask | ~tf.reduce_any(mask, axis=1, keepdims=True)
        target, _, potentials = self.solve(labels, scores, solved)
        exact = tf.cast(labels, tf.float64)
        kernel = RankingKernel(exact, solved, self._cost, self.regularization)
        marginal = tf.exp(potentials.log_v + kernel.log_product(potentials.log_u))
        error = tf.reduce_sum(tf.where(mask, tf.abs(marginal - target), 0), axis=1)
        return tf.cast(error, scores.dtype)

    @property
    def _cost(self) -> RankingCost:
        return RankingCost(self.variance_penalty, self.relevance_gap, self.gain_base)
