"""Categories as inputs of models: vocabularies and embeddings."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import messages, which_keras
from tfr_ext.data.batches.batching import CONTEXT_IDS, FEATURES, IDS, input_signature
from tfr_ext.data.features import Feature, FeatureSpec
from tfr_ext.data.fingerprints import FILL, MISSING
from tfr_ext.data.lists import RankingLists
from tfr_ext.models.layers import all_layers
from tfr_ext.models.scorers import EMBEDDED

VOCABULARY_SIZE, MIN_COUNT = 100_000, 2
"""The default number of values of a category that have an embedding of their own, and
how often a value must occur in training to be one of them."""
# Rows of a table that are of no value: missing, and not in the vocabulary.
_MISSING, _UNSEEN, _SPECIAL = 0, 1, 2
_MOST_DISTINCT = 20_000_000
# From so many values on, a category is an id if more than this share occurs once.
_JUDGED_FROM, _MOST_ONCE = 100, 0.9
_LEAST_AND_MOST = np.minimum, np.maximum


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
        vectors = tf.gather(tf.convert_to_tensor(self.table), self.rows(ids))
        if self._width == 1:
            return vectors[..., 0, :]
        known = tf.cast(tf.not_equal(ids, FILL), vectors.dtype)[..., tf.newaxis]
        count = tf.maximum(tf.reduce_sum(known, axis=-2), 1)
        return tf.reduce_sum(vectors * known, axis=-2) / count

    def rows(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the row of the table for each id."""
        keys = tf.convert_to_tensor(self.keys)
        count = tf.zeros_like(ids, tf.int32)
        step = 1 << self._size.bit_length()
        while step := step // 2:
            further = count + step
            entry = tf.gather(keys, tf.minimum(further, self._size) - 1)
            count = tf.where((further <= self._size) & (entry <= ids), further, count)
        place = tf.maximum(count - 1, 0)
        row = tf.where(tf.equal(tf.gather(keys, place), ids), place + _SPECIAL, _UNSEEN)
        return tf.where(tf.equal(ids, MISSING), _MISSING, row)

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
) -> dict[str, np.ndarray]:
    """Returns the values of each category that get embeddings, as sorted ids.

    A warning names a category that is an id: nearly all of its values occur once, or
    each list has one that no other has.

    Args:
        lists: the training lists, or pieces of them, all of one spec.
        most: number of values of a category at most, of which the most frequent stay;
            by default, `VOCABULARY_SIZE`.
        min_count: how often a value must occur, `MIN_COUNT` by default.

    Raises:
        ValueError: If a category has more different values than can be counted.
    """
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    num_lists, of_one = 0, collections.Counter[str]()  # Those with a single value.
    for piece in [lists] if isinstance(lists, RankingLists) else lists:
        if piece.spec is None or piece.spec.is_numeric:
            break
        num_lists += piece.num_lists
        for feature, ids in columns(piece):
            name = feature.name
            if not feature.context:
                ends = (f.reduceat(ids, piece.row_splits[:-1]) for f in _LEAST_AND_MOST)
                of_one[name] += int(np.equal(*ends).all(axis=1).sum())
            values, counts = np.unique(ids[ids >= 0], return_counts=True)
            if name in found:
                both = np.concatenate([found[name][0], values])
                values, place = np.unique(both, return_inverse=True)
                all_counts = np.concatenate([found[name][1], counts])
                counts = np.bincount(place, all_counts, len(values)).astype(np.int64)
            if len(values) > _MOST_DISTINCT:
                raise ValueError(
                    f"Category {name!r} has more than {_MOST_DISTINCT:,} different "
                    "values in training, which cannot be counted. Leave it out."
                )
            found[name] = values, counts
    kept = {}
    for name, (values, counts) in found.items():
        once = (counts == 1).sum() / max(1, counts.sum())
        if once > _MOST_ONCE and counts.sum() >= _JUDGED_FROM:
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
        kept[name] = np.sort(values[order[frequent]])
    return kept


def describe(
    known: Mapping[str, np.ndarray],
    spec: FeatureSpec | None,
    valid: RankingLists,
    test: RankingLists,
) -> list[str]:
    """Returns a line for each category: its kind, and how much its vocabulary has."""
    counts, found = [unseen(lists, known) for lists in (valid, test)], []
    for feature in spec.categories() if spec else ():
        name, kind = feature.name, "a whole number" if feature.is_integer else "a text"
        if feature.width > 1:
            kind = f"up to {feature.width} {kind[2:]}s"
        kind += " of the list" * feature.context
        shares = [lacked / max(1, every) for lacked, every in (x[name] for x in counts)]
        found.append(
            f"{name} ({kind}): {len(known[name]):,} values in the vocabulary; "
            f"{shares[0]:.0%} of those in valid and {shares[1]:.0%} in test are not."
        )
    return found


def unseen(
    lists: RankingLists, known: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns how many values of each category its vocabulary lacks, of how many."""
    found = {}
    for feature, ids in columns(lists):
        values = ids[ids >= 0]
        if feature.name in known:
            keys = np.append(known[feature.name], MISSING)
            lacked = keys[np.searchsorted(keys[:-1], values)] != values
            found[feature.name] = np.array([lacked.sum(), len(values)])
    return found


def held_keys(model: Any, spec: FeatureSpec) -> dict[str, list[Any]]:
    """Returns the weights with the vocabulary of each category, one of each network."""
    layers = [layer for layer in all_layers(model) if isinstance(layer, Category)]
    return {
        one.name: [x.keys for x in layers if x.name == f"category_{number}"]
        for number, one in enumerate(spec.categories(), 1)
    }


def columns(lists: RankingLists) -> Iterable[tuple[Feature, np.ndarray]]:
    """Yields each category and its ids, `[rows, width]`: of items, then of lists."""
    for context, ids in ((False, lists.ids), (True, lists.context_ids)):
        start = 0
        for feature in lists.spec.categories(context) if lists.spec else ():
            assert ids is not None
            yield feature, ids[:, start : start + feature.width]
            start += feature.width


def encoded_inputs(
    spec: FeatureSpec, known: Mapping[str, np.ndarray] | None = None
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns the inputs of a model, and the features of lists and items.

    Args:
        spec: what the features are.
        known: what `vocabularies` returned; needed for categories, unless the weights
            will be restored.

    Returns:
        The inputs as `padded_batch` names them; the features of lists, `[batch, n]`;
        and those of items, `[batch, list, n]`. Each category has a vector.

    Examples:
        >>> import pandas
        >>> df = pandas.DataFrame({"query": [1, 1], "brand": ["a", "b"], "y": [1, 0]})
        >>> lists = RankingLists.from_dataframe(
        ...     df, "y", "query", categories=["brand"])
        >>> inputs, _, items = encoded_inputs(lists.spec, vocabularies([lists]))
        >>> sorted(inputs), [tuple(x.shape) for x in items.values()]
        (['ids', 'mask'], [(None, None, 4)])
    """
    inputs = {
        name: tf.keras.Input(x.shape[1:], dtype=x.dtype, name=name)
        for name, x in input_signature(spec.num_features, spec).items()
    }
    context: dict[str, Any] = {}
    examples = {FEATURES: inputs[FEATURES]} if FEATURES in inputs else {}
    places = {False: 0, True: 0}  # Where the next ids of items and of lists begin.
    for number, one in enumerate(spec.categories(), 1):
        keys = (known or {}).get(one.name, np.zeros(0))
        keys = keys if len(keys) else np.array([FILL])  # No item's value is this.
        start, name = places[one.context], f"category_{number}"
        layer = Category(start, one.width, len(keys), keys, name=name)
        features = context if one.context else examples
        features[EMBEDDED + name] = layer(inputs[CONTEXT_IDS if one.context else IDS])
        places[one.context] += one.width
    return inputs, context, examples
