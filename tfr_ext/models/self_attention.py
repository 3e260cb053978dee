"""Self-attention over the items of a list, in memory that does not grow as its square.

Keras' own `MultiHeadAttention` holds the weights of all pairs of items for the backward
pass: `[batch, heads, list, list]` several times over. Here the same attention is
computed for some items at a time, and once more in the backward pass.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfr_ext.core import blocks, checks, which_keras
from tfr_ext.models import layers


@which_keras.register
class SelfAttention(tf.keras.layers.Layer):
    """Multi-head self-attention: each item attends to the real items of its own list.

    It is `tf.keras.layers.MultiHeadAttention` ("Attention is all you need", Vaswani et
    al., 2017), with three differences: its items are those of `CompactItems` or
    `FlattenItems`; padding has a weight of exactly 0; and memory is bounded, as weights
    are not kept. It has no dropout of its own, since that of Keras' layer could not be
    resumed from a checkpoint; drop out its outputs by `ResumableDropout`.

    Examples:
        >>> mask = tf.constant([[True, True], [True, False]])
        >>> items = tf.constant([[1., 0.], [0., 1.], [2., 2.]])  # of both lists
        >>> attention = SelfAttention(num_heads=2, key_dim=3)
        >>> attention((items, mask)).shape
        TensorShape([3, 2])
    """

    # An item's output depends on its list.
    ACROSS_LISTS = True

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        compact: bool = True,
        attention: dict[str, Any] | None = None,
        **kwargs: Any,
    ):
        """Initialises the layer.

        Args:
            num_heads: number of heads.
            key_dim: size of the queries, keys and values of each head.
            compact: whether the items are those of `CompactItems`, not those of
                `FlattenItems`.
            attention: further arguments of `tf.keras.layers.MultiHeadAttention`, such
                as `kernel_regularizer`.
            **kwargs: arguments of `tf.keras.layers.Layer`.

        Raises:
            ValueError: If a number is not positive.
        """
        super().__init__(**kwargs)
        self._num_heads = checks.at_least("num_heads", num_heads, 1)
        self._key_dim = checks.at_least("key_dim", key_dim, 1)
        self._compact = compact
        self._options = dict(attention or {})
        self._attention = _BoundedAttention(
            num_heads,
            key_dim,
            name="attention",
            dtype=self.dtype_policy,
            **self._options,
        )
        # Keras 3 uses XLA by default, which needs to know the number of items.
        self.supports_jit = not compact

    def build(self, input_shape: Any) -> None:
        """Creates the weights."""
        lists = [None, None, input_shape[0][-1]]
        if which_keras.IS_KERAS_2:
            self._attention._build_from_signature(
                tf.TensorShape(lists), tf.TensorShape(lists)
            )
        else:
            self._attention.build(tuple(lists), tuple(lists))
        super().build(input_shape)

    @which_keras.not_converted
    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Lets items attend to the items of their list.

        Args:
            inputs: items `[items, features]`, and the mask of real items
                `[batch, list]`.

        Returns:
            The attended features of each item, `[items, features]`; 0 at padding.
        """
        items, mask = inputs
        width = items.shape[-1]
        shape = tf.concat([tf.shape(mask), [width]], axis=0)
        if self._compact:
            places = tf.where(mask)
            lists = tf.tensor_scatter_nd_update(
                tf.zeros(shape, items.dtype), places, items
            )
        else:
            real = mask[..., tf.newaxis]
            lists = tf.reshape(items, shape)
            lists = tf.where(real, lists, tf.zeros_like(lists))
        lists = tf.ensure_shape(lists, [*mask.shape, width])
        attended = self._attention(lists, lists, attention_mask=mask[:, tf.newaxis, :])
        if self._compact:
            return tf.gather_nd(attended, places)
        attended = tf.where(real, attended, tf.zeros_like(attended))
        return tf.ensure_shape(tf.reshape(attended, [-1, width]), [None, width])

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Returns the mask of the items, `[items]`; None if all of them are real."""
        return None if self._compact else layers.symbolic.reshape(inputs[1], [-1])

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the items."""
        return input_shape[0]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this layer."""
        inner = self._attention.get_config()
        return {
            **super().get_config(),
            "num_heads": self._num_heads,
            "key_dim": self._key_dim,
            "compact": self._compact,
            "attention": {name: inner[name] for name in self._options},
        }


class _BoundedAttention(tf.keras.layers.MultiHeadAttention):
    """Keras' layer with weights that are computed in blocks, and not kept."""

    def _build_attention(self, rank: int) -> None:
        # The layers of Keras 2 that would be made here are not used.
        if not which_keras.IS_KERAS_2:
            super()._build_attention(rank)

    def _compute_attention(
        self,
        query: tf.Tensor,
        key: tf.Tensor,
        value: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        *_: Any,
        **__: Any,
    ) -> tuple[tf.Tensor, None]:
        assert attention_mask is not None
        return attend(query, key, value, attention_mask[:, 0]), None


def attend(
    queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """Returns dot-product attention, `softmax(Q K^T / sqrt(size)) V` of each head.

    They and the result are `[batch, list, heads, size]`. The mask, `[batch, list]`, is
    True at the items to which others attend; a list without any gets 0.
    Weights are float32 in any precision. They are computed for as many queries at a
    time as `tfr_ext.core.blocks` says, in both passes, with a gradient written by hand.
    """
    num_heads, size = queries.shape[2], queries.shape[3]
    scale = 1.0 / math.sqrt(size)
    shape = tf.shape(queries)

    def by_head(x: tf.Tensor) -> tf.Tensor:
        x = tf.reshape(
            tf.transpose(x, [0, 2, 1, 3]), [shape[0] * num_heads, shape[1], size]
        )
        batch, length = queries.shape[:2]
        return tf.ensure_shape(
            x, [None if batch is None else batch * num_heads, length, size]
        )

    real = tf.reshape(
        tf.tile(mask[:, tf.newaxis], [1, num_heads, 1]),
        [shape[0] * num_heads, 1, shape[1]],
    )

    def weights(rows: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        logits = scale * tf.cast(tf.matmul(rows, keys, transpose_b=True), tf.float32)
        shown = tf.nn.softmax(tf.where(real, logits, logits.dtype.min))
        return tf.where(real, shown, tf.zeros_like(shown))

    @tf.custom_gradient
    def attended(queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> Any:
        def outputs(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            shares = tf.cast(weights(rows, keys), values.dtype)
            return tf.matmul(shares, values), tf.zeros([])

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            def slopes(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                own, above = tf.split(rows, 2, axis=-1)
                shares = weights(own, keys)
                along = tf.cast(tf.matmul(above, values, transpose_b=True), tf.float32)
                mean = tf.reduce_sum(shares * along, axis=-1, keepdims=True)
                of_logits = tf.cast(shares * (along - mean) * scale, own.dtype)
                of_keys = tf.matmul(of_logits, own, transpose_a=True)
                of_values = tf.matmul(
                    tf.cast(shares, above.dtype), above, transpose_a=True
                )
                both = tf.concat([of_keys, of_values], axis=-1)
                return tf.matmul(of_logits, keys), tf.cast(both, tf.float32)

            rows = tf.concat([queries, upstream], axis=-1)
            nothing = tf.zeros(tf.shape(rows), tf.float32)
            of_queries, both = blocks.by_rows(slopes, rows, nothing)
            of_keys, of_values = tf.split(tf.cast(both, keys.dtype), 2, axis=-1)
            return [of_queries, of_keys, of_values]

        return blocks.by_rows(outputs, queries, tf.zeros([]))[0], gradient

    found = attended(by_head(queries), by_head(keys), by_head(values))
    found = tf.reshape(found, [shape[0], num_heads, shape[1], size])
    return tf.ensure_shape(tf.transpose(found, [0, 2, 1, 3]), queries.shape)
