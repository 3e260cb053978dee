"""Datasets of batches that Python makes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


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
    until the process ends, so it gets one that holds nothing.

    Args:
        begin: called when an iteration begins; what it returns names the iteration.
        batch: maps the name of the iteration, and the number of a batch from 0 on, to
            the batch, whose structure is that of `signature`. The numbers of an
            iteration come in turn.
        count: number of batches.
        signature: shapes and types of a batch.
    """
    specs = tf.nest.flatten(signature)

    def named_batch(iteration: int, number: int) -> list[Any]:
        if not number:
            iteration = begin()
        return [np.int64(iteration), *tf.nest.flatten(batch(iteration, number))]

    function = _loosely(named_batch)

    @tf.autograph.experimental.do_not_convert
    def step(iteration: tf.Tensor, number: tf.Tensor) -> tuple:
        iteration, *found = tf.numpy_function(
            function, [iteration, number], [tf.int64, *(spec.dtype for spec in specs)]
        )
        iteration.set_shape([])
        for tensor, spec in zip(found, specs):
            tensor.set_shape(spec.shape)
        return iteration, tf.nest.pack_sequence_as(signature, found)

    dataset = tf.data.Dataset.range(count).scan(tf.constant(0, tf.int64), step)
    # The thread that tunes a dataset ends up to 0.1 s after the data.
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    dataset = dataset.prefetch(2).with_options(options)
    dataset.held_by_tfr_ext = named_batch
    return dataset


def _loosely(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls another, and does not keep it."""
    held = weakref.ref(function)

    def call(*args: Any) -> Any:
        function = held()
        if function is None:
            raise RuntimeError("Batches are asked for of a dataset that is gone.")
        return function(*args)

    return call
