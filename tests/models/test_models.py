"""The scorer: padding costs nothing and reaches no statistic."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import make_lists
from tfr_ext import data, losses, models


def build(**kwargs):
    tf.keras.utils.set_random_seed(0)
    return models.model_builder(3, models.MLPScorer(**kwargs)).build()


def widened(features, extra):
    """The same lists with more padding, full of junk."""
    wide = np.pad(
        features["float_features"], [[0, 0], [0, extra], [0, 0]], constant_values=7e5
    )
    wide[:, :-extra][~features["mask"]] = np.nan
    return {
        "float_features": wide,
        "mask": np.pad(features["mask"], [[0, 0], [0, extra]]),
    }


def test_padding_changes_neither_scores_nor_statistics():
    features, labels = data.padded_batch(make_lists([4, 2, 1]), np.arange(3))
    wide = widened(features, 3)
    wide_labels = np.pad(labels, [[0, 0], [0, 3]], constant_values=-1)
    states = []
    for x, y in ((features, labels), (wide, wide_labels)):
        model = build(hidden_sizes=[5])
        model.compile("sgd", losses.SmoothILoss())
        model.train_on_batch(x, y)
        states.append(([w.numpy() for w in model.weights], model.predict(x, verbose=0)))
    for narrow, padded in zip(states[0][0], states[1][0]):
        np.testing.assert_allclose(padded, narrow, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(states[1][1][:, :4], states[0][1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        states[0][1][~features["mask"]], np.log(1e-10), rtol=1e-6
    )


def test_batch_statistics_are_those_of_the_real_items():
    lists = make_lists([4, 2, 1])
    features, _ = data.padded_batch(lists, np.arange(3))
    model = build(hidden_sizes=[], batch_norm_momentum=0.0)
    model(features, training=True)
    layer = model.get_layer("input_normalization")
    np.testing.assert_allclose(
        layer.moving_mean, lists.features.mean(axis=0), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        layer.moving_variance, lists.features.var(axis=0), rtol=1e-4
    )


def test_scores_equal_the_network_computed_by_hand():
    lists = make_lists([4, 2])
    features, _ = data.padded_batch(lists, np.arange(2))
    model = build(hidden_sizes=[6, 5])
    for weight in model.weights:  # moving statistics too
        weight.assign(tf.random.stateless_uniform(weight.shape, [1, 2]) + 0.1)
    x = lists.features

    def normalized(x, name):
        layer = model.get_layer(name)
        scale = layer.gamma / np.sqrt(layer.moving_variance + layer.epsilon)
        return (x - layer.moving_mean) * scale + layer.beta

    x = normalized(x, "input_normalization")
    for i in (1, 2):
        layer = model.get_layer(f"hidden_{i}")
        x = normalized(
            np.maximum(x @ layer.kernel + layer.bias, 0), f"normalization_{i}"
        )
    layer = model.get_layer("score")
    expected = (x @ layer.kernel + layer.bias).numpy().ravel()
    np.testing.assert_allclose(
        model.predict(features, verbose=0)[features["mask"]], expected, rtol=1e-4
    )


def test_sizes_follow_the_arguments():
    paper = build()
    assert [
        layer.name for layer in paper.layers if paper.get_layer(layer.name).weights
    ] == [
        "input_normalization",
        "hidden_1",
        "normalization_1",
        "score",
    ]
    assert paper.get_layer("hidden_1").units == 1024
    assert paper.get_layer("normalization_1").momentum == 0.9
    plain = build(hidden_sizes=[4, 2], batch_normalization=False, dropout=0.5)
    names = [layer.name for layer in plain.layers]
    assert "dropout_2" in names and "input_normalization" not in names


def test_a_saved_model_loads_without_custom_objects(tmp_path):
    features, labels = data.padded_batch(make_lists([4, 2]), np.arange(2))
    model = build(hidden_sizes=[5])
    model.compile("adam", losses.SmoothILoss())
    model.fit(features, labels, verbose=0)
    model.save(str(tmp_path / "model.keras"))
    loaded = tf.keras.models.load_model(str(tmp_path / "model.keras"))
    np.testing.assert_array_equal(
        loaded.predict(features, verbose=0), model.predict(features, verbose=0)
    )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"hidden_sizes": [0]}, "hidden_sizes"),
        ({"dropout": 1.0}, "dropout"),
        ({"batch_norm_momentum": -0.1}, "batch_norm_momentum"),
    ],
)
def test_wrong_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=name):
        models.MLPScorer(**arguments)
