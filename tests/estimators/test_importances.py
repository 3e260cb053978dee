"""What each feature brings to a ranker, by permutations."""

import matplotlib
import numpy as np
import pytest

import tfr_ext

SMALL = {
    "loss": "list_net_loss",
    "model": "mlp",
    "hidden_sizes": (),
    "num_epochs": 15,
    "batch_size": 8,
    "learning_rate": 0.05,
}
# They ask `predict` alone, which other files try with each Keras.
pytestmark = pytest.mark.any_keras
NAMES = ["noise", "much", "little", "asked", "same"]


def rows(num_queries=40, seed=0):
    """Rows of five columns: the labels go by the second and, less, by the third."""
    rng = np.random.default_rng(seed)
    group = rng.integers(4, 9, num_queries)
    X = rng.normal(size=[group.sum(), 5]).astype(np.float32)
    X[:, 3] = np.repeat(rng.normal(size=num_queries), group)
    X[:, 4] = 7
    return X, np.clip(np.round(X[:, 1] + 0.4 * X[:, 2] + 1), 0, 4), group


@pytest.fixture(scope="module")
def ranker():
    X, y, group = rows()
    return tfr_ext.Ranker(**SMALL).fit(X, y, group=group)


@pytest.fixture(scope="module")
def found(ranker):
    X, y, group = rows(seed=1)
    return ranker.importances(X, y, group=group)


def test_what_labels_go_by_counts(ranker, found):
    X, y, group = rows(seed=1)
    assert found.score == ranker.score(X, y, group=group)
    assert found.order()[:2].tolist() == [1, 2]
    assert found.mean[1] > 2 * found.mean[2] > 10 * abs(found.mean[0])
    assert found.between_lists.tolist() == [False, False, False, True, True]
    # They are the same for all items of a list, so a linear scorer ranks alike.
    np.testing.assert_array_equal(found.drops[3:], 0)
    assert (found.std[:3] > 0).all()


def test_within_one_list_they_are_those_of_scikit_learn(ranker):
    inspection = pytest.importorskip("sklearn.inspection")
    X, y, _ = rows(6, seed=2)
    expected = inspection.permutation_importance(
        ranker,
        X,
        y,
        scoring=lambda ranker, X, y: ranker.score(X, y, group=[len(y)]),
        n_repeats=50,
        random_state=1,
    )
    found = ranker.importances(X, y, group=[len(y)], repeats=50)
    error = np.hypot(expected.importances_std, found.std) / np.sqrt(50)
    assert (np.abs(found.mean - expected.importances_mean) <= 4 * error).all()
    np.testing.assert_allclose(
        found.std[:3], expected.importances_std[:3], rtol=0.4, atol=1e-3
    )


def test_values_go_to_other_lists_where_lists_have_one():
    """A query's column says which of two others counts."""
    X, _, group = rows(200)
    y = (np.where(X[:, 3] > 0, X[:, 0], X[:, 1]) > 0.5).astype(float)
    deep = {"hidden_sizes": (16,), "num_epochs": 30, "num_models": 1}
    ranker = tfr_ext.Ranker(**{**SMALL, **deep}).fit(X, y, group=group)
    found = ranker.importances(X, y, group=group)
    assert found.between_lists[3] and found.mean[3] > 0.05 > abs(found.mean[4])


def test_a_cost_that_rises_is_a_drop(ranker):
    X, y, group = rows(seed=1)
    by_cost = tfr_ext.Ranker(**SMALL, monitor="arp").fit(*rows()[:2], group=rows()[2])
    found = by_cost.importances(X, y, group=group, repeats=2)
    assert found.score < 0 < found.mean[1]


def test_nothing_that_was_given_is_changed_and_draws_repeat(ranker, found):
    X, y, group = rows(seed=1)
    before = X.copy()
    again = ranker.importances(X, y, group=group)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(again.drops, found.drops)


@pytest.fixture(scope="module")
def of_a_frame():
    pandas = pytest.importorskip("pandas")
    X, y, group = rows()
    X[::7, 0] = np.nan
    frame = pandas.DataFrame(X, columns=NAMES)
    frame.insert(2, "query", np.repeat(np.arange(len(group)), group))
    ranker = tfr_ext.Ranker(**SMALL, query="query", settings={"missing": "mean"})
    return ranker.fit(frame, y), frame, y


def test_the_column_of_queries_is_left_alone(of_a_frame):
    ranker, frame, y = of_a_frame
    found = ranker.importances(frame, y, repeats=2)
    assert found.feature_names == NAMES and found.drops.shape == (5, 2)
    lines = str(found).splitlines()
    assert "2 permutations of each feature" in lines[0] and "ndcg_10" in lines[0]
    assert lines[1].startswith("much ") and len(lines) == 6
    assert sum("between lists" in line for line in lines) == 2


def test_the_error_of_scikit_learn_names_this_method(of_a_frame):
    inspection = pytest.importorskip("sklearn.inspection")
    ranker, frame, y = of_a_frame
    message = "column 'query'.*`permutation_importance`.*`Ranker.importances`"
    with pytest.raises(ValueError, match=message):
        inspection.permutation_importance(ranker, frame, y, n_repeats=1)


def test_the_plot_has_the_most_important_on_top(found):
    matplotlib.use("Agg")
    ax = found.plot(most=3)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[-2:] == ["3", "2"] and len(labels) == 3
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == sorted(widths) and widths[-1] == found.mean[1]
    assert "ndcg_10" in ax.get_xlabel()
    assert found.plot(ax) is ax
    matplotlib.pyplot.close(ax.figure)


def test_what_is_wrong_is_told(ranker, found):
    X, y, group = rows()
    for arguments, message in (
        ({"repeats": 0}, "`repeats` must be an integer >= 1. Received: 0"),
        ({"repeats": 2.5}, "`repeats` must be an integer >= 1. Received: 2.5"),
        ({"y": None}, "`y` must be given"),
        ({"X": X[:, :4]}, "expecting 5 features"),
    ):
        with pytest.raises(ValueError, match=message):
            ranker.importances(**{"X": X, "y": y, "group": group, **arguments})
    skipping = tfr_ext.Ranker(**SMALL).fit(X, y, group=group)
    skipping.empty_list = "skip"
    with pytest.raises(ValueError, match="No query of `X` has anything that ndcg_10"):
        skipping.importances(X, 0 * y, group=group)
    with pytest.raises(ValueError, match="`most` must be an integer >= 1"):
        found.plot(most=0)


def test_a_category_is_one_column_and_that_of_the_context_goes_to_other_lists():
    """The device of a list says which of two columns counts; brands always count."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    group = rng.integers(4, 9, 300)
    query = np.repeat(np.arange(len(group)), group)
    first, second = rng.normal(size=[2, len(query)])
    phone = np.repeat(rng.random(len(group)) < 0.5, group)
    counts = rng.integers(0, 4, len(query))
    tags = [list(rng.choice(list("abcdefgh"), n)) for n in counts]
    good = np.array(["a" in x or "b" in x for x in tags])
    y = (np.where(phone, first, second) + good > 1).astype(float)
    columns = {
        "query": query,
        "tags": [[b"\xff" if t == "a" else t for t in x] for x in tags],
        "first": first,
        "device": np.where(phone, "phone", "desktop"),
        "colour": rng.choice(["red", "blue"], len(query)),
        "day": np.repeat(rng.choice(list("xyz"), len(group)), group),
        "second": second,
    }
    frame = pandas.DataFrame(columns)
    given = {"categories": ["tags", "device", "colour", "day"], "query": "query"}
    deep = {"hidden_sizes": (16,), "num_models": 1, "batch_size": 16}
    ranker = tfr_ext.Ranker(**{**SMALL, **deep}, **given, context=["device", "day"])
    found = ranker.fit(frame, y).importances(frame, y, repeats=2)
    order = ["first", "second", "tags", "colour", "device", "day"]
    assert found.feature_names == order and found.drops.shape == (6, 2)
    assert found.between_lists.tolist() == [False] * 4 + [True] * 2
    drop = dict(zip(order, found.mean))
    assert min(drop[x] for x in ("first", "second", "tags", "device")) > 0.03
    assert max(abs(drop[x]) for x in ("colour", "day")) < 0.01
