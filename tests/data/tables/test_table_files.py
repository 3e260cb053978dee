"""CSV and Parquet files become the lists that they hold, or an error with the place."""

import bz2
import dataclasses
import decimal
import gzip
import importlib
import lzma

import numpy as np
import pandas as pd
import pytest

from tests.helpers import assert_same_lists, make_lists
from tests.tables import frame, tabular
from tfr_ext import data

COLUMNS = {"label": "label", "query": "query", "weight": "weight", "doc_id": "doc"}
LISTS = tabular(make_lists([3, 1, 4], doc_ids=[f"00{i}" for i in range(8)]))


def packed(pack):
    return lambda df, path: path.write_bytes(
        pack(df.to_csv(index=False).encode("utf-8-sig"))
    )


WRITERS = {
    "a.csv": lambda df, path: df.to_csv(path, index=False),
    "b.csv": lambda df, path: df.to_csv(path),  # With an index that has no name.
    "c.csv": lambda df, path: df.to_csv(path, index=False, lineterminator="\r\n"),
    "a.tsv": lambda df, path: df.to_csv(path, index=False, sep="\t"),
    "a.csv.gz": packed(gzip.compress),
    "a.csv.bz2": packed(bz2.compress),
    "a.csv.xz": packed(lzma.compress),
    "packed.csv": packed(gzip.compress),  # By content, whatever the name.
    "a.parquet": lambda df, path: df.to_parquet(path),
    "b.parquet": lambda df, path: df.sample(frac=1).sort_index().to_parquet(path),
    "a.pq": lambda df, path: df.set_index("query").to_parquet(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_lists_of_the_frame(tmp_path, name):
    if name.endswith(("parquet", "pq")):
        pytest.importorskip("pyarrow")
    df = frame(LISTS)
    if name == "b.parquet":
        df = df.set_index(np.arange(len(df)) * 3)
    WRITERS[name](df, tmp_path / name)
    if name == "a.pq":  # Columns come in another order: named, the order is theirs.
        COLUMNS_OF = {**COLUMNS, "features": ["x", "y", "z"]}
        assert_same_lists(data.read_table(tmp_path / name, **COLUMNS_OF), LISTS)
    assert_same_lists(data.read_table(tmp_path / name, **COLUMNS), LISTS)


def test_text_columns_are_left_out_and_order_is_by_name(tmp_path):
    df = frame(LISTS).assign(title="a, b\nc", seen=True)
    df.to_csv(tmp_path / "0.csv", index=False)
    other = tabular(make_lists([2], seed=1, doc_ids=["d", "e"]))
    other = dataclasses.replace(other, query_ids=["other"])
    shuffled = frame(other).assign(seen=False, extra=1)[
        ["z", "seen", "doc", "y", "label", "extra", "x", "weight", "query"]
    ]
    shuffled.to_csv(tmp_path / "1.tsv", index=False, sep="\t")
    lists = data.read_table(f"{tmp_path}/*", **COLUMNS)
    assert lists.feature_names == ("x", "y", "z", "seen")
    expected = data.concatenate([LISTS, other])
    np.testing.assert_array_equal(lists.features[:, :3], expected.features)
    assert lists.features[:, 3].tolist() == [1] * 8 + [0] * 2
    assert lists.query_ids == expected.query_ids


def test_numbers_are_the_nearest_of_float32(tmp_path):
    values = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100, 1)
    values = values[np.abs(values) < 1e38]
    path = tmp_path / "a.csv"
    lines = [f"q,{x!r},1\n" for x in values.tolist()]
    path.write_text("query,x,label\n" + "".join(lines))
    lists = data.read_table(path, "label", "query")
    np.testing.assert_array_equal(lists.features[:, 0], values.astype(np.float32))


def test_names_are_texts_as_they_stand(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("query,x,doc\n007,1,1e3\nNA,2,null\nNA,3,0.10\n")
    lists = data.read_table(path, None, "query", doc_id="doc")
    assert lists.query_ids == ["007", "NA"] and lists.doc_ids == ["1e3", "null", "0.10"]
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"query": [7, 8, 8], "x": 1.5, "doc": [2**53 + 1, 2, 3]})
    frame.to_parquet(tmp_path / "a.parquet")
    lists = data.read_table(tmp_path / "a.parquet", None, "query", doc_id="doc")
    assert lists.query_ids == ["7", "8"] and lists.doc_ids[0] == "9007199254740993"


def test_rows_and_lines_are_counted_past_blank_and_broken_lines(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('query,x,text,label\n1,1,"a\n\nb",0\n\n  \n1,2,c,1\n1,nan,d,1\n')
    with pytest.raises(data.DataFormatError) as error:
        data.read_table(path, "label", "query")
    told = "row 2: column 'x' is nan, expected a finite number (neither NaN nor "
    told += "infinity); `missing` lets features be NaN in training"
    assert str(error.value) == f"{path}:8: {told}"
    assert error.value.line == 8


HEAD = "query,x,label,weight,doc\n"
GOOD = "1,0.5,0,1,a\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ": the file is empty"),
        ("\n \n", ": the file is empty"),
        (HEAD, ": the table has no rows"),
        ("query,x,label,weight\n1,1,1,1\n", ": There is no column 'doc'. Found: "),
        ("query;x;label\n1;1;1\n", ": There are no columns 'label', 'query', 'weight'"),
        (HEAD.replace("x", "x,x"), ": There are two columns 'x'."),
        (HEAD + GOOD + "1,abc,0,1,a\n", ":3: row 1: column 'x' is 'abc', expected a"),
        (HEAD + GOOD + "1,,0,1,a\n", ":3: row 1: column 'x' is nan, expected a"),
        (HEAD + GOOD + "1,NULL,0,1,a\n", ":3: row 1: column 'x' is nan, expected"),
        (HEAD + "1,inf,0,1,a\n", ":2: row 0: column 'x' is inf, expected a finite"),
        (HEAD + "1,-1e39,0,1,a\n", ":2: row 0: column 'x' is -1e+39, expected a num"),
        (HEAD + "1,1_0,0,1,a\n", ":2: row 0: column 'x' is '1_0', expected a number"),
        (HEAD + GOOD + "1,1,-1,1,a\n", ":3: row 1: column 'label' is -1, expected"),
        (HEAD + GOOD + "1,1,,1,a\n", ":3: row 1: column 'label' is nan"),
        (HEAD + GOOD + "1,1,1,-2,a\n", ":3: row 1: column 'weight' is -2, expected a"),
        (HEAD + GOOD + "1,1,1,x,a\n", ":3: row 1: column 'weight' is 'x', expected"),
        (HEAD + GOOD + ",1,1,1,a\n", ":3: row 1: column 'query' is missing or empty"),
        (HEAD + GOOD + "1,1,1,1,\n", ":3: row 1: column 'doc' is missing or empty"),
        (
            HEAD + GOOD + "1,1,1\n",
            ":3: expected 5 cells, one for each name of a column",
        ),
        (HEAD + GOOD + "\n1,1,1,a\n", ":4: expected 5 cells, one for each name of a"),
        (HEAD + GOOD + "1,0.\x00912,0,1,a\n", ":3: unexpected NUL byte, expected text"),
        (HEAD + GOOD + "q\0x,1,0,1,a\n", ":3: unexpected NUL byte, expected text"),
        (HEAD + GOOD + "1,1,1,1,a,9\n", ":3: expected 5 cells, one for each name of"),
        (HEAD + "1,1,1,1,a,9\n" + GOOD, ":2: expected 5 cells, one for each name of"),
        (HEAD + GOOD + "2,1,1,1,a\n" + GOOD, ":4: row 2: query '1' began in row 0 and"),
        (HEAD + GOOD + '1,"2,0,1,a\n', ":3: expected a table: "),
        (HEAD + GOOD + '1,1,0,1,"a\n', ":3: expected a table: "),
        (HEAD.replace("\n", "\r") + GOOD, ":1: expected a table: "),
        ((HEAD + GOOD).encode() + b"\xff", ":3: expected text in UTF-8"),
        (
            gzip.compress(HEAD.encode() * 999, mtime=0)[:50],
            ": expected a whole gzip file",
        ),
        (lzma.compress(HEAD.encode() * 999)[:50], ": expected a whole xz file"),
        ((HEAD + GOOD).encode("utf-16"), ": expected text in UTF-8. Found: UTF-16"),
    ],
    ids=str,
)
@pytest.mark.parametrize("named", [False, True])
def test_what_is_wrong_is_told_with_its_place(tmp_path, text, told, named):
    path = tmp_path / "a.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    features = ["x"] if named else None
    with pytest.raises(data.DataFormatError) as error:
        data.read_table(path, features=features, **COLUMNS)
    if not named and ("abc" in told or "1_0" in told):
        # As long as nobody names it, a column of texts is no feature.
        told = ": No column except 'label', 'query', 'weight', 'doc' has numbers."
    assert str(error.value).startswith(f"{path}{told}"), error.value


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda df: df.assign(x=[1.0, None] * 4), "row 1: column 'x' is nan, expected"),
        (lambda df: df.assign(x="1"), "row 0: column 'x' is '1', expected a number"),
        (lambda df: df[::2].iloc[[0, 1, 0]], "row 2: query 'q0' began in row 0"),
        (lambda df: df.drop(columns="y"), "There is no column 'y'. Found: 'query'"),
        (lambda df: df[:0], "the table has no rows"),
    ],
)
def test_what_is_wrong_in_parquet_is_told_with_its_row(tmp_path, change, told):
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    changed = change(frame(LISTS)).astype({"query": str})
    if "began" in told:
        changed = changed.assign(query=["q0", "q1", "q0"])
    changed.to_parquet(path)
    with pytest.raises(data.DataFormatError) as error:
        data.read_table(path, features=["x", "y"], **COLUMNS)
    assert str(error.value).startswith(f"{path}: {told}"), error.value


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_that_look_like_numbers_are_told_or_read(tmp_path, ending):
    """A DECIMAL column is one of numbers; one `?` or `1,234` makes one of texts."""
    path = tmp_path / f"a.{ending}"
    df = frame(LISTS).drop(columns=["y", "z"])
    df["price"] = [decimal.Decimal(f"{n}.25") for n in range(8)]
    df["rank"] = ["1", "?", *"345678"]
    df["sold"] = "1,234"
    df.to_csv(path, index=False) if ending == "csv" else df.to_parquet(path)
    with pytest.warns(UserWarning) as told:
        lists = data.read_table(path, **COLUMNS)
    assert lists.feature_names == ("x", "price")
    assert lists.features[:, 1].tolist() == [n + 0.25 for n in range(8)]
    assert [str(one.message).split("one is ")[1] for one in told] == [
        "'?'.",
        "'1,234'.",
    ]


def test_blanks_around_numbers_and_truth_values(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("query,x,y\nq, 1 ,True\nq,+2\t,0\nq,-.5e1,FALSE\n")
    lists = data.read_table(path, None, "query")
    assert lists.features.tolist() == [[1, 1], [2, 0], [-5, 0]]


def test_a_damaged_parquet_file_is_named(tmp_path):
    """Each is refused by name, or read as PyArrow reads it."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path, rng = tmp_path / "a.parquet", np.random.default_rng(0)
    frame(LISTS).to_parquet(path, write_page_checksum=True)
    whole, refused = path.read_bytes(), 0
    for _ in range(150):
        damaged = bytearray(
            whole[: rng.integers(len(whole)) if rng.random() < 0.2 else None]
        )
        for place in rng.integers(max(1, len(damaged)), size=2):
            damaged[place : place + 1] = rng.bytes(1)
        path.write_bytes(damaged)
        try:
            lists = data.read_table(path, features=["x", "y", "z"], **COLUMNS)
        except data.DataFormatError as error:
            assert str(path) in str(error)
            refused += 1
        else:
            found = parquet.read_table(path, columns=["x", "y", "z"])
            expected = np.stack([x.to_numpy() for x in found.columns], axis=1)
            np.testing.assert_array_equal(lists.features, expected.astype(np.float32))
    assert refused > 100


def test_long_cells_are_read_and_later_errors_keep_their_place(tmp_path):
    path, long = tmp_path / "a.csv", f"1,1,0,1,{'a' * 3_000_000}\n"
    path.write_text(HEAD + long + GOOD)
    lists = data.read_table(path, **COLUMNS)
    assert [len(name) for name in lists.doc_ids] == [3_000_000, 1]
    for text, told in (
        (long + "1,abc,0,1,a\n", ":3: row 1: column 'x' is 'abc', expected a number"),
        (long + "1,1,0\n", ":3: expected 5 cells, one for each name of a column"),
        (
            GOOD + long.replace("a", "a" * 7),
            ":3: expected a row of less than 8,388,608",
        ),
    ):
        path.write_text(HEAD + text)
        with pytest.raises(data.DataFormatError) as error:
            data.read_table(path, features=["x"], **COLUMNS)
        assert str(error.value)[:200].startswith(f"{path}{told}")


def test_files_that_are_no_tables(tmp_path):
    for name, told in (
        ("a.txt", "expected a name that ends in .csv, .tsv, .jsonl, .parquet, .pq"),
        ("a.parquet", "expected a Parquet file|Tables need pyarrow"),
    ):
        (tmp_path / name).write_text("query,x\n1,1\n")
        with pytest.raises((data.DataFormatError, ImportError), match=told):
            data.read_table(tmp_path / name, None, "query")
    with pytest.raises(FileNotFoundError):
        data.read_table(tmp_path / "none.csv", None, "query")


def test_a_query_in_two_files(tmp_path):
    for name in ("a.csv", "b.csv"):
        frame(LISTS).to_csv(tmp_path / name, index=False)
    with pytest.raises(data.DataFormatError) as error:
        data.read_table(f"{tmp_path}/*.csv", **COLUMNS)
    assert f"{tmp_path}/b.csv: query 'q0' is also in {tmp_path}/a.csv;" in str(
        error.value
    )


@pytest.mark.parametrize(
    ("missing", "name"),
    [("pandas", "a.csv"), ("pyarrow.csv", "a.csv"), ("pyarrow.parquet", "a.parquet")],
)
def test_what_is_missing_is_told_with_how_to_install_it(
    tmp_path, monkeypatch, missing, name
):
    for made in ("a.csv", "a.parquet"):  # What is in it, nobody reads.
        frame(LISTS).to_csv(tmp_path / made, index=False)
    real = importlib.import_module

    def refuse(module, *args):
        if module == missing:
            raise ModuleNotFoundError(f"No module named {module!r}")
        return real(module, *args)

    monkeypatch.setattr(importlib, "import_module", refuse)
    told = f"Tables need {missing[:6]}.*No module named.*pip install .*pandas .*pyarrow"
    with pytest.raises(ImportError, match=told):
        data.read_table(tmp_path / name, **COLUMNS)
