"""What the LETOR reader refuses, and what it says."""

from __future__ import annotations

import gzip
import pickle

import pytest

from tests.data.letor.good import GOOD
from tfr_ext.data import text_files
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.letor import reading
from tfr_ext.data.letor.reading import read_letor


def check_error(path, line, *pieces, **kwargs):
    with pytest.raises(DataFormatError) as info:
        read_letor(path, **kwargs)
    message = str(info.value)
    where = path if line is None else f"{path}:{line}"
    assert message.startswith(where + ": "), message
    for piece in pieces:
        assert piece in message
    assert (info.value.path, info.value.line) == (path, line)
    copy = pickle.loads(pickle.dumps(info.value))
    assert (str(copy), copy.path, copy.line) == (message, path, line)


RANGE = "is out of range, expected 1 to 1000000"
PAIR = "expected `INDEX:VALUE`"
NUMBER = "is not a number, expected a decimal number"
FINITE = "is not finite, expected a finite number"
LARGE = "is too large, expected a number that float32 holds"


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        ("1", ["the query is missing, expected `qid:NAME`", "'1'"]),
        ("1 1:2 2:3", ["the query is missing, expected `qid:NAME`", "'1:2'"]),
        ("1 QID:1 1:2", ["the query is missing", "'QID:1'"]),
        ("1 1:2 qid:1", ["the query is missing", "'1:2'"]),
        ("1 qid: 1:2", ["the query is empty, expected `qid:NAME`", "'qid:'"]),
        ("1 qid: 5 1:2", ["the query is empty", "'qid:'"]),
        ("1 qid:a\x01 1:2", ["the query holds a control character", r"a\x01"]),
        ("1 qid:1 2", ["a feature has no colon, " + PAIR, "'2'"]),
        ("1 qid:1 1:2 NULL", ["a feature has no colon", "'NULL'"]),
        ("1 qid:1 qid:1 1:2", ["a feature has no index, " + PAIR, "'qid:1'"]),
        ("1 qid:1 1:", ["a feature has no value, " + PAIR, "'1:'"]),
        ("1 qid:1 1: 2:3", ["a feature has no value", "'1:'"]),
        ("1 qid:1 :5", ["a feature has no index", "':5'"]),
        ("1 qid:1 1:2:3", ["two colons, " + PAIR, "'1:2:3'"]),
        ("1 qid:1 1::3", ["two colons", "'1::3'"]),
        ("1 qid:1 1:2 x:3", ["a feature has no index", "'x:3'"]),
        ("1 qid:1 1.0:3", ["a feature has no index", "'1.0:3'"]),
        ("1 qid:1 +1:3", ["a feature has no index", "'+1:3'"]),
        ("1 qid:1 1_0:3", ["a feature has no index", "'1_0:3'"]),
        ("1 qid:1 ²:3", ["a feature has no index", "'²:3'"]),
        ("1 qid:1 1:2\x0b2:3", ["two colons", r"\x0b"]),
        ("1 qid:1 1:\x7f", ["feature value " + NUMBER, r"\x7f"]),
        ("1 qid:1 1:1\x00", ["unexpected NUL byte", r"1\x00"]),
        ("1 qid:1 1:1 # \x00", ["unexpected NUL byte"]),
        ("1 qid:1 1:1\r1 qid:1 1:2", ["unexpected carriage return"]),
        ("1 qid:1 1:1 # c\r1 qid:1 1:2", ["unexpected carriage return"]),
        ("1 qid:1 0:3", ["index 0 " + RANGE, "`num_features` is None", "'0:3'\nThis"]),
        ("1 qid:1 -1:3", ["feature index -1 " + RANGE]),
        ("1 qid:1 -0:3", ["feature index -0 " + RANGE]),
        ("1 qid:1 1000001:3", ["feature index 1000001 " + RANGE]),
        ("1 qid:1 1000000000000:3", ["feature index 1000000000000 " + RANGE]),
        ("1 qid:1 18446744073709551617:3", ["index 18446744073709551617 " + RANGE]),
        ("1 qid:1 " + "9" * 5000 + ":3", ["feature index 9999", RANGE, "9...'"]),
        ("1 qid:1 1:x 1:3", ["feature value " + NUMBER, "'1:x'"]),
        ("1 qid:1 1:x", ["feature value " + NUMBER, "'1:x'"]),
        ("1 qid:1 1:" + "x" * 99, ["Found: '1:" + "x" * 38 + "...'"]),
        ("1 qid:1 1:1_000", ["feature value " + NUMBER, "'1:1_000'"]),
        ("1 qid:1 1:0x10", ["feature value " + NUMBER]),
        ("1 qid:1 1:0x1p3", ["feature value " + NUMBER]),
        ("1 qid:1 1:1e", ["feature value " + NUMBER]),
        ("1 qid:1 1:1e5.0", ["feature value " + NUMBER]),
        ("1 qid:1 1:1.2.3", ["feature value " + NUMBER]),
        ("1 qid:1 1:1-2", ["feature value " + NUMBER]),
        ("1 qid:1 1:--2", ["feature value " + NUMBER]),
        ("1 qid:1 1:.", ["feature value " + NUMBER]),
        ("1 qid:1 1:-", ["feature value " + NUMBER]),
        ("1 qid:1 1:-.", ["feature value " + NUMBER]),
        ("1 qid:1 1:1,5", ["feature value " + NUMBER]),
        ("1 qid:1 1:1.00000000000000000x", ["feature value " + NUMBER]),
        ("1 qid:1 1:x1.00000001", ["feature value " + NUMBER]),
        ("1 qid:1 1:١", ["feature value " + NUMBER]),
        ("1 qid:1 1:null", ["feature value " + NUMBER, "'1:null'"]),
        ("1 qid:1 1:NULLS", ["feature value " + NUMBER]),
        ("1 qid:1 1:NULL0", ["feature value " + NUMBER]),
        ("1 qid:1 NULL:1", ["a feature has no index"]),
        ("1 qid:1 1:nan", ["feature value " + FINITE]),
        ("1 qid:1 1:-Infinity", ["feature value " + FINITE]),
        ("1 qid:1 1:inf", ["feature value " + FINITE]),
        ("1 qid:1 1:1e39", ["feature value " + LARGE]),
        ("1 qid:1 1:-3.4028236e38", ["feature value " + LARGE]),
        ("1 qid:1 1:1e999", ["feature value " + LARGE]),
        ("1 qid:1 1:" + "9" * 40, ["feature value " + LARGE]),
        ("x qid:1 1:1", ["label " + NUMBER, "'x'"]),
        ("1,0.5,q", ["label " + NUMBER, "'1,0.5,q'\nIf this is a table"]),
        ("1\t0.5\t3", ["the query is missing", "'0.5'\nIf this is a table"]),
        ("qid:1 1:1", ["label " + NUMBER, "'qid:1'"]),
        ("NULL qid:1 1:1", ["label " + NUMBER]),
        ("1_0 qid:1 1:1", ["label " + NUMBER]),
        ("nan qid:1 1:1", ["label " + FINITE]),
        ("inf qid:1 1:1", ["label " + FINITE]),
        ("1e40 qid:1 1:1", ["label " + LARGE]),
        ("-1 qid:1 1:1", ["label is negative, expected a number >= 0", "'-1'"]),
    ],
)  # fmt: skip
def test_wrong_lines(write, line, pieces):
    before = b"# title\n\n1 qid:1 1:1\n"
    path = write(before + line.encode() + b"\n1 qid:1 1:1\n")
    check_error(path, 4, *pieces)
    check_error(write(gzip.compress(before + line.encode())), 4, *pieces)


def test_text_that_is_not_utf8(write):
    check_error(write(b"1 qid:\xff 1:1"), 1, "the query is not text", "UTF-8", r"\xff")
    check_error(
        write(b"1 qid:1 1:1 #docid=\xff"), 1, "the document is not text", "UTF-8"
    )


def test_errors_of_two_lines_do_not_cancel_out(write):
    for text, piece in [
        (b"1 qid:1 1:2:3 2\n", "two colons"),
        (b"1 qid:1 1:2:3\n1 qid:1 1\n", "two colons"),
        (b"1 qid:1 1\n1 qid:1 1:2:3\n", "no colon"),
        (b"1 qid:1 1.5 2:3\n1 qid:1 1:.2.3\n", "no colon"),
        (b"1 1:2\n1 qid:1 qid:1 1:3\n", "the query is missing"),
        (b"1 qid:1 1:1.5-3\n1 qid:1 1:\n", "not a number"),
        (b"1 qid:1 1:1e5-3 2:+\n", "not a number"),
        (b"1 qid:1\n1:5 2:3\n", "not a number"),
        (b"junk 1 qid:1 1:2\n", "not a number"),
    ]:
        number = 2 if text.startswith(b"1 qid:1\n") else 1
        check_error(write(text), number, piece)


def test_index_above_num_features(write):
    text = b"1 qid:1 1:1\n" * 16 + b"0 qid:1 1:2 47:0.5\n"
    check_error(
        write(text),
        17,
        "feature index 47 is out of range, expected 1 to 46 (num_features=46). "
        "Found: '47:0.5'",
        num_features=46,
    )
    assert read_letor(write(text), num_features=47).features[16, 46] == 0.5
    assert read_letor(write(text)).num_features == 47


def test_refuses_arrays_that_are_too_large(write, monkeypatch):
    text = b"\n1 qid:1 1:1\n1 qid:1 2:1 999999:1\n1 qid:1 3:1\n"
    path = write(text)
    monkeypatch.setattr(reading, "_MAX_OUTPUT_BYTES", 1 << 20)
    check_error(path, 3, "3 lines of 999999 features need more", "index 999999")
    # Whoever says how wide it is means it.
    assert read_letor(path, num_features=1_000_000).features.shape == (3, 1_000_000)


def test_queries_must_be_contiguous(write, monkeypatch):
    path = write(b"\n1 qid:1 1:1\n0 qid:2 1:1\n0 qid:1 1:1\n")
    pieces = "query '1' began earlier, at", "expected the lines of a query next to each"
    check_error(path, 4, f"{path}:2", *pieces)
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", 16)
    check_error(path, 4, f"{path}:2", *pieces)


def test_a_query_must_not_be_in_two_files(write):
    a, b = write(b"1 qid:1 1:1\n1 qid:2 1:1", "a"), write(b"# c\n1 qid:2 1:1\n", "b")
    for files, line in (([a, b], 2), ([b, a], 2), ([a, a], 1), ([b, b], 2)):
        with pytest.raises(DataFormatError) as info:
            read_letor(files)
        assert (info.value.path, info.value.line) == (files[1], line)
        assert "expected the lines of a query" in str(info.value)


@pytest.mark.parametrize("text", [b"", b"\n", b"\xef\xbb\xbf", b" \r\n# c\n", b"#"])
def test_files_without_data(write, text):
    good = write(GOOD, "good")
    for content in (text, gzip.compress(text)):
        path = write(content, "empty")
        check_error(path, None, "the file holds no data, expected `LABEL qid:NAME")
        with pytest.raises(DataFormatError, match="empty: the file holds no data"):
            read_letor([good, path])
