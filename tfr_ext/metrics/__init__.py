"""Ranking metrics: for Keras, and per query by a stated convention."""

from tfr_ext.metrics.evaluation import (
    DEFAULT_METRICS,
    TIES_BY_NAME,
    TIES_BY_POSITION,
    Convention,
    fill_empty,
    higher_is_better,
    means,
    parse_names,
    per_query,
    plain_name,
)
from tfr_ext.metrics.exact import names
from tfr_ext.metrics.keras_metrics import (
    EMPTY_LIST_RULES,
    ERRMetric,
    ExpectedGradeMetric,
    RankingMetric,
)
from tfr_ext.metrics.score_files import read_scores
from tfr_ext.metrics.significance import adjusted, p_value, wins_ties_losses
from tfr_ext.metrics.sinkhorn import SinkhornErrorMetric
from tfr_ext.metrics.trec import (
    TrecRun,
    document_names,
    read_run,
    write_qrels,
    write_run,
)

__all__ = [
    "Convention",
    "DEFAULT_METRICS",
    "EMPTY_LIST_RULES",
    "ERRMetric",
    "ExpectedGradeMetric",
    "RankingMetric",
    "SinkhornErrorMetric",
    "TIES_BY_NAME",
    "TIES_BY_POSITION",
    "TrecRun",
    "adjusted",
    "document_names",
    "fill_empty",
    "higher_is_better",
    "means",
    "names",
    "p_value",
    "parse_names",
    "per_query",
    "plain_name",
    "read_run",
    "read_scores",
    "wins_ties_losses",
    "write_qrels",
    "write_run",
]
