"""Damaged shards: read right, or refused with its name and a place in it.

What is right, a reader written here says: plain loops by the documented format.
"""

import dataclasses
import gzip
import math
import pathlib
import re
import struct
import tempfile

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf.message import DecodeError
from hypothesis import event, example, given
from hypothesis import strategies as st
from tensorflow_serving.apis import input_pb2

from tests.data.damage import (
    KINDS,
    PLACES,
    RefusedError,
    check,
    expect,
    fuzz,
    mutate_bytes,
    mutations,
    text_of,
    unzipped,
)
from tests.elwc_files import elwc, put
from tfr_ext import data
from tfr_ext.data.elwc import diagnosis, parsing

pytestmark = pytest.mark.grid


def queries(*kinds):
    """Returns protos in the ways that people write them."""
    made = []
    for q, (count, shares, documents, integers) in enumerate(kinds):
        examples = []
        for i in range(count):
            made_of = {"float_features": [i + 0.5, -1.0, 2.5]}
            made_of["label"] = [i % 3] if integers else [float(i % 3)]
            made_of["weight"] = [i / 4]
            if documents:
                made_of["doc_id"] = [b"D%d" % (i * 7)]
            if shares:
                made_of["label_distribution"] = [0.25, 0.75]
            examples.append(made_of)
        made.append(elwc(examples, query_id=[b"q%d" % q]))
    return made


COLLECTIONS = (
    queries((2, 0, 1, 0), (3, 0, 1, 0), (1, 0, 1, 0)),
    queries((4, 1, 1, 0), (1, 1, 1, 0)),
    queries((2, 0, 0, 1), (2, 0, 0, 0)),
)
NAMES = ["float_features", "label", "doc_id", "label_distribution", "query_id", "x"]
NAMES += ["weight"]
VALUES = st.sampled_from(
    [[], [1.0], [0.0], [-1.0], [-0.0], [math.nan], [math.inf], [0.5, 0.5], [1], [300]]
    + [[-2], [2**62], [1.0, 2.0, 3.0], [1, 2, 3], [b"d"], [b""], [b"a b"], [b"\xff"]]
    + [[b"a", b"b"], [b"q1"], [0.25, 0.25], [-0.5, 1.5], [1e-4, 1.0], [1e30, 1, 2.0]]
)
PROTO_KINDS = ["set", "drop", "rename", "append", "pop", "none", "item", "list", "copy"]


def mutate_proto(protos, kind, one, other, name, values):
    """Changes one thing in some protos."""
    proto = protos[one % len(protos)]
    place = proto.context
    if name != "query_id" and len(proto.examples):
        place = proto.examples[other % len(proto.examples)]
    features = place.features.feature
    if kind == "set":
        features.pop(name, None)
        if values:
            put(
                features,
                name,
                [float(v) if 0 < v < 1 else v for v in values]
                if not isinstance(values[0], bytes)
                else values,
            )
    elif kind == "drop":
        features.pop(name, None)
    elif kind == "rename" and name in features:
        features["x"].CopyFrom(features[name])
        del features[name]
    elif kind == "append" and name in features:
        features[name].float_list.value.append(1.0)
    elif kind == "pop" and features.get(name) is not None:
        del features[name].float_list.value[:1]
    elif kind == "none":
        features[name].Clear()
    elif kind == "item" and len(proto.examples):
        del proto.examples[other % len(proto.examples)]
    elif kind == "list":
        protos.remove(proto)
    elif kind == "copy":
        protos.insert(
            other % (len(protos) + 1), type(proto).FromString(proto.SerializeToString())
        )
    return protos or [input_pb2.ExampleListWithContext()]


CRC = [0] * 256
for _byte in range(256):
    _crc = _byte
    for _ in range(8):
        _crc = (_crc >> 1) ^ (0x82F63B78 if _crc & 1 else 0)
    CRC[_byte] = _crc


def checksum(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc = CRC[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def framed(record):
    size = struct.pack("<Q", len(record))
    return size + checksum(size) + record + checksum(record)


def unframed(content):
    """Reads the records of a file."""
    records = []
    while content:
        expect(len(content) >= 12 and checksum(content[:8]) == content[8:12])
        size = struct.unpack("<Q", content[:8])[0]
        record, end = content[12 : 12 + size], content[12 + size : 16 + size]
        expect(len(record) == size and checksum(record) == end)
        records.append(record)
        content = content[16 + size :]
    expect(records)
    return records


def values_of(message, name):
    if name not in message.features.feature:
        return None, []
    feature = message.features.feature[name]
    kind = feature.WhichOneof("kind")
    return kind, list(getattr(feature, kind).value) if kind else []


def numbers_of(message, name, count=None):
    kind, values = values_of(message, name)
    expect(values and kind != "bytes_list" and count in (None, len(values)))
    expect(all(math.isfinite(x) for x in values))
    return values


def name_of(message, name):
    kind, values = values_of(message, name)
    if not values:
        return None
    expect(len(values) == 1 and kind != "float_list")
    if kind == "int64_list":
        return str(values[0])
    text = text_of(values[0])
    expect(text)
    return text


class NotAProtoError(RefusedError):
    """A record that protobuf refuses, and TensorFlow's ops may read."""


def read_protos(records, file_name, weighted):
    """Reads records one by one; returns items, width, distributions and weights."""
    items, distributions, seen, grades = [], [], set(), None
    documents, weights = True, []
    try:
        protos = list(map(input_pb2.ExampleListWithContext.FromString, records))
    except DecodeError:
        raise NotAProtoError from None
    counts = [
        len(values_of(x, "float_features")[1]) for p in protos for x in p.examples
    ]
    width = next(filter(None, counts), 0)
    expect(width)
    for n, proto in enumerate(protos, 1):
        expect(proto.examples)
        query = name_of(proto.context, "query_id") or f"{file_name}:{n}"
        expect(query not in seen)
        seen.add(query)
        for message in proto.examples:
            if grades is None:
                grades = len(values_of(message, "label_distribution")[1])
            features = [0] * width
            if values_of(message, "float_features")[1]:
                features = numbers_of(message, "float_features", width)
            (label,) = numbers_of(message, "label", 1)
            document = name_of(message, "doc_id")
            documents = documents and document is not None
            shares = []
            if grades:
                shares = numbers_of(message, "label_distribution", grades)
            else:
                expect(not values_of(message, "label_distribution")[1])
            (weight,) = numbers_of(message, "weight", 1) if weighted else (1,)
            if label < 0:
                continue
            expect(weight >= 0)
            weights.append(weight)
            if grades:
                expect(grades > 1 and min(shares) >= 0 and abs(sum(shares) - 1) < 1e-3)
                distributions.append(shares)
            items.append((query, label, dict(enumerate(features)), document))
    expect(items)
    if not documents:
        items = [(*item[:3], None) for item in items]
    return items, width, distributions, weights if weighted else None


@fuzz(300)
@given(
    st.sampled_from(COLLECTIONS),
    st.lists(
        st.tuples(
            st.sampled_from(PROTO_KINDS), PLACES, PLACES, st.sampled_from(NAMES), VALUES
        ),
        max_size=3,
    ),
    st.none() | st.tuples(PLACES, mutations(KINDS, st.binary(max_size=3), 2)),
    st.none() | mutations(KINDS, st.binary(max_size=3), 1),
    st.booleans(),
    st.booleans(),
)
@example(COLLECTIONS[0], [], None, None, True, True)
def test_damaged_elwc(protos, changes, of_record, of_file, compressed, weighted):
    protos = [type(proto).FromString(proto.SerializeToString()) for proto in protos]
    for change in changes:
        protos = mutate_proto(protos, *change)
    records = [proto.SerializeToString() for proto in protos]
    if of_record is not None:
        at = of_record[0] % len(records)
        records[at] = mutate_bytes(records[at], of_record[1])
    content = b"".join(map(framed, records))
    if compressed:
        content = gzip.compress(content, mtime=0)
    content = mutate_bytes(content, of_file or [])
    try:
        records = unframed(unzipped(content))
        items, width, shares, weights = read_protos(records, "file", weighted)
        refusal = None
    except RefusedError as error:
        items, refusal = None, error
    event("right" if refusal is None else type(refusal).__name__)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "file")
        path.write_bytes(content)
        try:
            schema = data.ElwcSchema(weight="weight" if weighted else "")
            lists = data.read_elwc(path, schema=schema)
        except data.DataFormatError as error:
            assert items is None, f"refused: {error}"
            told = str(error)
            assert told.startswith(f"{path}: ")
            place = re.match(r"record (\d+)[:,]", told[len(f"{path}: ") :])
            whole = re.search("gzip|no records|all labels are neg|no example has", told)
            assert whole or 1 <= int(place[1]) <= len(records) + 1
            return
    if isinstance(refusal, NotAProtoError):
        return
    assert items is not None, "accepted"
    check(lists, items, width)
    if shares:
        expected = np.array(shares, np.float32)
        np.testing.assert_array_equal(lists.label_distributions, expected)
    else:
        assert lists.label_distributions is None
    if weighted:
        np.testing.assert_array_equal(lists.weights, np.float32(weights))
    else:
        assert lists.weights is None


def assert_same_chunks(one, other):
    assert (one is None) == (other is None)
    for field in () if one is None else dataclasses.fields(one):
        np.testing.assert_array_equal(
            *(getattr(chunk, field.name) for chunk in (one, other))
        )


@fuzz(2000)
@given(
    st.sampled_from(COLLECTIONS),
    PLACES,
    mutations(["flip", "replace", "flip", "delete"], st.binary(max_size=4), 3),
    st.booleans(),
)
def test_damaged_records_of_the_same_size(protos, at, changes, weighted):
    """The fast path accepts what the reference does, or says nothing."""
    records = [proto.SerializeToString() for proto in protos]
    schema = data.ElwcSchema(weight="weight" if weighted else "")
    widths = diagnosis.measure(records[:1], "file", schema)
    fast = parsing.parser(schema, widths)
    assert fast.parse_quickly(tf.constant(records[:1])) is not None
    at = at % len(records)
    record = mutate_bytes(records[at], changes)
    chunk = fast.parse_quickly(tf.constant([record]))
    all_records = tf.constant([*records, record])
    assert_same_chunks(*(fast.parse_quickly(all_records, x) for x in (False, True)))
    event("in doubt" if chunk is None else "accepted")
    if chunk is None:
        return
    # Widths are those of the first record; its items are left out of what is compared.
    first = input_pb2.ExampleListWithContext.FromString(records[0])
    first.context.features.feature["query_id"].bytes_list.value[0] = b"the-first"
    judged = chunk.labels >= 0
    both = [first.SerializeToString(), record]
    try:
        items, _, shares, weights = read_protos(both, "file", weighted)
    except NotAProtoError:
        event("only protobuf refuses it")
        return
    items = items[len(first.examples) :]
    assert [label for _, label, _, _ in items] == chunk.labels[judged].tolist()
    for (_, _, features, _), row in zip(items, chunk.features[judged]):
        assert np.float32(list(features.values())).tolist() == row.tolist()
    names = [query for query, _, _, _ in items]
    assert set(names) <= {chunk.query_ids[0] or "file:2"}
    if weighted:
        expected = np.float32(weights[len(first.examples) :])
        np.testing.assert_array_equal(chunk.weights[judged], expected)
    if chunk.distributions is not None:
        expected = np.array(shares[len(first.examples) :], np.float32)
        found = chunk.distributions[judged]
        np.testing.assert_array_equal(found.ravel(), expected.ravel())
