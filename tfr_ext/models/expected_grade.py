"""Scores items by the expected grade of a distribution over grades."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core import grades, which_keras
from tfr_ext.data.batches.batching import MASK
from tfr_ext.models import layers, ranking_model, scorers


@which_keras.register
class ExpectedGrade(tf.keras.layers.Layer):
    """The expected grade under a softmax over grades: one score per item.

    Examples:
        >>> logits = tf.math.log([[[0.2, 0.5, 0.3], [0.8, 0.1, 0.1]]])
        >>> ExpectedGrade([0.0, 0.5, 1.0])(logits).numpy().round(4)
        array([[0.55, 0.15]], dtype=float32)
    """

    def __init__(self, grade_values: Sequence[float], **kwargs: Any):
        """Initialises the layer.

        Args:
            grade_values: the value of each grade, in rising order.
            **kwargs: arguments of `tf.keras.layers.Layer`.

        Raises:
            ValueError: If there are fewer than two values, or they are not in rising
                order.
        """
        super().__init__(**kwargs)
        self._grade_values = grades.check_values("grade_values", grade_values)

    @which_keras.not_converted
    def call(self, logits: tf.Tensor) -> tf.Tensor:
        """Computes the expected grades.

        Args:
            logits: logits `[batch, list, grades]`.

        Returns:
            Scores `[batch, list]`.
        """
        return grades.expected_value(logits, self._grade_values)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        return {**super().get_config(), "grade_values": list(self._grade_values)}


class ExpectedGradeScorer:
    """Turns a scorer of grades into a scorer of expected grades, for any loss."""

    def __init__(self, scorer: scorers.Scorer, grade_values: Sequence[float]):
        """Initialises the scorer.

        Args:
            scorer: a scorer that returns logits `[batch, list, grades]`, such as
                `MLPScorer(num_grades=3)`.
            grade_values: the value of each grade, in rising order.

        Raises:
            ValueError: If there are fewer than two values, or they are not in rising
                order.
        """
        self._scorer = scorer
        self._grade_values = grades.check_values("grade_values", grade_values)

    def __call__(
        self,
        context_features: dict[str, tf.Tensor],
        example_features: dict[str, tf.Tensor],
        mask: tf.Tensor,
    ) -> tf.Tensor:
        """Scores the items of all lists; see `CompactScorer`."""
        logits = self._scorer(context_features, example_features, mask)
        return _expected_grades(logits, mask, self._grade_values)


def with_expected_grade(
    model: tf.keras.Model, grade_values: Sequence[float]
) -> ranking_model.RankingModel:
    """Adds one score per item to a model of grades, to rank, evaluate and serve it.

    Args:
        model: a model of `{'float_features', 'mask'}` that returns logits
            `[batch, list, grades]`; its weights are shared.
        grade_values: the value of each grade, in rising order.

    Returns:
        A model that returns scores `[batch, list]`.

    Raises:
        ValueError: If the values are not in rising order, or their number differs from
            that of the logits.
    """
    outputs = _expected_grades(model.output, model.input[MASK], grade_values)
    return ranking_model.RankingModel(model.input, outputs, name=model.name)


def _expected_grades(
    logits: tf.Tensor, mask: tf.Tensor, grade_values: Sequence[float]
) -> tf.Tensor:
    expected = ExpectedGrade(grade_values, name="expected_grade", dtype="float32")(
        logits
    )
    # The equal logits at padding have an expected grade too, which is not the lowest.
    return layers.ScatterScores(
        scorers.PADDING_SCORE, compact=False, name="expected_scores", dtype="float32"
    )((layers.symbolic.expand_dims(expected, axis=-1), mask))
