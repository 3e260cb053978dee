"""Reads LETOR / SVMrank text, the format of most learning-to-rank data sets.

A line is `LABEL qid:QUERY INDEX:VALUE ... # comment`. Array operations (`arrays`) read
text chunk by chunk. They never raise errors: a chunk that they do not understand is
re-read, line by line, by `diagnosis`, which raises an error that names the line or
returns the contents of the chunk.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from absl import logging

from tfr_ext.core import checks
from tfr_ext.data import text_files
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.file_names import Paths, find_files
from tfr_ext.data.growing_rows import GrowingRows
from tfr_ext.data.letor import arrays, diagnosis
from tfr_ext.data.letor.diagnosis import Chunk
from tfr_ext.data.lists import RankingLists

__all__ = ["DataFormatError", "iter_letor", "read_letor"]

# A larger result is taken for a stray index unless the caller gives the width.
_MAX_OUTPUT_BYTES = 16 << 30
# Features that a reader holds before it yields the complete lists.
_PIECE_BYTES = 4 << 20


def read_letor(
    paths: Paths,
    num_features: int | None = None,
    missing_value: float = 0.0,
) -> RankingLists:
    r"""Reads LETOR / SVMrank files into memory.

    A line is `LABEL qid:QUERY INDEX:VALUE ... # comment`; indices count from 1, may
    come in any order, and those absent are 0. If a line gives an index twice, the last
    value counts, and a warning says so. Files may be compressed with gzip, bzip2 or xz,
    whatever their name. Blank lines and lines with only a comment are skipped.

    Memory in use is that of the result plus some MiB. Only if `num_features` is None
    and a larger index occurs late, the result is held twice for a moment.

    Args:
        paths: A path, a pattern such as `data/*.txt`, several of them separated by
            commas, or an iterable of those, on any file system that `tf.io.gfile`
            knows. The files that a pattern matches are read in sorted order.
        num_features: Width of the result, and the largest index accepted. None
            takes the largest index found, up to 1,000,000.
        missing_value: What the value `NULL` becomes (as in the data sets of
            LETOR 4.0 named NULL).

    Returns:
        The lists, in the order of the files. `doc_ids` comes from comments that
        begin `#docid = NAME`, and is None unless every line has one.

    Raises:
        DataFormatError: If a file does not have this format; the message names the
            file, the line and what was expected.
        FileNotFoundError: If a path or pattern matches no file.
        IsADirectoryError: If it matches a directory.
        ValueError: If `num_features` is less than 1.

    Examples:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "train.txt")
        >>> with open(path, "w") as file:
        ...     _ = file.write("2 qid:10 1:0.5 3:1e-1 #docid = a\n")
        ...     _ = file.write("0 qid:10 2:-7 #docid = b\n")
        >>> lists = read_letor(path)
        >>> lists.features.tolist()[1], lists.labels.tolist()
        ([0.0, -7.0, 0.0], [2.0, 0.0])
        >>> lists.query_ids, lists.doc_ids
        (['10'], ['a', 'b'])
    """
    result = ListsBuilder(num_features)
    for path in find_files(paths):
        for chunk in read_chunks(path, num_features, missing_value):
            result.append(chunk, path)
        result.end_file(path)
    result.warn_of_changes(missing_value, paths)
    return result.finish()


def iter_letor(
    paths: Paths,
    num_features: int,
    missing_value: float = 0.0,
    labelled: bool = True,
) -> Iterator[RankingLists]:
    r"""Reads LETOR / SVMrank files piece by piece, in memory for a few pieces.

    Only the names of the queries are kept, to find those that occur again.

    Args:
        paths: as for `read_letor`.
        num_features: width of the lists, and the largest index accepted.
        missing_value: as for `read_letor`.
        labelled: whether labels are wanted. Otherwise a line may have none, or any
            number, and all labels are 0.

    Yields:
        The lists, in the order of the files. Once an item has no document id,
        `doc_ids` is None.

    Raises:
        DataFormatError: As `read_letor`.
        FileNotFoundError: As `read_letor`.
        IsADirectoryError: As `read_letor`.
        ValueError: As `read_letor`.

    Examples:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "new.txt")
        >>> with open(path, "w") as file:
        ...     _ = file.write("qid:10 1:0.5 3:1e-1\nqid:10 2:-7\n")
        >>> for lists in iter_letor(path, num_features=3, labelled=False):
        ...     print(lists.query_ids, lists.features.tolist()[1])
        ['10'] [0.0, -7.0, 0.0]
    """
    lists = ListsBuilder(num_features, labelled)
    for path in find_files(paths):
        chunks = read_chunks(path, num_features, missing_value, labelled=labelled)
        yield from lists.take_pieces(chunks, path)
        lists.end_file(path)
    lists.warn_of_changes(missing_value, paths)
    yield lists.finish()


def read_chunks(
    path: str,
    num_features: int | None,
    missing_value: float,
    start: int = 0,
    end: int | None = None,
    first_line: int = 1,
    labelled: bool = True,
) -> Iterator[Chunk]:
    """Reads a file chunk by chunk, or its whole lines from byte `start` up to `end`.

    `first_line` is the number of the line at `start`. The other arguments are those of
    `diagnosis.parse_slowly`.
    """
    for line, text in text_files.read_pieces(path, start, end, first_line):
        chunk = arrays.parse_fast(text, line, num_features, missing_value, labelled)
        if chunk is None:
            chunk = diagnosis.parse_slowly(
                text, path, line, num_features, missing_value, labelled
            )
        yield chunk


class ListsBuilder:
    """Builds lists from chunks of lines, in arrays that grow."""

    def __init__(self, num_features: int | None, labelled: bool = True) -> None:
        """Starts with no lines; `num_features` None stands for the largest index."""
        if num_features is not None:
            checks.at_least("num_features", num_features, 1)
        self._labelled = labelled
        self._num_null = 0
        self._repeats: dict[str, tuple[int, int]] = {}
        self._fixed_width = num_features is not None
        self._features = GrowingRows(num_features or 0)
        self._rows_before_file = 0
        self._labels: list[np.ndarray] = []
        self._starts: list[int] = []
        self._query_ids: list[str] = []
        self._doc_ids: list[str] | None = []
        self._first_lines: dict[str, tuple[str, int]] = {}
        self._open_query: str | None = None  # That of the line before, in this file.

    def append(self, chunk: Chunk, path: str) -> None:
        """Adds the lines of a chunk."""
        if not len(chunk.labels):
            return
        self._add_queries(chunk, path)
        self._add_features(chunk, path)
        self._num_null += chunk.num_null
        if chunk.repeats:
            count, first = self._repeats.get(path, (0, chunk.repeats[0]))
            self._repeats[path] = count + len(chunk.repeats), first
        self._labels.append(chunk.labels)
        if self._doc_ids is not None and chunk.doc_ids is not None:
            self._doc_ids += chunk.doc_ids
        else:
            self._doc_ids = None

    def end_file(self, path: str) -> None:
        """Closes the last query, which must not go on in another file."""
        if self._features.num_rows == self._rows_before_file:
            line = "LABEL " * self._labelled + "qid:NAME INDEX:VALUE ..."
            raise DataFormatError(f"the file holds no data, expected `{line}`", path)
        self._rows_before_file = self._features.num_rows
        self._open_query = None

    def take_pieces(self, chunks: Iterable[Chunk], path: str) -> Iterator[RankingLists]:
        """Adds the chunks of a file, and yields lists as soon as there are many."""
        for chunk in chunks:
            self.append(chunk, path)
            size = self._features.num_rows * self._features.width * 4
            if size > _PIECE_BYTES and len(self._starts) > 1:
                yield self._take_whole()

    def warn_of_changes(
        self, missing_value: float, where: object, lines_before: Callable[[], int] = int
    ) -> None:
        """Warns of `NULL` values, and for each file of lines with an index twice.

        `lines_before` counts the lines of the file before those that were read; by
        default, there are none.
        """
        for path, (count, first) in self._repeats.items():
            logging.warning(
                "%s:%d: this line, the first of %d, gives a feature index twice. The "
                "last value counts, as in TensorFlow Ranking.",
                path,
                first + lines_before(),
                count,
            )
        if self._num_null and np.isnan(missing_value):
            logging.info("%d NULL values are missing in %s.", self._num_null, where)
        elif self._num_null:
            logging.warning(
                "Replaced %d NULL values by %s in %s.",
                self._num_null,
                missing_value,
                where,
            )

    def _take_whole(self) -> RankingLists:
        """Returns the complete lists, and keeps the last one, which may go on."""
        end = self._starts[-1]
        labels = np.concatenate([np.zeros(0, np.float32), *self._labels])
        lists = RankingLists(
            features=self._features.take(end),
            labels=labels[:end],
            row_splits=np.array(self._starts, np.int64),
            query_ids=self._query_ids[:-1],
            doc_ids=self._doc_ids and self._doc_ids[:end],
        )
        self._rows_before_file -= end
        self._labels = [labels[end:]]
        self._starts = [0]
        self._query_ids = self._query_ids[-1:]
        self._doc_ids = self._doc_ids and self._doc_ids[end:]
        return lists

    def finish(self) -> RankingLists:
        """Returns everything that was added."""
        return RankingLists(
            features=self._features.whole(),
            labels=np.concatenate(self._labels),
            row_splits=np.array([*self._starts, self._features.num_rows], np.int64),
            query_ids=self._query_ids,
            doc_ids=self._doc_ids,
        )

    def _add_queries(self, chunk: Chunk, path: str) -> None:
        names = chunk.query_ids
        changed = np.fromiter(map(operator.ne, names[1:], names), bool, len(names) - 1)
        starts = (np.flatnonzero(changed) + 1).tolist()
        if names[0] != self._open_query:
            starts.insert(0, 0)
        for row in starts:
            name, line = names[row], chunk.lines[row]
            if name in self._first_lines:
                earlier = "{}:{}".format(*self._first_lines[name])
                raise DataFormatError(
                    f"query {name!r} began earlier, at {earlier}, and other lines came "
                    "between; expected the lines of a query next to each other in one "
                    "file",
                    path,
                    line,
                )
            self._first_lines[name] = path, line
            self._query_ids.append(name)
            self._starts.append(self._features.num_rows + row)
        self._open_query = names[-1]

    def _add_features(self, chunk: Chunk, path: str) -> None:
        width = self._features.width
        rows = self._features.num_rows + len(chunk.labels)
        last = int(chunk.index.max(initial=0))
        too_large = rows * max(last, width) * 4 > _MAX_OUTPUT_BYTES
        if too_large and not self._fixed_width:
            at = int(chunk.index.argmax()) if last else 0
            line = int(np.searchsorted(np.cumsum(chunk.counts), at, "right"))
            raise DataFormatError(
                f"{rows} lines of {max(last, width)} features need more than "
                f"{_MAX_OUTPUT_BYTES >> 30} GiB, expected less unless `num_features` "
                f"is given. Found: feature index {last}",
                path,
                chunk.lines[line],
            )
        if last > width and not self._fixed_width:
            self._features.widen(last)
            width = last
        new = self._features.add(len(chunk.labels))
        indices = np.arange(1, width + 1)
        if len(chunk.index) == new.size and (
            (chunk.index.reshape(new.shape) == indices).all()
        ):
            new[:] = chunk.value.reshape(new.shape)
        else:
            row = np.repeat(np.arange(len(new)), chunk.counts)
            new.reshape(-1)[row * width + (chunk.index - 1)] = chunk.value
