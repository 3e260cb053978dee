"""Relaxations: differentiable rankings of scores that objectives are computed from.

Some are rank indicators: row-stochastic matrices `[batch, rank, item]` that say which
item stands at each rank, so that an objective sees the expected value at each rank.
Others are positions: they say at which rank each item stands, `[batch, list]`.

Each module has one relaxation, first as it is defined, in a few lines, and then in its
fast form. Both are pure functions, and there is a class for
`tfr_ext.losses.MetricLoss`.
"""

from tfr_ext.core.masked import at_ranks as exact_expectation
from tfr_ext.core.masked import ranking
from tfr_ext.relaxations.approx_metric import ApproxPositions, approx_positions
from tfr_ext.relaxations.fast_soft_rank import FastSoftRank, soft_rank
from tfr_ext.relaxations.neural_sort import (
    NeuralSort,
    neural_sort,
    neural_sort_expectation,
    neural_sort_log_likelihood,
    plain_neural_sort,
)
from tfr_ext.relaxations.pirank import PiRank, merge_sort, merge_sort_expectation
from tfr_ext.relaxations.relaxation import (
    FromFunction,
    Indicators,
    Positions,
    Relaxation,
)
from tfr_ext.relaxations.sinkhorn_sort import SinkhornSort, sinkhorn_rank
from tfr_ext.relaxations.smoothi import (
    SmoothI,
    plain_smoothi,
    smoothi,
    smoothi_expectation,
)
from tfr_ext.relaxations.soft_sort import (
    SoftSort,
    SoftSortPositions,
    soft_sort,
    soft_sort_expectation,
    soft_sort_positions,
)
from tfr_ext.relaxations.sorted_scores import exact_sort

__all__ = [
    "ApproxPositions",
    "FastSoftRank",
    "FromFunction",
    "Indicators",
    "NeuralSort",
    "PiRank",
    "Positions",
    "Relaxation",
    "SinkhornSort",
    "SmoothI",
    "SoftSort",
    "SoftSortPositions",
    "approx_positions",
    "exact_expectation",
    "exact_sort",
    "merge_sort",
    "merge_sort_expectation",
    "neural_sort",
    "neural_sort_expectation",
    "neural_sort_log_likelihood",
    "plain_neural_sort",
    "plain_smoothi",
    "ranking",
    "sinkhorn_rank",
    "smoothi",
    "smoothi_expectation",
    "soft_rank",
    "soft_sort",
    "soft_sort_expectation",
    "soft_sort_positions",
]
