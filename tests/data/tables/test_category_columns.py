"""Columns that are categories or of the context: their ids, and what is refused."""

import numpy as np
import pandas
import pytest

from tfr_ext import data
from tfr_ext.data import Feature, RankingLists
from tfr_ext.data.fingerprints import FILL, MISSING, of_values

ROWS = 6
TAGS = [["a", "b"], [], ["b", None, ""], None, frozenset("c"), [*"abcdefghij"]]


def frame(**columns):
    given = {"query": [*"xxxyyy"], "y": [1, 0, 2, 0, 1, 0], "price": np.arange(6.0)}
    return pandas.DataFrame({**given, **columns})


def ids_of(values, context=(), **options):
    """The ids of a single category."""
    lists = RankingLists.from_dataframe(
        frame(c=values), "y", "query", categories=["c"], context=context, **options
    )
    assert lists.feature_names == ("price",)
    return (lists.context_ids if context else lists.ids), lists.spec.features[-1]


def fingerprint(text):
    return of_values([text])[0]


def test_a_fingerprint_stays_what_it_is():
    # Saved models hold them.
    found = of_values([b"", b"acme", "größe".encode(), b"\xff\x00"])
    assert found.tolist()[:2] == [MISSING, 301347925294522931]
    assert (found[1:] >= 0).all() and len({*found}) == 4


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b", None, "a", "", "ü"],
        pandas.Categorical(["a", "b", None, "a", "", "ü"]),
        pandas.array(["a", "b", None, "a", "", "ü"], "string"),
        pandas.array(["a", "b", None, "a", "", "ü"], "string[pyarrow]"),
        [b"a", b"b", np.nan, b"a", b"", "ü".encode()],
    ],
    ids=["object", "category", "string", "arrow", "bytes"],
)
def test_the_type_of_a_column_of_texts_does_not_matter(values):
    ids, feature = ids_of(values)
    expected = [fingerprint(x.encode()) if x else MISSING for x in ["a", "b", "", "a"]]
    expected += [MISSING, fingerprint("ü".encode())]
    assert ids.tolist() == [[x] for x in expected]
    assert feature == Feature("c", "category")


@pytest.mark.parametrize(
    "values",
    [
        [7, 10, 7, -3, 0, 7],
        [7.0, 10.0, 7.0, -3.0, -0.0, 7.0],
        pandas.array([7, 10, 7, -3, 0, 7], "Int64"),
        pandas.Categorical([7, 10, 7, -3, 0, 7]),
        np.array([7, 10, 7, -3, 0, 7], object),
    ],
    ids=["int", "float", "masked", "category", "object"],
)
def test_whole_numbers_are_their_decimal_texts(values):
    ids, feature = ids_of(values)
    texts = [b"7", b"10", b"7", b"-3", b"0", b"7"]
    assert ids.tolist() == [[fingerprint(text)] for text in texts]
    assert feature.is_integer
    spec = data.FeatureSpec((Feature("price"), feature))
    again = frame(c=["7", "7.0", 7, 7.0, b"7", None])
    lists = RankingLists.from_arrays(
        again.drop(columns="query"), group=[3, 3], spec=spec
    )
    assert lists.ids.tolist() == [[fingerprint(b"7")]] * 5 + [[MISSING]]


@pytest.mark.parametrize(
    "form", [lambda x: x, lambda x: [x, "b"]], ids="one list".split()
)
def test_truth_values_and_numbers_stay_apart_in_any_order(form):
    values = [True, 1, False, 0, np.bool_(True), 1.0]
    for order in (range(6), [1, 0, 3, 2, 5, 4]):
        ids, feature = ids_of([form(values[i]) for i in order])
        assert not feature.is_integer
        expected = ["True", "1", "False", "0", "True", "1"]
        expected = [fingerprint(expected[i].encode()) for i in order]
        assert ids[:, 0].tolist() == expected


def test_numbers_of_several_types_stay_what_they_are():
    ids, _ = ids_of(pandas.Series([2**53 + 1, 7.0] * 3, dtype=object))
    assert ids[:2, 0].tolist() == [fingerprint(b"%d" % x) for x in (2**53 + 1, 7)]
    found = [
        RankingLists.from_dataframe(
            frame(t=pandas.Series([2019, other] * 3, dtype=object)),
            *("y", "query"),
            texts=["t"],
        ).ids[0]
        for other in (3, 2.5, "a", True)
    ]
    assert all((found[0] == x).all() for x in found)


@pytest.mark.parametrize("values", [[True, 1], [1, True]], ids=str)
def test_a_truth_value_is_no_whole_number(values):
    df = frame(c=[2] * ROWS)
    spec = RankingLists.from_dataframe(df, "y", "query", categories=["c"]).spec
    df["c"] = pandas.Series([*values, 2, 2, 2, 2], dtype=object)
    row = [x is True for x in values].index(True)
    told = f"Row {row} .*column 'c' is 'True', expected a whole number"
    with pytest.raises(ValueError, match=told):
        RankingLists.from_arrays(df, qid=df["query"], spec=spec)


def test_whole_numbers_that_a_missing_cell_made_floats_are_exact_or_refused():
    large = [2**53 - 1, *[None] * 5]
    assert ids_of(large)[0][0] == ids_of(pandas.array(large, "Int64"))[0][0]
    with pytest.raises(ValueError, match="Row 0 .*'c' is 9007199254740992.0, a round"):
        ids_of([2**53 + 1, *[None] * 5])
    with pytest.raises(ValueError, match="Row 0 .*'c' is inf, expected a text or a"):
        ids_of([np.inf, *[None] * 5])


@pytest.mark.parametrize(("dtype", "bits"), [("f2", 11), ("f4", 24), ("f8", 53)])
def test_whole_numbers_that_their_type_rounds_are_no_names(dtype, bits):
    """Of queries, documents and categories."""
    exact, rounded = (np.full(ROWS, 2**bits - x, dtype) for x in (1, 0))
    names = [str(2**bits - 1)] * ROWS
    X, y, told = np.ones([ROWS, 1]), np.ones(ROWS), r"Row 0 .*, a rounded number: use"
    lists = RankingLists.from_arrays(X, y, qid=exact)
    assert lists.query_ids == names[:1] and lists.num_lists == 1
    assert RankingLists.from_arrays(X, y, [ROWS], doc_ids=exact).doc_ids == names
    assert ids_of(exact)[0].ravel().tolist() == [fingerprint(names[0].encode())] * ROWS
    for wrong in (rounded, pandas.Series(rounded), pandas.array(rounded)):
        with pytest.raises(ValueError, match=told):
            RankingLists.from_arrays(X, y, qid=wrong)
        with pytest.raises(ValueError, match=told):
            RankingLists.from_arrays(X, y, [ROWS], doc_ids=wrong)
        with pytest.raises(ValueError, match=told):
            ids_of(wrong)
    masked = np.ma.masked_equal(np.arange(1, ROWS + 1).astype(dtype), 3)
    with pytest.raises(ValueError, match="Row 2 .*: `qid` is missing"):
        RankingLists.from_arrays(X, y, qid=masked)


@pytest.mark.parametrize("categories", [["c", "d"], "auto"])
def test_lists_and_categories_of_pyarrow_are_as_others(categories):
    arrow = pytest.importorskip("pyarrow")
    several, one = TAGS[:4] + [["c"], [*"ab"]], ["u", None, "v", "u", "v", "w"]
    several[2] = ["b", None]
    columns = {"c": several, "d": arrow.array(one).dictionary_encode()}
    typed = arrow.table(columns).to_pandas(types_mapper=pandas.ArrowDtype)
    found, expected = (
        RankingLists.from_dataframe(given, "y", "query", categories=categories)
        for given in (frame(**typed), frame(c=several, d=pandas.Categorical(one)))
    )
    assert found.spec == expected.spec and len(found.spec.encoded()) == 2
    np.testing.assert_array_equal(found.ids, expected.ids)


def test_several_values_are_in_order_and_cut():
    with pytest.warns(UserWarning, match="'c': 1 of 6 cells have more than 8 values"):
        ids, feature = ids_of(TAGS)
    assert feature.width == 8
    for row, tags in zip(ids.tolist(), TAGS):
        known = [fingerprint(tag.encode()) for tag in tags or () if tag][:8]
        assert row == (known or [MISSING]) + [FILL] * (8 - len(known or [0]))


def test_the_context_has_one_value_a_list():
    ids, feature = ids_of([*"aaabbb"], context=["c"])
    assert ids.tolist() == [[fingerprint(b"a")], [fingerprint(b"b")]]
    assert feature.context
    several, _ = ids_of([["a", "b"]] * 3 + [["c"]] * 3, context=["c"])
    assert several.shape == (2, 8)
    with pytest.raises(ValueError, match="Row 4 .*'c' is 'a' and 'b' .* query 'y'"):
        ids_of([*"aaabab"], context=["c"])
    numbers = frame(age=[3, 3, 3, 4, 4, np.nan])
    with pytest.raises(ValueError, match="Row 5 .*'age' is nan and 4.0"):
        RankingLists.from_dataframe(
            numbers, "y", "query", context=["age"], missing=True
        )


def test_numbers_of_the_context_come_last():
    df = frame(age=[3, 3, 3, 4, 4, 4], size=range(6))
    lists = RankingLists.from_dataframe(df, "y", "query", context=["price", "age"][1:])
    assert lists.feature_names == ("price", "size", "age")
    assert lists.features[:, 2].tolist() == [3, 3, 3, 4, 4, 4]
    assert lists.ids is None and lists.context_ids is None


def of_all():
    df = frame(c=[*"abcabc"], tags=TAGS, user=[*"uuuvvv"])
    with pytest.warns(UserWarning):
        return RankingLists.from_dataframe(
            df, "y", "query", categories=["c", "tags", "user"], context=["user"]
        )


def test_lists_are_chosen_and_joined_with_their_ids():
    lists = of_all()
    turned = lists.select([1, 0])
    np.testing.assert_array_equal(turned.ids, lists.ids[[3, 4, 5, 0, 1, 2]])
    np.testing.assert_array_equal(turned.context_ids, lists.context_ids[::-1])
    joined = data.concatenate([lists.select([0]), lists.select([1])])
    for name in ("features", "ids", "context_ids", "spec"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(lists, name))
    cut = lists.with_items(np.array([5, 1]), np.array([1, 1]), ["y", "x"])
    np.testing.assert_array_equal(cut.context_ids, lists.context_ids[::-1])
    others = RankingLists.from_dataframe(frame(), "y", "query")
    with pytest.raises(ValueError, match="follow lists of"):
        data.concatenate([lists, others])


def test_a_batch_has_ids_and_fill_at_padding():
    lists = of_all().with_items(np.arange(5), np.array([3, 2]), ["x", "y"])
    inputs, _ = data.padded_batch(lists, np.array([0, 1]))
    assert inputs["ids"].shape == (2, 3, 9) and inputs["context_ids"].shape == (2, 1)
    np.testing.assert_array_equal(inputs["ids"][1, :2], lists.ids[3:])
    assert (inputs["ids"][1, 2] == FILL).all()
    only = frame(c=[*"abcabc"]).drop(columns="price")
    lists = RankingLists.from_dataframe(only, "y", "query", categories=["c"])
    inputs, _ = data.padded_batch(lists, np.array([0, 1]))
    assert sorted(inputs) == ["ids", "mask"] and lists.features.shape == (6, 0)
    for batch in data.BatchedLists(lists, 2).dataset():
        np.testing.assert_array_equal(batch[0]["ids"], inputs["ids"])


MANY = pandas.DataFrame({"q": np.repeat(np.arange(120), 10), "y": 0, "x": 1.0})


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ([str(i / 7) for i in range(1200)], "100% of its values are numbers as texts"),
        (["a long title of five"] * 1200, "its median value has 5 words"),
        (
            [f"item {i}" for i in range(1200)],
            "it has 1,200 different values in 1,200 rows",
        ),
    ],
    ids=["numbers", "title", "names"],
)
def test_columns_that_are_hardly_categories_are_refused_unless_named(column, told):
    df = MANY.assign(c=column)
    with pytest.raises(ValueError, match=f"Column 'c' is no category: {told}. Leave"):
        RankingLists.from_dataframe(df, "y", "q", categories="auto")
    lists = RankingLists.from_dataframe(df, "y", "q", categories=["c"])
    assert len({*lists.ids[:, 0]}) == len({*column})


def test_auto_takes_texts_and_neither_numbers_nor_dates():
    dates = pandas.to_datetime(["2026-01-01"] * ROWS)
    df = frame(s=[*"aabbcc"], k=range(6), t=TAGS, when=dates, b=[True, False] * 3)
    with pytest.warns(UserWarning):
        lists = RankingLists.from_dataframe(df, "y", "query", categories="auto")
    assert lists.feature_names == ("price", "k", "b")
    assert [x.name for x in lists.spec.encoded()] == ["s", "t"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"categories": ["z"]}, "no column 'z'. Found: 'query', 'y', "),
        ({"categories": ["y"]}, "Column 'y' has two uses"),
        ({"categories": ["c"], "features": ["c"]}, "Column 'c' has two uses"),
        ({"context": ["c"]}, "Column .c. is named as context, but is no feature"),
        ({"categories": "c"}, "`categories` must be a list of columns"),
        ({"categories": ["d"]}, "'d' is 7.5, expected a text or a whole number"),
        ({"categories": ["e"]}, "Row 1 .*'e' is {}, expected a text or a whole number"),
    ],
)
def test_wrong_names_are_told(arguments, told):
    df = frame(c=[*"abcabc"], d=[7, 7.5, 7, 7, 7, 7], e=["a", {}, *"bcde"])
    with pytest.raises(ValueError, match=told):
        RankingLists.from_dataframe(df, "y", "query", **arguments)


def test_the_kinds_of_the_first_lists_hold_for_others():
    spec = RankingLists.from_dataframe(
        frame(c=range(6)), "y", "query", categories=["c"]
    ).spec
    for value, told in (("b", "'b', expected a whole"), ("007", "'007', expected a")):
        df = frame(c=[7, value, 7, 7, 7, 7]).drop(columns=["query", "y"])
        with pytest.raises(ValueError, match=f"Row 1 .*'c' is {told}"):
            RankingLists.from_arrays(df, group=[6], spec=spec)
    df = frame(c=[[7, 8]] + [7] * 5).drop(columns=["query", "y"])
    with pytest.raises(ValueError, match="Row 0 .*several values, expected one"):
        RankingLists.from_arrays(df, group=[6], spec=spec)
