"""Undoes what training changes in its process: random states and gradients.

`tf.custom_gradient` registers a function for each graph in which it is used, and so do
Keras's optimizers, through `all_reduce`. TensorFlow forgets no registration, and the
functions refer to tensors, so that the graphs of each model that was ever fitted stay
in memory. In `as_before` each graph keeps its functions itself, and the registry only
refers to them. `tf.saved_model.load` registers one for each function that it loads;
in `gradients_kept_in` the loader keeps them.
"""

from __future__ import annotations

import contextlib
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

# The collection in which a graph keeps its functions.
_KEPT = "tfr_ext_gradients"
_register = tf.RegisterGradient.__call__
_lock = threading.Lock()
_num_inside = 0
# The random states before the first of the threads that are in `as_before`, and how
# many there are.
_states: list[Any] = []
_num_seeding = 0


class _Thread(threading.local):
    """The list, if any, that keeps the gradients that this thread registers."""

    kept: list[Any] | None = None


_thread = _Thread()


@contextlib.contextmanager
def as_before() -> Iterator[None]:
    """Restores the random states of NumPy and Python, and lets go of the graphs.

    Other threads may train at the same time: gradients are those of TensorFlow, and the
    last of them to end restores the states.

    Examples:
        >>> np.random.seed(1)
        >>> expected = np.random.random()
        >>> np.random.seed(1)
        >>> with as_before():
        ...     tf.keras.utils.set_random_seed(2)
        >>> np.random.random() == expected
        True
    """
    global _num_seeding
    with _lock:
        if not _num_seeding:
            _states[:] = np.random.get_state(), random.getstate()
        _num_seeding += 1
    try:
        with _gradients_kept_by_graphs():
            yield
    finally:
        with _lock:
            _num_seeding -= 1
            if not _num_seeding:
                np.random.set_state(_states[0])
                random.setstate(_states[1])


@contextlib.contextmanager
def gradients_kept_in(kept: list[Any]) -> Iterator[None]:
    """Appends the functions that this thread registers to a list, and keeps no others.

    So what `tf.saved_model.load` reads goes when the list and the model go.
    """
    with _gradients_kept_by_graphs():
        _thread.kept = kept
        try:
            yield
        finally:
            _thread.kept = None


@contextlib.contextmanager
def _gradients_kept_by_graphs() -> Iterator[None]:
    global _num_inside
    with _lock:
        _num_inside += 1
        tf.RegisterGradient.__call__ = _register_weakly
    try:
        yield
    finally:
        with _lock:
            _num_inside -= 1
            if not _num_inside:
                tf.RegisterGradient.__call__ = _register


def _register_weakly(registration: Any, function: Callable[..., Any]) -> Any:
    """Registers a gradient; takes the place of `tf.RegisterGradient.__call__`."""
    owner, graph = _thread.kept, tf.compat.v1.get_default_graph()
    if owner is None:
        if not graph.building_function:
            return _register(registration, function)
        owner = graph.get_collection_ref(_KEPT)
    owner.append(function)
    kept = weakref.ref(function)

    @tf.autograph.experimental.do_not_convert
    def gradient(operation: tf.Operation, *upstream: Any) -> Any:
        found = kept()
        if found is None:
            raise LookupError(f"The graph of {operation.name} has been let go.")
        return found(operation, *upstream)

    _register(registration, gradient)
    return function
