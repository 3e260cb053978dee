"""Ranking losses as objectives of LightGBM, through their TensorFlow gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import checks, which_keras
from tfr_ext.core.inputs import PADDING_LABEL
from tfr_ext.data.batches.buckets import cut_by_items
from tfr_ext.gbm.list_objective import Objective

HESSIANS = ("gradient", "constant", "diagonal")
"""The Hessians that a `GradientObjective` can give."""

# Padded items of a batch; a loss may make a tensor of their square.
_MAX_ITEMS = 1 << 13
# The least Hessian, as a share of the mean one.
_LEAST = 1e-3
# The step of the differences that give the diagonal of the Hessian, in float64.
_STEP = 1e-4


class GradientObjective(Objective):
    """A loss as an objective of LightGBM, which gets its gradient from TensorFlow.

    LightGBM's own interface shows whole lists to an objective, which few know; here,
    any loss of `tfr_ext.losses` that takes one score per item trains trees: SmoothI for
    any metric, PiRank, WassRank or a loss of TensorFlow Ranking. Lists of similar
    length are padded to a batch, and one compiled function gives the gradient of the
    sum over the lists of their losses, so that every list counts the same, however
    long.

    Trees also need positive second derivatives, which a relaxed metric does not have.
    `hessian` is one of:

    - 'gradient': the size of the gradient of each item. A leaf then moves by the share
      of its items' gradients that agree, between -1 and 1, however small a loss makes
      its gradients; items with large gradients count most. LambdaMART's Hessians, which
      are about proportional to its gradients, do the same.
    - 'constant': the same for all items: gradient descent.
    - 'diagonal': the size of the second derivative in each score, by differences of
      gradients. Its cost is that of two gradients for each item of a list.

    Both arrays are scaled so that the mean Hessian is 1 (with 'constant', so that the
    mean square of the gradients is 1), as for a squared error. `lambda_l2` and
    `min_sum_hessian_in_leaf` then count items, whatever the scale of the loss, and a
    Hessian is at least 0.001, so that no leaf of `min_data_in_leaf` items is refused
    for the default `min_sum_hessian_in_leaf`.

    Examples:
        >>> from tfr_ext import losses
        >>> objective = GradientObjective(losses.SmoothILoss(topn=2))
        >>> gradient, hessian = objective.derivatives(
        ...     np.zeros(5), np.array([0.0, 2.0, 1.0, 0.0, 1.0]), np.array([0, 3, 5]))
        >>> (gradient < 0).tolist(), round(float(hessian.mean()), 3)
        ([False, True, False, False, True], 1.0)
    """

    def __init__(self, loss: tf.keras.losses.Loss, hessian: str = "gradient") -> None:
        """Initialises the objective.

        Args:
            loss: a loss of labels and scores `[batch, list]`, such as one of
                `tfr_ext.losses`, with any reduction.
            hessian: a member of `HESSIANS`.

        Raises:
            ValueError: If the loss is one of distributions, or `hessian` is unknown.
        """
        self._hessian = checks.choice("hessian", hessian, list(HESSIANS))
        if getattr(loss, "RANK", 2) != 2:
            raise ValueError(
                f"`loss` must take one score per item. Received: {loss.name}, which "
                "takes a distribution over grades."
            )
        self._loss = loss
        self._dtype = tf.float64 if hessian == "diagonal" else tf.float32
        self._functions: dict[tuple[str, bool], Callable[..., tf.Tensor]] = {}

    def derivatives(
        self,
        scores: np.ndarray,
        labels: np.ndarray,
        row_splits: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the gradient of the loss, and positive Hessians.

        Raises:
            FloatingPointError: If the gradient is NaN or infinite.
        """
        first = self.gradient(scores, labels, row_splits, weights)
        if self._hessian == "constant":
            size = np.sqrt(np.mean(np.square(first)))
            return first / (size or 1.0), np.ones_like(first)
        second = first
        if self._hessian == "diagonal":
            second = self.diagonal(scores, labels, row_splits, weights)
        sizes = np.abs(second)
        mean = sizes.mean()
        if mean == 0:
            return np.zeros_like(first), np.ones_like(first)
        return first / mean, np.maximum(sizes / mean, _LEAST)

    def gradient(
        self,
        scores: np.ndarray,
        labels: np.ndarray,
        row_splits: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """Returns the gradient of the sum of the losses of the lists, `[num_items]`.

        Args:
            scores: see `derivatives`.
            labels: see `derivatives`.
            row_splits: see `derivatives`.
            weights: see `derivatives`.

        Raises:
            FloatingPointError: If it is NaN or infinite.
        """
        return self._of_items("gradient", scores, labels, row_splits, weights)

    def diagonal(
        self,
        scores: np.ndarray,
        labels: np.ndarray,
        row_splits: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """Returns the second derivative of that sum in each score, `[num_items]`.

        Args:
            scores: see `derivatives`.
            labels: see `derivatives`.
            row_splits: see `derivatives`.
            weights: see `derivatives`.

        Raises:
            FloatingPointError: If it is NaN or infinite.
        """
        return self._of_items("diagonal", scores, labels, row_splits, weights)

    def _of_items(
        self,
        what: str,
        scores: np.ndarray,
        labels: np.ndarray,
        row_splits: np.ndarray,
        weights: np.ndarray | None,
    ) -> np.ndarray:
        """Computes something for each item, in batches of lists of similar length."""
        function = self._function(what, weights is not None)
        given = [scores, labels] if weights is None else [scores, labels, weights]
        dtype = self._dtype.as_numpy_dtype
        found = np.zeros(len(labels))
        lengths = np.diff(row_splits)
        order = np.argsort(lengths, kind="stable")
        for chosen in cut_by_items(order, lengths, _MAX_ITEMS):
            offsets = np.arange(lengths[chosen].max(initial=0))
            mask = offsets < lengths[chosen][:, np.newaxis]
            where = np.where(mask, row_splits[chosen][:, np.newaxis] + offsets, 0)
            padded = [
                np.where(mask, values[where], 0).astype(dtype) for values in given
            ]
            padded[1][~mask] = PADDING_LABEL
            found[where[mask]] = function(*padded).numpy()[mask]
        if not np.isfinite(found).all():
            raise FloatingPointError(
                f"The {what} of {self._loss.name} became NaN or infinite."
            )
        return found

    def _function(self, what: str, has_weights: bool) -> Callable[..., tf.Tensor]:
        """Returns the compiled function that computes something for a batch."""
        key = (what, has_weights)
        if key not in self._functions:
            spec = tf.TensorSpec([None, None], self._dtype)
            self._functions[key] = tf.function(
                getattr(self, f"_{what}_of_batch"),
                input_signature=[spec] * (3 if has_weights else 2),
            )
        return self._functions[key]

    def _gradient_of_batch(
        self, scores: tf.Tensor, labels: tf.Tensor, *weights: tf.Tensor
    ) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(scores)
            total = tf.reduce_sum(self._loss(labels, scores, *weights))
            if getattr(self._loss, "reduction", None) in which_keras.MEANS:
                total *= tf.cast(tf.shape(scores)[0], total.dtype)
        slopes: Any = tape.gradient(total, scores)
        return slopes

    def _diagonal_of_batch(
        self, scores: tf.Tensor, labels: tf.Tensor, *weights: tf.Tensor
    ) -> tf.Tensor:
        width = tf.shape(scores)[1]

        def of_column(column: tf.Tensor) -> tf.Tensor:
            step = _STEP * tf.one_hot(column, width, dtype=scores.dtype)
            after = self._gradient_of_batch(scores + step, labels, *weights)
            before = self._gradient_of_batch(scores - step, labels, *weights)
            return (after[:, column] - before[:, column]) / (2 * _STEP)

        columns = tf.map_fn(
            of_column, tf.range(width), fn_output_signature=scores.dtype
        )
        return tf.transpose(columns)
