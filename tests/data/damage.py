"""Ways to damage files, and to compare what is read of them.

TFR_EXT_FUZZ=20000 tries so many files of each format, of new ones in each run.
"""

import bz2
import gzip
import io
import lzma
import os
import zlib

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

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


def pack_gzip(content):
    return gzip.compress(content, mtime=0)


PACKERS = {"gzip": pack_gzip, "bzip2": bz2.compress, "xz": lzma.compress}


def unzipped(content):
    expect(content[:4] not in (b"PK\3\4", b"\x28\xb5\x2f\xfd"))
    if content[:2] == b"\x1f\x8b":
        try:
            return gzip.GzipFile(fileobj=io.BytesIO(content)).read()
        except (EOFError, OSError, zlib.error):
            raise RefusedError from None
    magic = content[:3] == b"BZh" and b"1" <= content[3:4] <= b"9"
    if magic and content[4:10].hex() in ("314159265359", "177245385090"):
        new = bz2.BZ2Decompressor
    elif content[:6] == b"\xfd7zXZ\0":
        new = lzma.LZMADecompressor
    else:
        return content
    whole = b""
    while content:
        stream = new()
        try:
            whole += stream.decompress(content)
        except (OSError, lzma.LZMAError):
            raise RefusedError from None
        expect(stream.eof)
        content = stream.unused_data.lstrip(b"\0")
    return whole


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


KINDS = ["flip", "insert", "replace", "delete", "cut", "repeat", "double"]
PLACES = st.integers(0, 1 << 16)


def mutations(kinds, inserted, most):
    one = st.tuples(st.sampled_from(kinds), PLACES, PLACES, inserted)
    return st.lists(one, max_size=most)
