"""Trained trees: one model, or the mean of several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfr_ext.core.files import text_file
from tfr_ext.data.lists import RankingLists
from tfr_ext.models.trees import libraries

_MOST = 99
# The names of the first models, by library; others have a number.
_SUFFIXES = {"lightgbm": ".txt", "catboost": ".cbm"}


def file_names(library: str, num_models: int = _MOST) -> list[str]:
    """Returns the names of the files of models.

    Args:
        library: 'lightgbm' or 'catboost'.
        num_models: how many models there are.

    Examples:
        >>> file_names("lightgbm", 3)
        ['model.txt', 'model_2.txt', 'model_3.txt']
    """
    numbers = ["", *(f"_{number}" for number in range(2, num_models + 1))]
    return [f"model{number}{_SUFFIXES[library]}" for number in numbers]


class GbmModel:
    """Trees that score items; the mean of the scores of several models.

    Attributes:
        boosters: the models of LightGBM or CatBoost.
    """

    def __init__(self, boosters: Sequence[Any], library: str) -> None:
        """Initialises the model.

        Args:
            boosters: models of one library.
            library: 'lightgbm' or 'catboost'.
        """
        self.boosters = tuple(boosters)
        self._library = library

    @property
    def num_features(self) -> int:
        """Number of features that they take."""
        if self._library == "lightgbm":
            return int(self.boosters[0].num_feature())
        return len(self.boosters[0].feature_names_)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Returns scores `[num_items]`, float64.

        Args:
            features: features `[num_items, num_features]`; a missing one is NaN.
        """
        features = np.asarray(features, np.float32)
        if self._library == "lightgbm":
            found = [one.predict(features, raw_score=True) for one in self.boosters]
        else:
            found = [
                one.predict(features, prediction_type="RawFormulaVal")
                for one in self.boosters
            ]
        return np.mean(found, axis=0)

    def score_lists(self, lists: RankingLists) -> np.ndarray:
        """Returns scores of the items of lists, `[num_items]`.

        Args:
            lists: the lists.
        """
        return self.predict(lists.features)

    def save(self, directory: str) -> None:
        """Writes a file for each model.

        Args:
            directory: where they go.

        Raises:
            OSError: if one cannot be written.
        """
        names = file_names(self._library, len(self.boosters))
        for name, booster in zip(names, self.boosters):
            path = os.path.join(directory, name)
            if self._library == "lightgbm":
                with text_file(path) as file:
                    file.write(booster.model_to_string())
                continue
            try:
                booster.save_model(path)
            except libraries.imported("catboost").CatBoostError as error:
                raise OSError(f"{path} cannot be written: {error}") from error


def are_in(directory: str) -> bool:
    """Returns whether a directory has trees, as a run of them does.

    Args:
        directory: the directory.
    """
    return any(_found(directory, library) for library in _SUFFIXES)


def load(directory: str) -> GbmModel:
    """Loads the model of a run.

    Args:
        directory: the `model_dir` of the run, see `train`.

    Raises:
        ValueError: if no model is there, or its file has errors.
        ImportError: if its library is not installed.
    """
    for library in _SUFFIXES:
        paths = _found(directory, library)
        if paths:
            module = libraries.imported(library)
            return GbmModel([_read(module, library, path) for path in paths], library)
    raise ValueError(
        f"`directory={directory!r}` must have a model.txt or a model.cbm, as a run of "
        "trees has."
    )


def _found(directory: str, library: str) -> list[str]:
    """Returns the files of the models of a library in a directory."""
    paths = [os.path.join(directory, name) for name in file_names(library)]
    return [path for path in paths if os.path.isfile(path)]


def _read(module: Any, library: str, path: str) -> Any:
    """Reads the file of a model."""
    is_lightgbm = library == "lightgbm"
    wrong = module.basic.LightGBMError if is_lightgbm else module.CatBoostError
    try:
        if is_lightgbm:
            return module.Booster(model_file=path)
        return module.CatBoost().load_model(path)
    except wrong as error:
        raise ValueError(f"{path} is not a model of {library}: {error}") from error
