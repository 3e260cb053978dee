"""Combines several rankers in one model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core import checks, masked, which_keras
from tfr_ext.data.batches.batching import MASK
from tfr_ext.models import ranking_model, scorers

# Share of a list's greatest score below which differences are rounding, which z-scores
# must not magnify.
SPREAD_FLOOR = 1e-5


def _zscore(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns scores with mean 0 and standard deviation 1 over the real items."""
    real = tf.where(mask, scores, 0)
    greatest = tf.reduce_max(tf.abs(real), axis=1, keepdims=True)
    # No sum or square of these can overflow.
    unit = tf.where(tf.equal(greatest, 0), real, real / greatest)
    count = tf.maximum(masked.num_real(mask, scores.dtype), 1)[:, tf.newaxis]
    mean = tf.reduce_sum(unit, axis=1, keepdims=True) / count
    centred = tf.where(mask, unit - mean, 0)
    variance = tf.reduce_sum(centred**2, axis=1, keepdims=True) / count
    return centred / tf.sqrt(variance + SPREAD_FLOOR**2)


def _minus_rank(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns minus the ranks from 1, best first; equal scores share a mean rank."""
    is_nan = tf.math.is_nan(scores)
    # In rising order from the best item; padding is last.
    keys = tf.where(is_nan, scores.dtype.max, -scores)
    keys = tf.where(mask, keys, float("inf"))
    in_order = tf.sort(keys, axis=1)
    before = tf.searchsorted(in_order, keys, side="left")
    up_to = tf.searchsorted(in_order, keys, side="right")
    up_to = tf.minimum(up_to, masked.num_real(mask, tf.int32)[:, tf.newaxis])
    ranks = tf.cast(before + up_to + 1, scores.dtype) / 2
    return tf.where(is_nan, scores, -ranks)


_FORMS: Mapping[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "mean": lambda scores, mask: scores,
    "zscore": _zscore,
    "rank": _minus_rank,
}
COMBINATIONS = tuple(_FORMS)
"""How scores are combined: see `CombinedScores`."""


@which_keras.register
class CombinedScores(tf.keras.layers.Layer):
    """Combines the scores that several models give each item, by a mean.

    *   `mean`: the mean of their scores.
    *   `zscore`: the mean of their scores, standardised over the real items of a list.
        A model whose scores all but agree (to 1e-5 of the greatest) has no say.
    *   `rank`: minus the mean of their ranks from 1, best first. Items of equal score
        share the mean of their ranks.

    The last two depend on the whole list. Padding is invisible to all.

    Examples:
        >>> mask = tf.constant([[True, True, True, False]])
        >>> scores = [tf.constant([[1., 2., 4., 9.]]), tf.constant([[5., 5., 7., 0.]])]
        >>> CombinedScores("rank")([mask, *scores])[:, :3].numpy()
        array([[-2.75, -2.25, -1.  ]], dtype=float32)
    """

    def __init__(self, combination: str = "mean", **kwargs: Any):
        """Initialises the layer.

        Args:
            combination: 'mean', 'zscore' or 'rank'.
            **kwargs: arguments of `tf.keras.layers.Layer`.

        Raises:
            ValueError: If there is no such combination.
        """
        super().__init__(**kwargs)
        self.combination = checks.choice("combination", combination, list(COMBINATIONS))

    @property
    def ACROSS_LISTS(self) -> bool:  # noqa: N802
        """Whether an item's score depends on its list."""
        return self.combination != "mean"

    @which_keras.not_converted
    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Combines scores.

        Args:
            inputs: the mask `[batch, list]`, True at real items, and then the scores of
                each model, `[batch, list]`.

        Returns:
            Scores `[batch, list]`, low at padding.
        """
        mask, *several = inputs
        form = _FORMS[self.combination]
        each = [form(tf.cast(scores, tf.float32), mask) for scores in several]
        # Each is divided first, as the sum of two float32 numbers may overflow.
        combined = tf.add_n([one / len(each) for one in each])
        return tf.where(mask, combined, scorers.PADDING_SCORE)

    def compute_output_shape(self, input_shape: Sequence[Any]) -> Any:
        """Returns the shape of the scores.

        Args:
            input_shape: the shapes of the mask and of the scores.
        """
        return input_shape[1]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        return {**super().get_config(), "combination": self.combination}


def combined_model(
    models: Sequence[tf.keras.Model], combination: str = "mean"
) -> ranking_model.RankingModel:
    """Returns one model that combines the scores of several, with their weights.

    Args:
        models: models of `{'float_features', 'mask'}` that return scores
            `[batch, list]`, at least one.
        combination: how, see `CombinedScores`.

    Raises:
        ValueError: If there is no model, they take different numbers of features, or
            there is no such combination.

    Examples:
        >>> from tfr_ext.models import MLPScorer, model_builder
        >>> builder = model_builder(3, MLPScorer([4]))
        >>> models = [builder.build(), builder.build()]
        >>> x = {"float_features": tf.ones([1, 2, 3]), "mask": tf.ones([1, 2], bool)}
        >>> mean = (models[0](x) + models[1](x)) / 2
        >>> bool(tf.reduce_all(abs(combined_model(models)(x) - mean) < 1e-6))
        True
    """
    if not models:
        raise ValueError("There must be at least one model to combine.")
    shapes = [
        {name: x.shape[-1] for name, x in model.input.items() if name != MASK}
        for model in models
    ]
    if any(shape != shapes[0] for shape in shapes):
        widths = [" and ".join(map(str, shape.values())) for shape in shapes]
        raise ValueError(
            "Models that are combined must take the same features. Their numbers of "
            f"features differ: {', '.join(widths)}."
        )
    inputs = {
        name: tf.keras.Input(x.shape[1:], dtype=x.dtype, name=name)
        for name, x in models[0].input.items()
    }
    # Keras wants other names for the models in one, and may not rename those given.
    parts = [
        ranking_model.RankingModel(model.input, model.output, name=f"model_{number}")
        for number, model in enumerate(models, 1)
    ]
    layer = CombinedScores(combination, name="combined_scores", dtype="float32")
    outputs = layer([inputs[MASK], *(part(inputs) for part in parts)])
    return ranking_model.RankingModel(inputs, outputs, name="ensemble")


def parts_of(model: Any) -> tuple[str, list[tf.keras.Model]] | None:
    """Returns how a model combines others, and these; None if it does not."""
    layers = getattr(model, "layers", None) or [None]
    if not isinstance(layers[-1], CombinedScores):
        return None
    inner = [layer for layer in layers if isinstance(layer, tf.keras.Model)]
    return layers[-1].combination, inner
