"""Categories and texts as columns of numbers, which trees take."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from tfr_ext.core import json_files
from tfr_ext.core.files import write_atomically
from tfr_ext.data.features import FeatureSpec
from tfr_ext.data.fingerprints import MISSING
from tfr_ext.data.lists import RankingLists
from tfr_ext.models import categories
from tfr_ext.models.categories import Vocabulary
from tfr_ext.models.texts import NUM_MATCHES, cosine, idf, matches

_AT_A_TIME = 1 << 14  # Items that are compared with their queries.


@dataclasses.dataclass(frozen=True)
class Codes:
    """The numbers that stand for categories and texts in rows for trees.

    A value of a category's vocabulary has its place there, from 1 on; others share 0,
    and a missing one is NaN. For each text of the context and text of items, there is
    what `matches` returns, and for two embeddings their cosine. `known` has the
    vocabulary of each feature that is no number.
    """

    spec: FeatureSpec
    known: Mapping[str, Vocabulary]

    @property
    def num_numbers(self) -> int:
        """How many columns precede those of categories."""
        texts, embeddings = map(self.spec.pairs, ("text", "embedding"))
        inputs = sum(x.width for x in self.spec.embeddings if x.as_input)
        more = inputs + len(embeddings) + NUM_MATCHES * len(texts)
        return self.spec.num_numbers + more

    @classmethod
    def learnt(cls, train: RankingLists) -> Codes | None:
        """Returns the codes of training lists; None if all features are numbers."""
        if train.spec is None or train.spec.is_numeric:
            return None
        for feature in train.spec.encoded():
            if feature.has_several:
                raise ValueError(
                    f"Category {feature.name!r} has up to {feature.width} values, and "
                    "trees take one. Leave it out of `category_columns`."
                )
        paired = {x.name for pair in train.spec.pairs("text") for x in pair}
        for feature in train.spec.encoded():
            if feature.kind == "text" and feature.name not in paired:
                raise ValueError(
                    f"Text {feature.name!r} says nothing to trees, which take what a "
                    "text of the context and one of items share. Leave it out of "
                    "`text_columns`, or name a text in `context_columns`."
                )
        return cls(train.spec, categories.vocabularies([train]))

    def save(self, path: str) -> None:
        """Writes a file for `load`."""
        known = {
            name: [x.keys.tolist(), x.counts.tolist(), x.total]
            for name, x in self.known.items()
        }
        content = {"features": self.spec.to_json(), "vocabularies": known}
        write_atomically(path, json.dumps(content) + "\n")

    @classmethod
    def load(cls, path: str) -> Codes:
        """Reads what `save` wrote."""
        kinds = {"features": (list,), "vocabularies": (dict,)}
        content = json_files.read_object(path, "`train_gbm`", kinds)
        known = {
            name: Vocabulary(
                np.array(keys, np.int64), np.array(counts, np.int64), total
            )
            for name, (keys, counts, total) in content["vocabularies"].items()
        }
        return cls(FeatureSpec.from_json(content["features"]), known)


def rows(lists: RankingLists, codes: Codes | None) -> np.ndarray:
    """Returns the numbers of each item, what texts and embeddings share, and codes."""
    wanted, given = (x.spec.others if x and x.spec else [] for x in (codes, lists))
    if wanted != given:
        raise ValueError(f"The trees take the categories {wanted}. Found: {given}.")
    if codes is None:
        return lists.features
    found = {feature: ids for feature, ids in categories.columns(lists)}
    spec, places = codes.spec, dict(codes.spec.slices())
    parts = [lists.features[:, : spec.num_numbers]]
    parts += [lists.features[:, x] for one, x in places.items() if one.as_input]
    pieces = [
        slice(first, first + _AT_A_TIME)
        for first in range(0, lists.num_items, _AT_A_TIME)
    ]
    for pair in spec.pairs("embedding"):
        vectors = [lists.features[:, places[x]] for x in pair]
        cosines = [cosine(*(x[some] for x in vectors)).numpy() for some in pieces]
        parts.append(np.concatenate([np.zeros([0, 1], np.float32), *cosines]))
    for query, text in spec.pairs("text"):
        known = codes.known[text.name]
        place = np.searchsorted(known.keys, found[query])
        place[~np.isin(found[query], known.keys)] = len(known.keys)
        query_idf = idf(known, len(known.keys))[place]
        shared = [np.zeros([0, NUM_MATCHES], np.float32)]
        for some in pieces:
            row = np.repeat(np.arange(lists.num_lists), lists.lengths)[some]
            both = found[query][row], found[text][some, np.newaxis], query_idf[row]
            shared.append(matches(*map(tf.constant, both)).numpy()[:, 0])
        parts.append(np.concatenate(shared))
    for feature, ids in found.items():
        if feature.kind == "text":
            continue
        keys = codes.known[feature.name].keys
        place = np.where(np.isin(ids, keys), np.searchsorted(keys, ids) + 1, 0)
        part = np.where(ids == MISSING, np.float32(np.nan), place.astype(np.float32))
        parts.append(np.repeat(part, lists.lengths, 0) if feature.context else part)
    return np.concatenate(parts, axis=1)
