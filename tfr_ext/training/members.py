"""The models of an ensemble: their settings, names and reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfr_ext.evaluation.queries import higher_is_better
from tfr_ext.runs.owned_files import ensemble_directories
from tfr_ext.settings.training_config import TrainingConfig


def configs(config: TrainingConfig) -> list[TrainingConfig]:
    """Returns the settings of each model of an ensemble.

    They differ in their seeds and directories, and share the data.

    Args:
        config: the settings of the ensemble, with `model_dir`.

    Examples:
        >>> found = configs(TrainingConfig(num_models=2, model_dir="run"))
        >>> [(one.model_dir, one.data.seed, one.data.data_seed) for one in found]
        [('run/models/1', 1, 1), ('run/models/2', 2, 1)]
    """
    data = config.data
    return [
        dataclasses.replace(
            config,
            data=dataclasses.replace(
                data, seed=data.seed + number, data_seed=data.random_seed
            ),
            num_models=1,
            ensemble="mean",
            parallel_models=1,
            model_dir=directory,
            export_model=False,
        )
        for number, directory in enumerate(ensemble_directories(config))
    ]


def name(config: TrainingConfig, number: int) -> str:
    """Returns the name of a model in messages, as 'Model 2 of 3 (seed 8)'.

    Args:
        config: the settings of the ensemble.
        number: the number of the model, from 1.
    """
    seed = config.data.seed + number - 1
    return f"Model {number} of {config.num_models} (seed {seed})"


def mean_history(
    histories: Sequence[Mapping[str, Sequence[float]]],
) -> dict[str, list[float]]:
    """Returns the mean of histories, up to the last epoch that all of them have.

    Args:
        histories: the values of each name, per epoch.

    Examples:
        >>> mean_history([{"loss": [3.0, 1.0]}, {"loss": [2.0, 2.0, 1.0]}])
        {'loss': [2.5, 1.5]}
    """
    shared = [key for key in histories[0] if all(key in one for one in histories)]
    return {
        key: np.mean(
            list(zip(*(one[key] for one in histories))), axis=1, dtype=float
        ).tolist()
        for key in shared
    }


def best_epoch(history: Mapping[str, Sequence[float]], monitor: str) -> int:
    """Returns the epoch, from 1, at which the mean of the models was best.

    Each model keeps a best epoch of its own.
    """
    values = np.asarray(history[f"val_{monitor}"])
    best = np.argmax(values) if higher_is_better(monitor) else np.argmin(values)
    return int(best) + 1


def report(config: TrainingConfig, found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entry for a model in the `metrics.json` of its ensemble.

    Args:
        config: the settings of the model.
        found: the content of its own `metrics.json`.
    """
    keys = ("best_epoch", "epochs", "valid", "test")
    return {"seed": config.data.seed, **{key: found[key] for key in keys}}
