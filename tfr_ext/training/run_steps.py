"""The steps of a run before and after training: its inputs, and its results."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from tfr_ext import losses
from tfr_ext.core.messages import say, warn
from tfr_ext.core.settings import given
from tfr_ext.data.batches.batching import score_lists
from tfr_ext.evaluation import queries
from tfr_ext.models.categories import Vocabulary, describe, vocabularies
from tfr_ext.runs import outputs
from tfr_ext.runs.owned_files import OwnedFiles
from tfr_ext.serving import run_export
from tfr_ext.settings.data_checks import AUTO
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.sources import data_splits
from tfr_ext.training import heads, training_checks
from tfr_ext.training.checkpoints import Trained
from tfr_ext.training.diagnosis import label_fit


class RunInputs:
    """Inputs of a training run: the data, and what follows from it.

    The models of an ensemble share it. `checked` is what the settings say before any
    data is read; `splits` and `head`, with its values, are there once `load` is called.
    """

    splits: data_splits.Splits
    head: heads.Head

    def __init__(self, config: TrainingConfig, given: data_splits.Splits | None = None):
        """Checks the settings; nothing is read. `given` are lists in memory, if any."""
        self._config = config
        self.given = given
        self._origin = data_splits.in_memory(config.data, given)
        self.checked = training_checks.check(config)

    def load(self) -> None:
        """Reads the data, if that has not been done.

        Raises:
            ValueError: If it has errors, or does not fit the settings.
            OSError: If it cannot be read.
        """
        if hasattr(self, "splits"):
            return
        config = self._config
        splits = data_splits.load(config.data, self._origin)
        self.head = self.checked.head.with_values(
            splits.train, config.evaluation.max_label
        )
        self.splits = splits
        if config.data.missing == AUTO and splits.filling(config.data):
            say(
                "Features are missing: the model puts the mean of the training items "
                f"in their place. {given('missing', 'indicator')} also tells it where."
            )

    @property
    def loss_params(self) -> dict[str, Any]:
        """The parameters of the loss. The first access prints warnings."""
        return self._highest_and_params[1]

    @property
    def convention(self) -> queries.Convention:
        """The convention of the metrics, with the highest label."""
        highest = self._highest_and_params[0]
        return dataclasses.replace(self.checked.convention, max_label=highest)

    @functools.cached_property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """The vocabulary of each category. The first access prints how large it is."""
        splits, model = self.splits, self._config.model
        known = vocabularies(splits.train, model.vocabulary_size, model.min_count)
        for line in describe(known, splits.train.spec, splits.valid, splits.test):
            say(line)
        return known

    @functools.cached_property
    def _highest_and_params(self) -> tuple[float, dict[str, Any]]:
        """The highest label, and the parameters that the loss gets."""
        config, checked, splits = self._config, self.checked, self.splits
        key, max_label = config.loss.loss, config.evaluation.max_label
        everything = [splits.train, splits.valid, splits.test]
        highest = checked.labels.highest(max_label, everything)
        params = self.head.loss_params(key, checked.loss_params)
        label_fit.check_max_label(key, params, everything)
        if label_fit.needs_max_label(key, params):
            params = {**params, "max_label": highest}
            formatted = given("params['max_label']", highest)
            say(f"Using {formatted}, as none is given.")
        loss = losses.get(key, **params)
        for caveat in loss.caveats():
            warn(f"{key} {caveat}.")
        for line in label_fit.warnings(
            splits.train,
            [*checked.names, config.monitor],
            dataclasses.replace(checked.convention, max_label=highest),
            loss,
            config.loss.lambda_threshold,
        ):
            warn(line)
        return highest, params


def write_report(
    config: TrainingConfig,
    inputs: RunInputs,
    files: OwnedFiles,
    trained: Trained,
    models: Sequence[Mapping[str, Any]] = (),
) -> dict[str, dict[str, float | None]]:
    """Evaluates and exports a model; writes and prints the results.

    Returns the mean of each metric by split. `models` are the reports on the models of
    an ensemble.
    """
    splits, convention = inputs.splits, inputs.convention
    content = outputs.write_evaluation(
        config,
        config.loss.loss,
        inputs.checked.labels.describe(),
        files,
        splits,
        lambda lists: score_lists(trained.model, lists, config.batch_size),
        trained.history,
        trained.best_epoch,
        convention,
    )
    epoch_of, more = "Best epoch", ""
    if models:
        content |= {"ensemble": config.ensemble, "models": list(models)}
        epoch_of = "Best epoch of the mean of the models"
    if config.export_model:
        run = run_export.ExportedRun(config, splits, trained.model, content)
        exported = run_export.export_models([run], files.path("export"))
        more = f"\nExported for serving: {exported}"
    best = (
        f"{epoch_of} by validation {config.monitor}: {trained.best_epoch} of "
        f"{len(trained.history['loss'])}."
    )
    return outputs.finish(files, content, f"{best} {convention.describe()}", more)
