"""Divides the lists of --dataset into pieces that workers read one by one."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from tfr_ext.data import RankingLists
from tfr_ext.data.elwc.reading import ElwcReader
from tfr_ext.data.file_names import find_files
from tfr_ext.data.letor import byte_ranges
from tfr_ext.data.letor.byte_ranges import Survey, TextRange
from tfr_ext.data.tables import table_files
from tfr_ext.data.tables.frames import Columns
from tfr_ext.datasets import loading
from tfr_ext.training.data_config import DataConfig
from tfr_ext.training.sources import data_splits
from tfr_ext.training.sources.source import Source, paths


class Piece(Protocol):
    """Some lists of a split, next to each other, that one worker reads.

    It is sent to workers on other machines, so it can be pickled, and says where lists
    are instead of holding them.
    """

    def read(self, num_features: int | None) -> Iterator[RankingLists]:
        """Reads the lists, a few at a time.

        Args:
            num_features: width that they must have; None if any will do.

        Raises:
            ValueError: if the data has errors.
        """

    def survey(self, num_features: int | None) -> Survey:
        """Counts the lists; arguments and errors are those of `read`."""

    def locate(self, query_id: str) -> str:
        """Says where a query is, for messages."""


@dataclasses.dataclass(frozen=True)
class Division:
    """A source in pieces.

    Attributes:
        pieces: the pieces of each split that the source has, in order.
        files: the files that it is read from.
        needs_width: whether pieces can only be read if the number of features is known.
    """

    pieces: Mapping[str, list[Piece]]
    files: list[str]
    needs_width: bool = False


def divide(config: DataConfig, piece_bytes: int) -> Division:
    """Divides the source that the settings name.

    Args:
        config: settings of the data.
        piece_bytes: about how many bytes of text or of features a piece has.

    Raises:
        ValueError: if there is no such source, or settings do not fit each other.
        FileNotFoundError: if there is no such file.
    """
    origin = data_splits.source(config)
    if config.dataset in ("text", "table", "elwc") and "train" not in origin.splits:
        raise ValueError(f"--dataset={config.dataset} needs --train_path.")
    if config.dataset == "text":
        return _divide_text(config, origin, piece_bytes)
    if config.dataset == "table":
        return _divide_table(origin, config.num_features)
    if config.dataset == "elwc":
        return _divide_elwc(config, origin)
    if config.dataset == "synthetic":
        return _divide_synthetic(config, piece_bytes)
    return _divide_tfds(config, piece_bytes)


@dataclasses.dataclass(frozen=True)
class TextPiece:
    """A range of a LETOR file; a `Piece`."""

    text: TextRange
    missing_value: float

    def read(self, num_features: int | None) -> Iterator[RankingLists]:
        """See `Piece`."""
        if num_features is None:
            raise ValueError("Pieces of text cannot be read without `num_features`.")
        return byte_ranges.read_range(self.text, num_features, self.missing_value)

    def survey(self, num_features: int | None) -> Survey:
        """See `Piece`."""
        return byte_ranges.survey_range(self.text, num_features)

    def locate(self, query_id: str) -> str:
        """See `Piece`."""
        return byte_ranges.find_query(self.text, query_id)


@dataclasses.dataclass(frozen=True)
class TablePiece:
    """A CSV or Parquet file; a `Piece`."""

    path: str
    columns: Columns

    def read(self, num_features: int | None) -> Iterator[RankingLists]:
        """See `Piece`."""
        yield table_files.read_file(self.path, self.columns)

    def survey(self, num_features: int | None) -> Survey:
        """See `Piece`."""
        return _survey(self.read(num_features))

    def locate(self, query_id: str) -> str:
        """See `Piece`."""
        return self.path


@dataclasses.dataclass(frozen=True)
class SyntheticPiece:
    """Some lists of a source that can only be drawn as a whole; a `Piece`."""

    config: DataConfig
    num_features: int
    start: int
    stop: int

    def read(self, num_features: int | None) -> Iterator[RankingLists]:
        """See `Piece`."""
        yield _drawn(self.config).select(range(self.start, self.stop))

    def survey(self, num_features: int | None) -> Survey:
        """See `Piece`."""
        return Survey(self.stop - self.start, self.num_features, has_doc_ids=False)

    def locate(self, query_id: str) -> str:
        """See `Piece`."""
        return f"lists {self.start} to {self.stop}"


@functools.lru_cache(maxsize=1)  # A worker gets many pieces of the same source.
def _drawn(config: DataConfig) -> RankingLists:
    return data_splits.source(config).read("train", None)


@dataclasses.dataclass(frozen=True)
class TfdsPiece:
    """A slice of a data set of TensorFlow Datasets; a `Piece`."""

    name: str
    data_dir: str | None
    split: str
    start: int
    stop: int

    def read(self, num_features: int | None) -> Iterator[RankingLists]:
        """See `Piece`."""
        yield loading.load(
            self.name, f"{self.split}[{self.start}:{self.stop}]", self.data_dir
        )

    def survey(self, num_features: int | None) -> Survey:
        """See `Piece`."""
        return _survey(self.read(num_features))

    def locate(self, query_id: str) -> str:
        """See `Piece`."""
        return f"{self.name}, {self.split}[{self.start}:{self.stop}]"


@dataclasses.dataclass(frozen=True)
class ElwcPiece:
    """A file of ELWC TFRecords; a `Piece`.

    Attributes:
        path: the file.
        files: all files of the split, which the reader needs to know.
        schema: names of the features.
        expected: what a manifest says about the file, if there is one.
    """

    path: str
    files: tuple[str, ...]
    schema: Any
    expected: Any

    def read(self, num_features: int | None) -> Iterator[RankingLists]:
        """See `Piece`."""
        reader = ElwcReader(self.files, num_features, self.schema)
        queries = items = 0
        for _, lists in reader.read([self.path]):
            queries += lists.num_lists
            items += lists.num_items
            if self.expected is not None:
                self.expected.check(lists)
            yield lists
        reader.finish(may_be_empty=True)
        if self.expected is not None:
            self.expected.check_counts(queries, items)

    def survey(self, num_features: int | None) -> Survey:
        """See `Piece`."""
        return _survey(self.read(num_features))

    def locate(self, query_id: str) -> str:
        """See `Piece`."""
        return self.path


def _survey(pieces: Iterable[RankingLists]) -> Survey:
    queries = width = 0
    has_doc_ids = True
    for lists in pieces:
        queries += lists.num_lists
        width = lists.num_features
        has_doc_ids &= lists.doc_ids is not None
    return Survey(queries, width, has_doc_ids)


def _divide_text(config: DataConfig, origin: Source, piece_bytes: int) -> Division:
    files = {s: find_files(paths(config, s)) for s in origin.splits}
    pieces: dict[str, list[Piece]] = {
        split: [
            TextPiece(text, config.missing_value)
            for path in found
            for text in byte_ranges.split_file(path, piece_bytes)
        ]
        for split, found in files.items()
    }
    return Division(pieces, sum(files.values(), []), needs_width=True)


def _divide_table(origin: Any, num_features: int | None) -> Division:
    origin.find_features(num_features)
    files = {split: origin.files(split) for split in origin.splits}
    columns = {split: origin.columns(split, found) for split, found in files.items()}
    pieces: dict[str, list[Piece]] = {
        split: [TablePiece(path, columns[split]) for path in found]
        for split, found in files.items()
    }
    return Division(pieces, sum(files.values(), []))


def _divide_synthetic(config: DataConfig, piece_bytes: int) -> Division:
    count = config.synthetic_num_queries
    width = config.synthetic_document_features + config.synthetic_query_features
    feature_bytes = 4 * count * config.synthetic_list_size * width
    slices = _slices(count, feature_bytes, piece_bytes)
    pieces: list[Piece] = [SyntheticPiece(config, width, *part) for part in slices]
    return Division({"train": pieces}, [])


def _divide_tfds(config: DataConfig, piece_bytes: int) -> Division:
    builder = loading.prepare(config.dataset, config.data_dir, config.manual_dir)
    infos = {
        split: builder.info.splits[theirs]
        for split, theirs in loading.splits(builder).items()
    }
    pieces: dict[str, list[Piece]] = {
        split: [
            TfdsPiece(config.dataset, config.data_dir, split, *part)
            for part in _slices(info.num_examples, info.num_bytes, piece_bytes)
        ]
        for split, info in infos.items()
    }
    return Division(pieces, [str(p) for info in infos.values() for p in info.filepaths])


def _divide_elwc(config: DataConfig, origin: Any) -> Division:
    checked = {s: origin.checked(s, config.num_features) for s in origin.splits}
    schemas = {s: origin.schema_of(s, found.files) for s, found in checked.items()}
    pieces: dict[str, list[Piece]] = {
        split: [
            ElwcPiece(
                path, tuple(found.files), schemas[split], found.expected.get(path)
            )
            for path in found.files
        ]
        for split, found in checked.items()
    }
    return Division(pieces, sum((found.files for found in checked.values()), []))


def _slices(count: int, size: int, piece_bytes: int) -> list[tuple[int, int]]:
    """Cuts so many lists, of so many bytes together, into slices of equal number."""
    number = min(count, max(1, round(size / piece_bytes)))
    bounds = [count * i // max(1, number) for i in range(number + 1)]
    return list(zip(bounds, bounds[1:]))
