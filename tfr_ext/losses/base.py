"""The contract of every loss: inputs, masks, weights, reduction, configuration.

A loss class declares its arguments and implements one function of clean tensors;
everything else that a TensorFlow Ranking user relies on is here.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from tfr_ext.core import arguments, checks, inputs, masked, which_keras
from tfr_ext.core.annealed import Annealed
from tfr_ext.core.arguments import Argument, Sharpness
from tfr_ext.core.inputs import TensorLike
from tfr_ext.core.which_keras import register as register
from tfr_ext.losses.relaxed import RelaxedMetric


class RankingLoss(tf.keras.losses.Loss, metaclass=abc.ABCMeta):
    """Base of all losses; behaves like the losses of `tfr.keras.losses`.

    Labels and scores have shape `[batch, list]`; an item with a negative label is
    padding. With `ragged=True` they may be ragged tensors. Labels may be integers and
    scores may have any floating type; the loss is computed in float32, or in float64 if
    the scores are float64. A loss over distributions (`RANK` is 3) takes labels and
    scores of shape `[batch, list, grades]`; an item whose first label entry is negative
    is padding. If the label or score of a real item is NaN or infinite, the loss of its
    list is NaN.

    `sample_weight` may be None, a scalar, one weight per list (`[batch]` or
    `[batch, 1]`), or one weight per item (`[batch, list]`).
    """

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss, its key by default.
            ragged: whether labels and scores may be ragged tensors.

        Raises:
            ValueError: If Keras has another backend than TensorFlow.
        """
        which_keras.check_backend(type(self).__name__)
        if reduction == "auto" and not which_keras.IS_KERAS_2:
            reduction = "sum_over_batch_size"
        super().__init__(reduction=reduction, name=name or self.KEY)
        self._ragged = checks.boolean("ragged", ragged)
        self._annealed: dict[str, Annealed] = {}
        self._arguments: dict[str, Any] = {}

    # The parameters that all losses have.
    PARAMETERS = ("self", "reduction", "name", "ragged")
    # The name by which `tfr_ext.losses.get` builds a class.
    KEY: ClassVar[str]
    # The rank of labels and scores: 3 if they are distributions,
    # `[batch, list, grades]`.
    RANK: ClassVar[int] = 2
    # The loss's arguments besides those of all losses, unless they belong to its parts.
    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {}
    # The argument that brings a relaxation closer to its metric.
    SHARPNESS: ClassVar[Sharpness | None] = None
    # The label above which the loss has no meaning, if there is one.
    _max_label: float | None = None

    @abc.abstractmethod
    def compute(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Computes the unweighted loss of each list or item.

        Args:
            labels: labels, 0 at padding, `[batch, list]`, of the scores' type.
            scores: float32 or float64 scores, 0 at padding, `[batch, list]`.
            mask: True at real items, `[batch, list]`.
        """

    @abc.abstractmethod
    def _normalized_weights(
        self, labels: tf.Tensor, mask: tf.Tensor, weights: tf.Tensor
    ) -> tf.Tensor:
        """Returns the factors of the losses, in the shape that `compute` returns.

        All arguments are `[batch, list]`; labels and weights are 0 at padding.
        """

    def _have_only(self, items: tf.Tensor) -> tf.Tensor:
        """Returns which losses involve only the given items, shaped as `compute`."""
        return items

    def _unweighted(self, mask: tf.Tensor, dtype: tf.DType) -> tf.Tensor | None:
        """Returns the factors to use without weights; None if all are 1."""
        return None

    @which_keras.not_converted
    def __call__(
        self,
        y_true: TensorLike,
        y_pred: TensorLike,
        sample_weight: TensorLike | None = None,
    ) -> tf.Tensor:
        """Computes the reduced, weighted loss; see `tf.keras.losses.Loss`.

        Args:
            y_true: labels `[batch, list]`, negative at padding.
            y_pred: scores `[batch, list]`.
            sample_weight: None, a scalar, or weights of shape `[batch]`,
                `[batch, 1]` or `[batch, list]`.

        Returns:
            A scalar or, with `reduction='none'`, the loss of each list or item.

        Raises:
            ValueError: If the shapes do not match.
            TypeError: If a model of the other Keras calls the loss, see
                `tfr_ext.core.which_keras`.
        """
        which_keras.check_caller(type(self).__name__)
        labels, scores = inputs.dense(y_true, y_pred, self._ragged, self.RANK)
        items = inputs.item_labels(labels)
        mask = inputs.real_items(items)
        if sample_weight is None:
            factors = self._unweighted(mask, scores.dtype)
        else:
            weights = inputs.item_weights(sample_weight, items, self._ragged)
            factors = self._normalized_weights(tf.where(mask, items, 0), mask, weights)
        if which_keras.IS_KERAS_2:
            return super().__call__(labels, scores, factors)
        with tf.name_scope(self.KEY):
            losses = self.call(labels, scores)
            return which_keras.reduced(losses, factors, self.reduction)

    @which_keras.not_converted
    def call(self, y_true: TensorLike, y_pred: TensorLike) -> tf.Tensor:
        """Computes the unreduced, unweighted loss; see `tf.keras.losses.Loss`."""
        labels, scores = inputs.dense(y_true, y_pred, self._ragged, self.RANK)
        mask = inputs.real_items(inputs.item_labels(labels))
        # Cleaned before anything is computed, so that values at padding cannot reach
        # the loss or, multiplied by 0, the gradient.
        labels, scores = (inputs.where_real(mask, x) for x in (labels, scores))
        losses = self.compute(labels, scores, mask)
        usable = inputs.are_usable(labels, scores, self._max_label)
        # Some losses stay finite on unusable inputs, and training would continue
        # unnoticed. Adding NaN costs nothing in the backward pass, and `add_n`, which
        # does not broadcast, no operation.
        zeros = tf.zeros_like(losses)
        nan = masked.where(self._have_only(usable), zeros, float("nan"))
        return tf.math.add_n([losses, nan])

    def __deepcopy__(self, memo: dict[int, Any]) -> RankingLoss:
        """Returns a copy whose schedules are at the same step.

        Keras 3 would save and load it by names that it may not know, and start at step
        0.
        """
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this loss."""
        config = super().get_config()
        config["ragged"] = self._ragged
        config.update(arguments.config_of(self._arguments))
        return config

    @property
    def schedulable(self) -> list[str]:
        """The arguments that accept a schedule, see `tfr_ext.core.annealed`."""
        return list(self._annealed)

    def set_step(self, step: int) -> None:
        """Sets the scheduled arguments to their values at a step of the optimizer."""
        for annealed in self._annealed.values():
            annealed.set_step(step)

    def scheduled_values(self) -> dict[str, float]:
        """Returns the current values of the scheduled arguments."""
        return {
            name: float(annealed.value)
            for name, annealed in self._annealed.items()
            if annealed.is_scheduled
        }

    def diagnostics(self) -> list[tf.keras.metrics.Metric]:
        """Returns Keras metrics that show whether the loss itself works as it should.

        They take labels and scores as the loss does. By default there are none.
        """
        return []

    def relaxed_metric(self) -> RelaxedMetric | None:
        """Returns the metric that the loss relaxes, if any; None by default."""
        return None

    def caveats(self) -> list[str]:
        """Returns warnings for users of the loss, one per line; none by default."""
        return []

    def _declare(self, **values: Any) -> None:
        """Checks the arguments in `ARGUMENTS`, and keeps them for `get_config`."""
        self._arguments = arguments.check_all(type(self), values)
        self._annealed = arguments.annealed_of(self._arguments)

    def _now(self, argument: str) -> float | tf.Tensor:
        """Returns the current value of an argument that may be a schedule."""
        return self._annealed[argument].value


class ListwiseLoss(RankingLoss):
    """Base of losses with one value per list.

    `compute` returns `[batch, 1]`. Item weights count as in TensorFlow Ranking: the
    weight of a list is the mean of its items' weights, weighted by their labels. If all
    labels are 0, it is the plain mean over the real items.
    """

    def _have_only(self, items: tf.Tensor) -> tf.Tensor:
        return tf.reduce_all(items, axis=1, keepdims=True)

    def _normalized_weights(
        self, labels: tf.Tensor, mask: tf.Tensor, weights: tf.Tensor
    ) -> tf.Tensor:
        return inputs.list_weights(labels, mask, weights)


class ItemwiseLoss(RankingLoss):
    """Base of pointwise and pairwise losses, with one value per item.

    `compute` returns `[batch, list]`; a pairwise loss sums over the pairs of an item.
    The mean reductions average over the real items of a list first, and then over
    lists.
    """

    def _unweighted(self, mask: tf.Tensor, dtype: tf.DType) -> tf.Tensor | None:
        weights = tf.cast(mask, dtype)
        return self._normalized_weights(weights, mask, weights)

    def _normalized_weights(
        self, labels: tf.Tensor, mask: tf.Tensor, weights: tf.Tensor
    ) -> tf.Tensor:
        if self.reduction not in which_keras.MEANS:
            return weights
        return weights * masked.padded_per_real(mask, weights.dtype)
