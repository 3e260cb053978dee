"""Ranking metrics: for Keras, and per query by a stated convention."""

from tfr_ext.metrics.evaluation import (
    DEFAULT_METRICS,
    Convention,
    higher_is_better,
    means,
    parse_names,
    per_query,
)
from tfr_ext.metrics.keras_metrics import (
    EMPTY_LIST_RULES,
    ERRMetric,
    RankingMetric,
)
from tfr_ext.metrics.trec import document_names, write_qrels, write_run

__all__ = [
    "DEFAULT_METRICS",
    "EMPTY_LIST_RULES",
    "Convention",
    "ERRMetric",
    "RankingMetric",
    "document_names",
    "higher_is_better",
    "means",
    "parse_names",
    "per_query",
    "write_qrels",
    "write_run",
]
