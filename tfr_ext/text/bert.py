"""BERT (Devlin et al., 2019) as a Keras layer."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfr_ext.core import json_files, which_keras
from tfr_ext.models.layers import ResumableDropout

CONFIG = "config.json"
WRITER = "Hugging Face"
_SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("intermediate_size", "max_position_embeddings", "type_vocab_size"),
)
# What other settings must be, and are if they are left out.
ONLY = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
}
_FLOATS = {
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
    "initializer_range": 0.02,
}


def read_config(directory: str) -> dict[str, Any]:
    """Reads and checks the settings of a BERT, from its Hugging Face directory."""
    path = os.path.join(directory, CONFIG)
    content = json_files.read_object(path, WRITER, {"model_type": (str,)})
    for name, only in ONLY.items():
        if content.get(name, only) != only:
            raise ValueError(
                f"{path}: expected {name!r} to be {only!r}. Found: {content[name]!r}."
            )
    json_files.read_object(path, WRITER, dict.fromkeys(_SIZES, (int,)))
    config = {name: content[name] for name in _SIZES}
    config |= {name: float(content.get(name, x)) for name, x in _FLOATS.items()}
    if min(config[name] for name in _SIZES) < 1 or (
        config["hidden_size"] % config["num_attention_heads"]
    ):
        raise ValueError(
            f"{path}: expected positive sizes, and a 'hidden_size' that "
            "'num_attention_heads' divides. Found: "
            f"{', '.join(f'{name}={config[name]}' for name in _SIZES)}."
        )
    return config


def shapes(config: Mapping[str, Any]) -> dict[str, list[int]]:
    """Returns the shape of each weight of a BERT, by Hugging Face's names.

    Kernels are `[inputs, outputs]`, which is PyTorch's shape the other way round.
    """
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    found: dict[str, list[int]] = {}
    for name, size in (
        ("word", "vocab_size"),
        ("position", "max_position_embeddings"),
        ("token_type", "type_vocab_size"),
    ):
        found[f"embeddings.{name}_embeddings.weight"] = [config[size], hidden]
    parts = {"embeddings.LayerNorm": [hidden]}
    for layer in range(config["num_hidden_layers"]):
        for name, shape in {
            "attention.self.query": [hidden, hidden],
            "attention.self.key": [hidden, hidden],
            "attention.self.value": [hidden, hidden],
            "attention.output.dense": [hidden, hidden],
            "attention.output.LayerNorm": [hidden],
            "intermediate.dense": [hidden, inner],
            "output.dense": [inner, hidden],
            "output.LayerNorm": [hidden],
        }.items():
            parts[f"encoder.layer.{layer}.{name}"] = shape
    for name, shape in parts.items():
        found[f"{name}.weight"], found[f"{name}.bias"] = shape, shape[-1:]
    return found


def is_kernel(name: str) -> bool:
    """Returns whether a weight is a matrix that PyTorch has the other way round."""
    return name.endswith(("dense.weight", "query.weight", "key.weight", "value.weight"))


@which_keras.register
class Bert(tf.keras.layers.Layer):
    """The vectors of tokens: `[texts, tokens]` becomes `[texts, tokens, hidden_size]`.

    What follows the first '[SEP]' of a text is its second segment. Padding gets 0.

    Examples:
        >>> sizes = dict.fromkeys(["num_hidden_layers", "num_attention_heads"], 2)
        >>> layer = Bert({
        ...     **sizes, "vocab_size": 9, "hidden_size": 4, "intermediate_size": 8,
        ...     "max_position_embeddings": 16, "type_vocab_size": 2}, end=3)
        >>> layer(tf.constant([[2, 7, 3], [2, 3, 0]])).shape
        TensorShape([2, 3, 4])
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        pad: int = 0,
        end: int = 102,
        drop_padding: bool = True,
        seed: int = 0,
        **kwargs: Any,
    ):
        """Initialises the layer, with random weights.

        Args:
            config: settings by their names in Hugging Face's 'config.json'.
            pad: the id of '[PAD]'.
            end: the id of '[SEP]'.
            drop_padding: whether only real tokens are computed, which XLA cannot.
            seed: seed of the dropout.
            **kwargs: arguments of `tf.keras.layers.Layer`.
        """
        super().__init__(**kwargs)
        self.config = {**_FLOATS, **config}
        self.pad, self.end, self.drop_padding = pad, end, drop_padding
        self._seed = seed
        rates = ["hidden_dropout_prob"]
        rates += ["attention_probs_dropout_prob", *rates * 2] * config[_SIZES[2]]
        self._dropouts = [
            ResumableDropout(
                self.config[name], seed * 10_000 + place, dtype=self.dtype_policy
            )
            for place, name in enumerate(rates)
        ]
        if not which_keras.IS_KERAS_2:
            self.supports_jit = not drop_padding

    def build(self, input_shape: Any) -> None:
        """Creates the weights."""
        spread = self.config["initializer_range"]
        # Normalisation computes in float32, whatever the rest does.
        as_is = "experimental_autocast" if which_keras.IS_KERAS_2 else "autocast"
        self.named = {}
        for name, shape in shapes(self.config).items():
            kind: Any = tf.keras.initializers.TruncatedNormal(stddev=spread)
            if len(shape) == 1:
                kind = "ones" if name.endswith("weight") else "zeros"
            self.named[name] = self.add_weight(
                name=name,
                shape=shape,
                initializer=kind,
                dtype="float32",
                **{as_is: False},
            )
        for dropout in self._dropouts:
            dropout.build(None)
        super().build(input_shape)

    @which_keras.not_converted
    def call(self, tokens: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Computes the vectors.

        Args:
            tokens: int32 ids, `[texts, tokens]`, of at most as many tokens as BERT has
                positions.
            training: whether units are dropped.
        """
        given = tf.shape(tokens)[1]
        real = tf.not_equal(tokens, self.pad)
        if self.drop_padding:  # Where all texts have ended, too.
            longest = tf.reduce_max(tf.math.count_nonzero(real, 1, dtype=tf.int32))
            real, tokens = real[:, :longest], tokens[:, :longest]
        ends = tf.cast(tf.equal(tokens, self.end), tf.int32)
        segments = tf.minimum(tf.cumsum(ends, axis=1, exclusive=True), 1)
        shape = tf.shape(tokens, tf.int64)
        places = tf.where(real if self.drop_padding else tf.ones_like(real))
        parts = [
            ("word", tf.gather_nd(tokens, places)),
            ("position", places[:, 1]),
            ("token_type", tf.gather_nd(segments, places)),
        ]
        x = tf.add_n(
            [
                tf.gather(self._weight(f"embeddings.{name}_embeddings.weight"), ids)
                for name, ids in parts
            ]
        )

        def padded(x: tf.Tensor) -> tf.Tensor:
            of_texts = tf.concat([shape, [x.shape[-1]]], axis=0)
            if self.drop_padding:
                return tf.scatter_nd(places, x, of_texts)
            return tf.reshape(x, of_texts)

        def packed(x: tf.Tensor) -> tf.Tensor:
            if self.drop_padding:
                return tf.gather_nd(x, places)
            return tf.reshape(x, [-1, x.shape[-1]])

        dropouts = iter(self._dropouts)

        def dropped(x: tf.Tensor) -> tf.Tensor:
            return next(dropouts)(x, training=training)

        x = dropped(self._normalized(x, "embeddings.LayerNorm"))
        for layer in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            query, key, value = (
                padded(self._dense(x, f"{name}.attention.self.{part}"))
                for part in ("query", "key", "value")
            )
            attended = packed(self._attended(query, key, value, real, dropped))
            attended = dropped(self._dense(attended, f"{name}.attention.output.dense"))
            x = self._normalized(x + attended, f"{name}.attention.output.LayerNorm")
            inner = self._dense(x, f"{name}.intermediate.dense")
            inner = tf.nn.gelu(inner, approximate=False)
            inner = dropped(self._dense(inner, f"{name}.output.dense"))
            x = self._normalized(x + inner, f"{name}.output.LayerNorm")
        x = padded(x)
        if not self.drop_padding:
            return tf.where(real[..., tf.newaxis], x, 0)
        return tf.pad(x, [[0, 0], [0, given - tf.shape(x)[1]], [0, 0]])

    def _weight(self, name: str) -> tf.Tensor:
        return tf.cast(tf.convert_to_tensor(self.named[name]), self.compute_dtype)

    def _dense(self, x: tf.Tensor, name: str) -> tf.Tensor:
        return tf.nn.bias_add(
            tf.matmul(x, self._weight(f"{name}.weight")), self._weight(f"{name}.bias")
        )

    def _normalized(self, x: tf.Tensor, name: str) -> tf.Tensor:
        wide = tf.cast(x, tf.float32)
        mean, variance = tf.nn.moments(wide, axes=[-1], keepdims=True)
        found = tf.nn.batch_normalization(
            wide,
            mean,
            variance,
            tf.convert_to_tensor(self.named[f"{name}.bias"]),
            tf.convert_to_tensor(self.named[f"{name}.weight"]),
            self.config["layer_norm_eps"],
        )
        return tf.cast(found, x.dtype)

    def _attended(
        self,
        query: tf.Tensor,
        key: tf.Tensor,
        value: tf.Tensor,
        real: tf.Tensor,
        dropped: Callable[[tf.Tensor], tf.Tensor],
    ) -> tf.Tensor:
        heads = self.config["num_attention_heads"]
        size = self.config["hidden_size"] // heads
        shape = tf.shape(query)

        def divided(x: tf.Tensor) -> tf.Tensor:
            x = tf.reshape(x, [shape[0], shape[1], heads, size])
            return tf.transpose(x, [0, 2, 1, 3])  # [texts, heads, tokens, size]

        scores = tf.matmul(divided(query), divided(key), transpose_b=True)
        scores = tf.cast(scores, tf.float32) / math.sqrt(size)
        scores += tf.where(real, 0.0, -1e9)[:, tf.newaxis, tf.newaxis]
        weights = tf.cast(dropped(tf.nn.softmax(scores)), value.dtype)
        found = tf.transpose(tf.matmul(weights, divided(value)), [0, 2, 1, 3])
        return tf.reshape(found, shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer, without the weights."""
        own = {"config": self.config, "pad": self.pad, "end": self.end}
        own |= {"drop_padding": self.drop_padding, "seed": self._seed}
        return {**super().get_config(), **own}
