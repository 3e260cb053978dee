"""Keras callbacks that check whether training works as it should."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
from absl import logging

from tfr_ext.core import checks
from tfr_ext.training.diagnosis import epochs, measures, not_finite


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
        self._metric = measures.relaxed_metric(loss)
        self._warnings = epochs.EpochWarnings(self._metric, loss.get_config())
        self._has_warned = False
        strategy = self.model.distribute_strategy

        # Every replica measures the whole batch: gradients of mirrored weights can be
        # computed only inside a replica.
        def run(batch: tuple) -> Any:
            return strategy.run(measures.of_batch, (self.model, loss, *batch))

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
        measured = measures.of_all(
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
