"""Scorers whose items attend to the other items of their list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core import checks
from tfr_ext.models import layers
from tfr_ext.models.network import NetworkScorer, sizes
from tfr_ext.models.scorers import Features
from tfr_ext.models.self_attention import SelfAttention

# Added to variances in layer normalisation, whose inputs may be all alike.
_EPSILON = 1e-6


class AttentionScorer(NetworkScorer):
    """Base of scorers with self-attention over the items of a list.

    No item's place in its list is encoded, so scores move with their items; and no list
    sees another, except through the batch statistics of training.
    """

    def __init__(self, num_heads: int, **options: Any):
        """Initialises the scorer.

        Args:
            num_heads: number of attention heads.
            **options: see `NetworkScorer`.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(**options)
        self._num_heads = checks.at_least("num_heads", num_heads, 1)

    def _attended(
        self, x: tf.Tensor, mask: tf.Tensor, key_dim: int, name: str, **kwargs: Any
    ) -> tf.Tensor:
        return SelfAttention(
            self._num_heads,
            key_dim,
            self._compact,
            self._weights(x.shape[-1]),
            name=name,
            **kwargs,
        )((x, mask))

    def _head_size(self, width: int) -> int:
        """Returns the size of each head so that all together have at least `width`."""
        return -(-width // self._num_heads)


class TransformerScorer(AttentionScorer):
    """The context-aware ranker of Pobrotyn et al. (2020), arXiv:2005.10084.

    Fully connected input layers, blocks of a transformer's encoder without positions,
    and one output unit shared by all items. Each block adds multi-head self-attention
    to its input, and then a feed-forward network of two layers.

    As in the authors' library, allRank: the last input layer is linear; each sublayer
    normalises its own input (layer normalisation), and so does the output. Ours are the
    normalisation of the features over the batch (`batch_normalization`), and dropout of
    what attention returns in place of dropout of its weights. Their configuration for
    MSLR-WEB30K is `TransformerScorer([128], num_layers=4, num_heads=4,
    feed_forward_factor=4, dropout=0.3)`.

    Examples:
        >>> from tfr_ext.models import model_builder
        >>> model = model_builder(4, TransformerScorer([8], num_layers=1)).build()
        >>> features = {"float_features": tf.random.normal([1, 5, 4])}
        >>> model({**features, "mask": tf.ones([1, 5], bool)}).shape
        TensorShape([1, 5])
    """

    def __init__(
        self,
        hidden_sizes: Sequence[int] = (128,),
        num_layers: int = 2,
        num_heads: int = 4,
        feed_forward_factor: int = 4,
        dropout: float = 0.1,
        **options: Any,
    ):
        """Initialises the scorer.

        Args:
            hidden_sizes: number of units of each input layer, at least one; the blocks
                are as wide as the last.
            num_layers: number of blocks.
            num_heads: number of attention heads; each has the width of the blocks
                divided by this number, rounded up.
            feed_forward_factor: number of hidden units of a block's feed-forward
                network, in widths of the block.
            dropout: share dropped in training, in [0, 1), of the hidden units of
                feed-forward networks, and of what a block adds to its input.
            **options: see `NetworkScorer`.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(num_heads, dropout=dropout, **options)
        self._sizes = _some("hidden_sizes", hidden_sizes)
        self._num_layers = checks.at_least("num_layers", num_layers, 1)
        self._factor = checks.at_least("feed_forward_factor", feed_forward_factor, 1)

    def _score_items(
        self, context_features: Features, example_features: Features, mask: tf.Tensor
    ) -> tf.Tensor:
        x = self._inputs(context_features, example_features)
        *first, width = self._sizes
        for i, size in enumerate(first, 1):
            x = self._dense(x, size, self._activation, f"hidden_{i}")
        x = self._dense(x, width, "linear", f"hidden_{len(self._sizes)}")
        for i in range(1, self._num_layers + 1):
            y = _layer_normalized(x, f"attention_{i}_normalization")
            y = self._attended(y, mask, self._head_size(width), f"attention_{i}")
            x = layers.Sum()([x, self._dropped(y, 3 * i - 2)])
            y = _layer_normalized(x, f"feed_forward_{i}_normalization")
            y = self._dense(
                y, self._factor * width, self._activation, f"feed_forward_{i}"
            )
            y = self._dropped(y, 3 * i - 1)
            y = self._dense(y, width, "linear", f"feed_forward_{i}_output")
            x = layers.Sum()([x, self._dropped(y, 3 * i)])
        return self._output(_layer_normalized(x, "output_normalization"))


class KLTransformerScorer(AttentionScorer):
    """The neural ranker of the paper on KL losses and judgement distributions.

    "Learning to Rank from Relevance Judgments Distributions" (Purpura, Silvello and
    Susto, 2022), section 3 and Figures 1 to 3.

    Multi-head self-attention over the `f` features of the items, with `k` heads of size
    `f / k`; the Regularization Layer: `x`, normalised, plus a network of two layers on
    it, `t * f` ReLU units that are normalised and `f` linear ones, and the sum
    normalised again; one hidden layer of `h` ReLU units; and the output. Each
    normalisation is of one feature over the items: here batch normalisation over the
    real items (`ItemBatchNormalization`).

    The paper's settings are `h` 32, `k` 2 and `t` 3 for MQ2007 and MQ2008; 128, 4 and 3
    for MSLR-WEB30K; 32, 3 and 3 for OHSUMED; and 8, 1 and 3 for COVID-19 MLIA. Its
    output is a sigmoid, which the KL losses of this package apply themselves.

    Ours, where the paper does not say: heads have `f / k` rounded up; their
    concatenation passes the output projection of Keras' layer, so `f` remain. What the
    authors have released is another network: the features stand beside the attention's
    output, layer normalisation, and weights per item rather than per pair of items.

    Examples:
        >>> from tfr_ext.models import model_builder
        >>> model = model_builder(5, KLTransformerScorer([8], num_heads=2)).build()
        >>> features = {"float_features": tf.random.normal([1, 3, 5])}
        >>> model({**features, "mask": tf.ones([1, 3], bool)}).shape
        TensorShape([1, 3])
    """

    def __init__(
        self,
        hidden_sizes: Sequence[int] = (32,),
        num_heads: int = 2,
        feed_forward_factor: int = 3,
        batch_normalization: bool = False,
        **options: Any,
    ):
        """Initialises the scorer.

        Args:
            hidden_sizes: number of units of each hidden layer after the Regularization
                Layer; the paper has one, `h`.
            num_heads: number of attention heads, `k`.
            feed_forward_factor: number of units of the first layer of the
                Regularization Layer, in numbers of features: `t`.
            batch_normalization: whether inputs and hidden layers are normalised too,
                which they are not in the paper. The Regularization Layer always
                normalises.
            **options: see `NetworkScorer`; `dropout` is that of the hidden layers.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(num_heads, batch_normalization=batch_normalization, **options)
        self._sizes = sizes("hidden_sizes", hidden_sizes)
        self._factor = checks.at_least("feed_forward_factor", feed_forward_factor, 1)

    def _score_items(
        self, context_features: Features, example_features: Features, mask: tf.Tensor
    ) -> tf.Tensor:
        x = self._inputs(context_features, example_features)
        width = x.shape[-1]
        # As for all scorers, what is not normalised yet stays in float32.
        x = self._attended(
            x, mask, self._head_size(width), "attention", dtype="float32"
        )
        x = self._standardized(x, "regularization_input", dtype="float32")
        y = self._dense(
            x, self._factor * width, self._activation, "regularization_hidden"
        )
        y = self._standardized(y, "regularization_normalization")
        y = self._dense(y, width, "linear", "regularization_linear")
        x = self._standardized(
            layers.Sum(name="regularization_sum")([x, y]),
            "regularization_output",
        )
        return self._output(self._hidden(x, self._sizes))


class DASALCScorer(AttentionScorer):
    """The data-augmented self-attentive latent cross, DASALC.

    "Are Neural Rankers still Outperformed by Gradient Boosted Decision Trees?" (Qin et
    al., ICLR 2021).

    Two networks read the features of the items. One has hidden layers for each item by
    itself, with batch normalisation and dropout; its last layer `h` is linear. The
    other has self-attention over the list: a ReLU layer, and then per layer `a =
    LayerNorm(a + MultiHeadAttention(a))`; its output, normalised over the batch, passes
    a linear layer `c` as wide as `h`. The latent cross joins them: `relu((1 + c) * h)`,
    then dropout and the output.

    This is the architecture, and these are the default sizes, of the authors' code in
    TensorFlow Ranking (`research/dasalc`), those for MSLR-WEB30K. What the paper also
    needs are settings of their own: log1p of the features (`feature_transforms`), and
    Gaussian noise on them in training. Ours are the dropout of what attention returns
    without that of its weights, and an epsilon of 1e-6 in layer normalisation.

    Examples:
        >>> from tfr_ext.models import model_builder
        >>> scorer = DASALCScorer([8], num_layers=1, attention_size=4)
        >>> model = model_builder(5, scorer).build()
        >>> features = {"float_features": tf.random.normal([1, 3, 5])}
        >>> model({**features, "mask": tf.ones([1, 3], bool)}).shape
        TensorShape([1, 3])
    """

    def __init__(
        self,
        hidden_sizes: Sequence[int] = (512, 512),
        num_layers: int = 4,
        num_heads: int = 2,
        attention_size: int = 100,
        dropout: float = 0.4,
        **options: Any,
    ):
        """Initialises the scorer.

        Args:
            hidden_sizes: number of units of each hidden layer of an item, at least one;
                the latent cross is as wide as the last.
            num_layers: number of attention layers.
            num_heads: number of attention heads.
            attention_size: width of the attention layers, and of each head.
            dropout: share of units dropped in training, in [0, 1).
            **options: see `NetworkScorer`.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(num_heads, dropout=dropout, **options)
        self._sizes = _some("hidden_sizes", hidden_sizes)
        self._num_layers = checks.at_least("num_layers", num_layers, 1)
        self._attention_size = checks.at_least("attention_size", attention_size, 1)

    def _score_items(
        self, context_features: Features, example_features: Features, mask: tf.Tensor
    ) -> tf.Tensor:
        x = self._inputs(context_features, example_features)
        width, after = self._sizes[-1], len(self._sizes)
        context = self._dense(
            self._joined(context_features, example_features),
            self._attention_size,
            self._activation,
            "attention_input",
            dtype="float32",
        )
        for i in range(1, self._num_layers + 1):
            # Features are as large as they come until they have been normalised.
            kind = {"dtype": "float32"} if i == 1 else {}
            y = self._attended(
                context, mask, self._attention_size, f"attention_{i}", **kind
            )
            y = self._dropped(y, after + i, **kind)
            y = layers.Sum(**kind)([context, y])
            context = _layer_normalized(y, f"attention_{i}_normalization", **kind)
        context = self._normalized(context, "context_normalization")
        context = self._dense(context, width, "linear", "context")
        own = self._hidden(x, self._sizes)
        own = self._dense(own, width, "linear", "item")
        crossed = tf.keras.layers.Multiply(name="latent_cross")([own, context])
        x = layers.Sum(name="latent_cross_sum")([own, crossed])
        x = tf.keras.layers.Activation(self._activation, name="cross_activation")(x)
        return self._output(self._dropped(x, after + self._num_layers + 1))


def _some(argument: str, values: Sequence[int]) -> list[int]:
    """Returns the sizes of layers, of which there must be one."""
    found = sizes(argument, values)
    if not found:
        raise ValueError(f"`{argument}` must have at least one size. Received: [].")
    return found


def _layer_normalized(x: tf.Tensor, name: str, **kwargs: Any) -> tf.Tensor:
    return tf.keras.layers.LayerNormalization(epsilon=_EPSILON, name=name, **kwargs)(x)
