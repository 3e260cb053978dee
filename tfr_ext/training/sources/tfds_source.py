"""Lists from data sets of TensorFlow Datasets, by name."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection
from typing import Any

from tfr_ext import data, datasets
from tfr_ext.core import checks
from tfr_ext.training.sources import data_splits

# Those that are not names of data sets.
_OTHER_SOURCES = ["elwc", "synthetic", "text"]


class TfdsSource:
    """A data set by its name, prepared at its first use; a `Source`."""

    def __init__(self, flags: Any):
        """Finds the data set.

        Args:
            flags: parsed flags, see `pipelines.flags.define_data_flags`.

        Raises:
            ValueError: if there is no such data set, flags do not fit each other, or
                TensorFlow Datasets is missing.
        """
        name = flags.dataset
        hint = checks.near(name, _OTHER_SOURCES)
        if "/" not in name and hint != ".":
            raise ValueError(f"--dataset={name} is not known{hint}")
        try:
            self._builder = datasets.builder(name, flags.data_dir)
        except (ImportError, ValueError) as error:
            raise ValueError(
                f"--dataset={name}: {error} Other sources of lists: "
                f"{', '.join(_OTHER_SOURCES)}."
            ) from error
        if not sys.stderr.isatty():  # A progress bar would be lines of nonsense.
            datasets.catalogue.import_tfds().disable_progress_bar()
        data_splits.reject_paths(flags)
        if flags.missing_value != 0:
            raise ValueError(
                f"--missing_value={flags.missing_value:g} is of --dataset=text. In "
                f"{name} missing values are 0."
            )
        self._name, self._data_dir = name, flags.data_dir
        self._manual_dir = flags.manual_dir
        self._check_width(flags.num_features)

    @property
    def splits(self) -> Collection[str]:
        """See `Source`."""
        return datasets.splits(self._prepared)

    def read(self, split: str, num_features: int | None) -> data.RankingLists:
        """See `Source`."""
        self._check_width(num_features)
        return datasets.read(self._prepared, split)

    @functools.cached_property
    def _prepared(self) -> Any:
        return datasets.prepare(self._name, self._data_dir, self._manual_dir)

    def _check_width(self, num_features: int | None) -> None:
        width = self._builder.info.features["float_features"].shape[-1]
        if num_features not in (None, width):
            raise ValueError(
                f"{num_features} features are expected, by --num_features or the "
                f"model, but --dataset={self._name} has {width}."
            )
