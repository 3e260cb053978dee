"""Noise on features: in training only, at real items only, and resumable."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tests.helpers import make_lists, small_fitter
from tfr_ext import models
from tfr_ext.training import LossConfig, lists_datasets


@pytest.mark.parametrize("jit", [False, True])
def test_noise_is_normal_and_new_in_each_call(jit):
    layer = models.FeatureNoise(0.25, seed=3)
    features, mask = tf.fill([4, 50, 30], 2.0), tf.sequence_mask([50, 9, 0, 30], 50)
    layer.build([features.shape, mask.shape])
    call = tf.function(lambda x: layer(x, training=True), jit_compile=jit)
    first, second = (call((features, mask)).numpy() for _ in range(2))
    for noisy in (first, second):
        assert (noisy[~mask] == 2).all()
        drawn = (noisy[mask] - 2).ravel() / 0.25
        assert stats.kstest(drawn, "norm").pvalue > 0.01
    assert (first[mask] != second[mask]).mean() > 0.99
    if not jit:  # XLA draws other numbers.
        again = models.FeatureNoise.from_config(layer.get_config())
        np.testing.assert_array_equal(again((features, mask), training=True), first)
    for inert in (layer, models.FeatureNoise(0.0, seed=1)):
        np.testing.assert_array_equal(inert((features, mask)), features)


def train(directory, lists, epochs):
    tf.keras.utils.set_random_seed(0)
    transforms = models.FeatureTransforms(
        [models.QueryRank(), models.FeatureNoise(0.5, seed=1)]
    )
    built = small_fitter(
        models.model_builder(3, models.MLPScorer([4]), transforms),
        lists_datasets.ListsDatasets(lists, lists, 4, 0),
        directory,
        epochs,
        LossConfig("list_net_loss"),  # Its graph is built soon.
    )
    return built.train_and_validate()


def test_a_resumed_run_draws_the_noise_of_the_undisturbed_one(tmp_path):
    lists = make_lists([4, 3, 5, 2])
    whole = train(tmp_path / "whole", lists, 2)
    train(tmp_path / "parts", lists, 1)
    parts = train(tmp_path / "parts", lists, 2)
    assert parts.history == whole.history and len(whole.history["loss"]) == 2
    for resumed, weight in zip(parts.model.get_weights(), whole.model.get_weights()):
        np.testing.assert_array_equal(resumed, weight)


@pytest.mark.parametrize("wrong", [-0.1, float("nan"), float("inf")])
def test_the_deviation_is_checked(wrong):
    with pytest.raises(ValueError, match="`stddev`"):
        models.FeatureNoise(wrong, seed=1)
