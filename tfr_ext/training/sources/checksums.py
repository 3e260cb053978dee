"""The checksum of the data that settings name: of its content, not of its place."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.data.batches.streams import StreamedLists
from tfr_ext.data.elwc import manifest
from tfr_ext.data.elwc.features import ElwcFeatures
from tfr_ext.data.file_names import find_files
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import trec_names
from tfr_ext.training.data_config import DataConfig
from tfr_ext.training.sources import data_splits, reranking
from tfr_ext.training.sources.source import SPLITS, Source

_CHUNK = 1 << 22


def of_data(config: DataConfig) -> str:
    """Returns the SHA-256 digest of all splits of the data, before labels are changed.

    Args:
        config: settings of the data.

    Raises:
        ValueError: if settings do not fit each other, or the data has errors.
        OSError: if it cannot be read.
    """
    source = DigestedSource(config)
    num_features = config.num_features
    for split in SPLITS:
        if split not in source.splits:
            continue
        if config.stream and split == "train":
            source.add_files(split)
        else:
            num_features = source.read(split, num_features).num_features
    return source.hexdigest()


class DigestedSource:
    """A source, with the digest of everything that was read from it.

    A `Source`, so that data which training reads need not be read again for its digest.
    """

    def __init__(self, config: DataConfig, origin: Source | None = None):
        """Finds the source.

        Args:
            config: settings of the data.
            origin: where the data is read from; by default, the source that the
                settings name.

        Raises:
            ValueError: if there is no such source, or settings do not fit each other.
        """
        self._config = config
        self._source: Any = origin or data_splits.source(config)
        self._digest = hashlib.sha256()
        self._names = trec_names.QueryNames()
        # They choose the items, as the data itself does.
        for path in reranking.files(config.rerank_run):
            with open(path, "rb") as file:
                while chunk := file.read(_CHUNK):
                    self._digest.update(chunk)
        if hasattr(self._source, "stream"):
            self.stream = self._stream

    @property
    def splits(self) -> Collection[str]:
        """See `Source`."""
        return self._source.splits

    @property
    def elwc_features(self) -> ElwcFeatures | None:
        """The names of the features in ELWC files, once these have been read."""
        return getattr(self._source, "elwc_features", None)

    def read(self, split: str, num_features: int | None) -> RankingLists:
        """See `Source`."""
        lists = self._source.read(split, num_features)
        self._names.check(lists)
        self._digest.update(split.encode())
        _add_lists(self._digest, lists)
        return lists

    def add_files(self, split: str) -> None:
        """Adds the files of a split to the digest, without reading lists from them."""
        self._digest.update(split.encode())
        _add_files(self._digest, self._config)

    def hexdigest(self) -> str:
        """Returns the SHA-256 digest of what was read until now."""
        return self._digest.hexdigest()

    def _stream(self, split: str, *arguments: Any) -> StreamedLists:
        lists = self._source.stream(split, *arguments)
        self.add_files(split)
        return lists


def _add_lists(digest: Any, lists: RankingLists) -> None:
    names = "\n".join(lists.query_ids)
    if lists.doc_ids is not None:
        names += "\n\n" + "\n".join(lists.doc_ids)
    digest.update(names.encode())
    for array in (
        lists.row_splits,
        lists.labels,
        lists.features,
        lists.label_distributions,
        lists.weights,
    ):
        if array is not None:
            digest.update(str((array.shape, array.dtype)).encode())
            digest.update(np.ascontiguousarray(array).data)


def _add_files(digest: Any, config: DataConfig) -> None:
    """Adds files that are too large to be read as lists."""
    # A manifest has the digests of its shards, which training verifies.
    manifest_path = os.path.join(config.data_dir or "", manifest.FILE_NAME)
    for path in find_files(config.train_path or (manifest_path,)):
        with tf.io.gfile.GFile(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
