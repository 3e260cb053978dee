"""Which Keras `tf.keras` is, and what differs between Keras 2 and Keras 3.

`tf.keras` is Keras 2 on TensorFlow 2.15, and on later versions if TF_USE_LEGACY_KERAS
is set; otherwise it is Keras 3. The classes of this package are based on whichever it
is. Both can be imported in one process, so objects of one can meet a model of the
other. Keras would accept them by duck typing, drop their sample weights and never reset
them; here that is an error.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

IS_KERAS_2 = getattr(tf.keras, "__version__", "2").startswith("2")

MEANS = ("auto", "sum_over_batch_size", "mean", "mean_with_sample_weight")

# The top-level modules of both. On TensorFlow 2.15, Keras 2 is also called 'keras'.
_KERASES = ("keras", "tf_keras")
_OWN = tf.keras.losses.Loss.__module__.partition(".")[0]
# Modules between a method of ours and its actual caller.
_BETWEEN = ("tfr_ext", "tensorflow", "contextlib", "functools", "wrapt")

_T = TypeVar("_T", bound=type)
_F = TypeVar("_F", bound=Callable)


def register(cls: _T) -> _T:
    """Registers a class of this package with Keras, so that saved models load it."""
    return tf.keras.utils.register_keras_serializable(package="tfr_ext")(cls)


def not_converted(method: _F) -> _F:
    """Returns a method that AutoGraph leaves as it is, and all that it calls.

    Keras 2 converts methods, Keras 3 does not. Ours need no conversion, and it takes
    most of the time until a process has trained its first batch.
    """
    kept = tf.autograph.experimental.do_not_convert(method)
    kept.__signature__ = inspect.signature(method)  # Keras 2 looks for `training`.
    return kept


def name() -> str:
    """Returns the name of the Keras that `tf.keras` is, for messages."""
    return "Keras 2" if IS_KERAS_2 else "Keras 3"


def other_name() -> str:
    """Returns the name of the Keras that `tf.keras` is not, for messages."""
    return "Keras 3" if IS_KERAS_2 else "Keras 2"


def version() -> str:
    """Returns the version of the Keras that `tf.keras` is."""
    return sys.modules[_OWN].__version__


def check_backend(what: str) -> None:
    """Checks that Keras computes with TensorFlow, as this package does."""
    backend = tf.keras.backend.backend()
    if backend != "tensorflow":
        raise ValueError(
            f"{what} needs the TensorFlow backend of Keras, which has the backend "
            f"{backend!r} in this process: start Python with KERAS_BACKEND=tensorflow."
        )


def is_of_other(value: Any) -> bool:
    """Returns whether a class, or the class of an object, is of the other Keras."""
    kind = value if isinstance(value, type) else type(value)
    roots = {cls.__module__.partition(".")[0] for cls in kind.__mro__}
    return bool(roots & {*_KERASES} - {_OWN})


@tf.autograph.experimental.do_not_convert
def check_caller(what: str) -> None:
    """Checks that an object of ours is not called by the other Keras."""
    frame = sys._getframe(1)
    while frame is not None:
        root = frame.f_globals.get("__name__", "").partition(".")[0]
        if root not in _BETWEEN:
            if root in _KERASES and root != _OWN:
                raise TypeError(_mismatch(f"This {what}", "the model that calls it"))
            return
        frame = frame.f_back  # type: ignore[assignment]


def check_model(what: str, model: Any) -> None:
    """Checks that a model is of the Keras that `tf.keras` is."""
    if is_of_other(model):
        raise TypeError(_mismatch(f"This {what}", "the model"))


def check_value(argument: str, value: Any) -> None:
    """Checks that the value of an argument is not an object of the other Keras."""
    if is_of_other(value):
        raise TypeError(
            f"`{argument}` must be an object of {name()}, which `tf.keras` is. "
            f"Received: a {type(value).__name__} of {other_name()}. Take it from "
            "`tf.keras`."
        )


class CheckedCalls:
    """Base of our metrics, before Keras's, that refuses what is not for them.

    That is other backends, and calls by the other Keras.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        """Initialises the object, see the base class."""
        check_backend(type(self).__name__)
        super().__init__(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the object, see the base class."""
        check_caller(type(self).__name__)
        return super().__call__(*args, **kwargs)  # type: ignore[misc]


class Callback(tf.keras.callbacks.Callback):
    """Base of callbacks that refuse a model of the other Keras."""

    def set_model(self, model: Any) -> None:
        """Sets the model."""
        check_model(type(self).__name__, model)
        super().set_model(model)


def reduced(losses: tf.Tensor, weights: tf.Tensor | None, reduction: Any) -> tf.Tensor:
    """Weights and reduces losses as Keras 3 does, in their own type.

    Keras 3 itself would compute in its `floatx` even if scores are float64, and apply a
    mask of the scores, although here labels mark padding. The losses, and the weights
    unless they are None, are `[batch, 1]` or `[batch, list]`.
    """
    if weights is not None:
        losses *= weights
    if reduction in (None, "none"):
        return losses
    total = tf.reduce_sum(losses)
    if reduction == "sum":
        return total
    count = tf.cast(tf.size(losses), total.dtype)
    if reduction == "mean_with_sample_weight" and weights is not None:
        count = tf.reduce_sum(weights)
    # As in Keras, since the gradients of the replicas are added up.
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    return tf.math.divide_no_nan(total, count) / replicas


def _mismatch(ours: str, theirs: str) -> str:
    return (
        f"{ours} belongs to {name()}, like `tf.keras` in this process, but {theirs} "
        f"belongs to {other_name()}. Build the model with `tf.keras`, or "
        + (
            "start Python without TF_USE_LEGACY_KERAS."
            if IS_KERAS_2
            else "start Python with TF_USE_LEGACY_KERAS=1."
        )
    )
