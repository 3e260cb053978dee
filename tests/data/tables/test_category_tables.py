"""Categories and context in table files are those of the frame, or an error."""

import csv
import dataclasses
import gzip
import json

import numpy as np
import pandas as pd
import pytest

from tests.helpers import assert_same_lists
from tfr_ext import data
from tfr_ext.core import messages
from tfr_ext.data import features, fingerprints
from tfr_ext.data.tables import table_files
from tfr_ext.data.tables.frames import Columns
from tfr_ext.models import categories, vocabularies

BRANDS = ["007", "1e3", "NA", "null", None, 'a "b", c', "two\nlines", "Ωmega", "7.0"]
LONG = 2**53 + 1  # No float is.
SHOPS = [7, 7, 8, None, LONG, 0, -12, 7, 8]
# Of the same numbers, as people write them.
WRITTEN = ["7", "7.0", "8.00", "", str(LONG), "0", "-12", "7", "8"]
TAGS = [["a", "b"], [], ["b"], None, ["a", None, "c"], ["b", "b"], ["a"], ["c"], ["b"]]
FRAME = pd.DataFrame(
    {
        "query": ["p"] * 4 + ["q"] * 2 + ["r"] * 3,
        "price": np.arange(9) / 2,
        "brand": BRANDS,
        "shop": pd.array(SHOPS, "Int64"),
        "device": ["phone"] * 4 + [None] * 2 + ["desk"] * 3,
        "age": [30.0] * 4 + [4.0] * 2 + [7.5] * 3,
        "title": "not used",
        "label": [1, 0, 2] * 3,
    }
)
NAMED = {"categories": ["brand", "shop", "device"], "context": ["device", "age"]}
COLUMNS = Columns("label", "query", **NAMED)


def write(path, df, shops=WRITTEN):
    """Writes a frame in the format that the end of the path names."""
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        df.to_parquet(path, row_group_size=4)
        return str(path)
    rows = df.astype(object).where(df.notna(), None).to_dict("records")
    if path.suffix == ".jsonl":
        path.write_text("\n\n".join(map(json.dumps, rows)), "utf-8")
        return str(path)
    with open(path, "w", newline="", encoding="utf-8") as file:
        separator = "\t" if ".tsv" in path.name else ","
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(df.columns)
        for row, shop in zip(rows, shops):
            writer.writerow({**row, "shop": shop}.values())
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(path.read_bytes()))
    return str(path)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.jsonl", "a.parquet"])
def test_files_have_the_ids_of_the_frame(tmp_path, name):
    """At once and in pieces; the second file follows the first, in another order."""
    expected = data.RankingLists.from_dataframe(FRAME, "label", "query", **NAMED)
    path = write(tmp_path / name, FRAME)
    assert_same_lists(data.read_table(path, "label", "query", **NAMED), expected)
    kinds = {x.name: (x.kind, x.context, x.is_integer) for x in expected.spec.features}
    assert kinds["shop"] == ("category", False, True)
    assert kinds["brand"] == ("category", False, False)
    assert kinds["age"] == ("number", True, False)
    assert expected.ids[4, 1] == fingerprints.of_values([b"9007199254740993"])[0]
    assert expected.ids[3:5].tolist()[0][1] == expected.ids[4, 0] == -1
    assert expected.context_ids[1].tolist() == [fingerprints.MISSING]
    for rows in (1, 4, 100):
        pieces = [*table_files.read_files([path], COLUMNS, rows)]
        assert_same_lists(data.concatenate(pieces), expected)
    more = FRAME.assign(query="x" + FRAME["query"], shop=8)[[*FRAME.columns[::-1]]]
    write(tmp_path / f"b{name[1:]}", more, shops=["8"] * 9)
    both = data.read_table(f"{tmp_path}/*", "label", "query", **NAMED)
    assert both.spec == expected.spec and (both.ids[9:, 1] == both.ids[2, 1]).all()
    np.testing.assert_array_equal(both.ids[9:, 0], expected.ids[:, 0])


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_lists_are_several_values(tmp_path, name):
    df = FRAME.assign(tags=TAGS)
    named = {**NAMED, "categories": [*NAMED["categories"], "tags"]}
    expected = data.RankingLists.from_dataframe(df, "label", "query", **named)
    lists = data.read_table(write(tmp_path / name, df), "label", "query", **named)
    assert_same_lists(lists, expected)
    assert lists.ids[:, 2:].shape == (9, features.MOST_VALUES)
    a, c = fingerprints.of_values([b"a", b"c"])
    assert lists.ids[4, 2:5].tolist() == [a, c, fingerprints.FILL]
    assert lists.ids[1, 2:4].tolist() == [fingerprints.MISSING, fingerprints.FILL]


def test_bytes_that_are_no_text_are_values(tmp_path):
    df = FRAME.assign(brand=[b"\xff", b"\xfe\x00", b"", None, b"\xff", *[b"a"] * 4])
    lists = data.read_table(
        write(tmp_path / "a.parquet", df), "label", "query", **NAMED
    )
    expected = data.RankingLists.from_dataframe(df, "label", "query", **NAMED)
    assert_same_lists(lists, expected)
    ids = lists.ids[:, 0]
    assert ids[0] == ids[4] != ids[1] and ids[2] == ids[3] == fingerprints.MISSING


@pytest.mark.parametrize("cells", [["7", "007"], ["7", "7.5"], ["7", "7 "], ["7", "a"]])
def test_one_cell_makes_all_of_them_texts(tmp_path, cells):
    path = tmp_path / "a.csv"
    path.write_text(f"query,shop,label\nq,{cells[0]},1\nq,{cells[1]},0\n")
    lists = data.read_table(path, "label", "query", categories=["shop"])
    assert not lists.spec.features[0].is_integer and lists.num_features == 0
    texts = [cell.encode() for cell in cells]
    assert lists.ids[:, 0].tolist() == fingerprints.of_values(texts).tolist()
    columns = Columns("label", "query", categories=["shop"])
    (lists,) = table_files.read_files([str(path)], columns, 1)  # Not row by row.
    assert lists.ids[:, 0].tolist() == fingerprints.of_values(texts).tolist()


def changed(column, row, value):
    return FRAME.assign(
        **{column: [*FRAME[column][:row], value, *FRAME[column][row + 1 :]]}
    )


@pytest.mark.parametrize(
    ("name", "df", "shops", "told"),
    [
        ("b.csv", FRAME, ["7"] * 5 + ["7.5"] + ["7"] * 3, ":7: row 5: column 'shop' is "
         "'7.5', expected a whole number"),
        ("b.csv", FRAME, ["7", "007"] + ["7"] * 7, ":3: row 1: column 'shop' is '007'"),
        ("b.parquet", FRAME.assign(shop=[7.0] * 8 + [7.5]), None, ": row 8: column "
         "'shop' is 7.5, expected a text or a whole number"),
        ("b.parquet", FRAME.assign(brand=7), None, ": row 0: column 'brand' is 7, "
         "expected a text, as in training"),
        ("b.jsonl", changed("brand", 2, ["a", "b"]), None, ":5: row 2: column 'brand' "
         "has several values, expected one"),
        ("b.csv", FRAME.drop(columns="brand"), WRITTEN, ": There is no column 'brand'"),
        ("b.csv", changed("device", 8, "tv"), WRITTEN, ":11: row 8: column 'device' is "
         "'tv' and 'desk' in the list of query 'xr', expected one value a list"),
        ("b.csv", changed("age", 1, 31.0), WRITTEN, ":3: row 1: column 'age' is 31.0 "
         "and 30.0 in the list of query 'xp', expected one value a list"),
        ("b.csv", FRAME.assign(price="a"), WRITTEN, ":2: row 0: column 'price' is 'a'"),
    ],
)  # fmt: skip
def test_a_file_that_differs_from_the_first_is_refused(tmp_path, name, df, shops, told):
    write(tmp_path / "a.csv", FRAME)
    path = write(tmp_path / name, df.assign(query="x" + df["query"]), shops)
    with pytest.raises(data.DataFormatError) as error:
        data.read_table(f"{tmp_path}/*", "label", "query", **NAMED)
    assert str(error.value).startswith(f"{path}{told}"), error.value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"query": 1, "x": 1}\n\n[1]', ":3: expected a JSON object with names that"),
        ('{"query": 1, "x": 1}\n{"query": 1, "y": 1}', ":2: expected a JSON object"),
        ('{"query": 1, "x": 1}\n{"query": 1, "x": ', ":2: expected JSON: "),
        ("[" * 99_999, ":1: expected JSON: "),
        ('{"query": 1, "x": 1}\n{"query": 1, "x": "2"}', ":2: row 1: column 'x' is '2"),
        ('{"query": 1, "x": 1}\n{"query": null}', ":2: row 1: column 'query' is miss"),
        ("\n", ": the file is empty"),
    ],
)  # fmt: skip
def test_wrong_json_lines_are_told_by_line(tmp_path, text, told):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(data.DataFormatError) as error:
        data.read_table(path, None, "query", features=["x"])
    assert str(error.value).startswith(f"{path}{told}"), error.value


def test_context_must_be_a_feature(tmp_path):
    path = write(tmp_path / "a.csv", FRAME)
    with pytest.raises(data.DataFormatError, match="Column 'device' is named as cont"):
        data.read_table(path, "label", "query", context=["device"])


def test_unseen_values_are_counted_and_ids_are_warned_of():
    """Alike in one piece and in several."""
    rows = 200
    df = pd.DataFrame(
        {
            "query": np.repeat(np.arange(100), 2),
            "brand": np.arange(rows) % 7,
            "sku": [f"s{max(i, 9)}" for i in range(rows)],
            "user": np.repeat([f"u{i}" for i in range(100)], 2),
            "label": 1,
        }
    )
    named = {"categories": ["brand", "sku", "user"], "context": ["user"]}
    lists = data.RankingLists.from_dataframe(df, "label", "query", **named)
    with pytest.warns(UserWarning) as told, messages.issuing_warnings():
        known = vocabularies(lists)
    texts = [str(one.message) for one in told]
    assert [text.split(":")[0] for text in texts] == [
        "Category 'sku'",
        "Category 'user'",
    ]
    assert "95% of its values in training occur once" in texts[0]
    assert {name: len(x.keys) for name, x in known.items()} == {
        "brand": 7,
        "sku": 1,
        "user": 0,
    }
    pieces = [lists.select(range(30)), lists.select(range(30, 100))]
    again = vocabularies(iter(pieces))
    for name, vocabulary in known.items():
        np.testing.assert_array_equal(again[name].keys, vocabulary.keys)
        np.testing.assert_array_equal(again[name].counts, vocabulary.counts)
    known = {name: vocabulary.keys for name, vocabulary in known.items()}
    new = dataclasses.replace(lists, ids=np.where(lists.ids == known["sku"], 5, -1))
    found = {name: x.tolist() for name, x in categories.unseen(new, known).items()}
    assert found == {"brand": [0, 0], "sku": [10, 10], "user": [100, 100]}
