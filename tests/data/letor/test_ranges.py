"""Tests of byte ranges: joined, they are what `read_letor` reads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.damage import PACKERS
from tests.files import WIDTH, write_text
from tests.helpers import assert_same_lists
from tfr_ext.data import concatenate, read_letor, text_files
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.letor import byte_ranges, reading
from tfr_ext.data.letor.byte_ranges import (
    TextRange,
    read_range,
    split_file,
    survey_range,
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("block", [7, 100, 1 << 20])
def test_ranges_joined_are_the_file(tmp_path, monkeypatch, seed, block):
    """Whatever the size of a range, of what is read at once, and of a piece."""
    path = write_text(tmp_path / "a.txt", seed, named=seed % 2 == 0)
    expected = read_letor(path, WIDTH)
    monkeypatch.setattr(byte_ranges, "_BLOCK_BYTES", block)
    monkeypatch.setattr(reading, "_PIECE_BYTES", block)
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", block + 9)
    found_counts = set()
    for size in (1, 50, 200, 1000, 5000, 10**6):
        ranges = split_file(path, size)
        found_counts.add(len(ranges))
        assert [r.start for r in ranges[1:]] == [r.end for r in ranges[:-1]]
        pieces = [list(read_range(r, WIDTH)) for r in ranges]
        assert all(piece.num_lists for part in pieces for piece in part)
        assert_same_lists(concatenate(sum(pieces, [])), expected)
        surveys = [survey_range(r) for r in ranges]
        assert [s.queries for s in surveys] == [
            sum(piece.num_lists for piece in part) for part in pieces
        ]
        assert max(s.num_features for s in surveys) == WIDTH
        assert all(s.has_doc_ids == (seed % 2 == 0) for s in surveys)
    # Size 1 cuts at every query that it can: all but those right after a cut.
    assert max(found_counts) >= expected.num_lists // 2 and 1 in found_counts


def test_pieces_do_not_share_memory_with_those_that_follow(tmp_path, monkeypatch):
    path = write_text(tmp_path / "a.txt", 0)
    monkeypatch.setattr(reading, "_PIECE_BYTES", 1)
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", 40)
    pieces = read_range(TextRange(path), WIDTH)
    first = next(pieces)
    kept = first.features.copy()
    assert len(list(pieces)) > 5
    np.testing.assert_array_equal(first.features, kept)


@pytest.mark.parametrize("packer", PACKERS)
def test_a_packed_file_is_one_range(packer, tmp_path):
    path = write_text(tmp_path / "a.txt", 1)
    packed = tmp_path / "packed"
    packed.write_bytes(PACKERS[packer]((tmp_path / "a.txt").read_bytes()))
    ranges = split_file(str(packed), 10)
    assert ranges == [TextRange(str(packed))]
    found = concatenate(read_range(ranges[0], WIDTH))
    assert_same_lists(found, read_letor(path, WIDTH))


@pytest.mark.parametrize("read", [lambda r: list(read_range(r, WIDTH)), survey_range])
def test_an_error_names_the_line_of_the_file(tmp_path, read):
    path = write_text(tmp_path / "a.txt", 2)
    lines = (tmp_path / "a.txt").read_bytes().split(b"\n")
    data_lines = [i for i, line in enumerate(lines) if b"#docid" in line]
    wrong = data_lines[len(data_lines) * 2 // 3]
    lines[wrong] = lines[wrong].replace(b"qid:", b"kid:")
    (tmp_path / "a.txt").write_bytes(b"\n".join(lines))
    ranges = split_file(path, 600)
    failed = []
    for part in ranges:
        try:
            read(part)
        except DataFormatError as error:
            failed.append((part, error))
    ((part, error),) = failed
    assert part.start > 0 and part.end is not None and len(ranges) > 4
    assert (error.path, error.line) == (path, wrong + 1)


def test_queries_in_two_places(tmp_path):
    path = tmp_path / "a.txt"
    text = "".join(f"1 qid:{q} 1:1\n" for q in "abcdefghcij")
    path.write_text(text)
    (whole,) = split_file(str(path), 10**6)
    with pytest.raises(
        DataFormatError, match="'c' began earlier, at .*a.txt:3, "
    ) as info:
        list(read_range(whole, 1))
    assert info.value.line == 9
    # In one range that is not the first: both lines are those of the file.
    tail = TextRange(str(path), 2 * len("1 qid:a 1:1\n"))
    with pytest.raises(
        DataFormatError, match="'c' began earlier, at .*a.txt:3, "
    ) as info:
        list(read_range(tail, 1))
    assert info.value.line == 9
    # In two ranges no reader can see it, but both places can be found.
    ranges = split_file(str(path), 40)
    places = []
    for part in ranges:
        (lists,) = read_range(part, 1)
        if "c" in lists.query_ids:
            places.append(byte_ranges.find_query(part, "c"))
    assert places == [f"{path}:3", f"{path}:9"]


def test_null_values_are_told(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("1 qid:a 1:NULL 2:1\n0 qid:a 1:NULL\n")
    messages = []
    monkeypatch.setattr(
        reading.logging,
        "warning",
        lambda text, *args: messages.append(text % args),
    )
    (lists,) = read_range(TextRange(str(path)), 2, missing_value=-1)
    assert lists.features.tolist() == [[-1, 1], [-1, 0]]
    assert messages == [f"Replaced 2 NULL values by -1 in {path}."]


def test_lines_that_give_an_index_twice_are_told_by_their_place(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("# c\n1 qid:a 1:1\n1 qid:b 1:1\n\n1 qid:b 1:1 1:2\n1 qid:c 1:1 1:3")
    messages = []
    monkeypatch.setattr(
        reading.logging, "warning", lambda text, *args: messages.append(text % args)
    )
    start = path.read_text().index("1 qid:b")
    (lists,) = read_range(TextRange(str(path), start), 2)
    assert lists.features.tolist() == [[1, 0], [2, 0], [3, 0]]
    (told,) = messages
    assert told.startswith(f"{path}:5: this line, the first of 2, gives")


def test_wrong_arguments(tmp_path):
    with pytest.raises(ValueError, match="`range_bytes` must be an integer >= 1.*0"):
        split_file(str(tmp_path), 0)
    path = tmp_path / "empty.txt"
    path.write_text("# nothing\n\n")
    (part,) = split_file(str(path), 3)
    with pytest.raises(DataFormatError, match="empty.txt: the file holds no data"):
        list(read_range(part, 3))


def test_a_line_longer_than_what_is_read_at_once(tmp_path):
    path = tmp_path / "long.txt"
    tail = b"0 qid:2 1:1\n1 qid:3 1:1\n"
    path.write_bytes(b"0 qid:1 1:1 # " + b"x" * (5 << 20) + b"\n" + tail)
    ranges = split_file(str(path), 1 << 20)
    found = [[q for p in read_range(r, 1) for q in p.query_ids] for r in ranges]
    assert found == [["1", "2"], ["3"]]
