"""Arrays and data frames become lists, or an error that names the row."""

import dataclasses
import decimal
import fractions
import warnings

import hypothesis
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import strategies as st

from tests.helpers import assert_same_lists, make_lists
from tests.tables import frame
from tfr_ext import data
from tfr_ext.data import RankingLists

LISTS = dataclasses.replace(
    make_lists([3, 1, 4], doc_ids=[f"d{i}" for i in range(8)]),
    weights=np.float32([1, 2, 3, 0, 5, 6, 7, 8]),
    feature_names=("x", "y", "z"),
)
QID = np.repeat(LISTS.query_ids, LISTS.lengths)
NAMED = {
    "qid": QID,
    "weight": LISTS.weights,
    "doc_ids": LISTS.doc_ids,
    "feature_names": ("x", "y", "z"),
}


def of_frame(df, **changes):
    columns = {"label": "label", "query": "query", "weight": "weight"}
    return RankingLists.from_dataframe(df, **{**columns, "doc_id": "doc", **changes})


@pytest.mark.parametrize(
    "form",
    [
        np.asarray,
        np.ndarray.tolist,
        np.float64,
        scipy.sparse.csr_matrix,
        lambda x: pd.DataFrame(x, columns=["x", "y", "z"]),
        lambda x: pd.DataFrame(x, columns=["x", "y", "z"]).convert_dtypes(),
        lambda x: np.array([[fractions.Fraction(float(v)) for v in row] for row in x]),
    ],
)
def test_features_of_any_form_give_the_same_lists(form):
    found = RankingLists.from_arrays(form(LISTS.features), LISTS.labels, **NAMED)
    assert_same_lists(found, LISTS)


def test_sizes_and_ids_give_the_same_lists():
    sizes = {"group": LISTS.lengths, "query_ids": LISTS.query_ids}
    given = {**NAMED, "qid": None, **sizes}
    found = RankingLists.from_arrays(LISTS.features, LISTS.labels, **given)
    assert_same_lists(found, LISTS)
    unnamed = RankingLists.from_arrays(LISTS.features, group=[3, 1, 4])
    assert unnamed.query_ids == ["1", "2", "3"]
    assert not unnamed.labels.any() and unnamed.weights is None


@pytest.mark.parametrize(
    "ids",
    [
        [7, 7, 8, 10],
        [7.0, 7.0, 8.0, 10.0],
        ["7", "7", "8", "10"],
        np.array([b"7", b"7", b"8", b"10"]),
        pd.Series([7, 7, 8, 10], dtype="Int64"),
        pd.Categorical(["7", "7", "8", "10"]),
        pd.Series(["7", "7", "8", "10"], dtype="string"),
    ],
    ids=str,
)
def test_ids_of_any_type_name_the_same_queries(ids):
    lists = RankingLists.from_arrays(np.eye(4), qid=ids, doc_ids=ids)
    assert (lists.query_ids, lists.doc_ids) == (["7", "8", "10"], ["7", "7", "8", "10"])
    assert lists.lengths.tolist() == [2, 1, 1]


def test_a_weight_per_list_is_that_of_its_items():
    lists = RankingLists.from_arrays(np.eye(4), group=[3, 1], weight=[2, 0.5])
    assert lists.weights.tolist() == [2, 2, 2, 0.5]


def test_a_frame_gives_its_lists():
    assert_same_lists(of_frame(frame(LISTS)), LISTS)
    mixed = frame(LISTS)[["z", "doc", "label", "x", "weight", "y", "query"]]
    assert of_frame(mixed).feature_names == ("z", "x", "y")
    assert_same_lists(of_frame(mixed, features=["x", "y", "z"]), LISTS)
    texts = frame(LISTS).assign(title="shoe", seen=pd.Timestamp("2026-01-01"))
    assert_same_lists(of_frame(texts), LISTS)
    assert_same_lists(of_frame(frame(LISTS).sample(frac=1).sort_index()), LISTS)
    assert_same_lists(of_frame(frame(LISTS).set_index("x", drop=False)), LISTS)


def test_what_becomes_a_frame_gives_its_lists():
    pyarrow = pytest.importorskip("pyarrow")
    assert_same_lists(of_frame(pyarrow.table(frame(LISTS))), LISTS)


def test_a_frame_without_judgements_has_labels_0():
    lists = RankingLists.from_dataframe(frame(LISTS)[["query", "x"]], None, "query")
    assert lists.num_features == 1 and lists.num_empty == lists.num_lists == 3


def test_weights_and_names_follow_the_items():
    chosen = LISTS.select([2, 0])
    np.testing.assert_array_equal(chosen.weights, [5, 6, 7, 8, 1, 2, 3])
    parts = [LISTS.select([q]) for q in range(3)]
    assert_same_lists(data.concatenate(parts), LISTS)
    cut, _ = data.truncate(LISTS, 2, seed=0, first_stage_feature=1)
    by_feature = dict(zip(LISTS.features[:, 0], LISTS.weights))
    assert cut.weights.tolist() == [by_feature[x] for x in cut.features[:, 0]]
    assert len(cut.weights) == 5 and cut.feature_names == LISTS.feature_names
    for changed in (
        data.binary_labels(LISTS, 2),
        data.with_label_distributions(LISTS, 4),
    ):
        np.testing.assert_array_equal(changed.weights, LISTS.weights)
        assert changed.feature_names == LISTS.feature_names


def test_lists_that_differ_in_weights_or_names_are_not_joined():
    first, other = LISTS.select([0]), LISTS.select([1])
    with pytest.raises(ValueError, match="Some lists have weights"):
        data.concatenate([first, dataclasses.replace(other, weights=None)])
    renamed = dataclasses.replace(other, feature_names=("x", "b", "z"))
    with pytest.raises(ValueError, match="a feature 'b' where others have 'y'"):
        data.concatenate([first, renamed])
    unnamed = dataclasses.replace(other, feature_names=None)
    assert data.concatenate([first, unnamed]).feature_names is None


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        (np.ones(7, np.float32), r"must have shape \[8\]. Received: \(7,\)"),
        (np.float32([1, 1, -1, 1, 1, 1, 1, 1]), r"Row 2 .*is -1, expected .* >= 0"),
        (np.float32([1, np.nan, 1, 1, 1, 1, 1, 1]), "Row 1 .*is nan, expected a fin"),
    ],
)
def test_weights_are_checked(weights, told):
    with pytest.raises(ValueError, match=told):
        dataclasses.replace(LISTS, weights=weights)


def test_a_name_for_each_feature():
    with pytest.raises(ValueError, match="must name 3 features. Received: 2"):
        dataclasses.replace(LISTS, feature_names=["x", "y"])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"group": [3, 5]}, "Received both"),
        ({"qid": None}, "Received neither"),
        ({"qid": None, "group": [3, 4]}, "`group` sum to 7, but `X` has 8 rows.$"),
        ({"qid": None, "group": [1] * 7 + [2]}, "sum to 9, .* it is `qid`"),
        ({"qid": None, "group": [3, 0, 5]}, "each at least 1. Received: 0"),
        ({"qid": None, "group": [3.5, 4.5]}, "at least 1. Received: 3.5"),
        (
            {"qid": None, "group": [2**62] * 4 + [8]},
            r"sum to 1\.84.*e\+19",
        ),  # 8 in int64
        ({"qid": None, "group": [2**63, 2**63, 8]}, r"sum to 1\.84.*e\+19"),
        ({"y": [10**400] * 8}, "`y` must be an array of numbers: int too large"),
        ({"X": [[10**400]] * 8}, "`X` must be an array of numbers: int too large"),
        ({"qid": None, "group": [[8]]}, r"shape \(1, 1\)"),
        ({"qid": None, "group": [8], "query_ids": ["a", "b"]}, "have 1 entries"),
        ({"qid": None, "group": [3, 5], "query_ids": ["a"] * 2}, "two lists 'a'"),
        ({"query_ids": ["a"]}, "given with `qid`, which names the queries"),
        ({"qid": QID[:-1]}, "`qid` must have 8 entries. Received: 7"),
        ({"X": LISTS.features[0]}, r"\[num_items, num_features\]. Received: \(3,\)"),
        ({"X": [[1, 2], [3]]}, "`X` must be an array of numbers"),
        ({"X": np.full([8, 3], "1")}, "an array of numbers. Received: <U1"),
        ({"X": np.full([8, 3], "a", object)}, r"Received: 'a' at \[0, 0\]"),
        ({"y": LISTS.labels[1:]}, r"`y` must have one .* 8 rows of `X`.*\(7,\)"),
        ({"weight": [1, 2]}, "each of the 8 rows of `X`, or for each of the 3 lists"),
        ({"doc_ids": ["a"]}, "`doc_ids` must have 8 entries. Received: 1"),
        ({"feature_names": ["a"]}, "must name 3 features"),
    ],
)
def test_arrays_that_do_not_fit(changes, told):
    given = {"X": LISTS.features, "y": LISTS.labels, **NAMED, **changes}
    with pytest.raises(ValueError, match=told):
        RankingLists.from_arrays(**given)


HIDDEN = np.ma.array([1.0, 1, 1, 1, 0, 0, 0, 2], mask=[0, 1, 0, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"y": HIDDEN}, "Row 1 .* `y` is nan"),
        ({"weight": HIDDEN.astype(int)}, "Row 1 .* `weight` is nan"),
        ({"X": np.ma.stack([HIDDEN] * 3, axis=1)}, "Row 1 .* column 'x' is nan"),
        ({"X": [np.ma.array([1, 2, 3], mask=[0, 0, 1])] * 8}, "column 'z' is nan"),
        ({"qid": HIDDEN.astype(int)}, "Row 1 .* `qid` is missing"),
        ({"doc_ids": HIDDEN.astype(str)}, "Row 1 .* `doc_ids` is missing"),
        ({"qid": None, "group": HIDDEN[:2]}, "Received: nan"),
    ],
)
def test_values_that_a_mask_hides_are_missing(changes, told):
    given = {"X": LISTS.features, "y": LISTS.labels, **NAMED, **changes}
    with pytest.raises(ValueError, match=told):
        RankingLists.from_arrays(**given)


def test_numbers_of_python_are_features_and_what_looks_like_them_is_told():
    df = frame(LISTS)[["query", "x"]].assign(
        price=[decimal.Decimal("1.5")] * 8,
        count=np.array([2**70, *range(7)], object),
        seen=np.array([True, None] * 4, object),
        thousands="1,234",
        unknown=["?", *map(str, range(7))],
        kind=pd.Categorical([1] * 8),
        title=["Blade Runner 2049"] * 8,
        day=pd.Timestamp("2026-11-25"),
        mixed=[1.5, "2", *[3] * 6],
        truth=[1.5, True, *[3] * 6],
    )
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        lists = RankingLists.from_dataframe(df, None, "query", missing=True)
    assert lists.feature_names == ("x", "price", "count", "seen")
    assert lists.features[0, 1:].tolist() == [1.5, 2.0**70, 1]
    told = "is not a feature, as not all of its values are numbers: one is"
    assert [str(one.message) for one in found] == [
        f"Column 'thousands' {told} '1,234'.",
        f"Column 'unknown' {told} '?'.",
        "Column 'kind' is not a feature, as its type is category.",
        f"Column 'mixed' {told} '2'.",
        f"Column 'truth' {told} True.",
    ]


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
@pytest.mark.parametrize(
    "kind", ["datetime64", "timedelta64", "zoned", "object", "numpy"]
)
def test_dates_are_no_numbers_and_no_names(kind, unit):
    days = pd.Series(np.arange(8), dtype=f"timedelta64[{unit}]")
    if kind != "timedelta64":
        days += pd.Timestamp("2026-11-25").as_unit(unit)
    days = days.dt.tz_localize("UTC") if kind == "zoned" else days
    if kind == "object":
        days = days.astype(object)
    elif kind == "numpy":
        days = pd.Series([*days.to_numpy()], dtype=object)
        with pytest.raises(ValueError, match="`X` must be an array of numbers. .*64"):
            RankingLists.from_arrays(days.to_numpy()[:, np.newaxis], group=[8])
    df = frame(LISTS)[["query", "x"]].assign(day=days)
    with pytest.raises(ValueError, match="^Row 0 .*column 'day' is the time .* text"):
        RankingLists.from_dataframe(df, None, "day", features=["x"])
    for given in (
        lambda: RankingLists.from_dataframe(df, None, "query", features=["x", "day"]),
        lambda: RankingLists.from_arrays(df[["x", "day"]], qid=df["query"]),
    ):
        told = r"^Row 0 .*column 'day' is (T|n).*\(.*, expected a number"
        with pytest.raises(ValueError, match=told):
            given()


def test_dates_that_are_missing_are_so_in_any_type():
    values = [np.datetime64("NaT"), np.timedelta64("NaT"), pd.NaT, 1.5]
    found = RankingLists.from_arrays(
        np.array(values, object)[:, np.newaxis], group=[4], missing=True
    )
    df = pd.DataFrame({"q": 1, "x": pd.Series(values, dtype=object)})
    same = RankingLists.from_dataframe(df, None, "q", features=["x"], missing=True)
    for lists in (found, same):
        np.testing.assert_array_equal(lists.features[:, 0], [np.nan] * 3 + [1.5])


SECONDS = np.random.default_rng(0).permutation(10) * 5.0


@pytest.mark.parametrize(
    ("values", "is_warned"),
    [
        (1.7e9 + SECONDS, True),
        (np.int64(1.7e9) + SECONDS.astype(int), True),
        (np.float64([np.nan] * 37 + [-1.7e9, -1.7e9 - 5, -1.7e9]), True),
        (2460000.5 + SECONDS / 1000, True),
        (2**53 + np.arange(10), True),
        (2**62 + np.arange(10), True),
        (np.tile([300000.0, 0.1 * 3 * 1e6], 5), False),
        (1e18 * (1 + np.tile([0, 2.3e-16], 5)), False),
        (np.float32(1.7e9 + SECONDS), False),
        (1.7e9 + SECONDS * 1e5, False),
        (np.full(10, 1.7e9 + 1), False),
        (SECONDS / 3, False),
        ((1.7e9 + 0.3) * (1 + SECONDS * 1e-17), False),
        (np.tile([-3e38, 3e38], 5), False),
    ],
)
def test_what_becomes_equal_in_float32_is_told(values, is_warned):
    df = pd.DataFrame({"q": 1, "p": 1.5, "t": values})
    X = np.array([values, values], values.dtype).T
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        RankingLists.from_dataframe(df, None, "q", missing=True)
        RankingLists.from_arrays(X, group=[len(X)], missing=True)
    told = [
        f"Of {x}, numbers that differ become equal, as features are float32. Subtract "
        "what they share, such as a first time, or name them as categories."
        for x in ("column 't'", "`X` column 0", "`X` column 1")
    ]
    assert [str(one.message) for one in found] == told * is_warned
    assert {one.filename for one in found} <= {__file__}


BAD = st.sampled_from([np.nan, np.inf, -np.inf, 1e39, None])
WRONG = {
    "y": (BAD | st.just(-1.0), "`y`", "label"),
    "weight": (BAD | st.just(-0.5), "`weight`", "weight"),
    "X": (BAD, "`X` column 1", "y"),
    "qid": (st.sampled_from([None, np.nan, "", pd.NA]), "`qid`", "query"),
    "doc_ids": (st.sampled_from([None, np.nan, ""]), "`doc_ids`", "doc"),
}


@hypothesis.given(st.data(), st.sampled_from(sorted(WRONG)), st.integers(0, 7))
def test_a_wrong_value_is_named_with_its_row(data, argument, row):
    values, name, column = WRONG[argument]
    value = data.draw(values)
    given = {"X": LISTS.features, "y": LISTS.labels, **NAMED, "feature_names": None}
    given[argument] = np.array(given[argument], object)
    where = (row, 1) if argument == "X" else row
    given[argument][where] = value
    with pytest.raises(ValueError) as error:
        RankingLists.from_arrays(**given)
    assert str(error.value).startswith(f"Row {row} (from 0): {name} is ")
    df = frame(LISTS).astype({column: object})
    df.loc[row, column] = value
    with pytest.raises(ValueError) as error:
        of_frame(df, features=["x", "y", "z"])
    assert str(error.value).startswith(f"Row {row} (from 0): column {column!r} is ")


@hypothesis.given(st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_the_rows_of_a_query_are_together_or_named(ids):
    """By the definition: no id is that of an earlier row, and of none between."""
    apart = [
        (row, ids.index(ids[row]))
        for row in range(1, len(ids))
        if ids[row] != ids[row - 1] and ids[row] in ids[:row]
    ]
    X = np.zeros([len(ids), 1])
    if not apart:
        lists = RankingLists.from_arrays(X, qid=ids)
        assert np.repeat(lists.query_ids, lists.lengths).tolist() == [*map(str, ids)]
        return
    again, first = apart[0]
    told = rf"Row {again} .*query '{ids[again]}' began in row {first} and other"
    with pytest.raises(ValueError, match=told):
        RankingLists.from_arrays(X, qid=ids)
    with pytest.raises(ValueError, match=f"{told}.*sort them by column 'q'"):
        RankingLists.from_dataframe(pd.DataFrame({"q": ids, "x": 1.0}), None, "q")


@pytest.mark.parametrize(
    ("df", "changes", "told"),
    [
        (
            frame(LISTS).drop(columns="label"),
            {},
            "no column 'label'. Found: 'query', 'x'",
        ),
        (frame(LISTS), {"features": ["x", "w"]}, "There is no column 'w'. Found"),
        (frame(LISTS), {"features": ["x", "label"]}, "Column 'label' has two uses"),
        (frame(LISTS), {"features": "x"}, "must be a list of columns. Received: 'x'"),
        (frame(LISTS), {"features": []}, "must name at least one column"),
        (frame(LISTS)[["query", "label", "weight", "doc"]], {}, "No column except 'la"),
        (
            frame(LISTS).assign(x="1"),
            {"features": ["x"]},
            "Row 0 .*'x' is '1', expected a",
        ),
        (
            frame(LISTS).assign(x=1j),
            {"features": ["x"]},
            r"'x' is .*1j.*expected a number",
        ),
        (
            pd.concat([frame(LISTS), frame(LISTS)["x"]], axis=1),
            {},
            "There are two columns 'x'",
        ),
        ([[1, 2]], {}, r"must be a pandas.DataFrame, .* Received: list"),
    ],
)
def test_frames_that_do_not_fit(df, changes, told):
    with pytest.raises(ValueError, match=told):
        of_frame(df, **changes)
