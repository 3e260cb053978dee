"""Relaxations: pure functions from scores to rank indicators.

Each gives row-stochastic indicators `[batch, rank, item]`, and the expectation of
given item values at each rank `[batch, rank]`, which is what an objective reads. But
`soft_rank`, `sinkhorn_rank` and `soft_sort_positions` give the positions of items,
which `tfr_ext.positions` reads.
"""

from tfr_ext.relaxations.exact import exact_expectation, exact_sort, ranking
from tfr_ext.relaxations.fast_soft_rank import soft_rank
from tfr_ext.relaxations.neural_sort import (
    neural_sort,
    neural_sort_expectation,
    neural_sort_log_likelihood,
)
from tfr_ext.relaxations.pirank import merge_sort, merge_sort_expectation
from tfr_ext.relaxations.sinkhorn_sort import sinkhorn_rank
from tfr_ext.relaxations.smoothi import smoothi, smoothi_expectation
from tfr_ext.relaxations.soft_sort import (
    soft_sort,
    soft_sort_expectation,
    soft_sort_positions,
)

__all__ = [
    "exact_expectation",
    "exact_sort",
    "merge_sort",
    "merge_sort_expectation",
    "neural_sort",
    "neural_sort_expectation",
    "neural_sort_log_likelihood",
    "ranking",
    "sinkhorn_rank",
    "smoothi",
    "smoothi_expectation",
    "soft_rank",
    "soft_sort",
    "soft_sort_expectation",
    "soft_sort_positions",
]
