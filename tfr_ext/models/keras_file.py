"""Loads a model from Keras's zip format, if nothing in it can run code."""

from __future__ import annotations

import collections
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.version import __version__

_MEMBERS = ("config.json", "metadata.json", "model.weights.h5")
# What models of this package consist of, besides registered classes. Others of Keras
# call a function (Lambda), any part of TensorFlow (TFOpLambda), or read other files.
_CLASSES = {
    "keras": ("DTypePolicy",),
    "keras.initializers": (
        *("Constant", "GlorotUniform", "Ones", "RandomUniform", "Zeros"),
    ),
    "keras.layers": (
        *("Activation", "Add", "BatchNormalization", "Concatenate", "Dense"),
        *("Dropout", "InputLayer", "LayerNormalization", "Multiply", "Reshape"),
    ),
    "keras.mixed_precision": ("Policy",),
    "keras.regularizers": ("L2",),
    "keras.src.ops.numpy": ("ExpandDims", "Reshape"),
}
# What Keras writes for values; none of them names a module.
_VALUES = ("__bytes__", "__keras_tensor__", "__numpy__", "__tensor__")
_KEYS = ("class_name", "module", "registered_name")


def versions() -> dict[str, str]:
    """Returns the versions that decide whether a saved model can be loaded."""
    keras = which_keras.version()
    return {"tfr_ext": __version__, "tensorflow": tf.__version__, "keras": keras}


def other_versions(saved: Mapping[str, Any]) -> str:
    """Returns why versions prevent loading a saved model, and what to do.

    `saved` is what `versions` returned when it was saved. The text ends a sentence
    about the model, and is empty if the versions are the same.

    Examples:
        >>> other_versions(versions())
        ''
        >>> other_versions({**versions(), "keras": "3.99"})
        'was saved with Keras 3.99 (TensorFlow 2..., tfr_ext ...), and this is Keras ...
    """
    present = versions()
    if saved == present:
        return ""
    form = "Keras {keras} (TensorFlow {tensorflow}, tfr_ext {tfr_ext})"
    was = collections.defaultdict(lambda: "unknown", saved)
    how = ", without TF_USE_LEGACY_KERAS" if which_keras.IS_KERAS_2 else ""
    if str(was["keras"]).startswith("2."):
        is_of_tensorflow = str(was["tensorflow"]).startswith("2.15")
        how = "" if is_of_tensorflow else ", with tf-keras and TF_USE_LEGACY_KERAS=1"
    return (
        f"was saved with {form.format_map(was)}, and this is "
        f"{form.format_map(present)}. Load it with those versions{how}, or fit the "
        "ranker again."
    )


def load(path: str, saved_by: Mapping[str, Any] | None = None) -> tf.keras.Model:
    """Loads a model that `tf.keras.Model.save` wrote, not compiled.

    Keras chooses the format by what it finds under a name, and runs code of HDF5 files
    and SavedModels in spite of its safe mode. In the zip format, safe mode refuses
    lambdas, but Keras 2 imports the modules that the file names. So only the zip format
    is read, and only if its objects are those that models of this package consist of:
    classes that are registered in this process, and some of Keras.

    Args:
        path: the file, whose name ends with `.keras`.
        saved_by: the versions that saved it, if known, see `versions`.

    Raises:
        ValueError: If it is not such a file, is damaged, or names anything else.

    Examples:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "model.keras")
        >>> inputs = tf.keras.Input([2])
        >>> function = tf.keras.layers.Lambda(lambda x: 2 * x, output_shape=(2,))
        >>> tf.keras.Model(inputs, function(inputs)).save(path)
        >>> load(path)
        Traceback (most recent call last):
        ValueError: /...: its config.json names ...
    """
    config = _config(path)
    if isinstance(config, dict):
        config.pop("compile_config", None)  # Keras drops it too, of the whole model.
    for found in _objects(config):
        if not _is_allowed(found):
            named = ", ".join(f"{key} {found.get(key)!r}" for key in _KEYS)
            raise ValueError(
                f"{path}: its config.json names {named}, which no model of this "
                "package has. It is not loaded, since it could run any code."
            )
    try:
        model = tf.keras.models.load_model(path, compile=False, safe_mode=True)
    except Exception as error:
        formatted = other_versions(saved_by) if saved_by is not None else ""
        formatted = formatted or f"cannot be loaded by Keras: {error}"
        raise ValueError(f"{path} {formatted}") from error
    if not isinstance(model, tf.keras.Model):
        raise ValueError(f"{path}: expected a model. Found: {type(model).__name__}.")
    return model


def _config(path: str) -> Any:
    """Returns the configuration in a file, after checks that the file is whole."""
    expected = f"{path}: expected a model in Keras's zip format, whole and as saved."
    if not os.path.isfile(path):
        there = "a directory" if os.path.isdir(path) else "no file"
        raise ValueError(f"{expected} Found: {there}.")
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            names = sorted(member.filename for member in members)
            if names != [*_MEMBERS]:
                raise ValueError(f"the members {', '.join(names) or 'none'}")
            # Keras compresses none, so that none can be larger than the file.
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise ValueError("compressed members")
            damaged = archive.testzip()
            if damaged is not None:
                raise ValueError(f"a damaged {damaged}")
            return json.loads(archive.read("config.json"))
    # The errors of `zipfile` and `json` for foreign bytes are not documented.
    except Exception as error:
        raise ValueError(f"{expected} Found: {error}.") from error


def _objects(config: Any) -> Iterator[dict[str, Any]]:
    """Yields the dictionaries, at any depth, that could name a class or a function."""
    left = [config]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if any(key in value for key in _KEYS):
                yield value
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)


def _is_allowed(found: dict[str, Any]) -> bool:
    """Returns whether Keras may make an object."""
    name, module, registered = (found.get(key) for key in _KEYS)
    if not isinstance(name, str):
        return False
    if name in _VALUES:
        return True
    if isinstance(registered, str):
        known = tf.keras.utils.get_registered_object(registered)
        if known is not None:
            return known.__name__ == name
    if name == "TFOpLambda" and isinstance(found.get("config"), dict):
        return found["config"].get("function") == "expand_dims"
    return isinstance(module, str) and name in _CLASSES.get(module, ())
