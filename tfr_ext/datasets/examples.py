"""Helpers of the builders: the schema of an example, and the search for files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from etils import epath

from tfr_ext.data.lists import RankingLists


def dataset_info(
    builder: Any,
    num_features: int,
    num_grades: int | None = None,
    **description: Any,
) -> tfds.core.DatasetInfo:
    """Describes a data set, in the schema of TFDS's own for ranking."""

    def array(*shape: int | None) -> tfds.features.Tensor:
        # Bytes are written ten times as fast as a list of numbers.
        encoding = tfds.features.Encoding.BYTES
        return tfds.features.Tensor(shape=shape, dtype=np.float32, encoding=encoding)

    features = {
        "float_features": array(None, num_features),
        "label": array(None),
        "query_id": tfds.features.Text(),
        "doc_id": tfds.features.Tensor(shape=(None,), dtype=np.object_),
    }
    if num_grades is not None:
        features["label_distribution"] = array(None, num_grades)
    return tfds.core.DatasetInfo(
        builder=builder,
        features=tfds.features.FeaturesDict(features),
        disable_shuffling=True,  # The order of the files.
        metadata=tfds.core.MetadataDict(),
        **description,
    )


def examples(lists: RankingLists) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields lists, numbered, as TFDS writes them.

    Unnamed documents are named after the query and their position, as in a TREC run.
    """
    for q, query in enumerate(lists.query_ids):
        items = slice(lists.row_splits[q], lists.row_splits[q + 1])
        example = {
            "float_features": lists.features[items],
            "label": lists.labels[items],
            "query_id": query,
            "doc_id": list(lists.doc_ids[items])
            if lists.doc_ids is not None
            else [f"{query}-{i + 1}" for i in range(lists.lengths[q])],
        }
        if lists.label_distributions is not None:
            example["label_distribution"] = lists.label_distributions[items]
        yield q, example


def find_files(
    builder: Any, manual_dir: epath.Path, expected: Sequence[Sequence[str]]
) -> list[epath.Path]:
    """Returns where files are in `manual_dir`, each under one of its expected names."""
    found, missing = [], []
    for candidates in expected:
        there = [
            manual_dir / name for name in candidates if (manual_dir / name).exists()
        ]
        found += there[:1]
        missing += [] if there else [" or ".join(candidates)]
    if missing:
        listed = "\n  ".join(missing)
        raise FileNotFoundError(
            f"{builder.name}/{builder.builder_config.name} needs files that are not in "
            f"{manual_dir} (`manual_dir`):\n  {listed}\n"
            f"{builder.MANUAL_DOWNLOAD_INSTRUCTIONS.strip()}"
        )
    return found
