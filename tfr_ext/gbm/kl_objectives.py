"""KL losses over judgement distributions as objectives of LightGBM, in NumPy."""

from __future__ import annotations

import abc

import numpy as np
from scipy import special

from tfr_ext import losses
from tfr_ext.gbm.list_objective import Objective
from tfr_ext.losses.kl.divergences import MIN_LABEL

# The least Hessian, where all else underflows.
_LEAST = 1e-12
# Closer than this to its optimum, an item's secant is its second derivative.
_CLOSE = 1e-4


class _KLObjective(Objective):
    """Base of both; they differ in the divergence of an item."""

    def __init__(self, loss: losses.RankingLoss) -> None:
        """Takes the arguments of the loss, which has checked them."""
        self._config = loss.get_config()

    @abc.abstractmethod
    def _exact(
        self, scores: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the first and second derivatives of the divergence of each item."""

    def exact(
        self,
        scores: np.ndarray,
        labels: np.ndarray,
        row_splits: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the first and second derivatives of the loss, summed over the lists.

        The second derivatives are the diagonal of the Hessian, and all of it, as no
        item's term depends on another's score. They may be negative.
        """
        targets, factors = self._targets(labels, row_splits, weights)
        first, second = self._exact(scores, targets)
        return factors * first, factors * second

    def derivatives(
        self,
        scores: np.ndarray,
        labels: np.ndarray,
        row_splits: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the gradient of the loss, and positive Hessians."""
        targets, factors = self._targets(labels, row_splits, weights)
        first, second = self._exact(scores, targets)
        distances = scores - special.logit(targets)
        close = np.abs(distances) < _CLOSE
        secants = np.where(close, second, first / np.where(close, 1, distances))
        hessians = np.maximum(np.maximum(second, secants), _LEAST)
        return factors * first, np.maximum(factors, _LEAST) * hessians

    def _targets(
        self, labels: np.ndarray, row_splits: np.ndarray, weights: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the probability of each item, and the factor of its divergence."""
        max_label = self._config["max_label"]
        labels = np.asarray(labels, np.float64)
        if labels.max(initial=0) > np.float32(max_label):
            raise ValueError(
                f"`max_label` must be at least the highest label, {labels.max():g}. "
                f"Received: {max_label:g}."
            )
        targets = labels / max_label
        query = np.repeat(np.arange(len(row_splits) - 1), np.diff(row_splits))
        factors = np.ones(len(labels))
        if self._config["class_balance"] is not None:
            relevant = targets >= self._config["relevance_threshold"]
            group = query if self._config["class_balance"] == "list" else query * 0
            counts = np.stack(
                [np.bincount(group, ~relevant), np.bincount(group, relevant)]
            )
            present = (counts > 0).sum(axis=0)
            own = counts[relevant.astype(int), group]
            factors = counts.sum(axis=0)[group] / (present[group] * own)
        if weights is not None:
            factors = factors * self._weights(weights, labels, query)
        return np.clip(targets, MIN_LABEL, 1 - MIN_LABEL), factors

    def _weights(
        self, weights: np.ndarray, labels: np.ndarray, query: np.ndarray
    ) -> np.ndarray:
        """Returns the weights of the loss for each item."""
        return np.asarray(weights, np.float64)


class PointwiseKLBinomialObjective(_KLObjective):
    r"""`PointwiseKLBinomialLoss` as an objective of LightGBM.

    With `p = sigmoid(s)`, `t` the label as a probability, `t* = logit t` and the class
    weight `w`, the loss of an item and its derivatives in the score `s` are

    $$
    \mathcal{L} = w n (p - t)(s - t^*), \quad
    \mathcal{L}' = w n \big(p' (s - t^*) + p - t\big), \quad
    \mathcal{L}'' = w n \big(p'' (s - t^*) + 2 p'\big)
    $$

    where `p' = p (1 - p)` and `p'' = p' (1 - 2 p)`. The second derivative is negative
    far from the optimum `t*`. The Hessian is therefore the greater of it and the slope
    of the secant, `L' / (s - t*)`, which is positive everywhere: no item alone is moved
    beyond its optimum. The loss is summed over items; all count the same, but for the
    class weights, whose mean is 1.

    Examples:
        >>> objective = PointwiseKLBinomialObjective(num_trials=1, class_balance=None)
        >>> gradient, hessian = objective.derivatives(
        ...     np.zeros(2), np.array([0.0, 0.5]), np.array([0, 2]))
        >>> gradient.round(3).tolist(), hessian.round(3).tolist()
        ([3.954, 0.0], [0.5, 0.5])

    Reference:
        Purpura, Silvello and Susto, "Learning to Rank from Relevance Judgments
        Distributions", 2022: Eqs. 4 and 5, and Table 4. The paper trains its GBM with
        LightGBM and does not say which Hessian it gives it.
    """

    def __init__(
        self,
        num_trials: int = 32,
        max_label: float = 1.0,
        relevance_threshold: float = 0.1,
        class_balance: str | None = "batch",
    ) -> None:
        """Initialises the objective.

        Args:
            num_trials: see `PointwiseKLBinomialLoss`, as for the others.
            max_label: label that stands for a probability of 1.
            relevance_threshold: lowest `label / max_label` of a relevant item.
            class_balance: what the items of each class are counted over: 'batch' (all
                lists), 'list', or None for no class weights.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(
            losses.PointwiseKLBinomialLoss(
                num_trials=num_trials,
                max_label=max_label,
                relevance_threshold=relevance_threshold,
                class_balance=class_balance,
            )
        )

    def _exact(
        self, scores: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        trials = self._config["num_trials"]
        p = special.expit(scores)
        slope = p * special.expit(-scores)
        distances = scores - special.logit(targets)
        first = slope * distances + p - targets
        second = slope * (1 - 2 * p) * distances + 2 * slope
        return trials * first, trials * second


class ListwiseKLGaussianObjective(_KLObjective):
    r"""`ListwiseKLGaussianLoss` as an objective of LightGBM.

    With `p = sigmoid(s)`, `t` the label as a mean, and the class weight `w`, an item's
    term of the loss of its list and its derivatives in the score `s` are

    $$
    \mathcal{L} = \frac{w}{2 \sigma^2} (p - t)^2, \quad
    \mathcal{L}' = \frac{w}{\sigma^2} p' (p - t), \quad
    \mathcal{L}'' = \frac{w}{\sigma^2} \big(p'^2 + p'' (p - t)\big)
    $$

    where `p' = p (1 - p)` and `p'' = p' (1 - 2 p)`. The Hessian is the greater of
    `L''` and of the slope of the secant, as in `PointwiseKLBinomialObjective`.

    Examples:
        >>> objective = ListwiseKLGaussianObjective(class_balance=None)
        >>> gradient, hessian = objective.derivatives(
        ...     np.zeros(2), np.array([0.0, 0.5]), np.array([0, 2]))
        >>> gradient.round(3).tolist(), hessian.round(4).tolist()
        ([0.125, 0.0], [0.0625, 0.0625])

    Reference:
        Purpura, Silvello and Susto, "Learning to Rank from Relevance Judgments
        Distributions", 2022: Eqs. 12 and 13, and Table 4.
    """

    def __init__(
        self,
        sigma: float = 1.0,
        max_label: float = 1.0,
        relevance_threshold: float = 0.1,
        class_balance: str | None = "list",
    ) -> None:
        """Initialises the objective.

        Args:
            sigma: see `ListwiseKLGaussianLoss`, as for the others.
            max_label: label that stands for a mean of 1.
            relevance_threshold: lowest `label / max_label` of a relevant item.
            class_balance: what the items of each class are counted over: 'batch' (all
                lists), 'list', or None for no class weights.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(
            losses.ListwiseKLGaussianLoss(
                sigma=sigma,
                max_label=max_label,
                relevance_threshold=relevance_threshold,
                class_balance=class_balance,
            )
        )

    def _exact(
        self, scores: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        p = special.expit(scores)
        slope = p * special.expit(-scores)
        first = slope * (p - targets)
        second = np.square(slope) + slope * (1 - 2 * p) * (p - targets)
        variance = self._config["sigma"] ** 2
        return first / variance, second / variance

    def _weights(
        self, weights: np.ndarray, labels: np.ndarray, query: np.ndarray
    ) -> np.ndarray:
        # A listwise loss has one weight per list: that of its labels, or the mean.
        share = np.where(np.bincount(query, labels)[query] > 0, labels, 1.0)
        of_lists = np.bincount(query, share * weights) / np.bincount(query, share)
        return of_lists[query]
