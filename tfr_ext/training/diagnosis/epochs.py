"""Warnings about the figures of recent epochs."""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping

from tfr_ext.losses import relaxed

# Number of epochs in a row that must look wrong.
PATIENCE = 3
_CONSTANT = 1e-6
# Adam adds 1e-7 to what it divides by: steps of smaller gradients vanish.
_NO_GRADIENT = 1e-8
_MOST_LISTS = 0.5
_GAP = 0.1
# Share of the gap PATIENCE epochs ago that is still left; spreading scores close it.
_NOT_CLOSING = 0.95
# This close to the ideal, lists may well have no gradient.
_LEFT_TO_LEARN = 0.05


class EpochWarnings:
    """Warns about the figures of epochs, once about each fault.

    Examples:
        >>> watch = EpochWarnings()
        >>> for epoch in range(4):
        ...     print(watch({"loss": 0.25}))
        []
        []
        ['The loss was 0.25 in 3 epochs in a row: nothing is learnt. Look at the learning rate, the labels and the features.']
        []
    """  # noqa: E501 (output)

    def __init__(
        self,
        metric: relaxed.RelaxedMetric | None = None,
        arguments: Mapping[str, float] | None = None,
    ):
        """Initialises the warnings.

        `metric` is what the loss relaxes; its `arguments` are quoted in warnings.
        """
        self._metric = metric
        self._arguments = dict(arguments or {})
        self._recent: collections.deque[Mapping[str, float]] = collections.deque(
            maxlen=PATIENCE
        )
        self._warned: set[str] = set()

    def __call__(self, epoch: Mapping[str, float]) -> list[str]:
        """Returns the new warnings after the next epoch, a line each.

        `epoch` has the loss, and what `TrainingDiagnosis` measures, by name.
        """
        self._recent.append(epoch)
        lines = {
            "loss": self._constant_loss(),
            "gradient": self._no_gradient(epoch),
            "idle": self._idle(epoch),
            "gap": self._gap(),
            "saturated": self._saturated(),
        }
        new = {name: line for name, line in lines.items() if line}
        fresh = [line for name, line in new.items() if name not in self._warned]
        self._warned.update(new)
        return fresh

    def _of_recent(self, name: str) -> list[float]:
        """Returns the values of the last epochs; none if there are too few."""
        values = [epoch[name] for epoch in self._recent if name in epoch]
        return values if len(values) == PATIENCE else []

    def _constant_loss(self) -> str:
        values = self._of_recent("loss")
        if not values or not math.isfinite(sum(values)):
            return ""
        if max(values) - min(values) > _CONSTANT * max(map(abs, values)):
            return ""
        return (
            f"The loss was {values[-1]:g} in {PATIENCE} epochs in a row: nothing is "
            "learnt. Look at the learning rate, the labels and the features."
        )

    def _no_gradient(self, epoch: Mapping[str, float]) -> str:
        norm = epoch.get("gradient_norm_max", 1.0)
        if not norm < _NO_GRADIENT:
            return ""
        return (
            f"The gradient is {norm:g}: no step changes anything. "
            + self._turn("smoother")
            + self._elsewhere("Look at the labels and the loss.")
        )

    def _idle(self, epoch: Mapping[str, float]) -> str:
        empty, equal = epoch.get("idle_empty", 0.0), epoch.get("idle_equal", 0.0)
        if empty + equal <= _MOST_LISTS:
            return ""
        return (
            f"{empty + equal:.0%} of the lists contribute nothing: {empty:.0%} have no "
            f"relevant item, and in {equal:.0%} more all labels are equal. They only "
            "cost time. Check the labels, and what counts as relevant."
        )

    def _gap(self) -> str:
        if self._metric is None:
            return ""
        name = self._metric.name
        relaxed = self._of_recent(f"relaxed_{name}")
        exact = self._of_recent(f"exact_{name}")
        is_cost = self._metric.objective.is_cost
        gaps = [
            abs(r - e) / (max(e, 1e-9) if is_cost else 1.0)
            for r, e in zip(relaxed, exact)
        ]
        if not gaps or not min(gaps) > _GAP or gaps[-1] < _NOT_CLOSING * gaps[0]:
            return ""
        # Even if they are far apart, the relaxed metric may still improve the exact
        # one.
        gained = exact[0] - exact[-1] if is_cost else exact[-1] - exact[0]
        if gained > 0:
            return ""
        return (
            f"The loss sees {name} {relaxed[-1]:.3f} where it is {exact[-1]:.3f}; in "
            f"{PATIENCE} epochs they came no closer, and the exact one did not "
            "improve: the loss does not optimise the metric. " + self._turn("sharper")
        )

    def _saturated(self) -> str:
        if self._metric is None or self._metric.objective.is_cost:
            return ""
        shares = self._of_recent("idle_saturated")
        exact = self._of_recent(f"exact_{self._metric.name}")
        if not shares or min(shares) <= _MOST_LISTS or max(exact) > 1 - _LEFT_TO_LEARN:
            return ""
        return (
            f"{shares[-1]:.0%} of the lists have labels that differ but no gradient: "
            "the relaxation is flat at their scores. " + self._turn("smoother")
        )

    def _turn(self, way: str) -> str:
        """Returns how to make the relaxation sharper or smoother."""
        sharpness = self._metric.sharpness if self._metric else None
        if sharpness is None:
            return ""
        now = self._arguments.get(sharpness.argument)
        given = f" than {now:g}" if isinstance(now, (int, float)) else ""
        return f"Try a {getattr(sharpness, way)} `{sharpness.argument}`{given}."

    def _elsewhere(self, text: str) -> str:
        return "" if self._metric and self._metric.sharpness else text
