"""A Keras metric of how far WassRank's iterations are from convergence."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfr_ext.core import checks, inputs, which_keras
from tfr_ext.transport import labels_to_scores


@which_keras.register
class SinkhornErrorMetric(which_keras.CheckedCalls, tf.keras.metrics.Mean):
    """The mean over lists of the marginal error of WassRank's transport plans.

    The error is the sum of the absolute differences between the target distribution and
    the target marginal of the plan after the last iteration: 0 at convergence, and at
    most 2. The other marginal is exact. If the error is far from 0, the loss is only a
    lower bound of the Wasserstein distance, and its gradient is not that of any
    distance: see the page of `WassRankLoss`, whose arguments this metric takes.

    Standalone usage:

    >>> y_true, y_pred = [[2., 1., 0.]], [[0.1, 0.2, 0.3]]
    >>> for regularization in (0.1, 100.):
    ...     metric = SinkhornErrorMetric(regularization=regularization)
    ...     print(round(float(metric(y_true, y_pred)), 4))
    0.7293
    0.0
    """

    def __init__(
        self,
        regularization: float = 0.1,
        num_iterations: int = 20,
        variance_penalty: float = math.e,
        relevance_gap: float = 100.0,
        gain_base: float = 4.0,
        score_scale: float = 1.0,
        name: str = "sinkhorn_error",
        dtype: Any = None,
        ragged: bool = False,
    ):
        """Initialises the metric.

        Args:
            regularization: see `WassRankLoss`, also for the arguments that follow.
            num_iterations: number of Sinkhorn iterations.
            variance_penalty: cost between items with the same label.
            relevance_gap: additional cost between a relevant item and one with label 0.
            gain_base: base of the gain.
            score_scale: factor of the scores.
            name: name of the metric.
            dtype: type of the result.
            ragged: whether labels and scores may be ragged tensors.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(name=name, dtype=dtype)
        self._direction = "down"  # For the callbacks of Keras 3, as `RankingMetric`.
        self._problem = labels_to_scores.RankingTransport(
            regularization=regularization,
            num_iterations=num_iterations,
            variance_penalty=variance_penalty,
            relevance_gap=relevance_gap,
            gain_base=gain_base,
            score_scale=score_scale,
        )
        self._ragged = checks.boolean("ragged", ragged)

    @which_keras.not_converted
    def update_state(
        self,
        y_true: inputs.TensorLike,
        y_pred: inputs.TensorLike,
        sample_weight: inputs.TensorLike | None = None,
    ) -> None:
        """Adds a batch of lists.

        Args:
            y_true: labels `[batch, list]`, negative at padding.
            y_pred: scores `[batch, list]`.
            sample_weight: weights, as for a loss.
        """
        labels, scores, mask, weights = inputs.lists(
            y_true, y_pred, sample_weight, self._ragged
        )
        scores = tf.where(mask, scores, 0)
        super().update_state(
            self._problem.marginal_error(labels, scores, mask), weights
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this metric."""
        return {
            **super().get_config(),
            **self._problem.get_config(),
            "ragged": self._ragged,
        }
