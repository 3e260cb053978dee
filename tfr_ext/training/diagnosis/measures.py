"""Measures training on a batch: gradients, idle lists, relaxed and exact metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import grades, inputs, which_keras
from tfr_ext.losses import base, relaxed

# Why a list contributes nothing.
CAUSES = ("empty", "equal", "saturated")
# Share of the largest gradient in a batch below which a gradient is rounding, as for
# lists of equal labels.
_NOTHING = 1e-6


def of_batch(
    model: tf.keras.Model,
    loss: tf.keras.losses.Loss,
    features: Any,
    y_true: inputs.TensorLike,
    sample_weight: inputs.TensorLike | None = None,
) -> dict[str, tf.Tensor]:
    """Measures a model on a batch, in its inference mode.

    Args:
        model: gives scores `[batch, list]`, or `[batch, list, grades]`.
        loss: the loss.
        features: what the model takes.
        y_true: labels of the shape of the scores, negative at padding.
        sample_weight: weights as the loss takes them.

    Returns:
        Scalars by name: the loss and the norm of its gradients, both without penalties
        on weights, and sums over lists.
    """
    optimizer: Any = getattr(model, "optimizer", None)
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        labels, scores = inputs.dense(
            y_true, model(features, training=False), True, y_true.shape.rank
        )
        tape.watch(scores)
        # Without penalties on weights, which would hide that nothing is learnt.
        own = tf.reduce_mean(loss(labels, scores, sample_weight))
        if not which_keras.IS_KERAS_2 and loss.reduction in which_keras.MEANS:
            # In Keras 3 it is the share of this replica in the sum of all.
            own *= tf.distribute.get_strategy().num_replicas_in_sync
        total = own
        scale = tf.ones([])
        if isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer):
            # Otherwise gradients too small for float16 would look like none.
            name = "loss_scale" if which_keras.IS_KERAS_2 else "dynamic_scale"
            scale = tf.convert_to_tensor(getattr(optimizer, name))
            total *= tf.cast(scale, total.dtype)
    of_scores, *gradients = tape.gradient(total, [scores, *variables])
    gradients = [tf.cast(g, tf.float32) / scale for g in gradients if g is not None]
    metric = relaxed_metric(loss)
    return {
        "loss": own,
        "gradient_norm": tf.linalg.global_norm(gradients),
        **_idle_lists(metric, labels, of_scores, sample_weight),
        **({} if metric is None else _both_metrics(metric, labels, scores)),
    }


def relaxed_metric(loss: tf.keras.losses.Loss) -> relaxed.RelaxedMetric | None:
    """Returns the metric that a loss relaxes, if any."""
    return loss.relaxed_metric() if isinstance(loss, base.RankingLoss) else None


def _idle_lists(
    metric: relaxed.RelaxedMetric | None,
    labels: tf.Tensor,
    of_scores: tf.Tensor | None,
    sample_weight: inputs.TensorLike | None,
) -> dict[str, tf.Tensor]:
    """Counts the lists whose scores have next to no gradient, by cause."""
    mask = inputs.real_items(inputs.item_labels(labels))
    if labels.shape.rank == 3:
        labels = grades.expected_label(labels, inputs.PADDING_LABEL)
    clean = tf.where(mask, labels, 0)
    if metric is None:
        empty = tf.reduce_max(clean, axis=1) <= 0
    else:
        empty = metric.objective.is_empty(clean)
    highest = tf.reduce_max(tf.where(mask, labels, labels.dtype.min), axis=1)
    lowest = tf.reduce_min(tf.where(mask, labels, labels.dtype.max), axis=1)
    weights = inputs.item_weights(sample_weight, tf.where(mask, clean, -1), True)
    counted = tf.reduce_any(mask & tf.not_equal(weights, 0), axis=1)
    if of_scores is None:
        idle = counted
    else:
        flat = tf.abs(tf.reshape(of_scores, [tf.shape(mask)[0], -1]))
        idle = counted & tf.reduce_all(flat <= _NOTHING * tf.reduce_max(flat), axis=1)
    equal = highest <= lowest
    causes = (empty, ~empty & equal, ~empty & ~equal)
    return {
        "lists": _sum(counted),
        **{name: _sum(idle & why) for name, why in zip(CAUSES, causes)},
    }


def _both_metrics(
    metric: relaxed.RelaxedMetric, labels: tf.Tensor, scores: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Sums both metrics over the lists that have a relevant item."""
    per_list = metric.per_list(labels, scores)
    counted = ~per_list.empty
    return {
        "relaxed": tf.reduce_sum(tf.where(counted, per_list.relaxed, 0)),
        "exact": tf.reduce_sum(tf.where(counted, per_list.exact, 0)),
        "not_empty": _sum(counted),
    }


def _sum(which: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(which, tf.float32))


def of_all(
    batches: Iterable[Mapping[str, Any]], metric_name: str | None = None
) -> dict[str, float]:
    """Combines what `of_batch` measured on some batches.

    Args:
        batches: its result for each batch.
        metric_name: the metric that the loss relaxes, if any.

    Returns:
        The figures that `TrainingDiagnosis` adds to the logs, and the loss.
    """
    rows = [{name: float(x) for name, x in batch.items()} for batch in batches]
    norms = [row["gradient_norm"] for row in rows]
    total = {name: sum(row[name] for row in rows) for name in rows[0]}
    shares = {name: total[name] / max(1.0, total["lists"]) for name in CAUSES}
    measured = {
        "loss": float(np.mean([row["loss"] for row in rows])),
        "gradient_norm": float(np.mean(norms)),
        "gradient_norm_max": float(np.max(norms)),
        "idle_lists": sum(shares.values()),
        **{f"idle_{name}": share for name, share in shares.items()},
    }
    if metric_name is not None:
        for kind in ("relaxed", "exact"):
            mean = total[kind] / max(1.0, total["not_empty"])
            measured[f"{kind}_{metric_name}"] = mean
    return measured
