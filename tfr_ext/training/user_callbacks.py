"""Keras callbacks of users, given as 'module:Class' or as objects."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.core.settings import given

_Make = Callable[[], tf.keras.callbacks.Callback]


def find(name: str) -> _Make:
    """Imports the class or function of a callback, without calling it.

    Args:
        name: 'module:Class', or 'module:function' of a function that returns a
            callback; either is called without arguments. The module is installed, or a
            file in the working directory.

    Returns:
        A function that makes the callback. It raises a ValueError if that fails, or if
        the result is something else.

    Raises:
        ValueError: If there is no such module, it has nothing of that name, or that is
            not a callback of the Keras that `tf.keras` is.

    Examples:
        >>> find("tensorflow.keras.callbacks:TerminateOnNaN")()  # doctest: +ELLIPSIS
        <...TerminateOnNaN object at ...>
        >>> find("tensorflow.keras.callbacks:Patience")
        Traceback (most recent call last):
        ValueError: `callbacks='tensorflow.keras.callbacks:Patience'`: the module has no
        'Patience'.
    """
    formatted = given("callbacks", name)
    module, _, attribute = name.partition(":")
    if not attribute.isidentifier() or not module.replace(".", "").isidentifier():
        raise ValueError(
            f"{formatted} must have the form module:Class, or module:function of a "
            "function that returns a callback."
        )
    found = getattr(_imported(module, formatted), attribute, None)
    if found is None:
        raise ValueError(f"{formatted}: the module has no {attribute!r}.")
    if not callable(found):
        raise ValueError(f"{formatted} is {found!r}, expected a class or a function.")
    if isinstance(found, type):
        _check(found, formatted)

    def make() -> tf.keras.callbacks.Callback:
        try:
            made = found()
        except Exception as error:
            raise ValueError(f"{formatted} failed: {_described(error)}") from error
        _check(type(made), formatted)
        return made

    return make


def check_objects(callbacks: Sequence[Any]) -> None:
    """Checks that all are callbacks of the Keras that `tf.keras` is.

    Raises:
        ValueError: If an object is something else.
    """
    for number, callback in enumerate(callbacks):
        _check(type(callback), f"`callbacks[{number}]`")


def _imported(module: str, formatted: str) -> Any:
    """Imports a module."""
    # Python adds it for a program started with -m, but not for a console script.
    if not {"", os.getcwd()} & {*sys.path}:
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if f"{module}.".startswith(f"{error.name}."):
            raise ValueError(
                f"{formatted}: there is no module {error.name!r}, neither in the "
                "working directory nor installed."
            ) from None
        raise ValueError(
            f"{formatted} cannot be imported: {_described(error)}"
        ) from error
    except Exception as error:
        raise ValueError(
            f"{formatted} cannot be imported: {_described(error)}"
        ) from error


def _check(cls: type, formatted: str) -> None:
    """Raises a ValueError if a class is not one of callbacks."""
    if issubclass(cls, tf.keras.callbacks.Callback):
        return
    if which_keras.is_of_other(cls):
        raise ValueError(
            f"{formatted} is a callback of {which_keras.other_name()}, but training "
            f"uses {which_keras.name()}. Take it from `tf.keras`."
        )
    raise ValueError(
        f"{formatted} gives an object of {cls.__qualname__}, expected a callback of "
        f"{which_keras.name()}, which is `tf.keras.callbacks.Callback`."
    )


def _described(error: Exception) -> str:
    """Returns the message of an error, and where the user's code raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
