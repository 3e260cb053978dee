"""Tests of the ELWC writer: protobuf and TensorFlow Ranking read what it wrote."""

from __future__ import annotations

import dataclasses
import hashlib
import os

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_ranking as tfr
from tensorflow_serving.apis import input_pb2

from tests.helpers import make_lists
from tfr_ext import data
from tfr_ext.data.elwc import writing
from tfr_ext.data.elwc.writing import ShardWriter, encode

NAME = "train-00000-of-00001.tfrecord"


def with_grades(lists, num_grades, seed=0):
    shares = np.random.default_rng(seed).dirichlet(np.ones(num_grades), lists.num_items)
    return dataclasses.replace(lists, label_distributions=np.float32(shares))


def names(lists, lengths):
    return ["ä" * (n % 3) + "x" * n for n in np.resize(lengths, lists.num_items)]


def by_protobuf(lists):
    """The same messages through protobuf's own classes."""
    for q, query in enumerate(lists.query_ids):
        message = input_pb2.ExampleListWithContext()
        ids = message.context.features.feature["query_id"].bytes_list
        ids.value.append(query.encode())
        for i in range(lists.row_splits[q], lists.row_splits[q + 1]):
            feature = message.examples.add().features.feature
            feature["float_features"].float_list.value.extend(lists.features[i])
            feature["label"].float_list.value.append(lists.labels[i])
            if lists.label_distributions is not None:
                shares = lists.label_distributions[i]
                feature["label_distribution"].float_list.value.extend(shares)
            if lists.weights is not None:
                feature["weight"].float_list.value.append(lists.weights[i])
            if lists.doc_ids is not None:
                name = lists.doc_ids[i].encode()
                feature["doc_id"].bytes_list.value.append(name)
        yield message


@pytest.mark.parametrize("num_features", [1, 3, 31, 32, 136, 5000])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("num_grades", [None, 3])
def test_equals_protobuf(num_features, named, num_grades):
    """Sizes on both sides of each length that takes another byte, 127 and 16,383."""
    lists = make_lists([1, 4, 200], num_features=num_features)
    lists = dataclasses.replace(lists, query_ids=["1", "a" * 130, "Größe"])
    if named:
        lengths = [1, 2, 60, 118, 119, 120, 121, 127, 128, 300, 16_400]
        lists = dataclasses.replace(lists, doc_ids=names(lists, lengths))
    if num_grades:
        lists = with_grades(lists, num_grades)
        weights = np.arange(lists.num_items, dtype=np.float32) / 8
        lists = dataclasses.replace(lists, weights=weights)
    expected = list(by_protobuf(lists))
    written = list(encode(lists))
    assert [input_pb2.ExampleListWithContext.FromString(x) for x in written] == expected
    # Maps have no order, but there is one way to write everything else.
    assert [len(x) for x in written] == [m.ByteSize() for m in expected]


def test_tensorflow_ranking_reads_it(tmp_path):
    lists = make_lists([3, 1, 2], num_features=5, doc_ids=list("abcdef"))
    with ShardWriter(str(tmp_path), NAME) as writer:
        writer.write(lists.select([0, 1]))
        writer.write(lists.select([]))
        writer.write(lists.select([2]))
    records = list(tf.data.TFRecordDataset(str(tmp_path / NAME)))
    parsed = tfr.data.parse_from_example_list(
        records,
        context_feature_spec={"query_id": tf.io.FixedLenFeature([1], tf.string)},
        example_feature_spec={
            "float_features": tf.io.FixedLenFeature([5], tf.float32, [-9.0] * 5),
            "label": tf.io.FixedLenFeature([1], tf.float32, [-1.0]),
            "doc_id": tf.io.FixedLenFeature([1], tf.string, [""]),
        },
    )
    labels = parsed["label"].numpy()[..., 0]
    real = labels >= 0
    assert real.sum(axis=1).tolist() == [3, 1, 2]
    np.testing.assert_array_equal(labels[real], lists.labels)
    features = parsed["float_features"].numpy()[real]
    np.testing.assert_array_equal(features, lists.features)
    assert parsed["doc_id"].numpy()[..., 0][real].tolist() == [
        *map(str.encode, "abcdef")
    ]
    assert parsed["query_id"].numpy()[:, 0].tolist() == [b"q0", b"q1", b"q2"]


def test_the_record_says_what_the_file_holds(tmp_path):
    lists = make_lists([3, 2, 1], labels=[0, 0.1, 2, 0, 0, 2], num_features=4)
    with ShardWriter(str(tmp_path), NAME) as writer:
        writer.write(with_grades(lists, 3))
        assert writer.record is None and not (tmp_path / NAME).exists()
    content = (tmp_path / NAME).read_bytes()
    record = writer.record
    assert dataclasses.asdict(record.shard) == {
        "name": NAME,
        "queries": 3,
        "items": 6,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    assert record.labels == {"0": 3, "0.1": 1, "2": 2}
    assert (record.num_features, record.num_grades, record.max_label) == (4, 3, 2.0)
    assert (record.min_list_size, record.max_list_size) == (1, 3)
    assert record.empty_queries == 1
    assert os.listdir(tmp_path) == [NAME]


def test_many_labels_are_not_counted(tmp_path):
    labels = np.arange(writing.MAX_COUNTED_LABELS + 1)
    with ShardWriter(str(tmp_path), NAME) as writer:
        writer.write(make_lists([len(labels)], labels=labels))
    assert writer.record.labels == {} and writer.record.max_label == labels[-1]


def test_nothing_is_left_after_an_error(tmp_path):
    aside = tmp_path / "aside"
    aside.mkdir()
    with (
        pytest.raises(KeyError),
        ShardWriter(str(tmp_path), NAME, str(aside)) as writer,
    ):
        writer.write(make_lists([3]))
        assert len(os.listdir(aside)) == 1
        raise KeyError
    with pytest.raises(ValueError, match=f"{NAME}: there are no lists to write"):
        with ShardWriter(str(tmp_path), NAME, str(aside)):
            pass
    assert os.listdir(tmp_path) == ["aside"] and not os.listdir(aside)


def test_refuses_what_readers_would_refuse(tmp_path):
    lists = make_lists([2, 3])
    lists.features[2, 0] = np.nan  # Missing, which is fine.
    lists.features[3, 1] = np.inf
    with pytest.raises(
        ValueError, match="`float_features` of item 1 of query 'q1' is inf"
    ):
        list(encode(lists))
    lists = make_lists([2, 0, 3])
    with pytest.raises(ValueError, match="Query 'q1' has no items"):
        list(encode(lists))
    with pytest.raises(ValueError, match="4 features and None grades follow"):
        with ShardWriter(str(tmp_path), NAME) as writer:
            writer.write(make_lists([2], num_features=3))
            writer.write(make_lists([2], num_features=4))


@pytest.mark.parametrize(
    ("query", "doc", "told"),
    [("", "d", "'query_id' is ''"), ("q", "", "'doc_id' is ''")],
)
def test_names_that_no_reader_takes_are_refused(query, doc, told):
    lists = data.RankingLists(
        np.zeros([1, 2], np.float32),
        np.float32([1]),
        np.array([0, 1]),
        [query],
        [doc],
    )
    with pytest.raises(ValueError, match=told):
        list(writing.encode(lists))
