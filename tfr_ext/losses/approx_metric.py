"""Approximated metrics (Qin, Liu and Li, Information Retrieval 2010)."""

from __future__ import annotations

from tfr_ext.losses import base, metric_loss
from tfr_ext.objectives import registry
from tfr_ext.relaxations.approx_metric import ApproxPositions


@base.register
class ApproxMetricLoss(metric_loss.NamedMetricLoss):
    r"""One minus a ranking metric of approximated positions.

    The position of item `j`, and the smooth form of "within the first `K` ranks", are

    $$
    \hat\pi_j = 1 + \sum_{i \ne j} \sigma(\alpha (s_i - s_j)), \qquad
    T_K(\hat\pi) = \sigma(\beta (K + \tfrac12 - \hat\pi))
    $$

    and the loss for `metric='ndcg'`, labels `y` and gains `2^y - 1`, is

    $$
    \mathcal{L} = 1 - \frac{1}{\mathrm{IDCG}@K} \sum_j
    \frac{2^{y_j} - 1}{\log_2(1 + \hat\pi_j)} T_K(\hat\pi_j)
    $$

    See `tfr_ext.objectives` for the other metrics. Without a cut-off the loss equals
    one plus TensorFlow Ranking's `ApproxNDCGLoss` at a temperature of `1 / alpha`. A
    list without a relevant item contributes 0 and no gradient.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = ApproxMetricLoss()
    >>> round(float(loss(y_true, y_pred)), 4)
    0.3449

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = ApproxMetricLoss(ragged=True, metric='precision', topn=1)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.4955

    Usage with the `compile()` API:

    ```python
    model.compile(
        optimizer='adam', loss=tfr_ext.losses.ApproxMetricLoss(metric='map'))
    ```

    Reference:
        Qin, Liu and Li, "A general approximation framework for direct optimization of
        information retrieval measures", Information Retrieval 13, 2010.
    """

    KEY = "approx_metric_loss"

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        metric: str = "ndcg",
        topn: int | None = None,
        alpha: float = 10.0,
        beta: float = 10.0,
        relevance_threshold: float = 1.0,
        gain: str = "exponential",
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            metric: 'ndcg', 'map', 'precision' or 'recall'; the last two need `topn`.
            topn: cut-off of the metric; None for the whole list, which then has no
                truncation.
            alpha: between 1e-30 and 1e30, slope of the position function. Higher values
                are closer to the exact positions, but flatter almost everywhere.
            beta: between 1e-30 and 1e30, slope of the truncation function and, in
                'map', of the comparison of two positions.
            relevance_threshold: lowest label of a relevant item, for 'precision',
                'recall' and 'map'.
            gain: the gain of a label in 'ndcg': 'exponential' (`2**label - 1`),
                'linear' (`label`) or 'power' (`2**label`).

        Raises:
            ValueError: If an argument is out of range, or differs from its default
                where it has no effect.
        """
        super().__init__(
            ApproxPositions(beta=beta, alpha=alpha),
            registry.of_loss(
                metric,
                "positions",
                topn=topn,
                expected="gain",
                relevance_threshold=relevance_threshold,
                gain=gain,
            ),
            reduction,
            name,
            ragged,
        )
