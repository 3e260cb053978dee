"""Checks prepared shards against the manifest beside them."""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfr_ext.data.elwc import manifest
from tfr_ext.data.elwc.manifest import Manifest, Shard, Split
from tfr_ext.data.elwc.schema import ElwcSchema
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.features import FeatureSpec
from tfr_ext.data.lists import RankingLists

PREPARED = ElwcSchema()
"""The names in prepared shards, which a manifest describes."""


@dataclasses.dataclass(frozen=True)
class Expected:
    """The entry of a file in a manifest.

    Attributes:
        path: the manifest.
        shard: its entry of the file.
        num_features: width of `float_features`.
        num_grades: width of `label_distribution`; None if there is none.
        schema: names of the features that are read; if they are not those of prepared
            shards, the manifest says nothing about them.
    """

    path: str
    shard: Shard
    num_features: int
    num_grades: int | None
    schema: ElwcSchema

    def check(self, lists: RankingLists) -> None:
        """Checks the widths of some lists of the file.

        Raises:
            DataFormatError: If the manifest says otherwise.
        """
        if tells_of_features(self.schema):
            self._compare("num_features", self.num_features, lists.num_features)
        if self.schema.label_distribution == PREPARED.label_distribution:
            self._compare("num_grades", self.num_grades, lists.num_grades)

    def check_counts(self, queries: int, items: int) -> None:
        """Checks how many lists and items the file has.

        Raises:
            DataFormatError: If the manifest says otherwise.
        """
        self._compare("queries", self.shard.queries, queries)
        self._compare("items", self.shard.items, items)

    def _compare(self, field: str, expected: int | None, found: int | None) -> None:
        if expected != found:
            raise DataFormatError(
                f"shard {self.shard.name}: expected {field} {expected}. Found: {found}",
                self.path,
            )


class CheckedShards:
    """Files whose content manifests may describe.

    The constructor checks what can be checked without parsing the files: that the
    shards of each split are complete, and the size and SHA-256 digest of each. Readers
    check the rest with `add` and `finish`.

    Attributes:
        files: the files.
        manifests: the manifests found, by their path.
        expected: what they say about each file.
    """

    def __init__(self, files: Sequence[str], schema: ElwcSchema = PREPARED):
        """Finds the manifests and checks the files.

        Args:
            files: the files; those without a manifest in their directory are not
                checked.
            schema: names of the features that will be read.

        Raises:
            DataFormatError: If a file is not what a manifest says; the message names
                the manifest, the shard, what was expected and what was found.
        """
        self.files = list(files)
        self.manifests: dict[str, Manifest] = {}
        self.expected: dict[str, Expected] = {}
        self._schema = schema
        self._counts = {file: (0, 0) for file in files}
        self._splits: dict[tuple[str, str], _SplitCounts] = {}
        self._split_of: dict[str, _SplitCounts] = {}
        by_directory: dict[str, list[str]] = {}
        for file in files:
            by_directory.setdefault(os.path.dirname(file), []).append(file)
        for directory, present in by_directory.items():
            found = manifest.load(directory)
            if found is not None:
                path = os.path.join(directory, manifest.FILE_NAME)
                self.manifests[path] = found
                self._match(path, found, directory, present)
        for file, expected in self.expected.items():
            _check_bytes(file, expected.path, expected.shard)

    @property
    def spec(self) -> FeatureSpec | None:
        """What the features are, if they are not only numbers, and are all read."""
        specs = [found.spec for found in self.manifests.values()]
        return specs[0] if specs and tells_of_features(self._schema) else None

    def add(self, file: str, lists: RankingLists) -> None:
        """Checks the widths of some lists of a file, and counts them for `finish`.

        Args:
            file: one of the files.
            lists: the next lists of it, as they were read.

        Raises:
            DataFormatError: If a manifest says otherwise.
        """
        queries, items = self._counts[file]
        self._counts[file] = queries + lists.num_lists, items + lists.num_items
        if file in self.expected:
            self.expected[file].check(lists)
            self._split_of[file].add(lists)

    def finish(self) -> None:
        """Checks what all files together held, once all lists were added.

        Raises:
            DataFormatError: If a manifest says otherwise.
        """
        for file, expected in self.expected.items():
            expected.check_counts(*self._counts[file])
        if self._schema.label == PREPARED.label:
            for (path, split), counts in self._splits.items():
                counts.check(path, split)

    def check_width(self, num_features: int | None) -> None:
        """Checks the number of features in the manifests, and what they are.

        Args:
            num_features: the number that the caller wants; None if any will do.

        Raises:
            DataFormatError: If a manifest has another number, or other features.
        """
        if not tells_of_features(self._schema):
            return
        for path, found in self.manifests.items():
            if num_features not in (None, found.num_features):
                raise DataFormatError(
                    f"expected {num_features} features. Found: num_features "
                    f"{found.num_features}",
                    path,
                )
            num_features = found.num_features
            if found.spec != self.spec:
                raise DataFormatError(
                    f"expected features {self.spec}. Found: {found.spec}", path
                )

    def _match(
        self, path: str, found: Manifest, directory: str, present: list[str]
    ) -> None:
        """Finds the shard of each file, and checks that their splits are complete."""
        known = {
            shard.name: (split, shard)
            for split, content in found.splits.items()
            for shard in content.shards
        }
        given = set()
        for file in present:
            name = os.path.basename(file)
            if name not in known:
                raise DataFormatError(
                    f"expected one of its {len(known)} shards. Found: {name}", path
                )
            given.add(name)
            split, shard = known[name]
            self.expected[file] = Expected(
                path, shard, found.num_features, found.num_grades, self._schema
            )
            self._split_of[file] = self._splits.setdefault(
                (path, split), _SplitCounts(found.splits[split])
            )
        for split in {known[name][0] for name in given}:
            for shard in found.splits[split].shards:
                if shard.name not in given:
                    exists = tf.io.gfile.exists(os.path.join(directory, shard.name))
                    raise DataFormatError(
                        f"shard {shard.name}: expected all "
                        f"{len(found.splits[split].shards)} shards of {split!r}. "
                        + ("This one is not named" if exists else "It is missing"),
                        path,
                    )


class _SplitCounts:
    """Counts of the shards of a split, to compare with a manifest."""

    def __init__(self, expected: Split):
        self._expected = expected
        self._labels: collections.Counter[float] = collections.Counter()
        self._max_label = 0.0
        self._max_list_size = 0

    def add(self, lists: RankingLists) -> None:
        if len(self._labels) <= len(
            self._expected.labels
        ):  # Otherwise it is wrong anyway.
            self._labels.update(lists.label_counts)
        self._max_label = max(self._max_label, lists.max_label)
        self._max_list_size = max(self._max_list_size, int(lists.lengths.max()))

    def check(self, path: str, split: str) -> None:
        expected = self._expected
        labels = {
            float(np.float32(label)): count for label, count in expected.labels.items()
        }
        found_labels = dict(self._labels) if labels else {}
        for field, wanted, found in (
            ("labels", labels, found_labels),
            ("max_label", float(expected.max_label), self._max_label),
            ("max_list_size", expected.max_list_size, self._max_list_size),
        ):
            if wanted != found:
                raise DataFormatError(
                    f"split {split!r}: expected {field} {wanted}. Found: {found}", path
                )


def tells_of_features(schema: ElwcSchema) -> bool:
    """Returns whether a manifest counts the features that are read."""
    return (schema.features, schema.context_features) == (
        PREPARED.features,
        PREPARED.context_features,
    )


def packed_spec(files: Sequence[str]) -> FeatureSpec | None:
    """Returns what the features of prepared shards are, if they are not only numbers.

    Raises:
        DataFormatError: If only some of the files are such shards, or are of others.
    """
    specs: dict[FeatureSpec | None, str] = {}
    for directory in dict.fromkeys(map(os.path.dirname, files)):
        found = manifest.load(directory)
        content = found.splits.values() if found else ()
        named = {shard.name for split in content for shard in split.shards}
        for file in (x for x in files if os.path.dirname(x) == directory):
            known = found and os.path.basename(file) in named
            specs.setdefault(found.spec if found and known else None, file)
    if len(specs) > 1:
        (one, first), (other, second) = [*specs.items()][:2]
        raise DataFormatError(
            f"expected features as in {first}, {one}. Found: {other}", second
        )
    return next(iter(specs), None)


def split_files(directory: str, found: Manifest, split: str) -> list[str]:
    """Returns the files of a split that a manifest names or that its directory has.

    Args:
        directory: the directory.
        found: its manifest.
        split: one of its splits.

    Raises:
        DataFormatError: If a shard is missing.
    """
    named = [shard.name for shard in found.splits[split].shards]
    for name in named:
        if not tf.io.gfile.exists(os.path.join(directory, name)):
            path = os.path.join(directory, manifest.FILE_NAME)
            raise DataFormatError(f"shard {name}: it is missing", path)
    others = set(shard_names(directory, split)) - set(named)
    return [os.path.join(directory, name) for name in [*named, *sorted(others)]]


def shard_names(directory: str, split: str) -> list[str]:
    """Returns the names of the files of a directory that look like shards of a split.

    Args:
        directory: the directory.
        split: such as 'train'.
    """
    pattern = f"{split}-*-of-*.tfrecord*"
    return fnmatch.filter(tf.io.gfile.listdir(directory), pattern)


def _check_bytes(file: str, path: str, shard: Shard) -> None:
    size = tf.io.gfile.stat(file).length
    if size != shard.bytes:
        raise DataFormatError(
            f"shard {shard.name}: expected {shard.bytes} bytes. Found: {size}", path
        )
    digest = manifest.digest(file)
    if digest != shard.sha256:
        raise DataFormatError(
            f"shard {shard.name}: expected the SHA-256 digest {shard.sha256}. Found: "
            f"{digest}",
            path,
        )
