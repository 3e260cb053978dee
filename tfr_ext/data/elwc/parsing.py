"""Parses several ELWC records at a time with TensorFlow's own ops.

The ops refuse a few records that the format allows, and do not say which number is
wrong. So nothing here raises an error that users see: records in any doubt are read
again, one by one, by `diagnosis`. Inside an example, the ops also take a little that
protobuf refuses, such as a feature whose name is not UTF-8 and that nobody asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from tfr_ext.data import text_files
from tfr_ext.data.elwc import diagnosis
from tfr_ext.data.elwc.diagnosis import Chunk, ElwcSchema, Widths
from tfr_ext.data.elwc.message import split_protos
from tfr_ext.data.lists import are_distributions


@functools.lru_cache(maxsize=16)
def parser(schema: ElwcSchema, widths: Widths) -> Parser:
    """Returns a parser, the same one for the same arguments: it takes time to make."""
    return Parser(schema, widths)


class Parser:
    """Parses records whose features have the kinds and widths of the first record.

    Attributes:
        graph: maps serialised protos `[records]` to their numbers and names; raises a
            `tf.errors.OpError` if in doubt about them.
    """

    def __init__(self, schema: ElwcSchema, widths: Widths):
        """Initialises the parser.

        Args:
            schema: names of the features.
            widths: what `diagnosis.measure` found.
        """
        self._schema = schema
        self._widths = widths
        of_items, of_lists = widths.integers

        def numbers(name: str, width: int, integers: frozenset[str]) -> object:
            kind = tf.int64 if name in integers else tf.float32
            return tf.io.FixedLenFeature([width], kind)

        def one_or_none(name: str, integers: frozenset[str]) -> object:
            return tf.io.VarLenFeature(tf.int64 if name in integers else tf.string)

        examples = dict(zip(schema.features, widths.features))
        if schema.label is not None:
            examples[schema.label] = 1
        if schema.weight:
            examples[schema.weight] = 1
        if widths.grades is not None:
            examples[schema.label_distribution] = widths.grades
        context = zip(schema.context_features, widths.context)
        self._examples = {x: numbers(x, n, of_items) for x, n in examples.items()}
        self._context = {x: numbers(x, n, of_lists) for x, n in context}
        if schema.label_distribution and widths.grades is None:
            unwanted = tf.io.VarLenFeature(tf.float32)
            self._examples[schema.label_distribution] = unwanted
        if schema.doc_id:
            self._examples[schema.doc_id] = one_or_none(schema.doc_id, of_items)
        if schema.query_id:
            self._context[schema.query_id] = one_or_none(schema.query_id, of_lists)
        self.graph = tf.function(
            self._parse,
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        ).get_concrete_function()

    def parse(self, records: tf.Tensor, path: str, first_record: int) -> Chunk:
        """Parses records, by `diagnosis` if in any doubt.

        Args:
            records: serialised `ExampleListWithContext` protos `[records]`.
            path: their file, for messages.
            first_record: number of the first of them in the file, from 1.

        Raises:
            DataFormatError: if a record is wrong.
        """
        chunk = self.parse_quickly(records)
        if chunk is not None:
            return chunk
        return diagnosis.parse_slowly(
            records.numpy().tolist(), path, first_record, self._schema, self._widths
        )

    def parse_quickly(self, records: tf.Tensor) -> Chunk | None:
        """Parses records; returns None if in any doubt.

        Args:
            records: serialised `ExampleListWithContext` protos `[records]`.
        """
        try:
            found = self.graph(records)
        except (tf.errors.OpError, UnicodeDecodeError):  # Its message has the bytes.
            return None
        return self.checked(found)

    def checked(self, found: dict[str, tf.Tensor]) -> Chunk | None:
        """Returns what `graph` found in records; None if in any doubt.

        Args:
            found: what it found.
        """
        # A view: `numpy()` would make a copy.
        features = np.asarray(memoryview(found["features"]))
        values = {
            name: tensor.numpy() for name, tensor in found.items() if name != "features"
        }
        # -0.0 becomes 0.0; not in the graph, where subnormal numbers would, too.
        labels = values["labels"] + np.float32(0)
        items, lengths = len(labels), values["lengths"]
        judged = labels >= 0
        weights, shares = values.get("weights"), values.get("distributions")
        fine = np.isfinite(labels).all()
        if weights is not None:
            fine &= np.isfinite(weights).all() and (weights[judged] >= 0).all()
        if shares is not None:
            fine &= (
                np.isfinite(shares).all() and are_distributions(shares[judged]).all()
            )
        names = _names(values.get("doc_ids", ()))
        query_names = _names(values.get("query_ids", ()))
        if not fine or names is None or query_names is None:
            return None
        query_ids: list[str | None] = [None] * len(lengths)
        for record, name in zip(values.get("named", ()), query_names):
            query_ids[record] = name
        return Chunk(
            features,
            labels,
            lengths,
            query_ids,
            names if len(names) == items else None,
            shares,
            weights,
        )

    def _parse(self, protos: tf.Tensor) -> dict[str, tf.Tensor]:
        schema = self._schema
        sizes, examples, contexts = split_protos(protos)
        lengths = sizes[:, 0]
        real = tf.sequence_mask(lengths, tf.shape(examples)[1])
        one = tf.sequence_mask(sizes[:, 1], tf.shape(contexts)[1])
        # The op passes over what it does not know.
        known = _field_bytes(examples, real) + _field_bytes(contexts, one)
        fine = tf.reduce_all(
            (lengths > 0) & (sizes[:, 1] <= 1) & (known == tf.strings.length(protos))
        )
        examples = tf.boolean_mask(examples, real)
        found = tf.io.parse_example(examples, self._examples)
        parts = [found[name] for name in schema.features]
        content = tf.reduce_sum(tf.strings.length(protos))
        made = {
            "lengths": lengths,
            "records_and_bytes": tf.stack([tf.size(protos), content]),
        }
        if self._context:
            context = tf.io.parse_example(
                tf.strings.reduce_join(contexts, axis=1), self._context
            )
            parts += [
                tf.repeat(context[name], lengths, axis=0)
                for name in schema.context_features
            ]
            if schema.query_id:
                query_ids = context[schema.query_id]
                fine &= query_ids.dense_shape[1] <= 1
                made["query_ids"] = query_ids.values
                made["named"] = query_ids.indices[:, 0]
        parts = [tf.cast(part, tf.float32) for part in parts]
        features = tf.concat(parts, axis=1) if len(parts) > 1 else parts[0]
        finite = tf.math.is_finite(features)
        if schema.missing:
            finite |= tf.math.is_nan(features)
        fine &= tf.reduce_all(finite)
        made["features"] = features
        labels = tf.zeros_like(features[:, 0])
        if schema.label is not None:
            labels = tf.cast(found[schema.label][:, 0], tf.float32)
        made["labels"] = labels
        if schema.weight:
            made["weights"] = tf.cast(found[schema.weight][:, 0], tf.float32)
        if schema.label_distribution:
            shares = found[schema.label_distribution]
            if self._widths.grades is None:
                fine &= tf.size(shares.values) == 0
            else:
                made["distributions"] = tf.cast(shares, tf.float32)
        if schema.doc_id:
            fine &= found[schema.doc_id].dense_shape[1] <= 1
            made["doc_ids"] = found[schema.doc_id].values
        tf.debugging.Assert(fine, ["in doubt"])
        return made


def _field_bytes(texts: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
    """Returns how many bytes of each proto the fields with these contents take.

    Args:
        texts: contents `[batch, fields]`.
        real: mask of those that are fields.
    """
    content = tf.strings.length(texts)
    digits = sum(tf.cast(content >= 1 << bits, tf.int32) for bits in (7, 14, 21, 28))
    return tf.reduce_sum(tf.where(real, content + digits + 2, 0), axis=1)


def _names(values: Iterable) -> list[str] | None:
    """Returns names as text; None if one of them is wrong."""
    try:
        names = [x.decode() if isinstance(x, bytes) else str(x) for x in values]
    except UnicodeDecodeError:
        return None
    return names if text_files.are_names(names) else None
