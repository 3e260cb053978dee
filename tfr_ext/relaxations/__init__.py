"""Relaxations: pure functions from scores to rank indicators.

Each gives row-stochastic indicators `[batch, rank, item]`, and the expectation of
given item values at each rank `[batch, rank]`, which is what an objective reads.
"""

from tfr_ext.relaxations.exact import exact_expectation, exact_sort, ranking
from tfr_ext.relaxations.smoothi import smoothi, smoothi_expectation

__all__ = [
    "exact_expectation",
    "exact_sort",
    "ranking",
    "smoothi",
    "smoothi_expectation",
]
