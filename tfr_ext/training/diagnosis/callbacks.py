"""Keras callbacks that check whether training works as it should."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from tfr_ext.core import checks, grades, inputs, which_keras
from tfr_ext.losses import base, relaxed
from tfr_ext.training.diagnosis import epochs, not_finite

# Why a list contributes nothing.
CAUSES = ("empty", "equal", "saturated")
# Share of the largest gradient in a batch below which a gradient is rounding, as for
# lists of equal labels.
_NOTHING = 1e-6


def measures_of_batch(
    model: tf.keras.Model,
    loss: tf.keras.losses.Loss,
    features: Any,
    y_true: inputs.TensorLike,
    sample_weight: inputs.TensorLike | None = None,
) -> dict[str, tf.Tensor]:
    """Measures a model on a batch, in its inference mode.

    The model gives scores `[batch, list]` or `[batch, list, grades]`; labels are of the
    same shape, negative at padding. Returns scalars by name: the loss and the norm of
    its gradients, both without penalties on weights, and sums over lists.
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


def mean_measures(
    batches: Iterable[Mapping[str, Any]], metric_name: str | None = None
) -> dict[str, float]:
    """Combines what `measures_of_batch` measured on some batches.

    Returns the figures that `TrainingDiagnosis` adds to the logs, and the loss.
    `metric_name` is of the metric that the loss relaxes, if any.
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


class TrainingDiagnosis(tf.keras.callbacks.Callback):
    """Measures the model on a few training batches after each epoch.

    The batches are the same each time, and the model runs as in evaluation (without
    dropout, with the moving statistics), so that the figures of two epochs can be
    compared. They are added to the logs, and a warning is given once if one looks
    wrong. Training itself does not change.

    | in the logs | what it is |
    |---|---|
    | `gradient_norm`, `gradient_norm_max` | global norm of the gradients of all weights: mean over the batches, and the highest |
    | `idle_lists` | share of the lists whose scores have no gradient (at most a millionth of the largest in the batch), the sum of the next three |
    | `idle_empty` | ... because they have no relevant item |
    | `idle_equal` | ... because all their labels are equal |
    | `idle_saturated` | ... although their labels differ |
    | `relaxed_ndcg_10` | the metric as a metric loss sees it, over the lists with a
    relevant item | | `exact_ndcg_10` | the metric itself, over the same lists |

    The last two are given for losses that have `relaxed_metric()`; their names follow
    the metric and cut-off of the loss. Rows of nothing but padding, and lists of weight
    0, do not count.

    Place it before the callbacks that should log the figures:

    ```python
    model.compile("adam", loss=tfr_ext.losses.SmoothILoss())
    model.fit(dataset, callbacks=[tfr_ext.training.diagnosis.TrainingDiagnosis(dataset)])
    ```

    Examples:
        >>> from tfr_ext import losses
        >>> x = tf.random.stateless_normal([8, 5, 3], [1, 2])
        >>> y = tf.cast(x[..., 0] > 0, tf.float32)
        >>> dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
        >>> model = tf.keras.Sequential(
        ...     [tf.keras.layers.Dense(1), tf.keras.layers.Reshape([5])])
        >>> model.compile("adam", loss=losses.SmoothILoss(topn=3))
        >>> diagnosis = TrainingDiagnosis(dataset)
        >>> history = model.fit(dataset, callbacks=[diagnosis], verbose=0).history
        >>> sorted(history)[1:4]
        ['gradient_norm', 'gradient_norm_max', 'idle_empty']
        >>> "relaxed_ndcg_3" in history and "exact_ndcg_3" in history
        True
    """  # noqa: E501 (table)

    def __init__(
        self,
        batches: Iterable[tuple],
        loss: tf.keras.losses.Loss | None = None,
        num_batches: int = 8,
        warn: Callable[[str], Any] = logging.warning,
    ):
        """Initialises the callback.

        Args:
            batches: training batches, `(features, labels)` or `(features, labels,
                sample_weight)`, such as the dataset that `fit` gets.
            loss: the loss, that of the compiled model by default.
            num_batches: number of batches that are kept and measured.
            warn: called with each warning.

        Raises:
            ValueError: If `num_batches` is out of range.
        """
        super().__init__()
        self._batches = batches
        self._loss = loss
        self._num_batches = checks.at_least("num_batches", num_batches, 1)
        self._warn = warn

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Takes the batches, and traces the measurement.

        Raises:
            ValueError: If there is no loss object, or no batch.
        """
        loss = self._loss or getattr(self.model, "loss", None)
        if not isinstance(loss, tf.keras.losses.Loss):
            raise ValueError(
                "`loss` must be given if the model is not compiled with a "
                f"tf.keras.losses.Loss. Received: {loss!r}."
            )
        self._sample = [
            tuple(x for x in batch if x is not None)  # Without weights that are None.
            for batch in itertools.islice(self._batches, self._num_batches)
        ]
        if not self._sample:
            raise ValueError("`batches` must have at least one batch.")
        # Treated as a loss that a model is compiled with: under a strategy, Keras
        # refuses the mean over a batch for others.
        loss._allow_sum_over_batch_size = True
        self._metric = relaxed_metric(loss)
        self._warnings = epochs.EpochWarnings(self._metric, loss.get_config())
        self._has_warned = False
        strategy = self.model.distribute_strategy

        # Every replica measures the whole batch: gradients of mirrored weights can be
        # computed only inside a replica.
        def run(batch: tuple) -> Any:
            return strategy.run(measures_of_batch, (self.model, loss, *batch))

        # One graph for batches of all shapes.
        specs = [
            tf.nest.map_structure(tf.type_spec_from_value, x) for x in self._sample
        ]
        one = tf.nest.map_structure(
            lambda x, *others: x.most_specific_common_supertype(others), *specs
        )
        self._run = tf.function(run, input_signature=[one])

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Adds the figures to the logs, and warns."""
        logs = {} if logs is None else logs
        local = self.model.distribute_strategy.experimental_local_results
        measured = mean_measures(
            [
                {name: local(x)[0] for name, x in self._run(batch).items()}
                for batch in self._sample
            ],
            None if self._metric is None else self._metric.name,
        )
        own_loss = measured.pop("loss")
        logs.update(measured)
        loss = float(logs.get("loss", 0.0))
        if not math.isfinite(loss) and not self._has_warned:
            self._has_warned = True
            features, labels = self._sample[0][:2]
            self._warn(
                f"The loss became {loss} in epoch {epoch + 1}. "
                + not_finite.cause(self.model, features, labels)
            )
        for line in self._warnings({"loss": own_loss, **measured}):
            self._warn(f"After epoch {epoch + 1}: {line}")


class LossWatch(tf.keras.callbacks.Callback):
    """Warns if the loss stays the same, epoch after epoch.

    `TrainingDiagnosis` does this too, and more.
    """

    def __init__(self, warn: Callable[[str], Any] = logging.warning):
        """Initialises the callback.

        Args:
            warn: called with the warning.
        """
        super().__init__()
        self._warn = warn
        self._warnings = epochs.EpochWarnings()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Warns if the loss stays the same."""
        for line in self._warnings({"loss": float((logs or {}).get("loss", 0.0))}):
            self._warn(f"After epoch {epoch + 1}: {line}")
