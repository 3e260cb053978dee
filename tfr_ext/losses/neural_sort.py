"""NeuralSort's cross-entropy (Grover et al., ICLR 2019)."""

from __future__ import annotations

import math

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.annealed import Annealable
from tfr_ext.core.arguments import Argument
from tfr_ext.losses import base
from tfr_ext.relaxations.neural_sort import neural_sort_log_likelihood

# Used in place of a probability of 0, as in TensorFlow Ranking.
_LEAST_PROBABILITY = 1e-20


@base.register
class NeuralSortCrossEntropyLoss(base.ListwiseLoss):
    r"""Cross-entropy between the sort of the labels and NeuralSort of the scores.

    With `P` as in `PiRankNDCGLoss`, and `T` the exact sort of the labels, where equal
    labels share their ranks evenly,

    $$
    \mathcal{L} = -\frac{1}{n} \sum_{r=1}^{n} \sum_j T_{rj} \log P_{rj}
    $$

    The log-probabilities are computed from the logits, so even a confident mistake
    keeps its gradient. With `straight_through` the value is that of the exact sort of
    the scores, with its zeros replaced by `1e-20` as in TensorFlow Ranking: 46.05 times
    the share of ranks at which it puts an item with the wrong label. The gradient is
    that of the relaxation. A list without a relevant item contributes 0 and no
    gradient.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = NeuralSortCrossEntropyLoss(straight_through=False, temperature=0.1)
    >>> round(float(loss(y_true, y_pred)), 4)
    2.1269

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = NeuralSortCrossEntropyLoss(ragged=True, straight_through=False)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.8836

    Usage with the `compile()` API:

    ```python
    model.compile(
        optimizer='adam', loss=tfr_ext.losses.NeuralSortCrossEntropyLoss())
    ```

    Reference:
        Swezey, Grover, Charron and Ermon, "PiRank: Scalable Learning to Rank via
        Differentiable Sorting", NeurIPS 2021: section 4.1 and Table 2; Grover, Wang,
        Zweig and Ermon, "Stochastic Optimization of Sorting Networks via Continuous
        Relaxations", ICLR 2019.
    """

    KEY = "neural_sort_cross_entropy_loss"
    ARGUMENTS = {
        "temperature": Argument(checks.temperature, annealable=True),
        "straight_through": Argument(checks.boolean),
    }

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        temperature: Annealable = 5.0,
        straight_through: bool = True,
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            temperature: a number between 1e-30 and 1e30, or a schedule.
            straight_through: whether the loss takes the value of the exact sort.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(reduction, name, ragged)
        self._declare(temperature=temperature, straight_through=straight_through)

    def compute(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Computes the unweighted loss of each list, `[batch, 1]`."""
        labels, scores, mask = masked.at_least_one_item(labels, scores, mask)
        count = tf.maximum(masked.num_real(mask, scores.dtype), 1)
        relaxed = neural_sort_log_likelihood(
            scores, mask, labels, self._now("temperature")
        )
        loss = -relaxed / count
        if self._arguments["straight_through"]:
            exact = self._exact(labels, scores, mask) / count
            loss = tf.stop_gradient(exact) + (loss - tf.stop_gradient(loss))
        is_empty = tf.reduce_max(labels, axis=1) <= 0
        return tf.where(is_empty, tf.zeros_like(loss), loss)[:, tf.newaxis]

    @staticmethod
    def _exact(labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns the cross-entropy of the exact sort, times the number of items."""
        found = masked.at_ranks(scores, mask, labels)
        wanted = masked.at_ranks(labels, mask, labels)
        wrong = tf.reduce_sum(
            tf.cast(tf.not_equal(found, wanted), scores.dtype), axis=1
        )
        return -math.log(_LEAST_PROBABILITY) * wrong
