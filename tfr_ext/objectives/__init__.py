"""Objectives: ranking metrics, computed from the exact ranking, ranks or positions.

An objective sees a ranking only through the expected value of an item quantity at each
rank, `ranked[b, r] = sum_j P[b, r, j] * item_values[b, j]`. With the indicators of the
exact sort it is the metric itself; with those of a relaxation it is differentiable.
Some objectives are also functions of the positions of the items. A loss is an objective
computed from a relaxation (`tfr_ext.losses`), and a metric is the same objective
computed from the exact sort (`tfr_ext.metrics`).

Each module of this package defines metrics and everything known about them. No list of
the modules is needed: they are found in this folder, and their classes become
attributes of the package.

Shapes: labels and masks are `[batch, list]`, `ranked` is `[batch, ranks]` where
`ranks` is the cut-off or the list size, whichever is smaller; results are `[batch]`.
Labels at padding are 0 here (callers clean them), and labels are not negative.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from tfr_ext.objectives.objective import (
    GAINS,
    Binary,
    Graded,
    Metric,
    Objective,
)
from tfr_ext.objectives.registry import (
    check_effects,
    get,
    loss_names,
    names,
    of_loss,
    of_metric,
    of_name,
    parse,
    plain_name,
    register,
    taken,
    title,
)

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

# The classes of the metrics, such as `NDCG`.
globals().update({of_name(_name).__name__: of_name(_name) for _name in names()})

__all__ = [
    "GAINS",
    "Binary",
    "Graded",
    "Metric",
    "Objective",
    "check_effects",
    "get",
    "loss_names",
    "names",
    "of_loss",
    "of_metric",
    "of_name",
    "parse",
    "plain_name",
    "register",
    "taken",
    "title",
]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Lists the public names, and the classes of the metrics."""
    return [*__all__, *(of_name(name).__name__ for name in names())]
