"""Prepares data sets of TensorFlow Datasets, and reads them into memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from tfr_ext.core import checks, quiet
from tfr_ext.data import text_files
from tfr_ext.data.collecting import concatenate
from tfr_ext.data.lists import RankingLists
from tfr_ext.datasets import catalogue

# Our names of the splits, and the names in data sets.
_SPLIT_NAMES = {
    "train": ("train",),
    "valid": ("vali", "validation", "valid"),
    "test": ("test",),
}
# Number of lists decoded together, so that there are few calls of TensorFlow.
_QUERIES_PER_PIECE = 64
# Stands for a missing value in the Istella sets.
_MISSING = np.finfo(np.float64).max


def prepare(
    name: str, data_dir: str | None = None, manual_dir: str | None = None
) -> Any:
    """Prepares a data set, unless it is prepared already.

    Args:
        name: see `builder`.
        data_dir: where TFDS keeps prepared data; its own default if None.
        manual_dir: directory of the downloaded files; not needed once it is prepared.

    Returns:
        The `tfds.core.DatasetBuilder`, with data.

    Raises:
        FileNotFoundError: if files are missing; the message says which, and where to
            get them.
        ValueError: if the name is unknown, `manual_dir` is needed but not given, or a
            file has errors.
    """
    found = catalogue.builder(name, data_dir)
    if found.data_path.exists():
        if found.is_prepared():
            return found
        raise ValueError(
            f"{found.data_path} is not a complete data set. Remove it, so that "
            f"{name!r} is prepared again."
        )
    if found.name not in catalogue.COLLECTIONS:
        raise ValueError(
            f"{name!r} is not prepared in {found.data_dir_root}, and tfr_ext downloads "
            "nothing. Prepare it with TensorFlow Datasets: "
            f"tensorflow_datasets.load({name!r}, data_dir=...)."
        )
    instructions = found.MANUAL_DOWNLOAD_INSTRUCTIONS.strip()
    if manual_dir is None:
        raise ValueError(
            f"{name!r} is not prepared in {found.data_dir_root}: name the directory of "
            "its downloaded files with `manual_dir`.\n"
            f"{instructions}"
        )
    manual_dir = os.path.expanduser(manual_dir)
    if not tf.io.gfile.isdir(manual_dir) or not tf.io.gfile.listdir(manual_dir):
        raise FileNotFoundError(
            f"manual_dir={manual_dir} is not a directory, or is empty. Expected the "
            f"directory of the downloaded files of {name!r}.\n"
            f"{instructions}"
        )
    tfds = catalogue.import_tfds()
    config = tfds.download.DownloadConfig(
        manual_dir=manual_dir,
        try_download_gcs=False,
        # Archives are unpacked again: they may have changed since the last time.
        download_mode=tfds.download.GenerateMode.FORCE_REDOWNLOAD,
        compute_stats=tfds.download.ComputeStatsMode.SKIP,
    )
    with contextlib.redirect_stdout(None):  # It prints that it downloads something.
        try:
            found.download_and_prepare(download_config=config)
        except Exception as error:
            # Raised for a damaged archive, for example: TFDS derives it from Exception
            # alone.
            if type(error).__module__.partition(".")[0] == tfds.__name__:
                raise ValueError(f"{name}: {error}") from error
            raise
    return found


def splits(builder: Any) -> dict[str, str]:
    """Returns which splits a prepared data set has.

    Args:
        builder: as `prepare` returns it.

    Returns:
        The existing ones of 'train', 'valid' and 'test', and their names in the data
        set.
    """
    return {
        split: theirs
        for split, candidates in _SPLIT_NAMES.items()
        for theirs in candidates
        if theirs in builder.info.splits
    }


def read(builder: Any, split: str) -> RankingLists:
    """Reads a split of a prepared data set into memory.

    Args:
        builder: as `prepare` returns it.
        split: 'train', 'valid' or 'test', or a part of one, such as 'train[:100]'.

    Raises:
        ValueError: if there is no such split, it has no list, its files are damaged, or
            lists cannot have one of its labels or features.
    """
    known = splits(builder)
    whole, bracket, part = split.partition("[")
    if whole not in known:
        raise ValueError(
            f"{builder.info.full_name} has no split {whole!r}"
            f"{checks.near(whole, list(known))} It has: {', '.join(known)}."
        )
    theirs = known[whole] + bracket + part
    if not builder.info.splits[theirs].num_examples:
        raise ValueError(f"{builder.info.full_name} has no lists in {split!r}.")
    # A warning of TFDS about its own use of its own interface.
    with quiet.without("`FeatureConnector.dtype` is deprecated"):
        dataset = builder.as_dataset(split=theirs)
    options = tf.data.Options()
    options.autotune.enabled = False  # Its thread ends up to 0.1 s after the data.
    dataset = dataset.ragged_batch(_QUERIES_PER_PIECE).with_options(options)
    num_missing = 0

    def pieces() -> Iterator[RankingLists]:
        nonlocal num_missing
        flat = dataset.map(_flat, os.cpu_count()).prefetch(2)
        for number, piece in enumerate(flat.as_numpy_iterator()):
            if not piece["fine"]:
                _explain(next(iter(dataset.skip(number))))
            num_missing += int(piece["num_missing"])
            yield _lists(piece)

    try:
        lists = concatenate(pieces())
    except tf.errors.OpError as error:
        raise ValueError(
            f"The files of {split!r} in {builder.data_path} are damaged: "
            f"{error.message} Remove the directory, so that {builder.info.full_name} "
            "is prepared again."
        ) from error
    except ValueError as error:
        raise ValueError(f"{builder.info.full_name}, {split!r}: {error}") from error
    if num_missing:
        logging.warning(
            "Replaced %d missing values by 0 in %r of %s.",
            num_missing,
            split,
            builder.info.full_name,
        )
    return lists


def load(
    name: str,
    split: str,
    data_dir: str | None = None,
    manual_dir: str | None = None,
) -> RankingLists:
    """Reads a split of a data set into memory, and prepares the set if need be.

    Args:
        name: see `builder`.
        split: see `read`.
        data_dir: where TFDS keeps prepared data; its own default if None.
        manual_dir: directory of the downloaded files; not needed once it is prepared.

    Raises:
        FileNotFoundError: see `prepare`.
        ValueError: see `prepare` and `read`.

    Examples:
        >>> import pathlib, tempfile
        >>> files, data_dir = pathlib.Path(tempfile.mkdtemp()), tempfile.mkdtemp()
        >>> fold = files / "MQ2008" / "Fold1"
        >>> fold.mkdir(parents=True)
        >>> for name in ("train.txt", "vali.txt", "test.txt"):
        ...     _ = (fold / name).write_text("1 qid:7 1:0.5 46:2 #docid = d")
        >>> lists = load("letor4/mq2008_fold1", "train", data_dir, str(files))
        >>> lists.features.shape, lists.query_ids, lists.doc_ids
        ((1, 46), ['7'], ['d'])
    """
    return read(prepare(name, data_dir, manual_dir), split)


@tf.autograph.experimental.do_not_convert
def _flat(batch: dict[str, tf.RaggedTensor]) -> dict[str, tf.Tensor]:
    """Returns what some decoded examples hold, whatever number types they have.

    Args:
        batch: the examples.

    Returns:
        The values of all items by field, the `splits` of the items into lists, the
        `query_id`s, `num_missing` values, and whether all others are `fine`.
    """
    features = batch["float_features"]
    flat: dict[str, tf.Tensor] = {
        name: batch[name].flat_values
        for name in ("label", "doc_id", "label_distribution")
        if name in batch
    }
    values = features.flat_values
    missing = tf.cast(values, tf.float64) == _MISSING
    narrow = tf.cast(tf.where(missing, tf.zeros_like(values), values), tf.float32)
    labels = tf.cast(flat["label"], tf.float64)
    return {
        **flat,
        "features": narrow,
        "splits": features.row_splits,
        "query_id": batch["query_id"],
        "num_missing": tf.math.count_nonzero(missing),
        "fine": tf.reduce_all(tf.math.is_finite(narrow))
        & tf.reduce_all(tf.math.is_finite(labels) & (labels >= 0)),
    }


def _lists(piece: dict[str, np.ndarray]) -> RankingLists:
    """Returns what `_flat` found as lists.

    Raises:
        ValueError: if the name of a query has blanks.
    """
    doc_ids = piece.get("doc_id")
    return RankingLists(
        features=piece["features"],
        labels=piece["label"].astype(np.float32, copy=False),
        row_splits=piece["splits"],
        query_ids=_query_ids(piece["query_id"]),
        doc_ids=None if doc_ids is None else list(_texts(doc_ids)),
        label_distributions=piece.get("label_distribution"),
    )


def _query_ids(names: np.ndarray) -> list[str]:
    return [text_files.check_name(name.decode(), "query_id") for name in names]


def _explain(batch: dict[str, tf.RaggedTensor]) -> None:
    """Raises an error for examples that are not fine.

    Raises:
        ValueError: it names a label that is negative or not finite, or a feature that
            is not finite in float32.
    """
    splits = batch["float_features"].row_splits.numpy()
    query_ids = _query_ids(batch["query_id"].numpy())
    features = batch["float_features"].flat_values.numpy()
    features = np.where(features == _MISSING, 0, features)
    labels = batch["label"].flat_values.numpy()
    wrong = ~(np.isfinite(labels) & (labels >= 0))
    what, given, expected = "label", labels, "a finite number from 0 up"
    if not wrong.any():
        with np.errstate(over="ignore"):
            places = np.argwhere(~np.isfinite(features.astype(np.float32)))
        item, column = places[0]
        wrong[item] = True
        what, given = f"feature {column + 1}", features[:, column]
        expected = "a finite number that float32 holds"
    item = int(np.flatnonzero(wrong)[0])
    q = int(np.searchsorted(splits, item, "right")) - 1
    raise ValueError(
        f"{what} of item {item - splits[q] + 1} of query {query_ids[q]!r} is "
        f"{given[item]:g}, expected {expected}."
    )


def _texts(identifiers: np.ndarray) -> Iterator[str]:
    """Yields identifiers as text, as TFDS's own builders use line numbers."""
    if identifiers.dtype == object:
        return (one.decode() for one in identifiers.tolist())
    return map(str, identifiers.tolist())
