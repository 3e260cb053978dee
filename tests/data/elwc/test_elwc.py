"""The ELWC reader, against protobuf, TFR's parser and hand-made files."""

import dataclasses
import gzip
import struct

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_ranking as tfr
from absl import logging

from tests.elwc_files import elwc, protos, put, write
from tests.helpers import assert_same_lists, make_lists
from tfr_ext import data
from tfr_ext.data.elwc import diagnosis, parsing, tfrecords


@pytest.fixture
def warnings(monkeypatch):
    messages = []
    monkeypatch.setattr(
        logging, "warning", lambda text, *args: messages.append(text % args)
    )
    return messages


@pytest.fixture
def only_fast(monkeypatch):
    """Fails a test in which the fast path is in doubt."""

    def refuse(*args):
        raise AssertionError("the slow path was taken")

    monkeypatch.setattr(diagnosis, "parse_slowly", refuse)


def full_lists(lengths, **options):
    """Lists with all that the layout can have; names of several lengths."""
    lists = make_lists(lengths, **options)
    shares = np.random.default_rng(1).dirichlet([1, 1, 1], lists.num_items)
    return dataclasses.replace(
        lists,
        doc_ids=[f"D{i * i}" for i in range(lists.num_items)],
        label_distributions=shares.astype(np.float32),
        weights=np.float32(np.random.default_rng(2).exponential(size=sum(lengths))),
    )


WEIGHTED = data.ElwcSchema(weight="weight")

# What is read.


@pytest.mark.parametrize("lists_per_piece", [1, 3, 32])
@pytest.mark.parametrize("make", [make_lists, full_lists])
def test_reads_what_was_written(tmp_path, only_fast, make, lists_per_piece):
    lists = make([3, 1, 30, 2, 5], num_features=7)
    path = write(tmp_path / "a", protos(lists))
    schema = data.ElwcSchema() if lists.weights is None else WEIGHTED
    options = {"schema": schema, "lists_per_piece": lists_per_piece}
    pieces = list(data.iter_elwc(path, **options))
    assert all(piece.num_lists <= lists_per_piece for piece in pieces)
    assert_same_lists(data.concatenate(pieces), lists)
    unweighted = dataclasses.replace(lists, weights=None)
    assert_same_lists(data.read_elwc(path, num_features=7), unweighted)


def test_the_slow_path_reads_the_same(tmp_path, monkeypatch):
    lists = full_lists([3, 1, 30, 2, 5])
    path = write(tmp_path / "a", protos(lists))
    monkeypatch.setattr(parsing.Parser, "checked", lambda *args: None)
    assert_same_lists(data.read_elwc(path, schema=WEIGHTED), lists)


def test_equals_the_parser_of_tensorflow_ranking(tmp_path):
    """On scalar features and an integer label, as TFR's own examples have them."""
    rng = np.random.default_rng(0)
    lengths, names = [4, 1, 9], ["1", "2", "3"]
    examples = [
        {**{n: [rng.normal()] for n in names}, "relevance": [int(rng.integers(3))]}
        for _ in range(sum(lengths))
    ]
    splits = np.cumsum([0, *lengths])
    records = [
        elwc(examples[a:b], query_id=[b"q%d" % a], age=[float(a)])
        for a, b in zip(splits, splits[1:])
    ]
    path = write(tmp_path / "a", records)
    parsed = tfr.data.parse_from_example_list(
        [record.SerializeToString() for record in records],
        context_feature_spec={"age": tf.io.FixedLenFeature([1], tf.float32)},
        example_feature_spec={
            **{n: tf.io.FixedLenFeature([1], tf.float32, [0.0]) for n in names},
            "relevance": tf.io.FixedLenFeature([1], tf.int64, [-1]),
        },
    )
    schema = data.ElwcSchema(names, ["age"], label="relevance")
    lists = data.read_elwc(path, schema=schema)
    assert lists.lengths.tolist() == lengths and lists.num_features == 4
    for q, length in enumerate(lengths):
        mine = lists.select([q])
        for column, name in enumerate(names):
            np.testing.assert_array_equal(
                mine.features[:, column], parsed[name][q, :length, 0]
            )
        assert set(mine.features[:, 3]) == {float(parsed["age"][q, 0])}
        np.testing.assert_array_equal(mine.labels, parsed["relevance"][q, :length, 0])
    assert lists.query_ids == ["q0", "q4", "q5"] and lists.doc_ids is None


def test_features_are_joined_in_the_order_of_the_schema(tmp_path, only_fast):
    examples = [{"b": [1.0, 2.0], "a": [3.0], "label": [1]}] * 2
    path = write(tmp_path / "a", [elwc(examples, c=[4.0, 5.0], query_id=[b"q"])])
    schema = data.ElwcSchema(["a", "b"], ["c"])
    lists = data.read_elwc(path, schema=schema)
    assert lists.features.tolist() == [[3, 1, 2, 4, 5]] * 2


def test_another_order_than_that_of_the_model_is_refused(tmp_path, only_fast):
    examples = [{"b": [1.0, 2.0], "a": [3.0], "label": [1]}] * 2
    path = write(tmp_path / "a", [elwc(examples, c=[4.0], query_id=[b"q"])])
    model = dict(columns=("a", "b[0]", "b[1]", "c"))
    for names in (["a", "b"], ["a", "other"], ["b"]):
        for x in examples:
            x["other"] = [1.0, 2.0]
        path = write(tmp_path / "a", [elwc(examples, c=[4.0], query_id=[b"q"])])
        schema = data.ElwcSchema(names, ["c"], **model)
        assert data.read_elwc(path, schema=schema).num_lists == 1
    told = (
        r"^`elwc_features` and `elwc_context_features` have the order \['b\[0\]', "
        r"'b\[1\]', 'a', 'c'\], but the model takes \['a', 'b\[0\]', 'b\[1\]', 'c'\]\.$"
    )
    with pytest.raises(ValueError, match=told):
        data.read_elwc(path, schema=data.ElwcSchema(["b", "a"], ["c"], **model))
    told = (
        r"no example has a value of 'x'.* The model takes 'a', 'b\[0\]', 'b\[1\]', 'c'"
    )
    with pytest.raises(data.DataFormatError, match=told):
        data.read_elwc(path, schema=data.ElwcSchema(["x"], **model))


def test_layouts_that_differ_within_a_file(tmp_path, only_fast):
    """Another order of the map, other features beside."""
    plain = {"float_features": [1.0, 2.0], "label": [3.0]}
    variants = [
        plain,
        dict(reversed(plain.items())),
        {"text": [b"a", b"bc"], **plain},
        {"number": [2**60], **plain},
        {"number": [5], **plain},
    ]
    path = write(tmp_path / "a", [elwc(variants, query_id=[b"q"])])
    lists = data.read_elwc(path)
    assert lists.features.tolist() == [[1, 2]] * 5
    assert lists.labels.tolist() == [3] * 5


@pytest.mark.parametrize("first", ["plain", "integer"])
def test_kinds_that_differ_within_a_file(tmp_path, first):
    plain = {"float_features": [1.0, 2.0], "label": [3.0], "doc_id": [b"d"]}
    variants = {"plain": plain, "integer": {**plain, "label": [2], "doc_id": [7]}}
    variants = [variants[first], *variants.values()]
    path = write(
        tmp_path / "a",
        [elwc(variants, query_id=[b"q"]), elwc([plain], query_id=[5]), elwc([plain])],
    )
    lists = data.read_elwc(path)
    assert lists.query_ids == ["q", "5", "a:3"]
    start = [3, "d"] if first == "plain" else [2, "7"]
    assert lists.labels.tolist() == [start[0], 3, 2, 3, 3]
    assert lists.doc_ids == [start[1], "d", "7", "d", "d"]


def test_integers_are_numbers_too(tmp_path):
    item = {"float_features": [7, -300], "label": [1000], "doc_id": [12]}
    path = write(tmp_path / "a", [elwc([{**item, "weight": [5]}], query_id=[34])])
    lists = data.read_elwc(path, schema=WEIGHTED)
    assert lists.weights.tolist() == [5]
    assert lists.features.tolist() == [[7, -300]] and lists.labels.tolist() == [1000]
    assert lists.query_ids == ["34"] and lists.doc_ids == ["12"]


def test_unpacked_and_split_messages(tmp_path):
    """What no writer writes and the format allows."""
    first = {"float_features": [1.0, 2.0], "label": [1.0]}
    proto = elwc([first], query_id=[b"q"])
    whole = proto.SerializeToString()
    context_only = elwc([], query_id=[b"other"]).SerializeToString()
    unknown = b"\x7a\x03abc"
    path = write(tmp_path / "a", [whole + context_only, whole + unknown])
    lists = data.read_elwc(path)
    assert lists.query_ids == ["other", "q"]
    assert lists.features.tolist() == [[1, 2]] * 2
    unpacked = b"\x12\x0a\x0d\x00\x00\x80\x3f\x0d\x00\x00\x00\x40"
    entry = b"\x0a\x0efloat_features\x12\x0c" + unpacked
    label = b"\x0a\x05label\x12\x08\x12\x06\x0a\x04\x00\x00\x80\x3f"
    features = b"".join(b"\x0a" + bytes([len(e)]) + e for e in (entry, label))
    example = b"\x0a" + bytes([len(features)]) + features
    record = b"\x0a" + bytes([len(example)]) + example
    path = write(tmp_path / "b", [whole, record])
    assert data.read_elwc(path).features.tolist() == [[1, 2]] * 2


def test_minus_zero_is_zero(tmp_path):
    path = write(tmp_path / "a", [elwc([{"float_features": [1.0], "label": [-0.0]}])])
    assert not np.signbit(data.read_elwc(path).labels).any()


def test_queries_without_a_name_are_named_after_file_and_record(tmp_path, warnings):
    item = {"float_features": [1.0], "label": [1.0]}
    records = [elwc([item]), elwc([item], query_id=[b"x"]), elwc([item])]
    (tmp_path / "d").mkdir()
    files = [write(tmp_path / name, records[i:]) for i, name in enumerate("ab")]
    assert data.read_elwc(files[0]).query_ids == ["a:1", "x", "a:3"]
    assert "2 of 3 queries" in warnings[0] and "'query_id'" in warnings[0]
    same = [files[0], write(tmp_path / "d" / "a", records[2:])]
    assert data.read_elwc(same).query_ids[-1] == f"{same[1]}:1"
    none = data.ElwcSchema(query_id="")
    assert data.read_elwc(files, schema=none).query_ids[1] == "a:2"


def test_items_that_nobody_judged_are_left_out_and_counted(tmp_path, warnings):
    lists = full_lists([3, 2, 1, 2], labels=[1, -1, 2, -1, -1, 0, 1, -1])
    records = protos(lists)
    # Whatever its weight.
    weight = records[0].examples[1].features.feature["weight"].float_list.value
    weight[0] = -1
    path = write(tmp_path / "a", records)
    expected = lists.with_items([0, 2, 5, 6], [2, 1, 1], ["q0", "q2", "q3"])
    assert_same_lists(data.read_elwc(path, schema=WEIGHTED), expected)
    assert "Left out 4 items" in warnings[0] and "1 of 4 queries" in warnings[0]
    path = write(tmp_path / "b", protos(make_lists([2], labels=[-1, -1])))
    with pytest.raises(data.DataFormatError, match="all labels are negative"):
        data.read_elwc(path)


@pytest.mark.parametrize("kind", ["GZIP", ""])
def test_compression_is_recognised_by_content(tmp_path, kind):
    lists = make_lists([3, 2])
    path = write(tmp_path / "a.tfrecord", protos(lists), kind)
    assert_same_lists(data.read_elwc(path), lists)


def test_a_record_whose_length_looks_like_gzip(tmp_path):
    lists = make_lists([1], num_features=8800)
    proto = protos(lists)[0]
    put(proto.context.features.feature, "pad", [b""])
    missing = 0x8B1F - proto.ByteSize()
    proto.context.features.feature["pad"].bytes_list.value[0] = b"x" * (missing - 6)
    assert proto.ByteSize() == 0x8B1F
    path = write(tmp_path / "a", [proto])
    with open(path, "rb") as file:
        assert file.read(2) == b"\x1f\x8b"
    assert_same_lists(data.read_elwc(path), lists)


def test_several_files(tmp_path):
    lists = make_lists([2, 3, 1])
    for name, part in (("s-1", [2]), ("s-0", [0, 1])):
        write(tmp_path / name, protos(lists.select(part)))
    assert_same_lists(data.read_elwc(f"{tmp_path}/s-*"), lists)
    assert_same_lists(data.read_elwc([tmp_path / "s-0", tmp_path / "s-1"]), lists)


def test_the_real_collection(tmp_path, real_data, only_fast):
    lists = data.read_letor(real_data / "MQ2008" / "Fold1" / "train.txt")
    assert_same_lists(data.read_elwc(write(tmp_path / "a", protos(lists))), lists)


# What is refused.

GOOD = {"float_features": [1.0, 2.0], "label": [1.0]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"label": []}, "there is no 'label'. Found: 'float_features'"),
        ({"label": [1.0, 2.0]}, "'label' has 2 values, expected 1 value"),
        ({"label": [b"1"]}, "'label' is a bytes_list, expected a float_list"),
        ({"label": [float("nan")]}, "'label' is nan, expected a finite number"),
        ({"label": [float("inf")]}, "'label' is inf, expected a finite number"),
        ({"float_features": [1.0]}, "'float_features' has 1 values, expected 2"),
        ({"float_features": [1.0, float("nan")]}, "value 2 of 'float_features' is nan"),
        ({"float_features": [b"x"]}, "'float_features' is a bytes_list"),
        ({"label_distribution": [0.5, 0.5]}, "there is a 'label_distribution'"),
        ({"doc_id": [b"\xff"]}, "'doc_id' is not text, expected UTF-8"),
        ({"doc_id": [b""]}, "'doc_id' is '', expected text in UTF-8"),
        ({"doc_id": [1.0]}, "'doc_id' is a float_list of 1, expected a bytes_list"),
        ({"doc_id": [b"a", b"b"]}, "'doc_id' is a bytes_list of 2"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_wrong_example_is_told_with_its_place(tmp_path, change, told):
    wrong = {name: v for name, v in {**GOOD, **change}.items() if v}
    records = [
        elwc([GOOD] * 2, query_id=[b"a"]),
        elwc([GOOD, wrong, GOOD], query_id=[b"b"]),
    ]
    path = write(tmp_path / "a", records)
    with pytest.raises(data.DataFormatError) as error:
        data.read_elwc(path)
    assert str(error.value).startswith(f"{path}: record 2, example 2: ")
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (b"\xff\xff", "expected a serialised ExampleListWithContext"),
        (b"\x0a\x03\x0a\x01\xff", "expected a serialised ExampleListWithContext"),
        (b"", "the list is empty"),
        (elwc([], query_id=[b"x"]), "the list is empty"),
        (elwc([GOOD], query_id=[b"a"]), "query 'a' occurred before, at {path}, rec"),
        (elwc([GOOD], query_id=[b""]), "'query_id' is '', expected text"),
        (elwc([GOOD], query_id=[b"a", b"b"]), "'query_id' is a bytes_list of 2"),
    ],
    ids=range(7),
)
def test_a_wrong_record_is_told_with_its_place(tmp_path, record, told):
    path = write(tmp_path / "a", [elwc([GOOD], query_id=[b"a"]), record])
    with pytest.raises(data.DataFormatError) as error:
        data.read_elwc(path)
    assert str(error.value).startswith(f"{path}: record 2: ")
    assert told.format(path=path) in str(error.value)


@pytest.mark.parametrize(
    ("weight", "told"),
    [
        ([], "there is no 'weight'. Found: 'float_features', 'label'"),
        ([-0.5], "'weight' is -0.5, expected a number >= 0"),
        ([float("nan")], "value 1 of 'weight' is nan, expected a finite number"),
        ([1.0, 2.0], "'weight' has 2 values, expected 1 value"),
        ([b"1"], "'weight' is a bytes_list, expected a float_list"),
    ],
)
def test_a_wrong_weight_is_told_with_its_place(tmp_path, weight, told):
    good = {**GOOD, "weight": [2.0]}
    wrong = {**GOOD, **({"weight": weight} if weight else {})}
    records = [elwc([good]), elwc([good, wrong, good])]
    path = write(tmp_path / "a", records)
    with pytest.raises(data.DataFormatError) as error:
        data.read_elwc(path, schema=WEIGHTED)
    assert f"{path}: record 2, example 2: {told}" in str(error.value)
    assert data.read_elwc(path).num_items == 4


def test_a_weight_has_one_use():
    with pytest.raises(ValueError, match="'label' has two uses"):
        data.ElwcSchema(weight="label")


def test_wrong_distributions(tmp_path):
    good = {**GOOD, "label_distribution": [0.5, 0.5]}
    for wrong, told in (
        ([0.5, 0.6], "probabilities that sum to 1"),
        ([1.5, -0.5], "probabilities that sum to 1"),
        ([0.2, 0.3, 0.5], "has 3 values, expected 2"),
        (None, "there is no 'label_distribution'"),
    ):
        bad = dict(GOOD) if wrong is None else {**GOOD, "label_distribution": wrong}
        path = write(tmp_path / "a", [elwc([good, bad])])
        with pytest.raises(data.DataFormatError, match="record 1, example 2") as error:
            data.read_elwc(path)
        assert told in str(error.value)


def test_other_widths(tmp_path):
    path = write(tmp_path / "a", protos(make_lists([2], num_features=3)))
    with pytest.raises(data.DataFormatError, match="there are 3 features, expected 4"):
        data.read_elwc(path, num_features=4)
    with pytest.raises(ValueError, match="`num_features` must be an integer >= 1.*0"):
        data.read_elwc(path, num_features=0)
    with pytest.raises(ValueError, match="`lists_per_piece` must be an integer >= 1"):
        list(data.iter_elwc(path, lists_per_piece=0))


def test_damaged_files(tmp_path):
    path = write(tmp_path / "a", protos(make_lists([2] * 5)))
    content = (tmp_path / "a").read_bytes()
    size = struct.unpack("<Q", content[:8])[0] + 16
    assert size * 5 == len(content)
    for cut in (size * 3 + 5, size * 3 + 20, size * 4 - 1):
        (tmp_path / "a").write_bytes(content[:cut])
        with pytest.raises(data.DataFormatError, match="record 4: .*whole TFRecord"):
            data.read_elwc(path)
    for at in (size * 2 + 3, size * 2 + 9, size * 2 + 40, size * 3 - 2):
        changed = bytearray(content)
        changed[at] ^= 4
        (tmp_path / "a").write_bytes(bytes(changed))
        with pytest.raises(data.DataFormatError, match="record 3: .*whole TFRecord"):
            data.read_elwc(path)
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(data.DataFormatError, match="the file has no records"):
        data.read_elwc(path)


def test_damaged_gzip(tmp_path):
    """TensorFlow alone takes a file that was cut off for one that ends there."""
    path = write(tmp_path / "a", protos(make_lists([2] * 5)))
    content = gzip.compress((tmp_path / "a").read_bytes())
    for cut in range(3, len(content), 37):
        (tmp_path / "a").write_bytes(content[:cut])
        with pytest.raises(data.DataFormatError, match=str(path)):
            data.read_elwc(path)
    with pytest.raises(FileNotFoundError):
        data.read_elwc(tmp_path / "none")


def test_good_records_before_a_damaged_one_are_read(tmp_path):
    path = write(tmp_path / "a", [b"abc", b"de", b"f"])
    content = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(content[:-1])
    found = []
    with pytest.raises(data.DataFormatError, match="record 3"):
        for piece in tfrecords.read_records(path, 8):
            found += piece.numpy().tolist()
    assert found == [b"abc", b"de"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"features": "a"}, "`features` must be a list"),
        ({"features": ["a", ""]}, "`features` must be a list"),
        ({"features": []}, "at least one"),
        ({"features": ["label"]}, "'label' has two uses"),
        ({"features": ["a", "a"]}, "'a' has two uses"),
        ({"context_features": ["query_id"]}, "'query_id' has two uses"),
        ({"label": ""}, "`label`"),
    ],
)
def test_wrong_names(names, told):
    with pytest.raises(ValueError, match=told):
        data.ElwcSchema(**names)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("length", [1 << 20, 1 << 45, (1 << 64) - 17, (1 << 64) - 1])
def test_a_length_beyond_the_file_is_told_with_its_record(tmp_path, length, pack):
    """TensorFlow itself would end the process: the checksum of the length is right."""
    path = write(tmp_path / "a", [b"abc", b"de"])
    head = struct.pack("<Q", length)
    head += struct.pack("<I", tfrecords._checksum(head))
    content = (tmp_path / "a").read_bytes() + head + b"x" * 50
    (tmp_path / "a").write_bytes(pack(content))
    found = []
    with pytest.raises(data.DataFormatError, match=r"a: record 3: .*ends after 50"):
        for piece in tfrecords.read_records(path, 8):
            found += piece.numpy().tolist()
    assert found == [b"abc", b"de"]
