r"""Soft positions of items, and ranking metrics as functions of them.

Where a relaxation says which item stands at each rank (`tfr_ext.relaxations`), a
position function says at which rank each item stands: 1 for the best. With `pi` in
place of the true positions, and `T(pi) = sigmoid(beta (K + 1/2 - pi))` in place of
`pi <= K`,

    DCG@K = sum_j gain_j T(pi_j) / log2(1 + pi_j)
    P@K   = sum_j rel_j T(pi_j) / K
    AP@K  = sum_j rel_j T(pi_j) (1 + sum_{i != j} rel_i sigmoid(beta (pi_j - pi_i)))
            / pi_j / (number of relevant items)

(Qin, Liu and Li, "A general approximation framework for direct optimization of
information retrieval measures", Information Retrieval 13, 2010). The threshold is the
middle between the ranks K and K + 1: so the limit is the exact metric.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import tensorflow as tf

from tfr_ext import objectives
from tfr_ext.core import blocks, checks, masked

METRICS = ["ndcg", "precision", "map"]

# So many pairs or fewer are kept for the backward pass; more are computed once more.
_KEPT_PAIRS = 2**24
# Scores times the slope beyond are alike: differences of two are finite.
_MOST = 1e37


@dataclasses.dataclass(frozen=True)
class PositionMetric:
    """A ranking metric as a function of soft positions.

    Attributes:
        metric: 'ndcg', 'precision' or 'map'.
        topn: cut-off rank, None for the whole list; precision needs it.
        beta: slope of the truncation function, and of comparing positions in 'map'.
        relevance_threshold: least label of a relevant item, for 'precision', 'map'.
        gain: gain of a label in 'ndcg', see `tfr_ext.objectives.NDCG`.
    """

    metric: str = "ndcg"
    topn: int | None = None
    beta: float = 10.0
    relevance_threshold: float = 1.0
    gain: str = "exponential"

    def __post_init__(self) -> None:
        """Checks the arguments."""
        checks.choice("metric", self.metric, METRICS)
        object.__setattr__(self, "topn", checks.cut_off("topn", self.topn))
        checks.between("beta", self.beta, 1e-30, 1e30)
        checks.positive("relevance_threshold", self.relevance_threshold)
        checks.choice("gain", self.gain, list(objectives.GAINS))
        if self.metric == "precision" and self.topn is None:
            raise ValueError("Metric 'precision' needs `topn`, the cut-off rank.")
        objectives.check_effects(
            self.metric, relevance_threshold=self.relevance_threshold, gain=self.gain
        )
        truncated = self.topn is not None
        checks.has_effect(
            "beta",
            self.beta,
            10.0,
            truncated or self.metric == "map",
            "`topn` or metric 'map'",
        )

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that build this metric again."""
        return dataclasses.asdict(self)

    def loss(
        self, positions: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Returns one minus the metric; 0, without gradient, on empty lists.

        Args:
            positions: positive soft positions, anything finite at padding,
                `[batch, list]`.
            labels: non-negative labels, 0 at padding, `[batch, list]`.
            mask: True at real items, `[batch, list]`.

        Returns:
            A tensor of shape `[batch]`.
        """
        objective = self.objective
        # Nothing at padding has a gain; its position must be one all the same.
        positions = tf.where(mask, positions, 1)
        values = objective.real_values(labels, mask)
        if isinstance(objective, objectives.NDCG):
            ideal = objective.ideal(labels, mask, masked.num_ranks(labels, self.topn))
            value = self._ndcg(positions, values, ideal)
        elif self.metric == "precision":
            value = self._precision(positions, values)
        else:
            value = self._average_precision(positions, values)
        is_empty = objective.is_empty(labels)
        return tf.where(is_empty, tf.zeros_like(value), 1 - value)

    @property
    def objective(self) -> objectives.Objective:
        """The same metric as a function of ranks."""
        return objectives.get(
            self.metric,
            topn=self.topn,
            expected="gain",
            relevance_threshold=self.relevance_threshold,
            gain=self.gain,
        )

    def _truncation(self, positions: tf.Tensor, topn: int) -> tf.Tensor:
        return tf.sigmoid(_bounded(self.beta * (topn + 0.5 - positions)))

    def _precision(self, positions: tf.Tensor, relevant: tf.Tensor) -> tf.Tensor:
        assert self.topn is not None  # as checked
        found = relevant * self._truncation(positions, self.topn)
        return tf.reduce_sum(found, axis=1) / self.topn

    def _ndcg(
        self, positions: tf.Tensor, gains: tf.Tensor, ideal: tf.Tensor
    ) -> tf.Tensor:
        if self.topn is not None:
            gains *= self._truncation(positions, self.topn)
        found = tf.reduce_sum(gains / tf.math.log1p(positions), axis=1)
        return tf.math.divide_no_nan(found, ideal)

    def _average_precision(
        self, positions: tf.Tensor, relevant: tf.Tensor
    ) -> tf.Tensor:
        # An item counts half in its own sum.
        better = soft_counts(-positions, relevant, self.beta) + relevant / 2
        found = relevant * better / positions
        if self.topn is not None:
            found *= self._truncation(positions, self.topn)
        return tf.math.divide_no_nan(
            tf.reduce_sum(found, axis=1), tf.reduce_sum(relevant, axis=1)
        )


def approx_positions(scores: tf.Tensor, mask: tf.Tensor, alpha: float) -> tf.Tensor:
    """Returns `1 + sum_{i != j} sigmoid(alpha (s_i - s_j))` (Qin et al., 2010).

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        alpha: positive; the positions become exact as it rises.

    Returns:
        A tensor like `scores`.

    Examples:
        >>> scores = tf.constant([[1., 3., 2.]])
        >>> approx_positions(scores, scores > 0, alpha=10.).numpy().round(3)
        array([[3., 1., 2.]], dtype=float32)
    """
    # An item counts half in its own sum.
    return 0.5 + soft_counts(scores, tf.cast(mask, scores.dtype), alpha)


def soft_counts(x: tf.Tensor, weights: tf.Tensor, slope: float) -> tf.Tensor:
    """Returns `sum_i w_i sigmoid(slope (x_i - x_j))` for each `j`, `i = j` included.

    Args:
        x: float tensor of shape `[batch, list]`.
        weights: tensor of the same shape, not differentiated.
        slope: positive.
    """
    weights = tf.stop_gradient(weights)
    scaled = _bounded(slope * tf.stop_gradient(x))

    def sigmoids(rows: tf.Tensor) -> tf.Tensor:
        return tf.sigmoid(scaled[:, tf.newaxis, :] - rows)

    def count(sigmoids: tf.Tensor) -> tf.Tensor:
        return tf.matmul(sigmoids, weights[:, :, tf.newaxis])

    @tf.custom_gradient
    def counts(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        rows = scaled[:, :, tf.newaxis]
        kept = sigmoids(rows) if blocks.are_one(rows, _KEPT_PAIRS) else None

        def sums(of: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
            if kept is not None:
                return of(kept)
            zero = tf.zeros([], x.dtype)
            by_row, _ = blocks.by_rows(lambda r: (of(sigmoids(r)), zero), rows, zero)
            return by_row

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            both = tf.stack([upstream, weights], axis=2)
            of_both = sums(lambda s: tf.matmul(s - tf.square(s), both))
            return slope * (weights * of_both[:, :, 0] - upstream * of_both[:, :, 1])

        return sums(count)[:, :, 0], gradient

    return counts(x)


def _bounded(x: tf.Tensor) -> tf.Tensor:
    """Returns `x` without infinities; a NaN stays."""
    x = tf.where(x > _MOST, tf.constant(_MOST, x.dtype), x)
    return tf.where(x < -_MOST, tf.constant(-_MOST, x.dtype), x)
