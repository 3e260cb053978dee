"""A fitter that trains a distribution over grades."""

import tensorflow as tf

from tests.helpers import small_fitter
from tfr_ext import models
from tfr_ext.training import LossConfig, lists_datasets

MULTINOMIAL = "pointwise_kl_multinomial_loss"


def make_fitter(directory, lists, epochs, values=(0.0, 0.75, 1.0), **given):
    tf.keras.utils.set_random_seed(0)
    given = {"loss": LossConfig(MULTINOMIAL), "grade_values": list(values), **given}
    return small_fitter(
        models.model_builder(3, models.MLPScorer([4], num_grades=len(values))),
        lists_datasets.ListsDatasets(lists, lists, 4, 0, num_grades=len(values)),
        directory,
        epochs,
        **given,
    )
