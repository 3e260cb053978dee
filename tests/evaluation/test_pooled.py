"""Tests of several collections together, against SciPy."""

import numpy as np
import pytest
from scipy import stats

from tests.files import write_run
from tfr_ext.evaluation import comparison, runs, significance
from tfr_ext.evaluation.comparison import Options, compare

SIZES = {"large": 40, "small": 9}


@pytest.fixture
def collections(tmp_path):
    """Two runs on two collections whose queries have the same names."""
    rng = np.random.default_rng(0)
    values, paths = {}, {"A": [], "B": []}
    for collection, size in SIZES.items():
        easy = rng.random(size)
        for name, gain in (("A", 0.0), ("B", 0.06 if size > 20 else 0.02)):
            values[name, collection] = easy + gain + rng.normal(0, 0.1, size)
            path = tmp_path / collection / name
            gain_of = {"large": "linear", "small": "exponential"}[collection]
            write_run(
                path, {"map": values[name, collection]}, convention={"gain": gain_of}
            )
            paths[name].append(f"{collection}:{path}")
    return values, paths


def test_an_effect_is_scipys(collections):
    values, _ = collections
    a, b = values["A", "large"], values["B", "large"]
    found = significance.effect(b, a)
    theirs = stats.ttest_rel(b, a)
    interval = theirs.confidence_interval(0.95)
    np.testing.assert_allclose(found.p_value, theirs.pvalue, rtol=1e-6)
    np.testing.assert_allclose([found.low, found.high], interval, rtol=1e-6)
    for side in ("greater", "less"):
        theirs = stats.ttest_rel(b, a, alternative=side).pvalue
        ours = significance.effect(b, a, alternative=side).p_value
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_stratified_effect_is_welchs(collections):
    """Of weighted strata, the second with the other sign."""
    values, _ = collections
    x, y = (values["B", c] - values["A", c] for c in SIZES)
    n = len(x) + len(y)
    theirs = stats.ttest_ind(
        len(x) / n * x, -len(y) / n * y, equal_var=False, alternative="two-sided"
    )
    ours = significance.effect(
        np.append(x, y), np.zeros(n), [0] * len(x) + [1] * len(y)
    )
    np.testing.assert_allclose(ours.p_value, theirs.pvalue, rtol=1e-6)
    np.testing.assert_allclose(ours.difference, np.append(x, y).mean(), rtol=1e-6)
    np.testing.assert_allclose(
        [ours.low, ours.high], theirs.confidence_interval(0.95), rtol=1e-6
    )


def test_equal_systems_and_constant_differences():
    ones = np.ones(4)
    assert significance.effect(ones, ones).p_value == 1
    found = significance.effect(ones, 0 * ones)
    assert (found.low, found.high, found.p_value) == (1, 1, 0)
    assert significance.effect(ones, 0 * ones, alternative="less").p_value == 1
    with pytest.raises(ValueError, match="at least 2 queries each"):
        significance.effect(ones, 0 * ones, [0, 0, 0, 1])


@pytest.mark.parametrize("test", ["t", "randomisation"])
def test_collections_are_pooled(collections, test):
    values, paths = collections
    compared = compare(paths, Options(against="A", test=test))
    assert compared.collections == ["large", "small"]
    assert compared.num_queries == 49
    result = compared.results["B"]["map"]
    a, b = (np.concatenate([values[n, c] for c in SIZES]) for n in "AB")
    np.testing.assert_allclose(result.mean, b.mean(), rtol=1e-6)
    strata = np.repeat([*SIZES], [*SIZES.values()])
    expected = significance.effect(b, a, strata)
    np.testing.assert_allclose(result.effect.difference, (b - a).mean(), rtol=1e-6)
    np.testing.assert_allclose(result.effect.p_value, expected.p_value, rtol=1e-5)
    if test == "t":
        np.testing.assert_allclose(result.p_value, expected.p_value, rtol=1e-5)
    else:
        expected = significance.p_value(a, b, "randomisation")
        np.testing.assert_allclose(result.p_value, expected, rtol=1e-5)
    assert [*result.by_collection] == [*SIZES]
    for c in SIZES:
        theirs = stats.ttest_rel(values["B", c], values["A", c])
        np.testing.assert_allclose(
            result.by_collection[c].p_value, theirs.pvalue, rtol=1e-5
        )
    assert any("differ in gain: linear (large), exp" in n for n in compared.notes)
    content = compared.as_dict()
    assert content["collections"] == [*SIZES]
    assert content["runs"][1]["metrics"]["map"]["effect"]["queries"] == 49


def test_one_collection_stays_as_it_was(collections):
    values, paths = collections
    plain = {name: [p.partition(":")[2] for p in ps[:1]] for name, ps in paths.items()}
    compared = compare(plain, Options(against="A"))
    assert compared.collections == [] and "collections" not in compared.as_dict()
    result = compared.results["B"]["map"]
    np.testing.assert_allclose(result.effect.p_value, result.p_value, rtol=1e-6)
    assert result.by_collection == {}


def test_arguments_with_collections(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("m/1", "m/2", "o/1"):
        write_run(tmp_path / name, {"map": [0.5, 1]})
    found = runs.parse(["A=mq:m/*,ohsumed:o/1"])
    assert found == {"A": ["mq:m/1", "mq:m/2", "ohsumed:o/1"]}
    assert len(runs.read("A", found["A"]).folds) == 2
    with pytest.raises(ValueError, match="o/1 has no collection"):
        runs.read("A", ["mq:m/1", "o/1"])
    with pytest.raises(ValueError, match="nothing is at 'mq:none'"):
        runs.parse(["A=mq:none"])
    with pytest.raises(ValueError, match="need a name"):
        runs.parse(["mq:m/1"])


def test_what_pooling_refuses(collections):
    _, paths = collections
    with pytest.raises(ValueError, match="`test='wilcoxon'` cannot pool collections"):
        compare(paths, Options(test="wilcoxon"))
    fewer = {"A": paths["A"], "B": paths["B"][:1]}
    with pytest.raises(ValueError, match="lacks 9 of the 49 queries"):
        compare(fewer)
    assert comparison.compare(paths).num_queries == 49
