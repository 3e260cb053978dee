"""`tf.data` datasets of batches made in Python, and of the records of files."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# The functions that make the batches of each dataset that still exists.
_FUNCTIONS: weakref.WeakValueDictionary[int, Callable[[int, int], list[Any]]] = (
    weakref.WeakValueDictionary()
)
_KEYS = itertools.count()
# Seconds in which a thread of `tf.data` asks for the next batch, if it asks at all.
_TO_ASK = 0.05


def dataset_of(
    begin: Callable[[], int],
    batch: Callable[[int, int], Any],
    count: int,
    signature: Any,
) -> tf.data.Dataset:
    """Returns a dataset of batches, each of which is asked for by its number.

    It starts sooner than `Dataset.from_generator`, and takes aligned arrays as they
    are, where that copies them. The dataset, and each one that is made of it, holds the
    functions, and nothing else does: TensorFlow keeps a function of `tf.numpy_function`
    until the process ends, so it gets one that finds them by a number.

    `begin` is called when an iteration begins, and returns its name. `batch` maps that
    name, and the number of a batch from 0 on, to the batch, whose structure is that of
    `signature`. The numbers of an iteration come in turn.
    """
    specs = tuple(tf.nest.flatten(signature))

    def named_batch(iteration: int, number: int) -> list[Any]:
        if not number:
            iteration = begin()
        return [np.int64(iteration), *tf.nest.flatten(batch(iteration, number))]

    key = next(_KEYS)
    _FUNCTIONS[key] = named_batch
    variant = tf.raw_ops.ScanDataset(
        input_dataset=tf.data.Dataset.range(count)._variant_tensor,
        initial_state=[tf.constant(key, tf.int64), tf.constant(0, tf.int64)],
        other_arguments=[],
        f=_step(specs),
        output_types=[spec.dtype for spec in specs],
        output_shapes=[spec.shape for spec in specs],
        preserve_cardinality=True,
    )
    dataset = tf.data.experimental.from_variant(variant, signature)
    # The thread that tunes a dataset ends up to 0.1 s after the data.
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    dataset = dataset.prefetch(2).with_options(options)
    dataset.held_by_tfr_ext = named_batch
    return dataset


@functools.cache
def _step(specs: tuple[tf.TensorSpec, ...]) -> tf.types.experimental.ConcreteFunction:
    """Returns the function that makes one batch, which takes long to trace.

    It maps the key of a function, the name of the iteration and the number of the batch
    to the first two, and the batch.
    """

    def step(key: tf.Tensor, iteration: tf.Tensor, number: tf.Tensor) -> tuple:
        iteration, *found = tf.numpy_function(
            _call, [key, iteration, number], [tf.int64, *(spec.dtype for spec in specs)]
        )
        iteration.set_shape([])
        for tensor, spec in zip(found, specs):
            tensor.set_shape(spec.shape)
        return key, iteration, *found

    number = tf.TensorSpec([], tf.int64)
    function = tf.function(step, autograph=False)
    return function.get_concrete_function(number, number, number)


class _Calls:
    """The calls of Python by TensorFlow's threads.

    `changes` says how often a call has begun or ended, and `ending` whether the
    interpreter ends.
    """

    threads: set[int] = set()
    changes = 0
    ending = False


def _call(key: np.ndarray, iteration: int, number: int) -> list[Any]:
    thread = threading.get_ident()
    _Calls.threads.add(thread)
    _Calls.changes += 1
    try:
        if _Calls.ending:
            raise StopIteration  # TensorFlow logs other errors.
        function = _FUNCTIONS.get(int(key))
        if function is None:
            raise RuntimeError("Batches are asked for of a dataset that is gone.")
        return function(iteration, number)
    finally:
        _Calls.changes += 1
        _Calls.threads.discard(thread)


@atexit.register
def _end_calls() -> None:
    """Waits until TensorFlow's threads have left Python.

    The interpreter stops those that are in it when it is finalized, and deleting their
    iterator would then wait for them for ever.
    """
    _Calls.ending, changes = True, -1
    # A thread that has just left may be about to ask for the next batch.
    while _Calls.threads or _Calls.changes > changes:
        changes = _Calls.changes
        time.sleep(_TO_ASK if changes else 0)


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
    """Returns a function's results for pieces, in order, computed ahead of time.

    Each piece is one tensor, and the function has no captured tensors.
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
    return results.with_options(without_optimizations())


def without_optimizations() -> tf.data.Options:
    """Returns options without the optimizations of datasets."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return options


def message(error: tf.errors.OpError) -> str:
    """Returns TensorFlow's message, without the place in its graph."""
    return _PLACES.sub("", error.message).strip()
