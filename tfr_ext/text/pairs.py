"""Pairs of a query and a document: their tokens, and a layer that scores them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.text.bert import Bert
from tfr_ext.text.encoder import framed
from tfr_ext.text.word_piece import WordPiece


@which_keras.register
class PairScorer(tf.keras.layers.Layer):
    """Scores pairs: `[batch, list, tokens]` becomes `[batch, list]`.

    The tokens of a pair are those of its parts, each as long as `length`: a document
    that is too long for BERT is divided, and the vectors of '[CLS]' are averaged
    (MacAvaney et al., 2019). A dense layer makes the score, whose weights are `rate`
    times what is trained, so that Adam's steps for them are as many times longer.

    Examples:
        >>> bert = Bert({
        ...     "vocab_size": 9, "hidden_size": 4, "num_hidden_layers": 1,
        ...     "num_attention_heads": 2, "intermediate_size": 8,
        ...     "max_position_embeddings": 16, "type_vocab_size": 2}, end=3)
        >>> PairScorer(bert, length=4)(tf.constant([[[2, 7, 3, 8, 2, 7, 3, 0]]])).shape
        TensorShape([1, 1])
    """

    def __init__(self, bert: Any, length: int, rate: float = 50.0, **kwargs: Any):
        """Initialises the layer, with a `Bert` or its configuration."""
        super().__init__(**kwargs)
        if not isinstance(bert, Bert):
            bert = tf.keras.layers.deserialize(bert)
        self.bert, self._length, self._rate = bert, length, rate

    def build(self, input_shape: Any) -> None:
        """Creates the weights."""
        if not self.bert.built:
            self.bert.build((None, None))
        width, spread = self.bert.config["hidden_size"], 0.02 / self._rate
        self.kernel = self.add_weight(
            name="kernel",
            shape=[width, 1],
            dtype="float32",
            initializer=tf.keras.initializers.TruncatedNormal(stddev=spread, seed=0),
        )
        self.bias = self.add_weight(name="bias", shape=[1], initializer="zeros")
        super().build(input_shape)

    @which_keras.not_converted
    def call(self, tokens: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Computes the scores of int32 ids, `[batch, list, parts * length]`."""
        parts = tf.reshape(tokens, [-1, self._length])
        there = tf.reduce_any(tf.not_equal(parts, self.bert.pad), axis=1)
        places = tf.where(there)
        vectors = self.bert(tf.gather_nd(parts, places), training=training)[:, 0]
        vectors = tf.cast(vectors, tf.float32)
        shape = tf.concat([tf.shape(there, tf.int64), [vectors.shape[-1]]], axis=0)
        vectors = tf.scatter_nd(places, vectors, shape)
        per_pair = tokens.shape[-1] // self._length
        shape = tf.concat([tf.shape(tokens)[:2], [per_pair, vectors.shape[-1]]], axis=0)
        count = tf.reshape(tf.cast(there, tf.float32), shape[:3])
        total = tf.reduce_sum(tf.reshape(vectors, shape), axis=2)
        mean = tf.math.divide_no_nan(
            total, tf.reduce_sum(count, axis=2)[..., tf.newaxis]
        )
        kernel, bias = map(tf.convert_to_tensor, (self.kernel, self.bias))
        kernel, bias = tf.cast(kernel, tf.float32), tf.cast(bias, tf.float32)
        return (tf.linalg.matmul(mean, kernel) + bias)[..., 0] * self._rate

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer, without the weights."""
        own = {"length": self._length, "rate": self._rate}
        own["bert"] = tf.keras.layers.serialize(self.bert)
        return {**super().get_config(), **own}


def pair_tokens(
    queries: tf.Tensor,
    documents: tf.Tensor,
    tokenizer: WordPiece,
    length: int,
    parts: int,
    most: tuple[int, int],
) -> tf.Tensor:
    """Returns the tokens of pairs of texts, int32 `[pairs, parts * length]`.

    A part is '[CLS]', the query, '[SEP]', its share of the document and '[SEP]', at
    most `length` tokens. The document is divided evenly into as few parts as hold it,
    at most `parts`. `most` says how many tokens of a query, and of a document, count.
    """
    query = tokenizer(queries)[:, : most[0]]
    document = tokenizer(documents)[:, : most[1]]
    lengths = document.row_lengths()
    room = length - 3 - query.row_lengths()
    needed = tf.clip_by_value(-(-lengths // room), 1, parts)
    share = -(-tf.minimum(lengths, parts * room) // needed)
    place = tf.ragged.range(lengths).flat_values
    of_place = place // tf.maximum(tf.repeat(share, lengths), 1)
    found = []
    for part in range(parts):
        own = document.with_flat_values(tf.equal(of_place, part))
        own = tf.ragged.boolean_mask(document, own)
        tokens = framed([query, own], tokenizer, length)
        tokens = tf.where((needed > part)[:, tf.newaxis], tokens, tokenizer.pad)
        fill = [[0, 0], [0, length - tf.shape(tokens)[1]]]
        found.append(tf.pad(tokens, fill, constant_values=tokenizer.pad))
    return tf.ensure_shape(tf.concat(found, axis=1), [None, parts * length])
