"""ELWC TFRecords as a source of lists: `dataset="elwc"`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterator

from tfr_ext.core.messages import say
from tfr_ext.core.settings import given
from tfr_ext.data.batches import streams
from tfr_ext.data.elwc import manifest, shards, writing
from tfr_ext.data.elwc.proto_features import has_feature, measure_features
from tfr_ext.data.elwc.reading import ElwcReader
from tfr_ext.data.elwc.schema import ElwcSchema
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.features import TEXT_WORDS, FeatureSpec
from tfr_ext.data.file_names import find_files
from tfr_ext.data.growing_rows import concatenate
from tfr_ext.data.lists import RankingLists
from tfr_ext.settings.data_checks import ELWC_COLUMNS
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources.source import (
    SPLITS,
    FileSource,
    Piece,
    add_files,
    not_weighted,
    settings_of,
)


class ElwcSource(FileSource):
    """ELWC files, checked against their manifest if they have one."""

    settings = (*settings_of("elwc_"), *ELWC_COLUMNS)
    _or = ", or `data_dir`"

    def __init__(self, config: DataConfig):
        """Finds out which splits exist."""
        super().__init__(config)
        self._manifest: manifest.Manifest | None = None
        self.schema = ElwcSchema(
            config.elwc_features,
            config.elwc_context_features,
            config.elwc_label,
            config.elwc_query_id,
            config.elwc_doc_id,
            config.elwc_label_distribution,
            config.weight_column,
            config.absent_value,
            takes_nan=config.keeps_missing,
            category_columns=config.category_columns or (),
            text_columns=config.text_columns or (),
            context_columns=config.context_columns or (),
            text_words=config.text_words or TEXT_WORDS,
        )
        if config.data_dir is None:
            return
        with_paths = [*self.splits]
        if with_paths:
            raise ValueError(
                f"Give `data_dir` or `{with_paths[0]}_path` with `dataset='elwc'`, not "
                "both."
            )
        self._manifest = manifest.load(config.data_dir)
        self._report_unused_weights()
        if self._manifest is None:
            raise ValueError(
                f"{given('data_dir', config.data_dir)} has no {manifest.FILE_NAME}. "
                "Without one, name the files: `train_path` and so on."
            )
        path = os.path.join(config.data_dir, manifest.FILE_NAME)
        for split in self._manifest.splits:
            if split not in SPLITS:
                raise DataFormatError(
                    f"expected splits called {', '.join(SPLITS)}. Found: {split!r}",
                    path,
                )
        for split in SPLITS:
            files_of = shards.shard_names(config.data_dir, split)
            if split not in self.splits and files_of:
                raise DataFormatError(
                    f"expected an entry for {split!r}, because {files_of[0]} exists. "
                    "Found: none",
                    path,
                )

    @classmethod
    def holds_out(cls, config: DataConfig) -> bool:
        """Returns whether 'valid' or 'test' is chosen at random."""
        return config.data_dir is None and super().holds_out(config)

    @property
    def splits(self) -> Collection[str]:
        """The splits in the manifest, or else those for which files are named."""
        if self._manifest is None:
            return super().splits
        return [split for split in SPLITS if split in self._manifest.splits]

    def know(self, columns: Collection[str], spec: FeatureSpec | None) -> None:
        """Sets the names of the numbers, and the categories, that a model takes."""
        self.schema = dataclasses.replace(
            self.schema,
            columns=tuple(columns),
            category_columns=(),  # Those of `spec`.
            text_columns=(),
            context_columns=(),
            spec=None if spec is None or spec.is_numeric else spec,
        )

    def files(self, split: str) -> list[str]:
        """Returns the files of a split, by the manifest of `data_dir` if it has one."""
        data_dir = self.config.data_dir
        if self._manifest is None or data_dir is None:
            return super().files(split)
        if split not in self._manifest.splits:
            raise ValueError(
                f"{given('data_dir', data_dir)} has no split {split!r}: its manifest "
                f"names {', '.join(self._manifest.splits)}."
            )
        return shards.split_files(data_dir, self._manifest, split)

    def _read(self, split: str, num_features: int | None) -> RankingLists:
        found = self._checked(split, self.files(split), num_features)
        schema = self._schema_of(split, found)
        reader = ElwcReader(found.files, num_features, schema)

        def pieces() -> Iterator[RankingLists]:
            for path, piece in reader.read():
                found.add(path, piece)
                yield piece
            reader.finish()
            found.finish()

        return concatenate(pieces())

    def check_stream(self) -> None:
        """Checks that no split is held out of the training files."""
        for split in SPLITS:
            if split not in self.splits:
                raise ValueError(
                    "`stream` cannot hold out queries of the training files: give "
                    f"`{split}_path`, or a `data_dir` that has {split!r}."
                )

    def stream(
        self,
        split: str,
        num_features: int | None,
        transform: streams.PieceTransform | None,
    ) -> streams.StreamedLists:
        """Reads a split once, and returns lists that are read again in each epoch."""
        found = self._checked(split, self.files(split), num_features)
        schema = self._schema_of(split, found)
        lists = streams.StreamedLists(
            found.files, num_features, schema, transform, found.add
        )
        found.finish()
        self._add_files(split)
        return lists

    def _pieces(self, split: str, files: list[str], piece_bytes: int) -> list[Piece]:
        found = self._checked(split, files, self.config.num_features)
        schema, every = self._schema_of(split, found), tuple(files)
        return [
            ElwcPiece(path, every, schema, found.expected.get(path)) for path in files
        ]

    def _digest(self, split: str, num_features: int | None) -> int | None:
        if split != "train" or not self.config.stream:
            return super()._digest(split, num_features)
        self._add_files(split)
        return num_features

    def _add_files(self, split: str) -> None:
        """Adds files to the digest that are too large to be read as lists."""
        # A manifest has the digests of its shards, which training verifies.
        path = os.path.join(self.config.data_dir or "", manifest.FILE_NAME)
        if self._is_new(split):
            add_files(self._hash, find_files(self.config.train_path or (path,)))

    def _checked(
        self, split: str, files: list[str], num_features: int | None
    ) -> shards.CheckedShards:
        """Checks what their manifest says of the files of a split."""
        found = shards.CheckedShards(files, self.schema)
        found.check_width(num_features)
        if not found.manifests:
            say(
                f"{split}: there is no {manifest.FILE_NAME} beside the files, so they "
                "are not checked."
            )
        return found

    def _schema_of(self, split: str, found: shards.CheckedShards) -> ElwcSchema:
        """Returns the names of the features in the files of a split.

        Weights may be missing where nothing is trained on them, and all values of a
        feature where training has some.
        """
        schema, first = self.schema, found.files[0]
        if found.spec is not None:  # The ids of prepared shards, by no names.
            schema = schema.of_shards(found.spec)
        elif split == "train":
            self.elwc_features = measure_features(first, schema)
            spec = self.elwc_features.spec
            self.know(spec.feature_names, spec)
            schema = self.schema
        if split == "train" or not schema.weight or has_feature(first, schema.weight):
            return schema
        say(not_weighted(split, first, schema.weight))
        return dataclasses.replace(schema, weight="")

    def _report_unused_weights(self) -> None:
        """Prints that prepared shards have weights that no setting asks for."""
        source = {} if self._manifest is None else self._manifest.source
        if source.get("weight_column") and not self.schema.weight:
            say(
                f"{given('data_dir', self.config.data_dir)} has weights, which are "
                f"not used without {given('weight_column', writing.WEIGHT)}."
            )


@dataclasses.dataclass(frozen=True)
class ElwcPiece(Piece):
    """A file of ELWC TFRecords.

    Attributes:
        files: all files of the split, which the reader needs to know.
        expected: what a manifest says about the file, if there is one.
    """

    path: str
    files: tuple[str, ...]
    schema: ElwcSchema
    expected: shards.Expected | None

    def read(self, num_features: int | None) -> Iterator[RankingLists]:
        """Reads the lists of the file, a few at a time."""
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

    def locate(self, query_id: str) -> str:
        """Returns where a query is, for messages."""
        return self.path
