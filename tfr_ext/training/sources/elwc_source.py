"""ELWC TFRecords as a source of lists: `--dataset=elwc`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Any

from tfr_ext import data
from tfr_ext.data import file_names
from tfr_ext.data.batches import streams
from tfr_ext.data.elwc import manifest, shards
from tfr_ext.training.sources.data_splits import SPLITS


class ElwcSource:
    """ELWC files, checked against their manifest if they have one; a `Source`.

    Attributes:
        elwc_features: what the features of the training items are called, once these
            have been read.
    """

    def __init__(self, flags: Any):
        """Finds out which splits there are.

        Raises:
            ValueError: if flags do not fit each other, or --data_dir has no manifest.
        """
        self._flags = flags
        self.elwc_features: data.ElwcFeatures | None = None
        self._manifest: manifest.Manifest | None = None
        self.schema = data.ElwcSchema(
            flags.elwc_features,
            flags.elwc_context_features,
            flags.elwc_label,
            flags.elwc_query_id,
            flags.elwc_doc_id,
            flags.elwc_label_distribution,
        )
        with_paths = [s for s in SPLITS if getattr(flags, f"{s}_path")]
        self.splits: Collection[str] = with_paths
        if flags.data_dir is None:
            return
        if with_paths:
            raise ValueError(
                f"Give --data_dir or --{with_paths[0]}_path with --dataset=elwc, not "
                "both."
            )
        self._manifest = manifest.load(flags.data_dir)
        if self._manifest is None:
            raise ValueError(
                f"--data_dir={flags.data_dir} has no {manifest.FILE_NAME}. Without "
                "one, name the files: --train_path and so on."
            )
        self.splits = [s for s in SPLITS if s in self._manifest.splits]
        path = os.path.join(flags.data_dir, manifest.FILE_NAME)
        for split in self._manifest.splits:
            if split not in SPLITS:
                raise data.DataFormatError(
                    f"expected splits called {', '.join(SPLITS)}. Found: {split!r}",
                    path,
                )
        for split in SPLITS:
            files_of = shards.shard_names(flags.data_dir, split)
            if split not in self.splits and files_of:
                raise data.DataFormatError(
                    f"expected an entry for {split!r}, as there is {files_of[0]}. "
                    "Found: none",
                    path,
                )

    def read(self, split: str, num_features: int | None) -> data.RankingLists:
        """See `Source`."""
        found = self.checked(split, num_features)
        lists = data.concatenate(self._pieces(found, num_features))
        self._measure(split, found)
        return lists

    def stream(
        self,
        split: str,
        num_features: int | None,
        transform: streams.PieceTransform | None,
    ) -> data.StreamedLists:
        """Reads a split once, and gives what reads it again in each epoch.

        Args:
            split: one of `splits`.
            num_features: width that the lists must have; None if any will do.
            transform: changes lists as they are read.
        """
        found = self.checked(split, num_features)
        lists = data.StreamedLists(
            found.files, num_features, self.schema, transform, found.add
        )
        found.finish()
        self._measure(split, found)
        return lists

    def checked(self, split: str, num_features: int | None) -> shards.CheckedShards:
        """Finds the files of a split and checks what their manifest says of them."""
        flags = self._flags
        if self._manifest is not None:
            if split not in self._manifest.splits:
                raise ValueError(
                    f"--data_dir={flags.data_dir} has no split {split!r}: its manifest "
                    f"names {', '.join(self._manifest.splits)}."
                )
            paths = shards.split_files(flags.data_dir, self._manifest, split)
        else:
            given = getattr(flags, f"{split}_path")
            if not given:
                other = "" if flags.test_path else " (or --test_path to evaluate)"
                raise ValueError(
                    f"--dataset=elwc needs --{split}_path{other}, or --data_dir."
                )
            paths = file_names.find_files(given)
        found = shards.CheckedShards(paths, self.schema)
        found.check_width(num_features)
        if not found.manifests:
            print(
                f"{split}: no {manifest.FILE_NAME} beside the files to check them by."
            )
        return found

    def _measure(self, split: str, found: shards.CheckedShards) -> None:
        if split == "train":
            self.elwc_features = data.measure_features(found.files[0], self.schema)

    def _pieces(
        self, found: shards.CheckedShards, num_features: int | None
    ) -> Iterator[data.RankingLists]:
        reader = data.ElwcReader(found.files, num_features, self.schema)
        for path in found.files:
            for piece in reader.pieces(path):
                found.add(path, piece)
                yield piece
        reader.finish()
        found.finish()
