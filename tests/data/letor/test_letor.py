"""Tests of the LETOR reader: what it takes, from which files."""

from __future__ import annotations

import gzip
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf
from absl import logging
from sklearn.datasets import load_svmlight_file

from tests.data.damage import PACKERS
from tests.data.letor.good import GOOD, GOOD_FEATURES, assert_good
from tfr_ext.data import text_files
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.letor import reading
from tfr_ext.data.letor.reading import read_letor

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
    with pytest.raises(ValueError, match="`num_features` must be an integer >= 1.*0"):
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
    read_letor(write(GOOD))
    assert len(messages) == 2  # A value that stays missing replaces nothing.


@pytest.mark.parametrize("slowly", [False, True])
@pytest.mark.parametrize(
    ("line", "expected", "nulls"),
    [
        ("1:1 1:2", [2, 0, 0], 0),
        ("2:1 01:NULL 3:4 1:7 3:NULL", [7, 1, -5], 1),
        ("3:1 3:NULL 2:2 3:3 3:-4", [0, 2, -4], 0),
    ],
)
def test_the_last_value_of_an_index_counts(
    write, monkeypatch, line, expected, nulls, slowly
):
    """As in TensorFlow Ranking; also where the text is read slowly."""
    messages = []
    monkeypatch.setattr(
        logging, "warning", lambda text, *args: messages.append(text % args)
    )
    text = f"# c\n1 qid:1 3:8\n1 qid:1 {line}\n\n0 qid:1 1:1\n2 qid:2 {line}\n"
    paths = [write(text.encode(), "a"), write(text.replace("qid:", "qid:b").encode())]
    if slowly:
        monkeypatch.setattr(reading.arrays, "parse_fast", lambda *_: None)
    features = read_letor(paths, missing_value=-5).features
    rows = [[0, 0, 8], expected, [1, 0, 0], expected]
    np.testing.assert_array_equal(features, np.float32(rows * 2))
    for path, told in zip(paths, messages):
        assert told.startswith(f"{path}:3: this line, the first of 2, gives")
    assert (
        messages[2:] == [f"Replaced {4 * nulls} NULL values by -5 in {paths}."] * nulls
    )


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


@pytest.mark.parametrize("packer", PACKERS)
def test_packed_files_are_found_by_content(write, packer):
    pack = PACKERS[packer]
    assert_good(read_letor(write(pack(GOOD), "train.txt")))
    assert_good(read_letor(write(GOOD, "plain.gz")))
    cut = GOOD.index(b"\n") + 5
    for between in (b"", pack(b""), b"\0" * 8):
        members = pack(GOOD[:cut]) + between + pack(GOOD[cut:]) + b"\0" * 512
        assert_good(read_letor(write(members, "members.gz")))


@pytest.mark.parametrize("packer", PACKERS)
def test_broken_packed_files_are_an_error(write, packer):
    packed = PACKERS[packer](GOOD * 1)
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    second = bytearray(packed)
    second[2] ^= 1
    for broken in (packed[:-1], packed[:-9], packed[:40], bytes(flipped), packed[:10],
                   packed[:-8] + b"\0" * 4 + packed[-4:], packed + b"junk",
                   packed + second, packed + packed[:3]):  # fmt: skip
        with pytest.raises(DataFormatError) as info:
            read_letor(write(broken, "broken.txt"))
        assert info.value.path.endswith("broken.txt")
        assert f"broken.txt: expected a whole {packer} file" in str(info.value)


@pytest.mark.parametrize(
    ("packer", "begin"), [("zip", b"PK\3\4"), ("zstd", b"\x28\xb5\x2f\xfd")]
)
def test_other_packed_files_are_to_be_unpacked(write, packer, begin):
    with pytest.raises(DataFormatError, match=f"a {packer} file; unpack it first"):
        read_letor(write(begin + bytes(40)))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 64, 65, 200])
@pytest.mark.parametrize("pack", [bytes, *PACKERS.values()])
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
