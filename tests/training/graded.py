"""A pipeline that trains a distribution over grades."""

import tensorflow as tf

from tests.helpers import hparams
from tfr_ext import models
from tfr_ext.training import pipeline

MULTINOMIAL = "pointwise_kl_multinomial_loss"


def make_pipeline(directory, lists, epochs, values=(0.0, 0.75, 1.0), **given):
    tf.keras.utils.set_random_seed(0)
    given = {"loss": MULTINOMIAL, "grade_values": list(values), **given}
    return pipeline.RankingPipeline(
        models.model_builder(3, models.MLPScorer([4], num_grades=len(values))),
        pipeline.ListsDatasetBuilder(lists, lists, 4, 0, num_grades=len(values)),
        hparams(directory, epochs, **given),
    )
