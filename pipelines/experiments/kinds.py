"""The kinds of cells of an experiment, named after their commands.

They are trained by `train` or `train_gbm`, or are the TREC runs of other programs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from pipelines.experiments.cells import Kind
from tfr_ext.core.messages import say
from tfr_ext.core.settings import Settings, nested, same_setting, setting
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import queries, trec
from tfr_ext.gbm import gbm_trainer
from tfr_ext.gbm.gbm_config import GbmConfig
from tfr_ext.models.trees import gbm_model
from tfr_ext.runs import outputs, owned_files
from tfr_ext.runs.run_directory import OF_NETWORKS, RunDirectory
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.settings.training_config import MetricsConfig, TrainingConfig
from tfr_ext.sources import data_splits, wanted_labels
from tfr_ext.training import training_checks
from tfr_ext.training.trainer import train

# Cells are short: saving each epoch would take much of their time.
_CHECKPOINT_EPOCHS = 10
# The flags with paths, in whose place the content of the files tells cells apart.
_RUN_PATHS = ("run_path", "valid_run_path")
_Config = TypeVar("_Config", TrainingConfig, GbmConfig)


def _in_cell(config: _Config, directory: str) -> _Config:
    """Returns settings with the directory of a cell.

    A run of other settings there is part of the same cell, on the same data in another
    place, and is trained again.
    """
    config = dataclasses.replace(config, model_dir=directory)
    return dataclasses.replace(config, overwrite=RunDirectory(config).holds_another)


def _train(config: TrainingConfig, directory: str, keep_models: bool) -> None:
    # Jobs are what an experiment runs side by side.
    config = dataclasses.replace(config, verbose="silent", parallel_models=1)
    export = os.path.join(directory, "export")
    was_exported = os.path.lexists(export)
    config = _in_cell(config, directory)
    train(config)
    if not keep_models:
        RunDirectory(config).files.remove(OF_NETWORKS)
        if not was_exported:
            shutil.rmtree(export, ignore_errors=True)


def _defaults_of_training(threads: int, keep_models: bool) -> Sequence[str]:
    defaults = [f"--checkpoint_epochs={_CHECKPOINT_EPOCHS}"]
    if not keep_models:
        defaults += ["--noexport_model", "--nodraw_curves"]
    return defaults


def _train_gbm(config: GbmConfig, directory: str, keep_models: bool) -> None:
    config = _in_cell(config, directory)
    gbm_trainer.train(config)
    if not keep_models:
        gbm_trainer.run_directory(config).files.remove(gbm_trainer.MODELS)


def _defaults_of_gbm(threads: int, keep_models: bool) -> Sequence[str]:
    curves = () if keep_models else ("--nodraw_curves",)
    return (f"--num_threads={threads}", *curves)


def _data_with_missing(config: GbmConfig | RunConfig) -> DataConfig:
    return data_splits.with_missing(config.data)


def _evaluate_run(config: RunConfig, directory: str, keep_models: bool) -> None:
    data = _data_with_missing(config)
    evaluate_run(dataclasses.replace(config, data=data, model_dir=directory))


def _is_apart(config: TrainingConfig) -> bool:
    return config.logical_cpus > 1


@dataclasses.dataclass(frozen=True)
class RunConfig(Settings):
    """An evaluation of a TREC run of another program on the lists of a fold."""

    GROUP = "evaluation"

    data: DataConfig = nested(DataConfig)
    evaluation: MetricsConfig = nested(MetricsConfig)
    model_dir: str | None = same_setting(TrainingConfig, "model_dir")
    run_path: str | None = setting(
        None, "TREC run of the test queries, for a method that is a `run`.", kind="path"
    )
    valid_run_path: str | None = setting(
        None,
        "TREC run of the validation queries. If left out, those of them that "
        "`run_path` has.",
        kind="path",
    )


def check_run(config: RunConfig) -> None:
    """Checks the settings that need no file."""
    if config.run_path is None:
        raise ValueError("`run_path` must be the TREC run of a fold.")
    convention = config.evaluation.convention()
    for name in queries.parse_names(config.evaluation.metrics):
        convention.objective(name)


def digest_of_run(config: RunConfig) -> str:
    """Returns the digest of the runs, after having read them as TREC runs."""
    content = hashlib.sha256()
    for name in _RUN_PATHS:
        path = getattr(config, name)
        content.update(name.encode())
        if path is not None:
            trec.read_run(path)
            with open(path, "rb") as file:
                content.update(hashlib.sha256(file.read()).digest())
    return content.hexdigest()


def evaluate_run(config: RunConfig) -> None:
    """Evaluates a run, and leaves the files that `compare` and `fuse` read.

    Items of one score rank by their position, as those of all other methods of an
    experiment do. What the run lacks is not retrieved, and documents that the lists
    lack count as irrelevant, unless `eval_list_size` or `rerank_run` chose the items:
    then they are left out.
    """
    assert config.model_dir is not None and config.run_path is not None
    files = owned_files.OwnedFiles(
        "experiment", "model_dir", config.model_dir, outputs.EVALUATED
    )
    inputs = [path for path in (config.run_path, config.valid_run_path) if path]
    files.check([*inputs, *data_splits.paths(config.data)])
    splits = data_splits.load(config.data)
    labels = wanted_labels.from_config(config.data)
    highest = labels.highest(
        config.evaluation.max_label, [splits.train, splits.valid, splits.test]
    )
    convention = dataclasses.replace(config.evaluation.convention(), max_label=highest)
    names = queries.parse_names(config.evaluation.metrics)
    judged = {"test": splits.test, "valid": splits.valid}
    runs = {"test": trec.read_run(config.run_path, splits.test)}
    if config.valid_run_path is not None:
        runs["valid"] = trec.read_run(config.valid_run_path, splits.valid)
    elif len(runs["test"].missing(splits.valid)) < splits.valid.num_lists:
        runs["valid"] = runs["test"]
    files.claim(anew=True)
    means: dict[str, Mapping[str, float | None]] = {"valid": {}}
    for split, run in runs.items():
        lists, scores = _scored(config, run, split, judged[split])
        values = queries.per_query(lists, scores, names, convention)
        means[split] = queries.means(values)
        if split == "test":
            outputs.write_per_query(files.directory, judged[split], values)
        outputs.write_trec(
            files.directory, lists, scores, run.tag, judged[split], split
        )
    content = {
        **{split: means[split] for split in ("valid", "test")},
        "convention": convention.as_dict(),
        "labels": labels.describe(),
        "queries": {split: lists.num_lists for split, lists in judged.items()},
        "eval_list_size": splits.eval_cuts,
        "run": config.run_path,
        "seed": None,
        "versions": outputs.versions(),
    }
    outputs.write_metrics(files, content)


def _scored(
    config: RunConfig, run: trec.TrecRun, split: str, judged: RankingLists
) -> tuple[RankingLists, np.ndarray]:
    """Returns the lists with the documents of a run, and its scores."""
    missing = run.missing(judged)
    if missing:
        say(
            f"{len(missing)} of {judged.num_lists} {split} queries are not in the run, "
            f"such as {missing[0]!r}: they count as queries for which nothing was "
            "retrieved."
        )
    if config.data.eval_list_size is not None or config.data.rerank_run:
        run = run.only([judged])
    lists, (scores,) = trec.with_runs(judged, [run])
    return lists, scores


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
            RunConfig,
            _evaluate_run,
            check=check_run,
            data=_data_with_missing,
            digest=digest_of_run,
            not_part=_RUN_PATHS,
            uses_seed=False,
        ),
    )
}
