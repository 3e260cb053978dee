"""`model.json`: the metadata of an exported version."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core import json_files
from tfr_ext.core.files import text_file
from tfr_ext.data.batches.batching import FEATURES
from tfr_ext.data.elwc.proto_features import ElwcFeatures
from tfr_ext.data.features import Feature, FeatureSpec
from tfr_ext.version import __version__

# Where a SavedModel keeps files that TensorFlow does not read.
EXTRA = "assets.extra"
_NAME = "model.json"
_WRITER = "an export"
_NUMBER = (int, float, type(None))


def write(
    version: str,
    num_features: int,
    max_label: float | None,
    feature_names: Sequence[str] | None,
    elwc_features: ElwcFeatures | None,
    spec: FeatureSpec | None,
    signatures: Iterable[str],
    about: Mapping[str, Any],
) -> None:
    """Writes the file in the directory of a version, with `about` as further entries.

    `max_label` is the highest grade of the collection, if it is known; `elwc_features`
    are what the features are called in ELWC protos, if they have names there; `spec` is
    what they are, if they are not only numbers.
    """
    content = {
        "num_features": num_features,
        "feature_names": names_of(feature_names, elwc_features, num_features),
        "elwc_features": None
        if elwc_features is None
        else {
            "examples": [_described(f) for f in elwc_features.examples],
            "context": [_described(f) for f in elwc_features.context],
        },
        **of_spec(spec),
        "max_label": max_label,
        "label_range": None if max_label is None else [0, max_label],
        "signatures": sorted(signatures),
        **about,
        "versions": {"tfr_ext": __version__, "tensorflow": tf.__version__},
    }
    folder = os.path.join(version, EXTRA)
    os.makedirs(folder, exist_ok=True)
    with text_file(os.path.join(folder, _NAME)) as file:
        file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def names_of(
    feature_names: Sequence[str] | None,
    elwc_features: ElwcFeatures | None,
    num_features: int,
) -> list[str] | None:
    """Returns the names of numbers: given, those in ELWC protos, or None."""
    if feature_names is not None or elwc_features is None:
        return None if feature_names is None else list(feature_names)
    columns = elwc_features.spec.feature_names
    return (
        None if columns == float_features(num_features).spec.feature_names else columns
    )


def of_spec(spec: FeatureSpec | None) -> dict[str, Any]:
    """Returns the entries that say what features are, if not only numbers."""
    if spec is None or spec.is_numeric:
        return {}
    inputs = {feature.name: name for feature, name in spec.inputs}
    return {"features": spec.to_json(), "inputs": inputs}


def float_features(num_features: int, missing_value: float = 0.0) -> ElwcFeatures:
    """Returns the features in protos if they have no names of their own."""
    return ElwcFeatures(
        (Feature(FEATURES, width=num_features),), missing_value=missing_value
    )


def protos_of(
    num_features: int, spec: FeatureSpec | None, missing_value: float = 0.0
) -> ElwcFeatures:
    """Returns what features are called in protos, unless these were read.

    If not all are numbers, they have the names that they have elsewhere.
    """
    if spec is None or spec.is_numeric:
        return float_features(num_features, missing_value)
    return ElwcFeatures.of(spec, missing_value)


def read(version: str) -> dict[str, Any]:
    """Reads the file of a version; empty if it has none.

    Args:
        version: the directory of the version.

    Raises:
        ValueError: If the file is not one that an export writes.
    """
    path = os.path.join(version, EXTRA, _NAME)
    if not tf.io.gfile.exists(path):
        return {}
    try:
        content = json_files.read_object(
            path,
            _WRITER,
            {
                "max_label": _NUMBER,
                "feature_names": (list, type(None)),
                "held_out": (list, type(None)),
            },
        )
        if "features" in content:
            content["features"] = FeatureSpec.from_json(content["features"])
        if "max_label" not in content:
            raise ValueError(f"{path}: there is no 'max_label'.")
        highest, names = content["max_label"], content.get("feature_names")
        if highest is not None and highest <= 0:
            raise ValueError(
                f"{path}: 'max_label' must be positive or null. Found: {highest!r}."
            )
        if names is not None and not all(isinstance(name, str) for name in names):
            raise ValueError(
                f"{path}: 'feature_names' must be a list of names. Found: {names!r}."
            )
        known = content.get("held_out") or []
        if not all(isinstance(each, dict) for each in known):
            raise ValueError(f"{path}: 'held_out' must be a list of objects.")
    except ValueError as error:
        raise ValueError(f"{error} Export the model again.") from error
    return content


def _described(feature: Feature) -> dict[str, Any]:
    return {
        "name": feature.name,
        "width": feature.width,
        "is_integer": feature.is_integer,
    }
