"""ListNet (Cao, Qin, Liu, Tsai and Li, ICML 2007)."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfr_ext.losses import base
from tfr_ext.transport import sinkhorn


@base.register
class ListNetLoss(base.ListwiseLoss):
    r"""Cross-entropy of the top-one probabilities of labels and scores.

    $$
    \mathcal{L} = -\sum_j \frac{e^{y_j}}{\sum_i e^{y_i}}
    \log \frac{e^{s_j}}{\sum_i e^{s_i}}
    $$

    over the real items of a list. TensorFlow Ranking's `SoftmaxLoss` uses `y_j` instead
    of the softmax of the labels. For a list without a relevant item, the loss is lowest
    at equal scores.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = ListNetLoss()
    >>> round(float(loss(y_true, y_pred)), 4)
    0.7444

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = ListNetLoss(ragged=True)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.8864

    Usage with the `compile()` API:

    ```python
    model.compile(optimizer='adam', loss=tfr_ext.losses.ListNetLoss())
    ```

    Reference:
        Cao, Qin, Liu, Tsai and Li, "Learning to Rank: From Pairwise Approach to
        Listwise Approach", ICML 2007: Eq. 2 and section 4.1, top one probability.
    """

    KEY = "list_net_loss"

    def compute(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Computes the unweighted loss of each list, `[batch, 1]`."""
        target = tf.where(mask, tf.exp(sinkhorn.log_softmax(labels, mask)), 0)

        @tf.custom_gradient
        def cross_entropy(scores: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            surprise = -sinkhorn.log_softmax(scores, mask)
            predicted = tf.where(mask, tf.exp(-surprise), 0)
            bounded = tf.where(surprise > _MOST, _MOST * tf.ones_like(scores), surprise)
            value = tf.reduce_sum(target * bounded, axis=1, keepdims=True)
            return value, lambda upstream: upstream * (predicted - target)

        return cross_entropy(scores)


# If scores are further apart, the logarithm may overflow.
_MOST = 1e37
