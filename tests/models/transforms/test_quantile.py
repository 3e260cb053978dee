"""Quantiles of the training data, against scikit-learn."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.preprocessing import QuantileTransformer

from tests.helpers import make_lists
from tfr_ext import models
from tfr_ext.models.transforms import transform_forms


def lists_of(columns, lengths):
    lists = make_lists(lengths, num_features=columns.shape[1])
    lists.features[:] = columns
    return lists


def columns(count, seed=0):
    """A smooth feature, one with many ties, one that is nearly always 0, a constant."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=[count, 5]) * [1, 2, 30, 1, 1e20]
    x[:, 1] = np.round(x[:, 1])
    x[:, 2] = np.maximum(x[:, 2] - 40, 0)
    x[:, 3] = 0.1
    return x.astype(np.float32)


def applied(layer, x, jit=False):
    call = tf.function(layer, jit_compile=jit)
    return call((tf.constant(x[np.newaxis]), tf.fill([1, len(x)], True))).numpy()[0]


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(("form", "count"), [("quantile", 100), ("quantile:7", 7)])
@pytest.mark.parametrize("items", [51, 600])
def test_quantiles_are_those_of_scikit_learn(form, count, items, jit):
    x = columns(items)
    (layer,) = models.feature_transforms([form], lists_of(x, [items])).layers
    expected = QuantileTransformer(n_quantiles=min(count, items)).fit(x)
    # The values themselves, others, and others far beyond them.
    other = columns(300, seed=1)
    other[::3] *= 9
    for values in (x, other):
        found, theirs = applied(layer, values, jit), expected.transform(values)
        if count >= items:
            # A quantile for each item: scikit-learn's own rounding, of levels such as
            # 0.58 * 100, then moves one off a value that several items have.
            np.testing.assert_allclose(found, theirs, atol=0.5 / (items - 1) + 2e-5)
            found, theirs = found[:, [0, 3, 4]], theirs[:, [0, 3, 4]]
        np.testing.assert_allclose(found, theirs, atol=2e-5)


def test_a_value_that_is_equal_up_to_rounding_has_the_share_of_the_value():
    x = np.float32([0.0] * 5 + [0.3] * 10 + [1.0] * 5)[:, np.newaxis]
    (layer,) = models.feature_transforms(["quantile"], lists_of(x, [20])).layers
    near = np.nextafter(np.float32([0.3] * 2), np.float32([0, 1]))[:, np.newaxis]
    np.testing.assert_allclose(applied(layer, near), 0.5, atol=0.03)
    assert applied(layer, near)[0] == applied(layer, near)[1]


def test_missing_values_are_left_out():
    x = columns(200)
    x[::4, 0] = np.nan
    x[:, 1] = np.nan
    train = lists_of(x, [200])
    layers = models.feature_transforms(["quantile:11"], train, "mean").layers
    found = layers[1].get_config()["quantiles"]
    expected = QuantileTransformer(n_quantiles=11).fit(np.nan_to_num(x, nan=0.0))
    expected_first = np.nanpercentile(x[:, 0], np.linspace(0, 100, 11))
    np.testing.assert_allclose(found[0], expected_first, rtol=1e-5)
    np.testing.assert_allclose(found[1], 0)
    np.testing.assert_allclose(found[2], expected.quantiles_[:, 2], rtol=1e-5)


def test_pieces_give_the_quantiles_of_all_items_or_of_a_sample(monkeypatch):
    x = columns(900)
    train = lists_of(x, [30] * 30)
    pieces = [train.select(range(a, a + 5)) for a in range(0, 30, 5)]
    whole, parts = (
        models.feature_transforms(["quantile:9"], lists).layers[0].get_config()
        for lists in (train, pieces)
    )
    assert whole["quantiles"] == parts["quantiles"]
    monkeypatch.setattr(transform_forms, "SAMPLE_SIZE", 200)
    (sampled,) = models.feature_transforms(["quantile:9"], pieces).layers
    levels = applied(sampled, x)[:, 0] - applied(models.Quantile(**whole), x)[:, 0]
    # Three standard errors of a median of 200.
    assert 0 < np.abs(levels).max() < 3 * 0.5 / np.sqrt(200)
