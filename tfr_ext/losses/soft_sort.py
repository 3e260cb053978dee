"""SoftSort losses (Prillo and Eisenschlos, ICML 2020)."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfr_ext import objectives, positions, relaxations
from tfr_ext.core import checks, masked
from tfr_ext.losses import annealing, base, relaxed

_FORMS = ["indicators", "position"]


@base.register
class SoftSortLoss(base.MetricLoss):
    r"""One minus a ranking metric under SoftSort's relaxation of sorting.

    With `s_(r)` the score at rank `r` of the exact sort, the relaxed sort is

    $$
    P_{rj} = \operatorname{softmax}_j \Big({-\frac{|s_{(r)} - s_j|}{\tau}}\Big)
    $$

    With `form='indicators'` a metric sees what is expected at each rank: for
    `metric='ndcg'`, labels `y` and a cut-off `k`,

    $$
    \mathcal{L} = 1 - \frac{1}{\mathrm{IDCG}@k} \sum_{r=1}^{k}
    \frac{\sum_j P_{rj} (2^{y_j} - 1)}{\log_2(r + 1)}
    $$

    With `form='position'` it sees the expected position of each item,

    $$
    \hat\pi_j = \sum_r r P_{rj}
    $$

    in the place of the approximated ones of `ApproxMetricLoss`. `metric='arp'` is a
    cost and minimised as it stands. A list without anything relevant contributes 0 and
    no gradient.

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
    SHARPNESS = relaxed.Sharpness("temperature", "lower")

    def __init__(
        self,
        reduction: str = tf.keras.losses.Reduction.AUTO,
        name: str | None = None,
        ragged: bool = False,
        metric: str = "ndcg",
        topn: int | None = None,
        temperature: annealing.Annealable = 1.0,
        form: str = "indicators",
        beta: float = 10.0,
        relevance_threshold: float = 1.0,
        max_label: float | None = None,
        gain: str = "exponential",
    ):
        """Initialises the loss.

        Args:
            reduction: a `tf.keras.losses.Reduction`.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            metric: 'ndcg', 'precision' or 'map'; with `form='indicators'` also 'arp',
                'mrr', 'err' and 'nerr'.
            topn: cut-off of the metric, the whole list by default; 'precision' needs
                it with `form='position'`.
            temperature: between 1e-30 and 1e30, or a schedule of it. The lower, the
                nearer to the exact sort and the flatter almost everywhere.
            form: 'indicators' or 'position', what the metric is read off.
            beta: between 1e-30 and 1e30, slope of the truncation at `topn`, and of
                comparing two positions in 'map'; used with `form='position'`.
            relevance_threshold: least label that counts as relevant, positive; used by
                'precision', 'map' and 'mrr'.
            max_label: the highest grade of the collection; 'err' and 'nerr' need it. A
                label above it makes the loss of its list NaN.
            gain: of a label in 'ndcg': 'exponential' (`2**label - 1`), 'linear'
                (`label`) or 'power' (`2**label`).

        Raises:
            ValueError: if an argument is out of its range, or is not its default
                where it has no effect.
        """
        super().__init__(
            objectives.get(
                metric,
                topn=topn,
                expected="gain",
                relevance_threshold=relevance_threshold,
                max_label=max_label,
                gain=gain,
            ),
            reduction=reduction,
            name=name,
            ragged=ragged,
        )
        # Beyond, scores over it or slopes may be too large for a float32.
        self._temperature = self._anneal(
            "temperature",
            temperature,
            checks.temperature,
        )
        self._arguments: dict[str, Any] = {
            "metric": metric,
            "topn": checks.cut_off("topn", topn),
            "form": checks.choice("form", form, _FORMS),
            "beta": checks.between("beta", beta, 1e-30, 1e30),
            "relevance_threshold": checks.positive(
                "relevance_threshold", relevance_threshold
            ),
            "max_label": None
            if max_label is None
            else checks.positive("max_label", max_label),
            "gain": checks.choice("gain", gain, list(objectives.GAINS)),
        }
        objectives.check_effects(
            metric,
            relevance_threshold=relevance_threshold,
            max_label=max_label,
            gain=gain,
        )
        is_position = form == "position"
        checks.has_effect("beta", beta, 10.0, is_position, "form 'position'")
        self._of_positions: positions.PositionMetric | None = None
        if is_position:
            self._of_positions = positions.PositionMetric(
                metric, topn, beta, relevance_threshold, gain
            )

    def compute(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """See `RankingLoss`."""
        if self._of_positions is None:
            return super().compute(labels, scores, mask)
        labels, scores, mask = masked.at_least_one_item(labels, scores, mask)
        soft = relaxations.soft_sort_positions(scores, mask, self._temperature.value)
        return self._of_positions.loss(soft, labels, mask)[:, tf.newaxis]

    def _expected_at_ranks(
        self,
        scores: tf.Tensor,
        mask: tf.Tensor,
        values: tf.Tensor,
        num_ranks: masked.Size,
    ) -> tf.Tensor:
        # A number of ranks that the graph knows is faster, and may exceed the list.
        topn = self._objective.topn
        ranked = relaxations.soft_sort_expectation(
            scores,
            mask,
            tf.stop_gradient(values),
            num_ranks if topn is None else topn,
            self._temperature.value,
        )
        return masked.at_ranks(ranked, num_ranks)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that build this loss again."""
        return {**super().get_config(), **self._arguments}
