"""SmoothI losses (Thonet et al., AAAI 2022)."""

from __future__ import annotations

from tfr_ext.core.annealed import Annealable
from tfr_ext.losses import base, metric_loss
from tfr_ext.objectives import registry
from tfr_ext.relaxations.smoothi import SmoothI


@base.register
class SmoothILoss(metric_loss.NamedMetricLoss):
    r"""One minus a ranking metric under SmoothI's smooth rank indicators.

    For scores `s` of a list, shifted so that the lowest is 0, the indicators are

    $$
    I_j^r = \operatorname{softmax}_j
    \Big(\alpha \, s_j \prod_{l < r} (1 - I_j^l - \delta)\Big)
    $$

    and a metric sees $\sum_j \mathrm{label}_j I_j^r$ at rank `r`. For `metric='ndcg'`:

    $$
    \mathcal{L} = 1 - \frac{1}{\mathrm{IDCG}} \sum_{r}
    \frac{2^{\sum_j y_j I_j^r} - 1}{\log_2(r + 1)}
    $$

    The authors' released code uses `2**...` without the `- 1`, which is `gain='power'`.
    `metric='arp'` is a cost and is minimised directly. A list without a relevant item
    contributes 0 and no gradient. `tfr_ext.objectives` defines each metric.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = SmoothILoss()
    >>> round(float(loss(y_true, y_pred)), 4)
    0.3832

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = SmoothILoss(ragged=True, metric='precision', topn=1)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.5675

    Usage with the `compile()` API:

    ```python
    model.compile(optimizer='adam', loss=tfr_ext.losses.SmoothILoss(alpha=1.0))
    ```

    Reference:
        Thonet, Cinar, Gaussier, Li and Renders, "Listwise Learning to Rank Based on
        Approximate Rank Indicators", AAAI 2022: Eq. 4, the equations of "Application
        to IR Metrics", and "Gradient Stabilization in Neural Architectures".
    """

    KEY = "smoothi_loss"

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        metric: str = "ndcg",
        topn: int | None = None,
        alpha: Annealable = 1.0,
        delta: float = 0.1,
        stop_gradient: bool = True,
        relevance_threshold: float = 1.0,
        max_label: float | None = None,
        gain: str = "exponential",
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            metric: 'ndcg', 'precision', 'recall', 'hits', 'map', 'arp', 'mrr', 'err' or
                'nerr'.
            topn: cut-off of the metric, the whole list by default.
            alpha: inverse temperature, positive and less than 1e30, or a schedule, see
                `LossAnnealing`. Larger values are closer to the exact metric, but
                flatter almost everywhere.
            delta: mass taken from items already ranked, in (0, 0.5).
            stop_gradient: whether the product over earlier ranks is held constant in
                the backward pass, as the paper recommends.
            relevance_threshold: lowest label that counts as relevant, positive; used by
                'precision', 'recall', 'hits', 'map' and 'mrr'.
            max_label: the highest grade of the collection; 'err' and 'nerr' need it. A
                label above it makes the loss of its list NaN.
            gain: the gain of a label in 'ndcg': 'exponential' (`2**label - 1`),
                'linear' (`label`) or 'power' (`2**label`).

        Raises:
            ValueError: If an argument is out of range, or differs from its default
                where it has no effect.
        """
        super().__init__(
            SmoothI(alpha, delta, stop_gradient),
            registry.of_loss(
                metric,
                "ranks",
                topn=topn,
                relevance_threshold=relevance_threshold,
                max_label=max_label,
                gain=gain,
            ),
            reduction,
            name,
            ragged,
        )
