"""Gradient-boosted trees: ranking losses as objectives of LightGBM, and training.

They need the extra `gbm`: LightGBM and CatBoost.
"""

from tfr_ext.gbm.gbm_config import GbmConfig
from tfr_ext.gbm.gbm_trainer import GbmResult, train
from tfr_ext.gbm.gradient_objective import GradientObjective
from tfr_ext.gbm.kl_objectives import (
    ListwiseKLGaussianObjective,
    PointwiseKLBinomialObjective,
)
from tfr_ext.gbm.list_objective import Objective
from tfr_ext.models.trees.gbm_model import GbmModel, load

__all__ = [
    "GbmConfig",
    "GbmModel",
    "GbmResult",
    "GradientObjective",
    "ListwiseKLGaussianObjective",
    "Objective",
    "PointwiseKLBinomialObjective",
    "load",
    "train",
]
