"""Categories as columns of numbers, which trees take as their own kind of feature."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

import numpy as np

from tfr_ext.core import json_files
from tfr_ext.core.files import write_atomically
from tfr_ext.data.features import FeatureSpec
from tfr_ext.data.fingerprints import MISSING
from tfr_ext.data.lists import RankingLists
from tfr_ext.models import categories


@dataclasses.dataclass(frozen=True)
class Codes:
    """The numbers that stand for the values of categories in rows for trees.

    A value of the vocabulary has its place there, from 1 on; others share 0, and a
    missing one is NaN.

    Attributes:
        spec: what the features are.
        known: the ids of each category's vocabulary, sorted.
    """

    spec: FeatureSpec
    known: Mapping[str, np.ndarray]

    @classmethod
    def learnt(cls, train: RankingLists) -> Codes | None:
        """Returns the codes of training lists; None if all features are numbers.

        Raises:
            ValueError: If items have several values of a category.
        """
        if train.spec is None or train.spec.is_numeric:
            return None
        for feature in train.spec.categories():
            if feature.width > 1:
                raise ValueError(
                    f"Category {feature.name!r} has up to {feature.width} values, and "
                    "trees take one. Leave it out of `category_columns`."
                )
        return cls(train.spec, categories.vocabularies([train]))

    def save(self, path: str) -> None:
        """Writes a file for `load`."""
        known = {name: keys.tolist() for name, keys in self.known.items()}
        content = {"features": self.spec.to_json(), "vocabularies": known}
        write_atomically(path, json.dumps(content) + "\n")

    @classmethod
    def load(cls, path: str) -> Codes:
        """Reads what `save` wrote."""
        kinds = {"features": (list,), "vocabularies": (dict,)}
        content = json_files.read_object(path, "`train_gbm`", kinds)
        known = {x: np.array(y, np.int64) for x, y in content["vocabularies"].items()}
        return cls(FeatureSpec.from_json(content["features"]), known)


def rows(lists: RankingLists, codes: Codes | None) -> np.ndarray:
    """Returns the numbers of each item and then its codes, float32.

    Args:
        lists: the lists.
        codes: those of their categories, if there are any.

    Raises:
        ValueError: If the lists have other categories.
    """
    wanted, found = (
        x.spec.categories() if x and x.spec else [] for x in (codes, lists)
    )
    if wanted != found:
        raise ValueError(f"The trees take the categories {wanted}. Found: {found}.")
    if codes is None:
        return lists.features
    parts = [lists.features]
    for feature, ids in categories.columns(lists):
        keys = codes.known[feature.name]
        place = np.where(np.isin(ids, keys), np.searchsorted(keys, ids) + 1, 0)
        part = np.where(ids == MISSING, np.float32(np.nan), place.astype(np.float32))
        parts.append(np.repeat(part, lists.lengths, 0) if feature.context else part)
    return np.concatenate(parts, axis=1)
