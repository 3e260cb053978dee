"""`MLPScorer`, and the options and parts that it shares with other networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core import checks
from tfr_ext.models import batch_normalization, layers
from tfr_ext.models.scorers import EMBEDDED, CompactScorer, Features, ItemScorer

ACTIVATIONS = ["relu", "elu", "selu", "gelu", "swish", "softplus", "sigmoid", "tanh"]
"""Names of Keras activations that scorers accept: functions of a single unit."""
OUTPUT_ACTIVATIONS = ["linear", "sigmoid"]
"""The activations of a score that scorers take."""
INITIALIZERS = ["glorot", "pytorch"]


def sizes(argument: str, values: Sequence[int]) -> list[int]:
    """Returns the sizes of layers as a list; each must be a positive integer."""

    def size(argument: str, value: Any) -> int:
        return checks.at_least(argument, value, 1)

    return checks.elements(argument, values, size, "integers")


def _concatenated(features: Sequence[Any]) -> Any:
    """Returns the features side by side; a single one as it is."""
    if len(features) == 1:
        return features[0]
    # A layer passes the mask on, unlike tf.concat.
    return tf.keras.layers.Concatenate(axis=1, dtype="float32")(features)


class NetworkScorer(ItemScorer):
    """Base of the scorers of this package: options and parts that they share.

    Its subclasses are `MLPScorer`, `TransformerScorer`, `KLTransformerScorer` and
    `DASALCScorer`.
    """

    def __init__(
        self,
        batch_normalization: bool = True,
        batch_norm_momentum: float = 0.9,
        dropout: float = 0.0,
        seed: int = 0,
        compact: bool = True,
        num_grades: int | None = None,
        activation: str = "relu",
        output_activation: str = "linear",
        l2_regularization: float = 0.0,
        batch_norm_epsilon: float = 1e-3,
        initializer: str = "glorot",
    ):
        """Initialises the scorer.

        Args:
            batch_normalization: whether inputs and hidden layers are normalised.
            batch_norm_momentum: momentum of the moving statistics, in [0, 1). Keras'
                default of 0.99 needs more steps than a small collection offers.
            dropout: share of hidden units dropped in training, in [0, 1).
            seed: seed of the dropout.
            compact: see `ItemScorer`.
            num_grades: if given, the output is not a score but the logits of a
                distribution over this many grades, `[batch, list, grades]`.
            activation: activation of the hidden layers, one of `ACTIVATIONS`.
            output_activation: activation of the scores, one of `OUTPUT_ACTIVATIONS`;
                logits of grades are always linear.
            l2_regularization: the rate `r` of a penalty `r / 2 * sum(w**2)` that is
                added to the loss, with the gradient `r * w`. It covers the kernels of
                all dense layers, including those of attention and the output, but no
                biases and no normalisation.
            batch_norm_epsilon: added to variances; 1e-3 as in Keras, where PyTorch has
                1e-5.
            initializer: how weights are initialised: 'glorot', as in Keras, for weights
                uniform within `sqrt(6 / (inputs + outputs))` and biases of 0, or
                'pytorch', as in PyTorch, for weights and biases uniform within
                `1 / sqrt(inputs)`.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(compact)
        if num_grades is not None and num_grades < 2:
            raise ValueError(
                f"`num_grades` must be None or at least 2. Received: {num_grades}."
            )
        checks.choice("activation", activation, ACTIVATIONS)
        checks.choice("output_activation", output_activation, OUTPUT_ACTIVATIONS)
        if num_grades is not None and output_activation != "linear":
            raise ValueError(
                "`output_activation` must be 'linear' with `num_grades`, as the logits "
                f"of grades go into a softmax. Received: {output_activation!r}."
            )
        checks.choice("initializer", initializer, INITIALIZERS)
        checks.positive("batch_norm_epsilon", batch_norm_epsilon)
        rate = checks.not_negative("l2_regularization", l2_regularization)
        for name, value in (
            ("batch_norm_momentum", batch_norm_momentum),
            ("dropout", dropout),
        ):
            if not 0 <= value < 1:
                raise ValueError(f"`{name}` must be in [0, 1). Received: {value}.")
        self._batch_normalization = batch_normalization
        self._momentum = batch_norm_momentum
        self._epsilon = batch_norm_epsilon
        self._initializer = initializer
        self._dropout = dropout
        self._seed = seed
        self._units = 1 if num_grades is None else num_grades
        self._activation = activation
        self._output_activation = output_activation
        # Keras multiplies the whole sum of squares, not half of it.
        self._penalty = tf.keras.regularizers.L2(rate / 2) if rate else None

    def _inputs(
        self,
        context_features: dict[str, tf.Tensor],
        example_features: dict[str, tf.Tensor],
        to_dense: bool = False,
    ) -> Any:
        """Returns the joined features of the items, numbers normalised if so set."""
        given = *sorted(context_features.items()), *sorted(example_features.items())
        numbers = [x for key, x in given if not key.startswith(EMBEDDED)]
        parts = [x for key, x in given if key.startswith(EMBEDDED)]
        if numbers:
            joined, in_parts = _concatenated(numbers), to_dense and not parts
            name = "input_normalization"
            own = self._normalized(joined, name, parts=in_parts, dtype="float32")
            parts.insert(0, own)
        return _concatenated(parts)

    def _joined(
        self, context_features: Features, example_features: Features
    ) -> tf.Tensor:
        """Returns all features of the items, `[items, features]`."""
        given = *sorted(context_features.items()), *sorted(example_features.items())
        return _concatenated([x for _, x in given])

    def _hidden(self, x: Any, sizes: Sequence[int], to_dense: bool = False) -> Any:
        """Returns the outputs of hidden layers, each normalised and dropped out."""
        for i, size in enumerate(sizes, 1):
            x = self._dense(x, size, self._activation, f"hidden_{i}")
            parts = not self._dropout and (to_dense or i < len(sizes))
            x = self._normalized(x, f"normalization_{i}", parts=parts)
            x = self._dropped(x, i)
        return x

    def _output(self, x: Any) -> tf.Tensor:
        """Returns the score of each item, or its logits of grades."""
        # Scores are float32 under any precision policy, as losses need them.
        return self._dense(
            x, self._units, self._output_activation, "score", dtype="float32"
        )

    def _dense(
        self, x: Any, size: int, activation: str, name: str, **kwargs: Any
    ) -> tf.Tensor:
        in_parts = isinstance(x, (list, tuple))
        width = x[0].shape[-1] if in_parts else x.shape[-1]
        layer = (
            batch_normalization.NormalizedDense if in_parts else tf.keras.layers.Dense
        )
        return layer(
            size, activation=activation, name=name, **self._weights(width), **kwargs
        )(x)

    def _weights(self, inputs: int) -> dict[str, Any]:
        """Returns the arguments of a layer about its weights."""
        options: dict[str, Any] = {"kernel_regularizer": self._penalty}
        if self._initializer == "pytorch":
            limit = 1.0 / math.sqrt(inputs)
            for part in ("kernel_initializer", "bias_initializer"):
                options[part] = tf.keras.initializers.RandomUniform(-limit, limit)
        return options

    def _dropped(self, x: tf.Tensor, number: int, **kwargs: Any) -> tf.Tensor:
        if not self._dropout:
            return x
        return layers.ResumableDropout(
            self._dropout, self._seed + number, name=f"dropout_{number}", **kwargs
        )(x)

    def _normalized(
        self, x: tf.Tensor, name: str, parts: bool = False, **kwargs: Any
    ) -> Any:
        """Returns items normalised, or in the parts that `_dense` takes.

        Scales that go into a kernel could exceed half precision. Masks, which padding
        needs, follow one tensor.
        """
        if not self._batch_normalization:
            return x
        policy = tf.keras.mixed_precision.global_policy()
        if parts and self._compact and policy.compute_dtype == "float32":
            kwargs["parts"] = True
        return self._standardized(x, name, **kwargs)

    def _standardized(self, x: tf.Tensor, name: str, **kwargs: Any) -> tf.Tensor:
        return batch_normalization.ItemBatchNormalization(
            momentum=self._momentum, epsilon=self._epsilon, name=name, **kwargs
        )(x)


class MLPScorer(NetworkScorer, CompactScorer):
    """A fully connected network, by default that of the SmoothI paper.

    It consists of input batch normalisation; for each hidden layer a dense layer, its
    activation, batch normalisation and dropout; and one output unit, or one for each
    grade.

    Without hidden layers, dropout applies to the inputs. The WassRank paper's scorer is
    `MLPScorer([], batch_normalization=False, dropout=0.01, output_activation='sigmoid',
    l2_regularization=1e-3)`.

    Examples:
        >>> scorer = MLPScorer([], False, output_activation="sigmoid")
        >>> from tfr_ext.models import model_builder
        >>> model = model_builder(4, scorer).build()
        >>> features = {"float_features": 9 * tf.random.normal([1, 5, 4])}
        >>> scores = model({**features, "mask": tf.ones([1, 5], bool)}).numpy()
        >>> bool((scores >= 0).all() and (scores <= 1).all())
        True
    """

    def __init__(
        self,
        hidden_sizes: Sequence[int] = (1024,),
        batch_normalization: bool = True,
        batch_norm_momentum: float = 0.9,
        dropout: float = 0.0,
        **options: Any,
    ):
        """Initialises the scorer.

        Args:
            hidden_sizes: number of units of each hidden layer. If it is empty, the
                scorer is a single layer with `output_activation`.
            batch_normalization: whether inputs and hidden layers are normalised.
            batch_norm_momentum: see `NetworkScorer`.
            dropout: share of hidden units dropped in training, in [0, 1). Without
                hidden layers, inputs are dropped instead.
            **options: see `NetworkScorer`.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(batch_normalization, batch_norm_momentum, dropout, **options)
        self._hidden_sizes = sizes("hidden_sizes", hidden_sizes)

    def _score_flattened(
        self, context_features: Features, example_features: Features
    ) -> tf.Tensor:
        # Nothing comes between them unless inputs are dropped.
        to_dense = bool(self._hidden_sizes) or not self._dropout
        x = self._inputs(context_features, example_features, to_dense)
        if not self._hidden_sizes:
            x = self._dropped(x, 0, dtype="float32")
        return self._output(self._hidden(x, self._hidden_sizes, to_dense=True))
