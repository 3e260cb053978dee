"""Comparisons against plain loops and SciPy, and what they refuse."""

import numpy as np
import pytest
from scipy import stats

from tests.files import write_run
from tfr_ext.evaluation import comparison
from tfr_ext.evaluation.comparison import Options, compare

FOLDS = ([f"a{i}" for i in range(12)], [f"b{i}" for i in range(7)])
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """Three runs of two folds and two seeds, and all values by hand."""
    root = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    runs, values = {}, {}
    difficulty = {query: rng.random() for fold in FOLDS for query in fold}
    for name, gain in (("good", 0.2), ("fair", 0.17), ("poor", 0.0)):
        runs[name] = []
        for f, queries in enumerate(FOLDS):
            for seed in SEEDS:
                ndcg = {q: difficulty[q] + gain + rng.normal(0, 0.05) for q in queries}
                arp = {q: 9 - 3 * ndcg[q] for q in queries}
                values[name, f, seed] = {"ndcg_10": ndcg, "arp": arp}
                shuffled = list(rng.permutation(queries))
                path = root / f"{name}-{f}-{seed}"
                columns = {
                    metric: [column[q] for q in shuffled]
                    for metric, column in values[name, f, seed].items()
                }
                runs[name].append(write_run(path, columns, shuffled, seed=seed))
        # Neither the order of folds nor that of seeds matters.
        runs[name] = list(rng.permutation(runs[name]))
    return runs, values


def by_query(values, name, metric):
    """Averages seeds, in plain loops."""
    return [
        sum(values[name, f, seed][metric][query] for seed in SEEDS) / len(SEEDS)
        for f, queries in enumerate(FOLDS)
        for query in queries
    ]


@pytest.mark.parametrize("metric", ["ndcg_10", "arp"])
def test_means_errors_and_counts(system, metric):
    runs, values = system
    compared = compare(runs)
    assert compared.num_queries == 19 and compared.notes == ()
    assert compared.references[metric] == "good"
    best = by_query(values, "good", metric)
    for name in runs:
        own = by_query(values, name, metric)
        folds = [np.mean(own[:12]), np.mean(own[12:])]
        result = compared.results[name][metric]
        np.testing.assert_allclose(result.mean, np.mean(folds), rtol=1e-7)
        expected = abs(folds[0] - folds[1]) / 2  # Of two: sd / sqrt(2).
        np.testing.assert_allclose(result.se_folds, expected, rtol=1e-6)
        of_seeds = [
            np.mean([np.mean([*values[name, f, s][metric].values()]) for f in (0, 1)])
            for s in SEEDS
        ]
        expected = np.std(of_seeds, ddof=1)
        np.testing.assert_allclose(result.sd_seeds, expected, rtol=1e-4)
        assert result.best == (name == "good")
        sign = -1 if metric == "arp" else 1
        gains = sign * (np.array(own) - best)
        assert result.wins == (gains > 0).sum()
        assert result.losses == (gains < 0).sum()
        assert result.ties == (gains == 0).sum()
        assert result.queries == 19


@pytest.mark.parametrize("metric", ["ndcg_10", "arp"])
@pytest.mark.parametrize("alternative", ["two-sided", "one-sided"])
def test_p_values_are_those_of_scipy(system, metric, alternative):
    runs, values = system
    compared = compare(runs, Options(alternative=alternative, correction="holm"))
    side = {"two-sided": "two-sided", "one-sided": "greater"}[alternative]
    if metric == "arp" and side == "greater":
        side = "less"
    best = by_query(values, "good", metric)
    p = {
        name: stats.ttest_rel(
            best, by_query(values, name, metric), alternative=side
        ).pvalue
        for name in ("fair", "poor")
    }
    assert p["poor"] < p["fair"]
    holm = {"poor": 2 * p["poor"], "fair": max(p["fair"], 2 * p["poor"])}
    for name in p:
        result = compared.results[name][metric]
        np.testing.assert_allclose(result.unadjusted, p[name], rtol=1e-4)
        np.testing.assert_allclose(result.p_value, holm[name], rtol=1e-4)
        assert result.significant == ("worse" if holm[name] < 0.05 else "")
    assert compared.results["poor"][metric].significant == "worse"
    reference = compared.results["good"][metric]
    assert reference.p_value is None and reference.significant == ""


@pytest.mark.parametrize("test", ["t", "wilcoxon", "randomisation"])
def test_against_a_baseline_better_and_worse(system, test):
    runs, _ = system
    compared = compare(runs, Options(against="fair", test=test, level=0.2))
    for metric in ("ndcg_10", "arp"):
        assert compared.references[metric] == "fair"
        assert compared.results["good"][metric].best
        assert compared.results["good"][metric].significant == "better"
        assert compared.results["poor"][metric].significant == "worse"


def test_runs_that_are_the_same(tmp_path):
    for name in "ab":
        write_run(tmp_path / name, {"map": [0.5, 0.25, 1]})
    compared = compare({n: [str(tmp_path / n)] for n in "ab"})
    first, second = (compared.results[name]["map"] for name in "ab")
    assert first.best and second.best
    assert second.p_value == 1 and second.significant == ""
    assert (second.wins, second.ties, second.losses) == (0, 3, 0)
    assert first.se_folds is None and first.sd_seeds is None


def test_queries_that_do_not_count_are_left_out_for_all(tmp_path):
    nan = np.nan
    write_run(tmp_path / "a", {"map": [0.5, nan, 1, 0], "mrr": [1, 1, 1, 1]})
    write_run(tmp_path / "b", {"map": [0, 1, 1, nan], "mrr": [0, 1, 1, 1]})
    compared = compare({n: [str(tmp_path / n)] for n in "ab"})
    assert compared.results["a"]["map"].mean == 0.75
    assert compared.results["b"]["map"].mean == 0.5
    assert compared.results["b"]["map"].queries == 2
    assert compared.results["b"]["mrr"].queries == 4
    np.testing.assert_array_equal(compared.values["map"], [[0.5, 1], [0, 1]])


def test_a_fold_that_does_not_count_at_all(tmp_path):
    runs = {"a": [], "b": []}
    for name, value in (("a", 0.5), ("b", 0.25)):
        for fold, values in enumerate(([value, 1], [np.nan, np.nan])):
            queries = [f"{fold}-{i}" for i in (0, 1)]
            path = tmp_path / f"{name}{fold}"
            runs[name].append(write_run(path, {"map": values}, queries))
    compared = compare(runs)
    assert compared.results["b"]["map"].mean == 0.625
    np.testing.assert_array_equal(compared.fold_means["map"][0], [0.75, np.nan])


def test_each_fold_with_a_seed_of_its_own_has_no_deviation(tmp_path):
    runs = {"a": [], "b": []}
    for name in runs:
        for fold in (1, 2):
            path, queries = tmp_path / f"{name}{fold}", [f"{fold}x", f"{fold}y"]
            runs[name].append(write_run(path, {"map": [fold, 0]}, queries, seed=fold))
    compared = compare(runs)
    assert compared.results["a"]["map"].sd_seeds is None
    assert compared.as_dict()["runs"][0]["seeds"] == [1, 2]
    np.testing.assert_allclose(compared.results["a"]["map"].se_folds, 0.25)


def test_notes(tmp_path):
    runs = {}
    for name, seeds in (("a", (1, 1)), ("b", (1,))):
        runs[name] = [
            write_run(tmp_path / f"{name}{i}", {"map": [0.5, i]}, seed=seed)
            for i, seed in enumerate(seeds)
        ]
    (tmp_path / "b0" / "metrics.json").unlink()
    compared = compare(runs)
    assert any("seed 1 comes twice" in note for note in compared.notes)
    assert any("convention of 1 of 3" in note for note in compared.notes)
    assert compared.convention == {"gain": "linear"}
    for i in (0, 1):
        (tmp_path / f"a{i}" / "metrics.json").unlink()
    compared = compare(runs)
    assert compared.convention is None and "unknown" in compared.notes[0]


def refusal(tmp_path, options=None, **changes):
    """Returns why a run is not compared with one that differs from it."""
    standard = {"values": {"map": [0.5, 1, 0], "err": [1, 0, 0]}, "queries": [*"xyz"]}
    first = write_run(tmp_path / "a", **standard)
    second = write_run(tmp_path / "b", **{**standard, **changes})
    with pytest.raises(ValueError) as error:
        compare({"A": [first], "B": [second]}, options or Options())
    return str(error.value)


def test_what_is_refused(tmp_path):
    two = {"values": {"map": [1, 0]}, "queries": ["x", "z"]}
    assert "'B' lacks 1 of the 3 queries of 'A', such as 'y'" in refusal(
        tmp_path, **two
    )
    more = {"values": {"map": [1, 0, 1, 1]}, "queries": [*"wxyz"]}
    assert "'A' lacks 1 of the 4 queries of 'B', such as 'w'" in refusal(
        tmp_path, **more
    )
    text = refusal(tmp_path, convention={"gain": "exponential"})
    assert "gain is 'linear' in" in text and "'exponential' in" in text
    text = refusal(tmp_path, labels="1 from 2 up, else 0")
    assert "labels is None" in text
    other = {"convention": {"gain": "linear", "max_label": 2.0}}
    assert "Only ERR depends on it" in refusal(tmp_path, **other)
    text = refusal(tmp_path, Options(metrics=["map", "mrr"]))
    assert "a/per_query.tsv:1: expected a column 'mrr'. Found: map, err" in text
    assert "no metric in common" in refusal(tmp_path, values={"mrr": [1, 1, 1]})
    assert "Unknown metric 'x'" in refusal(tmp_path, Options(metrics=["x"]))
    assert "'best' or the name of a run" in refusal(tmp_path, Options(against="C"))
    assert "`plot_metric`" in refusal(tmp_path, Options(plot_metric="ndcg"))
    nothing = {"values": {"map": [1, np.nan, np.nan]}}
    assert "map: fewer than 2 queries count" in refusal(tmp_path, **nothing)


BY_NAME = {"convention": {"gain": "linear", "ties": "by document name"}}
BY_POSITION = {"convention": {"gain": "linear", "ties": "by position"}}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (BY_NAME, BY_NAME, True),
        (BY_NAME, BY_POSITION, False),
        (BY_POSITION, BY_POSITION, True),
    ],
)
def test_runs_that_break_ties_otherwise_are_not_mixed(tmp_path, first, second, same):
    for order in ((first, second), (second, first)):
        paths = {
            name: [write_run(tmp_path / name, {"map": [1, 0]}, **report)]
            for name, report in zip("AB", order)
        }
        if same:
            compare(paths)
            continue
        with pytest.raises(ValueError, match="ties is 'by .*with `evaluate`"):
            compare(paths)


def test_the_highest_label_matters_to_err_alone(tmp_path):
    runs = {}
    for name, highest in (("a", 1.0), ("b", 2.0)):
        convention = {"gain": "linear", "max_label": highest}
        runs[name] = [write_run(tmp_path / name, {"map": [1, 0]}, None, convention)]
    assert compare(runs).convention == {"gain": "linear", "max_label": None}


def cut(tmp_path, name, fold, items, depth=5, **more):
    """A run on lists that were cut, in one of two folds."""
    counts = {"lists_cut": fold, "items_left_out": items, "relevant_left_out": 1}
    return write_run(
        tmp_path / f"{name}{fold}{items}{depth}",
        {"map": [0.5, 0.25]},
        [f"{fold}a", f"{fold}b"],
        eval_list_size={"test": {"rerank_depth": depth, **more, **counts}},
    )


def test_folds_may_lose_other_numbers_of_items(tmp_path):
    first = [cut(tmp_path, "a", 1, 7), cut(tmp_path, "a", 2, 9)]
    second = [cut(tmp_path, "b", 1, 7), cut(tmp_path, "b", 2, 9)]
    found = compare({"a": first, "b": second})
    assert found.convention["lists_cut"] == "rerank depth 5"


@pytest.mark.parametrize(
    "other, message",
    [
        ({"items": 8}, "lists cut 1, items left out 7.*items left out 8"),
        ({"items": 7, "depth": 6}, "'rerank depth 5' in .* 'rerank depth 6' in"),
        ({"items": 7, "list_size": 4}, "'rerank depth 5, list size 4' in"),
    ],
)
def test_lists_cut_otherwise_are_not_mixed(other, message, tmp_path):
    runs = {"a": [cut(tmp_path, "a", 1, 7)], "b": [cut(tmp_path, "b", 1, **other)]}
    with pytest.raises(ValueError, match=f"do not have the same meaning: .*{message}"):
        compare(runs)


def test_other_folds_of_the_same_queries(tmp_path):
    whole = write_run(tmp_path / "a", {"map": [1, 0, 1]}, [*"xyz"])
    parts = [
        write_run(tmp_path / f"b{q}", {"map": [1] * len(q)}, [*q]) for q in ("x", "yz")
    ]
    with pytest.raises(ValueError, match="in other folds: 1 and 2"):
        compare({"A": [whole], "B": parts})


@pytest.mark.parametrize(
    "option, text",
    [
        ({"test": "u"}, "`test`"),
        ({"alternative": "greater"}, "`alternative`"),
        ({"correction": "sidak"}, "`correction`"),
        ({"level": 1.5}, "`level`"),
        ({"num_resamples": 0}, "`num_resamples`"),
        ({"digits": 0}, "`digits`"),
    ],
)
def test_wrong_options(option, text):
    with pytest.raises(ValueError, match=text):
        Options(**option)


def test_no_run_is_none_to_compare():
    with pytest.raises(ValueError, match="at least one run. Received: none"):
        comparison.compare({})


def test_one_run_alone_has_means_and_nothing_to_be_tested_against(system):
    runs, _ = system
    compared = compare({"good": runs["good"]}, Options(against="good"))
    together = compare(runs)
    for metric in ("ndcg_10", "arp"):
        result = compared.results["good"][metric]
        assert result.mean == together.results["good"][metric].mean
        assert result.se_folds == together.results["good"][metric].se_folds
        assert (result.p_value, result.significant) == (None, "")
