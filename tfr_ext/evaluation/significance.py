"""Paired tests of two systems over queries, and corrections for multiple tests.

The tests themselves are SciPy's. This module settles what SciPy leaves open: queries on
which both systems are equal, and systems that are equal on all queries, have a stated
meaning instead of causing a warning and NaN. SciPy is imported where it is used, as the
import takes half a second and training does not need it.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tfr_ext.core import checks
from tfr_ext.data.tables import row_arrays

TESTS = ("t", "wilcoxon", "randomisation")
ALTERNATIVES = ("two-sided", "greater", "less")
CORRECTIONS = ("none", "bonferroni", "holm")

# The values are averages of numbers that were written with nine digits.
_RELATIVE_ROUNDING = 1e-8

# Maximum size of a batch of resamples: 32 MiB of numbers.
_BATCH = 1 << 22


def differences(a: npt.ArrayLike, b: npt.ArrayLike) -> np.ndarray:
    """Returns `a - b`, so that differences that vary only by rounding are equal.

    The result is exactly 0 where the two are equal, and the same for differences such
    as .8 - .6 and .6 - .4, which are within 1e-8 of each other (more if values are
    above 1).

    Args:
        a: values per query, `[..., queries]`.
        b: values of the same queries, `[..., queries]`.

    Raises:
        ValueError: If the shapes do not match, there are fewer than two queries, or a
            value is not finite.

    Examples:
        >>> differences([0.1 + 0.2, 0.5], [0.3, 0.25])
        array([0.  , 0.25])
    """
    a, b = (np.asarray(row_arrays.unmasked(x), np.float64) for x in (a, b))
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[-1]:
        raise ValueError(
            "`a` and `b` must have one value for each of the same queries. Received: "
            f"shapes {a.shape} and {b.shape}."
        )
    if a.shape[-1] < 2:
        raise ValueError(
            f"A paired test needs at least 2 queries. Received: {a.shape[-1]}."
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError(
            "`a` and `b` must be finite. Leave out the queries that do not count."
        )
    change = a - b
    largest = max(1.0, np.abs(a).max(initial=0), np.abs(b).max(initial=0))
    # Otherwise rounding would decide which of two equal differences is greater.
    sizes, which = np.unique(np.append(0.0, np.abs(change)), return_inverse=True)
    groups = np.cumsum(np.append(0, np.diff(sizes) > _RELATIVE_ROUNDING * largest))
    first = np.append(0, np.flatnonzero(np.diff(groups)) + 1)
    sizes = sizes[first][groups]
    return np.sign(change) * sizes[which.ravel()[1:]].reshape(change.shape)


def p_value(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    test: str = "t",
    alternative: str = "two-sided",
    num_resamples: int = 10_000,
    seed: int = 1,
) -> np.ndarray:
    """Returns the probability of a difference such as that of `a` and `b` by chance.

    If all differences are 0, it is 1.

    - 't': Student's paired t-test, `scipy.stats.ttest_rel`.
    - 'wilcoxon': the signed-rank test, `scipy.stats.wilcoxon`. Queries without a
      difference are left out, as Wilcoxon did (`zero_method='wilcox'`). The exact
      distribution is used for at most 50 other queries without ties among their
      absolute differences, and otherwise the normal distribution, corrected for ties
      but not for continuity.
    - 'randomisation': Fisher's test of the mean difference. The signs of the
      differences are redrawn at random, and the p-value is the share of draws,
      including the observed one, whose mean is at least as extreme. If there are at
      most `num_resamples` combinations of signs, `2**queries`, all of them are tried
      and the p-value is exact. This is what
      `scipy.stats.permutation_test(permutation_type='samples')` does, but for many
      pairs in one matrix product and in bounded memory.

    Args:
        a: values per query, `[..., queries]`.
        b: values of the same queries, `[..., queries]`.
        test: 't', 'wilcoxon' or 'randomisation'.
        alternative: 'two-sided', or 'greater' or 'less' to test whether `a` is greater
            or less than `b`.
        num_resamples: number of draws of 'randomisation'.
        seed: seed of these draws, which all pairs share.

    Returns:
        An array `[...]`, or a number for a single pair.

    Raises:
        ValueError: If an argument is out of range, see also `differences`.

    Examples:
        >>> a, b = [0.5, 0.6, 0.9, 0.4], [0.4, 0.3, 0.7, 0.4]
        >>> round(float(p_value(a, b)), 4)
        0.1027
        >>> round(float(p_value(a, b, 'randomisation', 'greater')), 4)
        0.125
    """
    checks.choice("test", test, list(TESTS))
    checks.choice("alternative", alternative, list(ALTERNATIVES))
    checks.at_least("num_resamples", num_resamples, 1)
    change = differences(a, b)
    rows = change.reshape(-1, change.shape[-1])
    result = np.ones(len(rows))
    some = rows.any(axis=1)
    if some.any():
        if test == "t":
            result[some] = _t(rows[some], alternative)
        elif test == "wilcoxon":
            result[some] = [_wilcoxon(row, alternative) for row in rows[some]]
        else:
            result[some] = _randomisation(rows[some], alternative, num_resamples, seed)
    return result.reshape(change.shape[:-1])[()]


def direction(a: npt.ArrayLike, b: npt.ArrayLike, test: str = "t") -> np.ndarray:
    """Returns the sign of the statistic of a test, 1 where `a` is greater.

    It is the mean difference or, for 'wilcoxon', the difference of rank sums.

    Args:
        a: values per query, `[..., queries]`.
        b: values of the same queries, `[..., queries]`.
        test: 't', 'wilcoxon' or 'randomisation'.

    Returns:
        -1, 0 or 1, `[...]`.

    Examples:
        >>> a, b = [0.1, 0.2, 0.3, 0.0], [0.0, 0.1, 0.2, 0.9]
        >>> int(direction(a, b)), int(direction(a, b, 'wilcoxon'))
        (-1, 1)
    """
    from scipy import stats

    change = differences(a, b)
    if checks.choice("test", test, list(TESTS)) == "wilcoxon":
        # Queries without a difference count 0, and shift the ranks of the others
        # equally.
        ranks = stats.rankdata(np.abs(change), axis=-1)
        ranks -= (change == 0).sum(axis=-1, keepdims=True)
        return np.sign((np.sign(change) * ranks).sum(axis=-1)).astype(int)
    total = change.sum(axis=-1)
    return np.where(np.abs(total) <= _rounding(change), 0, np.sign(total)).astype(int)


@dataclasses.dataclass(frozen=True)
class Effect:
    """A mean difference of two systems.

    Attributes:
        difference: the mean difference over all queries.
        low: lower end of its confidence interval.
        high: upper end.
        p_value: that of the two-sided t-test which the interval belongs to.
        queries: number of queries.
    """

    difference: float
    low: float
    high: float
    p_value: float
    queries: int


def effect(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    strata: npt.ArrayLike | None = None,
    alternative: str = "two-sided",
    confidence: float = 0.95,
) -> Effect:
    """Returns the mean difference of two systems, its confidence interval and p-value.

    Without strata these are Student's for the differences of pairs. With strata, such
    as collections, the mean over all queries is that of the strata's means, weighted by
    their numbers of queries `n_h`, and its variance is
    `sum_h (n_h / n)**2 * s_h**2 / n_h`, as of stratified samples: how strata differ in
    their means is no error. The degrees of freedom are Welch and Satterthwaite's. With
    two strata, this is Welch's test of `n_1 / n * x_1` and `-n_2 / n * x_2`.

    Args:
        a: values per query, `[queries]`.
        b: values of the same queries, `[queries]`.
        strata: the stratum of each query, `[queries]`; all the same by default.
        alternative: that of the p-value, see `p_value`.
        confidence: the probability of the two-sided interval.

    Raises:
        ValueError: If the shapes do not match, a value is not finite, or a stratum has
            fewer than two queries.

    Examples:
        >>> found = effect([0.5, 0.7, 0.9, 0.6], [0.4, 0.4, 0.7, 0.4])
        >>> [round(x, 3) for x in (found.difference, found.low, found.high)]
        [0.2, 0.07, 0.33]
    """
    from scipy import stats

    checks.choice("alternative", alternative, list(ALTERNATIVES))
    change = differences(a, b)
    which = np.zeros(len(change), int) if strata is None else np.asarray(strata)
    if which.shape != change.shape:
        raise ValueError(
            "`strata` must have an entry for each query. Received: shapes "
            f"{which.shape} and {change.shape}."
        )
    parts = [change[which == one] for one in np.unique(which)]
    if min(map(len, parts)) < 2:
        raise ValueError("`strata` must have at least 2 queries each. Received: fewer.")
    total = len(change)
    # Each stratum's part of the variance of the mean.
    variances = np.array([part.var(ddof=1) * len(part) / total**2 for part in parts])
    mean, variance = float(change.mean()), float(variances.sum())
    if variance <= (_rounding(change) / total) ** 2:
        p = 1.0 if abs(mean) <= _rounding(change) / total else 0.0
        if alternative != "two-sided" and p == 0.0:
            p = float((mean > 0) != (alternative == "greater"))
        return Effect(mean, mean, mean, p, total)
    shares = variances / variance
    degrees = 1 / sum(s**2 / (len(p) - 1) for s, p in zip(shares, parts))
    error = float(np.sqrt(variance))
    low, high = stats.t.interval(confidence, degrees, mean, error)
    ratio = mean / error
    tail = {
        "two-sided": 2 * stats.t.sf(abs(ratio), degrees),
        "greater": stats.t.sf(ratio, degrees),
        "less": stats.t.cdf(ratio, degrees),
    }[alternative]
    return Effect(mean, float(low), float(high), float(tail), total)


def adjusted(p_values: npt.ArrayLike, correction: str = "bonferroni") -> np.ndarray:
    """Returns p-values that hold for several tests together.

    Args:
        p_values: one p-value per test, `[tests]`.
        correction: 'none', 'bonferroni' or 'holm', which is never less powerful.

    Raises:
        ValueError: If a p-value is not from 0 to 1, or there is no such correction.

    Examples:
        >>> adjusted([0.01, 0.04, 0.03], 'bonferroni')
        array([0.03, 0.12, 0.09])
        >>> adjusted([0.01, 0.04, 0.03], 'holm')
        array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"`p_values` must be from 0 to 1. Received: {p_values!r}.")
    checks.choice("correction", correction, list(CORRECTIONS))
    if correction == "none":
        return p
    if correction == "bonferroni":
        return np.minimum(1, p * len(p))
    order = np.argsort(p)
    result = np.empty_like(p)
    result[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(1, result)


def wins_ties_losses(
    a: npt.ArrayLike, b: npt.ArrayLike, higher_is_better: bool = True
) -> tuple[int, int, int]:
    """Counts the queries on which `a` is better than `b`, equal to it, and worse.

    Args:
        a: values per query, `[queries]`.
        b: values of the same queries, `[queries]`.
        higher_is_better: False for a cost, such as ARP.

    Examples:
        >>> wins_ties_losses([1, 0.5, 0.2], [0.5, 0.5, 0.1])
        (2, 1, 0)
    """
    change = differences(a, b) * (1 if higher_is_better else -1)
    signs = [int((np.sign(change) == sign).sum()) for sign in (1, 0, -1)]
    return signs[0], signs[1], signs[2]


def _rounding(change: np.ndarray) -> np.ndarray:
    """Returns the possible rounding error of sums of differences, `[...]`."""
    largest = np.maximum(1.0, np.abs(change).max(axis=-1))
    return _RELATIVE_ROUNDING * largest * change.shape[-1]


def _t(rows: np.ndarray, alternative: str) -> np.ndarray:
    from scipy import stats

    with warnings.catch_warnings(), np.errstate(divide="ignore"):
        # If the difference is the same for all queries, t is infinite, as it should be.
        warnings.simplefilter("ignore", RuntimeWarning)
        # The test of pairs is the test of their differences.
        return stats.ttest_1samp(rows, 0, axis=1, alternative=alternative).pvalue


def _wilcoxon(row: np.ndarray, alternative: str) -> float:
    from scipy import stats

    row = row[row != 0]
    ties = len(np.unique(np.abs(row))) < len(row)
    # Chosen here, as the choice of 'auto' differs between versions of SciPy.
    method = "exact" if len(row) <= 50 and not ties else "approx"
    return stats.wilcoxon(row, alternative=alternative, method=method).pvalue


def _randomisation(
    rows: np.ndarray, alternative: str, num_resamples: int, seed: int
) -> np.ndarray:
    size = max(1, _BATCH // max(rows.shape))
    exact = 2 ** rows.shape[1] <= num_resamples
    if exact:
        batches = _all_signs(rows.shape[1], size)
    else:
        batches = _random_signs(rows.shape[1], num_resamples, size, seed)
    turned = {"greater": 1, "less": -1, "two-sided": 1}[alternative] * rows
    observed = turned.sum(axis=1)
    # Sums of the same numbers in another order count as equal.
    least = np.abs(observed) if alternative == "two-sided" else observed
    least = least - _rounding(turned)
    extreme, count = np.zeros(len(rows)), 0
    for signs in batches:
        sums = signs @ turned.T
        if alternative == "two-sided":
            sums = np.abs(sums)
        extreme += (sums >= least).sum(axis=0)
        count += len(signs)
    return extreme / count if exact else (extreme + 1) / (count + 1)


def _all_signs(queries: int, size: int) -> Iterator[np.ndarray]:
    for start in range(0, 2**queries, size):
        numbers = np.arange(start, min(start + size, 2**queries))
        bits = (numbers[:, np.newaxis] >> np.arange(queries)) & 1
        yield 2.0 * bits - 1


def _random_signs(
    queries: int, number: int, size: int, seed: int
) -> Iterator[np.ndarray]:
    random = np.random.default_rng(seed)
    for start in range(0, number, size):
        shape = (min(size, number - start), queries)
        yield 2.0 * random.integers(0, 2, shape, np.int8) - 1
