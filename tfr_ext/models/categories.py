"""Categories in models: vocabularies, of texts too, and embeddings."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfr_ext.core import messages, which_keras
from tfr_ext.data.features import Feature, FeatureSpec
from tfr_ext.data.fingerprints import FILL, MISSING
from tfr_ext.data.lists import RankingLists
from tfr_ext.models.layers import all_layers

VOCABULARY_SIZE, MIN_COUNT = 100_000, 2
"""The default number of values of a category that have an embedding of their own, and
how often a value must occur in training to be one of them."""
# Rows of a table that are of no value: missing, and not in the vocabulary.
_MISSING, _UNSEEN, _SPECIAL = 0, 1, 2
_MOST_DISTINCT = 20_000_000
# From so many values on, a category is an id if more than this share occurs once.
_JUDGED_FROM, _MOST_ONCE = 100, 0.9
_LEAST_AND_MOST = np.minimum, np.maximum


class Vocabulary(NamedTuple):
    """The values of a category, or words of a text, that a model tells apart.

    Attributes:
        keys: their ids, sorted. All texts of a model have the same.
        counts: how often each occurs in training; of a text, in how many rows.
        total: number of rows: items, or lists for a feature of the context.
    """

    keys: np.ndarray
    counts: np.ndarray
    total: int = 0


@which_keras.register
class Category(tf.keras.layers.Layer):
    """Embeds the values of one category: `[..., ids]` becomes `[..., size]`.

    A value is found in the sorted vocabulary by bisection, as XLA's `tf.searchsorted`
    compares each value with each key. Values outside it share a vector, and so do
    missing ones; both are zero until training has some. Several values are averaged.

    Examples:
        >>> layer = Category(0, 1, 2, keys=np.int64([5, 9]))
        >>> found = layer(tf.constant([[9], [7], [-1]], tf.int64)).numpy()
        >>> found.shape, bool(found[0].any()), bool(found[1:].any())
        ((3, 6), True, False)
    """

    def __init__(
        self,
        start: int,
        width: int,
        size: int,
        keys: np.ndarray | None = None,
        **kwargs: Any,
    ):
        """Initialises the layer.

        Args:
            start: place of the first of its ids.
            width: how many ids it has.
            size: number of values in the vocabulary.
            keys: their ids, sorted; None if the weights will be restored.
            **kwargs: arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(**{"dtype": "float32", **kwargs})
        self._start, self._width, self._size = start, width, size
        self._given = keys

    @property
    def dim(self) -> int:
        """Width of the embedding."""
        return min(64, 4 + int(2 * math.log2(max(1, self._size))))

    def build(self, input_shape: Any) -> None:
        """Creates the vocabulary and the embeddings."""

        def known(shape: Any, dtype: Any = None, **_: Any) -> tf.Tensor:
            keys = np.zeros(shape) if self._given is None else self._given
            return tf.constant(keys, tf.int64)

        def drawn(shape: Any, dtype: Any = None, **_: Any) -> tf.Tensor:
            # Keras' own +-0.05 is lost beside normalised numbers.
            uniform = tf.keras.initializers.RandomUniform(-0.3, 0.3)
            values = uniform(shape, dtype=dtype)
            special = tf.range(shape[0]) < _SPECIAL
            return tf.where(special[:, tf.newaxis], tf.zeros_like(values), values)

        self.keys = self.add_weight(
            name="keys",
            shape=[self._size],
            dtype="int64",
            initializer=known,
            trainable=False,
        )
        self.table = self.add_weight(
            name="table", shape=[_SPECIAL + self._size, self.dim], initializer=drawn
        )
        super().build(input_shape)

    @which_keras.not_converted
    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the vectors of the values.

        Args:
            ids: the ids of all categories of an item or a list, `[..., ids]`.
        """
        ids = ids[..., self._start : self._start + self._width]
        if self._width == 1:
            return self._vectors(ids)[..., 0, :]
        return self.mean(ids)

    def mean(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the mean of the vectors of several values, `[..., size]`."""
        vectors = self._vectors(ids)
        known = tf.cast(tf.not_equal(ids, FILL), vectors.dtype)[..., tf.newaxis]
        count = tf.maximum(tf.reduce_sum(known, axis=-2), 1)
        return tf.reduce_sum(vectors * known, axis=-2) / count

    def _vectors(self, ids: tf.Tensor) -> tf.Tensor:
        place = self.place(ids)
        row = tf.where(place < self._size, place + _SPECIAL, _UNSEEN)
        row = tf.where(tf.equal(ids, MISSING), _MISSING, row)
        return tf.gather(tf.convert_to_tensor(self.table), row)

    def place(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the place of each id in the vocabulary, or else its size."""
        keys = tf.convert_to_tensor(self.keys)
        count = tf.zeros_like(ids, tf.int32)
        step = 1 << self._size.bit_length()
        while step := step // 2:
            further = count + step
            entry = tf.gather(keys, tf.minimum(further, self._size) - 1)
            count = tf.where((further <= self._size) & (entry <= ids), further, count)
        place = tf.maximum(count - 1, 0)
        return tf.where(tf.equal(tf.gather(keys, place), ids), place, self._size)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the vectors."""
        return (*input_shape[:-1], self.dim)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer, without the vocabulary."""
        own = {"start": self._start, "width": self._width, "size": self._size}
        return {**super().get_config(), **own}


def vocabularies(
    lists: RankingLists | Iterable[RankingLists],
    most: int | None = None,
    min_count: int | None = None,
) -> dict[str, Vocabulary]:
    """Returns the values of each category, or words of each text, to tell apart.

    A warning names a category that is an id: nearly all of its values occur once, or
    each list has one that no other has.

    Args:
        lists: the training lists, or pieces of them, all of one spec.
        most: number of values of a feature at most, of which the most frequent stay;
            by default, `VOCABULARY_SIZE`.
        min_count: how often a value must occur, `MIN_COUNT` by default.

    Raises:
        ValueError: If a category has more different values than can be counted.
    """
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    num_lists, of_one = 0, collections.Counter[str]()  # Those with a single value.
    totals, features = collections.Counter[str](), {}
    for piece in [lists] if isinstance(lists, RankingLists) else lists:
        if piece.spec is None or piece.spec.is_numeric:
            break
        starts = piece.row_splits[:-1][piece.lengths > 0]  # A list may be empty.
        num_lists += len(starts)
        for feature, ids in columns(piece):
            name = feature.name
            features[name] = feature
            totals[name] += len(ids)
            if feature.kind == "text":  # A row counts once.
                ids = np.sort(ids, axis=1)
                ids[:, 1:][ids[:, 1:] == ids[:, :-1]] = FILL
            elif not feature.context:
                ends = (f.reduceat(ids, starts) for f in _LEAST_AND_MOST)
                of_one[name] += int(np.equal(*ends).all(axis=1).sum())
            values, counts = np.unique(ids[ids >= 0], return_counts=True)
            if name in found:
                both = np.concatenate([found[name][0], values])
                values, place = np.unique(both, return_inverse=True)
                all_counts = np.concatenate([found[name][1], counts])
                counts = np.bincount(place, all_counts, len(values)).astype(np.int64)
            if len(values) > _MOST_DISTINCT:
                raise ValueError(
                    f"{feature.kind.capitalize()} {name!r} has more than "
                    f"{_MOST_DISTINCT:,} different values in training, which cannot be "
                    "counted. Leave it out."
                )
            found[name] = values, counts
    kept = {}
    for name, (values, counts) in found.items():
        once = (counts == 1).sum() / max(1, counts.sum())
        if features[name].kind == "text":
            pass  # No word is an id.
        elif once > _MOST_ONCE and counts.sum() >= _JUDGED_FROM:
            messages.warn(
                f"Category {name!r}: {once:.0%} of its values in training occur once, "
                "as the ids of queries or documents do; nothing can be learnt from it."
            )
        elif of_one[name] == num_lists == len(values) >= _JUDGED_FROM:
            messages.warn(
                f"Category {name!r} is the same in all items of a list, and another in "
                "each list, as the id of a query is; nothing can be learnt from it."
            )
        order = np.argsort(-counts, kind="stable")[: most or VOCABULARY_SIZE]
        frequent = counts[order] >= (min_count or MIN_COUNT)
        chosen = np.sort(order[frequent])
        kept[name] = Vocabulary(values[chosen], counts[chosen], totals[name])
    texts = [name for name in kept if features[name].kind == "text"]
    if texts:
        keys = np.unique(np.concatenate([kept[name].keys for name in texts]))
        for name in texts:
            values, counts = found[name]
            place = np.minimum(np.searchsorted(values, keys), len(values) - 1)
            known = values[place] == keys if len(values) else np.zeros(len(keys), bool)
            counts = np.where(known, counts[place] if len(values) else 0, 0)
            kept[name] = Vocabulary(keys, counts, totals[name])
    return kept


def describe(
    known: Mapping[str, Vocabulary],
    spec: FeatureSpec | None,
    valid: RankingLists,
    test: RankingLists,
) -> list[str]:
    """Returns a line for each feature: its kind, and how much its vocabulary has."""
    keys = {name: vocabulary.keys for name, vocabulary in known.items()}
    counts, found = [unseen(lists, keys) for lists in (valid, test)], []
    for feature in spec.encoded() if spec else ():
        name, kind = feature.name, "a category"
        kind += " of whole numbers" * feature.is_integer
        kind += f", up to {feature.width} values" * feature.has_several
        if feature.kind == "text":
            kind = f"a text, {feature.width} words"
        kind += ", of the list" * feature.context
        shares = [lacked / max(1, every) for lacked, every in (x[name] for x in counts)]
        empty = [s for s, x in zip(("valid", "test"), counts) if not x[name][1]]
        found.append(
            f"{name} ({kind}): {len(keys[name]):,} values in the vocabulary; "
            f"{shares[0]:.0%} of those in valid and {shares[1]:.0%} in test are not."
            + f" There is no value in {' and '.join(empty)}."
            * bool(empty)
        )
    return found


def unseen(
    lists: RankingLists, known: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns how many values of each feature its sorted ids lack, and of how many."""
    found = {}
    for feature, ids in columns(lists):
        values = ids[ids >= 0]
        if feature.name in known:
            keys = np.append(known[feature.name], MISSING)
            lacked = keys[np.searchsorted(keys[:-1], values)] != values
            found[feature.name] = np.array([lacked.sum(), len(values)])
    return found


def held_keys(model: Any, spec: FeatureSpec) -> dict[str, list[Any]]:
    """Returns the weights with the vocabulary of each feature, one of each network."""
    layers = [layer for layer in all_layers(model) if hasattr(layer, "keys")]
    names = [
        "texts" if x.kind == "text" else f"category_{number}"
        for number, x in enumerate(spec.encoded(), 1)
    ]
    return {
        one.name: [x.keys for x in layers if x.name == name]
        for one, name in zip(spec.encoded(), names)
    }


def columns(lists: RankingLists) -> Iterable[tuple[Feature, np.ndarray]]:
    """Yields each feature with its ids, `[rows, width]`: of items, then of lists."""
    for context, ids in ((False, lists.ids), (True, lists.context_ids)):
        start = 0
        for feature in lists.spec.encoded(context) if lists.spec else ():
            assert ids is not None
            yield feature, ids[:, start : start + feature.width]
            start += feature.width
