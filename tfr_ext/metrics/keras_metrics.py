"""Keras metrics: deterministic, and with a stated rule for empty lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfr_ext import objectives
from tfr_ext.core import checks, grades, inputs, which_keras

EMPTY_LIST_RULES = ("zero", "skip", "one")
"""How a list without a relevant item may enter a mean."""


@which_keras.register
class RankingMetric(which_keras.CheckedCalls, tf.keras.metrics.Metric):
    """The mean over lists of a ranking metric of the exact ranking.

    Unlike the metrics of `tfr.keras.metrics`, it is deterministic: if two scores are
    equal, the item that comes first in the list ranks first. All lists have the same
    weight, whatever their labels; a `sample_weight` counts as it does in a listwise
    loss.

    On Keras 3, callbacks such as `EarlyStopping` know whether the metric is better when
    higher. On Keras 2 they need `mode='max'`, or `mode='min'` for 'arp': there, 'auto'
    takes the lowest value of a ranking metric for the best.

    Standalone usage:

    >>> metric = RankingMetric('ndcg', topn=2, gain='linear')
    >>> round(float(metric([[0., 1., 2.]], [[3., 2., 1.]])), 4)
    0.2398
    >>> skip = RankingMetric('precision', topn=1, empty_list='skip')
    >>> float(skip([[1., 0.], [0., 0.]], [[2., 1.], [2., 1.]]))
    1.0
    """

    def __init__(
        self,
        metric: str = "ndcg",
        topn: int | None = None,
        gain: str = "exponential",
        empty_list: str = "zero",
        relevance_threshold: float = 1.0,
        max_label: float | None = None,
        name: str | None = None,
        dtype: Any = None,
        ragged: bool = False,
    ):
        """Initialises the metric.

        Args:
            metric: one of `tfr_ext.objectives.names()`, such as 'ndcg' or 'recall'.
            topn: cut-off, the whole list by default; 'opa' has none.
            gain: 'exponential' (`2**label - 1`) or 'linear' (`label`), for 'ndcg' and
                'dcg'.
            empty_list: what a list without a relevant item counts as: 'zero', 'one', or
                'skip' to leave it out.
            relevance_threshold: lowest label that is relevant, for the metrics that
                only distinguish relevant and irrelevant items, such as 'precision' and
                'map'.
            max_label: the highest grade of the collection; 'err' and 'nerr' need it.
            name: name of the metric, such as 'ndcg_10' by default.
            dtype: type of the result.
            ragged: whether labels and scores may be ragged tensors.

        Raises:
            ValueError: If an argument is out of range, or differs from its default
                where it has no effect.
        """
        objectives.of_name(metric)  # Before Keras takes it for a name.
        if name is None:
            name = metric if topn is None else f"{metric}_{topn}"
        super().__init__(name=name, dtype=dtype)
        checks.choice("empty_list", empty_list, list(EMPTY_LIST_RULES))
        self._arguments: dict[str, Any] = {
            "metric": metric,
            "topn": topn,
            "gain": gain,
            "empty_list": empty_list,
            "relevance_threshold": relevance_threshold,
            "max_label": max_label,
            "ragged": ragged,
        }
        of_some = {
            "gain": gain,
            "relevance_threshold": relevance_threshold,
            "max_label": max_label,
        }
        self._objective = objectives.of_metric(metric, topn=topn, **of_some)
        objectives.check_effects(metric, objectives.names(), **of_some)
        # `mode="auto"` of Keras 3's callbacks depends on it.
        self._direction = "down" if self._objective.is_cost else "up"
        self._total = self.add_weight(name="total", initializer="zeros")
        self._count = self.add_weight(name="count", initializer="zeros")

    @which_keras.not_converted
    def update_state(
        self,
        y_true: inputs.TensorLike,
        y_pred: inputs.TensorLike,
        sample_weight: inputs.TensorLike | None = None,
    ) -> None:
        """Adds a batch of lists.

        Args:
            y_true: labels `[batch, list]`, negative at padding.
            y_pred: scores `[batch, list]`.
            sample_weight: weights, as for a loss.
        """
        labels, scores, mask, weights = inputs.lists(
            y_true, y_pred, sample_weight, self._arguments["ragged"]
        )
        values, empty = self._objective.per_list(labels, scores, mask)
        rule = self._arguments["empty_list"]
        values = tf.where(empty, tf.cast(rule == "one", values.dtype), values)
        # A row of nothing but padding does not count as a list.
        counted = tf.reduce_any(mask, axis=1)
        if rule == "skip":
            counted &= ~empty
        weights = tf.where(counted, weights, 0)
        self._total.assign_add(
            tf.cast(tf.reduce_sum(values * weights), self._total.dtype)
        )
        self._count.assign_add(tf.cast(tf.reduce_sum(weights), self._count.dtype))

    @which_keras.not_converted
    def result(self) -> tf.Tensor:
        """Returns the mean over the lists so far, 0 if there were none."""
        return tf.math.divide_no_nan(self._total, self._count)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this metric."""
        return {**super().get_config(), **self._arguments}


@which_keras.register
class ERRMetric(RankingMetric):
    """Expected reciprocal rank, which `tfr.keras.metrics` lacks.

    A user who reads down the ranking stops at rank `r` with probability
    `(2**label - 1) / 2**max_label`; the metric is the expectation of `1 / r` at the
    stop (Chapelle, Metzler, Zhang and Grinspan, CIKM 2009, Algorithm 2).

    Standalone usage:

    >>> metric = ERRMetric(topn=10, max_label=2)
    >>> round(float(metric([[0., 1., 2.]], [[3., 2., 1.]])), 4)
    0.3125
    """

    def __init__(
        self,
        name: str | None = None,
        topn: int | None = None,
        max_label: float | None = None,
        empty_list: str = "zero",
        dtype: Any = None,
        ragged: bool = False,
    ):
        """Initialises the metric.

        Args:
            name: name of the metric, such as 'err_10' by default.
            topn: cut-off, the whole list by default.
            max_label: the highest grade of the collection; required.
            empty_list: see `RankingMetric`.
            dtype: type of the result.
            ragged: whether labels and scores may be ragged tensors.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(
            metric="err",
            topn=topn,
            max_label=max_label,
            empty_list=empty_list,
            name=name,
            dtype=dtype,
            ragged=ragged,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this metric."""
        config = super().get_config()
        for argument in ("metric", "gain", "relevance_threshold"):
            del config[argument]
        return config


@which_keras.register
class ExpectedGradeMetric(RankingMetric):
    """A ranking metric of distributions over grades, computed from expected grades.

    Labels are distributions `[batch, list, grades]`, negative at padding. The label of
    an item is its expected grade on the scale 0, 1, ..., so that all mass on one grade
    gives that grade (or, with `label_values`, its label). Outputs are logits of the
    same shape, ranked by their expected grade.

    Standalone usage:

    >>> metric = ExpectedGradeMetric([0., 1.], metric='mrr')
    >>> float(metric([[[1., 0.], [0., 1.]]], [[[1., 0.], [2., 0.]]]))
    0.5
    """

    def __init__(
        self,
        grade_values: Sequence[float],
        label_values: Sequence[float] | None = None,
        **kwargs: Any,
    ):
        """Initialises the metric.

        Args:
            grade_values: the value of each grade, in rising order.
            label_values: the label that each grade stands for, in rising order; 0, 1,
                ... by default.
            **kwargs: arguments of `RankingMetric`.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(**kwargs)
        self._grade_values = grades.check_values("grade_values", grade_values)
        self._label_values = (
            None
            if label_values is None
            else grades.check_values("label_values", label_values)
        )

    @which_keras.not_converted
    def update_state(
        self,
        y_true: inputs.TensorLike,
        y_pred: inputs.TensorLike,
        sample_weight: inputs.TensorLike | None = None,
    ) -> None:
        """Adds a batch of lists.

        Args:
            y_true: label distributions `[batch, list, grades]`, negative at padding.
            y_pred: logits `[batch, list, grades]`.
            sample_weight: weights, as for a loss.
        """
        logits = tf.convert_to_tensor(y_pred)
        distributions = tf.cast(y_true, tf.float32)
        if distributions.shape.rank != 3 or logits.shape.rank != 3:
            raise ValueError(
                "`y_true` and `y_pred` must have shape [batch, list, grades]. "
                f"Received: y_true {distributions.shape}, y_pred {logits.shape}."
            )
        super().update_state(
            grades.expected_label(
                distributions, inputs.PADDING_LABEL, self._label_values
            ),
            grades.expected_value(logits, self._grade_values),
            sample_weight,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this metric."""
        return {
            **super().get_config(),
            "grade_values": self._grade_values,
            "label_values": self._label_values,
        }
