"""Training on lists that do not fit into memory: their files are read in each pass."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from tfr_ext.data.batching import (
    Batch,
    BatchedLists,
    LabelTransform,
    batch_signature,
    padded_batch,
)
from tfr_ext.data.collecting import concatenate
from tfr_ext.data.elwc import ElwcReader, ElwcSchema
from tfr_ext.data.label_distributions import with_label_distributions
from tfr_ext.data.letor_diagnosis import DataFormatError
from tfr_ext.data.lists import RankingLists

# Batches of a run: lists are shuffled, and batched by length, within a run.
_RUN_BATCHES = 32
# Files that are read in turns, so that a run has lists of several.
_FILES_AT_ONCE = 4
# Labels that are counted one by one; of more there are the lowest and the highest.
_MAX_LABELS = 1000
_LISTS_PER_PIECE = 16
_CHANGED = "expected the lists of the first reading. The file has changed since"

# From some lists, and a number that no others have, to as many lists to train on.
PieceTransform = Callable[[RankingLists, int], RankingLists]


class StreamedLists:
    """Lists in ELWC files, of which only a few are in memory at a time.

    One pass over all files, when it is made, checks everything: later passes find
    nothing wrong. What that pass learns is kept.

    Attributes:
        num_lists: number of lists.
        num_items: number of items.
        num_features: width of the feature vectors.
        num_grades: width of the label distributions, or None.
        lengths: number of items of each list.
        label_counts: number of items by label; of more than 1,000 different labels
            only some, the lowest and the highest among them.
        num_empty: number of lists without a label above 0.

    Examples:
        >>> import os, tempfile
        >>> from tensorflow_serving.apis import input_pb2
        >>> elwc = input_pb2.ExampleListWithContext()
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
        check_file: Callable[[str, int, int], None] | None = None,
    ):
        """Reads all files once.

        Args:
            files: the files.
            num_features: width that the features must have; None if any will do.
            schema: names of the features in the files.
            transform: changes lists as they are read, in each pass alike.
            check_file: called with each file, its number of lists and of items.

        Raises:
            DataFormatError: if a file does not have the format.
        """
        self._files = list(files)
        self._schema = schema
        self._transform = transform
        self._pieces: list[list[np.ndarray]] = []  # Lengths by file and piece.
        self.num_features = 0
        self.num_grades: int | None = None
        self.num_empty = 0
        counts: collections.Counter[float] = collections.Counter()
        lowest, highest = float("inf"), 0.0
        self._fractions: list[float] = []  # One label that is not an integer, if any.
        reader = ElwcReader(self._files, num_features, schema)
        for number, path in enumerate(self._files):
            self._pieces.append([])
            queries = items = 0
            for k, piece in enumerate(reader.pieces(path, _LISTS_PER_PIECE)):
                queries += piece.num_lists
                items += piece.num_items
                kept = self._transformed(piece, number, k)
                self._pieces[-1].append(kept.lengths.astype(np.int32))
                self.num_empty += kept.num_empty
                self.num_features, self.num_grades = kept.num_features, kept.num_grades
                found = kept.label_counts
                lowest, highest = min(lowest, *found), max(highest, *found)
                if not self._fractions:
                    self._fractions = [x for x in found if x != int(x)][:1]
                for label, count in found.items():
                    if label in counts or len(counts) < _MAX_LABELS:
                        counts[label] += count
            if check_file is not None:
                check_file(path, queries, items)
        reader.finish()
        self.label_counts = {lowest: 1, highest: 1, **counts}

    @property
    def lengths(self) -> np.ndarray:
        """Number of items of each list, shape `[num_lists]`."""
        return np.concatenate([length for file in self._pieces for length in file])

    @property
    def num_lists(self) -> int:
        """Number of lists."""
        return sum(len(lengths) for file in self._pieces for lengths in file)

    @property
    def num_items(self) -> int:
        """Number of items."""
        return sum(int(lengths.sum()) for file in self._pieces for lengths in file)

    @property
    def max_label(self) -> float:
        """The highest label."""
        return max(self.label_counts)

    def pieces(
        self, file: int, label_transform: LabelTransform | None = None, epoch: int = 0
    ) -> Iterator[RankingLists]:
        """Reads a file, some lists at a time.

        Args:
            file: its number.
            label_transform: gives the labels of a pass. `BinomialLabels` draw other
                ones for each piece; others get the labels of a piece at a time.
            epoch: number of the pass.

        Raises:
            DataFormatError: if the file is another than it was at first.
        """
        path, expected = self._files[file], self._pieces[file]
        reader = ElwcReader(self._files, self.num_features, self._schema)
        count = 0
        for piece in reader.pieces(path, _LISTS_PER_PIECE, check_gzip=False):
            piece = self._transformed(piece, file, count)
            if count == len(expected) or (
                piece.lengths.tolist() != expected[count].tolist()
            ):
                raise DataFormatError(_CHANGED, path)
            if label_transform is not None:
                of_piece = getattr(label_transform, "of_piece", None)
                transform = (
                    of_piece(_number(file, count)) if of_piece else label_transform
                )
                labels = transform(piece.labels, epoch)
                piece = dataclasses.replace(piece, labels=labels)
            count += 1
            yield piece
        if count < len(expected):
            raise DataFormatError(_CHANGED, path)

    def __iter__(self) -> Iterator[RankingLists]:
        """Reads all lists once, some at a time."""
        for file in range(self.num_files):
            yield from self.pieces(file)

    def outlines(self, file: int) -> Iterator[RankingLists]:
        """Gives the lists of a file without reading it: only their lengths are real."""
        for lengths in self._pieces[file]:
            yield RankingLists(
                np.zeros([int(lengths.sum()), 0], np.float32),
                np.zeros(int(lengths.sum()), np.float32),
                np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
                [""] * len(lengths),
            )

    @property
    def num_files(self) -> int:
        """Number of files."""
        return len(self._files)

    def check_labels(
        self, label_transform: LabelTransform | None, num_grades: int | None
    ) -> None:
        """Checks that the labels are what training is to make of them.

        Raises:
            ValueError: if they are not.
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

    def _transformed(self, piece: RankingLists, file: int, k: int) -> RankingLists:
        if self._transform is None:
            return piece
        return self._transform(piece, _number(file, k))


class StreamedBatches:
    """Batches of streamed lists, as `BatchedLists` gives them of lists in memory.

    A pass takes the files in a new order, reads four of them in turns, and cuts what
    comes into runs of 32 batches. Within a run lists are shuffled and batched as
    `BatchedLists` does, while the next run is read and joined: so memory in use is that
    of at most four runs, and only lists of the same run can meet in a batch. The order
    depends on the seed and the number of the pass only.

    Attributes:
        epoch: number of the epoch that the next iteration of the dataset gives.
        num_batches: number of batches of an epoch: those of the first pass. Should
            other passes have more or fewer, an epoch is the next so many of an endless
            row of passes.
    """

    def __init__(
        self,
        lists: StreamedLists,
        batch_size: int,
        seed: int,
        label_transform: LabelTransform | None = None,
        num_grades: int | None = None,
        max_padding: float | None = None,
    ):
        """Initialises the batches.

        Args:
            lists: the lists.
            batch_size: most lists of a batch.
            seed: seed of the shuffling.
            label_transform: gives the labels of each pass, see `StreamedLists.pieces`.
            num_grades: as of `BatchedLists`.
            max_padding: as of `BatchedLists`, for each run.

        Raises:
            ValueError: if an argument is out of range, `label_transform` refuses the
                labels, or they are not grades.
        """
        if label_transform is not None and num_grades is not None:
            raise ValueError("`label_transform` gives labels that are not grades.")
        lists.check_labels(label_transform, num_grades)
        self._lists = lists
        self._batch_size = batch_size
        self._seed = seed
        self._label_transform = label_transform
        self._num_grades = num_grades
        self._max_padding = max_padding
        self._passes: dict[int, tuple[int, int]] = {}
        self.epoch = 0
        self.num_batches = self._measure(0)[0]

    def padding_waste(self, epoch: int = 0) -> float:
        """Returns padded items over real items, over one pass."""
        return self._measure(epoch)[1] / max(1, self._lists.num_items)

    def dataset(self, steps: int | None = None) -> tf.data.Dataset:
        """Returns one epoch as a dataset; each iteration of it is the next epoch.

        Args:
            steps: batches of an epoch, `num_batches` by default.
        """
        steps = steps or self.num_batches

        def batches() -> Iterator[Batch]:
            epoch, self.epoch = self.epoch, self.epoch + 1
            number, skipped = 0, epoch * steps
            while skipped >= self._measure(number)[0]:
                skipped -= self._measure(number)[0]
                number += 1
            left = steps
            while True:
                read = functools.partial(
                    self._lists.pieces,
                    label_transform=self._label_transform,
                    epoch=number,
                )
                runs = self._runs(number, read)
                for run, order in _ahead(self._in_batches(runs, number)):
                    for chosen in order[skipped:]:
                        yield padded_batch(run, chosen, self._num_grades is not None)
                        left -= 1
                        if not left:
                            return
                    skipped = max(0, skipped - len(order))
                number += 1

        dataset = tf.data.Dataset.from_generator(
            batches,
            output_signature=batch_signature(
                self._lists.num_features, self._num_grades
            ),
        )
        cardinality = tf.data.experimental.assert_cardinality(steps)
        return dataset.apply(cardinality).prefetch(tf.data.AUTOTUNE)

    def _measure(self, number: int) -> tuple[int, int]:
        """Returns the number of batches and of padded items of a pass, unread."""
        if number not in self._passes:
            batches = padded = 0
            runs = self._runs(number, self._lists.outlines)
            for run, order in self._in_batches(runs, number, outlines=True):
                batches += len(order)
                padded += sum(len(x) * int(run.lengths[x].max()) for x in order)
            self._passes[number] = batches, padded
        return self._passes[number]

    def _in_batches(
        self, runs: Iterable[RankingLists], number: int, outlines: bool = False
    ) -> Iterator[tuple[RankingLists, list[np.ndarray]]]:
        """Yields each run, and which of its lists stand in each of its batches."""
        for k, run in enumerate(runs):
            batched = BatchedLists(
                run,
                self._batch_size,
                seed=_number(k, self._seed),
                num_grades=None if outlines else self._num_grades,
                max_padding=self._max_padding,
                first_epoch=number,
            )
            yield batched.lists(number), batched.order(number)

    def _runs(
        self, number: int, read: Callable[[int], Iterator[RankingLists]]
    ) -> Iterator[RankingLists]:
        """Yields the runs of a pass."""
        size = self._batch_size * _RUN_BATCHES
        rng = np.random.default_rng([self._seed, number])
        files = rng.permutation(self._lists.num_files).tolist()
        run: list[RankingLists] = []
        missing = size
        for piece in _in_turns(read, files):
            while piece.num_lists >= missing:
                head, piece = _cut(piece, missing)
                joined = _joined([*run, head])
                run, missing = [], size  # Nobody holds the pieces while it is used.
                yield joined
            if piece.num_lists:
                run.append(piece)
                missing -= piece.num_lists
        if run:
            joined = _joined(run)
            run.clear()
            yield joined


def _number(high: int, low: int) -> int:
    """Returns a number that no other two give."""
    return (high << 32) + low


def _in_turns(
    read: Callable[[int], Iterator[RankingLists]], files: Sequence[int]
) -> Iterator[RankingLists]:
    """Yields the pieces of some files, of several in turns."""
    waiting = collections.deque(files)
    opened: collections.deque[Iterator[RankingLists]] = collections.deque()
    while waiting or opened:
        if waiting and len(opened) < _FILES_AT_ONCE:
            opened.append(read(waiting.popleft()))
            if waiting and len(opened) < _FILES_AT_ONCE:
                continue
        pieces = opened.popleft()
        piece = next(pieces, None)
        if piece is not None:
            opened.append(pieces)
            yield piece


def _cut(lists: RankingLists, count: int) -> tuple[RankingLists, RankingLists]:
    """Returns the first lists and the others, as views."""
    end, docs, shares = lists.num_lists, lists.doc_ids, lists.label_distributions

    def part(start: int, stop: int) -> RankingLists:
        splits = lists.row_splits[start : stop + 1]
        items = slice(splits[0], splits[-1])
        return RankingLists(
            lists.features[items],
            lists.labels[items],
            splits - splits[0],
            lists.query_ids[start:stop],
            docs and docs[items],
            None if shares is None else shares[items],
        )

    return part(0, count), part(count, end)


def _joined(pieces: list[RankingLists]) -> RankingLists:
    # Names are of no use in training, and an outline has none.
    return concatenate(
        dataclasses.replace(
            piece, query_ids=[f"{k}:{q}" for q in range(piece.num_lists)], doc_ids=None
        )
        for k, piece in enumerate(pieces)
    )


def _ahead(iterator: Iterator) -> Iterator:
    """Yields what an iterator does, while another thread gets the next."""
    end = object()
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, iterator, end)
            yield item
