"""What a request has: the inputs of a signature, and what the model gets of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from tfr_ext.data.batches.batching import CONTEXT_IDS, FEATURES, IDS, MASK
from tfr_ext.data.features import FeatureSpec
from tfr_ext.data.fingerprints import MISSING, fingerprint, ids_of, several, words

Embed = Callable[[tf.Tensor], tf.Tensor]


def request_signature(
    num_features: int, spec: FeatureSpec | None
) -> dict[str, tf.TensorSpec]:
    """Returns the inputs of a request, without the mask, see `signatures`."""
    inputs = {}
    if spec is not None:
        num_features = spec.num_numbers
    if num_features or spec is None:
        shape = [None, None, num_features]
        inputs[FEATURES] = tf.TensorSpec(shape, tf.float32, FEATURES)
    for feature, name in spec.inputs if spec else ():
        shape = [None] * (1 + (not feature.context) + feature.has_several)
        dtype = tf.string
        if feature.kind == "embedding" and not feature.as_text:
            shape, dtype = [*shape, feature.width], tf.float32
        inputs[name] = tf.TensorSpec(shape, dtype, name)
    return inputs


def with_ids(
    inputs: Mapping[str, tf.Tensor],
    spec: FeatureSpec | None,
    encoder: Embed | None = None,
) -> dict[str, tf.Tensor]:
    """Returns inputs with ids in place of texts, and embeddings among the numbers."""
    found = {key: inputs[key] for key in (FEATURES, MASK) if key in inputs}
    parts: dict[str, list[tf.Tensor]] = {IDS: [], CONTEXT_IDS: []}
    for feature, name in spec.inputs if spec else ():
        rank = 1 + (not feature.context) + feature.has_several
        if feature.kind == "embedding":
            continue
        texts = with_shape(inputs[name], [None] * rank)
        key = CONTEXT_IDS if feature.context else IDS
        if feature.kind == "text":
            of_words = ids_of(words(tf.reshape(texts, [-1])), feature.width, "text")
            shape = tf.concat([tf.shape(texts), [feature.width]], axis=0)
            parts[key].append(tf.reshape(of_words, shape))
            continue
        if feature.is_integer:
            texts = tf.strings.regex_replace(texts, r"\.0+$", "")
        found_ids = fingerprint(texts)
        if feature.width == 1:
            found_ids = found_ids[..., tf.newaxis]
        else:
            found_ids = found_ids[..., : feature.width]
            fill = feature.width - tf.shape(found_ids)[-1]
            paddings = [[0, 0]] * (rank - 1) + [[0, fill]]
            found_ids = tf.pad(found_ids, paddings, constant_values=MISSING)
            shape = [None] * (rank - 1) + [feature.width]
            found_ids = several(tf.ensure_shape(found_ids, shape))
        parts[key].append(found_ids)
    for key, several_ids in parts.items():
        if several_ids:
            found[key] = tf.concat(several_ids, axis=-1)
    if spec is not None and spec.embeddings:
        found[FEATURES] = _with_embeddings(inputs, spec, encoder, found)
    return found


def _with_embeddings(
    inputs: Mapping[str, tf.Tensor],
    spec: FeatureSpec,
    encoder: Embed | None,
    found: Mapping[str, tf.Tensor],
) -> tf.Tensor:
    """Returns the numbers of items with those of embeddings behind them."""
    parts = [found[FEATURES]] if FEATURES in found else []
    names, of_lists = dict(spec.inputs), list[tf.Tensor]()
    for one in spec.embeddings:
        shape: list[int | None] = [None] * (1 + (not one.context))
        if one.as_text:
            assert encoder is not None
            texts = with_shape(inputs[names[one]], shape)
            vectors = encoder(tf.reshape(texts, [-1]))
            of_texts = tf.concat([tf.shape(texts), [one.width]], axis=0)
            vectors = tf.reshape(vectors, of_texts)
        else:
            vectors = with_shape(inputs[names[one]], [*shape, one.width])
        (of_lists if one.context else parts).append(vectors)
    of_items = parts[0] if parts else found[IDS]
    size = tf.shape(of_items)[1]
    for x in of_lists:
        fits = tf.debugging.assert_equal(
            tf.shape(x)[0], tf.shape(of_items)[0], "expected a context for each list."
        )
        with tf.control_dependencies([fits]):
            parts.append(tf.repeat(x[:, tf.newaxis], size, axis=1))
    return tf.concat(parts, axis=-1)


def with_shape(tensor: tf.Tensor, shape: list[int | None]) -> tf.Tensor:
    """Returns a tensor whose shape is checked at run time.

    The placeholder hides the static shape, or TensorFlow would skip the check.
    """
    hidden = tf.compat.v1.placeholder_with_default(tensor, [None] * len(shape))
    return tf.ensure_shape(hidden, shape)
