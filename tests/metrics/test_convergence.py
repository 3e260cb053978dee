"""The Sinkhorn error metric against the oracle, and as Keras uses it."""

import numpy as np
import pytest
import tensorflow as tf

from tests.oracles import wass_rank as oracle
from tfr_ext import losses, metrics

ARGUMENTS = [
    {},
    {"regularization": 20.0, "num_iterations": 4, "score_scale": 2.0},
    {"regularization": 0.02, "relevance_gap": 0.0, "num_iterations": 5},
    {"variance_penalty": 0.5, "num_iterations": 1},
]


def make_lists(seed=0):
    rng = np.random.default_rng(seed)
    all_labels = [
        rng.integers(0, 4, 12).astype(float),
        np.zeros(5),
        np.array([2.0]),
        rng.permutation(11) / 4,
        np.array([0.0, 1.0, 1.0]),
    ]
    return [(y, rng.normal(size=len(y))) for y in all_labels]


def padded(lists, width=14):
    """In front of each list is padding, and one list is nothing else."""
    y_true = np.full([len(lists) + 1, width], -1.0)
    y_pred = np.full([len(lists) + 1, width], 1e5)
    for row, (labels, scores) in enumerate(lists):
        y_true[row, -len(labels) :], y_pred[row, -len(labels) :] = labels, scores
    return y_true, y_pred


def errors(lists, **arguments):
    return np.array(
        [oracle.marginal_error(y.tolist(), s.tolist(), **arguments) for y, s in lists]
    )


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_it_is_the_mean_of_the_oracles_errors(arguments):
    lists = make_lists()
    metric = metrics.SinkhornErrorMetric(**arguments)
    expected = errors(lists, **arguments)
    assert expected.max() > 0.01
    metric.update_state(*padded(lists))
    np.testing.assert_allclose(metric.result(), expected.mean(), rtol=1e-5)
    # More batches, one of no list at all.
    metric.update_state(*padded(lists[:2]))
    metric.update_state(*padded([]))
    expected = np.concatenate([expected, expected[:2]])
    np.testing.assert_allclose(metric.result(), expected.mean(), rtol=1e-5)
    metric.reset_state()
    assert metric.result() == 0


def test_each_list_alone_equals_the_oracle():
    lists = make_lists(1)
    for one, expected in zip(lists, errors(lists)):
        metric = metrics.SinkhornErrorMetric(dtype=tf.float64)
        metric.update_state(*padded([one]))
        np.testing.assert_allclose(metric.result(), expected, rtol=1e-9, atol=1e-14)


def test_weights_per_list_and_per_item():
    lists = make_lists()
    expected = errors(lists)
    y_true, y_pred = padded(lists)
    per_list = np.array([2.0, 0.5, 3.0, 0.0, 1.0])
    metric = metrics.SinkhornErrorMetric()
    metric.update_state(y_true, y_pred, [*per_list, 7.0])
    mean = (expected * per_list).sum() / per_list.sum()
    np.testing.assert_allclose(metric.result(), mean, rtol=1e-5)
    # An item's weight counts by its label; where all are 0, all items count alike.
    per_item = np.random.default_rng(3).random(y_true.shape)
    factors = []
    for row, (labels, _) in enumerate(lists):
        importance = labels if labels.any() else np.ones_like(labels)
        factors.append(np.average(per_item[row, -len(labels) :], weights=importance))
    metric = metrics.SinkhornErrorMetric()
    metric.update_state(y_true, y_pred, per_item)
    mean = np.average(expected, weights=factors)
    np.testing.assert_allclose(metric.result(), mean, rtol=1e-5)


def test_ragged_equals_dense():
    lists = make_lists()
    metric = metrics.SinkhornErrorMetric(ragged=True)
    metric.update_state(
        *(tf.ragged.constant([x[i].tolist() for x in lists]) for i in (0, 1))
    )
    np.testing.assert_allclose(metric.result(), errors(lists).mean(), rtol=1e-5)
    with pytest.raises(ValueError, match="ragged=True"):
        metrics.SinkhornErrorMetric()(*[tf.ragged.constant([[1.0], [2.0, 1.0]])] * 2)


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_config_round_trip(arguments):
    metric = metrics.SinkhornErrorMetric(name="mine", ragged=True, **arguments)
    config = metric.get_config()
    assert {**config, **arguments, "name": "mine", "ragged": True} == config
    again = tf.keras.metrics.deserialize(tf.keras.metrics.serialize(metric))
    assert isinstance(again, metrics.SinkhornErrorMetric)
    assert again.get_config() == config


def test_wrong_arguments_are_named():
    for argument, wrong in (("regularization", 0), ("num_iterations", 0)):
        with pytest.raises(ValueError, match=f"`{argument}`"):
            metrics.SinkhornErrorMetric(**{argument: wrong})


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_a_loss_brings_the_metric_with_its_own_arguments(arguments):
    (metric,) = losses.WassRankLoss(ragged=True, **arguments).diagnostics()
    expected = metrics.SinkhornErrorMetric(ragged=True, **arguments)
    assert metric.get_config() == expected.get_config()


def test_a_compiled_model_is_saved_with_it_and_loaded_again(tmp_path):
    inputs = tf.keras.Input([12, 2])
    outputs = tf.keras.layers.Dense(1)(inputs)[:, :, 0]
    model = tf.keras.Model(inputs, outputs)
    loss = losses.WassRankLoss(regularization=5.0, num_iterations=2)
    model.compile(loss=loss, metrics=loss.diagnostics())
    rng = np.random.default_rng(0)
    x = rng.normal(size=[6, 12, 2]).astype(np.float32)
    y = rng.integers(-1, 3, [6, 12]).astype(np.float32)
    expected = model.evaluate(x, y, batch_size=3, verbose=0, return_dict=True)
    scores = model(x).numpy().astype(float)
    mean = errors(
        [(a[a >= 0], b[a >= 0]) for a, b in zip(y, scores)],
        regularization=5.0,
        num_iterations=2,
    ).mean()
    np.testing.assert_allclose(expected["sinkhorn_error"], mean, rtol=1e-4)
    model.save(str(tmp_path / "model.keras"))
    loaded = tf.keras.models.load_model(str(tmp_path / "model.keras"))
    actual = loaded.evaluate(x, y, batch_size=3, verbose=0, return_dict=True)
    np.testing.assert_allclose(
        actual["sinkhorn_error"], expected["sinkhorn_error"], rtol=1e-6
    )
