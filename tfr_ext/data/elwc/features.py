"""Reads the features of ELWC protos that a ranker takes, inside a TensorFlow graph."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tfr_ext.data.elwc import diagnosis
from tfr_ext.data.elwc.diagnosis import ElwcSchema
from tfr_ext.data.elwc.message import split_protos
from tfr_ext.data.elwc.tfrecords import first_record


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
    def spec(self) -> tf.io.FixedLenFeature:
        """How it is parsed: it must be there."""
        dtype = tf.int64 if self.is_integer else tf.float32
        return tf.io.FixedLenFeature([self.width], dtype)


@dataclasses.dataclass(frozen=True)
class ElwcFeatures:
    """The features of the protos that, in this order, are the features of an item.

    Attributes:
        examples: those of the examples.
        context: those of the context, which follow those of the examples.

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

    @property
    def num_features(self) -> int:
        """Width of the features of an item."""
        return sum(feature.width for feature in (*self.examples, *self.context))

    @property
    def shared_names(self) -> list[str]:
        """Names that a feature of the examples and one of the context both have."""
        context = {feature.name for feature in self.context}
        return [x.name for x in self.examples if x.name in context]

    def parse(self, protos: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads the features of lists.

        A feature that is missing, or has another width or type, is an error
        (`tf.errors.InvalidArgumentError`) and never a default.

        Args:
            protos: serialised `ExampleListWithContext` protos `[batch]`.

        Returns:
            float32 features `[batch, list, num_features]`, 0 at padding, and the mask
            of real items `[batch, list]`.
        """
        sizes, examples, contexts = split_protos(protos)
        mask = tf.sequence_mask(sizes[:, 0], tf.shape(examples)[1])
        positions = tf.where(mask)
        parts = _parse(tf.boolean_mask(examples, mask), self.examples)
        # Joined, they are one message by protobuf's rules; most have just one part.
        context = tf.strings.reduce_join(contexts, axis=1)
        of_lists = _parse(context, self.context)
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
        features = tf.concat(_parse(protos, (*self.examples, *self.context)), axis=1)
        return tf.ensure_shape(features, [None, self.num_features])


def measure_features(path: str, schema: ElwcSchema) -> ElwcFeatures:
    """Returns the features of a file that is trained on.

    Args:
        path: the file, which was read before.
        schema: their names.
    """
    widths = diagnosis.measure(first_record(path, check=False) or b"", path, schema)
    return ElwcFeatures(
        *(
            tuple(
                NumericFeature(name, width, name in integers)
                for name, width in zip(names, found)
            )
            for names, found, integers in (
                (schema.features, widths.features, widths.integers[0]),
                (schema.context_features, widths.context, widths.integers[1]),
            )
        )
    )


def has_feature(path: str, name: str) -> bool:
    """Tells whether the first example of a file has a feature.

    Args:
        path: the file.
        name: name of the feature.

    Raises:
        DataFormatError: if the file does not begin with a record.
    """
    return diagnosis.has_feature(first_record(path, check=False) or b"", name)


def _parse(
    examples: tf.Tensor, features: tuple[NumericFeature, ...]
) -> list[tf.Tensor]:
    if not features:
        return []
    found = tf.io.parse_example(examples, {f.name: f.spec for f in features})
    return [tf.cast(found[feature.name], tf.float32) for feature in features]
