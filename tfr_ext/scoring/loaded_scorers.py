"""Loads exported networks or trees to score lists, and checks their scores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn, Protocol

import numpy as np

from tfr_ext.core import json_files
from tfr_ext.data.lists import RankingLists
from tfr_ext.models.trees import gbm_model
from tfr_ext.serving import exporter


class TreesScorer:
    """Trees of a finished run, which score lists as an export does.

    The attributes are those of `ExportedScorer`. Trees take missing features, for which
    they have branches; `missing` is 'mean', with which all of these are NaN.
    """

    def __init__(self, directory: str):
        """Loads the trees from the `model_dir` of `tfr_ext.gbm.train`."""
        path = os.path.join(directory, "metrics.json")
        if not os.path.exists(path):
            raise ValueError(
                f"{directory} has trees, but no metrics.json: train again."
            )
        try:
            self._model = gbm_model.load(directory)
        except ImportError as error:
            raise ValueError(f"{directory}: {error}") from error
        kinds: json_files.Kinds = {"convention": (dict,), "held_out": (dict,)}
        about = json_files.read_object(path, "`train_gbm`", kinds)
        self.num_features = self._model.num_features
        self.max_label: float | None = about.get("convention", {}).get("max_label")
        self.feature_names: list[str] | None = about.get("feature_names")
        self.takes_missing, self.missing = True, "mean"
        self.held_out = [about.get("held_out", {})]
        codes = self._model.codes
        self.spec = None if codes is None else codes.spec

    def scores(self, lists: RankingLists, batch_size: int) -> np.ndarray:
        """Returns float64 scores `[num_items]`, in order, of all items at once."""
        del batch_size
        return self._model.score_lists(lists)


def load_scorer(path: str) -> exporter.ExportedScorer | TreesScorer:
    """Loads trees from their `model_dir`, or the export in another directory.

    Of several versions in the directory, the latest is used.
    """
    return TreesScorer(path) if gbm_model.are_in(path) else exporter.load_scorer(path)


class ListScorer(Protocol):
    """A model that scores lists, such as `ExportedScorer`."""

    @property
    def num_features(self) -> int:
        """Number of features that it takes."""

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Names of the features, if it knows them."""

    def scores(self, lists: RankingLists, batch_size: int) -> np.ndarray:
        """Returns float32 scores `[num_items]`, in the order of the items.

        The model scores `batch_size` lists at a time.
        """


def check_categories(lists: RankingLists, scorer: object) -> None:
    """Checks that lists have the categories, texts and embeddings of a model."""
    specs = lists.spec, getattr(scorer, "spec", None)
    found, expected = (
        [
            f"{x.name} ({x.kind} of {x.width}{', of the list' * x.context})"
            for x in (spec.others if spec else ())
        ]
        for spec in specs
    )
    if found == expected != []:
        names, wanted = (spec.number_names for spec in specs if spec)
        if names != wanted and set(names) & set(wanted):  # Else they have no names.
            raise ValueError(
                f"The numbers of the lists are {names}, in this order, but those that "
                f"the model takes are {wanted}."
            )
    if found != expected:
        raise ValueError(
            f"The categories of the lists are {found}, but those that the model takes "
            f"are {expected}."
        )


def check_features(lists: RankingLists, missing: bool = False) -> None:
    """Checks that no feature is infinite, or NaN unless `missing` features are fine."""
    unknown = np.isinf(lists.features) if missing else ~np.isfinite(lists.features)
    if unknown.any():
        _raise_wrong(lists, int(np.argmax(unknown.any(axis=1))), "", missing)


def check_scores(lists: RankingLists, scores: np.ndarray) -> None:
    """Checks that lists can be ranked by their scores `[num_items]`: all are finite."""
    wrong = np.flatnonzero(~np.isfinite(scores))
    if len(wrong):
        _raise_wrong(lists, int(wrong[0]), f"{scores[wrong[0]]:g}")


def _raise_wrong(
    lists: RankingLists, index: int, score: str, missing: bool = False
) -> NoReturn:
    """Raises the error of a list that cannot be ranked."""
    q = int(np.searchsorted(lists.row_splits, index, "right")) - 1
    items = slice(lists.row_splits[q], lists.row_splits[q + 1])
    bad = np.argwhere(~np.isfinite(lists.features[items]))
    unknown = np.argwhere(np.isnan(lists.features[items]))
    if missing:
        bad, unknown = np.argwhere(np.isinf(lists.features[items])), unknown[:0]
    if len(bad):
        item, feature = (unknown if len(unknown) else bad)[0]
        value = lists.features[items][item, feature]
        name = f" ({lists.feature_names[feature]})" if lists.feature_names else ""
        why = f"feature {feature + 1}{name} of item {item + 1} is {value:g}"
        if np.isnan(value):
            why += ", and the model was trained without missing features"
    else:
        why = f"the model gives item {index - items.start + 1} the score {score}"
    raise ValueError(f"Query {lists.query_ids[q]!r} cannot be ranked: {why}.")
