"""The fully connected network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.models.network import NetworkScorer, sizes
from tfr_ext.models.scorers import CompactScorer


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
            ValueError: if an argument is out of range.
        """
        super().__init__(batch_normalization, batch_norm_momentum, dropout, **options)
        self._hidden_sizes = sizes("hidden_sizes", hidden_sizes)

    def _score_flattened(
        self,
        context_features: dict[str, tf.Tensor],
        example_features: dict[str, tf.Tensor],
    ) -> tf.Tensor:
        # Nothing comes between them unless inputs are dropped.
        to_dense = bool(self._hidden_sizes) or not self._dropout
        x = self._inputs(context_features, example_features, to_dense)
        if not self._hidden_sizes:
            x = self._dropped(x, 0, dtype="float32")
        return self._output(self._hidden(x, self._hidden_sizes, to_dense=True))
