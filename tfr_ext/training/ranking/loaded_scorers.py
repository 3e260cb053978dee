"""Loads what scores lists: an exported network, or trees."""

from __future__ import annotations

import dataclasses
import os

import numpy as np

from tfr_ext.core import json_files
from tfr_ext.data.lists import RankingLists
from tfr_ext.models.trees import gbm_model
from tfr_ext.training import exporter
from tfr_ext.training.data_config import DataConfig


class TreesScorer:
    """Trees of a finished run, which score lists as an export does.

    Attributes:
        num_features: number of features that they take.
        max_label: the highest grade of their collection.
        feature_names: names of the features, if they were trained on a table.
        takes_missing: True: trees have branches for missing features.
    """

    def __init__(self, directory: str):
        """Loads the trees.

        Args:
            directory: the `model_dir` of `tfr_ext.gbm.train`.

        Raises:
            ValueError: if the files have errors, the run is not finished, or the
                library of the trees is not installed.
        """
        path = os.path.join(directory, "metrics.json")
        if not os.path.exists(path):
            raise ValueError(
                f"{directory} has trees, but no metrics.json: train again."
            )
        try:
            self._model = gbm_model.load(directory)
        except ImportError as error:
            raise ValueError(f"{directory}: {error}") from error
        about = json_files.read_object(path, "`train_gbm`", {"convention": (dict,)})
        self.num_features = self._model.num_features
        self.max_label: float | None = about.get("convention", {}).get("max_label")
        self.feature_names: list[str] | None = about.get("feature_names")
        self.takes_missing = True

    def scores(self, lists: RankingLists, batch_size: int) -> np.ndarray:
        """Returns float64 scores `[num_items]`, in the order of the items.

        Args:
            lists: lists with `num_features` features.
            batch_size: has no effect: trees score all items at once.
        """
        del batch_size
        return self._model.score_lists(lists)


def load_scorer(path: str) -> exporter.ExportedScorer | TreesScorer:
    """Loads an exported ranker, or trees.

    Args:
        path: the directory of an exported version, or of several, of which the latest
            is used, or the `model_dir` of a run of trees.

    Raises:
        ValueError: if it has neither, its files have errors, or the library of the
            trees is not installed.
    """
    return TreesScorer(path) if gbm_model.are_in(path) else exporter.load_scorer(path)


def with_missing(data: DataConfig) -> DataConfig:
    """Returns settings with which missing features are read as NaN, for trees.

    Args:
        data: the settings.
    """
    if data.dataset not in ("elwc", "table", "text"):
        return data  # There, each feature has a value.
    return dataclasses.replace(data, missing="mean")  # Trees fill in nothing.
