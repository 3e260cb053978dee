"""Reads TFRecord files, plain or gzipped, and reports damaged records."""

from __future__ import annotations

import gzip
import itertools
import struct
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.data import text_files
from tfr_ext.data.batches import batch_datasets
from tfr_ext.data.errors import DataFormatError

_GZIP = b"\x1f\x8b"
_HEADER = struct.Struct("<QI")  # Length of a record, and the checksum of these bytes.
_FRAME_BYTES = _HEADER.size + 4
_BUFFER_BYTES = 1 << 20
# A chain of datasets of more files would need too large a stack.
_FILES_AT_ONCE = 64
# Records have about the same size if padding makes all of them at most so much longer,
# and no piece longer than this.
_MOST_PADDED = 1.75
_MOST_PADDED_BYTES = 1 << 24


def read_records(
    path: str, records_per_piece: int, check: bool = True
) -> Iterator[tf.Tensor]:
    """Yields the records of a file, some at a time, as strings `[records]`.

    `check` compares the lengths of the records with the size of the file first, for
    which a gzipped file is decompressed as a whole: TensorFlow takes a truncated gzip
    file for a complete one, and a wrong length with a correct checksum ends the
    process. A file that was read before needs no check. The records before a damaged
    one are yielded before the error.
    """
    dataset, size = _records(path)
    dataset = dataset.with_options(batch_datasets.without_optimizations())
    too_long = ""
    if check:
        lengths, size, too_long = _survey(path, size)
        if too_long:
            dataset = dataset.take(len(lengths))
    count = position = 0
    try:
        for records in dataset.batch(records_per_piece).prefetch(2):
            count += len(records)
            position += _bytes(records)
            yield records
    except tf.errors.OpError as first_error:
        # Good records may have been lost with the bad one, so read one by one.
        good: list[tf.Tensor] = []
        problem = ""
        try:
            for record in dataset.skip(count):
                good.append(record)
        except tf.errors.OpError as error:
            problem = batch_datasets.message(error)
        if good:
            records = tf.stack(good)
            count += len(good)
            position += _bytes(records)
            yield records
        if not problem:  # The same read did not fail again.
            if size in (None, position):
                return
            problem = too_long or batch_datasets.message(first_error)
    else:
        if size in (None, position):
            return
        problem = too_long or f"{size - position} bytes, too few for the head of one"
    raise DataFormatError(
        f"record {count + 1}: expected a whole TFRecord. Found: {problem}", path
    )


def map_records(
    paths: Sequence[str],
    records_per_piece: int,
    function: Callable[[bool], tf.types.experimental.ConcreteFunction],
) -> Generator[dict[str, tf.Tensor] | None]:
    """Yields the results of a graph function for the pieces of some files of records.

    After each file comes None. The results end before the first piece with which
    anything is wrong: `read_records` says what. Files are joined, because it takes as
    long to start a dataset with a function as to read 50 MB.

    `function` takes whether the records of a piece have about the same size, and
    returns what maps records `[records]` to tensors by name, among them `record_bytes`,
    the size of each record.
    """
    for start in range(0, len(paths), _FILES_AT_ONCE):
        some = paths[start : start + _FILES_AT_ONCE]
        sound, pieces, are_even = [], None, True
        for path in some:
            try:
                records, size = _records(path)
                lengths, size, problem = _survey(path, size)
            except (DataFormatError, OSError, tf.errors.OpError):
                break
            if problem or not lengths:
                break
            are_even &= _are_even(lengths, records_per_piece)
            sound.append((-(-len(lengths) // records_per_piece), size))
            part = records.batch(records_per_piece)
            pieces = part if pieces is None else pieces.concatenate(part)
        if pieces is None:
            return
        iterator = iter(batch_datasets.in_parallel(pieces, function(are_even)))
        for number, size in sound:
            position = 0
            for _ in range(number):
                try:
                    found = next(iterator, None)
                except (tf.errors.OpError, UnicodeDecodeError):  # In its message.
                    return
                if found is None:  # TensorFlow finds fewer records.
                    return
                sizes = found["record_bytes"].numpy()
                position += int(sizes.sum(dtype=np.int64)) + _FRAME_BYTES * len(sizes)
                yield found
            if position != size:
                return
            yield None
        if len(sound) < len(some):
            return


def _records(path: str) -> tuple[tf.data.Dataset, int | None]:
    """Returns the records of a file, and its size if it is not gzipped."""
    if text_files.is_pipe(path):
        raise DataFormatError(f"{path} is a pipe, expected a file of TFRecords", path)
    compression = "GZIP" if _is_gzip(path) else ""
    records = batch_datasets.read([path], compression)
    return records, None if compression else tf.io.gfile.stat(path).length


def each_record(path: str) -> Iterator[bytes]:
    """Yields the records of a file, the first one before the others are looked at."""
    first = first_record(path)
    if first is not None:
        yield first
        pieces = (piece.numpy().tolist() for piece in read_records(path, 16))
        yield from itertools.islice(itertools.chain.from_iterable(pieces), 1, None)


def first_record(path: str, check: bool = True) -> bytes | None:
    """Returns the first record of a file, None if there is none; checks no other."""
    if check:
        _, _, problem = _survey(path, _records(path)[1], most=1)
        if problem:
            raise DataFormatError(
                f"record 1: expected a whole TFRecord. Found: {problem}", path
            )
    records = next(read_records(path, 1, check=False), None)
    return None if records is None else records.numpy()[0]


def _are_even(lengths: list[int], records_per_piece: int) -> bool:
    """True if padding to equal lengths is cheap."""
    starts = np.arange(0, len(lengths), records_per_piece)
    counts = np.diff(np.append(starts, len(lengths)))
    padded = np.maximum.reduceat(lengths, starts) * counts
    return bool(
        padded.sum() <= _MOST_PADDED * sum(lengths)
        and padded.max() <= _MOST_PADDED_BYTES
    )


def _bytes(records: tf.Tensor) -> int:
    """Returns how many bytes of a file some records take."""
    content = np.sum(tf.strings.length(records).numpy(), dtype=np.int64)
    return int(content) + _FRAME_BYTES * len(records)


def _is_gzip(path: str) -> bool:
    with text_files.open_binary(path) as file:
        head = file.read(_HEADER.size)
    if head[:2] != _GZIP:
        return False
    # A record of 35,615 bytes begins in the same way, but then its checksum is right.
    return len(head) < _HEADER.size or _HEADER.unpack(head)[1] != _checksum(head[:8])


def _checksum(data: bytes) -> int:
    """Returns the masked CRC-32C that TFRecords have; for a few bytes only."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 & -(crc & 1))
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _survey(
    path: str, size: int | None, most: int | None = None
) -> tuple[list[int], int, str]:
    """Walks up to `most` records by their lengths; `size` is None for gzip.

    Returns the lengths of the records that the file has room for, the size of its
    content, and what is wrong with the length of the next record, if anything.
    """
    lengths: list[int] = []
    position = 0
    problem = ""
    with text_files.open_binary(path) as raw:
        file = raw if size is not None else gzip.GzipFile(fileobj=raw, mode="rb")
        try:
            while (
                not problem
                and len(lengths) != most
                and len(head := file.read(_HEADER.size)) == _HEADER.size
            ):
                rest = _HEADER.unpack(head)[0] + _FRAME_BYTES - _HEADER.size
                position += _HEADER.size
                left = _skip(file, rest, None if size is None else size - position)
                if left < rest:
                    problem = (
                        f"a length of {rest - 4:,} bytes, but the file ends after "
                        f"{left:,}"
                    )
                else:
                    lengths.append(rest - 4)
                position += left
        except (EOFError, OSError, zlib.error) as error:
            raise DataFormatError(
                f"expected a whole gzip file. Found: {error}", path
            ) from error
    return lengths, position + (0 if problem else len(head)), problem


def _skip(file: Any, count: int, left: int | None) -> int:
    """Skips bytes of a file, and returns how many there were."""
    if left is not None:
        if count <= left:
            file.seek(file.tell() + count)
        return min(count, left)
    skipped = 0
    while skipped < count:
        found = len(file.read(min(count - skipped, _BUFFER_BYTES)))
        if not found:
            break
        skipped += found
    return skipped
