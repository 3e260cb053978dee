"""Export for TF Serving: a SavedModel that needs nothing but TensorFlow."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.core.files import folder_aside, without_wildcards
from tfr_ext.core.messages import say
from tfr_ext.core.system.process_state import gradients_kept_in
from tfr_ext.data.batches.batching import FEATURES, score_lists
from tfr_ext.data.elwc.proto_features import ElwcFeatures
from tfr_ext.data.features import FeatureSpec
from tfr_ext.data.lists import RankingLists
from tfr_ext.models.categories import held_keys
from tfr_ext.models.combination import combined_model
from tfr_ext.serving import model_file, warm_up
from tfr_ext.serving.model_file import protos_of
from tfr_ext.serving.signatures import (
    IDS_SIGNATURE,
    MASKED_SIGNATURE,
    REGRESS_SIGNATURE,
    SCORES,
    fills_missing,
    signatures,
    width_of,
)
from tfr_ext.settings.data_checks import AUTO
from tfr_ext.text.encoder import Encoder

__all__ = [
    "ExportedScorer",
    "export_ranker",
    "load_scorer",
    "next_version",
    "signatures",
]


def next_version(export_dir: str) -> str:
    """Returns the path of a version higher than any under `export_dir`."""
    versions = [0]
    if os.path.isdir(export_dir):
        versions += [int(name) for name in os.listdir(export_dir) if name.isdigit()]
    return os.path.join(export_dir, str(max(versions) + 1))


def export_ranker(
    model: tf.keras.Model | Sequence[tf.keras.Model],
    export_dir: str,
    max_label: float | None = None,
    elwc_features: ElwcFeatures | None = None,
    feature_names: Sequence[str] | None = None,
    about: Mapping[str, Any] | None = None,
    check: Callable[[ExportedScorer], None] = lambda scorer: None,
    combination: str = "mean",
    spec: FeatureSpec | None = None,
    encoder: Encoder | None = None,
) -> str:
    """Exports a ranker as the next version in `export_dir`.

    The model is written elsewhere and then renamed, so that a server never sees half of
    it. `assets.extra/` in the version has `model.json`, which says what the model is,
    and the requests with which TF Serving warms up.

    Args:
        model: a model of `{'float_features', 'mask'}`, or several whose scores are
            combined.
        export_dir: the directory of versions that TF Serving watches.
        max_label: the highest grade of the collection that the model was trained on, if
            it is known; saved for evaluation.
        elwc_features: see `signatures`.
        feature_names: names of the features, if they have any; saved, so that they can
            be found in the columns of other tables.
        about: further entries of `model.json`.
        check: called with the export before it appears; an error prevents it.
        combination: how several models are combined, see
            `tfr_ext.models.CombinedScores`.
        spec: what the features are, if they are not only numbers.
        encoder: makes the embeddings that requests have `as_text`, and becomes a part
            of the export.

    Returns:
        The directory of the version.

    Raises:
        ValueError: If several models take different numbers of features, or
            `elwc_features` are not as many as the model takes.
        OSError: If a file cannot be written.
    """
    if isinstance(model, Sequence):
        model = model[0] if len(model) == 1 else combined_model(model, combination)

    def plain(variable: Any) -> tf.Variable:
        return variable if which_keras.IS_KERAS_2 else variable.value

    module = tf.Module()
    # With the model, Keras 2 would save the functions of each layer. Keras 3 has
    # TensorFlow's variables inside its own, which a session does not restore.
    module.weights = [*map(plain, model.variables)]
    extra = dict(about or {})
    if encoder is not None:
        module.encoder = [*map(plain, encoder.bert.variables)]
        extra["encoder"] = {"sha256": encoder.digest, "max_length": encoder.max_length}
    if spec is not None and not spec.is_numeric:
        keys = held_keys(model, spec)
        module.vocabularies = {name: [*map(plain, x)] for name, x in keys.items() if x}
    num_features = width_of(model)
    in_protos = elwc_features or protos_of(num_features, spec)
    functions = signatures(model, elwc_features, spec, encoder)
    with folder_aside(export_dir) as aside:
        tf.saved_model.save(module, aside, signatures=functions)
        if REGRESS_SIGNATURE in functions:
            _set_method(aside, REGRESS_SIGNATURE)
        else:
            why = "the score of an item depends on the other items of its list"
            if in_protos.shared_names:
                why = f"context and items share the names {in_protos.shared_names}"
            say(f"The export has no signature for single items (regress): {why}.")
        warm_up.write(aside, functions, num_features, in_protos, spec)
        model_file.write(
            aside,
            num_features,
            max_label,
            feature_names,
            elwc_features,
            spec,
            functions,
            {"takes_missing": fills_missing(model), **extra},
        )
        check(ExportedScorer(aside))
        return publish(aside, export_dir)


def publish(aside: str, export_dir: str) -> str:
    """Renames a complete version to the next one, and returns its path."""
    while True:
        target = next_version(export_dir)
        try:
            os.rename(aside, target)
        except OSError as error:
            # Another process has just published a version of this number.
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            continue
        return target


def _set_method(version: str, signature: str) -> None:
    """Sets the method of a signature, which TensorFlow saves as 'predict', to its name.

    TF Serving answers a request for `regress` by a signature of that method only.
    """
    updater = tf.compat.v1.saved_model.signature_def_utils.MethodNameUpdater(version)
    updater.replace_method_name(signature_key=signature, method_name=signature)
    updater.save()


class ExportedScorer:
    """An exported ranker, loaded again to score lists in memory.

    Attributes:
        num_features: number of features that it takes.
        max_label: the highest grade of its collection, if the export says so.
        feature_names: names of the features, if the export says so.
        takes_missing: whether features may be NaN, which says that they are missing.
        missing: the setting of its training that says what becomes of them.
        spec: what the features are, if they are not only numbers.
    """

    def __init__(self, directory: str):
        """Loads a SavedModel.

        Args:
            directory: the directory of one version.

        Raises:
            ValueError: If it is not a SavedModel that `export_ranker` wrote.
        """
        if not tf.saved_model.contains_saved_model(directory):
            raise ValueError(f"{directory} has no SavedModel.")
        # Kept, because its functions do not keep the weights and gradients alive.
        self._gradients: list[Any] = []
        with gradients_kept_in(self._gradients), without_wildcards(directory) as plain:
            self._loaded = tf.saved_model.load(plain)
        if MASKED_SIGNATURE not in self._loaded.signatures:
            raise ValueError(
                f"The SavedModel in {directory} has no signature {MASKED_SIGNATURE!r}. "
                f"It has: {', '.join(self._loaded.signatures) or 'none'}."
            )
        about = model_file.read(directory)
        self.spec: FeatureSpec | None = about.get("features")
        name = MASKED_SIGNATURE if self.spec is None else IDS_SIGNATURE
        if name not in self._loaded.signatures:  # A CrossEncoder's.
            raise ValueError(
                f"The model in {directory} takes texts, and no lists of numbers or ids."
                " Rank with `CrossEncoder.predict`, or serve it."
            )
        self._scored = self._loaded.signatures[name]
        inputs = self._scored.structured_input_signature[1]
        self.num_features = inputs[FEATURES].shape[-1] if FEATURES in inputs else 0
        self.max_label: float | None = about.get("max_label")
        self.feature_names: list[str] | None = about.get("feature_names")
        self.takes_missing: bool = about.get("takes_missing", False)
        self.missing: str = about.get("missing", AUTO)
        self.held_out: list[dict[str, float]] = about.get("held_out") or []

    @property
    def vocabularies(self) -> dict[str, np.ndarray]:
        """The vocabulary of each category: of all networks, if several are combined."""
        held = getattr(self._loaded, "vocabularies", {})
        return {
            name: np.unique(np.concatenate([x.numpy() for x in keys]))
            for name, keys in held.items()
        }

    def scores(self, lists: RankingLists, batch_size: int) -> np.ndarray:
        """Returns float32 scores `[num_items]`, in the order of the items.

        Args:
            lists: lists with `num_features` features.
            batch_size: number of lists scored at a time.

        Raises:
            tf.errors.InvalidArgumentError: If a feature is NaN, unless `takes_missing`.
        """
        return score_lists(
            lambda x: self._scored(**{k: tf.constant(v) for k, v in x.items()})[SCORES],
            lists,
            batch_size,
        )


def load_scorer(path: str) -> ExportedScorer:
    """Loads an exported ranker.

    Args:
        path: the directory of a version, or of several versions, of which the latest is
            used.

    Raises:
        ValueError: If there is no exported ranker.
    """
    if not tf.saved_model.contains_saved_model(path) and os.path.isdir(path):
        versions = [name for name in os.listdir(path) if name.isdigit()]
        if versions:
            path = os.path.join(path, max(versions, key=int))
    return ExportedScorer(path)
