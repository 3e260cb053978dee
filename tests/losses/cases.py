"""The one list of all losses, over which the contract's properties are tested.

A new loss joins by adding its cases here: nothing else in the contract tests names one.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from tfr_ext import losses


@dataclasses.dataclass(frozen=True)
class LossCase:
    """A loss with arguments, and what its kind promises.

    Attributes:
        key: key of the loss.
        kwargs: its arguments.
        empty_is_zero: a list without anything relevant contributes 0.
        invalid: arguments that must be refused, each with the name that is told.
    """

    key: str
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    empty_is_zero: bool = True
    invalid: tuple[tuple[dict[str, Any], str], ...] = ()

    def build(self, **kwargs: Any) -> tf.keras.losses.Loss:
        return losses.get(self.key, **{**self.kwargs, **kwargs})

    def __str__(self) -> str:
        arguments = ",".join(
            f"{k}={v.get('class_name') if isinstance(v, dict) else v}"
            for k, v in self.kwargs.items()
        )
        return f"{self.key}({arguments})"


_SMOOTHI_INVALID = (
    ({"alpha": 0.0}, "alpha"),
    ({"alpha": -1}, "alpha"),
    ({"alpha": float("nan")}, "alpha"),
    ({"alpha": "1"}, "alpha"),
    ({"alpha": 1e30}, "alpha"),
    ({"alpha": {"class_name": "Nonsense", "config": {}}}, "alpha"),
    ({"delta": 0.0}, "delta"),
    ({"delta": 0.5}, "delta"),
    ({"topn": 0}, "topn"),
    ({"topn": 2.5}, "topn"),
    ({"metric": "dcg"}, "metric"),
    ({"relevance_threshold": 0.0}, "relevance_threshold"),
    ({"relevance_threshold": "high"}, "relevance_threshold"),
    ({"max_label": "4"}, "max_label"),
    ({"metric": "err"}, "max_label"),
    ({"metric": "err", "max_label": -1.0}, "max_label"),
    ({"stop_gradient": 1}, "stop_gradient"),
    ({"ragged": "yes"}, "ragged"),
)

# A schedule as a config has it; the contract's tests see its value at step 0.
SCHEDULE = tf.keras.optimizers.schedules.serialize(
    tf.keras.optimizers.schedules.ExponentialDecay(2.0, 10, 0.5)
)

CASES: list[LossCase] = [
    LossCase("smoothi_loss", invalid=_SMOOTHI_INVALID),
    LossCase("smoothi_loss", {"topn": 3, "alpha": 10.0}),
    LossCase("smoothi_loss", {"delta": 1e-12}),
    LossCase("smoothi_loss", {"alpha": SCHEDULE}),
    LossCase("smoothi_loss", {"metric": "ndcg", "stop_gradient": False}),
    LossCase("smoothi_loss", {"metric": "precision", "topn": 2, "delta": 0.3}),
    LossCase("smoothi_loss", {"metric": "map"}),
    LossCase("smoothi_loss", {"metric": "arp"}),
    LossCase("smoothi_loss", {"metric": "arp", "topn": 2}),
    LossCase("smoothi_loss", {"metric": "mrr", "stop_gradient": False, "topn": 4}),
    LossCase("smoothi_loss", {"metric": "err", "max_label": 3.0}),
]
