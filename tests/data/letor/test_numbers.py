"""The numbers that the LETOR reader reads, fast and slowly, and those of peers."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from tests.data.letor.good import GOOD
from tfr_ext.data import text_files
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.letor import arrays, diagnosis
from tfr_ext.data.letor.reading import read_letor


def random_numbers(count):
    rng = random.Random(0)
    formats = ["%.0f", "%.1f", "%.6f", "%.8f", "%.9f", "%.16g", "%.17g", "%e", "%r"]
    for _ in range(count):
        scale = 10.0 ** rng.randint(-8, 8)
        yield rng.choice(formats) % (rng.uniform(-1, 1) * scale)
        digits = "".join(rng.choices("0123456789", k=rng.randint(1, 24)))
        dot = rng.randint(0, len(digits))
        yield rng.choice(["", "-", "+"]) + digits[:dot] + "." + digits[dot:]
        yield f"{rng.randint(0, 10**9)}e{rng.randint(-60, 28):+d}"
        yield f"{rng.randint(0, 999) / 10}E{rng.randint(-120, 35)}"  # As Java does.
        yield f"-{rng.random()}e{rng.randint(-60, 37):+04d}"  # As Windows did.
    yield from "0 -0 -0.0 0. .5 -.5 +.5e-3 5.E+3 00001 -00.10".split()
    yield from "0e9999 1e-9999 123456789012345678901234e-30 0000000000000.1".split()
    yield from "1e-400 1e-45 7e-46 7.1e-46 1.1754943e-38".split()
    yield from "16777217 9007199254740993 99999999.99999999 3.4028235e38".split()
    # Halfway between two float32, and beside it, is where a small error shows.
    low = np.float32(
        [rng.uniform(0, 9) * 10.0 ** rng.randint(-44, 36) for _ in "x" * 99]
    )
    middle = (low.astype(float) + np.nextafter(low, np.float32(np.inf))) / 2
    for number in (*middle, *np.nextafter(middle, 0), *np.nextafter(middle, np.inf)):
        yield from (f % number for f in ("%.16e", "%.17g", "%.20e", "%.24g", "%.40f"))


def test_values_are_what_float32_of_float_is(write):
    tokens = list(random_numbers(4000))
    expected = np.array([float(token) for token in tokens]).astype(np.float32)
    text = "".join(f"1 qid:1 1:{token}\n" for token in tokens).encode()
    assert arrays.parse_fast(text, 1, None, 0.0) is not None
    slow = diagnosis.parse_slowly(text, "", 1, None, 0.0).value
    for found in (read_letor(write(text)).features[:, 0], slow):
        np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


def test_labels_are_what_float32_of_float_is(write):
    tokens = [token for token in random_numbers(300) if float(token) > 0]
    tokens = [token for token in tokens if float(token) < 3e38]
    text = "".join(f"{token} qid:1 1:1\n" for token in tokens).encode()
    expected = np.array([float(token) for token in tokens]).astype(np.float32)
    np.testing.assert_array_equal(read_letor(write(text)).labels, expected)


@pytest.mark.parametrize("density", [0.02, 0.5, 1.0])
@pytest.mark.parametrize("chunk_bytes", [1000, 1 << 19])
def test_equals_sklearn(tmp_path, monkeypatch, density, chunk_bytes):
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", chunk_bytes)
    rng = np.random.default_rng(1)
    x = rng.normal(size=[300, 40]) * 10.0 ** rng.integers(-9, 9, [300, 40])
    x[rng.random(x.shape) >= density] = 0
    y, qid = rng.integers(0, 5, 300), np.repeat(np.arange(30), 10)
    path = str(tmp_path / "data.txt")
    dump_svmlight_file(x, y, path, query_id=qid, zero_based=False)
    theirs, labels, queries = load_svmlight_file(
        path, query_id=True, n_features=40, zero_based=False
    )
    lists = read_letor(path, num_features=40)
    dense = theirs.toarray().astype(np.float32)
    np.testing.assert_array_equal(lists.features, dense)
    np.testing.assert_array_equal(lists.labels, labels)
    found = np.repeat([int(name) for name in lists.query_ids], lists.lengths)
    np.testing.assert_array_equal(found, queries)


SEEDS = [
    GOOD,
    GOOD.replace(b"\n", b"\r\n").replace(b" ", b"  "),
    re.sub(rb"#.*", b"", GOOD),
    b"1 qid:7 3:1e-5 9:NULL 12:0.123456789012\n# c\n\n0.5 qid:a:b.c\t1:-7.25 \n2 qid:9",
    b"0 qid:1 1:0.000000 2:12345678.12345678 3:99999999 4:123456789\n" * 2,
    b"1 qid:1 1:1 2:2 1:3 7:NULL 7:4\n# c\n0 qid:1 5:1 5:NULL 05:2\n0 qid:2 2:1\n",
    b"3 qid:1 1:-1.5E-4 2:+1e5 3:12.123456789012e-005 4:1E7 5:.5e+01\n" * 2,
]
BITS = [
    *(bytes([x]) for x in b"0123456789:.-+eE#\t\n\r \x00\x0b\x7f\xff_xN,"),
    *(b"qid:", b"NULL", b" 1:2", b"1:", b":2", b" qid:3", b"1e400", b"#docid=x", b"  "),
    *(b" 2:5", b" 7:NULL", b" 01:8"),
    *(b"nan", b"inf", b"0x1", b"1e", b"00000000", b"\r\n", b"1 qid:5 1:1\n"),
]


def read_both(text, num_features):
    """Reads text with both parsers, which must agree; returns whether the fast did."""
    fast = arrays.parse_fast(text, 5, num_features, -9.0)
    try:
        slow = diagnosis.parse_slowly(text, "f", 5, num_features, -9.0)
    except DataFormatError as error:
        assert fast is None, (text, error)
        assert error.line is not None and "expected" in str(error)
        return False
    if fast is None:
        return False
    for name in ("labels", "counts", "index", "value"):
        ours, theirs = getattr(fast, name), getattr(slow, name)
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_array_equal(ours, theirs, err_msg=repr(text))
        assert ours.tobytes() == theirs.tobytes()
    assert list(fast.lines) == slow.lines
    assert fast.query_ids == slow.query_ids
    assert fast.num_null == slow.num_null
    assert list(fast.repeats) == list(slow.repeats)
    assert (fast.doc_ids or None) == (slow.doc_ids or None)
    return True


def test_fast_and_slow_reading_agree_on_mutations():
    rng = random.Random(7)
    accepted = 0
    for _ in range(6000):
        text = rng.choice(SEEDS)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            at = rng.randrange(len(text))
            cut = rng.choice([0, 0, 1, 1, 2, 5])
            text = text[:at] + rng.choice([*BITS, b""]) + text[at + cut :]
        text = text if text.endswith(b"\n") else text + b"\n"
        accepted += read_both(text, rng.choice([None, 12]))
    assert 1000 < accepted < 5000  # Both outcomes were put to the test.


def test_fast_reading_takes_good_text():
    # Else speed would be lost without a word.
    for text in SEEDS:
        assert read_both(text.rstrip(b"\n") + b"\n", None)
