"""Parses several ELWC records at a time with TensorFlow's own ops.

The ops refuse a few records that the format allows, and do not say which number is
wrong. So nothing here raises an error that users see: records that it cannot validate
are re-read, one by one, by `diagnosis`. Inside an example, the ops also take a little
that protobuf refuses, such as an unwanted feature whose name is not UTF-8, and of two
lists in one feature, which no library writes, they read the first.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from tfr_ext.core.grades import are_distributions
from tfr_ext.data.elwc import diagnosis
from tfr_ext.data.elwc.message import split_protos
from tfr_ext.data.elwc.schema import Chunk, ElwcSchema, Widths
from tfr_ext.data.features import Feature, FeatureSpec
from tfr_ext.data.fingerprints import ids_and_faults

# The numbers that stand for an absent feature, and their bytes: a record that contains
# them itself cannot be validated.
_NONE = {tf.float32: diagnosis.ABSENT, tf.int64: np.int64(tf.int64.min)}
_BYTES_OF_NONE = (diagnosis.ABSENT.tobytes(), b"\x80" * 9)


@functools.lru_cache(maxsize=16)
def parser(schema: ElwcSchema, widths: Widths) -> Parser:
    """Returns a parser, cached by the arguments, as making one takes time."""
    return Parser(schema, widths)


class Parser:
    """Parses records whose features have the kinds and widths of the first record."""

    def __init__(self, schema: ElwcSchema, widths: Widths):
        """Initialises the parser with the widths that `diagnosis.measure` found."""
        self._schema = schema
        self._widths = widths
        spec = schema.packed or schema.spec_of(widths)
        self.spec = None if spec.is_numeric else spec
        self._categories = schema.parsed_categories(widths)
        of_items, of_lists = widths.integers

        def numbers(name: str, width: int, integers: frozenset[str]) -> object:
            kind = tf.int64 if name in integers else tf.float32
            return tf.io.FixedLenFeature([width], kind, np.full(width, _NONE[kind]))

        def one_or_none(name: str, integers: frozenset[str]) -> object:
            return tf.io.VarLenFeature(tf.int64 if name in integers else tf.string)

        def names(x: Feature) -> object:
            kind = tf.int64 if x.is_integer else tf.string
            return tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64)

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
        self._examples |= {x.name: names(x) for x in self._categories[False]}
        self._context |= {x.name: names(x) for x in self._categories[True]}
        if schema.label_distribution and widths.grades is None:
            unwanted = tf.io.VarLenFeature(tf.float32)
            self._examples[schema.label_distribution] = unwanted
        if schema.doc_id:
            self._examples[schema.doc_id] = one_or_none(schema.doc_id, of_items)
        if schema.query_id and schema.query_id not in self._context:
            self._context[schema.query_id] = one_or_none(schema.query_id, of_lists)
        self._graphs: dict[bool, tf.types.experimental.ConcreteFunction] = {}

    def graph(self, with_padding: bool) -> tf.types.experimental.ConcreteFunction:
        """Returns the function from protos `[records]` to their numbers and names.

        It raises a `tf.errors.OpError` if it cannot validate them. To parse padding,
        too, is faster where lists are about as long as each other, and needs a multiple
        of the memory where they are not.
        """
        if with_padding not in self._graphs:
            self._graphs[with_padding] = tf.function(
                lambda protos: self._parse(protos, with_padding),
                input_signature=[tf.TensorSpec([None], tf.string)],
                autograph=False,
            ).get_concrete_function()
        return self._graphs[with_padding]

    def parse(self, records: tf.Tensor, path: str, first_record: int) -> Chunk:
        """Parses records, with `diagnosis` if it cannot validate them.

        Args:
            records: serialised `ExampleListWithContext` protos `[records]`.
            path: their file, for messages.
            first_record: number of the first of them in the file, from 1.

        Raises:
            DataFormatError: If a record is wrong.
        """
        chunk = self.parse_quickly(records)
        if chunk is not None:
            return chunk
        chunk = diagnosis.parse_slowly(
            records.numpy().tolist(), path, first_record, self._schema, self._widths
        )
        ids = _unpacked(records, self._schema.packed)
        return dataclasses.replace(chunk, **{k: x.numpy() for k, x in ids.items()})

    def parse_quickly(
        self, records: tf.Tensor, with_padding: bool = False
    ) -> Chunk | None:
        """Parses records with a `graph`; returns None if it cannot validate them."""
        try:
            found = self.graph(with_padding)(records)
        except (tf.errors.OpError, UnicodeDecodeError):  # Its message has the bytes.
            return None
        return self.checked(found)

    def checked(self, found: dict[str, tf.Tensor]) -> Chunk | None:
        """Returns the records that `graph` parsed; None if it cannot validate them."""
        # A view: `numpy()` would make a copy.
        features = np.asarray(memoryview(found["features"]))
        values = {
            name: tensor.numpy()
            for name, tensor in found.items()
            if name not in ("features", "records")
        }
        lengths, contexts = values["sizes"].T
        # The op passes over what it does not know.
        known = _field_bytes(values["example_bytes"], lengths)
        known += _field_bytes(values["context_bytes"], contexts)
        fine = (lengths > 0).all() and (contexts <= 1).all()
        fine &= (known == values["record_bytes"]).all()
        num_absent = 0
        if not np.isfinite(values["sum"]):  # or only the sum is too large
            schema = self._schema
            features, num_absent = diagnosis.filled(features, schema.missing_value)
            wrong = np.isinf(features) if schema.takes_nan else ~np.isfinite(features)
            fine &= not wrong.any() and not (num_absent and _has_none(found["records"]))
        # -0.0 becomes 0.0; not in the graph, where subnormal numbers would, too.
        labels = values["labels"] + np.float32(0)
        judged = labels >= 0
        weights, shares = values.get("weights"), values.get("distributions")
        fine &= np.isfinite(labels).all()
        if weights is not None:
            fine &= np.isfinite(weights).all() and (weights[judged] >= 0).all()
        if shares is not None:
            fine &= (
                np.isfinite(shares).all() and are_distributions(shares[judged]).all()
            )
        fine &= not len(values.get("unwanted", ()))
        fine &= all(values.get(f"{x}_shape", (0, 0))[1] <= 1 for x in ("doc", "query"))
        names = _names(values.get("doc_ids", ()))
        query_names = _names(values.get("query_ids", ()))
        if not fine or names is None or query_names is None:
            return None
        query_ids: list[str | None] = [None] * len(lengths)
        for record, name in zip(values.get("named", np.empty([0, 2])), query_names):
            query_ids[record[0]] = name
        return Chunk(
            features,
            labels,
            lengths,
            query_ids,
            names if len(names) == len(labels) else None,
            shares,
            weights,
            num_absent,
            values.get("ids"),
            values.get("context_ids"),
            tuple(map(int, values.get("faults", (0, 0)))),
        )

    # Each operation costs about .2 ms whenever a dataset of records starts. So what is
    # little work is left to `checked`.
    def _parse(self, protos: tf.Tensor, with_padding: bool) -> dict[str, tf.Tensor]:
        schema = self._schema
        sizes, examples, contexts = split_protos(protos)
        lengths = sizes[:, 0]
        found = self._parse_examples(examples, lengths, with_padding)
        parts = [found[name] for name in schema.features]
        made = {
            "records": protos,
            "sizes": sizes,
            "record_bytes": tf.strings.length(protos),
            "example_bytes": tf.strings.length(examples),
            "context_bytes": tf.strings.length(contexts),
            **_unpacked(protos, schema.packed),
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
                if isinstance(query_ids, tf.RaggedTensor):  # It is a text, too.
                    query_ids = query_ids.to_sparse()
                made["query_ids"] = query_ids.values
                made["query_shape"] = query_ids.dense_shape
                made["named"] = query_ids.indices
            _add_ids(made, "context_ids", context, self._categories[True])
        _add_ids(made, "ids", found, self._categories[False])
        parts = parts or [tf.zeros([tf.reduce_sum(lengths), 0])]
        parts = [_as_float(part) for part in parts]
        features = tf.concat(parts, axis=1) if len(parts) > 1 else parts[0]
        made["sum"] = tf.reduce_sum(features)
        made["features"] = features
        if schema.label is not None:
            made["labels"] = _as_float(found[schema.label][:, 0])
        else:
            made["labels"] = tf.zeros([tf.reduce_sum(lengths)])
        if schema.weight:
            made["weights"] = _as_float(found[schema.weight][:, 0])
        if schema.label_distribution:
            shares = found[schema.label_distribution]
            if self._widths.grades is None:
                made["unwanted"] = shares.values
            else:
                made["distributions"] = _as_float(shares)
        if schema.doc_id:
            made["doc_ids"] = found[schema.doc_id].values
            made["doc_shape"] = found[schema.doc_id].dense_shape
        return made

    def _parse_examples(
        self, examples: tf.Tensor, lengths: tf.Tensor, with_padding: bool
    ) -> dict:
        """Returns the features of the real examples of some records."""
        real = tf.sequence_mask(lengths, tf.shape(examples)[1])
        if not with_padding:
            examples = tf.boolean_mask(examples, real)
            return tf.io.parse_example(examples, self._examples)
        # Padding has no names, and so no place among those of a sparse tensor.
        found = tf.io.parse_example(tf.reshape(examples, [-1]), self._examples)
        rows = tf.where(tf.reshape(real, [-1]))
        return {
            name: x if isinstance(x, tf.SparseTensor) else tf.gather_nd(x, rows)
            for name, x in found.items()
        }


def _add_ids(
    made: dict[str, tf.Tensor], key: str, found: dict, categories: Sequence[Feature]
) -> None:
    """Adds the ids of categories and texts, and to the numbers of `Chunk.faults`."""
    if categories:
        each = [ids_and_faults(found[x.name], x.width, x.kind) for x in categories]
        ids, faults = zip(*each)
        made[key] = tf.concat(ids, axis=1)
        made["faults"] = made.get("faults", 0) + tf.add_n(faults)


def _unpacked(protos: tf.Tensor, spec: FeatureSpec | None) -> dict[str, tf.Tensor]:
    """Returns the ids in records of prepared shards, as a `Chunk` has them."""
    if spec is None:
        return {}
    sizes, examples, contexts = split_protos(protos)
    real = tf.sequence_mask(sizes[:, 0], tf.shape(examples)[1])
    found = {}
    for name, texts, width in (
        ("ids", tf.boolean_mask(examples, real), spec.num_ids),
        ("context_ids", tf.strings.reduce_join(contexts, 1), spec.num_context_ids),
    ):
        if width:
            one = {name: tf.io.FixedLenFeature([], tf.string, "")}
            parsed = tf.io.parse_example(texts, one)[name]
            found[name] = tf.io.decode_raw(parsed, tf.int64)
    return found


def _as_float(x: tf.Tensor) -> tf.Tensor:
    if x.dtype == tf.float32:
        return x
    absent = x == _NONE[tf.int64]
    return tf.where(absent, tf.constant(_NONE[tf.float32]), tf.cast(x, tf.float32))


def _has_none(records: tf.Tensor) -> bool:
    """Returns whether an example may have a number that stands for an absent one."""
    return any(none in x for x in records.numpy().tolist() for none in _BYTES_OF_NONE)


def _field_bytes(content: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Returns the bytes `[batch]` of fields whose contents take `[batch, fields]`."""
    whole = content + 2
    for bits in (7, 14, 21, 28):
        whole += content >= 1 << bits
    whole[np.arange(content.shape[1]) >= count[:, np.newaxis]] = 0
    return whole.sum(axis=1)


def _names(values: Iterable) -> list[str] | None:
    """Returns names as text; None if one of them is wrong."""
    try:
        names = [x.decode() if isinstance(x, bytes) else str(x) for x in values]
    except UnicodeDecodeError:
        return None
    return names if all(names) else None
