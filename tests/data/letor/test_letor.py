"""Tests of the LETOR reader."""

from __future__ import annotations

import gzip
import pathlib
import pickle
import random
import re

import numpy as np
import pytest
import tensorflow as tf
from absl import logging
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from tfr_ext.data import text_files
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.letor import arrays, diagnosis, reading
from tfr_ext.data.letor.reading import read_letor

GOOD = b"""2 qid:10 1:0.5 2:0 3:-1.25 #docid = GX-1 inc = 1 prob = 0.1
0 qid:10 1:1 2:2 3:3 #docid = GX-2 inc = 1 prob = 0.2
1 qid:11 1:0.1 2:0.2 3:0.3 #docid = GX-3 inc = 1 prob = 0.3
"""
GOOD_FEATURES = np.float32([[0.5, 0, -1.25], [1, 2, 3], [0.1, 0.2, 0.3]])


@pytest.fixture
def write(tmp_path):
    """Returns a function that writes bytes to a file and returns its path."""

    def write_file(content: bytes, name: str = "train.txt") -> str:
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write_file


def assert_good(lists, doc_ids=("GX-1", "GX-2", "GX-3")):
    np.testing.assert_array_equal(lists.features, GOOD_FEATURES)
    assert lists.features.dtype == np.float32
    assert lists.labels.tolist() == [2, 0, 1]
    assert lists.labels.dtype == np.float32
    assert lists.row_splits.tolist() == [0, 2, 3]
    assert lists.row_splits.dtype == np.int64
    assert lists.query_ids == ["10", "11"]
    assert lists.doc_ids == (None if doc_ids is None else list(doc_ids))


# What is accepted.


def test_reads_features_labels_queries_and_documents(write):
    assert_good(read_letor(write(GOOD)))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.replace(b"\n", b"\r\n").rstrip(b"\n"),
        lambda text: text.replace(b" ", b"\t"),
        lambda text: text.replace(b" ", b"   "),
        lambda text: text.replace(b" ", b" \t "),
        lambda text: text.replace(b"#", b" \t #"),
        lambda text: text.replace(b" #", b"#"),
        lambda text: text.replace(b"\n", b"\n\n \t\n"),
        lambda text: b" " + text.replace(b"\n", b"\n\t "),
        lambda text: text.rstrip(b"\n"),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: b"# A title: 1 qid:2 3:4\n" + text + b"  # The end.",
        lambda text: b"\xef\xbb\xbf# A title\r\n\r\n" + text,
        lambda text: text.replace(b"1:1 2:2 3:3", b"3:3 1:1 2:2"),
        lambda text: text.replace(b"2:0 ", b""),
        lambda text: text.replace(b" 3:3", b" 0000000003:+3"),
        lambda text: text.replace(b"#docid = ", b"# DocID="),
        lambda text: text.replace(b"0.5", b".5").replace(b"1:1", b"1:1."),
        lambda text: text.replace(b"2 qid", b"2.0 qid").replace(b"\n0 ", b"\n-0e0 "),
        lambda text: text.replace(b"prob", b"\xff\x07\xc3\x28#"),
    ],
)
def test_accepts_variations(write, change):
    assert change(GOOD) != GOOD
    assert_good(read_letor(write(change(GOOD))))


def test_trailing_blanks_without_comments(write):
    text = re.sub(rb" *#.*", b" \t ", GOOD)
    assert_good(read_letor(write(text)), doc_ids=None)


def test_doc_ids_are_none_unless_every_line_has_one(write):
    for removed in (b"#docid = GX-2 inc = 1", b"docid = GX-2"):
        text = GOOD.replace(removed, b"# inc = 1")
        assert_good(read_letor(write(text)), doc_ids=None)
    # A comment on a line of its own does not stand in for a missing one.
    text = GOOD.replace(b"#docid = GX-2", b"#") + b"#docid = GX-4\n"
    assert_good(read_letor(write(text)), doc_ids=None)
    text = GOOD.replace(b"docid = GX-2", b"docid = ")
    assert read_letor(write(text)).doc_ids[1] == "inc"  # The next word is the name.
    text = GOOD.replace(b"docid = GX-2 inc = 1 prob = 0.2", b"docid = ")
    assert_good(read_letor(write(text)), doc_ids=None)


def test_doc_ids_of_several_files(write):
    first, second = write(GOOD, "a"), write(b"1 qid:12 1:1 #docid=x\n", "b")
    assert read_letor([first, second]).doc_ids == ["GX-1", "GX-2", "GX-3", "x"]
    third = write(b"1 qid:13 1:1\n", "c")
    assert read_letor([first, second, third]).doc_ids is None
    assert read_letor([third, first]).doc_ids is None


def test_query_ids_are_any_text(write):
    names = ["q:1.5", "a:b:c", "10", "010", "-1", "1e5", "Größe", "\u2028x", "qid:7"]
    text = "".join(f"1 qid:{name} 1:0.5 2:2\n1 qid:{name}\n" for name in names)
    lists = read_letor(write(text.encode()))
    assert lists.query_ids == names
    assert lists.lengths.tolist() == [2] * len(names)
    assert lists.features.tolist() == [[0.5, 2], [0, 0]] * len(names)


def test_lines_without_features(write):
    lists = read_letor(write(b"1 qid:1\n0 qid:1 # c\n2 qid:2 \n"))
    assert lists.features.shape == (3, 0)
    assert lists.labels.tolist() == [1, 0, 2]
    assert read_letor(write(b"1 qid:1\n"), num_features=4).features.tolist() == [
        [0] * 4
    ]


def test_num_features(write):
    wide = read_letor(write(GOOD), num_features=5).features
    np.testing.assert_array_equal(wide[:, :3], GOOD_FEATURES)
    assert wide.shape == (3, 5) and not wide[:, 3:].any()
    # Without it, the largest index of all files counts, wherever it is.
    files = [write(GOOD, "a"), write(b"1 qid:5 7:1\n", "b"), write(b"1 qid:6 2:1", "c")]
    features = read_letor(files).features
    assert features.shape == (5, 7)
    np.testing.assert_array_equal(features[:3, :3], GOOD_FEATURES)
    assert features[3].tolist() == [0] * 6 + [1]
    assert features[4].tolist() == [0, 1] + [0] * 5
    with pytest.raises(ValueError, match="`num_features` must be at least 1.*0"):
        read_letor(files, num_features=0)


def test_null_becomes_missing_value(write, monkeypatch):
    messages = []
    monkeypatch.setattr(
        logging, "warning", lambda text, *args: messages.append(text % args)
    )
    path = write(b"1 qid:1 1:NULL 2:3 3:NULL\n0 qid:1 1:1 2:NULL 3:2\n")
    expected = np.float32([[0, 3, 0], [1, 0, 2]])
    np.testing.assert_array_equal(read_letor(path).features, expected)
    assert "Replaced 3 NULL values by 0.0" in messages[0]
    expected = np.float32([[-1.5, 3, -1.5], [1, -1.5, 2]])
    np.testing.assert_array_equal(read_letor(path, None, -1.5).features, expected)
    assert "by -1.5" in messages[1]
    found = read_letor(path, missing_value=float("nan")).features
    assert np.isnan(found).sum() == 3
    assert len(messages) == 3
    read_letor(write(GOOD))
    assert len(messages) == 3


# Files.


def test_globs_lists_and_commas(write, tmp_path):
    names = ["b.txt", "a.txt", "c.txt"]
    b, a, c = (write(b"1 qid:%s 1:1\n" % x[:1].encode(), x) for x in names)
    pattern = str(tmp_path / "*.txt")
    assert read_letor(pattern).query_ids == ["a", "b", "c"]
    assert read_letor([b, a]).query_ids == ["b", "a"]
    assert read_letor(f"{c}, {a}").query_ids == ["c", "a"]
    assert read_letor([c, str(tmp_path / "[ab].txt")]).query_ids == ["c", "a", "b"]
    assert read_letor(pathlib.Path(b)).query_ids == ["b"]
    assert read_letor(pathlib.Path(p) for p in (c, b)).query_ids == ["c", "b"]
    assert read_letor(write(b"1 qid:d 1:1\n", "x[1].txt")).query_ids == ["d"]


def test_reads_from_other_file_systems():
    for name, content in (("b", b"1 qid:b 1:1\n"), ("a", b"1 qid:a 1:1\n")):
        with tf.io.gfile.GFile(f"ram://letor/{name}.txt", "wb") as file:
            file.write(gzip.compress(content) if name == "a" else content)
    assert read_letor("ram://letor/*.txt").query_ids == ["a", "b"]
    assert read_letor("ram://letor/b.txt").query_ids == ["b"]


def test_missing_files_are_named(write, tmp_path):
    good = write(GOOD)
    for pattern in ("none.txt", "*.csv", "no/dir/*.txt"):
        with pytest.raises(FileNotFoundError, match=re.escape(pattern)):
            read_letor([good, str(tmp_path / pattern)])
    with pytest.raises(FileNotFoundError, match="''"):
        read_letor(good + ",")
    with pytest.raises(FileNotFoundError, match="Expected a path"):
        read_letor([])


def test_gzip_is_found_by_content(write):
    packed = gzip.compress(GOOD)
    assert_good(read_letor(write(packed, "train.txt")))
    assert_good(read_letor(write(GOOD, "plain.gz")))
    cut = GOOD.index(b"\n") + 5
    members = gzip.compress(GOOD[:cut]) + gzip.compress(GOOD[cut:])
    assert_good(read_letor(write(members, "members.gz")))


def test_broken_gzip_is_an_error(write):
    packed = gzip.compress(GOOD * 1, mtime=0)
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    checksum = packed[:-8] + b"\0" * 4 + packed[-4:]
    for broken in (packed[:-1], packed[:-9], packed[:40], bytes(flipped), checksum,
                   packed + b"junk", packed[:5]):  # fmt: skip
        with pytest.raises(DataFormatError, match="expected a whole gzip file") as info:
            read_letor(write(broken, "broken.txt"))
        assert info.value.path.endswith("broken.txt")
        assert "broken.txt: " in str(info.value)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 64, 65, 200])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_chunk_boundaries(write, monkeypatch, size, pack):
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", size)
    assert_good(read_letor(write(pack(GOOD))))
    text = b"\xef\xbb\xbf# c\r\n\r\n" + GOOD.replace(b"\n", b"\r\n")[:-2]
    assert_good(read_letor(write(pack(text))))
    # Line numbers count from the start of the file, widths from the widest chunk.
    path = write(pack(text + b"\r\n1 qid:12 5:1\n0 qid:12 5:x"))
    with pytest.raises(DataFormatError, match=r"train.txt:7: .*'5:x'"):
        read_letor(path)
    lists = read_letor(write(pack(text + b"\r\n1 qid:11 5:1\n0 qid:12 5:3")))
    assert lists.row_splits.tolist() == [0, 2, 4, 5]
    assert lists.doc_ids is None
    np.testing.assert_array_equal(lists.features[:3, :3], GOOD_FEATURES)
    assert lists.features[3:].tolist() == [[0, 0, 0, 0, 1], [0, 0, 0, 0, 3]]


# Errors.


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
        ("1 qid:1 0:3", ["index 0 " + RANGE, "`num_features` is None", "'0:3'"]),
        ("1 qid:1 -1:3", ["feature index -1 " + RANGE]),
        ("1 qid:1 -0:3", ["feature index -0 " + RANGE]),
        ("1 qid:1 1000001:3", ["feature index 1000001 " + RANGE]),
        ("1 qid:1 1000000000000:3", ["feature index 1000000000000 " + RANGE]),
        ("1 qid:1 18446744073709551617:3", ["index 18446744073709551617 " + RANGE]),
        ("1 qid:1 " + "9" * 5000 + ":3", ["feature index 9999", RANGE, "9...'"]),
        ("1 qid:1 1:3 1:3", ["feature index 1 is repeated, expected each", "'1:3'"]),
        ("1 qid:1 3:1 7:2 3:4 8:1", ["feature index 3 is repeated", "'3:4'"]),
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
    pieces = "query '1' began before, at", "expected the lines of a query next to each"
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


# Numbers and agreement.


def random_numbers(count):
    rng = random.Random(0)
    formats = ["%.0f", "%.1f", "%.6f", "%.8f", "%.9f", "%.16g", "%.17g", "%e", "%r"]
    for _ in range(count):
        scale = 10.0 ** rng.randint(-8, 8)
        yield rng.choice(formats) % (rng.uniform(-1, 1) * scale)
        digits = "".join(rng.choices("0123456789", k=rng.randint(1, 24)))
        dot = rng.randint(0, len(digits))
        yield rng.choice(["", "-", "+"]) + digits[:dot] + "." + digits[dot:]
        yield f"{rng.randint(0, 10**9)}e{rng.randint(-60, 28):+d}"
        yield f"{rng.randint(0, 999) / 10}E{rng.randint(-120, 35)}"  # As Java does.
        yield f"-{rng.random()}e{rng.randint(-60, 37):+04d}"  # As Windows did.
    yield from "0 -0 -0.0 0. .5 -.5 +.5e-3 5.E+3 00001 -00.10".split()
    yield from "0e9999 1e-9999 123456789012345678901234e-30 0000000000000.1".split()
    yield from "1e-400 1e-45 7e-46 7.1e-46 1.1754943e-38".split()
    yield from "16777217 9007199254740993 99999999.99999999 3.4028235e38".split()
    # Halfway between two float32, and beside it, is where a small error shows.
    low = np.float32(
        [rng.uniform(0, 9) * 10.0 ** rng.randint(-44, 36) for _ in "x" * 99]
    )
    middle = (low.astype(float) + np.nextafter(low, np.float32(np.inf))) / 2
    for number in (*middle, *np.nextafter(middle, 0), *np.nextafter(middle, np.inf)):
        yield from (f % number for f in ("%.16e", "%.17g", "%.20e", "%.24g", "%.40f"))


def test_values_are_what_float32_of_float_is(write):
    tokens = list(random_numbers(4000))
    expected = np.array([float(token) for token in tokens]).astype(np.float32)
    text = "".join(f"1 qid:1 1:{token}\n" for token in tokens).encode()
    assert arrays.parse_fast(text, 1, None, 0.0) is not None
    slow = diagnosis.parse_slowly(text, "", 1, None, 0.0).value
    for found in (read_letor(write(text)).features[:, 0], slow):
        np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


def test_labels_are_what_float32_of_float_is(write):
    tokens = [token for token in random_numbers(300) if float(token) > 0]
    tokens = [token for token in tokens if float(token) < 3e38]
    text = "".join(f"{token} qid:1 1:1\n" for token in tokens).encode()
    expected = np.array([float(token) for token in tokens]).astype(np.float32)
    np.testing.assert_array_equal(read_letor(write(text)).labels, expected)


@pytest.mark.parametrize("density", [0.02, 0.5, 1.0])
@pytest.mark.parametrize("chunk_bytes", [1000, 1 << 19])
def test_equals_sklearn(tmp_path, monkeypatch, density, chunk_bytes):
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", chunk_bytes)
    rng = np.random.default_rng(1)
    x = rng.normal(size=[300, 40]) * 10.0 ** rng.integers(-9, 9, [300, 40])
    x[rng.random(x.shape) >= density] = 0
    y, qid = rng.integers(0, 5, 300), np.repeat(np.arange(30), 10)
    path = str(tmp_path / "data.txt")
    dump_svmlight_file(x, y, path, query_id=qid, zero_based=False)
    theirs, labels, queries = load_svmlight_file(
        path, query_id=True, n_features=40, zero_based=False
    )
    lists = read_letor(path, num_features=40)
    dense = theirs.toarray().astype(np.float32)
    np.testing.assert_array_equal(lists.features, dense)
    np.testing.assert_array_equal(lists.labels, labels)
    found = np.repeat([int(name) for name in lists.query_ids], lists.lengths)
    np.testing.assert_array_equal(found, queries)


SEEDS = [
    GOOD,
    GOOD.replace(b"\n", b"\r\n").replace(b" ", b"  "),
    re.sub(rb"#.*", b"", GOOD),
    b"1 qid:7 3:1e-5 9:NULL 12:0.123456789012\n# c\n\n0.5 qid:a:b.c\t1:-7.25 \n2 qid:9",
    b"0 qid:1 1:0.000000 2:12345678.12345678 3:99999999 4:123456789\n" * 2,
    b"3 qid:1 1:-1.5E-4 2:+1e5 3:12.123456789012e-005 4:1E7 5:.5e+01\n" * 2,
]
BITS = [
    *(bytes([x]) for x in b"0123456789:.-+eE#\t\n\r \x00\x0b\x7f\xff_xN,"),
    *(b"qid:", b"NULL", b" 1:2", b"1:", b":2", b" qid:3", b"1e400", b"#docid=x", b"  "),
    *(b"nan", b"inf", b"0x1", b"1e", b"00000000", b"\r\n", b"1 qid:5 1:1\n"),
]


def read_both(text, num_features):
    """Reads text with both parsers, which must agree; returns whether the fast did."""
    fast = arrays.parse_fast(text, 5, num_features, -9.0)
    try:
        slow = diagnosis.parse_slowly(text, "f", 5, num_features, -9.0)
    except DataFormatError as error:
        assert fast is None, (text, error)
        assert error.line is not None and "expected" in str(error)
        return False
    if fast is None:
        return False
    for name in ("labels", "counts", "index", "value"):
        ours, theirs = getattr(fast, name), getattr(slow, name)
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_array_equal(ours, theirs, err_msg=repr(text))
        assert ours.tobytes() == theirs.tobytes()
    assert list(fast.lines) == slow.lines
    assert fast.query_ids == slow.query_ids
    assert fast.num_null == slow.num_null
    assert (fast.doc_ids or None) == (slow.doc_ids or None)
    return True


def test_fast_and_slow_reading_agree_on_mutations():
    rng = random.Random(7)
    accepted = 0
    for _ in range(6000):
        text = rng.choice(SEEDS)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            at = rng.randrange(len(text))
            cut = rng.choice([0, 0, 1, 1, 2, 5])
            text = text[:at] + rng.choice([*BITS, b""]) + text[at + cut :]
        text = text if text.endswith(b"\n") else text + b"\n"
        accepted += read_both(text, rng.choice([None, 12]))
    assert 1000 < accepted < 5000  # Both outcomes were put to the test.


def test_fast_reading_takes_good_text():
    # Else speed would be lost without a word.
    for text in SEEDS:
        assert read_both(text.rstrip(b"\n") + b"\n", None)


# Real data.


def sizes(lists):
    return lists.num_lists, lists.num_items, lists.num_features


def test_mq2008(real_data):
    lists = read_letor(real_data / "MQ2008/Fold*/test.txt")
    assert sizes(lists) == (784, 15211, 46)
    counts = dict(
        zip(*(x.tolist() for x in np.unique(lists.labels, return_counts=True)))
    )
    assert counts == {0: 12279, 1: 2001, 2: 931}
    assert len(lists.doc_ids) == 15211
    assert all(name.startswith("GX") for name in lists.doc_ids)
    assert lists.features.min() == 0 and lists.features.max() == 1


def test_ohsumed(real_data):
    lists = read_letor(real_data / "OHSUMED/QueryLevelNorm/Fold*/test.txt")
    assert sizes(lists) == (106, 16140, 45)
    assert all(name.isdigit() for name in lists.doc_ids)


def test_mslr_sample(real_data):
    path = real_data / "mslr35.txt"
    lists = read_letor(path)
    assert sizes(lists) == (35, 3393, 136)
    assert lists.doc_ids is None
    theirs = load_svmlight_file(str(path), query_id=True, zero_based=False)[0]
    np.testing.assert_array_equal(lists.features, theirs.toarray().astype(np.float32))


def test_ohsumed_null(real_data):
    path = real_data / "ohsumed_null.txt"
    lists = read_letor(path, missing_value=float("nan"))
    assert sizes(lists) == (21, 3076, 45)
    nulls = path.read_bytes().count(b":NULL")
    assert nulls > 0 and np.isnan(lists.features).sum() == nulls
    filled = read_letor(path).features
    np.testing.assert_array_equal(filled, np.nan_to_num(lists.features, nan=0.0))
