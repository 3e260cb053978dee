"""Trains, evaluates and exports rankers from settings and data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfr_ext.scoring.evaluator import EvaluationResult, evaluate
    from tfr_ext.scoring.list_ranker import RankingResult, rank
    from tfr_ext.scoring.rank_config import RankConfig
    from tfr_ext.scoring.run_fuser import FusionConfig, FusionResult, fuse
    from tfr_ext.settings.data_config import DataConfig
    from tfr_ext.settings.evaluation_config import EvaluationConfig
    from tfr_ext.settings.model_config import LossConfig, ModelConfig
    from tfr_ext.settings.training_config import MetricsConfig, TrainingConfig
    from tfr_ext.training.restoring import (
        ExportConfig,
        ExportResult,
        export_runs,
    )
    from tfr_ext.training.trainer import TrainingResult, train

__all__ = [
    "DataConfig",
    "EvaluationConfig",
    "EvaluationResult",
    "ExportConfig",
    "ExportResult",
    "FusionConfig",
    "FusionResult",
    "LossConfig",
    "MetricsConfig",
    "ModelConfig",
    "RankConfig",
    "RankingResult",
    "TrainingConfig",
    "TrainingResult",
    "evaluate",
    "export_runs",
    "fuse",
    "rank",
    "train",
]

_MODULES = {
    "scoring.evaluator": ("EvaluationResult", "evaluate"),
    "training.trainer": ("TrainingResult", "train"),
    "training.restoring": ("ExportConfig", "ExportResult", "export_runs"),
    "scoring.run_fuser": ("FusionConfig", "FusionResult", "fuse"),
    "scoring.list_ranker": ("RankingResult", "rank"),
    "scoring.rank_config": ("RankConfig",),
    "settings.training_config": ("MetricsConfig", "TrainingConfig"),
    "settings.data_config": ("DataConfig",),
    "settings.evaluation_config": ("EvaluationConfig",),
    "settings.model_config": ("LossConfig", "ModelConfig"),
}


def __getattr__(name: str) -> Any:
    """Imports a name when it is used: `diagnosis`, also in here, needs none of them."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"tfr_ext.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Lists the public names, those that are imported on first access too."""
    return [*__all__]
