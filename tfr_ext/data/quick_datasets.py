"""Datasets of records that start sooner than those of `tf.data`.

`tf.data.TFRecordDataset` and `Dataset.map` trace functions, and then optimise the whole
dataset, which takes as long as to read 50 MB.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import tensorflow as tf

_BUFFER_BYTES = 1 << 20
_PLACES = re.compile(r"\[\[.*?\]\]|\{\{.*?\}\}|\[Op:.*", re.DOTALL)


def read(paths: Sequence[str], compression: str = "") -> tf.data.Dataset:
    """Returns the records of files, one after the other.

    Args:
        paths: the files.
        compression: 'GZIP', or '' for none.
    """
    return tf.data.experimental.from_variant(
        tf.raw_ops.TFRecordDataset(
            filenames=list(paths),
            compression_type=compression,
            buffer_size=_BUFFER_BYTES,
        ),
        tf.TensorSpec([], tf.string),
    )


def in_parallel(
    pieces: tf.data.Dataset, function: tf.types.experimental.ConcreteFunction
) -> tf.data.Dataset:
    """Returns what a function makes of pieces, in their order, some ahead of time.

    Args:
        pieces: the pieces, each one tensor.
        function: what they are given to; traced, and without captured tensors.
    """
    structure = function.structured_outputs
    outputs = tf.nest.flatten(structure)
    mapped = tf.raw_ops.ParallelMapDatasetV2(
        input_dataset=pieces.prefetch(2)._variant_tensor,
        other_arguments=[],
        # One may wait for the records while the others keep the processors busy.
        num_parallel_calls=tf.constant(1 + (os.cpu_count() or 1), tf.int64),
        f=function,
        output_types=[output.dtype for output in outputs],
        output_shapes=[output.shape for output in outputs],
        deterministic="true",
    )
    specs = [tf.TensorSpec(output.shape, output.dtype) for output in outputs]
    spec = tf.nest.pack_sequence_as(structure, specs)
    results = tf.data.experimental.from_variant(mapped, spec).prefetch(2)
    return results.with_options(as_it_is())


def as_it_is() -> tf.data.Options:
    """Returns options that leave a dataset as it is."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return options


def message(error: tf.errors.OpError) -> str:
    """Returns TensorFlow's message, without the place in its graph.

    Args:
        error: the error.
    """
    return _PLACES.sub("", error.message).strip()
