"""The scorer: padding costs nothing and reaches no statistic."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tests.helpers import make_lists, widened
from tfr_ext import data, losses, models
from tfr_ext.models import keras_file


def build(**kwargs):
    tf.keras.utils.set_random_seed(0)
    return models.model_builder(3, models.MLPScorer(**kwargs)).build()


def test_padding_changes_neither_scores_nor_statistics():
    features, labels = data.padded_batch(make_lists([4, 2, 1]), np.arange(3))
    wide = widened(features, 3)
    wide_labels = np.pad(labels, [[0, 0], [0, 3]], constant_values=-1)
    states = []
    for x, y in ((features, labels), (wide, wide_labels)):
        model = build(hidden_sizes=[5])
        model.compile("sgd", losses.ListNetLoss())
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


@pytest.mark.parametrize("compact", [True, False])
def test_a_batch_of_nothing_but_padding_leaves_the_model_as_it_is(compact):
    model = build(hidden_sizes=[5], compact=compact)
    model.compile("sgd", losses.ListNetLoss())
    features, labels = data.padded_batch(make_lists([4, 2]), np.arange(2))
    model.train_on_batch(features, labels)
    before = model.get_weights()
    features["mask"][:] = False
    model.train_on_batch(features, -np.ones_like(labels))
    for old, new in zip(before, model.get_weights()):
        np.testing.assert_allclose(new, old, rtol=1e-6)


def test_padding_that_is_computed_changes_nothing():
    """`compact=False`, for XLA, gives what leaving padding out gives."""
    features, labels = data.padded_batch(make_lists([4, 2, 1]), np.arange(3))
    states = []
    for compact, jit in ((True, False), (False, False), (False, True)):
        model = build(hidden_sizes=[5], dropout=0.0, compact=compact)
        model.compile("sgd", losses.ListNetLoss(), jit_compile=jit)
        for _ in range(3):
            model.train_on_batch(
                widened(features, 2),
                np.pad(labels, [[0, 0], [0, 2]], constant_values=-1),
            )
        states.append([*model.get_weights(), model.predict(features, verbose=0)])
    for state in states[1:]:
        for plain, padded in zip(states[0], state):
            np.testing.assert_allclose(padded, plain, rtol=1e-4, atol=1e-6)


def test_variance_of_large_values_is_not_lost():
    """The variance of a constant 1e7 is 0, and that of 1e7 + (0 or 1) is seen."""
    layer = models.ItemBatchNormalization(momentum=0.0)
    x = 1e7 + tf.constant([[0.0, 0.0], [0.0, 4.0]] * 8)
    layer(x, training=True)
    np.testing.assert_allclose(layer.moving_variance, [0.0, 4.0])


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_normalisation_and_its_gradients_are_those_of_float64(shift):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=[300, 5]) + shift).astype(np.float32)
    weights = rng.normal(size=[300, 5])
    layer = models.ItemBatchNormalization(momentum=0.9)
    layer.build([None, 5])
    layer.gamma.assign(rng.normal(size=5))
    layer.beta.assign(rng.normal(size=5))
    x, parts = tf.constant(x), [layer.gamma, layer.beta]
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = layer(x, training=True)
        total = tf.reduce_sum(tf.sin(outputs) * weights)
    exact = [tf.cast(tf.identity(value), tf.float64) for value in [x, *parts]]
    with tf.GradientTape() as exact_tape:
        exact_tape.watch(exact)
        mean, variance = tf.nn.moments(exact[0], [0])
        centered = (exact[0] - mean) / tf.sqrt(variance + layer.epsilon)
        wanted = centered * exact[1] + exact[2]
        exact_total = tf.reduce_sum(tf.sin(wanted) * weights)
    np.testing.assert_allclose(outputs, wanted, atol=1e-5)
    for found, true in zip(
        tape.gradient(total, [x, *parts]), exact_tape.gradient(exact_total, exact)
    ):
        np.testing.assert_allclose(found, true, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(layer.moving_mean, 0.1 * mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.moving_variance, 0.9 + 0.1 * variance, rtol=1e-5)


def test_no_items_leave_the_moving_statistics_as_they_are():
    layer = models.ItemBatchNormalization(momentum=0.5)
    layer(tf.constant([[1.0], [3.0]]), training=True)
    before = layer.get_weights()
    assert layer(tf.zeros([0, 1]), training=True).shape == (0, 1)
    np.testing.assert_array_equal(layer.get_weights(), before)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_keeps_features_scores_and_statistics_in_float32(policy):
    lists = make_lists([4, 2])
    lists.features[:] = lists.features * 1e6  # beyond float16
    features, labels = data.padded_batch(lists, np.arange(2))
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        model = build(hidden_sizes=[8])
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    assert model.get_layer("hidden_1").compute_dtype == policy.replace("mixed_", "")
    model.compile("sgd", losses.ListNetLoss())
    assert np.isfinite(model.train_on_batch(features, labels))
    scores = model(features)
    assert scores.dtype == tf.float32 and np.isfinite(scores).all()
    assert all(np.isfinite(w).all() for w in model.get_weights())


def test_dropout_goes_on_from_a_checkpoint(tmp_path):
    x = tf.ones([1, 200])

    def drawn(layer, times):
        return [layer(x, training=True).numpy() for _ in range(times)]

    whole = models.ResumableDropout(0.3, seed=5)
    expected = drawn(whole, 4)
    first = models.ResumableDropout(0.3, seed=5)
    drawn(first, 2)
    path = tf.train.Checkpoint(layer=first).write(str(tmp_path / "c"))
    resumed = models.ResumableDropout(0.3, seed=5)
    resumed.build(x.shape)
    tf.train.Checkpoint(layer=resumed).read(path)
    np.testing.assert_array_equal(drawn(resumed, 2), expected[2:])
    assert (expected[0] != expected[1]).any()
    other = drawn(models.ResumableDropout(0.3, seed=6), 1)
    assert (expected[0] != other[0]).any()
    kept = np.mean([e > 0 for e in expected])
    assert abs(kept - 0.7) < 0.06
    np.testing.assert_array_equal(whole(x), x)


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


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.05070098 * np.where(x > 0, x, 1.67326324 * np.expm1(x)),
    "gelu": lambda x: x * stats.norm.cdf(x),
    "swish": lambda x: x * _sigmoid(x),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
}


def test_activations_are_what_their_names_say():
    assert list(ACTIVATIONS) == models.ACTIVATIONS
    lists = make_lists([4, 2])
    features, _ = data.padded_batch(lists, np.arange(2))
    for name, function in ACTIVATIONS.items():
        model = build(
            hidden_sizes=[6],
            batch_normalization=False,
            activation=name,
            output_activation="sigmoid",
        )
        hidden, score = (model.get_layer(n) for n in ("hidden_1", "score"))
        x = function(lists.features @ hidden.kernel.numpy() + hidden.bias.numpy())
        expected = _sigmoid(x @ score.kernel.numpy() + score.bias.numpy()).ravel()
        scores = model(features).numpy()
        np.testing.assert_allclose(scores[features["mask"]], expected, rtol=1e-4)
        np.testing.assert_allclose(
            scores[~features["mask"]], models.scorers.PADDING_SCORE
        )


def test_one_sigmoid_layer_drops_inputs():
    """Without hidden layers the scorer is `sigmoid(w x + b)`, dropout that of x."""
    lists = make_lists([4, 2])
    features, _ = data.padded_batch(lists, np.arange(2))
    model = build(
        hidden_sizes=[],
        batch_normalization=False,
        dropout=0.5,
        output_activation="sigmoid",
    )
    assert [w.shape.as_list() for w in model.trainable_weights] == [[3, 1], [1]]
    kernel, bias = (w.numpy() for w in model.trainable_weights)
    scores = model(features).numpy()[features["mask"]]
    expected = _sigmoid(lists.features @ kernel + bias).ravel()
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    # Each input is 0 or twice itself: the score is that of one of 2^3 subsets.
    logits = (
        2
        * (lists.features * kernel.ravel())
        @ np.array(list(itertools.product([0, 1], repeat=3))).T
    )
    dropped = model(features, training=True).numpy()[features["mask"]]
    nearest = np.abs(_sigmoid(logits + bias) - dropped[:, np.newaxis]).min(axis=1)
    np.testing.assert_allclose(nearest, 0, atol=1e-6)
    assert np.abs(dropped - scores).max() > 1e-3


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("compact", "jit", "policy"),
    [(True, False, "float32"), (False, True, "mixed_bfloat16")],
)
def test_the_penalty_adds_rate_times_weight_to_the_gradient(compact, jit, policy):
    """A step of SGD at rate 1 moves each kernel by `0.1 w` more, and nothing else."""
    features, labels = data.padded_batch(make_lists([4, 2, 1]), np.arange(3))
    steps, values = [], []
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        for rate in (0.0, 0.1):
            model = build(hidden_sizes=[5], compact=compact, l2_regularization=rate)
            before = [w.numpy() for w in model.trainable_weights]
            optimizer = tf.keras.optimizers.SGD(1.0)
            model.compile(optimizer, losses.ListNetLoss(), jit_compile=jit)
            values.append(model.train_on_batch(features, labels))
            after = [w.numpy() for w in model.trainable_weights]
            steps.append([new - old for old, new in zip(before, after)])
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    names = [w.name for w in model.trainable_weights]
    assert sum("kernel" in name for name in names) == 2
    penalty = 0.0
    for name, weight, plain, with_penalty in zip(names, before, *steps):
        extra = -0.1 * weight if "kernel" in name else np.zeros_like(weight)
        np.testing.assert_allclose(with_penalty, plain + extra, rtol=1e-4, atol=1e-6)
        penalty += 0.05 * np.sum(weight**2) if "kernel" in name else 0
    np.testing.assert_allclose(values[1], values[0] + penalty, rtol=1e-5)


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
    model.compile("adam", losses.ListNetLoss())
    model.fit(features, labels, verbose=0)
    model.save(str(tmp_path / "model.keras"))
    loaded = keras_file.load(str(tmp_path / "model.keras"))
    np.testing.assert_array_equal(
        loaded.predict(features, verbose=0), model.predict(features, verbose=0)
    )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"hidden_sizes": [0]}, "hidden_sizes"),
        ({"dropout": 1.0}, "dropout"),
        ({"batch_norm_momentum": -0.1}, "batch_norm_momentum"),
        ({"activation": "softmax"}, "activation.*'relu'.*'softmax'"),
        ({"output_activation": "tanh"}, "output_activation.*'sigmoid'.*'tanh'"),
        ({"output_activation": "sigmoid", "num_grades": 3}, "num_grades.*'sigmoid'"),
        ({"l2_regularization": -1.0}, "l2_regularization.*-1"),
    ],
)
def test_wrong_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=name):
        models.MLPScorer(**arguments)


def test_weights_begin_as_in_pytorch_if_wanted():
    model = build(hidden_sizes=[50], initializer="pytorch", batch_norm_epsilon=1e-5)
    for name, inputs in (("hidden_1", 3), ("score", 50)):
        kernel, bias = model.get_layer(name).get_weights()
        limit = inputs**-0.5
        for values in (kernel, bias):
            assert (np.abs(values) <= limit).all() and values.any()
        assert np.abs(kernel).max() > 0.9 * limit
    assert model.get_layer("normalization_1").epsilon == 1e-5
    kernel, bias = build(hidden_sizes=[50]).get_layer("hidden_1").get_weights()
    assert np.abs(kernel).max() <= (6 / 53) ** 0.5 and not bias.any()


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("items", [0, 1, 30])
def test_a_dense_layer_takes_normalised_items_in_parts(items, training, offset):
    x = tf.random.stateless_normal([items, 4], [1, 2]) + offset
    upstream = tf.random.stateless_normal([items, 3], [3, 4])
    found = []
    for dense in (tf.keras.layers.Dense, models.NormalizedDense):
        parts = dense is models.NormalizedDense
        normalize = models.ItemBatchNormalization(momentum=0.5, parts=parts)
        layers = [normalize, dense(3, activation="tanh", kernel_initializer="ones")]
        layers[1](normalize(x))
        normalize.set_weights([np.float32([1, 2, 3, -1]), np.float32([0, 1, -1, 2]),
                               *normalize.get_weights()[2:]])  # fmt: skip
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layers[1](normalize(x, training=training))
        weights = [w for layer in layers for w in layer.trainable_weights]
        slopes = tape.gradient(outputs, [x, *weights], upstream)
        found.append([outputs, *slopes, *normalize.get_weights()])
        config = normalize.get_config()
        assert models.ItemBatchNormalization.from_config(config).get_config() == config
    # In float32, an offset costs digits in both.
    tolerance = 1e-5 * max(1.0, offset / 10)
    for plain, own in zip(*found):
        np.testing.assert_allclose(own, plain, rtol=tolerance, atol=tolerance)


def test_scorers_without_dropout_keep_items_in_parts():
    kinds = {layer.name: type(layer) for layer in build(hidden_sizes=[8, 4]).layers}
    for name in ("hidden_1", "hidden_2", "score"):
        assert kinds[name] is models.NormalizedDense
    for options in ({"dropout": 0.5}, {"compact": False}):
        scorer = build(hidden_sizes=[8], **options)
        assert type(scorer.get_layer("score")) is tf.keras.layers.Dense
