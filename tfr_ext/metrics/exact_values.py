"""Metrics of the exact ranking by name: the objectives, and pair accuracy."""

from __future__ import annotations

from typing import Any, Union

import tensorflow as tf

from tfr_ext import objectives, relaxations
from tfr_ext.core import checks, masked
from tfr_ext.metrics import pair_accuracy

# Gains of NDCG as a metric: 'power' is of losses alone.
_GAINS = ["exponential", "linear"]

Metric = Union[objectives.Objective, pair_accuracy.OPA]


def names() -> list[str]:
    """Returns the names that `get` knows: of all objectives, and of pair accuracy."""
    return [*objectives.names(), "opa"]


def get(name: str, **arguments: Any) -> Metric:
    """Builds what a metric computes from those of the arguments that it has.

    Args:
        name: one of `names()`.
        **arguments: values of attributes, of this metric or of others.

    Raises:
        ValueError: if the name is unknown or an argument is out of range.
    """
    checks.choice("metric", name, names())
    checks.choice("gain", arguments.get("gain", "exponential"), _GAINS)
    if name == "opa":
        return pair_accuracy.OPA(topn=arguments.get("topn"))
    return objectives.get(name, **arguments)


def is_cost(name: str) -> bool:
    """Tells whether the metric of that name is a cost, better when lower."""
    return name in objectives.names() and objectives.is_cost(name)


def metric_per_list(
    objective: Metric,
    labels: tf.Tensor,
    scores: tf.Tensor,
    mask: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes a metric of the exact ranking, ties by position.

    Args:
        objective: the metric.
        labels: labels, 0 at padding, `[batch, list]`.
        scores: scores, `[batch, list]`; minus infinity where an item is not retrieved.
        mask: True at real items, `[batch, list]`.

    Returns:
        The metric of each list, finite, `[batch]`, and which lists are empty,
        `[batch]` bool.
    """
    if isinstance(objective, pair_accuracy.OPA):
        return objective.per_list(labels, scores, mask)
    values = objective.real_values(labels, mask)
    if not objective.is_cost:
        # What is not retrieved is found at no rank; to a cost it stands last.
        values = tf.where(scores == -float("inf"), tf.zeros_like(values), values)
    ranked = relaxations.exact_expectation(
        scores,
        mask,
        values,
        masked.num_ranks(labels, objective.topn),
    )
    return objective.value(ranked, labels, mask), objective.is_empty(labels)
