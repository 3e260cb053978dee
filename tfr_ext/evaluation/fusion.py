"""Fusion of runs by weighted scores or ranks, and the choice of the weights.

A fused score is a weighted mean of what each run contributes to an item, see
`contributions`. Fusion is linear in the weights, which are chosen on validation lists.

- Shaw and Fox, "Combination of Multiple Searches" (TREC-2, 1994): sums of scores, of
  which 'zscore' is the one whose scores are standardised within a query.
- Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
  individual Rank Learning Methods" (SIGIR 2009): 'rrf'.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfr_ext.core import checks
from tfr_ext.data.lists import RankingLists
from tfr_ext.data.tables import row_arrays
from tfr_ext.evaluation import queries

FUSIONS = ("zscore", "rank", "rrf")

# Cormack et al. chose 60 in a pilot study, and most systems have it.
RRF_K = 60.0

# Steps of 0.1 where there are at most four runs; wider ones keep the grid this small.
_MOST_POINTS = 300


def contributions(
    scores: npt.ArrayLike,
    row_splits: npt.ArrayLike,
    fusion: str = "zscore",
    rrf_k: float = RRF_K,
) -> np.ndarray:
    """Returns the contribution of a run to the fused score of each item.

    - 'zscore': the score minus the mean of its list, over the standard deviation
      (that of a population); 0 if all scores of the list are equal. An item that the
      run lacks gets the lowest value of its list.
    - 'rank': minus the rank, from 1; items with equal scores share the mean of their
      ranks. An item that the run lacks comes right after all that it has.
    - 'rrf': `1 / (rrf_k + rank)`, with the same ranks; 0 for an item that the run
      lacks.

    A run that lacks a list adds the same to all its items.

    Args:
        scores: scores of the run, `[items]`; minus infinity where it lacks the item.
        row_splits: where each list begins, and the end of the last, `[lists + 1]`.
        fusion: 'zscore', 'rank' or 'rrf'.
        rrf_k: the constant of 'rrf'.

    Returns:
        A float64 array `[items]`.

    Raises:
        ValueError: If there is no such fusion, a score is NaN or infinity, or `rrf_k`
            is negative.

    Examples:
        >>> contributions([3.0, 1.0, 2.0, -np.inf], [0, 4], "rank").tolist()
        [-1.0, -3.0, -2.0, -4.0]
        >>> contributions([3.0, 1.0, -np.inf], [0, 3], "zscore").tolist()
        [1.0, -1.0, -1.0]
    """
    checks.choice("fusion", fusion, list(FUSIONS))
    if not 0 <= rrf_k < math.inf:
        raise ValueError(f"`rrf_k` must be a finite number >= 0. Received: {rrf_k}.")
    given = np.asarray(row_arrays.unmasked(scores), np.float64)
    if np.isnan(given).any() or (given == np.inf).any():
        raise ValueError(
            "`scores` must be finite, or minus infinity. Received: others."
        )
    splits = np.asarray(row_splits)
    found = np.zeros(len(given))
    for start, end in zip(splits, splits[1:]):
        one = given[start:end]
        has = one > -np.inf
        if not has.any():
            continue
        if fusion == "zscore":
            values = _standardised(one[has])
            missing = values.min()
        else:
            ranks = _ranks(one[has])
            values = -ranks if fusion == "rank" else 1 / (rrf_k + ranks)
            missing = -(len(ranks) + 1.0) if fusion == "rank" else 0.0
        found[start:end] = missing
        found[start:end][has] = values
    return found


def fused(
    contributed: npt.ArrayLike, weights: Sequence[float] | None = None
) -> np.ndarray:
    """Returns the fused scores: the weighted mean of the runs' contributions.

    Args:
        contributed: what `contributions` returned for each run, `[runs, items]`.
        weights: a weight of each run, of any sum; all the same by default.

    Returns:
        Fused scores `[items]`.

    Raises:
        ValueError: If there is not one weight for each run, one is negative or not
            finite, or all are 0.

    Examples:
        >>> fused([[0.0, 1.0], [4.0, 1.0]], [3, 1]).tolist()
        [1.0, 1.0]
    """
    values = np.asarray(contributed, np.float64)
    chosen = np.ones(len(values)) if weights is None else np.asarray(weights, float)
    checked_weights(chosen.tolist(), len(values))
    return (chosen / chosen.sum()) @ values


def checked_weights(weights: Sequence[float], num_runs: int) -> tuple[float, ...]:
    """Returns weights of runs, whose sum is 1.

    Examples:
        >>> checked_weights([3, 1], 2)
        (0.75, 0.25)
    """
    if len(weights) != num_runs:
        raise ValueError(
            f"`weights` must have a weight for each of the {num_runs} runs. Received: "
            f"{len(weights)}."
        )
    if not all(0 <= w < math.inf for w in weights) or not any(weights):
        raise ValueError(
            "`weights` must be finite numbers >= 0, not all of them 0. Received: "
            f"{','.join(f'{w:g}' for w in weights)}."
        )
    total = math.fsum(weights)
    return tuple(float(weight / total) for weight in weights)


def weight_grid(num_runs: int) -> np.ndarray:
    """Returns weights to choose from: an even grid over the simplex.

    The step is 0.1 for up to four runs, and as small as 300 points allow for more;
    there are at least the weights that choose a single run. The point with the most
    similar weights comes first, so that of equally good weights these are chosen.

    Args:
        num_runs: number of runs.

    Returns:
        Weights `[points, runs]`, each of sum 1.

    Raises:
        ValueError: If there is no run.

    Examples:
        >>> weight_grid(2)[:3].tolist()
        [[0.5, 0.5], [0.4, 0.6], [0.6, 0.4]]
        >>> [len(weight_grid(n)) for n in (1, 2, 3, 4, 5)]
        [1, 11, 66, 286, 210]
    """
    checks.at_least("num_runs", num_runs, 1)
    steps = 10
    while steps > 1 and math.comb(steps + num_runs - 1, steps) > _MOST_POINTS:
        steps -= 1
    # The bars between runs, among as many steps.
    places = itertools.combinations(range(steps + num_runs - 1), num_runs - 1)
    counts = np.array(
        [np.diff([-1, *bars, steps + num_runs - 1]) - 1 for bars in places]
    )
    points = sorted(counts.tolist(), key=lambda p: (sum(c * c for c in p), p))
    return np.array(points) / steps


@dataclasses.dataclass(frozen=True)
class Choice:
    """Weights that were chosen on validation lists.

    Their sum is 1, and `value` is the mean of the metric with them.
    """

    weights: tuple[float, ...]
    value: float
    tried: int


def choose_weights(
    contributed: npt.ArrayLike,
    lists: RankingLists,
    metric: str,
    convention: queries.Convention,
) -> Choice:
    """Chooses the weights of `weight_grid` with the best mean of a metric.

    Args:
        contributed: what `contributions` returned for each run, `[runs, items]`; minus
            infinity for an item that no run has.
        lists: the validation lists.
        metric: its name, such as 'ndcg_10'.
        convention: what it means.

    Returns:
        The best weights; of equally good ones (to within 1e-12), the first in the grid.

    Raises:
        ValueError: If no list counts for the metric.
    """
    values = np.asarray(contributed, np.float64)
    (name,) = queries.parse_names([metric], "metric")
    best: Choice | None = None
    grid = weight_grid(len(values))
    sign = 1 if queries.higher_is_better(name) else -1
    lacking = (values == -np.inf).all(axis=0)
    present = np.where(lacking, 0.0, values)
    for weights in grid:
        scores = np.where(lacking, -np.inf, fused(present, weights.tolist()))
        per_query = queries.per_query(lists, scores, [name], convention)
        value = queries.means(per_query)[name]
        if value is None:
            raise ValueError(f"{name}: no validation query counts.")
        if best is None or sign * (value - best.value) > 1e-12:
            best = Choice(tuple(weights.tolist()), value, len(grid))
    assert best is not None
    return best


def _standardised(scores: np.ndarray) -> np.ndarray:
    if np.ptp(scores) == 0:
        return np.zeros(len(scores))
    return (scores - scores.mean()) / scores.std()


def _ranks(scores: np.ndarray) -> np.ndarray:
    """Returns ranks from 1 for the highest; equal scores share their mean rank."""
    _, which, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[which]
