"""Reads the features of ELWC protos that a ranker takes, inside a TensorFlow graph."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from tfr_ext.data.batches.batching import CONTEXT_IDS, FEATURES, IDS, MASK
from tfr_ext.data.elwc import diagnosis
from tfr_ext.data.elwc.message import split_protos
from tfr_ext.data.elwc.schema import ElwcSchema
from tfr_ext.data.elwc.tfrecords import each_record, first_record
from tfr_ext.data.features import Feature, FeatureSpec
from tfr_ext.data.fingerprints import FILL, ids_of, parts_of

_EMBEDDINGS = "embeddings"  # They follow all other numbers.


@dataclasses.dataclass(frozen=True)
class ElwcFeatures:
    """The features of the protos that, in this order, are the features of an item.

    Attributes:
        examples: those of the examples.
        context: those of the context, which follow those of the examples.
        missing_value: each number of a feature that is absent.

    Examples:
        >>> from tfr_ext.data.elwc.message import ExampleListWithContext
        >>> features = ElwcFeatures((Feature("bm25"),))
        >>> elwc = ExampleListWithContext()
        >>> feature = elwc.examples.add().features.feature["bm25"]
        >>> feature.float_list.value.append(0.5)
        >>> found = features.parse(tf.constant([elwc.SerializeToString()]))
        >>> found["float_features"].numpy().tolist(), found["mask"].numpy().tolist()
        ([[[0.5]]], [[True]])
    """

    examples: tuple[Feature, ...]
    context: tuple[Feature, ...] = ()
    missing_value: float = 0.0

    def __post_init__(self) -> None:
        """Marks the features of the context as such."""
        context = (dataclasses.replace(x, context=True) for x in self.context)
        object.__setattr__(self, "context", tuple(context))

    @classmethod
    def of(cls, spec: FeatureSpec, missing_value: float = 0.0) -> ElwcFeatures:
        """Returns features that are called in protos as they are elsewhere."""
        examples = tuple(x for x in spec.features if not x.context)
        context = tuple(x for x in spec.features if x.context)
        return cls(examples, context, missing_value)

    @property
    def spec(self) -> FeatureSpec:
        """All of them."""
        return FeatureSpec((*self.examples, *self.context))

    @property
    def shared_names(self) -> list[str]:
        """Names that a feature of the examples and one of the context both have."""
        context = {feature.name for feature in self.context}
        return [x.name for x in self.examples if x.name in context]

    def parse(self, protos: tf.Tensor) -> dict[str, tf.Tensor]:
        """Reads the features of lists, as the inputs of a model.

        A number that is absent becomes `missing_value`. One of another width, which an
        empty one has, or a feature of another type is an error
        (`tf.errors.InvalidArgumentError`).

        Args:
            protos: serialised `ExampleListWithContext` protos `[batch]`.

        Returns:
            See `padded_batch`.
        """
        sizes, examples, contexts = split_protos(protos)
        mask = tf.sequence_mask(sizes[:, 0], tf.shape(examples)[1])
        positions = tf.where(mask)
        items = self._parse(tf.boolean_mask(examples, mask), self.examples)
        # Joined, they are one message by protobuf's rules; most have just one part.
        context = tf.strings.reduce_join(contexts, axis=1)
        lists = self._parse(context, self.context)
        for key in (FEATURES, _EMBEDDINGS):
            items[key] += [tf.gather(x, positions[:, 0]) for x in lists[key]]
        items[FEATURES] += items[_EMBEDDINGS]
        found = {MASK: mask}
        for key, padding in ((FEATURES, 0), (IDS, FILL)):
            if items[key]:
                values = tf.concat(items[key], axis=1)
                width = values.shape[1]
                shape = tf.concat([tf.shape(mask), [width]], axis=0)
                shape = tf.cast(shape, tf.int64)
                if padding:  # What is scattered lies on zeros.
                    values -= padding
                scattered = tf.scatter_nd(positions, values, shape)
                if padding:
                    scattered += padding
                found[key] = tf.ensure_shape(scattered, [None, None, width])
        if lists[IDS]:
            found[CONTEXT_IDS] = tf.concat(lists[IDS], axis=1)
        return found

    def parse_items(self, protos: tf.Tensor) -> dict[str, tf.Tensor]:
        """Reads the features of single items, whose protos have those of the context.

        Args:
            protos: serialised `tf.train.Example` protos `[items]`.

        Returns:
            See `padded_batch`; each list has one item.
        """
        items, lists = (self._parse(protos, x) for x in (self.examples, self.context))
        items[FEATURES] += lists[FEATURES]
        items[FEATURES] += items.pop(_EMBEDDINGS) + lists[_EMBEDDINGS]
        found = {}
        for key, parts in items.items():
            if parts:
                found[key] = tf.concat(parts, axis=1)[:, tf.newaxis]
        if lists[IDS]:
            found[CONTEXT_IDS] = tf.concat(lists[IDS], axis=1)
        found[MASK] = tf.ones([tf.shape(protos)[0], 1], tf.bool)
        return found

    def _parse(
        self, examples: tf.Tensor, features: tuple[Feature, ...]
    ) -> dict[str, list[tf.Tensor]]:
        """Returns the numbers and the ids of features."""
        parts: dict[str, list[tf.Tensor]] = {FEATURES: [], _EMBEDDINGS: [], IDS: []}
        if not features:
            return parts
        specs = {x.name: parsed_as(x, self.missing_value) for x in features}
        found = tf.io.parse_example(examples, specs)
        for x in features:
            if x.kind == "embedding":
                parts[_EMBEDDINGS].append(found[x.name])
            elif x.kind == "number":
                parts[FEATURES].append(_floats(found[x.name], x, self.missing_value))
            else:
                values = parts_of(found[x.name], x.kind)
                parts[IDS].append(ids_of(values, x.width, x.kind))
        return parts


def parsed_as(feature: Feature, missing_value: float) -> Any:
    """Returns how `tf.io.parse_example` reads a feature."""
    if feature.kind == "embedding":
        missing_value = 0.0
    elif feature.kind != "number":
        dtype = tf.int64 if feature.is_integer else tf.string
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
    dtype = tf.int64 if feature.is_integer else tf.float32
    # No integer is NaN: the lowest one, which no feature has, stands for it.
    absent = tf.int64.min if feature.is_integer else missing_value
    return tf.io.FixedLenFeature([feature.width], dtype, [absent] * feature.width)


def elwc_parsing(
    spec: FeatureSpec, missing_value: float = 0.0
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns how `tf.io.parse_example` reads contexts, and how it reads examples.

    Args:
        spec: the features. Categories and texts are then ragged texts or integers.
        missing_value: what a number becomes where it is absent; an int64 becomes the
            lowest one.

    Examples:
        >>> _, examples = elwc_parsing(FeatureSpec((
        ...     Feature("price"), Feature("brand", "category"))))
        >>> example = tf.train.Example()
        >>> example.features.feature["brand"].bytes_list.value.append(b"acme")
        >>> found = tf.io.parse_example([example.SerializeToString()], examples)
        >>> found["price"].numpy().tolist(), found["brand"].to_list()
        ([[0.0]], [[b'acme']])
    """
    context, examples = (
        {x.name: parsed_as(x, missing_value) for x in spec.features if x.context == of}
        for of in (True, False)
    )
    return context, examples


def _floats(found: tf.Tensor, feature: Feature, missing_value: float) -> tf.Tensor:
    """Returns parsed numbers as floats."""
    if not feature.is_integer:
        return found
    floats = tf.cast(found, tf.float32)
    return tf.where(found == tf.int64.min, missing_value, floats)


def measure_features(path: str, schema: ElwcSchema) -> ElwcFeatures:
    """Returns the features of a file that is trained on.

    Args:
        path: the file.
        schema: their names, and what absent ones become.

    Raises:
        DataFormatError: If no example of the file has one of them, or a record before
            it is damaged.
    """
    widths = diagnosis.measure(each_record(path), path, schema)
    return ElwcFeatures.of(schema.spec_of(widths), schema.missing_value)


def has_feature(path: str, name: str) -> bool:
    """Returns whether the first example of a file has a feature."""
    return diagnosis.has_feature(first_record(path, check=False) or b"", name)
