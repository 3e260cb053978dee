"""Prepares data sets of TensorFlow Datasets, and reads them into memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from tfr_ext.core import checks
from tfr_ext.core.files import without_wildcards
from tfr_ext.data import text_files
from tfr_ext.data.batches import batch_datasets
from tfr_ext.data.growing_rows import concatenate
from tfr_ext.data.lists import RankingLists
from tfr_ext.datasets import catalogue, decoding

# Our names of the splits, and the names in data sets.
_SPLIT_NAMES = {
    "train": ("train",),
    "valid": ("vali", "validation", "valid"),
    "test": ("test",),
}


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
        FileNotFoundError: If files are missing; the message says which, and where to
            get them.
        ValueError: If the name is unknown, `manual_dir` is needed but not given, or a
            file has errors.
    """
    found = catalogue.builder(name, data_dir)
    if found.data_path.exists():
        # TFDS lists its files by a glob. Of a data set without code, its own
        # `data_dir_root` is not above the name.
        depth = found.info.full_name.count("/")
        with without_wildcards(str(found.data_path.parents[depth])) as plain:
            is_prepared = catalogue.builder(name, plain).is_prepared()
        if is_prepared:
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
        ValueError: If there is no such split, it has no list, its files are damaged, or
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
    num_missing = 0
    expected = builder.info.splits[theirs].num_examples
    stored = decoding.stored_lists(builder, theirs)

    def pieces() -> Iterator[RankingLists]:
        nonlocal num_missing
        found = 0
        for number, values in enumerate(stored.decoded):
            if not values["fine"]:
                _explain(stored.decode(next(iter(stored.pieces.skip(number)))))
            lists = _lists(values)
            num_missing += int(values["num_missing"])
            found += lists.num_lists
            yield lists
        if found != expected:
            raise tf.errors.DataLossError(
                None, None, f"{found} lists were found, expected {expected}"
            )

    try:
        lists = concatenate(pieces())
    except tf.errors.OpError as error:
        raise ValueError(
            f"The files of {split!r} in {builder.data_path} are damaged: "
            f"{batch_datasets.message(error)}. Remove the directory, so that "
            f"{builder.info.full_name} is prepared again."
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
        FileNotFoundError: See `prepare`.
        ValueError: See `prepare` and `read`.

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


def _lists(values: decoding.Values) -> RankingLists:
    """Returns the values of `StoredLists.decoded` as lists."""
    # A view: `numpy()` would make a copy.
    features = np.asarray(memoryview(values[decoding.FEATURES]))
    doc_ids, distributions = None, values.get("label_distribution")
    fits = bool(values["fits"])
    if decoding.DOC_ID in values:
        text = values[decoding.DOC_ID].numpy().decode()
        doc_ids = text.split(decoding.SEPARATOR)
        fits &= len(doc_ids) == len(features)
    if not fits:
        raise tf.errors.DataLossError(
            None,
            None,
            "the fields of a list differ in their number of items, or a name has NUL",
        )
    return RankingLists(
        features=features,
        labels=values[decoding.LABEL].numpy().astype(np.float32, copy=False),
        row_splits=values["splits"].numpy(),
        query_ids=_query_ids(values[decoding.QUERY_ID].numpy()),
        doc_ids=doc_ids,
        label_distributions=None if distributions is None else distributions.numpy(),
    )


def _query_ids(names: np.ndarray) -> list[str]:
    return [text_files.check_name(name.decode(), "query_id") for name in names]


def _explain(values: decoding.Values) -> None:
    """Raises an error that names a label or feature that is not allowed."""
    splits = values["splits"].numpy()
    query_ids = _query_ids(values[decoding.QUERY_ID].numpy())
    features = values[decoding.FEATURES].numpy()
    features = np.where(features == decoding.MISSING, 0, features)
    labels = values[decoding.LABEL].numpy()
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
