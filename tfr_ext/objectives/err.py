"""Expected reciprocal rank (Chapelle et al., CIKM 2009), and its normalised form."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.arguments import Argument
from tfr_ext.objectives import cascade, gains
from tfr_ext.objectives.objective import Graded
from tfr_ext.objectives.registry import register


@register
@dataclasses.dataclass(frozen=True)
class ERR(Graded):
    """Expected reciprocal rank (Chapelle et al., CIKM 2009).

    A cascade in which rank `r` satisfies the user with probability
    `(2**label - 1) / 2**max_label`.

    Attributes:
        max_label: the highest grade of the collection; required.
    """

    NAME = "err"
    LABEL_GAIN = "exponential"
    ARGUMENTS = {"max_label": Argument(checks.positive)}

    max_label: float | None = None

    def __post_init__(self) -> None:
        """Checks the arguments."""
        if self.max_label is None:
            raise ValueError(
                f"Metric {self.NAME!r} needs `max_label`, the highest grade of the "
                "collection."
            )
        super().__post_init__()

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        largest = tf.constant(self.max_label, ranked.dtype)
        stops = gains.power_of_2(ranked - largest) - gains.power_of_2(-largest)
        return cascade.reciprocal_rank(stops)


@register
@dataclasses.dataclass(frozen=True)
class NERR(ERR):
    """Expected reciprocal rank divided by that of the ideal ranking, at one cut-off."""

    NAME = "nerr"
    TITLE = "nERR"

    def _value(
        self, ranked: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        ideal = masked.top_labels(labels, masked.list_size(ranked))
        return tf.math.divide_no_nan(
            super()._value(ranked, labels, mask), super()._value(ideal, labels, mask)
        )
