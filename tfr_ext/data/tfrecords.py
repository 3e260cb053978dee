"""Reads TFRecord files, plain or compressed with gzip, and says what is damaged."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator

import tensorflow as tf

from tfr_ext.data.letor_diagnosis import DataFormatError

_GZIP = b"\x1f\x8b"
_HEADER = struct.Struct("<QI")  # Length of a record, and the checksum of these bytes.
_FRAME_BYTES = _HEADER.size + 4
_BUFFER_BYTES = 1 << 20


def read_records(
    path: str, records_per_piece: int, check_gzip: bool = True
) -> Iterator[list[bytes]]:
    """Yields the records of a file, some at a time.

    Args:
        path: the file, on any file system that `tf.io.gfile` knows.
        records_per_piece: most records at a time.
        check_gzip: whether a file compressed with gzip is first decompressed as a
            whole: TensorFlow takes one that was cut off for one that ends there. Not
            needed for a file that was read before.

    Raises:
        DataFormatError: at the first record that is damaged; those before it have been
            yielded.
    """
    size = None
    compression = "GZIP" if _is_gzip(path) else ""
    if not compression:
        size = tf.io.gfile.stat(path).length
    elif check_gzip:
        size = _check_gzip(path)
    dataset = tf.data.TFRecordDataset([path], compression, _BUFFER_BYTES)
    count = position = 0
    try:
        for piece in dataset.batch(records_per_piece).prefetch(2).as_numpy_iterator():
            count += len(piece)
            records = piece.tolist()
            position += sum(map(len, records)) + _FRAME_BYTES * len(records)
            yield records
    except tf.errors.OpError as first_error:
        # Good records may have been lost with it: one by one, then.
        records, problem = [], ""
        try:
            for record in dataset.skip(count).as_numpy_iterator():
                records.append(record)
        except tf.errors.OpError as error:
            problem = _message(error)
        if records:
            yield records
        count += len(records)
        position += sum(map(len, records)) + _FRAME_BYTES * len(records)
        if not problem:  # What failed has not failed again.
            if size in (None, position):
                return
            problem = _message(first_error)
    else:
        if size in (None, position):
            return
        problem = f"{size - position} bytes, too few for the head of one"
    raise DataFormatError(
        f"record {count + 1}: expected a whole TFRecord. Found: {problem}", path
    )


def _message(error: tf.errors.OpError) -> str:
    """Returns what TensorFlow says, without where in its graph."""
    return error.message.rpartition("}}")[2].partition("[Op:")[0].strip()


def _is_gzip(path: str) -> bool:
    with tf.io.gfile.GFile(path, "rb") as file:
        head = file.read(_HEADER.size)
    if head[:2] != _GZIP:
        return False
    # So begins a record of 35,615 bytes too, but then its checksum is right.
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


def _check_gzip(path: str) -> int:
    """Decompresses a file and returns the number of bytes."""
    size = 0
    with tf.io.gfile.GFile(path, "rb") as raw:
        file = gzip.GzipFile(fileobj=raw, mode="rb")
        try:
            while text := file.read(_BUFFER_BYTES):
                size += len(text)
        except (EOFError, OSError, zlib.error) as error:
            raise DataFormatError(
                f"expected a whole gzip file. Found: {error}", path
            ) from error
    return size
