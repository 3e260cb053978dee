"""From settings to the objective of the trees."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfr_ext import losses
from tfr_ext.core import checks
from tfr_ext.core.settings import given
from tfr_ext.gbm.gbm_config import LAMBDARANK, YETIRANK, GbmConfig
from tfr_ext.gbm.gradient_objective import GradientObjective
from tfr_ext.gbm.kl_objectives import (
    ListwiseKLGaussianObjective,
    PointwiseKLBinomialObjective,
)
from tfr_ext.gbm.list_objective import Objective
from tfr_ext.models.trees import gbm_model
from tfr_ext.training.diagnosis import label_fit

# The losses with derivatives in NumPy.
_OWN: Mapping[str, Any] = {
    losses.PointwiseKLBinomialLoss.KEY: PointwiseKLBinomialObjective,
    losses.ListwiseKLGaussianLoss.KEY: ListwiseKLGaussianObjective,
}
# The parameters of the libraries' own objectives.
_KNOWN = {
    LAMBDARANK: (
        *("lambdarank_truncation_level", "lambdarank_norm", "sigmoid", "label_gain"),
    ),
    YETIRANK: (
        *("mode", "top", "decay", "permutations", "num_neighbors"),
        *("dcg_type", "dcg_denominator", "noise", "noise_power"),
    ),
}


def library(config: GbmConfig) -> str:
    """Returns the name of the library that trains.

    Args:
        config: the settings.
    """
    return "catboost" if config.objective == YETIRANK else "lightgbm"


def with_max_label(config: GbmConfig, highest: float) -> dict[str, Any]:
    """Returns the parameters of the objective, with the highest label if it needs it.

    Args:
        config: the settings.
        highest: the highest label.
    """
    params = dict(config.params)
    if config.objective not in _KNOWN and label_fit.needs_max_label(
        config.objective, params
    ):
        params["max_label"] = highest
    return params


def build(config: GbmConfig, params: Mapping[str, Any]) -> Objective | None:
    """Returns the objective; None for one of the library's own.

    Args:
        config: the settings.
        params: its parameters.

    Raises:
        ValueError: if there is no such objective, it has no such parameter, or the
            library is not installed.
    """
    name = config.objective
    if name in _KNOWN:
        for one in params:
            if one not in _KNOWN[name]:
                raise ValueError(
                    f"`params[{one!r}]`: {name} has no such parameter"
                    f"{checks.near(one, [*_KNOWN[name]])} It has "
                    f"{', '.join(_KNOWN[name])}."
                )
    try:
        gbm_model.imported(library(config))
        if (name in _KNOWN or name in _OWN) and config.hessian != "gradient":
            raise ValueError(
                f"{given('hessian', config.hessian)} has no meaning with {name}, which "
                "has Hessians of its own."
            )
        if name in _KNOWN:
            return None
        if name in _OWN:
            return _OWN[name](**params)
        return GradientObjective(losses.get(name, **params), config.hessian)
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        told = [given("objective", name)]
        told += [given(f"params[{one!r}]", value) for one, value in params.items()]
        text = re.sub(r"`(\w+)`", lambda m: _named(m, params), str(error))
        raise ValueError(f"{' '.join(told)}: {text}") from error


def _named(match: re.Match[str], params: Mapping[str, Any]) -> str:
    """Returns how a message names a parameter of a loss."""
    return f"`params['{match[1]}']`" if match[1] in params else match[0]
