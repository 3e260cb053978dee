"""TensorFlow Ranking's computations of single losses, with their faults fixed.

Each class replaces the one that a loss of `tfr.keras.losses` uses for its computation.
"""

from __future__ import annotations

import tensorflow as tf
import tensorflow_ranking as tfr
from tensorflow_ranking.python import losses_impl

from tfr_ext.core import inputs


def below(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns scores, finite or NaN, with padding well below all real items.

    TensorFlow Ranking puts padding about 1e-6 below, which rounding may undo.
    """
    lowest = tf.where(mask, scores, scores.dtype.max)
    lowest = tf.stop_gradient(tf.reduce_min(lowest, axis=1, keepdims=True))
    return tf.where(mask, scores, lowest - tf.abs(lowest) - 1)


def without_offset(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the scores less an offset of all, none further from 0 than it was.

    What is added to far scores is rounded: items close to 0 must not move away from it.
    """
    lowest = tf.reduce_min(tf.where(mask, scores, scores.dtype.max), 1, keepdims=True)
    highest = tf.reduce_max(tf.where(mask, scores, scores.dtype.min), 1, keepdims=True)
    offset = tf.maximum(lowest, 0) + tf.minimum(highest, 0)
    return scores - tf.stop_gradient(offset)


class PairwiseHinge(losses_impl.PairwiseHingeLoss):
    """TensorFlow Ranking's hinge loss, exact in graphs even for large scores."""

    def _pairwise_loss(self, pairwise_logits: tf.Tensor) -> tf.Tensor:
        # A graph turns TensorFlow Ranking's 1 - (x - y) into (1 + y) - x, which for two
        # equal scores of 1e8 is 0 instead of 1.
        return 1 - tf.minimum(1.0, pairwise_logits)


class PairwiseLogistic(losses_impl.PairwiseLogisticLoss):
    """TensorFlow Ranking's logistic loss, with the right slope at equal scores."""

    def _pairwise_loss(self, pairwise_logits: tf.Tensor) -> tf.Tensor:
        # TensorFlow Ranking's relu(-x) + log1p(exp(-abs(x))) has slope 0 at 0.
        return tf.math.softplus(-pairwise_logits)


class PairwiseMSE(losses_impl.PairwiseMSELoss):
    """TensorFlow Ranking's squared loss of pairs, unaffected by pairs of weight 0."""

    def _compute_unreduced_loss_impl(
        self, labels: tf.Tensor, logits: tf.Tensor, mask: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        losses, weights = super()._compute_unreduced_loss_impl(labels, logits, mask)
        # The square of distant scores is infinite, and NaN when multiplied by a weight
        # of 0.
        beside = tf.equal(weights, 0) & tf.math.is_inf(losses)
        return tf.where(beside, 0.0, losses), weights


class UniqueSoftmax(losses_impl.UniqueSoftmaxLoss):
    """TensorFlow Ranking's unique softmax, with each list on its own."""

    def _compute_unreduced_loss_impl(
        self, labels: tf.Tensor, logits: tf.Tensor, mask: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        mask = inputs.real_items(labels) if mask is None else mask
        labels, logits = (tf.where(mask, x, 0) for x in (labels, logits))
        # An item is drawn from itself and the items of lower labels. Its own score is
        # there even if it is NaN, to keep NaN visible.
        drawn = labels[:, :, tf.newaxis] > labels[:, tf.newaxis]
        drawn &= mask[:, tf.newaxis]
        drawn |= tf.eye(tf.shape(logits)[1], dtype=tf.bool)
        others = tf.where(drawn, logits[:, tf.newaxis], logits.dtype.min)
        # Relative to the best: the items that decide are close to it.
        best = tf.stop_gradient(tf.reduce_max(others, axis=2))
        total = tf.reduce_sum(tf.exp(others - best[:, :, tf.newaxis]), axis=2)
        each = tf.math.log(total) - (logits - best)
        gains = tf.pow(2.0, labels) - 1
        value = tf.reduce_sum(each * gains, axis=1, keepdims=True)
        return value, tf.ones_like(value)


class GumbelSampler(losses_impl.GumbelSampler):
    """TensorFlow Ranking's sampler with the same draws, but without its faults.

    TensorFlow Ranking's sampler ties all items that are 46 or more below the best, and
    XLA cannot compile it if there are weights.
    """

    def sample(
        self, labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
        """Draws Gumbel noise as `losses_impl.GumbelSampler`, up to a constant shift."""
        batch, size = tf.unstack(tf.shape(logits))
        shape = [batch, self._sample_size, size]
        noise = losses_impl._sample_gumbel(shape, seed=self._seed)
        logits = without_offset(logits, inputs.real_items(labels))
        logits = (logits[:, tf.newaxis] + noise) / self._temperature
        labels, weights = (
            None if x is None else tf.repeat(x, self._sample_size, axis=0)
            for x in (labels, weights)
        )
        logits = tf.reshape(logits, tf.shape(labels))
        return labels, below(logits, inputs.real_items(labels)), weights


# Used instead of minus infinity, whose gradient would be NaN; below any score.
_NEVER = tf.float32.min


def negative_log_likelihood(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns minus the log-probability that each item is drawn before all later ones.

    Items are in the order of the draws, padding last, where the result is 0.
    """
    # In float64, as the sums' gradient takes logarithms the size of the scores apart.
    exact = tf.cast(tf.where(mask, scores, 0), tf.float64)
    top = tf.reduce_max(tf.where(mask, exact, exact.dtype.min), 1, keepdims=True)
    exact = tf.where(mask, exact - tf.stop_gradient(top), _NEVER)
    rest = tf.math.cumulative_logsumexp(exact, axis=1, reverse=True)
    return tf.cast(tf.where(mask, rest - exact, 0), scores.dtype)


class ListMLE(losses_impl.ListMLELoss):
    """TensorFlow Ranking's ListMLE, finite and unaffected by padding.

    TensorFlow Ranking sums plain exponentials, which gives -inf once an item is about
    88 below the best, and counts padding as items with a score of log(1e-10).
    """

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
