"""Ranking losses, metrics, models and data for Keras and TensorFlow Ranking.

>>> import tfr_ext
>>> loss = tfr_ext.losses.SmoothILoss(alpha=1.0)
"""

import importlib as _importlib
import typing as _typing

from tfr_ext import _stack

_stack.prepare()

from tfr_ext import (  # noqa: E402
    data,
    datasets,
    evaluation,
    losses,
    metrics,
    models,
    objectives,
    relaxations,
    training,
)
from tfr_ext.training import diagnosis  # noqa: E402
from tfr_ext.version import __version__  # noqa: E402

if _typing.TYPE_CHECKING:
    from tfr_ext.estimators.ranker import Ranker

__all__ = [
    "Ranker",
    "__version__",
    "data",
    "datasets",
    "diagnosis",
    "evaluation",
    "losses",
    "metrics",
    "models",
    "objectives",
    "relaxations",
    "training",
]


def __getattr__(name: str) -> _typing.Any:
    """Imports `Ranker` on first access, as it imports scikit-learn."""
    if name == "Ranker":
        return _importlib.import_module("tfr_ext.estimators.ranker").Ranker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Lists the public names, those that are imported on first access too."""
    return [*__all__]
