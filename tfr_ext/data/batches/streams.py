"""Lists that do not fit into memory: each pass reads them from a temporary file."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import math
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tfr_ext.data.batches.batching import LabelTransform
from tfr_ext.data.elwc.reading import ElwcReader, ElwcSchema
from tfr_ext.data.features import FeatureSpec
from tfr_ext.data.growing_rows import ARRAYS
from tfr_ext.data.labels import with_label_distributions
from tfr_ext.data.lists import RankingLists

# Number of labels that are counted one by one; of more, only the lowest and the
# highest.
_MAX_LABELS = 1000
_LISTS_PER_PIECE = 16
# What a temporary file has as numbers of the same bytes, two for each.
_IDS = {"ids", "context_ids"}

# Maps some lists, and a number of their own, to as many lists to train on.
PieceTransform = Callable[[RankingLists, int], RankingLists]


class StreamedLists:
    """Lists in ELWC files, of which only a few are in memory at a time.

    The constructor reads all files once, checks everything, and keeps the facts below.
    It copies the numbers to a temporary file, which later passes read: they take a
    fraction of the time, and find no errors, whatever happens to the files. The copy
    needs 4 bytes for each feature of each item, and 8 for each id, in the directory
    that `TMPDIR` names. It goes with the object, or with the process.

    Attributes:
        num_lists: number of lists.
        num_items: number of items.
        num_features: width of the feature vectors.
        num_grades: width of the label distributions, or None.
        spec: what the features are; None if they are numbers.
        has_weights: whether the items have weights.
        feature_names: None, as the files have no names of single features.
        lengths: number of items of each list.
        label_counts: number of items by label; if there are more than 1,000 different
            labels, only some of them, including the lowest and the highest.
        num_empty: number of lists without a label above 0.

    Examples:
        >>> import os, tempfile
        >>> import tensorflow as tf
        >>> from tfr_ext.data.elwc.message import ExampleListWithContext
        >>> elwc = ExampleListWithContext()
        >>> for label in (2, 0):
        ...     feature = elwc.examples.add().features.feature
        ...     feature["float_features"].float_list.value.extend([0.5, label])
        ...     feature["label"].float_list.value.append(label)
        >>> path = os.path.join(tempfile.mkdtemp(), "train.tfrecord")
        >>> with tf.io.TFRecordWriter(path) as writer:
        ...     writer.write(elwc.SerializeToString())
        >>> lists = StreamedLists([path])
        >>> lists.num_lists, lists.num_items, lists.label_counts
        (1, 2, {0.0: 1, 2.0: 1})
        >>> from tfr_ext.data import StreamedBatches
        >>> for features, labels in StreamedBatches(lists, 8, seed=1).dataset():
        ...     print(labels.numpy())
        [[2. 0.]]
    """

    def __init__(
        self,
        files: Sequence[str],
        num_features: int | None = None,
        schema: ElwcSchema = ElwcSchema(),  # noqa: B008 (frozen)
        transform: PieceTransform | None = None,
        check: Callable[[str, RankingLists], None] | None = None,
    ):
        """Reads all files once.

        Args:
            files: the files.
            num_features: width that the features must have; None if any will do.
            schema: names of the features in the files.
            transform: changes lists as they are read, alike in each pass.
            check: called with each file and its lists when they are first read.

        Raises:
            DataFormatError: If a file does not have the format.
            OSError: If there is no room for the temporary file.
        """
        self._copy = Scratch()
        self.num_features = 0
        self.spec: FeatureSpec | None = None
        self.num_grades: int | None = None
        self.has_weights = self.has_missing = False
        self.feature_names: Sequence[str] | None = None
        self.num_empty = 0
        counts: collections.Counter[float] = collections.Counter()
        lowest, highest = float("inf"), 0.0
        self._fractions: list[float] = []  # One label that is not an integer, if any.
        reader = ElwcReader(files, num_features, schema)
        by_file: dict[str, list[_Piece]] = {path: [] for path in files}
        numbers = {path: number for number, path in enumerate(files)}
        for path, piece in reader.read(lists_per_piece=_LISTS_PER_PIECE):
            if check is not None:
                check(path, piece)
            kept = piece
            if transform is not None:
                number = number_of(numbers[path], len(by_file[path]))
                kept = transform(piece, number)
            arrays = {name: getattr(kept, name) for name in ("features", *ARRAYS)}
            arrays = {k: x for k, x in arrays.items() if x is not None}
            for name in arrays.keys() & _IDS:
                arrays[name] = arrays[name].view(np.float32)
            place = self._copy.append(*arrays.values())
            # The shape of a row of each.
            self._rows = {name: x.shape[1:] for name, x in arrays.items()}
            by_file[path].append(_Piece(kept.lengths.astype(np.int32), place))
            self.num_empty += kept.num_empty
            self.num_features, self.num_grades = kept.num_features, kept.num_grades
            self.spec = kept.spec
            self.has_weights = kept.weights is not None
            self.has_missing |= kept.has_missing
            found = kept.label_counts
            lowest, highest = min(lowest, *found), max(highest, *found)
            if not self._fractions:
                self._fractions = [x for x in found if x != int(x)][:1]
            for label, count in found.items():
                if label in counts or len(counts) < _MAX_LABELS:
                    counts[label] += count
        self._pieces = list(by_file.values())
        self._copy.flush()
        reader.finish()
        self.label_counts = {lowest: 1, highest: 1, **counts}

    @property
    def lengths(self) -> np.ndarray:
        """Number of items of each list, shape `[num_lists]`."""
        return np.concatenate(
            [piece.lengths for file in self._pieces for piece in file]
        )

    @property
    def num_lists(self) -> int:
        """Number of lists."""
        return sum(len(piece.lengths) for file in self._pieces for piece in file)

    @property
    def num_items(self) -> int:
        """Number of items."""
        return sum(piece.num_items for file in self._pieces for piece in file)

    @property
    def max_label(self) -> float:
        """The highest label."""
        return max(self.label_counts)

    def pieces(
        self,
        file: int,
        label_transform: LabelTransform | None = None,
        epoch: int = 0,
        passing: bool = False,
    ) -> Iterator[RankingLists]:
        """Reads the lists of a file, some at a time.

        Args:
            file: its number.
            label_transform: gives the labels of a pass. `BinomialLabels` draws other
                labels for each piece; other transforms get the labels of one piece at a
                time.
            epoch: number of the pass.
            passing: whether the features of a piece may change when the next one is
                taken.
        """
        buffer = None
        if passing:
            most = max((piece.num_items for piece in self._pieces[file]), default=0)
            buffer = np.empty(most * self.num_features, np.float32)
        for count, piece in enumerate(self._pieces[file]):
            lists = self._read(piece, buffer)
            if label_transform is not None:
                of_piece = getattr(label_transform, "of_piece", None)
                transform = (
                    of_piece(number_of(file, count)) if of_piece else label_transform
                )
                labels = transform(lists.labels, epoch)
                lists = dataclasses.replace(lists, labels=labels)
            yield lists

    def __iter__(self) -> Iterator[RankingLists]:
        """Reads all lists once, some at a time."""
        for file in range(self.num_files):
            yield from self.pieces(file)

    def outlines(self, file: int) -> Iterator[RankingLists]:
        """Returns the lists of a file unread: only their lengths are real."""
        for piece in self._pieces[file]:
            yield RankingLists(
                np.zeros([piece.num_items, 0], np.float32),
                np.zeros(piece.num_items, np.float32),
                piece.row_splits,
                [""] * len(piece.lengths),
            )

    @property
    def num_files(self) -> int:
        """Number of files."""
        return len(self._pieces)

    def check_labels(
        self, label_transform: LabelTransform | None, num_grades: int | None
    ) -> None:
        """Checks that a label transform and a number of grades fit the labels.

        Raises:
            ValueError: If they do not.
        """
        labels = np.array([*self._fractions, *sorted(self.label_counts)], np.float32)
        if label_transform is not None:
            label_transform(labels, 0)
        if num_grades is not None:
            if self.num_grades is not None:
                grades = np.eye(self.num_grades, dtype=np.float32)[[0] * len(labels)]
            example = RankingLists(
                np.zeros([len(labels), 0], np.float32),
                labels,
                np.array([0, len(labels)]),
                [""],
                label_distributions=None if self.num_grades is None else grades,
            )
            with_label_distributions(example, num_grades)

    def _read(self, piece: _Piece, buffer: np.ndarray | None) -> RankingLists:
        count = {"context_ids": len(piece.lengths)}
        shapes = [(count.get(k, piece.num_items), *x) for k, x in self._rows.items()]
        arrays: dict[str, Any] = dict(
            zip(self._rows, self._copy.read(piece.place, shapes, buffer))
        )
        for name in arrays.keys() & _IDS:
            arrays[name] = arrays[name].view(np.int64)
        return RankingLists(
            row_splits=piece.row_splits,
            query_ids=[""] * len(piece.lengths),  # Training does not use names.
            spec=self.spec,
            **arrays,
        )


@dataclasses.dataclass(frozen=True)
class _Piece:
    """Some lists in the temporary file: their lengths, and where their numbers are."""

    lengths: np.ndarray
    place: int

    @property
    def num_items(self) -> int:
        """Number of items."""
        return int(self.lengths.sum())

    @property
    def row_splits(self) -> np.ndarray:
        """As of `RankingLists`."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])


def number_of(high: int, low: int) -> int:
    """Returns a number that is unique to its two parts."""
    return (high << 32) + low


class Scratch:
    """Float32 arrays in a temporary file, which no other process sees.

    The file is unnamed, so the OS deletes it with the object or the process.

    Examples:
        >>> scratch = Scratch()
        >>> place = scratch.append(np.float32([[1, 2]]), None, np.float32([3]))
        >>> scratch.flush()
        >>> scratch.read(place, [(1, 2), (1,)])
        [array([[1., 2.]], dtype=float32), array([3.], dtype=float32)]
    """

    def __init__(self) -> None:
        """Makes the file, in the directory that `tempfile` chooses."""
        self._file = tempfile.TemporaryFile(buffering=0)
        self._size = 0
        self._lock = threading.Lock()
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._pending: concurrent.futures.Future[None] | None = None

    def append(self, *arrays: np.ndarray | None) -> int:
        """Writes arrays one after the other in the background; returns their place.

        None is left out. The arrays must not change afterwards. An OSError says that
        there was no room for those before.
        """
        self.flush()
        place = self._size
        given = [np.ascontiguousarray(x, np.float32) for x in arrays if x is not None]
        self._size += sum(array.nbytes for array in given)
        self._pending = self._thread.submit(self._write, place, given)
        return place

    def flush(self) -> None:
        """Waits until everything is written; an OSError says that there is no room."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def read(
        self,
        place: int,
        shapes: Iterable[tuple[int, ...]],
        buffer: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Reads arrays that were written together, before the last `flush`.

        Args:
            place: what `append` returned.
            shapes: their shapes.
            buffer: float32 numbers, at least as many as the first array has, which is
                read into them; memory that was never used takes longer to fill.
        """
        arrays = []
        for shape in shapes:
            size = math.prod(shape)
            made = np.empty(size, np.float32) if buffer is None else buffer[:size]
            arrays.append(made.reshape(shape))
            buffer = None
        with self._lock:
            self._file.seek(place)
            for array in arrays:
                left = array.reshape(-1).data.cast("B")
                while left:
                    left = left[self._file.readinto(left) :]
        return arrays

    def _write(self, place: int, arrays: list[np.ndarray]) -> None:
        try:
            with self._lock:
                self._file.seek(place)
                for array in arrays:
                    left = array.reshape(-1).data.cast("B")
                    while left:
                        left = left[self._file.write(left) :]
        except OSError as error:
            raise OSError(
                error.errno,
                f"{os.strerror(error.errno or 0)} after {place:,} bytes of lists "
                "to stream. The environment variable TMPDIR names another directory",
                tempfile.gettempdir(),
            ) from error
