"""Reads text files: their bytes, lines and words.

All readers of text use this module, so that they all treat a byte order mark, packed
files, a pipe and a line without an end in the same way.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import importlib
import io
import itertools
import os
import re
import shlex
import stat
import sys
import urllib.parse
import zlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfr_ext.data.errors import DataFormatError

MAX_LINE_BYTES = 64 << 20
"""A longer line is an error: it is rarely text, and would have to be held in memory."""

STANDARD_INPUT = "/dev/stdin"
"""The path that stands for standard input."""

# A chunk's arrays should fit the processor's cache, so more is slower.
_CHUNK_BYTES = 1 << 19
# The byte order mark that some editors write at the beginning of a file.
_MARK = b"\xef\xbb\xbf"
# How other encodings begin: with a mark, or with ASCII characters without one.
_OTHER_ENCODING = re.compile(
    rb"(?P<UTF_32>\xff\xfe\0\0|\0\0\xfe\xff)|(?P<UTF_16>\xff\xfe|\xfe\xff)"
    rb"|(?P<UTF_32LE>[\x01-\x7f]\0{3})|(?P<UTF_32BE>\0{3}[\x01-\x7f])"
    rb"|(?P<UTF_16LE>(?:[\x01-\x7f]\0){2})|(?P<UTF_16BE>(?:\0[\x01-\x7f]){2})"
)
# How packed files begin; a column of a table may well be called `BZh`.
_PACKED = re.compile(
    rb"(?P<gzip>\x1f\x8b)|(?P<bzip2>BZh[1-9](?:1AY&SY|\x17rE8P\x90))"
    rb"|(?P<xz>\xfd7zXZ\0)|(?P<zip>PK\x03\x04)|(?P<zstd>\(\xb5/\xfd)"
)
_HEAD_BYTES = 10  # As many as these need.
# Imported when needed: a Python may have been built without them.
_UNPACKERS = {"bzip2": ("bz2", "BZ2Decompressor"), "xz": ("lzma", "LZMADecompressor")}
_WORD = re.compile(r"[^ \t\r\v\f]+")
_NOT_IN_A_WORD = re.compile(r"[\x00-\x20\x7f]")
# What `str.split` splits at, control characters, and what reads as a byte order mark.
_NOT_IN_A_NAME = re.compile(r"[\s\x00-\x1f\x7f-\x9f]|^\ufeff")


def is_pipe(path: str) -> bool:
    """Returns whether a path is a named pipe, which can be read only once."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):  # It may be on another file system, or nowhere.
        return False


def open_binary(path: str) -> Any:
    """Opens a file, on any file system that `tf.io.gfile` knows, to read its bytes."""
    if "://" in path:
        return tf.io.gfile.GFile(path, "rb")
    if is_pipe(path) and path != STANDARD_INPUT:
        print(
            f"{path} is a pipe: waiting until something is written to it.",
            file=sys.stderr,
            flush=True,
        )
    return open(path, "rb")


def is_packed(path: str) -> bool:
    """Returns whether a file, not a pipe, begins as a compressed one does."""
    with open_binary(path) as file:
        return _PACKED.match(file.read(_HEAD_BYTES)) is not None


@contextlib.contextmanager
def open_unpacked(path: str) -> Iterator[Any]:
    """Opens a file to read its bytes, decompressed if gzip, bzip2 or xz packed it.

    A damaged file raises a DataFormatError only when the damage is read.
    """
    with open_binary(path) as file:
        raw = file
        head = raw.read(_HEAD_BYTES)
        if raw.seekable():
            raw.seek(0)
        else:  # Nothing in a pipe can be read twice.
            rest = iter(functools.partial(file.read1, _CHUNK_BYTES), b"")
            raw = io.BufferedReader(_Pieces(itertools.chain([head], rest)))
        found = _PACKED.match(head)
        packer = str(found.lastgroup) if found else None
        if packer is None:
            yield raw
        elif packer in _UNPACKERS:
            yield io.BufferedReader(_Pieces(_unpacked(raw, packer, path)))
        elif packer == "gzip":
            try:
                yield gzip.GzipFile(fileobj=raw, mode="rb")
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise DataFormatError(
                    f"expected a whole gzip file. Found: {error}", path
                ) from error
        else:
            wanted = "expected text, or text that gzip, bzip2 or xz packed"
            found_file = f"Found: a {packer} file; unpack it first"
            raise DataFormatError(f"{wanted}. {found_file}", path)


def read_pieces(
    path: str, start: int = 0, end: int | None = None, first_line: int = 1
) -> Iterator[tuple[int, bytes]]:
    """Yields the text of a file in pieces that end with a line feed.

    Before each piece comes the number of its first line. The file is unpacked as by
    `open_unpacked`, and its byte order mark left out. The pieces begin at the byte
    `start`, 0 in a packed file, which is in line `first_line`, and end before the byte
    `end`.
    """
    line = first_line
    with open_unpacked(path) as file:
        if start:
            file.seek(start)
        begun: list[bytes] = []  # A line whose end is still to be read.
        held = 0  # Its bytes.
        marked = not start
        left = _CHUNK_BYTES if end is None else end - start
        while left > 0:
            text = file.read(min(_CHUNK_BYTES, left))
            if not text:
                break
            if marked and not begun:
                _check_encoding(text, path)
            if end is not None:
                left -= len(text)
            first = text.find(b"\n")
            if held + (len(text) if first < 0 else first) > MAX_LINE_BYTES:
                raise DataFormatError(
                    f"the line has more than {MAX_LINE_BYTES:,} bytes, expected a line "
                    "feed before that",
                    path,
                    line,
                )
            if first < 0:
                begun.append(text)
                held += len(text)
                continue
            stop = text.rfind(b"\n") + 1
            piece = b"".join([*begun, text[:stop]])
            begun = [text[stop:]]
            held = len(text) - stop
            yield line, piece.removeprefix(_MARK) if marked else piece
            marked = False
            line += piece.count(b"\n")
    rest = b"".join(begun)
    if marked:
        rest = rest.removeprefix(_MARK)
    if rest:
        yield line, rest + b"\n"


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    r"""Yields the lines of a text file, numbered from 1, without their ends.

    What `open_unpacked` can unpack is unpacked.

    Examples:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "run.trec")
        >>> with open(path, "w", encoding="utf-8-sig") as file:
        ...     _ = file.write("a\r\nb\n")
        >>> list(read_lines(path))
        [(1, 'a'), (2, 'b')]
    """
    for first, piece in read_pieces(path):
        try:
            text = piece.decode()
        except UnicodeDecodeError as error:
            line = first + piece.count(b"\n", 0, error.start)
            found = piece[error.start : error.end]
            raise DataFormatError(
                f"expected text in UTF-8. Found: the bytes {found!r}", path, line
            ) from None
        if "\0" in text:
            line = first + text.count("\n", 0, text.index("\0"))
            raise DataFormatError("unexpected NUL byte, expected text", path, line)
        for number, line_text in enumerate(text.split("\n")[:-1], first):
            yield number, line_text.removesuffix("\r")


def read_text(path: str) -> str:
    """Returns the text of a small file in UTF-8, without a byte order mark."""
    with open_binary(path) as file:
        content = file.read()
    _check_encoding(content, path)
    try:
        return content.removeprefix(_MARK).decode()
    except UnicodeDecodeError as error:
        raise DataFormatError(f"expected text in UTF-8. Found: {error}", path) from None


def words(line: str) -> list[str]:
    r"""Returns the words of a line, which ASCII blanks separate.

    `str.split` also splits at a no-break space, which names of queries and documents
    may contain.

    Examples:
        >>> words("q\u00a01 Q0\td")
        ['q\xa01', 'Q0', 'd']
    """
    # `str.split` is fast, and splits printable ASCII at blanks only.
    if line.isascii() and line.isprintable():
        return line.split()
    return _WORD.findall(line)


def check_word(word: str, what: str) -> str:
    """Returns a text if it is one word, without ASCII blanks and control characters."""
    if not word or _NOT_IN_A_WORD.search(word):
        shown = word if len(word) <= 40 else word[:40] + "..."
        raise ValueError(
            f"{what} is {shown!r}, expected text without blanks, as TREC files need"
        )
    return word


def check_name(name: str, what: str) -> str:
    """Returns the name of a query or document if files can hold it."""
    try:
        if name.encode():
            return name
    except UnicodeEncodeError:
        pass
    raise ValueError(f"{what} is {name!r}, expected text in UTF-8 that is not empty")


def encoded_name(name: str) -> str:
    r"""Returns the name of a query or document as a word, as TREC files hold it.

    Each byte of the UTF-8 of a blank, at which `str.split` splits, or of a control
    character is written as %XX, and so is a byte order mark at the beginning. Names
    without these stay as they are.

    Examples:
        >>> encoded_name("red shoes"), encoded_name("a\u00a0b"), encoded_name("100%")
        ('red%20shoes', 'a%C2%A0b', '100%')
    """
    return _NOT_IN_A_NAME.sub(lambda found: urllib.parse.quote(found[0]), name)


def _check_encoding(head: bytes, path: str) -> None:
    """Raises an error if a file begins as UTF-16 or UTF-32 does."""
    found = _OTHER_ENCODING.match(head)
    if found:
        name = str(found.lastgroup).replace("_", "-")
        raise DataFormatError(
            f"expected text in UTF-8. Found: {name}. Convert it: "
            f"iconv -f {name} -t UTF-8 {shlex.quote(path)} > NEW_FILE",
            path,
        )


class _Pieces(io.RawIOBase):
    """A file of pieces of bytes, one after the other."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _unpacked(file: Any, packer: str, path: str) -> Iterator[bytes]:
    """Unpacks bzip2 or xz streams; only zeros may stand between them and at the end.

    Python's BZ2File and LZMAFile take a damaged stream after another for the end.
    """
    name, unpacker = _UNPACKERS[packer]
    module = importlib.import_module(name)
    wanted = f"expected a whole {packer} file. Found:"
    stream = None
    for packed in iter(functools.partial(file.read, _CHUNK_BYTES), b""):
        while stream or (packed := packed.lstrip(b"\0")):
            stream = stream or getattr(module, unpacker)()
            try:
                piece = stream.decompress(packed, _CHUNK_BYTES)
            except (OSError, getattr(module, "LZMAError", OSError)) as error:
                raise DataFormatError(f"{wanted} {error}", path) from error
            yield piece
            packed = b""
            if stream.eof:
                packed, stream = stream.unused_data, None
            elif stream.needs_input:
                break
    if stream:
        raise DataFormatError(f"{wanted} only its beginning", path)
