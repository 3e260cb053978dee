"""The numbers that stand for the values of categories: in readers and in requests."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

MISSING, FILL = -1, -2
"""The ids of a missing value, and of places that no value of an item takes."""
MOST_VALUES = 8
"""How many values of a category an item has at most."""


def fingerprint(texts: tf.Tensor) -> tf.Tensor:
    """Returns the int64 fingerprint of each text: any bytes; `MISSING` if it is empty.

    Examples:
        >>> fingerprint(tf.constant(["", "acme"])).numpy().tolist()
        [-1, 301347925294522931]
    """
    found = tf.strings.to_hash_bucket_fast(texts, 2**63 - 1)
    return tf.where(tf.equal(texts, ""), tf.constant(MISSING, tf.int64), found)


def several(ids: tf.Tensor) -> tf.Tensor:
    """Returns the ids of the values of items, with `FILL` for those that are missing.

    Only an item without a value keeps `MISSING`, in the first place.

    Args:
        ids: the ids of the values, `[..., width]`.
    """
    if ids.shape[-1] == 1:
        return ids
    missing = tf.equal(ids, MISSING)
    none = tf.reduce_all(missing, axis=-1, keepdims=True)
    first = tf.equal(tf.range(tf.shape(ids)[-1]), 0)
    kept = tf.where(missing, tf.constant(FILL, tf.int64), ids)
    return tf.where(none & first, tf.constant(MISSING, tf.int64), kept)


def texts_of(values: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns the values of a category as texts, without empty ones.

    Args:
        values: texts or integers, `[items, (values)]`.
    """
    if values.dtype == tf.int64:
        values = values.with_flat_values(tf.strings.as_string(values.flat_values))
    return tf.ragged.boolean_mask(values, tf.not_equal(values, ""))


def ids_of(values: tf.RaggedTensor, width: int) -> tf.Tensor:
    """Returns the ids of the values of a category, `[items, width]`.

    Args:
        values: what `texts_of` returned.
        width: how many values an item has at most; those beyond are left out. With 1,
            an item that has two is an error (`tf.errors.InvalidArgumentError`).
    """
    if width == 1:
        single = tf.debugging.assert_less(
            tf.reduce_max(tf.concat([values.row_lengths(), [0]], axis=0)),
            tf.constant(2, tf.int64),
            "A category has several values; it had one in training.",
        )
        with tf.control_dependencies([single]):
            values = values.with_flat_values(tf.identity(values.flat_values))
    return several(fingerprint(values.to_tensor("", shape=[None, width])))


def of_values(texts: list[bytes]) -> np.ndarray:
    """Returns the fingerprints of texts in memory."""
    return fingerprint(tf.constant(np.array(texts, object), tf.string)).numpy()
