"""TensorFlow Ranking's own losses, with fixes for the faults that can be fixed.

They need TensorFlow Ranking, which is imported on first access to one of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfr_ext import _stack
from tfr_ext.losses.tfr import names as names

if TYPE_CHECKING:
    from tfr_ext.losses.tfr.classes import (
        LOSSES,
        ApproxMRRLoss,
        ApproxNDCGLoss,
        CalibratedSoftmaxLoss,
        CoupledRankDistilLoss,
        GumbelApproxNDCGLoss,
        ListMLELoss,
        MeanSquaredLoss,
        OrdinalLoss,
        PairwiseHingeLoss,
        PairwiseLogisticLoss,
        PairwiseMSELoss,
        PairwiseSoftZeroOneLoss,
        SigmoidCrossEntropyLoss,
        SoftmaxLoss,
        UniqueSoftmaxLoss,
        YetiLogisticLoss,
    )
    from tfr_ext.losses.tfr.fixed import TFRLoss

__all__ = [
    "ApproxMRRLoss",
    "ApproxNDCGLoss",
    "CalibratedSoftmaxLoss",
    "CoupledRankDistilLoss",
    "GumbelApproxNDCGLoss",
    "LOSSES",
    "ListMLELoss",
    "MeanSquaredLoss",
    "OrdinalLoss",
    "PairwiseHingeLoss",
    "PairwiseLogisticLoss",
    "PairwiseMSELoss",
    "PairwiseSoftZeroOneLoss",
    "SigmoidCrossEntropyLoss",
    "SoftmaxLoss",
    "TFRLoss",
    "UniqueSoftmaxLoss",
    "YetiLogisticLoss",
]


def __getattr__(name: str) -> Any:
    """Imports TensorFlow Ranking, or says what it lacks, and returns the attribute."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _stack.import_tfr()
    return getattr(importlib.import_module(f"{__name__}.classes"), name)


def __dir__() -> list[str]:
    """Lists the public names, if TensorFlow Ranking can be imported."""
    return [] if _stack.tfr_problem() else [*__all__]
