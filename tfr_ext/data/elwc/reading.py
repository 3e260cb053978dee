"""Reads ELWC: TFRecords of `ExampleListWithContext`, TensorFlow Ranking's own format.

Each record is a query: its examples are the items, and its context holds what they have
in common. TensorFlow's ops (`parsing`) parse several records at a time, in threads of
their own. Records that they do not take are re-read, one by one, by `diagnosis`,
which raises an error that names the record or returns its contents.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import os
from collections.abc import Generator, Iterator, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from tfr_ext.core import checks
from tfr_ext.core.system.threads import in_threads
from tfr_ext.data.elwc import diagnosis
from tfr_ext.data.elwc.diagnosis import NO_RECORDS
from tfr_ext.data.elwc.parsing import Parser, parser
from tfr_ext.data.elwc.schema import Chunk, ElwcSchema
from tfr_ext.data.elwc.tfrecords import each_record, map_records, read_records
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.features import MOST_VALUES
from tfr_ext.data.file_names import Paths, find_files
from tfr_ext.data.growing_rows import concatenate
from tfr_ext.data.lists import RankingLists

__all__ = ["ElwcReader", "ElwcSchema", "iter_elwc", "read_elwc"]

# In larger pieces, numbers would leave the processor's cache, and their memory would go
# back to the system, before they are needed again.
_PIECE_BYTES = 1 << 21


def read_elwc(
    paths: Paths,
    num_features: int | None = None,
    schema: ElwcSchema = ElwcSchema(),  # noqa: B008 (frozen)
) -> RankingLists:
    """Reads ELWC files into memory.

    Args:
        paths: as for `iter_elwc`.
        num_features: width that the features must have.
        schema: names of the features in the files.

    Returns:
        The lists, in the order of the files.

    Raises:
        DataFormatError: As `iter_elwc`.
        FileNotFoundError: If a path or pattern matches no file.
        ValueError: If `num_features` is less than 1.
    """
    return concatenate(iter_elwc(paths, num_features, schema))


def iter_elwc(
    paths: Paths,
    num_features: int | None = None,
    schema: ElwcSchema = ElwcSchema(),  # noqa: B008 (frozen)
    lists_per_piece: int | None = None,
) -> Iterator[RankingLists]:
    """Reads ELWC files piece by piece, in memory for one piece.

    Files may be gzipped, whatever their name. A feature that an example or a context
    lacks becomes `schema.missing_value`. As in TensorFlow Ranking, an item with a
    negative label is one that nobody judged: it is left out, as is a list with no other
    items. Warnings say how many there were of each.

    Args:
        paths: a path, a pattern such as `data/train-*.tfrecord`, several of them
            separated by commas, or an iterable of those, on any file system that
            `tf.io.gfile` knows. The files that a pattern matches are read in sorted
            order.
        num_features: width that the features must have; None if any will do.
        schema: names of the features in the files.
        lists_per_piece: maximum number of lists per piece; by default about as many as
            make 2 MB, which are parsed the fastest.

    Yields:
        Lists, in the order of the files. A query without a name is named after its
        file and record. `doc_ids` is None unless every item of the piece has one. The
        features may be read-only.

    Raises:
        DataFormatError: If a file does not have this format; the message names the
            file, the record, the example and what was expected.
        FileNotFoundError: If a path or pattern matches no file.
        ValueError: If `num_features` or `lists_per_piece` is less than 1.

    Examples:
        >>> import os, tempfile
        >>> from tfr_ext.data.elwc.message import ExampleListWithContext
        >>> elwc = ExampleListWithContext()
        >>> elwc.context.features.feature["query_id"].bytes_list.value.append(b"q7")
        >>> for label in (2, 0):
        ...     feature = elwc.examples.add().features.feature
        ...     feature["float_features"].float_list.value.extend([0.5, label])
        ...     feature["label"].float_list.value.append(label)
        >>> path = os.path.join(tempfile.mkdtemp(), "train.tfrecord")
        >>> with tf.io.TFRecordWriter(path) as writer:
        ...     writer.write(elwc.SerializeToString())
        >>> for lists in iter_elwc(path):
        ...     print(lists.query_ids, lists.labels.tolist(), lists.features.tolist())
        ['q7'] [2.0, 0.0] [[0.5, 2.0], [0.5, 0.0]]
    """
    files = find_files(paths)
    reader = ElwcReader(files, num_features, schema)
    for _, lists in reader.read(lists_per_piece=lists_per_piece):
        yield lists
    reader.finish()


class ElwcReader:
    """Reads some files, one after the other, as one collection.

    The width of a feature is that in the first example of the first file that has it,
    and no query may occur twice.
    """

    def __init__(
        self,
        files: Sequence[str],
        num_features: int | None = None,
        schema: ElwcSchema = ElwcSchema(),  # noqa: B008 (frozen)
    ):
        """Initialises the reader.

        Args:
            files: the files.
            num_features: width that the features must have; None if any will do.
            schema: names of the features in the files.

        Raises:
            ValueError: If `num_features` is less than 1.
        """
        least = 0 if schema.encoded or schema.packed else 1
        if num_features is not None:
            checks.at_least("num_features", num_features, least)
        self._files = list(files)
        self._num_features = num_features
        self._schema = schema
        self._parser: Parser | None = None
        self._records_per_piece = 1
        self._seen: dict[str, int] = {}  # Maps a query to its number in reading order.
        self._begun: list[tuple[int, str]] = []  # The number at which each file begins.
        self._num_queries = 0
        self._num_nameless = 0
        self._num_unjudged = 0
        self._num_dropped = 0
        self._num_absent = 0
        self._faults = np.zeros(2, int)

    def read(
        self, paths: Sequence[str] | None = None, lists_per_piece: int | None = None
    ) -> Iterator[tuple[str, RankingLists]]:
        """Reads files piece by piece.

        Args:
            paths: some of the files; all by default.
            lists_per_piece: as of `iter_elwc`.

        Yields:
            The file and the lists of each piece.

        Raises:
            DataFormatError: If something is wrong.
            ValueError: If `lists_per_piece` is less than 1.
        """
        if lists_per_piece is not None:
            checks.at_least("lists_per_piece", lists_per_piece, 1)
        paths = self._files if paths is None else paths
        for path, chunks in self._chunks(paths, lists_per_piece):
            self._begun.append((self._num_queries, path))
            record = 1
            for chunk in chunks:
                lists = self._lists(chunk, path, record)
                record += len(chunk.lengths)
                if lists.num_lists:
                    yield path, lists
            if record == 1:
                raise DataFormatError(NO_RECORDS, path)

    def finish(self, may_be_empty: bool = False) -> None:
        """Warns about what was left out or named, and checks that something is left.

        Args:
            may_be_empty: whether nothing may be left, as in a part of the files.

        Raises:
            DataFormatError: If there is not a single judged item.
        """
        first = self._files[0] + (", ..." if len(self._files) > 1 else "")
        if self._num_nameless:
            logging.warning(
                "%d of %d queries have no %r and are named after file and record: %s.",
                self._num_nameless,
                self._num_queries,
                self._schema.query_id,
                first,
            )
        if self._num_unjudged:
            logging.warning(
                "Left out %d items with a negative label, and %d of %d queries that "
                "have no others: %s.",
                self._num_unjudged,
                self._num_dropped,
                self._num_queries,
                first,
            )
        if self._num_absent:
            value = self._schema.missing_value
            logging.warning(
                "%d values of features were absent and are %s: %s.",
                self._num_absent,
                "missing" if np.isnan(value) else f"{value:g}",
                first,
            )
        num_cut, num_invalid = self._faults
        if num_cut:
            logging.warning(
                "%d categories or texts of items or lists have more values (%d) or "
                "words than are used, of which the first are used: %s.",
                *(num_cut, MOST_VALUES, first),
            )
        if num_invalid:
            logging.warning(
                "%d texts have bytes that are not UTF-8; the words around them are "
                "used: %s.",
                *(num_invalid, first),
            )
        if self._num_dropped == self._num_queries and not may_be_empty:
            raise DataFormatError(
                "all labels are negative, expected judged items", self._begun[0][1]
            )

    def _chunks(
        self, paths: Sequence[str], size: int | None
    ) -> Iterator[tuple[str, Iterator[Chunk]]]:
        """Yields the contents of each file, `size` records at a time."""
        if self._parser is None:
            self._parser = self._measured()
        size = size or self._records_per_piece
        coming = map_records(paths, size, self._parser.graph)
        for path in paths:
            yield path, self._chunks_of_file(path, size, coming)

    def _chunks_of_file(
        self, path: str, size: int, coming: Generator[dict[str, tf.Tensor] | None]
    ) -> Iterator[Chunk]:
        assert self._parser is not None
        parse = self._parser.parse
        done = 0
        for found in coming:
            if found is None:
                return
            chunk = self._parser.checked(found)
            if chunk is None:
                break
            yield chunk
            done += 1
        # From here on, also in further files, there is nothing to come.
        coming.close()
        pieces = itertools.islice(enumerate(read_records(path, size)), done, None)
        yield from in_threads(
            lambda piece: parse(piece[1], path, piece[0] * size + 1), pieces
        )

    def _measured(self) -> Parser:
        """Returns a parser for records with the widths of the first file."""
        first = self._files[0]
        records = each_record(first)
        head = list(itertools.islice(records, 1))
        widths = diagnosis.measure(itertools.chain(head, records), first, self._schema)
        size = max(1, len(head[0]))
        self._records_per_piece = min(_PIECE_BYTES // size + 1, 256)
        found = widths.num_features
        if self._num_features not in (None, found):
            raise DataFormatError(
                f"there are {found} features, expected {self._num_features}", first
            )
        return parser(self._schema, widths)

    def _lists(self, chunk: Chunk, path: str, first_record: int) -> RankingLists:
        """Names the queries, and leaves out items that nobody judged."""
        assert self._parser is not None
        self._num_absent += chunk.num_absent
        self._faults += chunk.faults
        query_ids = []
        for record, name in enumerate(chunk.query_ids, first_record):
            if name is None:
                name = f"{self._name(path)}:{record}"
                self._num_nameless += 1
            if name in self._seen:
                raise DataFormatError(
                    f"record {record}: query {name!r} occurred before, at "
                    f"{self._place(self._seen[name])}; expected each query once",
                    path,
                )
            self._seen[name] = self._num_queries
            self._num_queries += 1
            query_ids.append(name)
        packed = self._schema.packed
        lists = RankingLists(
            chunk.features,
            chunk.labels,
            np.concatenate([[0], np.cumsum(chunk.lengths)]),
            query_ids,
            chunk.doc_ids,
            feature_names=None if packed is None else tuple(packed.feature_names),
            ids=chunk.ids,
            context_ids=chunk.context_ids,
            spec=self._parser.spec,
        )
        judged = chunk.labels >= 0
        kept = np.add.reduceat(judged, lists.row_splits[:-1], dtype=np.int64)
        distributions, weights = chunk.distributions, chunk.weights
        if not judged.all():
            self._num_unjudged += int((~judged).sum())
            self._num_dropped += int((kept == 0).sum())
            lists = lists.with_items(
                np.flatnonzero(judged),
                kept[kept > 0],
                [name for name, count in zip(query_ids, kept) if count],
            )
            distributions = None if distributions is None else distributions[judged]
            weights = None if weights is None else weights[judged]
        if distributions is None and weights is None:
            return lists
        # Checked only now, because items that nobody judged may have any values.
        return dataclasses.replace(
            lists, label_distributions=distributions, weights=weights
        )

    def _name(self, path: str) -> str:
        """Returns the name of a file, made unique among the files."""
        name = os.path.basename(path)
        others = sum(os.path.basename(file) == name for file in self._files)
        return name if others < 2 else path

    def _place(self, query: int) -> str:
        at = bisect.bisect([number for number, _ in self._begun], query) - 1
        number, path = self._begun[at]
        return f"{path}, record {query - number + 1}"
