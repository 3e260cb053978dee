"""Sources that need no other package: LETOR text, and synthetic lists."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from tfr_ext.data.letor import byte_ranges
from tfr_ext.data.letor.byte_ranges import Survey, TextRange
from tfr_ext.data.letor.reading import read_letor
from tfr_ext.data.lists import RankingLists
from tfr_ext.data.synthetic import synthetic_lists
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources.source import (
    Division,
    FileSource,
    Piece,
    Source,
    settings_of,
    slices,
)


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
        """See `Source`."""
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
    return SyntheticSource(config).read("train", None)
