"""Evaluation per query under a stated convention, and comparison of systems."""

from tfr_ext.evaluation.fusion import choose_weights, contributions, fused, weight_grid
from tfr_ext.evaluation.queries import (
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
from tfr_ext.evaluation.score_files import read_scores
from tfr_ext.evaluation.significance import (
    Effect,
    adjusted,
    effect,
    p_value,
    wins_ties_losses,
)
from tfr_ext.evaluation.trec import (
    TrecRun,
    read_qrels,
    read_run,
    with_runs,
    write_qrels,
    write_run,
)
from tfr_ext.evaluation.trec_names import document_names

__all__ = [
    "Convention",
    "DEFAULT_METRICS",
    "Effect",
    "TIES_BY_NAME",
    "TIES_BY_POSITION",
    "TrecRun",
    "adjusted",
    "choose_weights",
    "contributions",
    "document_names",
    "effect",
    "fill_empty",
    "fused",
    "higher_is_better",
    "means",
    "p_value",
    "parse_names",
    "per_query",
    "plain_name",
    "read_qrels",
    "read_run",
    "read_scores",
    "weight_grid",
    "wins_ties_losses",
    "with_runs",
    "write_qrels",
    "write_run",
]
