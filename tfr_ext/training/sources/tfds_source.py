"""Lists from data sets of TensorFlow Datasets, by name."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection
from typing import Any

from tfr_ext import datasets
from tfr_ext.core import checks
from tfr_ext.core.settings import given
from tfr_ext.data.lists import RankingLists
from tfr_ext.training.data_config import DataConfig
from tfr_ext.training.sources.source import reject_paths

# Sources that are not data sets of TensorFlow Datasets.
_OTHER_SOURCES = ["elwc", "synthetic", "table", "text"]


class TfdsSource:
    """A data set by its name, prepared when it is first used; a `Source`."""

    def __init__(self, config: DataConfig):
        """Finds the data set.

        Args:
            config: settings of the data.

        Raises:
            ValueError: if there is no such data set, settings do not fit each other, or
                TensorFlow Datasets is missing.
        """
        name = config.dataset
        hint = checks.near(name, _OTHER_SOURCES)
        if "/" not in name and hint != ".":
            raise ValueError(f"{given('dataset', name)} is not known{hint}")
        try:
            self._builder = datasets.builder(name, config.data_dir)
        except (ImportError, ValueError) as error:
            raise ValueError(
                f"{given('dataset', name)}: {error} Other sources of lists: "
                f"{', '.join(_OTHER_SOURCES)}."
            ) from error
        if not sys.stderr.isatty():  # A progress bar would print lines of garbage.
            datasets.catalogue.import_tfds().disable_progress_bar()
        reject_paths(config)
        if config.missing_value != 0:
            raise ValueError(
                f"{given('missing', config.missing)} is only for files. In {name}, "
                "missing values are 0."
            )
        self._name, self._data_dir = name, config.data_dir
        self._manual_dir = config.manual_dir
        self._check_width(config.num_features)

    @property
    def splits(self) -> Collection[str]:
        """See `Source`."""
        return datasets.splits(self._prepared)

    def read(self, split: str, num_features: int | None) -> RankingLists:
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
                f"`num_features` or the model expects {num_features} features, but "
                f"{given('dataset', self._name)} has {width}."
            )
