"""Damaged tables: read right, or refused with their name.

What is right, a reader written here says: a CSV text character by character, and for
Parquet PyArrow.
"""

import io
import pathlib
import re
import tempfile

import numpy as np
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from tests.data.damage import (
    KINDS,
    RefusedError,
    check,
    expect,
    fuzz,
    mutate_bytes,
    mutations,
    text_of,
    unzipped,
)
from tfr_ext import data

pytestmark = pytest.mark.grid

TEXTS = (
    b"query,x,label,y,note,doc\nq1,0.5,1,2,,a\nq1,.25,0,3,x y,b\nq2,1e1,2,4,z,c\n",
    b'\xef\xbb\xbfquery,x,label,y,note,doc\r\n"q,1",+1,1, 2 ,"a ""b""",a\r\n'
    b'"q,1",-2,0,True,"two\nlines",b\r\n\r\nq2,3.5,1,4,5",c',
    b'"query",x,"label",y,note,doc\n'
    + b"".join(
        b"%d,%d.5,%d,NA,text %d,d%d\n" % (i // 3, i, i % 2, i, i) for i in range(9)
    ),
)
COLUMNS = {"label": "label", "query": "query", "doc_id": "doc"}
PIECES = st.sampled_from(
    [b",", b'"', b'""', b"\n", b"\r", b"\r\n", b" ", b"\t", b".", b"-", b"+", b"e"]
    + [b"0", b"9", b"NA", b"nan", b"inf", b"True", b"\0", b"\xff", b"1e39", b"-0"]
    + [b"_", b"1_0", "٣".encode(), b"0x1", b"?", b"1,234", b"\xef\xbb\xbf", b'"\n"']
    + [b"9" * 400, b"1e-400", b"q1,1,1,1,n,d\n", b"\n\n", b"\x01", b"\xc2\xa0"]
) | st.binary(min_size=1, max_size=3)
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A")
TRUTH = {"true": 1.0, "True": 1.0, "TRUE": 1.0}
TRUTH |= {"false": 0.0, "False": 0.0, "FALSE": 0.0}


def rows_of(text):
    """Splits a text into rows of cells; a quote opens a cell only at its beginning."""
    rows, row, cell, quoted, opened = [], [], [], False, False
    place, start, end = 0, 0, len(text)
    while place <= end:
        char = text[place : place + 1] or "\n"
        expect(not quoted or place < end)
        place += 1
        if quoted:
            if char == '"' and text[place : place + 1] == '"':
                cell.append(char)
                place += 1
            elif char == '"':
                quoted = False
            else:
                cell.append(char)
        elif char == '"' and not cell and not opened:
            quoted = opened = True
        elif char == ",":
            row.append("".join(cell))
            cell, opened = [], False
        elif char in "\r\n":
            if char == "\r" and text[place : place + 1] == "\n":
                place += 1
            row.append("".join(cell))
            # A row with nothing but blanks is none; after the names, not even quoted.
            if len(row) > 1 or (text[start:place] if rows else row[0]).strip():
                # Only after the names a carriage return ends a line.
                alone = re.search(r"\r(?!\r?\n)", text)
                expect(rows or not alone or alone.start() >= place)
                rows.append(row)
            row, cell, opened, start = [], [], False, place
        else:
            cell.append(char)
    return rows


def number(text, missing):
    text = text.strip(" \t")
    if text in MISSING:
        expect(missing)
        return np.float32("nan")
    if text in TRUTH:
        return np.float32(TRUTH[text])
    if missing and re.fullmatch(r"[+-]?nan", text, re.IGNORECASE):
        return np.float32("nan")
    expect(re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text))
    with np.errstate(over="ignore"):
        value = np.float32(float(text))
    expect(np.isfinite(value))
    return value


def read_text(content, missing):
    """Returns (query, label, features, document) of each row."""
    content = unzipped(content)
    expect(b"\0" not in content)
    rows = rows_of(text_of(content.removeprefix(b"\xef\xbb\xbf")))
    expect(len(rows) > 1)
    names, items, begun = rows[0], [], set()
    expect(len({*names}) == len(names))
    expect({"query", "label", "doc", "x", "y"} <= {*names})
    expect(not any("\r" in name for name in names))
    for row in rows[1:]:
        expect(len(row) == len(names))
        cells = dict(zip(names, row))
        query, label = cells["query"], number(cells["label"], False)
        expect(query and cells["doc"] and label >= 0)
        expect(query not in begun or items[-1][0] == query)
        begun.add(query)
        features = {i: number(cells[name], missing) for i, name in enumerate("xy")}
        items.append((query, label, features, cells["doc"]))
    return items


@fuzz(300)
@given(
    st.sampled_from(TEXTS),
    mutations(KINDS, PIECES, 3),
    st.booleans(),
)
@example(TEXTS[0], [("replace", 27, 0, b"\0")], False)
@example(TEXTS[0], [("insert", 27, 0, b'"')], False)
@example(TEXTS[0], [("insert", len(TEXTS[0]) - 4, 0, b'"')], False)
@example(TEXTS[0], [("insert", 3, 0, b"\r")], False)
@example(TEXTS[2], [("insert", 2, 0, b"\r")], False)
def test_damaged_csv(text, changes, missing):
    content = mutate_bytes(text, changes)
    try:
        items = read_text(content, missing)
    except RefusedError:
        items = None
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.csv")
        path.write_bytes(content)
        try:
            lists = data.read_table(
                path, features=["x", "y"], missing=missing, **COLUMNS
            )
        except data.DataFormatError as error:
            assert str(error).startswith(str(path))
            assert items is None, error
            event("refused")
            return
    assert items is not None
    check(lists, items, 2)
    event("read")


def parquet_of(**options):
    pandas, parquet = pytest.importorskip("pandas"), io.BytesIO()
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {
            "query": np.repeat(["a", "b", "c"], 20),
            "x": np.arange(60) / 7,
            "y": np.arange(60),
            "label": np.arange(60) % 3,
            "doc": [f"d{i}" for i in range(60)],
        }
    )
    frame.to_parquet(parquet, **options)
    return parquet.getvalue()


@fuzz(300)
@given(
    st.sampled_from(
        [{}, {"compression": None}, {"use_dictionary": False}, {"row_group_size": 7}]
        + [{"write_page_checksum": True}, {"compression": "gzip"}]
    ),
    mutations(KINDS, PIECES, 3),
)
def test_damaged_parquet(options, changes):
    parquet = pytest.importorskip("pyarrow.parquet")
    content = mutate_bytes(parquet_of(**options), changes)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.parquet")
        path.write_bytes(content)
        try:
            lists = data.read_table(path, features=["x", "y"], **COLUMNS)
        except data.DataFormatError as error:
            assert str(error).startswith(str(path))
            event("refused")
            return
        found = parquet.read_table(path, columns=["x", "y", "label"])
    x, y, label = (column.to_numpy() for column in found.columns)
    np.testing.assert_array_equal(lists.features, np.float32([x, y]).T)
    np.testing.assert_array_equal(lists.labels, np.float32(label))
    event("read")
