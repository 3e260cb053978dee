"""Ranking metrics for Keras; `tfr_ext.evaluation` has them per query."""

from tfr_ext.metrics.convergence import SinkhornErrorMetric
from tfr_ext.metrics.exact_values import names
from tfr_ext.metrics.keras_metrics import (
    EMPTY_LIST_RULES,
    ERRMetric,
    ExpectedGradeMetric,
    RankingMetric,
)

__all__ = [
    "EMPTY_LIST_RULES",
    "ERRMetric",
    "ExpectedGradeMetric",
    "RankingMetric",
    "SinkhornErrorMetric",
    "names",
]
