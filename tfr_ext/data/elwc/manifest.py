"""`manifest.json`: the contents of a directory of prepared shards."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfr_ext.core import decimals
from tfr_ext.data import text_files
from tfr_ext.data.features import FeatureSpec

FILE_NAME = "manifest.json"
_FORMAT = "tfr_ext ELWC shards, version 1"
_DIGEST = re.compile("[0-9a-f]{64}")
_BLOCK_BYTES = 1 << 20
_NOT_A_FILE = re.compile(r"[/\\\x00]|^\.\.?$")


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file of a split, in the directory of the manifest."""

    name: str
    queries: int
    items: int
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        """Checks the types and ranges of the values."""
        name = self.name
        _expect(
            isinstance(name, str) and bool(name) and not _NOT_A_FILE.search(name),
            "the shard name",
            name,
            "the name of a file beside the manifest",
        )
        for field in ("queries", "items", "bytes"):
            _expect_count(f"shard {name}: {field}", getattr(self, field), 1)
        _expect(
            isinstance(self.sha256, str) and bool(_DIGEST.fullmatch(self.sha256)),
            f"shard {name}: sha256",
            self.sha256,
            "64 hexadecimal digits",
        )


@dataclasses.dataclass(frozen=True)
class Split:
    """The files of a split, in order, and their joint counts.

    `labels` has the number of items of each label, by the label's shortest text, such
    as `{'0': 12279, '1': 2001}`; it is empty if there are very many labels.
    """

    shards: list[Shard]
    labels: dict[str, int]
    max_label: float
    max_list_size: int

    def __post_init__(self) -> None:
        """Checks the types and ranges of the values, and that they agree."""
        _expect(bool(self.shards), "shards", self.shards, "at least one")
        _expect(isinstance(self.labels, dict), "labels", self.labels, "{label: items}")
        for label, count in self.labels.items():
            decimals.parse_number(label)
            _expect_count(f"labels: {label}", count, 1)
        _expect(
            type(self.max_label) in (int, float) and 0 <= self.max_label < math.inf,
            "max_label",
            self.max_label,
            "a number from 0 up",
        )
        _expect_count("max_list_size", self.max_list_size, 1)

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
    """The contents of a directory of prepared shards.

    When shards are read, they are compared with all of this except `source`, the flags
    that prepared them, which is for information only.

    Attributes:
        num_features: width of `float_features`.
        num_grades: width of `label_distribution`; None if there is none.
        splits: the splits by name: 'train', 'valid', 'test'.
        spec: what the features are; None if they are numbers.
    """

    num_features: int
    num_grades: int | None
    source: Mapping[str, Any]
    splits: Mapping[str, Split]
    spec: FeatureSpec | None = None

    def __post_init__(self) -> None:
        """Checks the types and ranges of the values, and that no shard occurs twice."""
        _expect_count("num_features", self.num_features, 0 if self.spec else 1)
        width = self.num_features if self.spec is None else self.spec.num_features
        right = width == self.num_features
        _expect(right, "num_features", self.num_features, f"{width}, as in 'features'")
        if self.num_grades is not None:
            _expect_count("num_grades", self.num_grades, 2)
        _expect(isinstance(self.source, Mapping), "source", self.source, "flags")
        split_of: dict[str, str] = {}
        for split, content in self.splits.items():
            for shard in content.shards:
                _expect(
                    shard.name not in split_of,
                    f"a shard of {split!r}",
                    shard.name,
                    f"one that is not in {split_of.get(shard.name)!r} already",
                )
                split_of[shard.name] = split

    def as_json(self) -> str:
        """Returns the text of the file."""
        content = {"format": _FORMAT, **dataclasses.asdict(self)}
        del content["spec"]
        if self.spec is not None:
            content["features"] = self.spec.to_json()
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
        ValueError: If the file is not a manifest that this version knows.
    """
    path = os.path.join(directory, FILE_NAME)
    if not tf.io.gfile.exists(path):
        return None
    try:
        content = json.loads(text_files.read_text(path))
        _expect(content["format"] == _FORMAT, "format", content["format"], _FORMAT)
        splits = {}
        for name, entry in content["splits"].items():
            split = Split(
                [Shard(**shard) for shard in entry["shards"]],
                entry["labels"],
                entry["max_label"],
                entry["max_list_size"],
            )
            for total in ("queries", "items"):
                _expect(
                    entry[total] == getattr(split, total),
                    f"split {name!r}: {total}",
                    entry[total],
                    f"{getattr(split, total)}, the sum of its shards",
                )
            splits[name] = split
        features = content.get("features")
        return Manifest(
            *(content["num_features"], content["num_grades"], content["source"]),
            splits,
            features and FeatureSpec.from_json(features),
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        problem = str(error) if isinstance(error, ValueError) else repr(error)
        raise ValueError(
            f"{path} is not a manifest of {_FORMAT!r}: {problem}. `prepare` writes "
            "valid ones."
        ) from error


def digest(path: str) -> str:
    """Returns the SHA-256 of a file in hexadecimal digits."""
    found = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            found.update(block)
    return found.hexdigest()


def _expect(right: bool, what: str, value: Any, expected: str) -> None:
    if not right:
        raise ValueError(f"{what} is {value!r}, expected {expected}")


def _expect_count(what: str, value: Any, least: int) -> None:
    right = type(value) is int and value >= least  # True is also an int.
    _expect(right, what, value, f"an integer from {least} up")
