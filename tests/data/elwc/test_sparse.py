"""ELWC as TensorFlow Ranking writes it: what is 0 is left out of the protos."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_ranking as tfr
from absl import logging

from tests.elwc_files import elwc, put, write
from tests.helpers import assert_same_lists
from tfr_ext import data
from tfr_ext.data.elwc import diagnosis, parsing
from tfr_ext.sources import data_splits, elwc_source
from tfr_ext.training import DataConfig

NAMES = [f"custom_features_{i}" for i in range(1, 6)]
WIDE, AGE = "vector", "age"
LENGTHS = [3, 1, 7, 2, 5, 4]
SCHEMA = data.ElwcSchema([*NAMES, WIDE], [AGE], label="utility")


def sample(seed=0):
    """Lists as TensorFlow Ranking's numerical sample has them, and an integer."""
    rng = np.random.default_rng(seed)
    records = []
    for q, length in enumerate(LENGTHS):
        examples = []
        for _ in range(length):
            made = {n: [rng.normal()] for n in NAMES if rng.random() < 0.4}
            if NAMES[1] in made:
                made[NAMES[1]] = [int(rng.integers(-9, 9))]
            if rng.random() < 0.5:
                made[WIDE] = rng.normal(size=3).tolist()
            examples.append({**made, "utility": [float(rng.integers(5))]})
        records.append(elwc(examples, **({AGE: [float(q)]} if q % 2 else {})))
    return records


def features_of(records, missing):
    """What protobuf's own classes say, by plain loops."""
    rows = []
    for record in records:
        for example in record.examples:
            row = []
            for name, width in [*((n, 1) for n in NAMES), (WIDE, 3), (AGE, 1)]:
                feature = (record.context if name == AGE else example).features.feature
                values = [missing] * width
                if name in feature:
                    kind = feature[name].WhichOneof("kind")
                    values = list(getattr(feature[name], kind).value)
                row += values
            rows.append(row)
    return np.array(rows, np.float32)


@pytest.fixture
def warnings(monkeypatch):
    told = []
    monkeypatch.setattr(logging, "warning", lambda text, *x: told.append(text % x))
    return told


@pytest.fixture(params=["fast", "slow"])
def path_taken(request, monkeypatch):
    """Leaves only one of the two readers of a record."""
    if request.param == "slow":
        monkeypatch.setattr(parsing.Parser, "checked", lambda *args: None)
    else:
        monkeypatch.setattr(diagnosis, "parse_slowly", None)
    return request.param


def test_the_parser_of_tensorflow_ranking_says_the_same(tmp_path, path_taken, warnings):
    records = sample()
    lists = data.read_elwc(write(tmp_path / "a", records), schema=SCHEMA)
    kinds = {n: tf.int64 if n == NAMES[1] else tf.float32 for n in NAMES}
    parsed = tfr.data.parse_from_example_list(
        [record.SerializeToString() for record in records],
        context_feature_spec={AGE: tf.io.FixedLenFeature([1], tf.float32, [0.0])},
        example_feature_spec={
            **{n: tf.io.FixedLenFeature([1], kind, [0]) for n, kind in kinds.items()},
            WIDE: tf.io.FixedLenFeature([3], tf.float32, [0.0] * 3),
            "utility": tf.io.FixedLenFeature([1], tf.float32, [-1.0]),
        },
    )
    assert lists.lengths.tolist() == LENGTHS
    for q, length in enumerate(LENGTHS):
        mine = lists.select([q])
        theirs = [parsed[name][q, :length] for name in [*NAMES, WIDE]]
        theirs.append(np.repeat(parsed[AGE][q : q + 1], length, axis=0))
        np.testing.assert_array_equal(mine.features, np.concatenate(theirs, axis=1))
        np.testing.assert_array_equal(mine.labels, parsed["utility"][q, :length, 0])
    absent = int(np.isnan(features_of(records, np.nan)).sum())
    told = f"{absent} values of features were absent and are 0: {tmp_path}/a."
    assert told in warnings


@pytest.mark.parametrize("missing", [0.0, -1.5, np.nan])
@pytest.mark.parametrize("size", [None, 1, 2])
def test_absent_values_are_what_is_asked_for(
    tmp_path, path_taken, warnings, missing, size
):
    records = sample()
    path = write(tmp_path / "a", records)
    schema = dataclasses.replace(SCHEMA, missing_value=missing)
    pieces = data.iter_elwc(path, schema=schema, lists_per_piece=size)
    lists = data.concatenate(pieces)
    expected = features_of(records, missing)
    # To the bit, so that digests of what is read do not depend on the way it is read.
    np.testing.assert_array_equal(lists.features.view("u4"), expected.view("u4"))
    value = "missing" if np.isnan(missing) else f"{missing:g}"
    assert sum(f"absent and are {value}: {path}." in told for told in warnings) == 1
    streamed = data.StreamedLists([path], schema=schema)
    assert streamed.has_missing == lists.has_missing == np.isnan(missing)
    passes = np.concatenate([piece.features for piece in streamed])
    np.testing.assert_array_equal(passes.view("u4"), expected.view("u4"))


@pytest.mark.parametrize("kind", ["float", "integer"])
def test_a_number_that_stands_for_none_is_a_number(tmp_path, kind):
    """The fast reader marks absent numbers, which a file may have, too."""
    mark, other = (float(diagnosis.ABSENT), 1.0)
    if kind == "integer":
        mark, other = -(2**63), 1
    rows = [{"x": [other]}, {"x": [mark]}, {"y": [other]}, {"x": [other], "y": [other]}]
    records = [elwc([{**row, "label": [1.0]} for row in rows])]
    path = write(tmp_path / "a", records)
    if kind == "integer":
        lists = data.read_elwc(path, schema=data.ElwcSchema(["x", "y"]))
        assert lists.features[:, 0].tolist() == [1, -(2.0**63), 0, 1]
        return
    bits = records[0].SerializeToString()
    assert diagnosis.ABSENT.tobytes() in bits
    with pytest.raises(data.DataFormatError, match="example 2: value 1 of 'x' is nan"):
        data.read_elwc(path, schema=data.ElwcSchema(["x", "y"]))
    kept = data.ElwcSchema(["x", "y"], missing_value=np.nan)
    assert np.isnan(data.read_elwc(path, schema=kept).features).sum() == 4


@pytest.mark.parametrize("values", [[], None])
def test_an_empty_list_is_an_absent_one(tmp_path, values):
    records = sample()
    feature = records[0].examples[1].features.feature[WIDE]
    feature.Clear()
    if values is not None:
        feature.float_list.SetInParent()
    lists = data.read_elwc(write(tmp_path / "a", records), schema=SCHEMA)
    assert lists.features[1, 5:8].tolist() == [0, 0, 0]


def row(**features):
    return {"label": [1.0], **features}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([row(x=[1.0]), row(x=[1.0, 2.0])], "a: record 2, example 1: 'x' has 2 values"),
        (
            [row(), row(x=[1.0, 2.0]), row(x=[1.0])],
            "record 3, example 1: 'x' has 1 val",
        ),
        ([row(y=[1.0]), row(xx=[1.0])], "a: no example has a value of 'x'. Found: 'la"),
        ([row(xx=[1.0])], "Found: 'label', 'xx'; did you mean 'xx'?"),
        ([row(), row(x=[])], "no example has a value of 'x'. Found: 'label'."),
        ([row(x=[1.0]), row(x=[b"1"])], "record 2, example 1: 'x' is a bytes_list"),
        ([{"x": [1.0]}], "record 1, example 1: there is no 'label'. Found: 'x'"),
        ([row(x=[1.0]), {"x": [1.0]}], "record 2, example 1: there is no 'label'"),
        ([row(), row(x=[float("inf")])], "record 2, example 1: value 1 of 'x' is inf"),
        ([row(), row(x=[float("nan")])], "record 2, example 1: value 1 of 'x' is nan"),
    ],
)
def test_what_is_wrong_stays_an_error(tmp_path, rows, told):
    records = [elwc([{k: v for k, v in r.items() if v}]) for r in rows]
    with pytest.raises(data.DataFormatError) as error:
        data.read_elwc(write(tmp_path / "a", records), schema=data.ElwcSchema(["x"]))
    assert told in str(error.value)


def test_the_context_needs_the_names_too(tmp_path):
    records = [elwc([row(x=[1.0])], **c) for c in ({}, {"old": [1.0], "q": [b"q"]})]
    path = write(tmp_path / "a", records)
    schema = data.ElwcSchema(["x"], ["olds"])
    told = "no context has a value of 'olds'. Found: 'old', 'q'; did you mean 'old'"
    with pytest.raises(data.DataFormatError, match=told):
        data.read_elwc(path, schema=schema)
    lists = data.read_elwc(path, schema=data.ElwcSchema(["x"], ["old"]))
    assert lists.features.tolist() == [[1, 0], [1, 1]]
    with pytest.raises(ValueError, match="`missing_value` must be a finite number"):
        data.ElwcSchema(missing_value=1e39)


def test_other_splits_may_lack_a_feature_that_training_has(tmp_path):
    """Wherever its width is known: after training, and from an export."""
    train = write(tmp_path / "train", [elwc([row(x=[1.0], v=[1.0, 2.0])])])
    test = write(tmp_path / "test", [elwc([row(x=[3.0])])])
    config = DataConfig(
        dataset="elwc", train_path=train, test_path=test, elwc_features=("x", "v")
    )
    source = elwc_source.ElwcSource(config)
    with pytest.raises(data.DataFormatError, match="no example has a value of 'v'"):
        source.read("test", 3)
    assert source.read("train", None).features.tolist() == [[1, 1, 2]]
    assert source.read("test", 3).features.tolist() == [[3, 0, 0]]
    assert source.elwc_features.spec.feature_names == ["x", "v[0]", "v[1]"]
    found = data_splits.load_test(config, 3, source.elwc_features.spec.feature_names)
    assert found["test"].features.tolist() == [[3, 0, 0]]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (tf.train.SequenceExample(), "a SequenceExample"),
        (tf.train.Example(), "an Example in Example"),
        (tf.train.Example(), "a tf.Example"),
    ],
)
def test_other_messages_of_tensorflow_are_named(tmp_path, message, told):
    if told == "a SequenceExample":
        label = message.feature_lists.feature_list["label"].feature.add()
        label.float_list.value.append(1)
    else:
        name = "serialized_examples" if "in" in told else "utility"
        put(message.features.feature, name, [b"abc"])
    good = elwc([row(float_features=[1.0])])
    for place, records in ((1, [message]), (2, [good, message])):
        with pytest.raises(data.DataFormatError) as error:
            data.read_elwc(write(tmp_path / "a", records))
        assert f"a: record {place}: " in str(error.value)
        assert str(error.value).endswith(f". Found: {told}")


def test_what_is_read_as_it_is(tmp_path):
    """Large integers as float32 has them, NUL in names, the last of equal keys."""
    first, last = (row(x=[n], doc_id=[b"d\0"]) for n in (7, 10**18))
    # Joined, the bytes of two examples are those of one.
    both = b"".join(x.SerializeToString() for x in elwc([first, last]).examples)
    context = elwc([], query_id=[b"q\0"]).SerializeToString()
    path = write(tmp_path / "a", [b"\x0a" + bytes([len(both)]) + both + context])
    lists = data.read_elwc(path, schema=data.ElwcSchema(["x"]))
    assert lists.features.tolist() == [[float(np.float32(10**18))]]
    assert lists.query_ids == ["q\0"] and lists.doc_ids == ["d\0"]


def test_the_same_lists_dense_and_sparse(tmp_path):
    records = sample(1)
    sparse = data.read_elwc(write(tmp_path / "a", records), schema=SCHEMA)
    for record in records:
        for example in record.examples:
            for name in set(NAMES) - {*example.features.feature}:
                put(example.features.feature, name, [0 if name == NAMES[1] else 0.0])
            if WIDE not in example.features.feature:
                put(example.features.feature, WIDE, [0.0] * 3)
        if AGE not in record.context.features.feature:
            put(record.context.features.feature, AGE, [0.0])
    assert_same_lists(
        data.read_elwc(write(tmp_path / "a", records), schema=SCHEMA), sparse
    )
