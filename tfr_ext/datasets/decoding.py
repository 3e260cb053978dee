"""Decodes the lists of a prepared data set, several at a time.

TensorFlow Datasets decodes one list after the other. What the collections have, bytes
and plain numbers, is quicker to decode together.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import messages
from tfr_ext.data.batches import batch_datasets
from tfr_ext.datasets import catalogue

# Values of a piece: the arrays of a larger one leave the cache of the processor.
_PIECE_BYTES = 1 << 21
_QUERIES_PER_PIECE = 64
_MOST_QUERIES_PER_PIECE = 256

FEATURES, LABEL, QUERY_ID = "float_features", "label", "query_id"
DOC_ID = "doc_id"
_OTHERS = DOC_ID, "label_distribution"
SEPARATOR = "\0"
"""Between identifiers of documents: it is quicker to take them out of one text."""

# Stands for a missing value in the Istella sets.
MISSING = np.finfo(np.float64).max

Values = dict[str, tf.Tensor]
"""Values of all items by field, of all lists for `query_id`, and the `splits` of the
items into lists."""


@dataclasses.dataclass(frozen=True)
class StoredLists:
    """The lists of a split.

    Attributes:
        pieces: some lists at a time, as they are stored.
        decode: maps a piece to its values.
        decoded: the values of each piece with features in float32, 0 where they are
            missing, and the identifiers of documents in one text, see `SEPARATOR`;
            `num_missing`; and whether all features are finite, and all labels also not
            negative (`fine`), and each field has as many values (`fits`).
    """

    pieces: tf.data.Dataset
    decode: Callable[..., Values]
    decoded: tf.data.Dataset


def stored_lists(builder: Any, split: str) -> StoredLists:
    """Returns the lists of a split, or a part of one, of a builder from `prepare`."""
    names = [FEATURES, LABEL, QUERY_ID]
    names += [name for name in _OTHERS if name in builder.info.features]
    codecs = [(name, _codec(builder.info.features[name])) for name in names]
    is_simple = all(codec is not None for _, codec in codecs)
    if not is_simple or builder.info.file_format.value != "tfrecord":
        # A warning of TFDS about its own use of its own interface.
        with messages.without_logged("`FeatureConnector.dtype` is deprecated"):
            lists = builder.as_dataset(split=split)
        pieces = lists.ragged_batch(_QUERIES_PER_PIECE)
        decode: Callable[..., Values] = functools.partial(_flat_values, names)
        decoded = pieces.map(
            tf.autograph.experimental.do_not_convert(
                lambda piece: _narrowed(decode(piece))
            ),
            num_parallel_calls=os.cpu_count(),
        )
        return StoredLists(pieces, decode, decoded.prefetch(2))
    found = builder.info.splits[split]
    size = _PIECE_BYTES * found.num_examples // max(1, found.num_bytes)
    size = min(max(1, size), _MOST_QUERIES_PER_PIECE)
    pieces = _records(found.file_instructions).batch(size)
    decode, graph = _decoder(tuple(codecs))
    return StoredLists(pieces, decode, batch_datasets.in_parallel(pieces, graph))


@dataclasses.dataclass(frozen=True)
class _Codec:
    """How the values of a feature are stored, `width` of them for each item.

    With a `dtype`, they are stored as bytes. `spec` is for `tf.io.parse_example`.
    """

    spec: Any
    dtype: tf.DType | None = None
    compression: str = ""
    width: int = 1

    def decode(self, stored: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the values of all lists, and how many items each list has."""
        if self.dtype is None:
            values, count = stored.flat_values, stored.row_lengths()
        else:
            if self.compression:
                stored = tf.io.decode_compressed(stored, self.compression)
            values = tf.io.decode_raw(tf.strings.reduce_join(stored), self.dtype)
            size = self.dtype.size
            count = tf.cast(tf.strings.length(stored), tf.int64) // size
        return values, count // self.width


def _codec(feature: Any) -> _Codec | None:
    """Returns how a feature is stored; None if it is not stored in a simple way."""
    tfds = catalogue.import_tfds()
    if isinstance(feature, tfds.features.Text) and feature.shape == ():
        return _Codec(tf.io.FixedLenFeature((), tf.string))
    if type(feature) is not tfds.features.Tensor or feature.shape[:1] != (None,):
        return None
    stored, rest = feature.get_serialized_info(), feature.shape[1:]
    if isinstance(stored, dict) or None in rest or not all(rest) or stored.optional:
        return None
    width = math.prod(rest)
    kind = feature.to_json_content().encoding
    if kind in ("bytes", "zlib"):
        spec = tf.io.FixedLenFeature((), tf.string)
        compression = "ZLIB" if kind == "zlib" else ""
        return _Codec(spec, feature.tf_dtype, compression, width)
    dtype = feature.tf_dtype
    if not dtype == tf.string:
        dtype = tf.int64 if dtype.is_integer or dtype.is_bool else tf.float32
    return _Codec(tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64), width=width)


def _records(instructions: Any) -> tf.data.Dataset:
    if all(not x.skip and x.takes_all for x in instructions):
        return batch_datasets.read([str(x.filename) for x in instructions])
    records = None
    for x in instructions:
        part = batch_datasets.read([str(x.filename)]).skip(x.skip).take(x.take)
        records = part if records is None else records.concatenate(part)
    return records


@functools.lru_cache(maxsize=16)
def _decoder(
    codecs: tuple[tuple[str, _Codec], ...],
) -> tuple[Callable[..., Values], tf.types.experimental.ConcreteFunction]:
    """Returns the function that decodes examples, and its graph; slow to make."""
    decode = functools.partial(_decoded, dict(codecs))
    graph = tf.function(
        lambda records: _narrowed(decode(records)),
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    return decode, graph.get_concrete_function()


def _decoded(codecs: dict[str, _Codec], records: tf.Tensor) -> Values:
    """Decodes serialised examples `[lists]`."""
    specs = {name: codec.spec for name, codec in codecs.items()}
    stored = tf.io.parse_example(records, specs)
    made = {QUERY_ID: stored.pop(QUERY_ID)}
    made[FEATURES], counts = codecs[FEATURES].decode(stored.pop(FEATURES))
    made[FEATURES] = tf.reshape(made[FEATURES], [-1, codecs[FEATURES].width])
    made["splits"] = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(counts)], 0)
    fits = tf.constant(True)
    for name in stored:
        made[name], others = codecs[name].decode(stored[name])
        fits &= tf.reduce_all(others == counts)
        if codecs[name].width > 1:
            made[name] = tf.reshape(made[name], [-1, codecs[name].width])
    return {**made, "fits": fits}


def _flat_values(names: list[str], batch: dict[str, Any]) -> Values:
    """Joins what TensorFlow Datasets decoded."""
    counts = batch[FEATURES].row_lengths()
    made = {QUERY_ID: batch[QUERY_ID], "splits": batch[FEATURES].row_splits}
    fits = tf.constant(True)
    for name in names:
        if name != QUERY_ID:
            made[name] = batch[name].flat_values
            fits &= tf.reduce_all(batch[name].row_lengths() == counts)
    return {**made, "fits": fits}


def _narrowed(values: Values) -> Values:
    features = values[FEATURES]
    if features.dtype == tf.float64:
        missing = features == MISSING
        features = tf.where(missing, tf.zeros_like(features), features)
        num_missing = tf.math.count_nonzero(missing)
    else:
        num_missing = tf.constant(0, tf.int64)
    narrow = tf.cast(features, tf.float32)
    labels = tf.cast(values[LABEL], tf.float64)
    fine = tf.reduce_all(tf.math.is_finite(labels) & (labels >= 0))
    made = {
        **values,
        FEATURES: narrow,
        "num_missing": num_missing,
        "fine": fine & tf.reduce_all(tf.math.is_finite(narrow)),
    }
    if DOC_ID in values:
        names = values[DOC_ID]
        if names.dtype != tf.string:  # TFDS's own builders use line numbers.
            names = tf.strings.as_string(names)
        made[DOC_ID] = tf.strings.reduce_join(names, separator=SEPARATOR)
    return made
