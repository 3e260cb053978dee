"""Exports the models of runs, after a check that they score as the runs did."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core.messages import say
from tfr_ext.core.system import lock
from tfr_ext.data import file_names
from tfr_ext.data.elwc.proto_features import ElwcFeatures
from tfr_ext.data.features import FeatureSpec
from tfr_ext.models.combination import combined_model
from tfr_ext.serving import exporter, parity
from tfr_ext.serving.model_file import protos_of
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.sources import data_splits
from tfr_ext.text.embedding import table_digest
from tfr_ext.text.encoder import Encoder


@dataclasses.dataclass(frozen=True)
class ExportedRun:
    """A run whose model is exported.

    Attributes:
        config: its settings, with `model_dir`, where its `run.trec` is.
        model: its best model, which scores `[batch, list]`.
        report: the content of its `metrics.json`.
    """

    config: TrainingConfig
    splits: data_splits.Splits
    model: tf.keras.Model
    report: Mapping[str, Any]

    @property
    def directory(self) -> str:
        """The directory of the run."""
        assert self.config.model_dir is not None
        return self.config.model_dir

    @property
    def protos(self) -> ElwcFeatures:
        """What its features are called in ELWC protos."""
        train, missing_value = self.splits.train, self.config.data.missing_value
        return self.splits.elwc_features or protos_of(
            train.num_features, train.spec, missing_value
        )

    def about(self) -> dict[str, Any]:
        """Returns the entries of `model.json` about the run."""
        loss, several = self.config.loss, {}
        if self.config.num_models > 1:
            several = {
                "num_models": self.config.num_models,
                "ensemble": self.config.ensemble,
            }
        return {
            **several,
            "loss": loss.loss,
            "loss_params": dict(loss.params),
            "transforms": list(self.config.model.feature_transforms),
            "seed": self.config.data.seed,
            "best_epoch": self.report["best_epoch"],
            "metrics": {split: self.report[split] for split in ("valid", "test")},
            "convention": self.report["convention"],
            "data": {"sha256": self.splits.digest},
        }


def export_models(
    runs: Sequence[ExportedRun],
    export_dir: str,
    combination: str = "mean",
    encoder: str | None = None,
    embed_documents: bool = False,
) -> str:
    """Exports the model of a run, or several as one, as the next version.

    The version appears after it has scored the test lists of each run. A single model
    must give the scores in `run.trec`. Of several, each must give the scores of its
    run, and the export what they give together, as in `tfr_ext.models.CombinedScores`.

    `encoder` is the directory of the encoder that made the embeddings. A request then
    has the texts of the context in their place and, with `embed_documents`, those of
    items too. Returns the directory of the version.
    """
    first = runs[0]
    for run in runs[1:]:
        _check_features(first, run)
    highest = {run.report["convention"]["max_label"] for run in runs}
    model = first.model
    about: dict[str, Any] = {
        "missing": first.config.data.missing,
        "held_out": [run.splits.held_out for run in runs],
    }
    if len(runs) > 1:
        model = combined_model([run.model for run in runs], combination)
        about["ensemble"] = combination
    spec, loaded = first.splits.train.spec, None
    if encoder is not None:
        loaded = Encoder.load(encoder)
        spec = _with_texts(spec, loaded, embed_documents)
        for run in runs:
            _check_encoder(run.config.data.train_path, loaded, encoder)
    with lock.alone(export_dir, "export"):
        return exporter.export_ranker(
            model,
            export_dir,
            max(highest),
            first.protos,
            first.splits.train.feature_names,
            {**about, "models": [run.about() for run in runs]},
            _check(runs, model),
            spec=spec,
            encoder=loaded,
        )


def _with_texts(
    spec: FeatureSpec | None, encoder: Encoder, embed_documents: bool
) -> FeatureSpec:
    """Returns what features are if requests have texts for the encoder."""
    features = spec.features if spec is not None else ()
    texts = {
        x
        for x in features
        if x.kind == "embedding" and x.width == encoder.width
        if x.context or embed_documents
    }
    for of_context in (True, False)[: 1 + embed_documents]:
        found = [x.name for x in texts if x.context is of_context]
        if len(found) != 1:
            raise ValueError(
                f"`encoder` makes {encoder.width} numbers: expected one embedding of "
                f"{'the context' if of_context else 'items'} of as many in the run. "
                f"Found: {', '.join(sorted(found)) or 'none'}."
            )
    return FeatureSpec(
        tuple(dataclasses.replace(x, as_text=x in texts) for x in features)
    )


def _check_encoder(paths: Sequence[str], encoder: Encoder, directory: str) -> None:
    """Checks that tables are of an encoder, if they say of which they are."""
    for path in file_names.find_files(paths) if paths else ():
        digest = table_digest(path)
        if digest not in (None, encoder.digest):
            raise ValueError(
                f"{path} has embeddings of another encoder than that in {directory}: "
                f"expected the SHA-256 {digest}. Found: {encoder.digest}."
            )


def _check_features(first: ExportedRun, other: ExportedRun) -> None:
    """Checks that the models of two runs take the same features."""
    features = [
        (
            run.splits.train.num_features,
            run.splits.train.feature_names,
            run.splits.train.spec,
            dataclasses.replace(run.protos, missing_value=0.0),
        )
        for run in (first, other)
    ]
    for what, one, two in zip(("number", "names", "kinds", "names in ELWC"), *features):
        if one != two:
            raise ValueError(
                "Runs that are exported as one must be trained on the same features. "
                f"Their {what} differ: {one} in {first.directory}, {two} in "
                f"{other.directory}."
            )


def _check(
    runs: Sequence[ExportedRun], model: tf.keras.Model
) -> Callable[[exporter.ExportedScorer], None]:
    """Returns the check of an export by the test lists of its runs."""

    def check(scorer: exporter.ExportedScorer) -> None:
        items = 0
        for run in runs:
            lists, size = run.splits.test, run.config.batch_size
            file = os.path.join(run.directory, "run.trec")
            tolerance = max(map(_tolerance, runs))
            expected = parity.around(parity.read_scores(file, lists), lists, tolerance)
            source = file
            if model is not run.model or run.config.num_models > 1:
                own = parity.of_model(run.model, lists, size, tolerance)
                parity.check(lists, own.scores, own.moved(expected.scores), file)
                expected = parity.of_model(model, lists, size, tolerance)
                source = "the models in training"
            parity.check(lists, scorer.scores(lists, size), expected, source)
            items += lists.num_items
        say(f"The export scores {items:,} test items as in training.")

    return check


def _tolerance(run: ExportedRun) -> float:
    is_whole = run.config.mixed_precision == "none"
    return parity.TOLERANCE if is_whole else parity.HALF_TOLERANCE
