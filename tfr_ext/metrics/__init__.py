"""Ranking metrics for Keras; `tfr_ext.evaluation` has them per query."""

from tfr_ext.metrics.convergence import SinkhornErrorMetric
from tfr_ext.metrics.keras_metrics import (
    EMPTY_LIST_RULES,
    ERRMetric,
    ExpectedGradeMetric,
    RankingMetric,
)
from tfr_ext.objectives import names

__all__ = [
    "EMPTY_LIST_RULES",
    "ERRMetric",
    "ExpectedGradeMetric",
    "RankingMetric",
    "SinkhornErrorMetric",
    "names",
]
