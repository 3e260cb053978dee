"""Writes lists as TFRecords of `ExampleListWithContext`, TensorFlow Ranking's format.

The messages are packed here, and not by protobuf's classes: the items of a list differ
only in their numbers and names, so that one array operation can write them.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import types
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.data.elwc import diagnosis, manifest
from tfr_ext.data.lists import RankingLists

FEATURES = "float_features"
LABEL = "label"
LABEL_DISTRIBUTION = "label_distribution"
WEIGHT = "weight"
QUERY_ID = "query_id"
DOC_ID = "doc_id"

# If there are more different labels, they are numbers rather than grades, and are not
# counted.
MAX_COUNTED_LABELS = 1000


def encode(lists: RankingLists) -> Iterator[bytes]:
    """Yields each list as a serialised `ExampleListWithContext`.

    The context has the bytes feature `query_id`. An example has the float features
    `float_features`, with `num_features` values, and `label`, and, if the lists have
    them, the float features `label_distribution` and `weight` and the bytes feature
    `doc_id`. The ids of categories are bytes, 8 an id: `ids` of an example, and
    `context_ids` of the context.

    Args:
        lists: the lists.

    Raises:
        ValueError: If a list is empty, a feature is infinite, a label not finite, or a
            name is empty or has blanks.

    Examples:
        >>> from tfr_ext.data.elwc.message import ExampleListWithContext
        >>> lists = RankingLists(np.zeros([2, 3], np.float32), np.float32([1, 0]),
        ...                      np.int64([0, 2]), ["a"], doc_ids=["x", "y"])
        >>> (text,) = encode(lists)
        >>> message = ExampleListWithContext.FromString(text)
        >>> len(message.examples), message.context.features.feature["query_id"]
        (2, bytes_list { value: "a" } )
    """
    _check(lists)
    columns = {FEATURES: lists.features, LABEL: lists.labels[:, np.newaxis]}
    if not lists.num_features and lists.spec is not None:
        del columns[FEATURES]
    if lists.label_distributions is not None:
        columns[LABEL_DISTRIBUTION] = lists.label_distributions
    if lists.weights is not None:
        columns[WEIGHT] = lists.weights[:, np.newaxis]
    entries = [_float_entry(name, c.shape[1]) for name, c in columns.items()]
    values = [np.ascontiguousarray(x, "<f4").view(np.uint8) for x in columns.values()]
    if lists.ids is not None:
        values.append(np.ascontiguousarray(lists.ids, "<i8").view(np.uint8))
        entries.append(_bytes_entry("ids", bytes(values[-1].shape[1])))
    template = b"".join(entries)
    if lists.doc_ids is None:  # All examples then have the same length.
        before = len(template)
        template = _field(1, _field(1, template))
        before = len(template) - before
    else:
        before = 0
    places = []
    for entry, column in zip(entries, values):
        before += len(entry)
        places.append(slice(before - column.shape[1], before))
    blank = np.frombuffer(template, np.uint8)
    splits = lists.row_splits.tolist()
    for q, (query, start, end) in enumerate(zip(lists.query_ids, splits, splits[1:])):
        rows = np.repeat(blank[np.newaxis], end - start, axis=0)
        for place, column in zip(places, values):
            rows[:, place] = column[start:end]
        examples = rows.tobytes()
        if lists.doc_ids is not None:
            examples = _add_names(examples, len(blank), lists.doc_ids[start:end])
        context = _bytes_entry(QUERY_ID, query.encode())
        if lists.context_ids is not None:
            ids = lists.context_ids[q].astype("<i8").tobytes()
            context += _bytes_entry("context_ids", ids)
        yield examples + _field(2, _field(1, context))


class ShardWriter:
    """Writes one shard to another place first, so that it appears when it is complete.

    A context manager: at the end of the block, the file is complete and `record` says
    what it holds. After an error, no file is left.

    Attributes:
        record: what was written; None before the end.

    Examples:
        >>> import tempfile
        >>> lists = RankingLists(np.zeros([2, 3], np.float32), np.float32([1, 0]),
        ...                      np.int64([0, 2]), ["a"])
        >>> with ShardWriter(tempfile.mkdtemp(), "train-00000-of-00001.tfrecord") as w:
        ...     w.write(lists)
        >>> w.record.shard.queries, w.record.labels
        (1, {'0': 1, '1': 1})
    """

    def __init__(self, directory: str, name: str, aside: str | None = None):
        """Opens the file.

        Args:
            directory: where the shard goes, on any file system that `tf.io.gfile`
                knows.
            name: its file name.
            aside: a directory, on the same file system, for the unfinished file;
                `directory` if left out.
        """
        self.record: Record | None = None
        self._name = name
        self._path = os.path.join(directory, name)
        # Two workers may write the same shard: runners repeat work that seems lost.
        unfinished = f"{name}.{uuid.uuid4().hex}.writing"
        self._aside = os.path.join(aside or directory, unfinished)
        self._writer = tf.io.TFRecordWriter(self._aside)
        self._labels: collections.Counter[float] | None = collections.Counter()
        self._max_label = 0.0
        self._lengths: list[np.ndarray] = []
        self._empty = 0
        self._width: tuple[int, int | None] | None = None
        self._features: list[dict[str, Any]] | None = None

    def __enter__(self) -> ShardWriter:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        """Finishes the shard, or removes it after an error."""
        self._writer.close()
        if kind is not None:
            tf.io.gfile.remove(self._aside)
            return
        if self._width is None:
            tf.io.gfile.remove(self._aside)
            raise ValueError(f"{self._path}: there are no lists to write.")
        lengths = np.concatenate(self._lengths)
        size = tf.io.gfile.stat(self._aside).length
        digest = manifest.digest(self._aside)
        self.record = Record(
            shard=manifest.Shard(
                self._name, len(lengths), int(lengths.sum()), size, digest
            ),
            num_features=self._width[0],
            num_grades=self._width[1],
            labels={
                label_text(label): count
                for label, count in sorted((self._labels or {}).items())
            },
            max_label=self._max_label,
            min_list_size=int(lengths.min()),
            max_list_size=int(lengths.max()),
            empty_queries=self._empty,
            features=self._features,
        )
        tf.io.gfile.rename(self._aside, self._path, overwrite=True)

    def write(self, lists: RankingLists) -> None:
        """Adds lists.

        Args:
            lists: the lists, with as many features and grades as earlier ones, and of
                one spec.

        Raises:
            ValueError: If they have other numbers of these, a list is empty, or a
                feature is infinite, or a label not finite.
        """
        if not lists.num_lists:
            return
        distributions = lists.label_distributions
        width = (
            lists.num_features,
            None if distributions is None else distributions.shape[1],
        )
        if width != (self._width or width):
            raise ValueError(
                f"{self._path}: lists of {width[0]} features and {width[1]} grades "
                f"follow lists of {self._width}."
            )
        self._width = width
        if lists.spec is not None and not lists.spec.is_numeric:
            self._features = lists.spec.to_json()
        for text in encode(lists):
            self._writer.write(text)
        self._lengths.append(lists.lengths)
        self._max_label = max(self._max_label, float(lists.labels.max()))
        relevant = np.add.reduceat(lists.labels > 0, lists.row_splits[:-1])
        self._empty += int((relevant == 0).sum())
        if self._labels is not None:
            values, counts = np.unique(lists.labels, return_counts=True)
            self._labels.update(dict(zip(values.tolist(), counts.tolist())))
            if len(self._labels) > MAX_COUNTED_LABELS:
                self._labels = None


@dataclasses.dataclass(frozen=True)
class Record:
    """Counts and widths of a shard.

    Attributes:
        shard: its entry of the manifest.
        num_features: width of `float_features`.
        num_grades: width of `label_distribution`; None if there is none.
        labels: number of items of each label, by its text, in increasing order; empty
            if there are more than `MAX_COUNTED_LABELS` labels.
        max_label: the highest label.
        min_list_size: items of the shortest list.
        max_list_size: items of the longest list.
        empty_queries: lists without a label above 0.
        features: what they are, for JSON; None if all are numbers.
    """

    shard: manifest.Shard
    num_features: int
    num_grades: int | None
    labels: dict[str, int]
    max_label: float
    min_list_size: int
    max_list_size: int
    empty_queries: int
    features: list[dict[str, Any]] | None = None


def label_text(label: float) -> str:
    """Returns the shortest text of a float32 number.

    Examples:
        >>> label_text(2.0), label_text(float(np.float32(0.1)))
        ('2', '0.1')
    """
    return np.format_float_positional(np.float32(label), trim="-")


def _check(lists: RankingLists) -> None:
    """Raises a ValueError for lists that a reader would refuse."""
    if lists.num_lists and lists.lengths.min() < 1:
        query = lists.query_ids[int(lists.lengths.argmin())]
        raise ValueError(f"Query {query!r} has no items, expected at least 1.")
    for name, values in ((FEATURES, lists.features), (LABEL, lists.labels)):
        # A feature that is NaN is missing.
        wrong = np.isinf(values) if name == FEATURES else ~np.isfinite(values)
        if wrong.any():
            item = int(np.argwhere(wrong)[0][0])
            q = int(np.searchsorted(lists.row_splits, item, "right")) - 1
            raise ValueError(
                f"`{name}` of item {item - lists.row_splits[q]} of query "
                f"{lists.query_ids[q]!r} is {values[wrong][0]}, expected finite "
                "numbers."
            )
    for name, texts in ((QUERY_ID, lists.query_ids), (DOC_ID, lists.doc_ids or ())):
        for text in texts:
            diagnosis.parse_name(text.encode(), name)


def _add_names(examples: bytes, size: int, names: Sequence[str]) -> bytes:
    """Adds document ids to the features of examples, which all have the same size."""
    parts = []
    for i, name in enumerate(names):
        text = name.encode()
        head, entry = _around_name(size, len(text))
        parts += [head, examples[i * size : (i + 1) * size], entry, text]
    return b"".join(parts)


@functools.lru_cache(maxsize=4096)
def _around_name(size: int, length: int) -> tuple[bytes, bytes]:
    """Returns the bytes before an example's features, and before its name."""
    entry = _bytes_entry(DOC_ID, bytes(length))
    features = size + len(entry)
    example = _head(1, features)
    return (
        _head(1, len(example) + features) + example,
        entry[: len(entry) - length],
    )


def _float_entry(name: str, count: int) -> bytes:
    """Returns an entry of `Features` that ends in a number of float32 zeros."""
    return _entry(name, _field(2, _field(1, bytes(4 * count))))


def _bytes_entry(name: str, value: bytes) -> bytes:
    return _entry(name, _field(1, _field(1, value)))


def _entry(name: str, feature: bytes) -> bytes:
    return _field(1, _field(1, name.encode()) + _field(2, feature))


def _field(number: int, payload: bytes) -> bytes:
    return _head(number, len(payload)) + payload


def _head(number: int, length: int) -> bytes:
    """Returns the bytes before the payload of a field of bytes."""
    head = bytearray([number << 3 | 2])
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head)
