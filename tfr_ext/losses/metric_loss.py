"""Metric losses: an objective computed from a relaxation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfr_ext.core import arguments, masked
from tfr_ext.losses import base
from tfr_ext.losses.relaxed import RelaxedMetric
from tfr_ext.objectives.objective import Objective
from tfr_ext.relaxations.relaxation import FromFunction, Relaxation

Function = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


@base.register
class MetricLoss(base.ListwiseLoss):
    """One minus a ranking metric under a relaxation, for any pair of the two.

    A cost such as ARP is minimised directly. A list without a relevant item contributes
    0 and no gradient.

    Standalone usage:

    >>> relaxation = tfr_ext.relaxations.SmoothI(alpha=2.)
    >>> loss = MetricLoss(relaxation, tfr_ext.objectives.NDCG(topn=10))
    >>> y_true, y_pred = [[1., 0.]], [[0.6, 0.8]]
    >>> round(float(loss(y_true, y_pred)), 4)
    0.4364

    >>> # A function from scores and mask to rank indicators or positions
    >>> def positions(scores, mask):
    ...     return tfr_ext.relaxations.approx_positions(scores, mask, alpha=5.)
    >>> loss = MetricLoss(positions, tfr_ext.objectives.MAP())
    >>> round(float(loss(y_true, y_pred)), 4)
    0.4223

    Usage with the `compile()` API:

    ```python
    model.compile(
        optimizer='adam',
        loss=tfr_ext.losses.MetricLoss(
            tfr_ext.relaxations.SoftSort(temperature=0.5),
            tfr_ext.objectives.Recall(topn=20)))
    ```
    """

    KEY = "metric_loss"

    def __init__(
        self,
        relaxation: Relaxation | Function | dict[str, Any],
        objective: Objective | dict[str, Any],
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
    ):
        """Initialises the loss.

        Args:
            relaxation: one of `tfr_ext.relaxations`, or a function from scores and
                mask, both `[batch, list]`, to rank indicators `[batch, list, list]` or
                positions `[batch, list]`. A model can only be saved if the function is
                registered with Keras (`tf.keras.utils.register_keras_serializable`).
            objective: one of `tfr_ext.objectives`, the metric to optimise.
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.

        Raises:
            ValueError: If `relaxation` and `objective` do not fit together.
        """
        super().__init__(reduction, name, ragged)
        self._relaxation = _relaxation(relaxation)
        self._objective = _objective(objective, self._relaxation.READING)
        self._relaxation.check_fits(self._objective)
        self._annealed = self._relaxation.annealed
        self._max_label = getattr(self._objective, "max_label", None)

    def compute(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Computes the unweighted loss of each list, `[batch, 1]`."""
        labels, scores, mask = masked.at_least_one_item(labels, scores, mask)
        value = self._relaxation.metric(self._objective, labels, scores, mask)
        return self._objective.as_loss(value, labels)[:, tf.newaxis]

    def relaxed_metric(self) -> RelaxedMetric:
        """Returns the metric that the loss relaxes, with its smooth form."""
        # Not with copy.copy, for which Keras 3 saves and loads objects by name.
        smooth = object.__new__(type(self))
        smooth.__dict__.update(self.__dict__)
        smooth._relaxation = self._relaxation.smooth()
        return RelaxedMetric(self._objective, smooth.call, self._relaxation.SHARPNESS)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this loss."""
        return {
            **super().get_config(),
            "relaxation": _serialized(self._relaxation),
            "objective": _serialized(self._objective),
        }


class NamedMetricLoss(MetricLoss):
    """Base of metric losses with one fixed relaxation and plain arguments.

    The signature of a subclass lists the arguments of its relaxation and of its
    objective with their defaults; `get_config` returns them all.
    """

    def __init__(
        self,
        relaxation: Relaxation,
        objective: Objective,
        reduction: str,
        name: str | None,
        ragged: bool,
        **own: Any,
    ):
        """Initialises the loss.

        Args:
            relaxation: see `MetricLoss`, also for the arguments that follow.
            objective: the metric to optimise.
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            **own: arguments that belong to neither the relaxation nor the objective.
        """
        super().__init__(relaxation, objective, reduction, name, ragged)
        given = {
            **relaxation.get_config(),
            **objective.get_config(),
            "metric": objective.NAME,
            **own,
        }
        known = arguments.parameters(type(self), NamedMetricLoss)
        # An argument that neither has is at its default, as it has no effect.
        self._arguments = {
            parameter: given.get(parameter, default.default)
            for parameter, default in known.items()
            if parameter not in base.RankingLoss.PARAMETERS
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this loss."""
        return base.RankingLoss.get_config(self)


def _relaxation(given: Relaxation | Function | dict[str, Any]) -> Relaxation:
    if isinstance(given, dict):
        given = _deserialized("relaxation", given)
    if isinstance(given, Relaxation):
        return given
    if callable(given) and not isinstance(given, type):
        return FromFunction(given)
    raise ValueError(
        "`relaxation` must be one of `tfr_ext.relaxations`, such as SmoothI(), or a "
        f"function of scores and mask. Received: {given!r}."
    )


def _objective(given: Objective | dict[str, Any], reading: str) -> Objective:
    if isinstance(given, dict):
        given = _deserialized("objective", given)
    if not isinstance(given, Objective) or given.NO_LOSS:
        reason = getattr(given, "NO_LOSS", "")
        why = f" No loss optimises it, {reason}." if reason else ""
        raise ValueError(
            "`objective` must be one of `tfr_ext.objectives` that a loss can optimise, "
            f"such as NDCG(). Received: {given!r}.{why}"
        )
    if reading and reading not in given.READINGS:
        raise ValueError(
            f"`relaxation` gives {reading}, so `objective` must be one that can be "
            f"computed from them. Received: {given!r}, which is computed from "
            f"{' or '.join(given.READINGS)}."
        )
    return given


def _serialized(part: arguments.Declared) -> dict[str, Any]:
    name = tf.keras.utils.get_registered_name(type(part))
    if tf.keras.utils.get_registered_object(name) is not type(part):
        raise ValueError(
            f"{type(part).__name__} cannot be saved, as Keras does not know it. "
            "Decorate it with "
            "`@tf.keras.utils.register_keras_serializable('my_project')`."
        )
    return {"class_name": name, "config": part.get_config()}


def _deserialized(argument: str, config: dict[str, Any]) -> Any:
    cls = tf.keras.utils.get_registered_object(config.get("class_name"))
    if cls is None:
        raise ValueError(
            f"`{argument}` has a class that Keras does not know. Import the module "
            f"that registers it. Received: {config!r}."
        )
    return cls(**config["config"])
