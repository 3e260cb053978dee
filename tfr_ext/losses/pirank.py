"""PiRank losses (Swezey et al., NeurIPS 2021)."""

from __future__ import annotations

from collections.abc import Sequence

from tfr_ext.core.annealed import Annealable
from tfr_ext.losses import base, metric_loss
from tfr_ext.objectives import arp, ndcg
from tfr_ext.relaxations.pirank import PiRank


@base.register
class PiRankNDCGLoss(metric_loss.NamedMetricLoss):
    r"""One minus NDCG under NeuralSort's relaxation of sorting.

    For scores `s` of the `n` items of a list, the relaxed sort is

    $$
    P_{rj} = \operatorname{softmax}_j
    \Big(\frac{(n + 1 - 2 r) s_j - \sum_i |s_j - s_i|}{\tau}\Big)
    $$

    and the loss, for labels `y`, a cut-off `k` and gains `2^y - 1`,

    $$
    \mathcal{L} = 1 - \frac{1}{\mathrm{IDCG}@k} \sum_{r=1}^{k}
    \frac{\sum_j P_{rj} (2^{y_j} - 1)}{\log_2(r + 1)}
    $$

    With `straight_through`, the value is that of the exact sort (ties by position) and
    the gradient is that of the relaxation. With a `depth` above 1, the sort is a
    relaxed merge sort, see `tfr_ext.relaxations.merge_sort_expectation`. A list without
    a relevant item contributes 0 and no gradient.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = PiRankNDCGLoss(straight_through=False, temperature=0.1)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.3251

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = PiRankNDCGLoss(ragged=True)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.1845

    Usage with the `compile()` API:

    ```python
    model.compile(optimizer='adam', loss=tfr_ext.losses.PiRankNDCGLoss(topn=10))
    ```

    Reference:
        Swezey, Grover, Charron and Ermon, "PiRank: Scalable Learning to Rank via
        Differentiable Sorting", NeurIPS 2021: Eqs. 8 to 10 and 12; Eqs. 13 to 17 for
        `depth`; Appendix C for `straight_through`.
    """

    KEY = "pirank_ndcg_loss"

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        topn: int | None = 10,
        temperature: Annealable = 5.0,
        straight_through: bool = True,
        depth: int = 1,
        branching: Sequence[int] | None = None,
        merge_topn: Sequence[int] | None = None,
        merge_temperatures: Sequence[float] | None = None,
        gain: str = "exponential",
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            topn: cut-off of the metric; None for the whole list.
            temperature: a number between 1e-30 and 1e30, or a schedule. Lower values
                are closer to the exact sort, but flatter almost everywhere.
            straight_through: whether the loss takes the value of the exact sort.
            depth: number of levels of the merge tree, at least 1; 1 is NeuralSort
                itself.
            branching: `depth` numbers, how many children a node has at each height from
                the leaves to the root. By default each is close to the `depth`-th root
                of the list size.
            merge_topn: `depth` numbers, how many items a node at each height passes up;
                the last is `topn`. By default each is the lowest possible,
                `min(topn, all it gets)`.
            merge_temperatures: `depth` temperatures that do not fall and end in
                `temperature`. If that is a schedule, they end in its first value and
                all follow the schedule. By default all are `temperature`.
            gain: the gain of a label: 'exponential' (`2**label - 1`), 'linear'
                (`label`) or 'power' (`2**label`).

        Raises:
            ValueError: If an argument is out of range, or differs from its default
                where it has no effect.
        """
        super().__init__(
            PiRank(
                temperature,
                straight_through,
                depth,
                branching,
                merge_topn,
                merge_temperatures,
            ),
            ndcg.NDCG(topn, gain, expected="gain"),
            reduction,
            name,
            ragged,
        )


@base.register
class PiRankARPLoss(metric_loss.NamedMetricLoss):
    r"""The average relevance position under NeuralSort's relaxation of sorting.

    With `P` as in `PiRankNDCGLoss`, the loss is the mean rank, weighted by the labels:

    $$
    \mathcal{L} = \frac{\sum_r r \sum_j P_{rj} y_j}{\sum_j y_j}
    $$

    It is at least 1 and grows with the length of the list. With a cut-off, relevance
    beyond it counts at the next rank. A list without a relevant item contributes 0.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = PiRankARPLoss(straight_through=False, temperature=0.1)
    >>> round(float(loss(y_true, y_pred)), 4)
    1.8808

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = PiRankARPLoss(ragged=True)
    >>> round(float(loss(y_true, y_pred)), 4)
    1.5

    Usage with the `compile()` API:

    ```python
    model.compile(optimizer='adam', loss=tfr_ext.losses.PiRankARPLoss())
    ```

    Reference:
        Swezey, Grover, Charron and Ermon, "PiRank: Scalable Learning to Rank via
        Differentiable Sorting", NeurIPS 2021: Eq. 11, divided by the labels of the
        whole list.
    """

    KEY = "pirank_arp_loss"

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        topn: int | None = None,
        temperature: Annealable = 5.0,
        straight_through: bool = True,
        depth: int = 1,
        branching: Sequence[int] | None = None,
        merge_topn: Sequence[int] | None = None,
        merge_temperatures: Sequence[float] | None = None,
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            topn: cut-off of the metric, the whole list by default.
            temperature: see `PiRankNDCGLoss`, also for the arguments that follow.
            straight_through: whether the loss takes the value of the exact sort.
            depth: number of levels of the merge tree.
            branching: how many children a node has at each height.
            merge_topn: how many items a node passes up at each height.
            merge_temperatures: the temperature of each height.

        Raises:
            ValueError: If an argument is out of range, or differs from its default
                where it has no effect.
        """
        super().__init__(
            PiRank(
                temperature,
                straight_through,
                depth,
                branching,
                merge_topn,
                merge_temperatures,
            ),
            arp.ARP(topn),
            reduction,
            name,
            ragged,
        )
