"""Damaged runs, qrels and scores are refused by name, or read as plain loops do."""

import ast
import io
import math
import re
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.damage import (
    KINDS,
    RefusedError,
    expect,
    fuzz,
    mutate_bytes,
    mutations,
    text_of,
    unzipped,
)
from tests.files import in_files
from tfr_ext import evaluation

LARGEST = (2 - 2**-23) * 2.0**127
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
COUNT = re.compile(r"Q?\d+", re.ASCII)
INSERTED = st.sampled_from(
    [
        *(b"\0", b"_", b"#", b"# by X\n", b"\n", b" ", b"\t", b"\r", b"-", b".", b"e"),
        *(b"nan", b"inf", b"2.0", b"1_0", b"16777217", b"9" * 40, b"9" * 5000),
        *(b"1e400", b"3.4028235677973366e38", b"\xd9\xa3", b"\xc2\xa0", b"%C2%A0"),
        *(b"-1", b"(", b"'", b"12,", b"1000000000000,", b"True", b"L", b">f4", b"|O"),
    ]
)
CHANGES = mutations(KINDS, INSERTED, 3)
RUN = """q1 Q0 a 1 2.5 t
#q2 Q0 a 1 -1e-3 t
# by X
a\u00a0b Q0 %C2%A0 1 7 t more
q1 Q0 #b 2 .5 t
"""
QRELS = "q1 0 a 2\n#q2 0 a -1\n# by X\na\u00a0b 0 %C2%A0 0\nq1 0 #b 1\n"
SCORES = "2.5\n-1e-3\n7\n.5\n"


def lines_of(content):
    text = text_of(unzipped(content).removeprefix(b"\xef\xbb\xbf"))
    return [line.removesuffix("\r") for line in text.split("\n")]


def fields(content, count, grade, counts):
    """Query, document and number of each line; `grade` is the place of the number."""
    for line in lines_of(content):
        expect("\0" not in line)
        cells = re.findall(r"[^ \t\r\v\f]+", line)
        if not cells:
            continue
        several = count == 6 and len(cells) > 6 and "\r" not in line
        fits = len(cells) == count or several
        number = fits and NUMBER.fullmatch(cells[grade]) and float(cells[grade])
        if count == 4:
            fits = fits and re.fullmatch(r"[+-]?[0-9]+", cells[3])
            fits = fits and abs(number) <= 2**24
        else:
            # Halfway to the next power of two, and from there on, it is infinite.
            fits = fits and isinstance(number, float) and abs(number) < LARGEST + 2**103
        is_name = fits and all(COUNT.fullmatch(cells[i]) for i in counts)
        if cells[0][0] != "#" or is_name:
            expect(fits)
            yield cells[0], cells[2], number


def in_words(rows):
    found, names = {}, {}
    for query, document, value in rows:
        documents = found.setdefault(in_files(query), {})
        expect(names.setdefault(in_files(query), query) == query)
        expect(in_files(document) not in documents)
        documents[in_files(document)] = value
    return found


def plain_run(content):
    rows = fields(content, 6, 4, (1, 3))
    return in_words(
        (q, d, struct.unpack("f", struct.pack("f", x))[0]) for q, d, x in rows
    )


def plain_qrels(content):
    found = in_words((q, d, max(x, 0)) for q, d, x in fields(content, 4, 3, (1,)))
    expect(found)
    return found


def plain_scores(content):
    lines = [line.strip(" \t") for line in lines_of(content)]
    while lines and not lines[-1]:
        lines.pop()
    expect(len(lines) == 4 and all(map(NUMBER.fullmatch, lines)))
    expect(all(abs(float(line)) <= LARGEST for line in lines))
    return list(map(float, lines))


def plain_array(content):
    """One of version 1.0 that NumPy itself would write, or one of Python 2."""
    expect(content[:8] == b"\x93NUMPY\x01\x00" and len(content) > 10)
    start = 10 + int.from_bytes(content[8:10], "little")
    header = content[10:start].decode("latin1")
    try:
        about = ast.literal_eval(re.sub(r"(\d)\s*L\b", r"\1", header))
        expect(sorted(about) == ["descr", "fortran_order", "shape"])
        expect(isinstance(about["fortran_order"], bool) and about["shape"] == (4,))
        order, code = re.fullmatch("([<>=|]?)(f[248]?)", about["descr"]).groups()
        code = {"f2": "e", "f8": "d"}.get(code, "f")
        order = order if order == ">" else "<"
        found = struct.unpack(f"{order}4{code}", content[start:])
    except (AttributeError, SyntaxError, TypeError, ValueError, struct.error):
        raise RefusedError from None
    expect(all(map(math.isfinite, found)))
    expect(all(abs(x) <= LARGEST for x in found))
    return list(found)


def read_qrels(path):
    lists = evaluation.read_qrels(path)
    found = {query: {} for query in lists.query_ids}
    queries = np.repeat(lists.query_ids, lists.lengths)
    for query, document, label in zip(queries, lists.doc_ids, lists.labels.tolist()):
        found[query][document] = label
    return found


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


READERS = {
    "run": (RUN.encode(), lambda path: evaluation.read_run(path).documents, plain_run),
    "qrels": (QRELS.encode(), read_qrels, plain_qrels),
    "scores": (
        SCORES.encode(),
        lambda p: [*evaluation.read_scores(p, 4)],
        plain_scores,
    ),
    "a.npy": (
        saved(np.float32([2.5, -1, 7, 0.5])),
        lambda path: [*evaluation.read_scores(path, 4)],
        plain_array,
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("name", READERS)
@fuzz(300)
@given(CHANGES)
def test_damaged_files(folder, name, changes):
    content, read, plain = READERS[name]
    content = mutate_bytes(content, changes)
    path = folder / name
    path.write_bytes(content)
    try:
        expected = plain(content)
    except RefusedError:
        with pytest.raises(ValueError, match=f"^{path}:"):
            read(str(path))
        return
    assert read(str(path)) == expected
