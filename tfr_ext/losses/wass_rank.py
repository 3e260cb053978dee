"""WassRank: Wasserstein loss with a ranking cost (Yu et al., WSDM 2019)."""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

from tfr_ext.core.derivatives import differentiable_once
from tfr_ext.losses import base
from tfr_ext.metrics.convergence import SinkhornErrorMetric
from tfr_ext.transport import labels_to_scores


@base.register
class WassRankLoss(base.ListwiseLoss):
    r"""The entropic Wasserstein distance between labels and scores.

    Both become distributions over the items of a list, `softmax(label)` and
    `softmax(score_scale * score)`. Moving mass from one item to another costs
    `variance_penalty` if their labels are equal. Otherwise it costs the difference of
    their gains, `gain_base ** label - 1`, plus `relevance_gap` if one label is 0. After
    `num_iterations` Sinkhorn iterations, with scalings `v` of the target `t` and `u` of
    the prediction `p`, the loss is the value of the dual problem,

    $$
    \mathcal{L} = \lambda \Big(\sum_i t_i \log v_i + \sum_i p_i \log u_i\Big)
    $$

    and its gradient in `p` is `lambda log u`, up to a constant. With the defaults, 20
    iterations are far from convergence: until then the value is a lower bound, and the
    gradient is the one that Algorithm 1 takes. `SinkhornErrorMetric` measures how far.
    All lists count, including those without a relevant item.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = WassRankLoss()
    >>> round(float(loss(y_true, y_pred)), 4)
    0.5997

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = WassRankLoss(ragged=True, regularization=10.)
    >>> round(float(loss(y_true, y_pred)), 4)
    9.0898

    Usage with the `compile()` API:

    ```python
    model.compile(optimizer='adam', loss=tfr_ext.losses.WassRankLoss())
    ```

    Reference:
        Yu, Jatowt, Joho, Jose, Yang and Chen, "WassRank: Listwise Document Ranking
        Using Optimal Transport Theory", WSDM 2019: Eqs. 4 to 7, Algorithms 1 and 2.
    """

    KEY = "wass_rank_loss"

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        regularization: float = 0.1,
        num_iterations: int = 20,
        variance_penalty: float = math.e,
        relevance_gap: float = 100.0,
        gain_base: float = 4.0,
        score_scale: float = 1.0,
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            regularization: strength of the entropic regularisation, between 1e-6 and
                1e30; the paper's lambda.
            num_iterations: number of Sinkhorn iterations, at least 1.
            variance_penalty: cost between items with the same label, positive; the
                paper's alpha.
            relevance_gap: additional cost between a relevant item and one with label 0,
                non-negative; the paper's beta.
            gain_base: base of the gain, above 1; the paper's b.
            score_scale: factor of the scores, positive; the paper's epsilon. For a
                scorer that ends in a sigmoid, as theirs does, use the highest label.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(reduction, name, ragged)
        self._problem = labels_to_scores.RankingTransport(
            regularization=regularization,
            num_iterations=num_iterations,
            variance_penalty=variance_penalty,
            relevance_gap=relevance_gap,
            gain_base=gain_base,
            score_scale=score_scale,
        )
        self._arguments = self._problem.get_config()

    def compute(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Computes the unweighted loss of each list, `[batch, 1]`."""
        problem = self._problem
        has_item = tf.reduce_any(mask, axis=1, keepdims=True)

        @differentiable_once
        def distance(scores: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            # A list of nothing but padding is solved as if it had items, and then left
            # out.
            target, prediction, (log_u, log_v) = problem.solve(
                labels, scores, mask | ~has_item
            )
            work = prediction * log_u
            total = tf.reduce_sum(work, axis=1, keepdims=True)
            value = total + tf.reduce_sum(target * log_v, axis=1, keepdims=True)

            def gradient(upstream: tf.Tensor) -> tf.Tensor:
                factor = problem.regularization * problem.score_scale
                slopes = tf.cast(factor * (work - prediction * total), scores.dtype)
                return tf.where(has_item, slopes * upstream, 0)

            value = tf.cast(problem.regularization * value, scores.dtype)
            return tf.where(has_item, value, 0), gradient

        return distance(scores)

    def diagnostics(self) -> list[tf.keras.metrics.Metric]:
        """Returns the metric of how far the iterations are from convergence."""
        return [SinkhornErrorMetric(**self._problem.get_config(), ragged=self._ragged)]
