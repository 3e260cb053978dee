"""Converts the parameters of an estimator to settings of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfr_ext.core import checks
from tfr_ext.core.settings import build, places
from tfr_ext.models import layers
from tfr_ext.training.config import TrainingConfig

# Parameters that are settings under another name.
_RENAMED = {
    "loss_params": "loss_param",
    "random_state": "seed",
    "validation_fraction": "valid_fraction",
}
# Parameters that are not settings.
_OWN = ("query", "settings")
_TUPLES = ("hidden_sizes", "feature_transforms", "metrics")
_VERBOSE = ("silent", "bar", "line")


def training_config(
    params: Mapping[str, Any], more: Mapping[str, Any]
) -> TrainingConfig:
    """Returns settings of training.

    Args:
        params: the parameters of a `Ranker`.
        more: settings that override those.

    Raises:
        ValueError: if a parameter is out of its range.
    """
    values: dict[str, Any] = {
        _RENAMED.get(name, name): _tuple(value) if name in _TUPLES else value
        for name, value in params.items()
        if name not in _OWN
    }
    values["loss_param"] = values["loss_param"] or {}
    values["seed"] = _seed(values["seed"])
    verbose = params["verbose"]
    if verbose not in range(len(_VERBOSE)):
        raise ValueError(f"`verbose` must be 0, 1 or 2. Received: {verbose!r}.")
    values["verbose"] = _VERBOSE[int(verbose)]
    others = params["settings"] or {}
    known = {place.key for place in places(TrainingConfig)} - {*values}
    for name in others:
        if name not in known:
            raise ValueError(
                f"`settings` has {name!r}, which is not a setting of training, or is "
                f"one of the parameters{checks.near(name, [*known, *params])}"
            )
    return build(TrainingConfig, {**values, **others, **more})


def check_single_items(estimator: Any) -> None:
    """Checks that the score of an item does not depend on its list.

    Args:
        estimator: a fitted `Ranker`.

    Raises:
        ValueError: if a layer of its model looks across the list.
    """
    if layers.told_across_lists(estimator.model_):
        told = " or ".join(
            f"`{name}={getattr(estimator, name)!r}`"
            for name in ("model", "feature_transforms", "settings")
        )
        raise ValueError(
            f"The score of an item depends on its list, by {told}, and so this needs "
            "whole lists: give `group` or `qid`."
        )


def _tuple(value: Any) -> Any:
    return None if value is None else tuple(value)


def _seed(random_state: Any) -> Any:
    """Returns a seed for a random state of scikit-learn."""
    if random_state is None:
        return int(np.random.default_rng().integers(1 << 31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(1 << 31))
    return random_state
