"""Ranks and standard scores within lists: ties, extremes, and long lists under XLA."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tfr_ext import models

LARGEST = float(np.finfo(np.float32).max)


def of_lists(layer, rows, jit=False):
    """What a layer gives for lists of one feature, each as long as it is."""
    width = max(map(len, rows)) + 2
    x = np.full([len(rows), width, 1], np.nan, np.float32)
    mask = np.zeros([len(rows), width], bool)
    for b, row in enumerate(rows):
        x[b, 1 : 1 + len(row), 0], mask[b, 1 : 1 + len(row)] = row, True
    out = tf.function(layer, jit_compile=jit)((tf.constant(x), tf.constant(mask)))
    assert not out.numpy()[~mask].any()
    return [out.numpy()[b, mask[b], 0] for b in range(len(rows))]


@pytest.mark.parametrize("longest", [40, 62, 63, 90])
@pytest.mark.parametrize("jit", [False, True])
def test_ranks_are_those_of_scipy(jit, longest):
    rng = np.random.default_rng(0)
    sizes = [*range(2, longest, 3), longest]
    rows = [rng.integers(-n, n, n).astype(np.float32) / 3 for n in sizes]
    rows += [np.float32([1e30, -1e30, 0.0, -0.0, 1e30]), np.float32([5, 5, 5])]
    rows += [np.float32([LARGEST, -LARGEST, LARGEST])]
    for row, found in zip(rows, of_lists(models.QueryRank(), rows, jit)):
        expected = (stats.rankdata(row) - 1) / (len(row) - 1)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    one, nothing = of_lists(models.QueryRank(), [[7.0], []], jit)
    assert one == [0.5] and not len(nothing)


def test_equal_values_share_a_rank_in_spite_of_rounding():
    x = np.float32(np.log1p(3.0))
    (found,) = of_lists(models.QueryRank(), [[x, np.nextafter(x, np.float32(9)), 0, x]])
    np.testing.assert_allclose(found, [2 / 3, 2 / 3, 0, 2 / 3], rtol=1e-6)


@pytest.mark.parametrize("jit", [False, True])
def test_standard_scores_are_those_of_numpy(jit):
    rng = np.random.default_rng(1)
    rows = [[1e6, 1e6 + 1, 1e6 + 4], [1e30, -1e30, 0], rng.normal(size=30) * 1e-30]
    rows += [[LARGEST, -LARGEST, LARGEST], rng.normal(size=200), [1.0, 2.0]]
    for row, found in zip(rows, of_lists(models.QueryStandard(), rows, jit)):
        x = np.float32(row).astype(np.float64)
        np.testing.assert_allclose(found, (x - x.mean()) / x.std(), atol=2e-5)
    for found in of_lists(models.QueryStandard(), [[0.1] * 5, [7.0], []], jit):
        assert not found.any()


@pytest.mark.parametrize("jit", [False, True])
def test_the_items_of_a_list_may_stand_in_any_order(jit):
    rng = np.random.default_rng(2)
    row = np.round(rng.normal(size=25) * 3).astype(np.float32)
    order = rng.permutation(25)
    for layer in (models.QueryRank(), models.QueryStandard(), models.QueryMinMax()):
        one, other = of_lists(layer, [row, row[order]], jit)
        np.testing.assert_allclose(one[order], other, atol=1e-6)


@pytest.mark.parametrize("size", [[0, 3, 2], [2, 0, 2], [2, 3, 0]])
def test_empty_batches_stay_empty(size):
    for layer in (models.QueryRank(), models.QueryStandard()):
        found = layer((tf.zeros(size), tf.ones(size[:2], tf.bool)))
        assert found.shape == size


@pytest.mark.parametrize("jit", [False, True])
def test_long_lists_need_no_pairs(jit):
    """All pairs of the items of 150,000 rows would need 600 gigabytes."""
    x = tf.random.stateless_normal([8, 2000, 136], [1, 2])
    found = tf.function(models.QueryRank(), jit_compile=jit)(
        (x, tf.fill([8, 2000], True))
    )
    order = np.argsort(found.numpy()[3, :, 7])
    np.testing.assert_array_equal(order, np.argsort(x.numpy()[3, :, 7]))
