"""Lists for TensorFlow Ranking's losses, and their values on them."""

import numpy as np
import tensorflow as tf
import tensorflow_ranking as tfr

from tests import helpers

HOST = tfr.keras.losses
KEYS = HOST.RankingLossKey.all_keys()

# No two labels of a list are equal, so that ListMLE has but one order.
LABELS = np.array([[2, 0, 1, 3, 4], [0, 1, 5, 3, 2], [1, 0, 2, -1, -1]], np.float32)
SCORES = np.array(
    [[0.3, -0.2, 1.7, 0.9, -1.1], [2, 0.1, -0.4, 1.2, 0.6], [0.5, 0.2, 0.1, 7, -3]],
    np.float32,
)


def levels(key, scores):
    """Scores as a loss takes them: ordinal loss has three an item."""
    if key == "ordinal_loss":
        return scores[..., tf.newaxis] * tf.constant([1, 0.5, -1], scores.dtype)
    return scores


def value_and_gradient(key, loss, labels, scores, weights=None):
    """`helpers.value_and_gradient` with the same draws each time, in float32."""
    tf.random.set_seed(7)

    def of_levels(labels, scores):
        return loss(labels, levels(key, scores), weights)

    value, slopes = helpers.value_and_gradient(of_levels, labels, scores)
    return value, slopes.astype(np.float32)
