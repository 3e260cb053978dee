"""Paired tests against SciPy called directly, and numbers made by hand."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import stats

from tfr_ext.evaluation import significance

PAIRS = {
    "continuous": lambda rng: (rng.normal(0.1, 1, 40), rng.normal(0, 1, 40)),
    "some equal": lambda rng: (rng.integers(0, 4, 80) / 4, rng.integers(0, 4, 80) / 4),
    "binary": lambda rng: (rng.random(200) < 0.5, rng.random(200) < 0.4),
}
SIDES = significance.ALTERNATIVES


@pytest.fixture(params=PAIRS)
def pair(request):
    a, b = PAIRS[request.param](np.random.default_rng(3))
    return a.astype(float), b.astype(float)


@pytest.mark.parametrize("side", SIDES)
def test_t_is_that_of_scipy(pair, side):
    a, b = pair
    expected = stats.ttest_rel(a, b, alternative=side).pvalue
    np.testing.assert_allclose(significance.p_value(a, b, "t", side), expected)


@pytest.mark.parametrize("side", SIDES)
def test_wilcoxon_is_that_of_scipy(pair, side):
    a, b = pair
    method = "exact" if len(np.unique(abs(a - b))) == len(a) else "approx"
    expected = stats.wilcoxon(
        a, b, zero_method="wilcox", alternative=side, method=method
    ).pvalue
    found = significance.p_value(a, b, "wilcoxon", side)
    np.testing.assert_allclose(found, expected)


def test_wilcoxon_counts_all_signs():
    # Ranks 1 to 4, of which the first is against: sums of at most 1, of 16, twice.
    assert significance.p_value([-1, 2, 3, 4], [0] * 4, "wilcoxon") == 4 / 16


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("num_resamples", [1024, 20_000])
def test_few_queries_are_randomised_exactly(side, num_resamples):
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 5, [2, 10]) / 5.0
    expected = stats.permutation_test(
        (a, b),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=num_resamples,
        alternative=side,
    ).pvalue
    found = significance.p_value(a, b, "randomisation", side, num_resamples)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_many_queries_are_randomised_near_the_exact_value():
    rng = np.random.default_rng(2)
    difference = rng.normal(0.4, 1, 14)
    sums = np.array(list(itertools.product([-1, 1], repeat=14))) @ difference
    exact = np.mean(np.abs(sums) >= difference.sum() - 1e-9)
    found = [
        significance.p_value(
            difference, 0 * difference, "randomisation", num_resamples=5000, seed=seed
        )
        for seed in (1, 1, 2)
    ]
    assert found[0] == found[1] != found[2]
    np.testing.assert_allclose(found, exact, atol=4 * np.sqrt(exact / 5000))
    assert 0.02 < exact < 0.5


def test_no_draw_is_as_extreme():
    a = np.linspace(1, 2, 30)
    found = significance.p_value(a, 0 * a, "randomisation", num_resamples=99)
    assert found == 1 / 100


def test_batches_change_nothing(monkeypatch):
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=[2, 3, 9])
    whole = significance.p_value(a, b, "randomisation")
    monkeypatch.setattr(significance, "_BATCH", 9 * 7)
    np.testing.assert_array_equal(significance.p_value(a, b, "randomisation"), whole)
    drawn = significance.p_value(a, b, "randomisation", num_resamples=100)
    assert drawn.shape == (3,) and (np.round(drawn * 101) == drawn * 101).all()


@pytest.mark.parametrize("test", significance.TESTS)
def test_many_pairs_at_once_are_as_one_by_one(test):
    rng = np.random.default_rng(4)
    reference, others = rng.normal(size=20), rng.normal(0.2, 1, [3, 20])
    others[1] = reference
    found = significance.p_value(reference, others, test, "less")
    for one, expected in zip(others, found):
        assert significance.p_value(reference, one, test, "less") == expected
    assert found[1] == 1


@pytest.mark.parametrize("test", significance.TESTS)
@pytest.mark.parametrize("side", SIDES)
def test_no_difference_and_the_same_for_all(test, side):
    a = np.linspace(0, 1, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The same mean in another order of summation.
        assert significance.p_value(a + 0.1 + 0.2, a + 0.3, test, side) == 1
        shifted = significance.p_value(a + 0.5, a, test, side)
    assert shifted > 0.9 if side == "less" else shifted < 0.01


def test_direction_is_what_the_test_looks_at():
    a, b = [0.1, 0.2, 0.3, 0.0, 0.5], [0.0, 0.1, 0.2, 0.9, 0.5]
    for test in significance.TESTS:
        sign = 1 if test == "wilcoxon" else -1
        assert significance.direction(a, b, test) == sign
        assert significance.direction(b, a, test) == -sign
    assert significance.direction(a, a) == 0
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 3, [2, 30])
    greater, less = (
        stats.wilcoxon(a, b, alternative=side, method="approx").statistic * factor
        for side, factor in (("greater", 1), ("less", 1))
    )
    assert greater == less  # SciPy: the rank sum of what is positive.
    others = (a != b).sum()
    expected = np.sign(greater - others * (others + 1) / 4)
    assert significance.direction(a, b, "wilcoxon") == expected


def test_corrections():
    # Holm (1979): .01*4, then .015*3, then .02*2 kept at the one before, then .5.
    p = [0.02, 0.5, 0.01, 0.015]
    np.testing.assert_allclose(
        significance.adjusted(p, "holm"), [0.045, 0.5, 0.04, 0.045]
    )
    np.testing.assert_allclose(significance.adjusted(p), [0.08, 1, 0.04, 0.06])
    np.testing.assert_array_equal(significance.adjusted(p, "none"), p)
    assert significance.adjusted([], "holm").shape == (0,)


def test_wins_ties_losses():
    a, b = [1, 0.5, 0.2, 0.1 + 0.2], [0, 0.5, 0.3, 0.3]
    assert significance.wins_ties_losses(a, b) == (1, 2, 1)
    assert significance.wins_ties_losses([1, 1, 3], [2, 2, 2], False) == (2, 0, 1)


@pytest.mark.parametrize(
    "arguments, text",
    [
        (([1, 2], [1, 2, 3]), r"\(2,\) and \(3,\)"),
        (([1], [2]), "at least 2 queries. Received: 1"),
        (([1, np.nan], [2, 3]), "must be finite"),
        (([1, 2], [2, 3], "z"), "`test` must be one of"),
        (([1, 2], [2, 3], "t", "both"), "`alternative` must be one of"),
        (([1, 2], [2, 3], "t", "less", 0), "`num_resamples`"),
    ],
)
def test_wrong_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        significance.p_value(*arguments)


def test_wrong_p_values():
    with pytest.raises(ValueError, match="from 0 to 1"):
        significance.adjusted([0.5, 1.5])
    with pytest.raises(ValueError, match="`correction` must be one of"):
        significance.adjusted([0.5], "sidak")


@pytest.mark.parametrize("cut_off", [3, 5, 7, 10])
def test_rounding_breaks_no_ties(cut_off):
    """Values of P@k in a file have the tests of the counts that they are made of."""
    rng = np.random.default_rng(cut_off)
    a, b = rng.integers(0, cut_off + 1, [2, 150])
    b = np.where(rng.random(150) < 0.4, a, b)
    written = [np.round(counts / cut_off, 9) for counts in (a, b)]
    assert significance.p_value(*written, "wilcoxon") == significance.p_value(
        a, b, "wilcoxon"
    )
    assert significance.p_value(*written, "randomisation") == significance.p_value(
        a, b, "randomisation"
    )
    for test in significance.TESTS:
        assert significance.direction(*written, test) == significance.direction(
            a, b, test
        )
