"""Inputs of models that are no numbers: words of texts, embeddings, their matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.data.batches.batching import CONTEXT_IDS, FEATURES, IDS, input_signature
from tfr_ext.data.features import FeatureSpec
from tfr_ext.data.fingerprints import FILL
from tfr_ext.models.categories import Category, Vocabulary
from tfr_ext.models.scorers import EMBEDDED

MATCH = "match"
"""The name of the numbers that compare texts, as a feature of items."""
COSINES = "cosines"
"""The name of the cosines of embeddings, as a feature of items."""
NUM_MATCHES = 4
"""How many numbers `matches` returns for a pair of texts."""


def matches(query: tf.Tensor, text: tf.Tensor, query_idf: tf.Tensor) -> tf.Tensor:
    """Returns what texts of items share with those of their lists, `[batch, list, 4]`.

    Of the query's words that the item has, it returns the number and the sum of the
    idf: over those of all words of the query, and over the number of the item's words.
    All are 0 if the query or the item has no words. Words are ids, and negative ones
    are none: those of queries and their idf are `[batch, words]`, and those of items
    `[batch, list, words]`.

    Examples:
        >>> query, text = tf.constant([[7, 8]]), tf.constant([[[8, 5, -2]]])
        >>> matches(query, text, tf.constant([[1.0, 3.0]])).numpy().tolist()
        [[[0.5, 0.75, 0.5, 1.5]]]
    """
    idf = tf.where(query >= 0, query_idf, 0)
    each = tf.stack([tf.cast(query >= 0, idf.dtype), idf])  # [2, batch, words]
    same = tf.equal(query[:, tf.newaxis, :, tf.newaxis], text[:, :, tf.newaxis, :])
    found = tf.cast(tf.reduce_any(same, axis=-1), idf.dtype)  # [batch, list, words]
    shared = tf.einsum("kbw,blw->kbl", each, found)
    whole = tf.reduce_sum(each, axis=-1)[:, :, tf.newaxis]
    length = tf.reduce_sum(tf.cast(text >= 0, idf.dtype), axis=-1)
    parts = [
        tf.math.divide_no_nan(shared, whole),
        tf.math.divide_no_nan(shared, length),
    ]
    return tf.transpose(tf.concat(parts, axis=0), [1, 2, 0])


def idf(vocabulary: Vocabulary | None, size: int = 1) -> np.ndarray:
    """Returns `log(1 + (n - df + .5) / (df + .5))` of each word, and then of others.

    The vocabulary's `counts` are `df`, how many of `n` items have the word. If it is
    empty or None, there are `size` words, and all are 0.
    """
    if vocabulary is None or not len(vocabulary.keys):
        return np.zeros(size + 1, np.float32)
    df = np.append(vocabulary.counts, 0)
    found = np.log1p((vocabulary.total - df + 0.5) / (df + 0.5))
    return found.astype(np.float32)


@which_keras.register
class Texts(tf.keras.layers.Layer):
    """Embeds the words of texts, and compares texts of lists with those of items.

    All texts share one vocabulary and one table of embeddings, so that a word means
    the same in a query and in a title. An input is a mapping of `ids` and
    `context_ids`. The output has the mean of the words' vectors for each text; if
    there are pairs of a text of the context and one of the items, `[batch, list, n]`
    follows: for each pair `matches` and the cosine of the two means.
    """

    def __init__(
        self,
        texts: Sequence[tuple[int, int, bool]],
        size: int,
        keys: np.ndarray | None = None,
        idfs: np.ndarray | None = None,
        **kwargs: Any,
    ):
        """Initialises the layer.

        Args:
            texts: of each text, the place of its first id, how many it has, and
                whether it is of the context.
            size: number of words in the vocabulary.
            keys: their ids, sorted; None if the weights will be restored.
            idfs: what `idf` returned, of each text of items, `[texts, size + 1]`.
            **kwargs: arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(**{"dtype": "float32", **kwargs})
        self._texts = [(int(start), int(width), bool(of)) for start, width, of in texts]
        self._size, self._idfs = size, idfs
        self.words = Category(0, max(x[1] for x in texts), size, keys, name="words")

    @property
    def keys(self) -> Any:
        """The vocabulary."""
        return self.words.keys

    def build(self, input_shape: Any) -> None:
        """Creates the vocabulary, the embeddings and the idf."""

        def known(shape: Any, dtype: Any = None, **_: Any) -> tf.Tensor:
            idfs = np.zeros(shape) if self._idfs is None else self._idfs
            return tf.constant(idfs, tf.float32, shape)

        if not self.words.built:
            self.words.build((None, None))
        self.idf = self.add_weight(
            name="idf",
            shape=[sum(not of for _, _, of in self._texts), self._size + 1],
            initializer=known,
            trainable=False,
        )
        super().build(input_shape)

    @which_keras.not_converted
    def call(self, inputs: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        """Returns the vectors of the texts, and then what pairs have in common."""
        found: dict[bool, list[tuple[tf.Tensor, tf.Tensor]]] = {True: [], False: []}
        outputs = []
        for start, width, of in self._texts:
            ids = inputs[CONTEXT_IDS if of else IDS][..., start : start + width]
            outputs.append(self.words.mean(ids))
            found[of].append((ids, outputs[-1]))
        compared = []
        for query, of_query in found[True]:
            rows = self.words.place(query)
            of_query = tf.math.l2_normalize(of_query, axis=-1)[:, tf.newaxis]
            for (text, of_text), idfs in zip(
                found[False], tf.unstack(tf.convert_to_tensor(self.idf))
            ):
                compared.append(matches(query, text, tf.gather(idfs, rows)))
                of_text = tf.math.l2_normalize(of_text, axis=-1)
                compared.append(tf.reduce_sum(of_query * of_text, -1, keepdims=True))
        return outputs + ([tf.concat(compared, axis=-1)] if compared else [])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer, without the vocabulary."""
        return {**super().get_config(), "texts": self._texts, "size": self._size}


def cosine(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Returns the cosine of vectors, `[..., 1]`; 0 if one of them is 0.

    Examples:
        >>> x, y = tf.constant([3e38, 0.0]), tf.constant([1e-36, 1e-36])
        >>> bool(abs(cosine(x, y) - 0.5**0.5) < 1e-6)
        True
    """
    unit = []
    for each in (x, y):  # Squares of large and small numbers are no floats.
        most = tf.reduce_max(tf.abs(each), axis=-1, keepdims=True)
        unit.append(tf.math.l2_normalize(tf.math.divide_no_nan(each, most), axis=-1))
    return tf.reduce_sum(unit[0] * unit[1], axis=-1, keepdims=True)


@which_keras.register
class Embeddings(tf.keras.layers.Layer):
    """Divides features into numbers, embeddings that are inputs, and cosines of pairs.

    The input is `[batch, list, features]`, and the outputs are as many of `[batch,
    list, numbers]`, one for each of `inputs`, and `[batch, list, pairs]` as there are.
    """

    def __init__(
        self,
        num_numbers: int,
        inputs: Sequence[tuple[int, int]],
        pairs: Sequence[tuple[int, int, int]],
        **kwargs: Any,
    ):
        """Initialises the layer.

        Args:
            num_numbers: how many numbers precede those of embeddings.
            inputs: the first and last place of each embedding that is an input.
            pairs: the first place of two embeddings, and their width.
            **kwargs: arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(**{"dtype": "float32", **kwargs})
        self.num_numbers = num_numbers
        self._inputs = [tuple(place) for place in inputs]
        self._pairs = [tuple(pair) for pair in pairs]

    @which_keras.not_converted
    def call(self, features: tf.Tensor) -> list[tf.Tensor]:
        """Returns the parts."""
        parts = [features[..., : self.num_numbers]] if self.num_numbers else []
        parts += [features[..., start:end] for start, end in self._inputs]
        cosines = [
            cosine(*(features[..., start : start + width] for start in starts))
            for *starts, width in self._pairs
        ]
        return parts + ([tf.concat(cosines, axis=-1)] if cosines else [])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        own = {"num_numbers": self.num_numbers, "inputs": self._inputs}
        return {**super().get_config(), **own, "pairs": self._pairs}


def _divided(features: Any, spec: FeatureSpec) -> dict[str, Any]:
    """Returns numbers, embeddings and their cosines as features of items."""
    places = dict(spec.slices())
    inputs = [(x.start, x.stop) for one, x in places.items() if one.as_input]
    pairs = [
        (places[query].start, places[item].start, item.width)
        for query, item in spec.pairs("embedding")
    ]
    layer = Embeddings(spec.num_numbers, inputs, pairs, name="embeddings")
    names = [FEATURES] if spec.num_numbers else []
    names += [f"{EMBEDDED}embedding_{number}" for number in range(1, len(inputs) + 1)]
    return dict(zip([*names, COSINES], layer(features)))


def encoded_inputs(
    spec: FeatureSpec, known: Mapping[str, Vocabulary] | None = None
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns the inputs of a model, and the features of lists and items.

    Args:
        spec: what the features are.
        known: what `vocabularies` returned; needed unless the weights will be
            restored.

    Returns:
        The inputs as `padded_batch` names them; the features of lists, `[batch, n]`;
        and those of items, `[batch, list, n]`. Each category and text has a vector,
        'match' is what texts of lists and of items share, and 'cosines' are those of
        embeddings.

    Examples:
        >>> import pandas
        >>> from tfr_ext import data, models
        >>> df = pandas.DataFrame({"query": [1, 1], "brand": ["a", "b"], "y": [1, 0]})
        >>> lists = data.RankingLists.from_dataframe(
        ...     df, "y", "query", categories=["brand"])
        >>> inputs, _, items = encoded_inputs(lists.spec, models.vocabularies([lists]))
        >>> sorted(inputs), [tuple(x.shape) for x in items.values()]
        (['ids', 'mask'], [(None, None, 4)])
    """
    inputs = {
        name: tf.keras.Input(x.shape[1:], dtype=x.dtype, name=name)
        for name, x in input_signature(spec.num_features, spec).items()
    }
    context: dict[str, Any] = {}
    examples = {FEATURES: inputs[FEATURES]} if FEATURES in inputs else {}
    if spec.embeddings:
        examples = _divided(inputs[FEATURES], spec)
    known = known or {}
    places = {False: 0, True: 0}  # Where the next ids of items and of lists begin.
    texts = []
    for number, one in enumerate(spec.encoded(), 1):
        start, name = places[one.context], f"category_{number}"
        places[one.context] += one.width
        if one.kind == "text":
            texts.append((start, one))
            continue
        keys = _keys_of(known.get(one.name))
        layer = Category(start, one.width, len(keys), keys, name=name)
        features = context if one.context else examples
        features[EMBEDDED + name] = layer(inputs[CONTEXT_IDS if one.context else IDS])
    if texts:
        keys = _keys_of(known.get(texts[0][1].name))
        idfs = [idf(known.get(x.name), len(keys)) for _, x in texts if not x.context]
        layer = Texts(
            [(start, x.width, x.context) for start, x in texts],
            *(len(keys), keys, np.array(idfs)),
            name="texts",
        )
        outputs = layer({x: y for x, y in inputs.items() if x in (IDS, CONTEXT_IDS)})
        for number, ((_, one), output) in enumerate(zip(texts, outputs), 1):
            features = context if one.context else examples
            features[f"{EMBEDDED}text_{number}"] = output
        if len(outputs) > len(texts):
            examples[MATCH] = outputs[-1]
    return inputs, context, examples


def _keys_of(vocabulary: Vocabulary | None) -> np.ndarray:
    """Returns the ids of a vocabulary, at least one."""
    if vocabulary is None or not len(vocabulary.keys):
        return np.array([FILL])  # No item's value is this.
    return vocabulary.keys
