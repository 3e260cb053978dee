"""CSV, JSON lines and Parquet as a source of lists: `dataset="table"`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence

from tfr_ext.core.messages import say
from tfr_ext.core.settings import given
from tfr_ext.data.features import TEXT_WORDS, FeatureSpec
from tfr_ext.data.growing_rows import concatenate
from tfr_ext.data.lists import RankingLists
from tfr_ext.data.tables import table_files
from tfr_ext.data.tables.frames import Columns
from tfr_ext.settings.data_checks import COLUMNS
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources.source import FileSource, Piece, not_weighted

_DOC_ID = "doc_id"  # The default column, which may be missing.


class TableSource(FileSource):
    """CSV, JSON lines and Parquet files.

    All splits have the features of the first one that is read.
    """

    settings = COLUMNS

    def __init__(self, config: DataConfig):
        """Checks the settings."""
        super().__init__(config)
        if not config.keeps_missing and config.missing_value != 0:
            raise ValueError(
                f"{given('missing', config.missing)} is not for `dataset='table'`: "
                "the mean takes the place of empty cells."
            )
        self._columns = Columns(
            config.label_column,
            config.query_column,
            config.feature_columns or None,
            config.weight_column or None,
            config.doc_id_column or None,
            config.keeps_missing,
            config.category_columns or (),
            config.text_columns or (),
            config.embedding_columns or (),
            config.context_columns or (),
            config.text_words or TEXT_WORDS,
            bool(config.embedding_inputs),
        )

    def know(self, columns: Collection[str], spec: FeatureSpec | None) -> None:
        """Sets the feature columns, unless `feature_columns` names them."""
        if spec is not None:
            self._columns = self._columns.of_model(spec)
        elif columns and self._columns.features is None:
            features = tuple(columns)
            self._columns = dataclasses.replace(self._columns, features=features)

    def _read(self, split: str, num_features: int | None) -> RankingLists:
        files = self.files(split)
        columns = self._columns_of(split, files)
        lists = concatenate(table_files.read_files(files, columns))
        self._learn(lists, files[0], num_features)
        return lists

    def _pieces(self, split: str, files: list[str], piece_bytes: int) -> list[Piece]:
        columns = self._columns_of(split, files)
        if split == "train":  # Its first file says which columns are features.
            first = table_files.read_file(files[0], columns)
            self._learn(first, files[0], self.config.num_features)
            columns = self._columns_of(split, files)
        return [TablePiece(path, columns) for path in files]

    def _columns_of(self, split: str, files: Sequence[str]) -> Columns:
        """Returns the meaning of the columns of a split.

        The default column of document names may be missing, and so may weights of lists
        that are not trained on.
        """
        columns = with_names(self._columns, files[0])
        found = table_files.column_names(files[0])
        if split != "train" and columns.weight and columns.weight not in found:
            say(not_weighted(split, files[0], columns.weight))
            columns = dataclasses.replace(columns, weight=None)
        return columns

    def _learn(self, lists: RankingLists, path: str, num_features: int | None) -> None:
        """Keeps the features of the first lists, and prints them."""
        names = lists.feature_names or ()
        if num_features not in (None, len(names)):
            raise ValueError(
                f"`num_features` or the model expects {num_features} features, but "
                f"{path} has {len(names)}: {_listed(names)}. Name the features with "
                "`feature_columns`."
            )
        named, spec = self._columns.features is not None, lists.spec
        if named and self._columns.spec == spec:
            return
        self._columns = self._columns.of(lists)
        names = self._columns.features or ()
        used = {*names, *self._columns.others}
        others = [name for name in table_files.column_names(path) if name not in used]
        line = f"Features: {_listed(names) or 'no numbers'}."
        if spec is not None:
            for what, found in (
                ("Categories", [x for x in spec.encoded() if x.kind == "category"]),
                ("Texts", [x for x in spec.encoded() if x.kind == "text"]),
                ("Embeddings", spec.embeddings),
                ("Of the context", [x for x in spec.features if x.context]),
            ):
                if found:
                    line += f" {what}: {_listed([x.name for x in found])}."
        if others and not named:
            line += f" Not used, as they are not numbers: {_listed(others)}."
        say(f"{line} (Choose others with `feature_columns`.)")


@dataclasses.dataclass(frozen=True)
class TablePiece(Piece):
    """A CSV or Parquet file."""

    path: str
    columns: Columns

    def read(self, num_features: int | None) -> Iterator[RankingLists]:
        """Reads the lists of the file."""
        yield table_files.read_file(self.path, self.columns)

    def locate(self, query_id: str) -> str:
        """Returns where a query is, for messages."""
        return self.path


def with_names(columns: Columns, path: str) -> Columns:
    """Returns columns without the default column of document ids, if it is missing."""
    try:
        found = table_files.column_names(path)
    except ImportError as error:
        raise ValueError(f"`dataset='table'`: {error}") from error
    if columns.doc_id == _DOC_ID and _DOC_ID not in found:
        return dataclasses.replace(columns, doc_id=None)
    return columns


def _listed(names: Sequence[str]) -> str:
    """Returns the first of some names, and their number if there are more."""
    shown = ", ".join(names[:10])
    return shown if len(names) <= 10 else f"{shown}, ... ({len(names)})"
