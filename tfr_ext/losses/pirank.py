"""PiRank losses (Swezey et al., NeurIPS 2021)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfr_ext import objectives, relaxations
from tfr_ext.core import checks, masked
from tfr_ext.losses import annealing, base, relaxed


class _PiRankLoss(base.MetricLoss):
    """A linear objective read off NeuralSort, or off its merge tree."""

    SHARPNESS = relaxed.Sharpness("temperature", "lower")

    def __init__(
        self,
        objective: objectives.Objective,
        temperature: annealing.Annealable,
        straight_through: bool,
        depth: int,
        branching: Sequence[int] | None,
        merge_topn: Sequence[int] | None,
        merge_temperatures: Sequence[float] | None,
        **kwargs: Any,
    ):
        super().__init__(objective, **kwargs)
        self._temperature = self._anneal("temperature", temperature, checks.temperature)
        self._first_temperature = float(self._temperature.value)
        self._straight_through = checks.boolean("straight_through", straight_through)
        self._depth = checks.at_least("depth", depth, 1)
        self._branching = self._per_height("branching", branching)
        self._merge_topn = self._checked_merge_topn(merge_topn)
        self._merge_temperatures = self._checked_temperatures(merge_temperatures)
        of_trees: list[tuple[str, Any]] = [
            ("branching", self._branching),
            ("merge_topn", self._merge_topn),
            ("merge_temperatures", self._merge_temperatures),
        ]
        for argument, value in of_trees:
            checks.has_effect(
                argument, value, None, self._depth > 1, "a `depth` above 1"
            )

    def _per_height(
        self, argument: str, values: Sequence[int] | None
    ) -> list[int] | None:
        if values is None:
            return None
        numbers = checks.sequence(argument, values, self._depth, self._per_depth())
        return [checks.at_least(argument, n, 1) for n in numbers]

    def _per_depth(self) -> str:
        return f"`depth` = {self._depth} numbers"

    def _checked_merge_topn(self, values: Sequence[int] | None) -> list[int] | None:
        sizes = self._per_height("merge_topn", values)
        topn = self._objective.topn
        if sizes is None:
            return None
        if topn is None or sizes[-1] != topn:
            raise ValueError(
                f"`merge_topn` must end in `topn`. Received: {sizes}, and topn {topn}."
            )
        if self._branching is None and min(sizes) < topn:
            raise ValueError(
                "`merge_topn` must be at least `topn` at each height where `branching` "
                f"is left out. Received: {sizes}, and topn {topn}."
            )
        held = 1
        # The root has as many children as the list needs.
        for size, branch in zip(sizes[:-1], self._branching or []):
            block = held * branch
            if not min(topn, block) <= size <= block:
                raise ValueError(
                    f"`merge_topn` must be from {min(topn, block)} to {block} where "
                    f"{branch} lists of {held} are merged. Received: {sizes}."
                )
            held = size
        return sizes

    def _checked_temperatures(
        self, values: Sequence[float] | None
    ) -> list[float] | None:
        if values is None:
            return None
        numbers = checks.sequence(
            "merge_temperatures", values, self._depth, self._per_depth()
        )
        numbers = [checks.positive("merge_temperatures", n) for n in numbers]
        if sorted(numbers) != numbers or numbers[-1] != self._first_temperature:
            raise ValueError(
                "`merge_temperatures` must not fall from one height to the next, and "
                f"end in `temperature`, {self._first_temperature}. "
                f"Received: {numbers}."
            )
        return numbers

    def relaxed_metric(self) -> relaxed.RelaxedMetric:
        """See `RankingLoss`: what is relaxed has its own value, not the exact one."""
        smooth = copy.copy(self)  # It follows the same schedule.
        smooth._straight_through = False
        return relaxed.RelaxedMetric(self._objective, smooth, self.SHARPNESS)

    def _expected_at_ranks(
        self,
        scores: tf.Tensor,
        mask: tf.Tensor,
        values: tf.Tensor,
        num_ranks: masked.Size,
    ) -> tf.Tensor:
        # A number of ranks that the graph knows is faster, and may exceed the list.
        topn = self._objective.topn
        ranks = num_ranks if topn is None else topn
        values = tf.stop_gradient(values)
        temperature = self._temperature.value
        if self._depth == 1:
            ranked = relaxations.neural_sort_expectation(
                scores, mask, values, ranks, temperature, self._straight_through
            )
            return masked.at_ranks(ranked, num_ranks)
        ranked = relaxations.merge_sort_expectation(
            scores,
            mask,
            values,
            ranks,
            self._temperatures(temperature),
            self._branching,
            self._merge_topn,
        )
        ranked = masked.at_ranks(ranked, num_ranks)
        if not self._straight_through:
            return ranked
        # The objectives are linear: what is exact here makes the value exact, and
        # leaves the gradient as it is. The difference is 0, unless it is NaN.
        exact = relaxations.exact_expectation(scores, mask, values, num_ranks)
        return exact + (ranked - tf.stop_gradient(ranked))

    def _temperatures(self, root: float | tf.Tensor) -> list[float | tf.Tensor]:
        """Returns the temperature of each height; all follow a schedule of the root."""
        if self._merge_temperatures is None:
            return [root] * self._depth
        return [t / self._first_temperature * root for t in self._merge_temperatures]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that build this loss again."""
        return {
            **super().get_config(),
            "topn": self._objective.topn,
            "straight_through": self._straight_through,
            "depth": self._depth,
            "branching": self._branching,
            "merge_topn": self._merge_topn,
            "merge_temperatures": self._merge_temperatures,
        }


@base.register
class PiRankNDCGLoss(_PiRankLoss):
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

    With `straight_through` the value is that of the exact sort (ties by position) and
    the gradient that of the relaxation. With a `depth` above 1 the sort is a relaxed
    merge sort: see `tfr_ext.relaxations.merge_sort_expectation`. A list without
    anything relevant contributes 0 and no gradient.

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
        reduction: str = tf.keras.losses.Reduction.AUTO,
        name: str | None = None,
        ragged: bool = False,
        topn: int | None = 10,
        temperature: annealing.Annealable = 5.0,
        straight_through: bool = True,
        depth: int = 1,
        branching: Sequence[int] | None = None,
        merge_topn: Sequence[int] | None = None,
        merge_temperatures: Sequence[float] | None = None,
        gain: str = "exponential",
    ):
        """Initialises the loss.

        Args:
            reduction: a `tf.keras.losses.Reduction`.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            topn: cut-off of the metric; None for the whole list.
            temperature: between 1e-30 and 1e30, or a schedule of it. The lower, the
                nearer to the exact sort and the flatter almost everywhere.
            straight_through: whether the value is that of the exact sort.
            depth: heights of the merge tree, at least 1; 1 is NeuralSort itself.
            branching: `depth` numbers, the children of a node at each height from the
                leaves to the root. By default each is near the root of the list size.
            merge_topn: `depth` numbers, how many items a node hands up; the last is
                `topn`. By default the fewest, `min(topn, all it gets)`.
            merge_temperatures: `depth` temperatures that do not fall and end in
                `temperature` (the first, of a schedule, which all follow). By default
                all are `temperature`.
            gain: of a label: 'exponential' (`2**label - 1`), 'linear' (`label`) or
                'power' (`2**label`).

        Raises:
            ValueError: if an argument is out of its range, or is not its default
                where it has no effect.
        """
        super().__init__(
            objectives.NDCG(topn=topn, gain=gain, expected="gain"),
            temperature=temperature,
            straight_through=straight_through,
            depth=depth,
            branching=branching,
            merge_topn=merge_topn,
            merge_temperatures=merge_temperatures,
            reduction=reduction,
            name=name,
            ragged=ragged,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that build this loss again."""
        assert isinstance(self._objective, objectives.NDCG)
        return {**super().get_config(), "gain": self._objective.gain}


@base.register
class PiRankARPLoss(_PiRankLoss):
    r"""The average relevance position under NeuralSort's relaxation of sorting.

    With `P` as in `PiRankNDCGLoss`, the loss is the mean rank, weighted by the labels:

    $$
    \mathcal{L} = \frac{\sum_r r \sum_j P_{rj} y_j}{\sum_j y_j}
    $$

    It is 1 at best and grows with the list. With a cut-off, relevance beyond it counts
    at the next rank. A list without anything relevant contributes 0.

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
        reduction: str = tf.keras.losses.Reduction.AUTO,
        name: str | None = None,
        ragged: bool = False,
        topn: int | None = None,
        temperature: annealing.Annealable = 5.0,
        straight_through: bool = True,
        depth: int = 1,
        branching: Sequence[int] | None = None,
        merge_topn: Sequence[int] | None = None,
        merge_temperatures: Sequence[float] | None = None,
    ):
        """Initialises the loss.

        Args:
            reduction: a `tf.keras.losses.Reduction`.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            topn: cut-off of the metric, the whole list by default.
            temperature: see `PiRankNDCGLoss`, as for the arguments that follow.
            straight_through: whether the value is that of the exact sort.
            depth: heights of the merge tree.
            branching: children of a node at each height.
            merge_topn: how many items a node hands up at each height.
            merge_temperatures: the temperature of each height.

        Raises:
            ValueError: if an argument is out of its range, or is not its default
                where it has no effect.
        """
        super().__init__(
            objectives.ARP(topn=topn),
            temperature=temperature,
            straight_through=straight_through,
            depth=depth,
            branching=branching,
            merge_topn=merge_topn,
            merge_temperatures=merge_temperatures,
            reduction=reduction,
            name=name,
            ragged=ragged,
        )
