"""What data the flags name, as a checksum: of the content, not of where it lies."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines import inputs
from tfr_ext import data
from tfr_ext.data import manifest

_CHUNK = 1 << 22


def of_data(flags: Any) -> str:
    """Returns the SHA-256 digest of all splits of the data, before labels are changed.

    Args:
        flags: parsed flags, see `pipelines.flags.define_data_flags`.

    Raises:
        ValueError: if flags do not fit each other, or the data has errors.
        OSError: if it cannot be read.
    """
    digest = hashlib.sha256()
    source = inputs.source(flags)
    for split in inputs.SPLITS:
        if split not in source.splits:
            continue
        digest.update(split.encode())
        if flags.stream and split == "train":
            _add_files(digest, flags)
        else:
            _add_lists(digest, source.read(split, flags.num_features))
    return digest.hexdigest()


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
