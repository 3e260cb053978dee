"""Damaged text: read right, or refused with its name and a place in it.

What is right, a reader written here says: plain loops by the documented format.
"""

import pathlib
import re
import tempfile

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from tests.data.damage import (
    KINDS,
    PACKERS,
    RefusedError,
    check,
    expect,
    fuzz,
    mutate_bytes,
    mutations,
    text_of,
    unzipped,
)
from tfr_ext import data

pytestmark = pytest.mark.grid

TEXTS = (
    b"2 qid:10 1:0.5 2:0 3:-1.25 #docid = GX-1 inc = 1\n"
    b"0 qid:10 1:1 2:2 3:3 #docid = GX-2 inc = 1\n"
    b"1 qid:11 1:0.1 2:0.2 3:0.3 #docid = GX-3 inc = 1\n",
    b"# title\n\n1 qid:a 3:1e-3 1:NULL\r\n0.5 qid:a\t2:+.5  4:7.\n"
    b"3 qid:b 4:123456789.123456789 # c\n0 qid:c",
    b"2 qid:a 1:1 2:2 1:3 02:NULL\n0 qid:b 3:NULL 2:1 3:5\n",
    b"".join(b"%d qid:%d 1:%d 2:0.%06d\n" % (i % 3, i // 4, i, i) for i in range(12)),
)
PIECES = st.sampled_from(
    [b" ", b"\t", b"\n", b"\r", b"\r\n", b":", b"#", b".", b"-", b"+", b"e", b"0"]
    + [b"9", b"NULL", b"nan", b"inf", b"qid:", b" 1:1", b"\0", b"\x7f", b"\xff"]
    + [b"1e39", b"-0", b"#docid = x y", b"docid=", b"\xef\xbb\xbf", "ä".encode()]
    + [b"00000000000000000000000001", b"1e-400", b"_", b"\n1 qid:z 1:1\n", b"\v"]
) | st.binary(min_size=1, max_size=3)


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
    expect(not re.match(rb"\xff\xfe|\xfe\xff", content))
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
    st.sampled_from(sorted(PACKERS)),
)
@example(TEXTS[0], [], None, None, "gzip")
def test_damaged_text(text, changes, num_features, changes_of_packed, packer):
    for change in changes:
        if change[0] == "swap":
            lines = text.split(b"\n")
            a, b = change[1] % len(lines), change[2] % len(lines)
            lines[a], lines[b] = lines[b], lines[a]
            text = b"\n".join(lines)
        else:
            text = mutate_bytes(text, [change])
    content = text
    if changes_of_packed is not None:
        content = mutate_bytes(PACKERS[packer](text), changes_of_packed)
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
                whole = content if changes_of_packed is None else unzipped(content)
                assert 1 <= error.line <= whole.count(b"\n") + 1
            return
    assert items is not None, "accepted"
    check(lists, items, width)
