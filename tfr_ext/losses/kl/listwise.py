"""Listwise KL loss over judgement distributions (Purpura et al.)."""

from __future__ import annotations

import tensorflow as tf

from tfr_ext.core import checks
from tfr_ext.core.arguments import Argument
from tfr_ext.losses import base
from tfr_ext.losses.kl import class_weights, divergences


@base.register
class ListwiseKLGaussianLoss(base.ListwiseLoss):
    r"""KL divergence between a list's labels and scores as multivariate Gaussians.

    The scores `s` of a list stand for a Gaussian with means `sigmoid(s)`, and its
    labels for one with means `p_i = y_i / max_label`, clipped to `[1e-6, 1 - 1e-6]`;
    all components are independent with standard deviation `sigma`:

    $$
    \mathcal{L} = \frac{1}{2 \sigma^2} \sum_i w_i (p_i - \sigma(s_i))^2
    $$

    The weight `w_i` balances relevant and irrelevant items: it is the number of items,
    divided by the number of classes present and by the number of items in the item's
    class.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = ListwiseKLGaussianLoss()
    >>> round(float(loss(y_true, y_pred)), 4)
    0.3008

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = ListwiseKLGaussianLoss(ragged=True, sigma=0.5)
    >>> round(float(loss(y_true, y_pred)), 4)
    1.3052

    Usage with the `compile()` API:

    ```python
    model.compile(optimizer='adam', loss=tfr_ext.losses.ListwiseKLGaussianLoss())
    ```

    Reference:
        Purpura, Silvello and Susto, "Learning to Rank from Relevance Judgments
        Distributions", 2022: Eqs. 12 and 13.
    """

    KEY = "listwise_kl_gaussian_loss"
    ARGUMENTS = {
        "sigma": Argument(divergences.check_sigma),
        "max_label": Argument(checks.positive),
        **class_weights.ARGUMENTS,
        "from_logits": Argument(checks.boolean),
    }

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        sigma: float = 1.0,
        max_label: float = 1.0,
        relevance_threshold: float = 0.1,
        class_balance: str | None = "list",
        from_logits: bool = True,
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            sigma: standard deviation of the distributions, in (1e-9, 1e9).
            max_label: label that stands for a mean of 1, positive. A label above it
                makes the loss of its list NaN.
            relevance_threshold: lowest `label / max_label` of a relevant item,
                positive; used for the weights.
            class_balance: what the items of each class are counted over for the
                weights: 'batch' (across all replicas), 'list', or None for no weights.
            from_logits: whether scores are logits. Otherwise they are probabilities,
                clipped to `[0, 1]`; outside that range they get no gradient.

        Raises:
            ValueError: If an argument is out of range, or differs from its default
                where it has no effect.
        """
        super().__init__(reduction=reduction, name=name, ragged=ragged)
        self._declare(
            sigma=sigma,
            max_label=max_label,
            relevance_threshold=relevance_threshold,
            class_balance=class_balance,
            from_logits=from_logits,
        )
        self._max_label = self._arguments["max_label"]

    def compute(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Computes the unweighted loss of each list, `[batch, 1]`."""
        arguments = self._arguments
        t = labels / arguments["max_label"]
        weights = class_weights.of_items(
            t >= arguments["relevance_threshold"],
            mask,
            arguments["class_balance"],
            t.dtype,
        )
        t = tf.clip_by_value(t, divergences.MIN_LABEL, 1 - divergences.MIN_LABEL)
        p = divergences.probabilities(scores, arguments["from_logits"])
        distance = weights * tf.square((t - p) / arguments["sigma"])
        return 0.5 * tf.reduce_sum(distance, axis=1, keepdims=True)
