"""Batches of lists that are read again in each pass."""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core.system.threads import ahead
from tfr_ext.data.batches.batch_datasets import dataset_of
from tfr_ext.data.batches.batching import (
    Batch,
    BatchedLists,
    LabelTransform,
    batch_signature,
    padded_batch,
)
from tfr_ext.data.batches.streams import StreamedLists, number_of
from tfr_ext.data.features import FeatureSpec
from tfr_ext.data.growing_rows import ARRAYS, GrowingRows
from tfr_ext.data.lists import RankingLists

# Number of batches of a run, within which lists are shuffled and batched by length.
_RUN_BATCHES = 32
# Number of files that are read in turns, so that a run has lists of several files.
_FILES_AT_ONCE = 4
# Number of iterations over a dataset that are kept where they are.
_RUNNING_ITERATIONS = 2


class StreamedBatches:
    """Batches of streamed lists, as `BatchedLists` makes them of lists in memory.

    A pass takes the files in a new order, reads four of them in turns, and divides the
    lists into runs of 32 batches. Within a run, lists are shuffled and batched as by
    `BatchedLists`, while the next run is read and joined. So memory is needed for at
    most four runs, and only lists of the same run can meet in a batch. The order
    depends only on the seed and the number of the pass.

    Attributes:
        epoch: number of the epoch that the next iteration of the dataset yields.
        num_batches: number of batches of an epoch, which is that of the first pass. If
            other passes have more or fewer, an epoch takes this many in turn from an
            endless sequence of passes.
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
            batch_size: maximum number of lists per batch.
            seed: seed of the shuffling.
            label_transform: gives the labels of each pass, see `StreamedLists.pieces`.
            num_grades: as of `BatchedLists`.
            max_padding: as of `BatchedLists`, for each run.

        Raises:
            ValueError: If an argument is out of range, `label_transform` refuses the
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
        """Returns the ratio of padded to real items, over one pass."""
        return self._measure(epoch)[1] / max(1, self._lists.num_items)

    def dataset(
        self,
        steps: int | None = None,
        epochs: Sequence[int] | None = None,
        done: int = 0,
    ) -> tf.data.Dataset:
        """Returns a dataset of one epoch; each iteration over it is the next epoch.

        Args:
            steps: number of batches of an epoch, `num_batches` by default.
            epochs: as of `BatchedLists.dataset`.
            done: as of `BatchedLists.dataset`.
        """
        steps = steps or self.num_batches
        count = steps * (1 if epochs is None else len(epochs)) - done
        begun: dict[int, Sequence[int]] = {}
        names = itertools.count()
        running: dict[int, tuple[int, Iterator[Batch]]] = {}

        def begin() -> int:
            name = next(names)
            begun[name] = [self.epoch] if epochs is None else epochs
            self.epoch += epochs is None
            return name

        def batches(name: int, number: int) -> Iterator[Batch]:
            first, step = divmod(number + done, steps)
            for epoch in begun[name][first:]:
                yield from self._batches(epoch, steps, step)
                step = 0

        def batch(name: int, number: int) -> Batch:
            at, coming = running.pop(name, (-1, iter(())))
            if at != number:
                coming = batches(name, number)
            found = next(coming)
            if number + 1 < count:
                running[name] = number + 1, coming
            # An iteration that nobody ends must not keep its lists. If it goes on after
            # all, it finds its place again.
            for other in list(running)[:-_RUNNING_ITERATIONS]:
                running.pop(other, None)
            return found

        lists = self._lists
        signature = batch_signature(
            lists.num_features, self._num_grades, lists.has_weights, lists.spec
        )
        return dataset_of(begin, batch, count, signature)

    def _batches(self, epoch: int, steps: int, done: int) -> Iterator[Batch]:
        """Yields the batches of an epoch after the first `done`."""
        number, skipped = 0, epoch * steps + done
        while skipped >= self._measure(number)[0]:
            skipped -= self._measure(number)[0]
            number += 1
        left = steps - done
        while True:
            read = functools.partial(
                self._lists.pieces,
                label_transform=self._label_transform,
                epoch=number,
                passing=True,
            )
            runs = self._runs(number, read)
            for run, order in ahead(self._in_batches(runs, number)):
                for chosen in order[skipped:]:
                    yield padded_batch(run, chosen, self._num_grades is not None)
                    left -= 1
                    if not left:
                        return
                skipped = max(0, skipped - len(order))
            number += 1

    def _measure(self, number: int) -> tuple[int, int]:
        """Counts the batches and the padded items of a pass without reading it."""
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
        """Yields each run, and which of its lists are in each of its batches."""
        for k, run in enumerate(runs):
            batched = BatchedLists(
                run,
                self._batch_size,
                seed=number_of(k, self._seed),
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
        run = _Run()
        for piece in _in_turns(read, files):
            while run.num_lists + piece.num_lists >= size:
                head, piece = _cut(piece, size - run.num_lists)
                run.append(head)
                whole, run = run.whole(), _Run()
                yield whole
                del whole  # So that it can be freed while the next one grows.
            if piece.num_lists:
                run.append(piece)
        if run.num_lists:
            yield run.whole()


class _Run:
    """Lists that are copied together, without names, which training does not use."""

    def __init__(self) -> None:
        self.num_lists = 0
        self._features: GrowingRows | None = None
        self._spec: FeatureSpec | None = None
        self._others: list[list[Any]] = []

    def append(self, lists: RankingLists) -> None:
        if self._features is None:
            self._features = GrowingRows(lists.num_features)
        self._features.append(lists.features)
        self._spec = lists.spec
        self._others.append([lists.lengths, *(getattr(lists, x) for x in ARRAYS)])
        self.num_lists += lists.num_lists

    def whole(self) -> RankingLists:
        assert self._features is not None
        joined: list[Any] = [
            None if parts[0] is None else np.concatenate(parts)
            for parts in zip(*self._others)
        ]
        lengths, arrays = joined[0], dict(zip(ARRAYS, joined[1:]))
        return RankingLists(
            self._features.whole(),
            row_splits=np.concatenate([[0], np.cumsum(lengths)]),
            query_ids=[""] * len(lengths),
            spec=self._spec,
            **arrays,
        )


def _in_turns(
    read: Callable[[int], Iterator[RankingLists]], files: Sequence[int]
) -> Iterator[RankingLists]:
    """Yields the pieces of some files, taking several files in turns."""
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
    """Splits lists into the first ones and the rest, as views."""
    docs = lists.doc_ids

    def part(start: int, stop: int) -> RankingLists:
        splits = lists.row_splits[start : stop + 1]
        items = slice(splits[0], splits[-1])
        arrays: dict[str, Any] = {}
        for name in ("features", *ARRAYS):
            array = getattr(lists, name)
            rows = slice(start, stop) if name == "context_ids" else items
            arrays[name] = None if array is None else array[rows]
        return RankingLists(
            row_splits=splits - splits[0],
            query_ids=lists.query_ids[start:stop],
            doc_ids=docs and docs[items],
            spec=lists.spec,
            **arrays,
        )

    return part(0, count), part(count, lists.num_lists)
