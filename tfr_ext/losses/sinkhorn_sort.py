"""Metrics of Sinkhorn ranks (Cuturi, Teboul and Vert, NeurIPS 2019)."""

from __future__ import annotations

from tfr_ext.losses import base, metric_loss
from tfr_ext.objectives import registry
from tfr_ext.relaxations.sinkhorn_sort import SinkhornSort


@base.register
class SinkhornSortLoss(metric_loss.NamedMetricLoss):
    r"""One minus a ranking metric of positions found by optimal transport.

    Scores are standardised and squashed, `x = sigmoid(pi / sqrt(3) (s - mean) / std)`.
    The `n` items are transported to the ranks `1..n`, which are spaced evenly from 1
    down to 0 at `y_r`, at a cost of `(x - y)^2`; the position of an item is its mean
    rank under the entropic transport plan `P`,

    $$
    P = \mathrm{diag}(u)\, e^{-(x - y)^2 / \lambda}\, \mathrm{diag}(v), \qquad
    \hat\pi_j = n \sum_r r\, P_{jr}
    $$

    after `num_iterations` Sinkhorn iterations, all of which are differentiated. The
    loss for `metric='ndcg'`, labels `y` and gains `2^y - 1`, is

    $$
    \mathcal{L} = 1 - \frac{1}{\mathrm{IDCG}@K} \sum_j
    \frac{2^{y_j} - 1}{\log_2(1 + \hat\pi_j)} T_K(\hat\pi_j)
    $$

    with `T_K` as in `ApproxMetricLoss`; see `tfr_ext.objectives` for the other metrics.
    The scale of the scores has no effect. A list without a relevant item contributes 0
    and no gradient; a list of equal scores contributes no gradient.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = SinkhornSortLoss()
    >>> round(float(loss(y_true, y_pred)), 4)
    0.3691

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = SinkhornSortLoss(ragged=True, metric='precision', topn=1)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.5

    Usage with the `compile()` API:

    ```python
    model.compile(
        optimizer='adam', loss=tfr_ext.losses.SinkhornSortLoss(regularization=0.03))
    ```

    Reference:
        Cuturi, Teboul and Vert, "Differentiable Ranking and Sorting using Optimal
        Transport", NeurIPS 2019.
    """

    KEY = "sinkhorn_sort_loss"

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        metric: str = "ndcg",
        topn: int | None = None,
        regularization: float = 0.01,
        num_iterations: int = 20,
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
            regularization: strength of the entropic regularisation, between 1e-4 and
                1e30; the paper's epsilon. Lower values are closer to the exact
                positions and need more iterations. Below 0.008 an iteration is several
                times as slow; below 0.003 float32 has few digits left.
            num_iterations: number of Sinkhorn iterations, at least 1.
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
            SinkhornSort(
                beta=beta, regularization=regularization, num_iterations=num_iterations
            ),
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
