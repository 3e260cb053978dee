"""What data the flags name, as a checksum: of the content, not of where it lies."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext import data
from tfr_ext.data.elwc import manifest
from tfr_ext.training.sources import data_splits

_CHUNK = 1 << 22


def of_data(flags: Any) -> str:
    """Returns the SHA-256 digest of all splits of the data, before labels are changed.

    Args:
        flags: parsed flags, see `pipelines.flags.define_data_flags`.

    Raises:
        ValueError: if flags do not fit each other, or the data has errors.
        OSError: if it cannot be read.
    """
    source = DigestedSource(flags)
    num_features = flags.num_features
    for split in data_splits.SPLITS:
        if split not in source.splits:
            continue
        if flags.stream and split == "train":
            source.add_files(split)
        else:
            num_features = source.read(split, num_features).num_features
    return source.hexdigest()


class DigestedSource:
    """The source that the flags name, with the digest of all that was read from it.

    An `inputs.Source`: what training reads need not be read again for its digest.
    """

    def __init__(self, flags: Any):
        """Finds the source.

        Args:
            flags: parsed flags, see `pipelines.flags.define_data_flags`.

        Raises:
            ValueError: if there is none, or flags do not fit each other.
        """
        self._flags = flags
        self._source: Any = data_splits.source(flags)
        self._digest = hashlib.sha256()
        if hasattr(self._source, "stream"):
            self.stream = self._stream

    @property
    def splits(self) -> Collection[str]:
        """See `Source`."""
        return self._source.splits

    @property
    def elwc_features(self) -> data.ElwcFeatures | None:
        """What the features are called in ELWC files, once they were read."""
        return getattr(self._source, "elwc_features", None)

    def read(self, split: str, num_features: int | None) -> data.RankingLists:
        """See `Source`."""
        lists = self._source.read(split, num_features)
        self._digest.update(split.encode())
        _add_lists(self._digest, lists)
        return lists

    def add_files(self, split: str) -> None:
        """Adds the files of a split to the digest, without reading lists from them."""
        self._digest.update(split.encode())
        _add_files(self._digest, self._flags)

    def hexdigest(self) -> str:
        """Returns the SHA-256 digest of what was read until now."""
        return self._digest.hexdigest()

    def _stream(self, split: str, *arguments: Any) -> data.StreamedLists:
        lists = self._source.stream(split, *arguments)
        self.add_files(split)
        return lists


def _add_lists(digest: Any, lists: data.RankingLists) -> None:
    names = "\n".join(lists.query_ids)
    if lists.doc_ids is not None:
        names += "\n\n" + "\n".join(lists.doc_ids)
    digest.update(names.encode())
    for array in (
        lists.row_splits,
        lists.labels,
        lists.features,
        lists.label_distributions,
    ):
        if array is not None:
            digest.update(str((array.shape, array.dtype)).encode())
            digest.update(np.ascontiguousarray(array).data)


def _add_files(digest: Any, flags: Any) -> None:
    """Adds files that are too large to be read as lists."""
    # A manifest has the digests of its shards, which training verifies.
    manifest_path = os.path.join(flags.data_dir or "", manifest.FILE_NAME)
    patterns = flags.train_path or [manifest_path]
    for pattern in patterns:
        for path in sorted(tf.io.gfile.glob(pattern)):
            with tf.io.gfile.GFile(path, "rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
