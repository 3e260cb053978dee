"""Metrics of fast soft ranks (Blondel et al., ICML 2020)."""

from __future__ import annotations

from tfr_ext.losses import base, metric_loss
from tfr_ext.objectives import registry
from tfr_ext.relaxations.fast_soft_rank import FastSoftRank


@base.register
class FastSoftRankLoss(metric_loss.NamedMetricLoss):
    r"""One minus a ranking metric of soft ranks.

    The soft ranks of the `n` scores of a list are the projection

    $$
    \hat\pi = \operatorname{argmin}_{r \in \mathcal{P}(1, \ldots, n)}
    \tfrac12 \lVert r + s / \varepsilon \rVert^2
    $$

    onto the convex hull of the permutations of `1, ..., n`, and stand in for the
    positions of the metric. For `metric='ndcg'`, labels `y` and a cut-off `K`:

    $$
    \mathcal{L} = 1 - \frac{1}{\mathrm{IDCG}@K} \sum_j
    \frac{2^{y_j} - 1}{\log_2(1 + \hat\pi_j)}
    \sigma(\beta (K + \tfrac12 - \hat\pi_j))
    $$

    See `tfr_ext.objectives` for the other metrics, and
    `tfr_ext.relaxations.fast_soft_rank` for the ranks. Where scores are more than
    `regularization` apart, the ranks are exact and have no gradient. A list without a
    relevant item contributes 0 and no gradient.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = FastSoftRankLoss()
    >>> round(float(loss(y_true, y_pred)), 4)
    0.2746

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = FastSoftRankLoss(ragged=True, metric='precision', topn=1)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.833

    Usage with the `compile()` API:

    ```python
    model.compile(
        optimizer='adam', loss=tfr_ext.losses.FastSoftRankLoss(regularization=0.3))
    ```

    Reference:
        Blondel, Teboul, Berthet and Djolonga, "Fast Differentiable Sorting and
        Ranking", ICML 2020.
    """

    KEY = "fast_soft_rank_loss"

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        metric: str = "ndcg",
        topn: int | None = None,
        regularization: float = 1.0,
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
            regularization: between 1e-30 and 1e30, in units of the scores. At lower
                values the ranks are closer to the exact ones, and fewer items have a
                gradient; at higher values all ranks are closer to their mean.
            beta: between 1e-30 and 1e30, slope of the truncation function, and of
                comparing two ranks in 'map'.
            relevance_threshold: lowest label of a relevant item, for 'precision',
                'recall' and 'map'.
            gain: the gain of a label in 'ndcg': 'exponential' (`2**label - 1`),
                'linear' (`label`) or 'power' (`2**label`).

        Raises:
            ValueError: If an argument is out of range, or differs from its default
                where it has no effect.
        """
        super().__init__(
            FastSoftRank(beta=beta, regularization=regularization),
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
