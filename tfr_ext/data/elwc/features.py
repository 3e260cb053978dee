"""Reads the features of ELWC protos that a ranker takes, inside a TensorFlow graph."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tfr_ext.data.elwc import diagnosis
from tfr_ext.data.elwc.diagnosis import ElwcSchema
from tfr_ext.data.elwc.message import split_protos
from tfr_ext.data.elwc.tfrecords import each_record, first_record


@dataclasses.dataclass(frozen=True)
class NumericFeature:
    """A feature of numbers.

    Attributes:
        name: its name in the protos.
        width: how many numbers it has.
        is_integer: whether they are integers.
    """

    name: str
    width: int
    is_integer: bool = False

    @property
    def columns(self) -> list[str]:
        """A name for each of its numbers."""
        if self.width == 1:
            return [self.name]
        return [f"{self.name}[{i}]" for i in range(self.width)]

    def parsed(self, found: tf.Tensor, missing_value: float) -> tf.Tensor:
        """Returns it as floats, from the result of `spec`."""
        if not self.is_integer:
            return found
        floats = tf.cast(found, tf.float32)
        return tf.where(found == tf.int64.min, missing_value, floats)

    def spec(self, missing_value: float) -> tf.io.FixedLenFeature:
        """How it is parsed.

        Args:
            missing_value: what it becomes where it is absent.
        """
        dtype = tf.int64 if self.is_integer else tf.float32
        # No integer is NaN: the lowest one, which no feature has, stands for it.
        absent = tf.int64.min if self.is_integer else missing_value
        return tf.io.FixedLenFeature([self.width], dtype, [absent] * self.width)


@dataclasses.dataclass(frozen=True)
class ElwcFeatures:
    """The features of the protos that, in this order, are the features of an item.

    Attributes:
        examples: those of the examples.
        context: those of the context, which follow those of the examples.
        missing_value: each number of a feature that is absent.

    Examples:
        >>> from tfr_ext.data.elwc.message import ExampleListWithContext
        >>> features = ElwcFeatures((NumericFeature("bm25", 1),))
        >>> elwc = ExampleListWithContext()
        >>> feature = elwc.examples.add().features.feature["bm25"]
        >>> feature.float_list.value.append(0.5)
        >>> values, mask = features.parse(tf.constant([elwc.SerializeToString()]))
        >>> values.numpy().tolist(), mask.numpy().tolist()
        ([[[0.5]]], [[True]])
    """

    examples: tuple[NumericFeature, ...]
    context: tuple[NumericFeature, ...] = ()
    missing_value: float = 0.0

    @property
    def num_features(self) -> int:
        """Width of the features of an item."""
        return sum(feature.width for feature in (*self.examples, *self.context))

    @property
    def columns(self) -> list[str]:
        """A name for each of these numbers."""
        return [
            x for feature in (*self.examples, *self.context) for x in feature.columns
        ]

    @property
    def shared_names(self) -> list[str]:
        """Names that a feature of the examples and one of the context both have."""
        context = {feature.name for feature in self.context}
        return [x.name for x in self.examples if x.name in context]

    def parse(self, protos: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads the features of lists.

        A feature that is absent becomes `missing_value`. One of another width, which an
        empty one has, or of another type is an error
        (`tf.errors.InvalidArgumentError`).

        Args:
            protos: serialised `ExampleListWithContext` protos `[batch]`.

        Returns:
            float32 features `[batch, list, num_features]`, 0 at padding, and the mask
            of real items `[batch, list]`.
        """
        sizes, examples, contexts = split_protos(protos)
        mask = tf.sequence_mask(sizes[:, 0], tf.shape(examples)[1])
        positions = tf.where(mask)
        parts = self._parse(tf.boolean_mask(examples, mask), self.examples)
        # Joined, they are one message by protobuf's rules; most have just one part.
        context = tf.strings.reduce_join(contexts, axis=1)
        of_lists = self._parse(context, self.context)
        parts += [tf.gather(part, positions[:, 0]) for part in of_lists]
        shape = tf.concat([tf.shape(mask), [self.num_features]], axis=0)
        features = tf.scatter_nd(
            positions, tf.concat(parts, axis=1), tf.cast(shape, tf.int64)
        )
        return tf.ensure_shape(features, [None, None, self.num_features]), mask

    def parse_items(self, protos: tf.Tensor) -> tf.Tensor:
        """Reads the features of single items, whose protos have those of the context.

        Args:
            protos: serialised `tf.train.Example` protos `[items]`.

        Returns:
            float32 features `[items, num_features]`.
        """
        parts = self._parse(protos, (*self.examples, *self.context))
        features = tf.concat(parts, axis=1)
        return tf.ensure_shape(features, [None, self.num_features])

    def _parse(
        self, examples: tf.Tensor, features: tuple[NumericFeature, ...]
    ) -> list[tf.Tensor]:
        if not features:
            return []
        specs = {x.name: x.spec(self.missing_value) for x in features}
        found = tf.io.parse_example(examples, specs)
        return [x.parsed(found[x.name], self.missing_value) for x in features]


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
    examples, context = (
        tuple(
            NumericFeature(name, width, name in integers)
            for name, width in zip(names, found)
        )
        for names, found, integers in (
            (schema.features, widths.features, widths.integers[0]),
            (schema.context_features, widths.context, widths.integers[1]),
        )
    )
    return ElwcFeatures(examples, context, schema.missing_value)


def has_feature(path: str, name: str) -> bool:
    """Returns whether the first example of a file has a feature.

    Raises:
        DataFormatError: If the file does not begin with a record.
    """
    return diagnosis.has_feature(first_record(path, check=False) or b"", name)
