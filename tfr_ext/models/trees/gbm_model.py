"""Trained trees: one model or the mean of several, in files of their library."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from tfr_ext.core.files import whole_file, write_atomically
from tfr_ext.data.lists import RankingLists
from tfr_ext.models.trees.category_codes import Codes, rows

DIGESTS = "models.sha256"
"""The file with the digests of the models beside it, as `sha256sum` writes them."""
CATEGORIES = "categories.json"
"""The file of `Codes`, beside models of categories, whose digest is there too."""

_MOST = 99
_ANEW = "Restore the file, or train again with `overwrite=True`."
# The names of the first models, by library; others have a number.
_SUFFIXES = {"lightgbm": ".txt", "catboost": ".cbm"}


def file_names(library: str, num_models: int = _MOST) -> list[str]:
    """Returns the names of the files of models of 'lightgbm' or 'catboost'.

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
        codes: those of the categories; None if all features are numbers.
    """

    def __init__(
        self, boosters: Sequence[Any], library: str, codes: Codes | None = None
    ) -> None:
        """Initialises the model.

        Args:
            boosters: models of one library.
            library: 'lightgbm' or 'catboost'.
            codes: those of the categories, if there are any.
        """
        self.boosters = tuple(boosters)
        self.codes = codes
        self._library = library

    @property
    def num_features(self) -> int:
        """Number of features that they take, without categories."""
        if self.codes is not None:
            return self.codes.spec.num_features
        if self._library == "lightgbm":
            return int(self.boosters[0].num_feature())
        return len(self.boosters[0].feature_names_)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Returns scores `[num_items]`, float64.

        Args:
            features: features `[num_items, num_features]`; a missing one is NaN. With
                categories, what `rows` returns.
        """
        features = np.asarray(features, np.float32)
        if self._library == "lightgbm":
            found = [one.predict(features, raw_score=True) for one in self.boosters]
        else:
            given = for_catboost(features, self.codes)
            found = [
                one.predict(given, prediction_type="RawFormulaVal")
                for one in self.boosters
            ]
        return np.mean(found, axis=0)

    def score_lists(self, lists: RankingLists) -> np.ndarray:
        """Returns scores of the items of lists, `[num_items]`.

        Args:
            lists: the lists.

        Raises:
            ValueError: If they have other categories.
        """
        return self.predict(rows(lists, self.codes))

    def save(self, directory: str) -> None:
        """Writes a file for each model, one for `codes`, and their digests.

        Args:
            directory: where they go.

        Raises:
            OSError: If one cannot be written.
        """
        names = file_names(self._library, len(self.boosters))
        lines = []
        for name, booster in zip(names, self.boosters):
            path = os.path.join(directory, name)
            with whole_file(path) as file:
                if self._library == "lightgbm":
                    file.write(booster.model_to_string().encode())
                else:
                    _save_catboost(booster, file.name, path)
            lines.append(f"{_digest(path)}  {name}\n")
        if self.codes is not None:
            path = os.path.join(directory, CATEGORIES)
            self.codes.save(path)
            lines.append(f"{_digest(path)}  {CATEGORIES}\n")
        write_atomically(os.path.join(directory, DIGESTS), "".join(lines))


def for_catboost(features: np.ndarray, codes: Codes | None) -> Any:
    """Returns rows as CatBoost takes them."""
    if codes is None:
        return features
    numbers, found = np.split(features, [codes.num_numbers], axis=1)
    if not found.shape[1]:
        return numbers
    texts = np.where(np.isnan(found), -1, found).astype(np.int64).astype("S")
    numbers = np.ascontiguousarray(numbers)
    return imported("catboost").FeaturesData(numbers, texts.astype(object))


def are_in(directory: str) -> bool:
    """Returns whether a directory has trees, as a run of them does."""
    return bool(_digests(directory)) or any(
        _found(directory, library) for library in _SUFFIXES
    )


def load(directory: str) -> GbmModel:
    """Loads the model of a run, or one that LightGBM or CatBoost wrote.

    The libraries do not check what they read, and a damaged file can end the process.
    So they get no file that differs from what `GbmModel.save` wrote. Files without
    digests, such as those of the libraries themselves, are not checked.

    Args:
        directory: the `model_dir` of the run, see `train`, or any with a `model.txt` or
            a `model.cbm`.

    Raises:
        ValueError: If no model is there, or its file has errors or differs from what
            was written.
        ImportError: If its library is not installed.
    """
    digests = _digests(directory)
    _check(directory, digests)
    path = os.path.join(directory, CATEGORIES)
    codes = Codes.load(path) if CATEGORIES in digests else None
    for library in _SUFFIXES:
        names = _found(directory, library)
        if names:
            module = imported(library)
            paths = [os.path.join(directory, name) for name in names]
            boosters = [_read(module, library, path) for path in paths]
            return GbmModel(boosters, library, codes)
    raise ValueError(
        f"`directory={directory!r}` must have a model.txt or a model.cbm, as a run of "
        "trees has."
    )


def _found(directory: str, library: str) -> list[str]:
    """Returns the names of the models of a library in a directory."""
    names = file_names(library)
    return [name for name in names if os.path.isfile(os.path.join(directory, name))]


def _digests(directory: str) -> Mapping[str, str]:
    """Returns the digests of the models by their names; empty if there is no file."""
    path = os.path.join(directory, DIGESTS)
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    found = {
        name: digest
        for digest, _, name in (x.partition("  ") for x in text.splitlines())
    }
    models = [name for name in found if name != CATEGORIES]
    if models not in [file_names(one, len(models)) for one in _SUFFIXES if models]:
        raise ValueError(
            f"{path} is not what `train_gbm` writes, which is the SHA-256 digest and "
            f"the name of each model. {_ANEW}"
        )
    return found


def _check(directory: str, digests: Mapping[str, str]) -> None:
    """Raises a ValueError if the models are not those that were written."""
    if not digests:
        return
    found = [name for library in _SUFFIXES for name in _found(directory, library)]
    found += [CATEGORIES] * os.path.isfile(os.path.join(directory, CATEGORIES))
    for name in dict.fromkeys([*digests, *found]):
        path = os.path.join(directory, name)
        if name not in digests:
            raise ValueError(
                f"{path} has no digest in {DIGESTS}: it is not of the models there. "
                "Move it away, or train again with `overwrite=True`."
            )
        if name not in found:
            raise ValueError(
                f"{path} is missing, but {DIGESTS} has its digest. {_ANEW}"
            )
        digest = _digest(path)
        if digest != digests[name]:
            raise ValueError(
                f"{path} differs from what was written: its SHA-256 digest is "
                f"{digest}, and that in {DIGESTS} is {digests[name]}. {_ANEW}"
            )


def _digest(path: str) -> str:
    """Returns the SHA-256 digest of a file."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _save_catboost(booster: Any, name: str, path: str) -> None:
    """Saves a model of CatBoost under a name; an error has the path that it gets."""
    try:
        booster.save_model(name)
    except imported("catboost").CatBoostError as error:
        raise OSError(f"{path} cannot be written: {error}") from error


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


LIBRARIES = ("lightgbm", "catboost")
"""The libraries."""


def versions() -> dict[str, str]:
    """Returns the versions of the installed libraries."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def imported(name: str) -> Any:
    """Returns a library, or raises an ImportError that says how to install it.

    Examples:
        >>> imported("lightgbm").__name__
        'lightgbm'
    """
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:  # OSError: without a system library
        raise ImportError(
            f"Gradient-boosted trees need {name}, which cannot be imported ({error}). "
            "Install it: pip install tfr-ext[gbm]"
        ) from error
