"""SoftSort losses (Prillo and Eisenschlos, ICML 2020)."""

from __future__ import annotations

from typing import Any

from tfr_ext.core import checks
from tfr_ext.core.annealed import Annealable
from tfr_ext.losses import base, metric_loss
from tfr_ext.objectives import registry
from tfr_ext.objectives.objective import SLOPE
from tfr_ext.relaxations.soft_sort import SoftSort, SoftSortPositions

_FORMS: dict[str, Any] = {
    "indicators": SoftSort,
    "position": SoftSortPositions,
}


@base.register
class SoftSortLoss(metric_loss.NamedMetricLoss):
    r"""One minus a ranking metric under SoftSort's relaxation of sorting.

    With `s_(r)` the score at rank `r` of the exact sort, the relaxed sort is

    $$
    P_{rj} = \operatorname{softmax}_j \Big({-\frac{|s_{(r)} - s_j|}{\tau}}\Big)
    $$

    With `form='indicators'`, a metric sees the expected value at each rank. For
    `metric='ndcg'`, labels `y` and a cut-off `k`,

    $$
    \mathcal{L} = 1 - \frac{1}{\mathrm{IDCG}@k} \sum_{r=1}^{k}
    \frac{\sum_j P_{rj} (2^{y_j} - 1)}{\log_2(r + 1)}
    $$

    With `form='position'`, it sees the expected position of each item,

    $$
    \hat\pi_j = \sum_r r P_{rj}
    $$

    in place of the approximated positions of `ApproxMetricLoss`. `metric='arp'` is a
    cost and is minimised directly. A list without a relevant item contributes 0 and no
    gradient.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = SoftSortLoss(temperature=0.1)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.3251

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = SoftSortLoss(ragged=True, form='position', temperature=0.1)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.1884

    Usage with the `compile()` API:

    ```python
    model.compile(optimizer='adam', loss=tfr_ext.losses.SoftSortLoss(topn=10))
    ```

    Reference:
        Prillo and Eisenschlos, "SoftSort: A Continuous Relaxation for the argsort
        Operator", ICML 2020: Eq. 5. Thonet, Cinar, Gaussier, Li and Renders, "Listwise
        Learning to Rank Based on Approximate Rank Indicators", AAAI 2022, for
        `form='position'`.
    """

    KEY = "soft_sort_loss"

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        metric: str = "ndcg",
        topn: int | None = None,
        temperature: Annealable = 1.0,
        form: str = "indicators",
        beta: float = 10.0,
        relevance_threshold: float = 1.0,
        max_label: float | None = None,
        gain: str = "exponential",
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            metric: 'ndcg', 'precision', 'recall' or 'map'; with `form='indicators'`
                also 'hits', 'arp', 'mrr', 'err' and 'nerr'.
            topn: cut-off of the metric, the whole list by default; 'precision' needs
                it with `form='position'`.
            temperature: a number between 1e-30 and 1e30, or a schedule. Lower values
                are closer to the exact sort, but flatter almost everywhere.
            form: 'indicators' or 'position', what the metric is computed from.
            beta: between 1e-30 and 1e30, slope of the truncation at `topn` and, in
                'map', of the comparison of two positions; used with `form='position'`.
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
        relaxation = _FORMS[checks.choice("form", form, list(_FORMS))]
        given: dict[str, Any] = {"temperature": temperature, "beta": beta}
        used = relaxation.takes("beta")
        checks.has_effect("beta", beta, SLOPE, used, "form 'position'")
        super().__init__(
            relaxation(**{k: v for k, v in given.items() if relaxation.takes(k)}),
            registry.of_loss(
                metric,
                relaxation.READING,
                topn=topn,
                expected="gain",
                relevance_threshold=relevance_threshold,
                max_label=max_label,
                gain=gain,
            ),
            reduction,
            name,
            ragged,
            form=form,
        )
