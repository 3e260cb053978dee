"""Pointwise KL losses over judgement distributions (Purpura et al.)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import tensorflow as tf

from tfr_ext.core import checks, grades
from tfr_ext.core.arguments import Argument
from tfr_ext.losses import base
from tfr_ext.losses.kl import class_weights, divergences


@base.register
class PointwiseKLBinomialLoss(base.ItemwiseLoss):
    r"""Symmetric KL divergence of an item's label and score as binomial distributions.

    An item with score `s_i` stands for a binomial distribution with `num_trials` trials
    and success probability `sigmoid(s_i)`, and its label for one with probability
    `p_i = y_i / max_label`, clipped to `[1e-6, 1 - 1e-6]`:

    $$
    \mathcal{L}_i = w_i \big(D_{KL}(P_i \| \hat P_i) + D_{KL}(\hat P_i \| P_i)\big)
    = w_i \, n \, (\sigma(s_i) - p_i) (s_i - \operatorname{logit} p_i)
    $$

    The weight `w_i` balances relevant and irrelevant items: it is the number of items,
    divided by the number of classes present and by the number of items in the item's
    class.

    Standalone usage:

    >>> y_true = [[1., 0.]]
    >>> y_pred = [[0.6, 0.8]]
    >>> loss = PointwiseKLBinomialLoss(num_trials=1)
    >>> round(float(loss(y_true, y_pred)), 4)
    7.3836

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = PointwiseKLBinomialLoss(ragged=True, num_trials=1)
    >>> round(float(loss(y_true, y_pred)), 4)
    6.8246

    Usage with the `compile()` API:

    ```python
    model.compile(optimizer='adam', loss=tfr_ext.losses.PointwiseKLBinomialLoss())
    ```

    Reference:
        Purpura, Silvello and Susto, "Learning to Rank from Relevance Judgments
        Distributions", 2022: Eqs. 4 and 5.
    """

    KEY = "pointwise_kl_binomial_loss"
    ARGUMENTS = {
        "num_trials": Argument(partial(checks.at_least, least=1)),
        "max_label": Argument(checks.positive),
        **class_weights.ARGUMENTS,
        "from_logits": Argument(checks.boolean),
    }

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        num_trials: int = 32,
        max_label: float = 1.0,
        relevance_threshold: float = 0.1,
        class_balance: str | None = "batch",
        from_logits: bool = True,
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            num_trials: number of trials of the binomial distributions, at least 1.
            max_label: label that stands for a probability of 1, positive. A label above
                it makes the loss of its list NaN.
            relevance_threshold: lowest `label / max_label` of a relevant item,
                positive; used for the weights.
            class_balance: what the items of each class are counted over for the
                weights: 'batch' (across all replicas), 'list', or None for no weights.
            from_logits: whether scores are logits. Otherwise they are probabilities,
                clipped to `[1e-7, 1 - 1e-7]`; outside that range they get no gradient.

        Raises:
            ValueError: If an argument is out of range, or differs from its default
                where it has no effect.
        """
        super().__init__(reduction=reduction, name=name, ragged=ragged)
        self._declare(
            num_trials=num_trials,
            max_label=max_label,
            relevance_threshold=relevance_threshold,
            class_balance=class_balance,
            from_logits=from_logits,
        )
        self._max_label = self._arguments["max_label"]

    def compute(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Computes the unweighted loss of each item, `[batch, list]`."""
        arguments = self._arguments
        p = labels / arguments["max_label"]
        weights = class_weights.of_items(
            p >= arguments["relevance_threshold"],
            mask,
            arguments["class_balance"],
            p.dtype,
        )
        logits = divergences.logits(scores, arguments["from_logits"])
        # Both factors change sign if success and failure are swapped. They are exact
        # for the less likely outcome.
        logits = tf.where(p > 0.5, -logits, logits)
        p = tf.maximum(tf.where(p > 0.5, 1 - p, p), divergences.MIN_LABEL)
        label_logits = tf.math.log(p) - tf.math.log1p(-p)
        divergence = (tf.sigmoid(logits) - p) * (logits - label_logits)
        return arguments["num_trials"] * weights * divergence


@base.register
class PointwiseKLMultinomialLoss(base.ItemwiseLoss):
    r"""Symmetric KL divergence between distributions over grades.

    Labels and scores have shape `[batch, list, grades]`. An item's labels are its
    distribution `p` over the grades, for example the shares of the judges or a one-hot
    vector, with each entry clipped to `[1e-6, 1 - 1e-6]`; its scores are the logits of
    `q = softmax(s)`. An item whose first label entry is negative is padding.

    $$
    \mathcal{L}_i = w_i \big(D_{KL}(P_i \| \hat P_i) + D_{KL}(\hat P_i \| P_i)\big)
    = w_i \sum_g (p_{ig} - q_{ig}) (\log p_{ig} - \log q_{ig})
    $$

    The weight `w_i` balances relevant and irrelevant items, as in
    `PointwiseKLBinomialLoss`; an item is relevant if its expected grade is high enough.

    Standalone usage:

    >>> y_true = [[[0., 0., 1.], [0.5, 0.5, 0.]]]
    >>> y_pred = [[[0.1, 0.2, 0.3], [0.6, 0.2, 0.1]]]
    >>> loss = PointwiseKLMultinomialLoss()
    >>> round(float(loss(y_true, y_pred)), 4)
    6.0471

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[[0., 1.], [1., 0.]], [[.5, .5]]], ragged_rank=1)
    >>> y_pred = tf.ragged.constant([[[0., .6], [.8, 0.]], [[.2, .1]]], ragged_rank=1)
    >>> loss = PointwiseKLMultinomialLoss(ragged=True)
    >>> round(float(loss(y_true, y_pred)), 4)
    2.3921

    Usage with the `compile()` API:

    ```python
    model.compile(optimizer='adam', loss=tfr_ext.losses.PointwiseKLMultinomialLoss())
    ```

    Reference:
        Purpura, Silvello and Susto, "Learning to Rank from Relevance Judgments
        Distributions", 2022: Eqs. 6 and 7.
    """

    KEY = "pointwise_kl_multinomial_loss"
    ARGUMENTS = {
        "grade_values": class_weights.of_weights(grades.check_values, optional=True),
        **class_weights.ARGUMENTS,
        "from_logits": Argument(checks.boolean),
    }
    RANK = 3

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        grade_values: Sequence[float] | None = None,
        relevance_threshold: float = 0.1,
        class_balance: str | None = "batch",
        from_logits: bool = True,
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            grade_values: the value of each grade: at least two finite numbers in rising
                order. By default they are spaced evenly from 0 to 1.
            relevance_threshold: lowest expected grade of a relevant item, positive;
                used for the weights, as is `grade_values`.
            class_balance: what the items of each class are counted over for the
                weights: 'batch' (across all replicas), 'list', or None for no weights.
            from_logits: whether scores are logits. Otherwise they are probabilities,
                clipped to `[1e-7, 1 - 1e-7]`; outside that range they get no gradient.

        Raises:
            ValueError: If an argument is out of range, or differs from its default
                where it has no effect.
        """
        super().__init__(reduction=reduction, name=name, ragged=ragged)
        self._declare(
            grade_values=grade_values,
            relevance_threshold=relevance_threshold,
            class_balance=class_balance,
            from_logits=from_logits,
        )

    def compute(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Computes the unweighted loss of each item, `[batch, list]`.

        Args:
            labels: labels, 0 at padding, `[batch, list, grades]`.
            scores: scores, 0 at padding, `[batch, list, grades]`.
            mask: True at real items, `[batch, list]`.
        """
        arguments = self._arguments
        expected = tf.linalg.matvec(labels, self._values_of(labels))
        weights = class_weights.of_items(
            expected >= arguments["relevance_threshold"],
            mask,
            arguments["class_balance"],
            labels.dtype,
        )
        p = tf.clip_by_value(labels, divergences.MIN_LABEL, 1 - divergences.MIN_LABEL)
        log_q = divergences.log_probabilities(scores, arguments["from_logits"])
        terms = (p - tf.exp(log_q)) * (tf.math.log(p) - log_q)
        return weights * tf.reduce_sum(terms, axis=2)

    def _values_of(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns the values of the grades, after checking their number."""
        width, values = labels.shape[2], self._arguments["grade_values"]
        if width is not None and width < 2:
            raise ValueError(
                "`y_true` and `y_pred` must have at least 2 grades in their last "
                f"dimension. Received: shape {labels.shape}."
            )
        if values is None:
            count = tf.cast(tf.shape(labels)[2], labels.dtype)
            return tf.range(count, dtype=labels.dtype) / (count - 1)
        if width not in (None, len(values)):
            raise ValueError(
                f"`grade_values` has {len(values)} values and `y_true` {width} "
                f"grades. Received: grade_values {values}, y_true of shape "
                f"{labels.shape}."
            )
        if width is not None:
            return tf.constant(values, labels.dtype)
        same = tf.debugging.assert_equal(
            tf.shape(labels)[2],
            len(values),
            f"`grade_values` {values} must be as many as `y_true` has grades.",
        )
        with tf.control_dependencies([same]):
            return tf.constant(values, labels.dtype)[:]
