"""TensorFlow Ranking's own losses, with fixes for the faults that can be fixed."""

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
from tfr_ext.losses.tfr.mended import TFRLoss

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
