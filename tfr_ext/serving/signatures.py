"""The serving signatures of a ranker."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import tensorflow as tf

from tfr_ext.data.batches.batching import FEATURES, MASK
from tfr_ext.data.elwc.features import ElwcFeatures
from tfr_ext.models import layers
from tfr_ext.models.transforms.fitted_transforms import FillMissing
from tfr_ext.serving.model_file import float_features

SCORES = "scores"
ORDER, TOPN = "order", "topn"
DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
MASKED_SIGNATURE = "masked"
RANK_SIGNATURE = "rank"
ELWC_SIGNATURE = "elwc"
# The names that TensorFlow Ranking gives them in its own exports.
PREDICT_SIGNATURE = tf.saved_model.PREDICT_METHOD_NAME
REGRESS_SIGNATURE = tf.saved_model.REGRESS_METHOD_NAME

# Spreads of the features on which a model is tried, as some transforms hide small or
# large differences.
_SPREADS = (1.0, 100.0, 1e4)


class ScoringModel(Protocol):
    """A model to export: a Keras model of padded lists, or several as one."""

    @property
    def input(self) -> Mapping[str, tf.Tensor]:
        """The inputs, `{'float_features', 'mask'}`."""

    def __call__(
        self, inputs: Mapping[str, tf.Tensor], training: bool = False
    ) -> tf.Tensor:
        """Returns scores `[batch, list]`."""


def signatures(
    model: ScoringModel, elwc_features: ElwcFeatures | None = None
) -> dict[str, Callable]:
    """Returns the functions with which a ranker is served.

    They take lists of any size. Padding gets the lowest finite float, so that it sorts
    last. A request fails with a `tf.errors.InvalidArgumentError` if a feature has
    another width or type, or is NaN at a real item; what padding holds does not matter.
    A model that fills in missing features takes NaN, and refuses infinity. A feature
    that a proto lacks is `elwc_features.missing_value`, as in training, or 0 if that is
    NaN and the model fills in nothing.

    *   `serving_default`: `float_features` `[batch, list, features]`, all items real.
    *   `masked`: `float_features` and `mask` `[batch, list]`, True at real items.
    *   `rank`: the same and `topn` `[batch]`, at least 1.
    *   `elwc`: `examples` `[batch]`, serialised `ExampleListWithContext` protos with
        `elwc_features`.
    *   `tensorflow/serving/predict`: the same protos as `inputs`.
    *   `tensorflow/serving/regress`: serialised `tf.train.Example` protos `[batch]` as
        `inputs`, with the features of both, each scored as a list of one item. Left
        out if the score of an item depends on the other items of its list, or if a
        feature of the context has the name of one of the examples.

    The last two are named as in TensorFlow Ranking's own exports, and return `outputs`:
    `[batch, list]` and `[batch]`. The others return `scores` `[batch, list]`. `rank`
    also returns `order` `[batch, list]`: the positions of the `topn` best items, the
    best first, items with equal scores by position, and then -1.

    Args:
        model: a model of `{'float_features', 'mask'}`.
        elwc_features: what the features of an item are called in the protos;
            `float_features` of the examples by default, missing where it is absent.

    Raises:
        ValueError: If they are not as many numbers as the model takes.
    """
    num_features = model.input[FEATURES].shape[-1]
    in_protos = elwc_features or float_features(num_features, math.nan)
    if in_protos.num_features != num_features:
        raise ValueError(
            f"`elwc_features` must have {num_features} numbers, which the model takes. "
            f"Received: {in_protos.num_features}."
        )
    fills = fills_missing(model)
    if not fills and math.isnan(in_protos.missing_value):
        in_protos = dataclasses.replace(in_protos, missing_value=0.0)
    features_spec = tf.TensorSpec([None, None, num_features], tf.float32, FEATURES)
    mask_spec = tf.TensorSpec([None, None], tf.bool, MASK)

    def scored(features: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        # Servers do not check the shapes of a signature, and a single feature would be
        # broadcast.
        features = _checked(features, [None, None, num_features])
        mask = _checked(mask, [None, None])
        fits = tf.debugging.assert_equal(
            tf.shape(mask), tf.shape(features)[:2], "mask must be [batch, list]."
        )
        with tf.control_dependencies([fits]):
            wrong = tf.math.is_nan if not fills else tf.math.is_inf
            unknown = tf.where(wrong(features) & mask[..., tf.newaxis])
        checked = tf.debugging.Assert(
            tf.equal(tf.size(unknown), 0),
            [
                f"{'infinite' if fills else 'NaN'} feature; its list, item and "
                "feature, counted from 0:",
                unknown[:1],
            ],
        )
        with tf.control_dependencies([checked]):
            mask = tf.identity(mask)
        scores = model({FEATURES: features, MASK: mask}, training=False)
        return tf.where(mask, scores, scores.dtype.min)

    @tf.function(input_signature=[features_spec])
    def serving_default(float_features: tf.Tensor) -> dict[str, tf.Tensor]:
        everything = tf.ones(tf.shape(float_features)[:2], tf.bool)
        return {SCORES: scored(float_features, everything)}

    @tf.function(input_signature=[features_spec, mask_spec])
    def masked(float_features: tf.Tensor, mask: tf.Tensor) -> dict[str, tf.Tensor]:
        return {SCORES: scored(float_features, mask)}

    @tf.function(
        input_signature=[
            features_spec,
            mask_spec,
            tf.TensorSpec([None], tf.int32, TOPN),
        ]
    )
    def rank(
        float_features: tf.Tensor, mask: tf.Tensor, topn: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        scores = scored(float_features, mask)
        return {SCORES: scores, ORDER: _best_first(scores, mask, topn)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def elwc(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return {SCORES: scored(*in_protos.parse(examples))}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, tf.saved_model.PREDICT_INPUTS)
        ]
    )
    def predict(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {tf.saved_model.PREDICT_OUTPUTS: scored(*in_protos.parse(inputs))}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, tf.saved_model.REGRESS_INPUTS)
        ]
    )
    def regress(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        features = in_protos.parse_items(inputs)[:, tf.newaxis]
        scores = scored(features, tf.ones(tf.shape(features)[:2], tf.bool))
        return {tf.saved_model.REGRESS_OUTPUTS: scores[:, 0]}

    found = {
        DEFAULT_SIGNATURE: serving_default,
        MASKED_SIGNATURE: masked,
        RANK_SIGNATURE: rank,
        ELWC_SIGNATURE: elwc,
        PREDICT_SIGNATURE: predict,
    }
    if not in_protos.shared_names and not looks_across_lists(model):
        found[REGRESS_SIGNATURE] = regress
    return found


def fills_missing(model: ScoringModel) -> bool:
    """Returns whether a model takes features that are NaN, which are missing.

    Args:
        model: a model of `{'float_features', 'mask'}`. Of one that combines several,
            all must.
    """
    if not any(isinstance(layer, FillMissing) for layer in layers.all_layers(model)):
        return False
    num_features = model.input[FEATURES].shape[-1]
    unknown = np.full([1, 2, num_features], np.nan, np.float32)
    return bool(np.isfinite(_scores(model, unknown)).all())


def looks_across_lists(model: ScoringModel) -> bool:
    """Returns whether the score of an item depends on the other items of its list.

    It does if a layer of the model says so, or if an item of a random list has
    another score alone.

    Args:
        model: a model of `{'float_features', 'mask'}`.
    """
    if layers.declares_across_lists(model):
        return True
    rng = np.random.default_rng(0)
    num_features = model.input[FEATURES].shape[-1]
    for spread in _SPREADS:
        lists = rng.normal(0, spread, [4, 6, num_features]).astype(np.float32)
        together = _scores(model, lists)
        alone = _scores(model, lists.reshape(-1, 1, num_features)).reshape(4, 6)
        scale = np.abs(together).max(initial=1e-30)
        if not np.allclose(together, alone, rtol=0, atol=1e-2 * scale):
            return True
    return False


def _scores(model: ScoringModel, features: np.ndarray) -> np.ndarray:
    mask = tf.ones(features.shape[:2], tf.bool)
    return np.asarray(model({FEATURES: tf.constant(features), MASK: mask}))


def _checked(tensor: tf.Tensor, shape: list[int | None]) -> tf.Tensor:
    """Checks a shape at run time.

    The placeholder hides the static shape, or TensorFlow would skip the check.
    """
    hidden = tf.compat.v1.placeholder_with_default(tensor, [None] * len(shape))
    return tf.ensure_shape(hidden, shape)


def _best_first(scores: tf.Tensor, mask: tf.Tensor, topn: tf.Tensor) -> tf.Tensor:
    """Returns the positions of the best items, and then -1, `[batch, list]`."""
    topn = _checked(topn, [None])
    checked = tf.debugging.Assert(
        tf.reduce_all(topn >= 1), ["topn must be at least 1. Received:", topn]
    )
    fits = tf.debugging.assert_equal(
        tf.shape(topn), tf.shape(scores)[:1], "topn must be [batch]."
    )
    with tf.control_dependencies([checked, fits]):
        topn = tf.identity(topn)
    by_score = tf.argsort(scores, direction="DESCENDING", stable=True)
    # Padding last: a real item may have the score of padding, or minus infinity.
    is_padding = tf.gather(tf.cast(~mask, tf.int32), by_score, batch_dims=1)
    order = tf.gather(by_score, tf.argsort(is_padding, stable=True), batch_dims=1)
    num_items = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
    places = tf.range(tf.shape(scores)[1])
    wanted = places < tf.minimum(topn, num_items)[:, tf.newaxis]
    return tf.where(wanted, order, -1)
