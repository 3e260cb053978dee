"""ELWC TFRecords as a source of lists: `dataset="elwc"`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterator, Sequence

from tfr_ext.core.settings import given
from tfr_ext.core.telling import say
from tfr_ext.data import file_names
from tfr_ext.data.batches import streams
from tfr_ext.data.elwc import features, manifest, shards, writing
from tfr_ext.data.elwc.diagnosis import ElwcSchema
from tfr_ext.data.elwc.reading import ElwcReader
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.growing_rows import concatenate
from tfr_ext.data.lists import RankingLists
from tfr_ext.training.data_config import DataConfig
from tfr_ext.training.sources.source import SPLITS, not_weighted, paths


class ElwcSource:
    """ELWC files, checked against their manifest if they have one; a `Source`.

    Attributes:
        elwc_features: the names of the features of the training items, once their
            files have been looked at.
        schema: the names of what is read.
    """

    def __init__(self, config: DataConfig):
        """Finds out which splits exist.

        Raises:
            ValueError: if settings do not fit each other, or `data_dir` has no
                manifest.
        """
        self._config = config
        self.elwc_features: features.ElwcFeatures | None = None
        self._manifest: manifest.Manifest | None = None
        self.schema = ElwcSchema(
            config.elwc_features,
            config.elwc_context_features,
            config.elwc_label,
            config.elwc_query_id,
            config.elwc_doc_id,
            config.elwc_label_distribution,
            config.weight_column,
            config.missing_value,
        )
        with_paths = [s for s in SPLITS if paths(config, s)]
        self.splits: Collection[str] = with_paths
        if config.data_dir is None:
            return
        if with_paths:
            raise ValueError(
                f"Give `data_dir` or `{with_paths[0]}_path` with `dataset='elwc'`, not "
                "both."
            )
        self._manifest = manifest.load(config.data_dir)
        self._tell_of_weights()
        if self._manifest is None:
            raise ValueError(
                f"{given('data_dir', config.data_dir)} has no {manifest.FILE_NAME}. "
                "Without one, name the files: `train_path` and so on."
            )
        self.splits = [s for s in SPLITS if s in self._manifest.splits]
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

    def read(self, split: str, num_features: int | None) -> RankingLists:
        """See `Source`."""
        found = self.checked(split, num_features)
        schema = self.schema_of(split, found.files)
        return concatenate(self._pieces(found, num_features, schema))

    def stream(
        self,
        split: str,
        num_features: int | None,
        transform: streams.PieceTransform | None,
    ) -> streams.StreamedLists:
        """Reads a split once, and returns lists that are read again in each epoch.

        Args:
            split: one of `splits`.
            num_features: width that the lists must have; None if any will do.
            transform: changes lists as they are read.
        """
        found = self.checked(split, num_features)
        schema = self.schema_of(split, found.files)
        lists = streams.StreamedLists(
            found.files, num_features, schema, transform, found.add
        )
        found.finish()
        return lists

    def checked(self, split: str, num_features: int | None) -> shards.CheckedShards:
        """Finds the files of a split and checks what their manifest says of them."""
        config = self._config
        if self._manifest is not None and config.data_dir is not None:
            if split not in self._manifest.splits:
                raise ValueError(
                    f"{given('data_dir', config.data_dir)} has no split {split!r}: its "
                    f"manifest names {', '.join(self._manifest.splits)}."
                )
            files = shards.split_files(config.data_dir, self._manifest, split)
        else:
            patterns = paths(config, split)
            if not patterns:
                other = "" if config.test_path else " (or `test_path` to evaluate)"
                raise ValueError(
                    f"`dataset='elwc'` needs `{split}_path`{other}, or `data_dir`."
                )
            files = file_names.find_files(patterns)
        found = shards.CheckedShards(files, self.schema)
        found.check_width(num_features)
        if not found.manifests:
            say(
                f"{split}: there is no {manifest.FILE_NAME} beside the files, so they "
                "are not checked."
            )
        return found

    def schema_of(self, split: str, files: Sequence[str]) -> ElwcSchema:
        """Returns the names of the features in the files of a split.

        Weights may be missing where nothing is trained on them, and all values of a
        feature where training has some.

        Args:
            split: the split.
            files: its files.
        """
        if split == "train":
            self.elwc_features = features.measure_features(files[0], self.schema)
            self.know(self.elwc_features.columns)
        weight = self.schema.weight
        if split == "train" or not weight or features.has_feature(files[0], weight):
            return self.schema
        say(not_weighted(split, files[0], weight))
        return dataclasses.replace(self.schema, weight="")

    def know(self, columns: Sequence[str]) -> None:
        """Sets `ElwcSchema.columns`."""
        self.schema = dataclasses.replace(self.schema, columns=tuple(columns))

    def _tell_of_weights(self) -> None:
        """Says that prepared shards have weights that no setting asks for."""
        source = {} if self._manifest is None else self._manifest.source
        if source.get("weight_column") and not self.schema.weight:
            say(
                f"{given('data_dir', self._config.data_dir)} has weights, which are "
                f"not used without {given('weight_column', writing.WEIGHT)}."
            )

    def _pieces(
        self,
        found: shards.CheckedShards,
        num_features: int | None,
        schema: ElwcSchema,
    ) -> Iterator[RankingLists]:
        reader = ElwcReader(found.files, num_features, schema)
        for path, piece in reader.read():
            found.add(path, piece)
            yield piece
        reader.finish()
        found.finish()
