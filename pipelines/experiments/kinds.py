"""The kinds of cells that an experiment can have, by the names of their commands."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Sequence

from pipelines.experiments import foreign_runs
from pipelines.experiments.cells import Kind
from tfr_ext.gbm import gbm_trainer
from tfr_ext.gbm.gbm_config import GbmConfig
from tfr_ext.models.trees import gbm_model
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources import data_splits
from tfr_ext.training import run_directory, training_checks
from tfr_ext.training.config import TrainingConfig
from tfr_ext.training.trainer import train

# Cells are short: saving each epoch would take much of their time.
_CHECKPOINT_EPOCHS = 10
# Files of training that an experiment no longer needs.
_LARGE = ("checkpoints", "tensorboard", "models")


def _train(config: TrainingConfig, directory: str, keep_models: bool) -> None:
    # Jobs are what an experiment runs side by side.
    config = dataclasses.replace(
        config, model_dir=directory, verbose="silent", parallel_models=1
    )
    export = os.path.join(directory, "export")
    was_exported = os.path.lexists(export)
    # Part of a run, on the same data in another place.
    is_other = run_directory.is_other_run(config)
    train(dataclasses.replace(config, overwrite=is_other))
    if not keep_models:
        run_directory.RunDirectory(config).files.remove(_LARGE)
        if not was_exported:
            shutil.rmtree(export, ignore_errors=True)


def _defaults_of_training(threads: int, keep_models: bool) -> Sequence[str]:
    defaults = [f"--checkpoint_epochs={_CHECKPOINT_EPOCHS}"]
    if not keep_models:
        defaults += ["--noexport_model", "--nodraw_curves"]
    return defaults


def _train_gbm(config: GbmConfig, directory: str, keep_models: bool) -> None:
    config = dataclasses.replace(config, model_dir=directory)
    is_other = run_directory.is_other_run(config)
    gbm_trainer.train(dataclasses.replace(config, overwrite=is_other))
    if not keep_models:
        gbm_trainer.run_files(config).files.remove(gbm_trainer.MODELS)


def _defaults_of_gbm(threads: int, keep_models: bool) -> Sequence[str]:
    curves = () if keep_models else ("--nodraw_curves",)
    return (f"--num_threads={threads}", *curves)


def _data_with_missing(config: GbmConfig | foreign_runs.RunConfig) -> DataConfig:
    return data_splits.with_missing(config.data)


def _evaluate_run(
    config: foreign_runs.RunConfig, directory: str, keep_models: bool
) -> None:
    data = _data_with_missing(config)
    foreign_runs.evaluate(dataclasses.replace(config, data=data, model_dir=directory))


def _is_apart(config: TrainingConfig) -> bool:
    return config.logical_cpus > 1


# Processes get it, and so it consists of functions of modules.
KINDS: dict[str, Kind] = {
    kind.command: kind
    for kind in (
        Kind(
            "train",
            TrainingConfig,
            _train,
            check=training_checks.check,
            check_data=training_checks.check_data,
            defaults=_defaults_of_training,
            is_apart=_is_apart,
        ),
        Kind(
            "train_gbm",
            GbmConfig,
            _train_gbm,
            check=gbm_trainer.check,
            check_data=gbm_trainer.check_data,
            data=_data_with_missing,
            defaults=_defaults_of_gbm,
            versions=gbm_model.versions,
        ),
        Kind(
            "run",
            foreign_runs.RunConfig,
            _evaluate_run,
            check=foreign_runs.check,
            data=_data_with_missing,
            digest=foreign_runs.digest,
            not_part=foreign_runs.PATHS,
            uses_seed=False,
        ),
    )
}
