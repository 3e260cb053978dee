"""Reads TFRecord files, plain or gzipped, and says what is damaged."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.data import text_files
from tfr_ext.data.errors import DataFormatError

_GZIP = b"\x1f\x8b"
_HEADER = struct.Struct("<QI")  # Length of a record, and the checksum of these bytes.
_FRAME_BYTES = _HEADER.size + 4
_BUFFER_BYTES = 1 << 20


def read_records(
    path: str, records_per_piece: int, check: bool = True
) -> Iterator[tf.Tensor]:
    """Yields the records of a file, some at a time, as strings `[records]`.

    Args:
        path: the file, on any file system that `tf.io.gfile` knows.
        records_per_piece: maximum number of records at a time.
        check: whether the lengths of the records are first compared with the size of
            the file, for which a gzipped file is decompressed as a whole. TensorFlow
            takes a truncated gzip file for a complete one, and a wrong length with a
            correct checksum ends the process. Not needed for a file that was read
            before.

    Raises:
        DataFormatError: at the first record that is damaged; those before it have been
            yielded.
    """
    if text_files.is_pipe(path):
        raise DataFormatError(f"{path} is a pipe, expected a file of TFRecords", path)
    compression = "GZIP" if _is_gzip(path) else ""
    size = None if compression else tf.io.gfile.stat(path).length
    # `tf.data.TFRecordDataset` traces functions, which takes as long as to read 20 MB.
    dataset = tf.data.experimental.from_variant(
        tf.raw_ops.TFRecordDataset(
            filenames=[path], compression_type=compression, buffer_size=_BUFFER_BYTES
        ),
        tf.TensorSpec([], tf.string),
    ).with_options(_as_it_is())
    too_long = ""
    if check:
        whole, size, too_long = _survey(path, size)
        if too_long:
            dataset = dataset.take(whole)
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
            problem = _message(error)
        if good:
            records = tf.stack(good)
            count += len(good)
            position += _bytes(records)
            yield records
        if not problem:  # The same read did not fail again.
            if size in (None, position):
                return
            problem = too_long or _message(first_error)
    else:
        if size in (None, position):
            return
        problem = too_long or f"{size - position} bytes, too few for the head of one"
    raise DataFormatError(
        f"record {count + 1}: expected a whole TFRecord. Found: {problem}", path
    )


def first_record(path: str, check: bool = True) -> bytes | None:
    """Returns the first record of a file; None if there is none.

    Args:
        path: see `read_records`.
        check: see `read_records`.

    Raises:
        DataFormatError: if the file is damaged before the end of that record.
    """
    records = next(read_records(path, 1, check), None)
    return None if records is None else records.numpy()[0]


def _as_it_is() -> tf.data.Options:
    """Returns options that leave a small dataset as it is, to start sooner."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return options


def _bytes(records: tf.Tensor) -> int:
    """Returns how many bytes of a file some records take."""
    content = np.sum(tf.strings.length(records).numpy(), dtype=np.int64)
    return int(content) + _FRAME_BYTES * len(records)


def _message(error: tf.errors.OpError) -> str:
    """Returns TensorFlow's message, without the place in its graph."""
    return error.message.rpartition("}}")[2].partition("[Op:")[0].strip()


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


def _survey(path: str, size: int | None) -> tuple[int, int, str]:
    """Goes from record to record by their lengths alone.

    Args:
        path: the file.
        size: its size; None if it is gzipped, and has to be decompressed.

    Returns:
        The number of records that the file has room for, the size of its content, and
        what is wrong with the length of the next record, if anything.
    """
    records = position = 0
    problem = ""
    with text_files.open_binary(path) as raw:
        file = raw if size is not None else gzip.GzipFile(fileobj=raw, mode="rb")
        try:
            while not problem and len(head := file.read(_HEADER.size)) == _HEADER.size:
                rest = _HEADER.unpack(head)[0] + _FRAME_BYTES - _HEADER.size
                position += _HEADER.size
                left = _skip(file, rest, None if size is None else size - position)
                if left < rest:
                    problem = (
                        f"a length of {rest - 4:,} bytes, but the file ends after "
                        f"{left:,}"
                    )
                else:
                    records += 1
                position += left
        except (EOFError, OSError, zlib.error) as error:
            raise DataFormatError(
                f"expected a whole gzip file. Found: {error}", path
            ) from error
    return records, position + (0 if problem else len(head)), problem


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
