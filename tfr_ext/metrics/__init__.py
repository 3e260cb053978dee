"""Ranking metrics: for Keras, and per query by a stated convention."""

from tfr_ext.metrics.evaluation import (
    DEFAULT_METRICS,
    Convention,
    fill_empty,
    higher_is_better,
    means,
    parse_names,
    per_query,
)
from tfr_ext.metrics.exact import names
from tfr_ext.metrics.keras_metrics import (
    EMPTY_LIST_RULES,
    ERRMetric,
    ExpectedGradeMetric,
    RankingMetric,
)
from tfr_ext.metrics.score_files import read_scores
from tfr_ext.metrics.sinkhorn import SinkhornErrorMetric
from tfr_ext.metrics.trec import (
    TrecRun,
    document_names,
    read_run,
    write_qrels,
    write_run,
)

__all__ = [
    "DEFAULT_METRICS",
    "EMPTY_LIST_RULES",
    "Convention",
    "ERRMetric",
    "ExpectedGradeMetric",
    "RankingMetric",
    "SinkhornErrorMetric",
    "TrecRun",
    "document_names",
    "fill_empty",
    "higher_is_better",
    "means",
    "names",
    "parse_names",
    "per_query",
    "read_run",
    "read_scores",
    "write_qrels",
    "write_run",
]
