"""Pairwise KL losses over judgement distributions (Purpura et al.)."""

from __future__ import annotations

from functools import partial

import tensorflow as tf

from tfr_ext.core import checks
from tfr_ext.core.arguments import Argument
from tfr_ext.losses import base
from tfr_ext.losses.kl import divergences

_OF_PAIRS = {
    "margin": Argument(checks.not_negative),
    "symmetric": Argument(checks.boolean),
    "from_logits": Argument(checks.boolean),
}


@base.register
class PairwiseKLBinomialLoss(base.ItemwiseLoss):
    r"""Hinge of the KL divergence between the binomial distributions of two items.

    An item with score `s_i` stands for a binomial distribution `P_i` with `num_trials`
    trials and success probability `p_i = sigmoid(s_i)`. The loss of an item is a sum
    over the items with a lower label, whose distributions should be a margin `m` away
    on the right side:

    $$
    \mathcal{L}_i = \sum_{j: y_j < y_i}
    \max\big(0,\ m - \operatorname{sign}(p_i - p_j) D_{KL}(P_i \| P_j)\big)
    $$

    $$
    D_{KL}(P_i \| P_j) = n \, p_i \log \frac{p_i}{p_j}
    + n (1 - p_i) \log \frac{1 - p_i}{1 - p_j}
    $$

    `symmetric=True` adds `D_{KL}(P_j \| P_i)` to the divergence. Memory does not grow
    with the square of the list size.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = PairwiseKLBinomialLoss()
    >>> round(float(loss(y_true, y_pred)), 4)
    0.5717

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = PairwiseKLBinomialLoss(ragged=True, symmetric=True)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.3796

    Usage with the `compile()` API:

    ```python
    model.compile(optimizer='adam', loss=tfr_ext.losses.PairwiseKLBinomialLoss())
    ```

    Reference:
        Purpura, Silvello and Susto, "Learning to Rank from Relevance Judgments
        Distributions", 2022: Eq. 8; the symmetric form is that of the authors' code.
    """

    KEY = "pairwise_kl_binomial_loss"
    ARGUMENTS = {"num_trials": Argument(partial(checks.at_least, least=1)), **_OF_PAIRS}

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        num_trials: int = 32,
        margin: float = 1.0,
        symmetric: bool = False,
        from_logits: bool = True,
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            num_trials: number of trials of the binomial distributions, at least 1.
            margin: divergence at and above which a pair in the right order costs
                nothing, at least 0.
            symmetric: whether to add the reverse divergence.
            from_logits: whether scores are logits. Otherwise they are probabilities,
                clipped to `[1e-7, 1 - 1e-7]`; outside that range they get no gradient.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(reduction=reduction, name=name, ragged=ragged)
        self._declare(
            num_trials=num_trials,
            margin=margin,
            symmetric=symmetric,
            from_logits=from_logits,
        )

    def compute(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Computes the unweighted loss of each item, `[batch, list]`."""
        arguments = self._arguments
        return divergences.binomial_hinge(
            divergences.logits(scores, arguments["from_logits"]),
            labels,
            mask,
            arguments["num_trials"],
            arguments["margin"],
            arguments["symmetric"],
        )


@base.register
class PairwiseKLGaussianLoss(base.ItemwiseLoss):
    r"""Hinge of the KL divergence between the Gaussian distributions of two items.

    An item with score `s_i` stands for a Gaussian distribution `P_i` with mean
    `p_i = sigmoid(s_i)` and standard deviation `sigma`. The loss of an item is a sum
    over the items with a lower label, whose distributions should be a margin `m` away
    on the right side:

    $$
    \mathcal{L}_i = \sum_{j: y_j < y_i}
    \max\big(0,\ m - \operatorname{sign}(p_i - p_j) D_{KL}(P_i \| P_j)\big),
    \quad D_{KL}(P_i \| P_j) = \frac{(p_i - p_j)^2}{2 \sigma^2}
    $$

    The divergence is already symmetric; `symmetric=True` adds the reverse one, which
    doubles it. Memory does not grow with the square of the list size.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = PairwiseKLGaussianLoss()
    >>> round(float(loss(y_true, y_pred)), 4)
    0.5079

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = PairwiseKLGaussianLoss(ragged=True, sigma=0.1, margin=0.5)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.2088

    Usage with the `compile()` API:

    ```python
    model.compile(optimizer='adam', loss=tfr_ext.losses.PairwiseKLGaussianLoss())
    ```

    Reference:
        Purpura, Silvello and Susto, "Learning to Rank from Relevance Judgments
        Distributions", 2022: Eqs. 9 and 10.
    """

    KEY = "pairwise_kl_gaussian_loss"
    ARGUMENTS = {"sigma": Argument(divergences.check_sigma), **_OF_PAIRS}

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        sigma: float = 0.25,
        margin: float = 1.0,
        symmetric: bool = False,
        from_logits: bool = True,
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            sigma: standard deviation of the distributions, in (1e-9, 1e9).
            margin: divergence at and above which a pair in the right order costs
                nothing, at least 0.
            symmetric: whether to add the reverse divergence.
            from_logits: whether scores are logits. Otherwise they are probabilities,
                clipped to `[0, 1]`; outside that range they get no gradient.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(reduction=reduction, name=name, ragged=ragged)
        self._declare(
            sigma=sigma, margin=margin, symmetric=symmetric, from_logits=from_logits
        )

    def compute(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Computes the unweighted loss of each item, `[batch, list]`."""
        arguments = self._arguments
        return divergences.gaussian_hinge(
            divergences.probabilities(scores, arguments["from_logits"]),
            labels,
            mask,
            arguments["sigma"],
            arguments["margin"],
            arguments["symmetric"],
        )
