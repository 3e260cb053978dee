"""The serving signatures of a ranker."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from tfr_ext.data.batches.batching import (
    CONTEXT_IDS,
    FEATURES,
    IDS,
    MASK,
    input_signature,
)
from tfr_ext.data.elwc.proto_features import ElwcFeatures
from tfr_ext.data.features import FeatureSpec
from tfr_ext.models import layers
from tfr_ext.models.texts import Embeddings
from tfr_ext.models.transforms.fitted_transforms import FillMissing
from tfr_ext.serving.model_file import of_spec, protos_of
from tfr_ext.serving.requests import Embed, request_signature, with_ids, with_shape

SCORES = "scores"
ORDER, TOPN = "order", "topn"
DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
MASKED_SIGNATURE = "masked"
RANK_SIGNATURE = "rank"
ELWC_SIGNATURE = "elwc"
IDS_SIGNATURE = "ids"
FEATURES_SIGNATURE = "features"
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
    model: ScoringModel,
    elwc_features: ElwcFeatures | None = None,
    spec: FeatureSpec | None = None,
    encoder: Embed | None = None,
) -> dict[str, Callable]:
    """Returns the functions with which a ranker is served.

    They take lists of any size, as keyword arguments. Padding gets the lowest finite
    float, so that it sorts last. A request fails with a
    `tf.errors.InvalidArgumentError` if a feature has another width or type, or is NaN
    at a real item; what padding holds does not matter. A model that fills in missing
    features takes NaN, and refuses infinity. A number that a proto lacks is
    `elwc_features.missing_value`, as in training, or 0 if that is NaN and the model
    fills in nothing.

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

    With features that are no numbers, the first three take `float_features` only if
    there are numbers, and an input for each other, under its name in `spec.inputs`:
    texts `[batch, list]`, or `[batch, list, values]` if an item may have several; of an
    embedding floats `[batch, list, width]`, or the texts that the encoder embeds; of
    the context without `list`. An embedding of zeros and the empty text, but for the
    encoder, are missing values. There are two more signatures:

    *   `ids` takes what a batch has: `float_features`, `mask`, `ids` and `context_ids`.
    *   `features` returns `features`, in the shape of its `mask`: JSON that tells a
        client what the features are and which inputs they have, as in `model.json`.

    Args:
        model: a model of `{'float_features', 'mask'}`, or of the inputs of `spec`.
        elwc_features: what the features of an item are called in the protos; if left
            out, as in `spec`, or else `float_features` of the examples, missing where
            it is absent.
        spec: what the features are, if they are not only numbers.
        encoder: makes the embeddings that requests have `as_text`.

    Raises:
        ValueError: If they are not as many numbers as the model takes.
    """
    num_features = width_of(model)
    in_protos = elwc_features or protos_of(num_features, spec, math.nan)
    if in_protos.spec.num_features != num_features:
        raise ValueError(
            f"`elwc_features` must have {num_features} numbers, which the model takes. "
            f"Received: {in_protos.spec.num_features}."
        )
    fills = fills_missing(model)
    if not fills and math.isnan(in_protos.missing_value):
        in_protos = dataclasses.replace(in_protos, missing_value=0.0)
    of_batch = input_signature(num_features, spec)
    mask_spec = of_batch.pop(MASK)
    of_batch = {k: tf.TensorSpec(x.shape, x.dtype, k) for k, x in of_batch.items()}
    request = request_signature(num_features, spec)

    def score(inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        # Servers do not check the shapes of a signature, and a single feature would be
        # broadcast.
        mask = with_shape(inputs[MASK], [None, None])
        checked, fine = {}, []
        for key, spec_of in of_batch.items():
            x = checked[key] = with_shape(inputs[key], spec_of.shape.as_list())
            size, rank = tf.shape(mask), spec_of.shape.rank - 1
            if rank == 1:  # The context has no items.
                size = size[:1]
            fits = f"mask must be [batch, list], as {key}."
            fine.append(tf.debugging.assert_equal(size, tf.shape(x)[:rank], fits))
        if FEATURES in checked:
            numbers = numbers_of(model)
            with tf.control_dependencies(fine):
                wrong = tf.math.is_nan if not fills else tf.math.is_inf
                bad = wrong(checked[FEATURES])
                if numbers < num_features:  # Embeddings follow.
                    others = ~tf.math.is_finite(checked[FEATURES][..., numbers:])
                    bad = tf.concat([bad[..., :numbers], others], axis=-1)
                unknown = tf.where(bad & mask[..., tf.newaxis])
            fine.append(
                tf.debugging.Assert(
                    tf.equal(tf.size(unknown), 0),
                    [
                        f"{'infinite' if fills else 'NaN'} feature; its list, item and "
                        "feature, counted from 0:",
                        unknown[:1],
                    ],
                )
            )
        with tf.control_dependencies(fine):
            mask = tf.identity(mask)
        scores = model({**checked, MASK: mask}, training=False)
        return tf.where(mask, scores, scores.dtype.min)

    # One graph, which all signatures share.
    specs = {**of_batch, MASK: tf.TensorSpec(mask_spec.shape, tf.bool, MASK)}
    scored = tf.function(score).get_concrete_function(specs)

    if encoder is not None:
        texts = tf.TensorSpec([None], tf.string)
        encoder = tf.function(encoder, autograph=False).get_concrete_function(texts)

    def elwc(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return {SCORES: scored(in_protos.parse(examples))}

    def predict(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {tf.saved_model.PREDICT_OUTPUTS: scored(in_protos.parse(inputs))}

    def regress(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        scores = scored(in_protos.parse_items(inputs))
        return {tf.saved_model.REGRESS_OUTPUTS: scores[:, 0]}

    def ids(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {SCORES: scored(inputs)}

    protos = {
        name: {name: tf.TensorSpec([None], tf.string, name)}
        for name in ("examples", tf.saved_model.PREDICT_INPUTS)
    }
    found: Functions = {
        **of_requests(scored, request, spec, lambda x: with_ids(x, spec, encoder)),
        ELWC_SIGNATURE: (elwc, protos["examples"]),
        PREDICT_SIGNATURE: (predict, protos[tf.saved_model.PREDICT_INPUTS]),
    }
    if spec is not None and not spec.is_numeric:
        found[IDS_SIGNATURE] = ids, specs
    if not in_protos.shared_names and not looks_across_lists(model):
        found[REGRESS_SIGNATURE] = regress, protos[tf.saved_model.REGRESS_INPUTS]
    return traced(found)


Functions = dict[str, tuple[Callable, Mapping[str, tf.TensorSpec]]]


def traced(functions: Functions) -> dict[str, Callable]:
    """Returns functions for inputs of given shapes and types, by their names."""
    return {
        name: tf.function(function, autograph=False).get_concrete_function(**specs)
        for name, (function, specs) in functions.items()
    }


def of_requests(
    scored: Callable[[Mapping[str, tf.Tensor]], tf.Tensor],
    request: Mapping[str, tf.TensorSpec],
    spec: FeatureSpec | None,
    encoded: Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]] = dict,
    of_items: Sequence[str] = (FEATURES, IDS),
) -> Functions:
    """Returns the signatures that take requests, with their inputs.

    Args:
        scored: returns scores of what `encoded` returns, and the mask.
        request: the inputs of a request, without the mask.
        spec: what the features are, if they are not only numbers.
        encoded: makes of a request what is scored.
        of_items: what that has of items, the first of which there is.
    """

    def serving_default(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        found = encoded(inputs)
        items = next(found[name] for name in of_items if name in found)
        found[MASK] = tf.ones(tf.shape(items)[:2], tf.bool)
        return {SCORES: scored(found)}

    def masked(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {SCORES: scored(encoded(inputs))}

    def rank(topn: tf.Tensor, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        scores = scored(encoded(inputs))
        return {SCORES: scores, ORDER: _best_first(scores, inputs[MASK], topn)}

    def features(mask: tf.Tensor) -> dict[str, tf.Tensor]:
        return {FEATURES_SIGNATURE: tf.fill(tf.shape(mask), json.dumps(of_spec(spec)))}

    mask = {MASK: tf.TensorSpec([None, None], tf.bool, MASK)}
    topn = {TOPN: tf.TensorSpec([None], tf.int32, TOPN)}
    found: Functions = {
        DEFAULT_SIGNATURE: (serving_default, request),
        MASKED_SIGNATURE: (masked, {**request, **mask}),
        RANK_SIGNATURE: (rank, {**request, **mask, **topn}),
    }
    if spec is not None and not spec.is_numeric:
        found[FEATURES_SIGNATURE] = features, mask
    return found


def width_of(model: ScoringModel) -> int:
    """Returns how many numbers of an item a model takes."""
    return model.input[FEATURES].shape[-1] if FEATURES in model.input else 0


def numbers_of(model: ScoringModel) -> int:
    """Returns how many of these are not of embeddings."""
    found = [x for x in layers.all_layers(model) if isinstance(x, Embeddings)]
    return found[0].num_numbers if found else width_of(model)


def fills_missing(model: ScoringModel) -> bool:
    """Returns whether a model takes features that are NaN, which are missing.

    Args:
        model: a model of the inputs of a batch. Of one that combines several, all must.
    """
    if not any(isinstance(layer, FillMissing) for layer in layers.all_layers(model)):
        return False
    unknown = np.zeros([1, 2, width_of(model)], np.float32)
    unknown[..., : numbers_of(model)] = np.nan
    return bool(np.isfinite(_scores(model, _drawn(model, unknown))).all())


def looks_across_lists(model: ScoringModel) -> bool:
    """Returns whether the score of an item depends on the other items of its list.

    It does if a layer of the model says so, or if an item of a random list has
    another score alone.

    Args:
        model: a model of the inputs of a batch.
    """
    if layers.declares_across_lists(model):
        return True
    rng = np.random.default_rng(0)
    for spread in _SPREADS:
        lists = rng.normal(0, spread, [4, 6, width_of(model)]).astype(np.float32)
        inputs = _drawn(model, lists, rng)
        together = _scores(model, inputs)
        apart = {
            key: np.repeat(x, 6, axis=0)
            if key == CONTEXT_IDS
            else x.reshape(24, 1, *x.shape[2:])
            for key, x in inputs.items()
        }
        alone = _scores(model, apart).reshape(4, 6)
        scale = np.abs(together).max(initial=1e-30)
        if not np.allclose(together, alone, rtol=0, atol=1e-2 * scale):
            return True
    return False


def _drawn(
    model: ScoringModel, features: np.ndarray, rng: Any = None
) -> dict[str, np.ndarray]:
    """Returns inputs of a model with some features, and values of its categories."""
    inputs = {FEATURES: features, MASK: np.ones(features.shape[:2], bool)}
    keys = [layer.keys for layer in layers.all_layers(model) if hasattr(layer, "keys")]
    known = np.concatenate([np.asarray(x) for x in keys] or [np.zeros(1, np.int64)])
    rng = rng or np.random.default_rng(0)
    for key, shape in ((IDS, features.shape[:2]), (CONTEXT_IDS, features.shape[:1])):
        if key in model.input:
            inputs[key] = rng.choice(known, [*shape, model.input[key].shape[-1]])
    return {key: x for key, x in inputs.items() if key in model.input}


def _scores(model: ScoringModel, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.asarray(model({key: tf.constant(x) for key, x in inputs.items()}))


def _best_first(scores: tf.Tensor, mask: tf.Tensor, topn: tf.Tensor) -> tf.Tensor:
    """Returns the positions of the best items, and then -1, `[batch, list]`."""
    topn = with_shape(topn, [None])
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
