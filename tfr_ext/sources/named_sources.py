"""The sources by name, with those of text, synthetic lists and TFDS."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Collection, Iterator
from typing import Any

from tfr_ext import datasets
from tfr_ext.core import checks
from tfr_ext.core.settings import given
from tfr_ext.data.letor import byte_ranges
from tfr_ext.data.letor.byte_ranges import Survey, TextRange
from tfr_ext.data.letor.reading import read_letor
from tfr_ext.data.lists import RankingLists
from tfr_ext.data.synthetic import synthetic_lists
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources.elwc_source import ElwcSource
from tfr_ext.sources.source import (
    Division,
    FileSource,
    Piece,
    Source,
    settings_of,
    slices,
)
from tfr_ext.sources.table_source import TableSource


class TextSource(FileSource):
    """LETOR text: `dataset="text"`."""

    _needs_width = True

    def _read(self, split: str, num_features: int | None) -> RankingLists:
        return read_letor(self.files(split), num_features, self.config.missing_value)

    def _pieces(self, split: str, files: list[str], piece_bytes: int) -> list[Piece]:
        return [
            TextPiece(text, self.config.missing_value)
            for path in files
            for text in byte_ranges.split_file(path, piece_bytes)
        ]


@dataclasses.dataclass(frozen=True)
class TextPiece(Piece):
    """A range of a LETOR file."""

    text: TextRange
    missing_value: float

    def read(self, num_features: int | None) -> Iterator[RankingLists]:
        """Reads the lists of the range, a few at a time."""
        if num_features is None:
            raise ValueError("Pieces of text cannot be read without `num_features`.")
        return byte_ranges.read_range(self.text, num_features, self.missing_value)

    def survey(self, num_features: int | None) -> Survey:
        """Counts the lists of the range."""
        return byte_ranges.survey_range(self.text, num_features)

    def locate(self, query_id: str) -> str:
        """Returns the file and line at which a query begins."""
        return byte_ranges.find_query(self.text, query_id)


class SyntheticSource(Source):
    """Synthetic lists, all in 'train': `dataset="synthetic"`."""

    settings = settings_of("synthetic_")
    is_drawn = True
    splits = ("train",)

    def __init__(self, config: DataConfig):
        """Checks that the settings name no files."""
        super().__init__(config)
        self._reject_paths()

    def _read(self, split: str, num_features: int | None) -> RankingLists:
        config = self.config
        return synthetic_lists(
            num_lists=config.synthetic_num_queries,
            list_size=config.synthetic_list_size,
            num_document_features=config.synthetic_document_features,
            num_query_features=config.synthetic_query_features,
            max_label=config.synthetic_max_label,
            integer_labels=config.synthetic_integer_labels,
            shared_columns=config.synthetic_shared_columns,
            seed=config.random_seed,
        )

    def divide(self, piece_bytes: int) -> Division:
        """Divides the lists into slices."""
        config = self.config
        count = config.synthetic_num_queries
        width = config.synthetic_document_features + config.synthetic_query_features
        feature_bytes = 4 * count * config.synthetic_list_size * width
        pieces: list[Piece] = [
            SyntheticPiece(config, width, *part)
            for part in slices(count, feature_bytes, piece_bytes)
        ]
        return Division({"train": pieces}, [])


@dataclasses.dataclass(frozen=True)
class SyntheticPiece(Piece):
    """Some lists of a source that can only be drawn as a whole."""

    config: DataConfig
    num_features: int
    start: int
    stop: int

    def read(self, num_features: int | None) -> Iterator[RankingLists]:
        """Draws all lists, and yields the slice."""
        yield _drawn(self.config).select(range(self.start, self.stop))

    def survey(self, num_features: int | None) -> Survey:
        """Counts the lists of the slice."""
        return Survey(self.stop - self.start, self.num_features, has_doc_ids=False)

    def locate(self, query_id: str) -> str:
        """Returns the slice, for messages."""
        return f"lists {self.start} to {self.stop}"


@functools.lru_cache(maxsize=1)  # A worker gets many pieces of the same source.
def _drawn(config: DataConfig) -> RankingLists:
    return SyntheticSource(config).read("train", None)


# The only place that knows which sources there are.
SOURCES: dict[str, type[Source]] = {
    "elwc": ElwcSource,
    "synthetic": SyntheticSource,
    "table": TableSource,
    "text": TextSource,
}


def kind(name: str) -> type[Source]:
    """Returns the class of the source that a value of `dataset` names.

    What looks like a misspelt name of `SOURCES` is an error, and no name of TFDS.
    """
    if name in SOURCES:
        return SOURCES[name]
    hint = checks.near(name, [*SOURCES])
    if "/" not in name and hint != ".":
        raise ValueError(f"{given('dataset', name)} is not known{hint}")
    return TfdsSource


def source(config: DataConfig) -> Source:
    """Returns the source that the settings name."""
    return kind(config.dataset)(config)


class TfdsSource(Source):
    """A data set of TensorFlow Datasets, prepared when it is first used."""

    def __init__(self, config: DataConfig):
        """Finds the data set."""
        super().__init__(config)
        name = config.dataset
        try:
            self._builder = datasets.builder(name, config.data_dir)
        except (ImportError, ValueError) as error:
            raise ValueError(
                f"{given('dataset', name)}: {error} Other sources of lists: "
                f"{', '.join(SOURCES)}."
            ) from error
        if not sys.stderr.isatty():  # A progress bar would print lines of garbage.
            datasets.catalogue.import_tfds().disable_progress_bar()
        self._reject_paths()
        if config.absent_value != 0:
            raise ValueError(
                f"{given('missing', config.missing)} is only for files. In {name}, "
                "missing values are 0."
            )
        self._check_width(config.num_features)

    @property
    def splits(self) -> Collection[str]:
        """The splits of the prepared data set."""
        return datasets.splits(self._prepared)

    def _read(self, split: str, num_features: int | None) -> RankingLists:
        self._check_width(num_features)
        return datasets.read(self._prepared, split)

    def divide(self, piece_bytes: int) -> Division:
        """Divides all splits into slices."""
        config = self.config
        infos = {
            split: self._prepared.info.splits[theirs]
            for split, theirs in datasets.splits(self._prepared).items()
        }
        pieces: dict[str, list[Piece]] = {
            split: [
                TfdsPiece(config.dataset, config.data_dir, split, *part)
                for part in slices(info.num_examples, info.num_bytes, piece_bytes)
            ]
            for split, info in infos.items()
        }
        files = [str(path) for info in infos.values() for path in info.filepaths]
        return Division(pieces, files)

    @functools.cached_property
    def _prepared(self) -> Any:
        config = self.config
        return datasets.prepare(config.dataset, config.data_dir, config.manual_dir)

    def _check_width(self, num_features: int | None) -> None:
        width = self._builder.info.features["float_features"].shape[-1]
        if num_features not in (None, width):
            raise ValueError(
                f"`num_features` or the model expects {num_features} features, but "
                f"{given('dataset', self.config.dataset)} has {width}."
            )


@dataclasses.dataclass(frozen=True)
class TfdsPiece(Piece):
    """A slice of a data set of TensorFlow Datasets."""

    name: str
    data_dir: str | None
    split: str
    start: int
    stop: int

    def read(self, num_features: int | None) -> Iterator[RankingLists]:
        """Reads the lists of the slice."""
        yield datasets.load(
            self.name, f"{self.split}[{self.start}:{self.stop}]", self.data_dir
        )

    def locate(self, query_id: str) -> str:
        """Returns the slice, for messages."""
        return f"{self.name}, {self.split}[{self.start}:{self.stop}]"
