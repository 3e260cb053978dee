"""What a directory of prepared shards holds: `manifest.json`."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

FILE_NAME = "manifest.json"
_FORMAT = "tfr_ext ELWC shards, version 1"


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file of a split.

    Attributes:
        name: file name in the directory of the manifest.
        queries: number of lists.
        items: number of items.
        bytes: size of the file.
        sha256: hexadecimal digest of the file.
    """

    name: str
    queries: int
    items: int
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Split:
    """The files of a split, and what they hold together.

    Attributes:
        shards: the files, in order.
        labels: number of items of each label, by the label's shortest text, such as
            `{'0': 12279, '1': 2001}`; empty if there are very many labels.
        max_label: the highest label.
        max_list_size: items of the longest list.
    """

    shards: list[Shard]
    labels: dict[str, int]
    max_label: float
    max_list_size: int

    @property
    def queries(self) -> int:
        """Number of lists."""
        return sum(shard.queries for shard in self.shards)

    @property
    def items(self) -> int:
        """Number of items."""
        return sum(shard.items for shard in self.shards)


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a directory of prepared shards holds.

    Attributes:
        num_features: width of `float_features`.
        num_grades: width of `label_distribution`; None if there is none.
        source: the flags that prepared it, by name.
        splits: the splits by name: 'train', 'valid', 'test'.
    """

    num_features: int
    num_grades: int | None
    source: Mapping[str, Any]
    splits: Mapping[str, Split]

    def as_json(self) -> str:
        """Returns the text of the file."""
        content = {"format": _FORMAT, **dataclasses.asdict(self)}
        for name, split in self.splits.items():
            content["splits"][name] = {
                "queries": split.queries,
                "items": split.items,
                **content["splits"][name],
            }
        return json.dumps(content, indent=2) + "\n"


def load(directory: str) -> Manifest | None:
    """Reads the manifest of a directory, if it has one.

    Args:
        directory: a directory on any file system that `tf.io.gfile` knows.

    Raises:
        ValueError: if the file is not a manifest that this version knows.
    """
    path = os.path.join(directory, FILE_NAME)
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path) as file:
        text = file.read()
    try:
        content = json.loads(text)
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        splits = {
            name: Split(
                [Shard(**shard) for shard in split["shards"]],
                split["labels"],
                split["max_label"],
                split["max_list_size"],
            )
            for name, split in content["splits"].items()
        }
        return Manifest(
            content["num_features"], content["num_grades"], content["source"], splits
        )
    except (
        *(AttributeError, KeyError, RecursionError, TypeError, ValueError),
    ) as error:
        raise ValueError(
            f"{path} is not a manifest of {_FORMAT!r}: {error!r}. "
            "`python -m pipelines.prepare` writes one."
        ) from error
