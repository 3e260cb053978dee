"""LETOR text of which lines may lack the label, read piece by piece."""

import dataclasses
import gzip
import random
import re

import numpy as np
import pytest

from tests.data.letor.good import GOOD
from tests.files import WIDTH, write_text
from tests.helpers import assert_same_lists
from tfr_ext.data import concatenate, iter_letor, read_letor, text_files
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.letor import arrays, diagnosis, reading

LABEL = re.compile(rb"(?m)^([ \t]*)[^ \t#\n]+[ \t]+(?=qid:)")


def without_labels(text, keep=0.0, seed=0):
    """Takes away the labels of lines, but for a share of them."""
    rng = random.Random(seed)
    return LABEL.sub(lambda m: m[0] if rng.random() < keep else m[1], text)


def unlabelled(path, num_features=WIDTH, **options):
    return concatenate(iter_letor(path, num_features, labelled=False, **options))


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("block", [7, 100, 1 << 20])
def test_all_but_the_labels_is_read(tmp_path, monkeypatch, block, seed, keep):
    """Whatever the size of what is read at once, and of a piece."""
    path = write_text(tmp_path / "a.txt", seed, named=seed % 2 == 0)
    expected = read_letor(path, WIDTH)
    zeros = np.zeros(expected.num_items, np.float32)
    expected = dataclasses.replace(expected, labels=zeros)
    monkeypatch.setattr(reading, "_PIECE_BYTES", block)
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", block + 9)
    text = without_labels((tmp_path / "a.txt").read_bytes(), keep, seed)
    for content in (text, gzip.compress(text)):
        (tmp_path / "b.txt").write_bytes(content)
        pieces = list(iter_letor(tmp_path / "b.txt", WIDTH, labelled=False))
        assert all(piece.num_lists for piece in pieces)
        assert len(pieces) == 1 or block < 1 << 20
        assert_same_lists(concatenate(pieces), expected)


@pytest.mark.parametrize("block", [7, 1 << 20])
def test_pieces_with_labels_joined_are_the_file(tmp_path, monkeypatch, block):
    path = write_text(tmp_path / "a.txt", 3)
    monkeypatch.setattr(reading, "_PIECE_BYTES", block)
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", block + 9)
    found = concatenate(iter_letor(path, WIDTH))
    assert_same_lists(found, read_letor(path, WIDTH))


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_the_fast_path_takes_lines_without_labels(keep):
    text = without_labels(GOOD * 9, keep)
    slow = diagnosis.parse_slowly(text, "", 1, None, 0.0, labelled=False)
    fast = arrays.parse_fast(text, 1, None, 0.0, labelled=False)
    for field in dataclasses.fields(slow):
        found, expected = getattr(fast, field.name), getattr(slow, field.name)
        np.testing.assert_array_equal(found, expected, err_msg=field.name)


@pytest.mark.parametrize("seed", range(400))
def test_fast_and_slow_agree_on_damaged_lines(seed):
    """What the fast path takes, the slow one reads the same: it refuses nothing."""
    rng = random.Random(seed)
    text = bytearray(without_labels(GOOD, 0.5, seed))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text))
        text[at : at + rng.randint(0, 2)] = rng.choice(
            [b" ", b"qid:", b" qid:1", b"\n", b"#", b"1", b":", b"-1 ", b"\t", b"x"]
        )
    text = bytes(text) + b"\n"
    fast = arrays.parse_fast(text, 1, None, 0.0, labelled=False)
    if fast is not None:
        slow = diagnosis.parse_slowly(text, "", 1, None, 0.0, labelled=False)
        assert list(fast.lines) == list(slow.lines)
        assert (fast.query_ids, fast.doc_ids) == (slow.query_ids, slow.doc_ids)
        np.testing.assert_array_equal(fast.index, slow.index)
        np.testing.assert_array_equal(fast.value, slow.value)
        assert not fast.labels.any() and not slow.labels.any()


@pytest.mark.parametrize("label", ["-1", "0", "3.5", "1e3", ""])
def test_any_number_may_stand_for_a_label(write, label):
    lists = unlabelled(write(f"{label} qid:7 1:2\n".encode()), 1)
    assert (lists.query_ids, lists.labels.tolist()) == (["7"], [0])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("1:2", "the query is missing, expected `qid:NAME` first, or after a label. "
         "Found: '1:2'"),
        ("1", "the query is missing, expected `qid:NAME` first, or after a label. "
         "Found: '1'"),
        ("x qid:1 1:2", "label is not a number, expected a decimal number. Found: 'x'"),
        ("nan qid:1 1:2",
         "label is not finite, expected a finite number. Found: 'nan'"),
        ("qid:1 qid:2 1:2", "a feature has no index, expected `INDEX:VALUE`. "
         "Found: 'qid:2'"),
        ("qid: 1:2", "the query is empty, expected `qid:NAME` without a blank. "
         "Found: 'qid:'"),
        ("qid:1 3:2", "feature index 3 is out of range, expected 1 to 2 "
         "(num_features=2). Found: '3:2'"),
        ("qid:1 1:nan", "feature value is not finite, expected a finite number. "
         "Found: '1:nan'"),
        ("qid:b 1:1\nqid:a 1:1", "query 'a' began earlier, at {path}:1, and other "
         "lines came between; expected the lines of a query next to each other in one "
         "file"),
    ],
)  # fmt: skip
def test_wrong_lines(write, line, told):
    path = write(f"qid:a 1:1\n{line}\n".encode())
    with pytest.raises(DataFormatError) as error:
        unlabelled(path, 2)
    where = 3 if "\n" in line else 2
    message = str(error.value).partition("\n")[0]
    assert message == f"{path}:{where}: {told.format(path=path)}"


@pytest.mark.parametrize(
    "content", [b"", b"# nothing\n\n", gzip.compress(b"", mtime=0)]
)
def test_empty_files(write, content):
    path = write(content)
    with pytest.raises(DataFormatError) as error:
        unlabelled(path)
    assert str(error.value) == (
        f"{path}: the file holds no data, expected `qid:NAME INDEX:VALUE ...`"
    )


def test_training_still_wants_labels(write):
    with pytest.raises(DataFormatError, match=":1: label is not a number"):
        read_letor(write(b"qid:7 1:2\n"))


def test_a_long_list_is_not_copied_with_every_chunk(tmp_path, monkeypatch):
    """Its pieces come when it ends: until then nothing can be taken away."""
    path = tmp_path / "a.txt"
    path.write_text("".join(f"qid:{q} 1:{i}\n" for q in "ab" for i in range(500)))
    monkeypatch.setattr(reading, "_PIECE_BYTES", 1)
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", 64)
    taken = []
    take = reading.ListsBuilder._take_whole
    monkeypatch.setattr(
        reading.ListsBuilder,
        "_take_whole",
        lambda self: taken.append(None) or take(self),
    )
    assert [p.query_ids for p in iter_letor(path, 1, labelled=False)] == [["a"], ["b"]]
    assert len(taken) == 1
