"""All keys of `tfr_ext.losses`, with inputs that each of them takes."""

import tensorflow as tf

from tests.losses import cases
from tfr_ext import losses

KEYS = losses.keys()
# What they draw depends on the padded size, and on whether a graph draws it.
SAMPLED = (
    "yeti_logistic_loss",
    "gumbel_approx_ndcg_loss",
    "coupled_rankdistil_loss",
)
MULTINOMIAL = "pointwise_kl_multinomial_loss"
# Their highest label is 1.
UP_TO_1 = ("pointwise_kl_binomial_loss", "listwise_kl_gaussian_loss")
# How many scores an item has, where it is not one.
LEVELS = {MULTINOMIAL: 3, "ordinal_loss": 1}


def taken(key, labels, scores):
    """Labels and scores `[batch, list]` as the loss of a key takes them."""
    if key == MULTINOMIAL:
        return cases.distributions(labels), cases.grade_scores(scores)
    if key in UP_TO_1:
        labels = tf.where(labels > 0, labels / 3, labels)
    return labels, scores[..., tf.newaxis] if key in LEVELS else scores


def model(keys):
    """A model of features `[batch, 5, 4]` with an output for each key, by its name."""
    features = tf.keras.Input([5, 4])
    outputs = {}
    for key in keys:
        scores = tf.keras.layers.Dense(LEVELS.get(key, 1))(features)
        shape = [5, LEVELS[key]] if key in LEVELS else [5]
        outputs[key] = tf.keras.layers.Reshape(shape, name=key)(scores)
    return tf.keras.Model(features, outputs)
