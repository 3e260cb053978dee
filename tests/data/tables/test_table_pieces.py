"""Tables read some rows at a time: what they hold, and what is said of them."""

import dataclasses
import gzip
import importlib.util
import json
import tracemalloc

import pytest

from tests.helpers import assert_same_lists, make_lists
from tests.tables import frame, tabular
from tfr_ext import data
from tfr_ext.data.tables import table_files, table_text
from tfr_ext.data.tables.frames import Columns

LENGTHS = [5, 1, 1, 8, 3, 40, 2, 2, 9, 1]
LISTS = tabular(
    make_lists(LENGTHS, doc_ids=[f"d{i}" for i in range(sum(LENGTHS))], seed=4)
)
COLUMNS = Columns("label", "query", ("x", "y", "z"), "weight", "doc")
ROWS = (1, 2, 3, 7, 39, 71, 72, 73, 1000)


def write(folder, ending, df, group=10):
    path = folder / f"a.{ending}"
    if ending == "parquet":
        pytest.importorskip("pyarrow")
        df.to_parquet(path, row_group_size=group)
    else:
        separator = "\t" if ending.startswith("tsv") else ","
        text = df.to_csv(index=False, sep=separator).encode()
        path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    return str(path)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("ending", ["csv", "tsv.gz", "parquet"])
def test_pieces_joined_are_the_table(tmp_path, ending, rows):
    """Whole lists, whatever is read at a time."""
    path = write(tmp_path, ending, frame(LISTS))
    pieces = list(table_files.read_files([path], COLUMNS, rows))
    assert_same_lists(data.concatenate(pieces), table_files.read_file(path, COLUMNS))
    assert all(piece.num_lists for piece in pieces)
    assert len(pieces) >= min(len(LENGTHS), 72 // max(rows, 40))
    # A piece has the lists that end in its rows, and what was begun before.
    assert max(piece.num_items for piece in pieces) <= rows + max(LENGTHS)


def test_columns_that_look_different_from_piece_to_piece(tmp_path):
    """Integers here and fractions there, and names that are numbers."""
    path = tmp_path / "a.csv"
    path.write_text("query,x,doc\n007,1,1\n007,2,2\n8,0.5,NA\n8,3,3.0\n9,4e2,x\n")
    columns = Columns(None, "query", ["x"], doc_id="doc")
    for rows in (1, 2, 3):
        lists = data.concatenate(table_files.read_files([str(path)], columns, rows))
        assert lists.query_ids == ["007", "8", "9"]
        assert lists.doc_ids == ["1", "2", "NA", "3.0", "x"]
        assert lists.features[:, 0].tolist() == [1, 2, 0.5, 3, 400]


@pytest.mark.parametrize("rows", [1, 2, 3, 4, None])
def test_a_query_may_be_written_as_text_and_as_number(tmp_path, rows):
    path = tmp_path / "a.jsonl"
    written = [1, 1, 7, "7", 7.0, "8", 8, 9]
    path.write_text("".join(json.dumps({"q": q, "x": 1.5}) + "\n" for q in written))
    found = table_files.read_files([str(path)], Columns(None, "q"), rows)
    lists = data.concatenate(found)
    assert lists.query_ids == ["1", "7", "8", "9"]
    assert lists.lengths.tolist() == [2, 3, 2, 1]


HEAD = "query,x,y,z,label,weight,doc\n"


def row(query, x="1", label="0", doc="a"):
    return f"{query},{x},1,1,{label},1,{doc}\n"


GOOD = "".join(row(query) for query in "aabccc")


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEAD,
        "query,x\na,1\n",
        HEAD + GOOD + row("d", x="abc"),
        HEAD + GOOD + row("c", x=""),
        HEAD + GOOD + row("c") + row("d", x="inf"),
        HEAD + GOOD + row("d", x="1_0") + row("e"),
        HEAD + GOOD + row("d", label="-1"),
        HEAD + GOOD + row("d", doc=""),
        HEAD + GOOD + row(""),
        HEAD + GOOD + row("a"),
        HEAD + GOOD + row("d") + row("c"),
        HEAD + GOOD + "d,1,1,1\n",
        HEAD + GOOD + "d,1,1,1,1,1,a,9\n" + row("d"),
        HEAD + GOOD + "\n \n" + row("d", x="abc"),
        HEAD + GOOD + '"d,1,1,1,1,1,a\n',
    ],
)
def test_errors_are_those_of_the_whole_table(tmp_path, text):
    """With rows and lines of the file."""
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(data.DataFormatError) as expected:
        table_files.read_file(str(path), COLUMNS)
    for rows in (1, 2, 3, 4, 6, 7, 100):
        with pytest.raises(data.DataFormatError) as error:
            list(table_files.read_files([str(path)], COLUMNS, rows))
        assert str(error.value) == str(expected.value), rows
        assert (error.value.path, error.value.line) == (str(path), expected.value.line)


@pytest.mark.parametrize("rows", [1, 100])
def test_a_query_must_not_be_in_two_files(tmp_path, rows):
    paths = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    for path, queries in zip(paths, ("ab", "cda")):
        with open(path, "w") as file:
            file.write(HEAD + "".join(map(row, queries)))
    with pytest.raises(data.DataFormatError) as error:
        list(table_files.read_files(paths, COLUMNS, rows))
    assert str(error.value) == (
        f"{paths[1]}: query 'a' is also in {paths[0]}; expected the rows of a query "
        "next to each other in one file"
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_table(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(table_text, "_BLOCK_BYTES", 1 << 16)
    if ending == "parquet" and not importlib.util.find_spec("pyarrow"):
        pytest.skip("PyArrow is not installed")
    peaks = []
    for count in (200, 600):
        lists = make_lists([100] * count)
        lists = dataclasses.replace(lists, feature_names=("x", "y", "z"))
        path = write(tmp_path, ending, frame(lists), group=5000)
        columns = Columns("label", "query", ("x", "y", "z"))
        tracemalloc.start()
        try:
            items = sum(
                piece.num_items
                for piece in table_files.read_files([path], columns, 500)
            )
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert items == lists.num_items
    # The features of the other lists alone would be 480,000 bytes.
    assert peaks[1] - peaks[0] < 100_000, peaks
