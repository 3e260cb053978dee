"""The output of a model: a score, or a distribution over grades."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext import losses
from tfr_ext.core import grades
from tfr_ext.core.settings import given
from tfr_ext.data.batches.streams import StreamedLists
from tfr_ext.data.lists import RankingLists
from tfr_ext.models.expected_grade import ExpectedGradeScorer
from tfr_ext.models.scorers import Scorer
from tfr_ext.settings.training_config import TrainingConfig

# Losses of distributions over grades, whose head is 'grades' unless settings say
# otherwise.
_GRADE_LOSSES = ("pointwise_kl_multinomial_loss",)
# A parameter of losses that need several scores per item, which no head gives.
_SEVERAL_SCORES = "ordinal_size"


@dataclasses.dataclass(frozen=True)
class Head:
    """The output of a model; its `kind` is one of `model_config.HEADS`.

    `values` has one for each grade; it is None for a score, and until settings or data
    say it.
    """

    kind: str
    values: list[float] | None = None

    @property
    def num_grades(self) -> int | None:
        """Number of outputs of the network per item, if they are grades."""
        return None if self.values is None else len(self.values)

    @property
    def trained_values(self) -> list[float] | None:
        """Values of the grades if the model is trained on their distribution."""
        return self.values if self.kind == "grades" else None

    def with_values(
        self, train: RankingLists | StreamedLists, max_label: float | None
    ) -> Head:
        """Returns the head with evenly spread values, unless settings gave some.

        The highest grade is `max_label` or, without it, the highest training label.
        """
        if self.kind == "score" or self.values is not None:
            return self
        if train.num_grades is not None:
            count = train.num_grades
        else:
            highest = train.max_label if max_label is None else max_label
            if highest != math.floor(highest):
                raise ValueError(
                    f"{given('head', self.kind)} needs whole grades, but the highest "
                    f"label is {highest:g} ("
                    + ("of the training lists" if max_label is None else "`max_label`")
                    + "). `grade_values` names the grades of other labels."
                )
            count = max(1, int(highest)) + 1
        return dataclasses.replace(self, values=grades.even_values(count))

    def label_values(self, train: RankingLists | StreamedLists) -> list[float] | None:
        """Returns the values of the grades if labels are their expectations."""
        if self.trained_values is None or isinstance(train, StreamedLists):
            return None
        shares = train.label_distributions
        if shares is None:
            return None
        expected = shares @ np.array(self.values)
        return self.values if np.allclose(expected, train.labels, atol=1e-4) else None

    def loss_params(self, loss: str, params: dict[str, Any]) -> dict[str, Any]:
        """Returns the parameters of the loss, with the values of the grades."""
        # Without balanced classes the loss has no use for them, and refuses them.
        unused = params.get("class_balance", "batch") is None
        if (
            self.trained_values
            and "grade_values" in losses.parameters(loss)
            and not unused
        ):
            return {**params, "grade_values": self.trained_values}
        return params

    def check_loss(self, key: str, loss: tf.keras.losses.Loss) -> None:
        """Checks that a loss fits the output of the model."""
        if _SEVERAL_SCORES in losses.parameters(key):
            raise ValueError(
                "It needs `ordinal_size` scores per item, which no `head` gives. "
                "Train a model of your own with it."
            )
        of_grades = getattr(loss, "RANK", 2) == 3
        if of_grades and self.kind != "grades":
            raise ValueError(
                f"{given('loss', key)} compares distributions over grades: it needs "
                f"`head='grades'`, not {given('head', self.kind)}."
            )
        if self.kind == "grades" and not of_grades:
            raise ValueError(
                "`head='grades'` is for losses of distributions over grades "
                f"({', '.join(_GRADE_LOSSES)}), not for {given('loss', key)}. "
                "`head='expected_grade'` trains any loss through the grades."
            )

    def scorer(self, network: Scorer) -> Scorer:
        """Returns the scorer to train, made of a network with `num_grades` outputs."""
        if self.kind != "expected_grade" or self.values is None:
            return network
        return ExpectedGradeScorer(network, self.values)

    def example(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns labels and scores of two items, as a loss would get them."""
        labels, scores = tf.constant([[1.0, 0.0]]), tf.constant([[0.1, 0.2]])
        if self.kind != "grades":
            return labels, scores
        count = self.num_grades or 2
        labels = tf.one_hot(tf.cast(labels, tf.int32), count)
        return labels, scores[..., tf.newaxis] * tf.range(count, dtype=tf.float32)


def from_config(config: TrainingConfig) -> Head:
    """Returns the head that the settings describe."""
    model, params = config.model, config.loss.params
    kind = model.head or ("grades" if config.loss.loss in _GRADE_LOSSES else "score")
    values = None
    if model.grade_values:
        values = grades.check_values("grade_values", list(model.grade_values))
        if kind == "score":
            raise ValueError("`grade_values` has no meaning with `head='score'`.")
    shown = given("grade_values", model.grade_values)
    threshold = config.data.binarize_labels
    if threshold is not None and values is not None and len(values) != 2:
        raise ValueError(
            f"{given('binarize_labels', threshold)} leaves two grades, but {shown} are "
            f"of {len(values)}."
        )
    if kind == "grades":
        if config.label_sampling != "none":
            raise ValueError(
                f"{given('label_sampling', config.label_sampling)} gives labels that "
                "are not grades, as `head='grades'` wants them."
            )
        if params.get("from_logits") is False:
            raise ValueError(
                "`head='grades'` gives logits, which `params['from_logits']=False` "
                "excludes."
            )
        of_loss = params.get("grade_values")
        if of_loss is not None:
            of_loss = grades.check_values("grade_values", of_loss)
            if values not in (None, of_loss):
                raise ValueError(
                    f"{shown} and `params['grade_values']={of_loss}` differ. Give one "
                    "of them."
                )
            values = of_loss
    return Head(kind, values)
