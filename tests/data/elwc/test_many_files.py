"""ELWC files that are read together: which is damaged, and what comes before."""

import gzip

import numpy as np
import pytest

from tests.elwc_files import elwc, protos, write
from tests.helpers import assert_same_lists, make_lists
from tfr_ext import data
from tfr_ext.data.elwc import parsing, tfrecords

PER_FILE = 3


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Seven files of three lists, of which two are read together."""
    monkeypatch.setattr(tfrecords, "_FILES_AT_ONCE", 2)
    lists = make_lists([2, 1, 4] * 7)
    paths = [
        write(tmp_path / f"{k}", protos(lists.select(range(3 * k, 3 * k + 3))))
        for k in range(7)
    ]
    return lists, paths


@pytest.mark.parametrize("lists_per_piece", [1, 2, 3, 100])
def test_all_are_read_in_order(files, lists_per_piece):
    lists, paths = files
    with open(paths[4], "rb") as file:
        content = file.read()
    with open(paths[4], "wb") as file:
        file.write(gzip.compress(content))
    pieces = list(data.iter_elwc(paths, lists_per_piece=lists_per_piece))
    assert_same_lists(data.concatenate(pieces), lists)
    assert len(pieces) == 7 * -(-PER_FILE // lists_per_piece)


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("damage", ["cut", "cut in a head", "flipped", "empty", "gone"])
def test_a_damaged_one_is_named_after_all_before_it(files, place, damage, tmp_path):
    lists, paths = files
    path = tmp_path / str(place)
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
        with pytest.raises(FileNotFoundError, match=str(path)):
            list(data.iter_elwc(paths))
        return
    if damage == "cut":
        content = content[:-1]
    elif damage == "cut in a head":
        content += b"123"
    elif damage == "flipped":
        content[-20] ^= 1
    else:
        content.clear()
    path.write_bytes(content)
    found = []
    with pytest.raises(data.DataFormatError) as error:
        for piece in data.iter_elwc(paths, lists_per_piece=1):
            found += piece.query_ids
    record = {"cut": "record 3", "cut in a head": "record 4", "flipped": "record 3"}
    assert str(error.value).startswith(str(path))
    assert record.get(damage, "no records") in str(error.value)
    whole = PER_FILE * place + int(record.get(damage, "record 1")[-1]) - 1
    assert found == list(lists.query_ids[:whole])


def test_a_gzipped_file_of_two_parts_is_read_whole_or_refused(files):
    """Two `gzip` files, one after the other, are one to `gzip`."""
    lists, paths = files
    with open(paths[6], "rb") as file:
        content = file.read()
    first = 16 + int.from_bytes(content[:8], "little")
    with open(paths[6], "wb") as file:
        file.write(gzip.compress(content[:first]) + gzip.compress(content[first:]))
    try:
        found = data.concatenate(data.iter_elwc(paths, lists_per_piece=1))
    except data.DataFormatError as error:
        assert str(error).startswith(f"{paths[6]}: record 2: expected a whole TFRecord")
    else:
        assert_same_lists(found, lists)


def test_a_file_that_became_shorter_is_refused(files, monkeypatch):
    """Between the look at its records and their reading."""
    _, paths = files
    survey = tfrecords._survey

    def longer(path, *args, **most):
        lengths, size, problem = survey(path, *args, **most)
        if path == paths[6]:
            lengths, size = [*lengths, 84], size + 100
        return lengths, size, problem

    monkeypatch.setattr(tfrecords, "_survey", longer)
    with pytest.raises(data.DataFormatError, match=f"{paths[6]}: record 4: expected"):
        list(data.iter_elwc(paths, lists_per_piece=1))


@pytest.fixture
def chosen(monkeypatch):
    """Which of the two graphs were asked for."""
    asked, graph = [], parsing.Parser.graph

    def kept(parser, with_padding):
        asked.append(with_padding)
        return graph(parser, with_padding)

    monkeypatch.setattr(parsing.Parser, "graph", kept)
    return asked


@pytest.mark.parametrize(
    "lengths, most_bytes, with_padding",
    [
        ([3, 4, 3, 5], 1 << 24, True),
        ([1, 1, 1, 60], 1 << 24, False),
        ([3, 4, 3, 5], 1000, False),
    ],
)
def test_lists_are_padded_if_they_are_about_as_long(
    chosen, tmp_path, monkeypatch, lengths, most_bytes, with_padding
):
    monkeypatch.setattr(tfrecords, "_MOST_PADDED_BYTES", most_bytes)
    lists = make_lists(lengths)
    path = write(tmp_path / "shard", protos(lists))
    found = data.concatenate(data.iter_elwc(path, lists_per_piece=100))
    assert_same_lists(found, lists)
    assert chosen == [with_padding]


@pytest.mark.parametrize("lengths", [[2, 3, 2], [1, 1, 30]], ids=str)
@pytest.mark.parametrize(
    "kind, values",
    [("integers", [5, -(2**63)]), ("floats", [0.5, 3e38]), ("floats", [0.5, -1.5])],
)
def test_a_feature_that_an_example_lacks_is_no_number(
    chosen, tmp_path, lengths, kind, values
):
    """Also where padding stands for one that all examples lack."""
    one = 1 if kind == "integers" else 1.0
    records = [
        elwc(
            [{"float_features": values, "label": [one]} for _ in range(length)],
            query_id=[b"%d" % q],
        )
        for q, length in enumerate(lengths)
    ]
    path = write(tmp_path / "shard", records)
    found = data.concatenate(data.iter_elwc(path, lists_per_piece=100))
    assert found.lengths.tolist() == lengths and (found.labels == 1).all()
    assert found.features.astype("float64").tolist() == [
        pytest.approx(values, rel=1e-6)
    ] * sum(lengths)
    del records[2].examples[1].features.feature["float_features"]
    write(path, records)
    part = data.concatenate(data.iter_elwc(path, lists_per_piece=100))
    at = sum(lengths[:2]) + 1
    assert part.features[at].tolist() == [0, 0]
    kept = np.arange(sum(lengths)) != at
    np.testing.assert_array_equal(part.features[kept], found.features[kept])
    del records[2].examples[1].features.feature["label"]
    write(path, records)
    with pytest.raises(data.DataFormatError, match="record 3, example 2.* no 'label'"):
        list(data.iter_elwc(path, lists_per_piece=100))
    assert len(chosen) > 1
