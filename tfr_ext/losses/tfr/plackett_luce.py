"""The two Plackett-Luce losses of TensorFlow Ranking, computed in the log domain.

TensorFlow Ranking sums plain exponentials, which gives -inf for ListMLE once an item is
about 88 below the best, and counts padding as items with a score of log(1e-10).
"""

from __future__ import annotations

import tensorflow as tf
import tensorflow_ranking as tfr
from tensorflow_ranking.python import losses_impl

from tfr_ext.core import inputs

# Used instead of minus infinity, whose gradient would be NaN; below any score.
_NEVER = tf.float32.min


def negative_log_likelihood(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns minus the log-probability that each item is drawn before all later ones.

    Args:
        scores: scores in the order of the draws, padding last, `[batch, list]`.
        mask: True at real items, `[batch, list]`.

    Returns:
        A tensor like `scores`, 0 at padding.
    """
    # In float64, as the sums' gradient takes logarithms the size of the scores apart.
    exact = tf.cast(tf.where(mask, scores, 0), tf.float64)
    top = tf.reduce_max(tf.where(mask, exact, exact.dtype.min), 1, keepdims=True)
    exact = tf.where(mask, exact - tf.stop_gradient(top), _NEVER)
    rest = tf.math.cumulative_logsumexp(exact, axis=1, reverse=True)
    return tf.cast(tf.where(mask, rest - exact, 0), scores.dtype)


class ListMLE(losses_impl.ListMLELoss):
    """TensorFlow Ranking's ListMLE, finite and unaffected by padding."""

    def _normalize_weights_impl(
        self, labels: tf.Tensor, weights: tf.Tensor | None
    ) -> tf.Tensor:
        # A list whose labels are all 0 has a value. TensorFlow Ranking drops it if
        # there are weights, and only then.
        if weights is None:
            return 1.0
        mask = inputs.real_items(labels)
        return inputs.list_weights(tf.where(mask, labels, 0), mask, weights)

    def _compute_unreduced_loss_impl(
        self, labels: tf.Tensor, logits: tf.Tensor, mask: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        mask = inputs.real_items(labels) if mask is None else mask
        # The same draws as TensorFlow Ranking's, hence the same order of ties.
        labels, logits, mask = tfr.utils.sort_by_scores(
            tf.where(mask, labels, -1.0),
            [labels, logits, mask],
            shuffle_ties=True,
            seed=37,
        )
        nll = negative_log_likelihood(logits, mask)
        if self._lambda_weight is not None:
            ranks = tf.cumsum(tf.ones_like(labels, tf.int32), axis=1)
            nll *= self._lambda_weight.individual_weights(labels, ranks)
        value = tf.reduce_sum(nll, axis=1, keepdims=True)
        return value, tf.ones_like(value)


class CoupledRankDistil(losses_impl.CoupledRankDistilLoss):
    """TensorFlow Ranking's RankDistil, exact for any scores, unaffected by padding."""

    def _compute_unreduced_loss_impl(
        self, labels: tf.Tensor, logits: tf.Tensor, mask: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        mask = inputs.real_items(labels) if mask is None else mask
        labels = tf.where(mask, labels, 0)
        batch, size = tf.unstack(tf.shape(labels))
        samples = self._sample_size
        # The same draws as TensorFlow Ranking's.
        teacher = tf.repeat(labels[:, tf.newaxis], samples, axis=1)
        teacher += losses_impl._sample_gumbel([batch, samples, size], seed=37)
        teacher = tf.where(mask[:, tf.newaxis], teacher, _NEVER)
        teacher = tf.math.log(tf.nn.softmax(teacher) + 1e-10)
        flat_mask = tf.repeat(mask, samples, axis=0)
        logits, flat_mask = tfr.utils.sort_by_scores(
            tf.reshape(teacher, [-1, size]),
            [tf.repeat(logits, samples, axis=0), flat_mask],
            shuffle_ties=True,
            seed=37,
            mask=flat_mask,
        )
        nll = negative_log_likelihood(logits, flat_mask)[:, : self._topk]
        value = tf.reshape(tf.reduce_sum(nll, axis=1), [-1, samples])
        relevant = tf.reduce_any(labels > 0, axis=1, keepdims=True)
        return (
            tf.reduce_mean(value, axis=1, keepdims=True),
            tf.cast(relevant, value.dtype),
        )
