"""Python functions inside a dataset, which end with the dataset.

TensorFlow keeps a function of `tf.numpy_function` or `Dataset.from_generator` until the
process ends, and with it the lists that the function batches. So it gets functions that
hold nothing, and the dataset holds what they call.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def loosely(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls another, and does not keep it.

    Args:
        function: what is called. It must be there as long as the result is called: give
            it to `keep`.
    """
    held = weakref.ref(function)

    def call(*args: Any) -> Any:
        function = held()
        if function is None:
            raise RuntimeError("Batches are asked for of a dataset that is gone.")
        return function(*args)

    return call


def keep(dataset: tf.data.Dataset, *kept: object) -> tf.data.Dataset:
    """Lets a dataset, and each one that is made of it, keep objects.

    Args:
        dataset: the dataset.
        *kept: the objects.

    Returns:
        The dataset.
    """
    dataset.kept_by_tfr_ext = kept
    return dataset
