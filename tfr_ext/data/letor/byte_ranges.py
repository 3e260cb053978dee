"""Divides LETOR files among several readers, into byte ranges of whole queries.

Every range begins where a query begins, so it can be read like a file. Lines are
counted only when an error has to name one.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf

from tfr_ext.core import checks
from tfr_ext.data import text_files
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.letor import reading
from tfr_ext.data.letor.diagnosis import Chunk
from tfr_ext.data.lists import RankingLists

_BLOCK_BYTES = 1 << 20
_QUERY = re.compile(rb"[ \t]*[^\x00-\x20\x7f#]+[ \t]+qid:([^\x00-\x20\x7f#]+)")


@dataclasses.dataclass(frozen=True)
class TextRange:
    """Some whole queries of a LETOR file.

    Attributes:
        path: the file.
        start: byte at which its first query begins; 0 for the beginning of the file.
        end: byte before which its last query ends; None for the end of the file.
    """

    path: str
    start: int = 0
    end: int | None = None

    def __str__(self) -> str:
        """Returns the range as messages name it."""
        if not self.start and self.end is None:
            return self.path
        return f"{self.path}, bytes {self.start} to {self.end or 'its end'}"


@dataclasses.dataclass(frozen=True)
class Survey:
    """The facts about some lists after one pass that keeps nothing else.

    Attributes:
        queries: number of lists.
        num_features: the largest feature index.
        has_doc_ids: whether every item has a document id.
    """

    queries: int
    num_features: int
    has_doc_ids: bool


def split_file(path: str, range_bytes: int) -> list[TextRange]:
    r"""Cuts a file into ranges of whole queries.

    A range ends where a query begins, at the latest with the second query after
    `range_bytes`. Only the text around the cuts is read. A packed file is one range.

    Args:
        path: the file, on any file system that `tf.io.gfile` knows.
        range_bytes: the smallest size of a range, except the last; at least 1.

    Raises:
        ValueError: If `range_bytes` is less than 1, or the path names a pipe.

    Examples:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "train.txt")
        >>> with open(path, "w") as file:
        ...     _ = file.write("2 qid:1 1:1\n0 qid:1 1:0\n1 qid:2 1:5\n1 qid:3 1:7\n")
        >>> [(part.start, part.end) for part in split_file(path, range_bytes=8)]
        [(0, 24), (24, None)]
    """
    checks.at_least("range_bytes", range_bytes, 1)
    if text_files.is_pipe(path):
        raise ValueError(
            f"{path} is a pipe, expected a file, because its parts are read more than "
            "once. Write the contents of the pipe to a file first."
        )
    size = tf.io.gfile.stat(path).length
    starts = [0]
    if not text_files.is_packed(path):
        while starts[-1] + range_bytes < size:
            start = _next_query(path, starts[-1] + range_bytes)
            if start is None:
                break
            starts.append(start)
    return [
        TextRange(path, start, end) for start, end in zip(starts, [*starts[1:], None])
    ]


def read_range(
    text: TextRange, num_features: int, missing_value: float = 0.0
) -> Iterator[RankingLists]:
    """Reads a range piece by piece, with memory that does not grow with the range.

    Args:
        text: the range.
        num_features: width of the lists, and the largest index accepted.
        missing_value: what the value `NULL` becomes.

    Yields:
        The lists, in order: those that `read_letor` reads from this part of the file.

    Raises:
        DataFormatError: If the text does not have the format of `read_letor`; the
            message names the file and the line in it.
    """

    def pieces(first_line: int) -> Iterator[RankingLists]:
        lists = reading.ListsBuilder(num_features)
        chunks = _chunks(text, num_features, missing_value, first_line)
        yield from lists.take_pieces(chunks, text.path)
        lists.end_file(text.path)
        lists.warn_of_changes(missing_value, text, lambda: _lines_before(text))
        yield lists.finish()

    return _with_lines(text, pieces)


def survey_range(text: TextRange, num_features: int | None = None) -> Survey:
    """Counts the queries and features of a range, and checks its lines.

    Args:
        text: the range.
        num_features: the largest index accepted; None for any.

    Raises:
        DataFormatError: If a line is wrong, as `read_range` says.
    """

    def chunks(first_line: int) -> Iterator[Chunk]:
        return _chunks(text, num_features, 0.0, first_line)

    queries = width = 0
    has_doc_ids = True
    last: str | None = None
    for chunk in _with_lines(text, chunks):
        names = chunk.query_ids
        if names:
            queries += (names[0] != last) + sum(map(operator.ne, names[1:], names))
            last = names[-1]
        width = max(width, int(chunk.index.max(initial=0)))
        has_doc_ids &= chunk.doc_ids is not None
    return Survey(queries, num_features or width, has_doc_ids)


def find_query(text: TextRange, query_id: str) -> str:
    """Returns where a query begins in a range, as `path:line`."""
    first_line = 1 + _lines_before(text)
    for chunk in _chunks(text, None, 0.0, first_line):
        if query_id in chunk.query_ids:
            line = chunk.lines[chunk.query_ids.index(query_id)]
            return f"{text.path}:{line}"
    raise ValueError(f"Query {query_id!r} is not in {text}.")


def _chunks(
    text: TextRange, num_features: int | None, missing_value: float, first_line: int
) -> Iterator[Chunk]:
    return reading.read_chunks(
        text.path, num_features, missing_value, text.start, text.end, first_line
    )


def _with_lines(text: TextRange, read: Callable[[int], Iterable]) -> Iterator:
    """Reads the range like a file; after an error, with the file's line numbers."""
    try:
        yield from read(1)
    except DataFormatError:
        if text.start:
            for _ in read(1 + _lines_before(text)):
                pass
        raise


def _lines_before(text: TextRange) -> int:
    """Counts the lines of the file before the range."""
    if not text.start:
        return 0
    pieces = text_files.read_pieces(text.path, 0, text.start)
    return sum(piece.count(b"\n") for _, piece in pieces)


def _next_query(path: str, place: int) -> int | None:
    """Finds a query that begins after the first that begins at byte `place` or later.

    Returns None if there is no such query before the end, or before a line that is too
    long, which the reader will report. `place` is at least 1.
    """
    query: bytes | None = None
    with text_files.open_binary(path) as file:
        file.seek(place - 1)
        begun: list[bytes] = []  # The start of an unfinished line.
        at = place - 1  # Where that line begins, or the search.
        first = True
        while True:
            block = file.read(_BLOCK_BYTES)
            if not block:
                return None
            begun.append(block)
            if b"\n" not in block:
                if len(begun) * _BLOCK_BYTES > text_files.MAX_LINE_BYTES:
                    return None
                continue
            *lines, rest = b"".join(begun).split(b"\n")
            begun = [rest]
            for line in lines:
                found = None if first else _QUERY.match(line)
                first = False
                if found and query is not None and found[1] != query:
                    return at
                if found:
                    query = found[1]
                at += len(line) + 1
