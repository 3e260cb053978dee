"""Checks prepared shards against the manifest beside them."""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Sequence

import tensorflow as tf

from tfr_ext.data import manifest
from tfr_ext.data.letor_diagnosis import DataFormatError
from tfr_ext.data.manifest import Manifest, Shard

_BLOCK_BYTES = 1 << 20


class CheckedShards:
    """Files of which manifests may say what they hold.

    Making it checks what can be checked without understanding the files: that the
    shards of each split are complete, and the size and SHA-256 digest of each.

    Attributes:
        files: the files.
        manifests: the manifests found, by their path.
    """

    def __init__(self, files: Sequence[str]):
        """Finds the manifests and checks the files.

        Args:
            files: the files; those without a manifest in their directory are not
                checked.

        Raises:
            DataFormatError: if a file is not what a manifest says; the message names
                the manifest, the shard, what was expected and what was found.
        """
        self.files = list(files)
        self.manifests: dict[str, Manifest] = {}
        self._shards: dict[str, tuple[str, Shard]] = {}
        by_directory: dict[str, list[str]] = {}
        for file in files:
            by_directory.setdefault(os.path.dirname(file), []).append(file)
        for directory, present in by_directory.items():
            found = manifest.load(directory)
            if found is not None:
                path = os.path.join(directory, manifest.FILE_NAME)
                self.manifests[path] = found
                self._match(path, found, directory, present)
        for file, (path, shard) in self._shards.items():
            _check_bytes(file, path, shard)

    def check_counts(self, file: str, queries: int, items: int) -> None:
        """Checks what was read of a file.

        Args:
            file: one of the files.
            queries: number of lists found.
            items: number of items found.

        Raises:
            DataFormatError: if a manifest says otherwise.
        """
        if file not in self._shards:
            return
        path, shard = self._shards[file]
        for what, expected, found in (
            ("queries", shard.queries, queries),
            ("items", shard.items, items),
        ):
            if expected != found:
                raise DataFormatError(
                    f"shard {shard.name}: expected {expected} {what}. Found: {found}",
                    path,
                )

    def check_width(self, num_features: int | None) -> None:
        """Checks that the features that the manifests tell of are so many.

        Raises:
            DataFormatError: if they are not, or differ.
        """
        for path, found in self.manifests.items():
            if num_features not in (None, found.num_features):
                raise DataFormatError(
                    f"expected {num_features} features. Found: num_features "
                    f"{found.num_features}",
                    path,
                )
            num_features = found.num_features

    def check_grades(self, num_grades: int | None) -> None:
        """Checks that the manifests tell of so many grades.

        Args:
            num_grades: width of the label distributions found; None without them.

        Raises:
            DataFormatError: if a manifest tells of others.
        """
        for path, found in self.manifests.items():
            if found.num_grades != num_grades:
                raise DataFormatError(
                    f"expected num_grades {found.num_grades}. Found: {num_grades}", path
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
            self._shards[file] = path, known[name][1]
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


def split_files(directory: str, found: Manifest, split: str) -> list[str]:
    """Returns the files of a split that a manifest names or its directory has.

    Args:
        directory: the directory.
        found: its manifest.
        split: one of its splits.

    Raises:
        DataFormatError: if a shard is missing.
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
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(file, "rb") as content:
        while block := content.read(_BLOCK_BYTES):
            digest.update(block)
    if digest.hexdigest() != shard.sha256:
        raise DataFormatError(
            f"shard {shard.name}: expected the SHA-256 digest {shard.sha256}. Found: "
            f"{digest.hexdigest()}",
            path,
        )
