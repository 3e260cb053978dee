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

    They differ in their seeds, and in directories of `model_dir`; they share the data.

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
    """Returns what messages call a model, from 1 on, as 'Model 2 of 3 (seed 8)'."""
    seed = config.data.seed + number - 1
    return f"Model {number} of {config.num_models} (seed {seed})"


def mean_history(
    histories: Sequence[Mapping[str, Sequence[float]]],
) -> dict[str, list[float]]:
    """Returns the mean of histories, up to the last epoch that all of them have.

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
    """Returns a model's entry in its ensemble's `metrics.json`, from its own."""
    keys = ("best_epoch", "epochs", "valid", "test")
    return {"seed": config.data.seed, **{key: found[key] for key in keys}}
