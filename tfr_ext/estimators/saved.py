"""Saves, loads and pickles a ranker, with the versions that wrote it."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from tfr_ext.core import json_files
from tfr_ext.core.files import write_atomically
from tfr_ext.core.system import lock
from tfr_ext.data.features import FeatureSpec
from tfr_ext.models import keras_file

FITTED = (
    *("n_features_in_", "feature_names_in_", "max_label_", "best_epoch_"),
    *("params_", "spec_"),
)
"""Attributes that `fit` sets, besides the model and its history."""

_MODEL, _ABOUT = "model.keras", "ranker.json"
# A key of a pickle's state that is no attribute of a ranker.
_VERSIONS = "_versions"

_T = TypeVar("_T")


def write(directory: str, ranker: Any) -> None:
    """Writes the files of a fitted ranker to a directory."""
    params = ranker.get_params()
    if isinstance(params.get("random_state"), np.random.RandomState):
        params["random_state"] = ranker.params_["random_state"]
    fitted = {name: getattr(ranker, name, None) for name in FITTED}
    names = fitted["feature_names_in_"]
    fitted["feature_names_in_"] = None if names is None else list(names)
    spec = fitted.pop("spec_")
    if spec is not None:
        fitted["spec_"] = spec.to_json()
    about = {"versions": keras_file.versions(), "params": params}
    about.update(fitted=fitted, history=ranker.history_)
    text = json.dumps(about, indent=1, default=plain)
    os.makedirs(directory, exist_ok=True)
    path, model = (os.path.join(directory, name) for name in (_ABOUT, _MODEL))
    with lock.alone_with(path, "save"):
        aside = os.path.join(directory, f".{_MODEL}")
        ranker.model_.save(aside)
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)  # Without it, a half of a ranker is none.
        os.replace(aside, model)
        write_atomically(path, text)


def read(directory: str, kind: type[_T]) -> _T:
    """Returns the ranker whose files `write` wrote.

    Args:
        directory: the directory.
        kind: the class of the ranker.

    Raises:
        ValueError: See `Ranker.load`.
    """
    path = os.path.join(directory, _ABOUT)
    wrong = f"{path} is not what Ranker.save writes"
    if not os.path.isfile(path):
        raise ValueError(f"{wrong}: there is no such file.")
    keys = ("versions", "params", "fitted", "history")
    kinds: json_files.Kinds = dict.fromkeys(keys, (dict,))
    about = json_files.read_object(path, "Ranker.save", kinds)
    fitted = {"spec_": None, **about["fitted"]}
    if {*fitted} != {*FITTED}:
        raise ValueError(
            f"{wrong}: 'fitted' must have {', '.join(FITTED)}. Found: "
            f"{', '.join(fitted) or 'nothing'}."
        )
    try:
        ranker: Any = kind(**about["params"])
    except TypeError as error:
        raise ValueError(f"{wrong}: {error}") from error
    ranker.history_ = about["history"]
    if fitted["spec_"] is not None:
        fitted["spec_"] = FeatureSpec.from_json(fitted["spec_"])
    for name, value in fitted.items():
        if value is not None:
            array = name == "feature_names_in_"
            setattr(ranker, name, np.array(value, object) if array else value)
    model = os.path.join(directory, _MODEL)
    ranker.model_ = keras_file.load(model, about["versions"])
    return ranker


def state(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the pickled state of a ranker with these attributes.

    The model is pickled by itself, so that the versions can be read even if this Keras
    cannot load it.
    """
    if "model_" not in attributes:
        return dict(attributes)
    model = pickle.dumps(attributes["model_"])
    return {**attributes, "model_": model, _VERSIONS: keras_file.versions()}


def restored(state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the attributes of a ranker from its pickled state."""
    attributes = dict(state)
    if _VERSIONS in attributes:
        versions = attributes.pop(_VERSIONS)
        try:
            attributes["model_"] = pickle.loads(attributes["model_"])
        except Exception as error:
            others = keras_file.other_versions(versions)
            if others:
                raise ValueError(f"This pickled ranker {others}") from error
            raise
    return attributes


def plain(value: Any) -> Any:
    """Returns a value of a parameter in a form that JSON can hold."""
    if hasattr(value, "tolist"):  # Of NumPy and pandas.
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{value!r} cannot be saved. Use plain Python values.")
