"""Damaged files: each is read right, or refused with its name and a place in it.

What is right, two readers written here say: plain loops by the documented formats.
TFR_EXT_FUZZ=20000 tries so many files of each format, of new ones in each run.
"""

import gzip
import io
import math
import os
import pathlib
import re
import struct
import tempfile
import zlib

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st
from tensorflow_serving.apis import input_pb2

from tests.elwc_files import elwc, put
from tfr_ext import data
from tfr_ext.data.elwc import arrays, diagnosis

pytestmark = pytest.mark.grid

EXAMPLES = int(os.environ.get("TFR_EXT_FUZZ", "0"))


def fuzz(default):
    return settings(
        max_examples=EXAMPLES or default,
        derandomize=not EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


class RefusedError(Exception):
    """The reference says that the file is wrong."""


def expect(condition):
    if not condition:
        raise RefusedError


def unzipped(content):
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        return gzip.GzipFile(fileobj=io.BytesIO(content)).read()
    except (EOFError, OSError, zlib.error):
        raise RefusedError from None


def text_of(value):
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise RefusedError from None


def check(lists, items, width):
    """Compares lists with (query, label, features, document) of each item."""
    splits = [i for i, x in enumerate(items) if not i or x[0] != items[i - 1][0]]
    assert lists.row_splits.tolist() == [*splits, len(items)]
    assert lists.query_ids == [items[i][0] for i in splits]
    assert lists.features.shape == (len(items), width)
    expected = np.zeros([len(items), width], np.float32)
    for row, (_, _, features, _) in zip(expected, items):
        for index, value in features.items():
            row[index] = value
    np.testing.assert_array_equal(lists.features, expected)
    labels = np.array([label for _, label, _, _ in items], np.float32)
    np.testing.assert_array_equal(lists.labels, labels)
    documents = [document for _, _, _, document in items]
    assert lists.doc_ids == (None if None in documents else documents)


def mutate_bytes(content, mutations):
    """Applies (kind, place, place, bytes) to bytes."""
    for kind, one, other, inserted in mutations:
        a, b = sorted((one % (len(content) + 1), other % (len(content) + 1)))
        near = min(b, a + 1 + b % 5)
        if kind == "flip":
            changed = bytes(x ^ (1 << other % 8) for x in content[a : a + 1])
            content = content[:a] + changed + content[a + 1 :]
        elif kind == "insert":
            content = content[:a] + inserted + content[a:]
        elif kind == "replace":
            content = content[:a] + inserted + content[a + len(inserted) :]
        elif kind == "delete":
            content = content[:a] + content[near:]
        elif kind == "cut":
            content = content[:b]
        elif kind == "repeat":
            content = content[:near] + content[a:near] + content[near:]
        elif kind == "double":
            content = content[:b] + content[a:]
    return content


PLACES = st.integers(0, 1 << 16)


def mutations(kinds, inserted, most):
    one = st.tuples(st.sampled_from(kinds), PLACES, PLACES, inserted)
    return st.lists(one, max_size=most)


# LETOR text.

TEXTS = (
    b"2 qid:10 1:0.5 2:0 3:-1.25 #docid = GX-1 inc = 1\n"
    b"0 qid:10 1:1 2:2 3:3 #docid = GX-2 inc = 1\n"
    b"1 qid:11 1:0.1 2:0.2 3:0.3 #docid = GX-3 inc = 1\n",
    b"# title\n\n1 qid:a 3:1e-3 1:NULL\r\n0.5 qid:a\t2:+.5  4:7.\n"
    b"3 qid:b 4:123456789.123456789 # c\n0 qid:c",
    b"".join(b"%d qid:%d 1:%d 2:0.%06d\n" % (i % 3, i // 4, i, i) for i in range(12)),
)
PIECES = st.sampled_from(
    [b" ", b"\t", b"\n", b"\r", b"\r\n", b":", b"#", b".", b"-", b"+", b"e", b"0"]
    + [b"9", b"NULL", b"nan", b"inf", b"qid:", b" 1:1", b"\0", b"\x7f", b"\xff"]
    + [b"1e39", b"-0", b"#docid = x y", b"docid=", b"\xef\xbb\xbf", "ä".encode()]
    + [b"00000000000000000000000001", b"1e-400", b"_", b"\n1 qid:z 1:1\n", b"\v"]
) | st.binary(min_size=1, max_size=3)
KINDS = ["flip", "insert", "replace", "delete", "cut", "repeat", "double"]


def number(token):
    expect(token and not set(token) - set(b"0123456789+-.eE"))
    try:
        value = float(token)
    except ValueError:
        raise RefusedError from None
    expect(abs(value) < 3.4028235677973366e38)  # What rounds to a float32.
    return value


def document_of(comment):
    rest = comment.lstrip(b" \t")
    if rest[:5].lower() != b"docid":
        return None
    rest = rest[5:].lstrip(b" \t")
    if rest[:1] != b"=":
        return None
    words = rest[1:].replace(b"\t", b" ").split(b" ")
    words = [word for word in words if word]
    return text_of(words[0]) if words else None


def read_text(content, num_features):
    """Reads LETOR text line by line; returns items and the width."""
    content = unzipped(content)
    if content.startswith(b"\xef\xbb\xbf"):
        content = content[3:]
    items, width, seen = [], num_features or 0, set()
    for line in content.split(b"\n"):
        line = line[:-1] if line.endswith(b"\r") else line
        expect(b"\r" not in line and b"\0" not in line)
        facts, _, comment = line.partition(b"#")
        tokens = [t for t in facts.replace(b"\t", b" ").split(b" ") if t]
        if not tokens:
            continue
        label = number(tokens[0])
        expect(label >= 0 and len(tokens) > 1)
        expect(tokens[1].startswith(b"qid:") and len(tokens[1]) > 4)
        expect(all(x > 32 and x != 127 for x in tokens[1]))
        query = text_of(tokens[1][4:])
        features = {}
        for token in tokens[2:]:
            expect(token.count(b":") == 1)
            index, value = token.split(b":")
            expect(index and not set(index) - set(b"0123456789"))
            expect(len(index.lstrip(b"0")) < 10)
            index = int(index)
            expect(1 <= index <= (num_features or 1_000_000))
            expect(index - 1 not in features)
            features[index - 1] = -7.0 if value == b"NULL" else number(value)
            width = max(width, index)
        if not items or items[-1][0] != query:
            expect(query not in seen)
            seen.add(query)
        items.append((query, label, features, document_of(comment)))
    expect(items)
    return items, width


@fuzz(2000)
@given(
    st.sampled_from(TEXTS),
    mutations([*KINDS, "swap"], PIECES, 4),
    st.sampled_from([None, None, None, 3, 5]),
    st.none() | mutations(KINDS, PIECES, 1),
)
@example(TEXTS[0], [], None, None)
def test_damaged_text(text, changes, num_features, changes_of_gzip):
    for change in changes:
        if change[0] == "swap":
            lines = text.split(b"\n")
            a, b = change[1] % len(lines), change[2] % len(lines)
            lines[a], lines[b] = lines[b], lines[a]
            text = b"\n".join(lines)
        else:
            text = mutate_bytes(text, [change])
    content = text
    if changes_of_gzip is not None:
        content = mutate_bytes(gzip.compress(text, mtime=0), changes_of_gzip)
    try:
        items, width = read_text(content, num_features)
    except RefusedError:
        items, width = None, 0
    event("wrong" if items is None else "right")  # --hypothesis-show-statistics
    if width > 10_000:
        return  # Right, and large.
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "text")
        path.write_bytes(content)
        try:
            lists = data.read_letor(path, num_features, missing_value=-7)
        except data.DataFormatError as error:
            assert items is None, f"refused: {error}"
            assert error.path == str(path)
            if error.line is not None:
                whole = content if changes_of_gzip is None else unzipped(content)
                assert 1 <= error.line <= whole.count(b"\n") + 1
            return
    assert items is not None, "accepted"
    check(lists, items, width)


# ELWC.


def queries(*kinds):
    """Returns protos in the ways that people write them."""
    made = []
    for q, (count, shares, documents, integers) in enumerate(kinds):
        examples = []
        for i in range(count):
            made_of = {"float_features": [i + 0.5, -1.0, 2.5]}
            made_of["label"] = [i % 3] if integers else [float(i % 3)]
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
    expect(text and all(ord(c) > 32 and ord(c) != 127 for c in text))
    return text


def read_protos(records, file_name):
    """Reads records one by one; returns items, the width and the distributions."""
    items, distributions, seen, width, grades = [], [], set(), None, None
    documents = True
    for n, record in enumerate(records, 1):
        try:
            proto = input_pb2.ExampleListWithContext.FromString(record)
        except DecodeError:
            raise RefusedError from None
        expect(proto.examples)
        query = name_of(proto.context, "query_id") or f"{file_name}:{n}"
        expect(query not in seen)
        seen.add(query)
        for message in proto.examples:
            if width is None:
                width = len(numbers_of(message, "float_features"))
                grades = len(values_of(message, "label_distribution")[1])
            features = numbers_of(message, "float_features", width)
            (label,) = numbers_of(message, "label", 1)
            document = name_of(message, "doc_id")
            documents = documents and document is not None
            shares = []
            if grades:
                shares = numbers_of(message, "label_distribution", grades)
            else:
                expect(not values_of(message, "label_distribution")[1])
            if label < 0:
                continue
            if grades:
                expect(grades > 1 and min(shares) >= 0 and abs(sum(shares) - 1) < 1e-3)
                distributions.append(shares)
            items.append((query, label, dict(enumerate(features)), document))
    expect(items)
    if not documents:
        items = [(*item[:3], None) for item in items]
    return items, width, distributions


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
)
@example(COLLECTIONS[0], [], None, None, True)
def test_damaged_elwc(protos, changes, of_record, of_file, compressed):
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
        items, width, shares = read_protos(records, "file")
    except RefusedError:
        items = None
    event("wrong" if items is None else "right")
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "file")
        path.write_bytes(content)
        try:
            lists = data.read_elwc(path)
        except data.DataFormatError as error:
            assert items is None, f"refused: {error}"
            told = str(error)
            assert told.startswith(f"{path}: ")
            place = re.match(r"record (\d+)[:,]", told[len(f"{path}: ") :])
            whole = re.search("gzip|no records|all labels are negative", told)
            assert whole or 1 <= int(place[1]) <= len(records) + 1
            return
    assert items is not None, "accepted"
    check(lists, items, width)
    if shares:
        expected = np.array(shares, np.float32)
        np.testing.assert_array_equal(lists.label_distributions, expected)
    else:
        assert lists.label_distributions is None


@fuzz(2000)
@given(
    st.sampled_from(COLLECTIONS),
    PLACES,
    mutations(["flip", "replace", "flip", "delete"], st.binary(max_size=4), 3),
)
def test_damaged_records_of_the_same_size(protos, at, changes):
    """The fast path accepts what the reference does, or says nothing."""
    records = [proto.SerializeToString() for proto in protos]
    schema = data.ElwcSchema()
    widths = diagnosis.measure(records[0], "file", schema)
    fast = arrays.FastParser(schema, widths)
    assert fast.parse(records) is not None  # And learns their layouts.
    at = at % len(records)
    record = mutate_bytes(records[at], changes)
    chunk = fast.parse([record])
    event("in doubt" if chunk is None else "accepted")
    if chunk is None:
        return
    # Widths are those of the first record; its items are left out of what is compared.
    first = input_pb2.ExampleListWithContext.FromString(records[0])
    first.context.features.feature["query_id"].bytes_list.value[0] = b"the-first"
    judged = chunk.labels >= 0
    items, _, shares = read_protos([first.SerializeToString(), record], "file")
    items = items[len(first.examples) :]
    assert [label for _, label, _, _ in items] == chunk.labels[judged].tolist()
    for (_, _, features, _), row in zip(items, chunk.features[judged]):
        assert np.float32(list(features.values())).tolist() == row.tolist()
    names = [query for query, _, _, _ in items]
    assert set(names) <= {chunk.query_ids[0] or "file:2"}
    if chunk.distributions is not None:
        expected = np.array(shares[len(first.examples) :], np.float32)
        found = chunk.distributions[judged]
        np.testing.assert_array_equal(found.ravel(), expected.ravel())
