"""Scorers with self-attention: padding is invisible, and lists are apart."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import make_lists, widened
from tfr_ext import data, losses, models
from tfr_ext.core import blocks
from tfr_ext.models import keras_file, presets, self_attention
from tfr_ext.training import ModelConfig

SIZES = {
    "hidden_sizes": (4,),
    "num_layers": 2,
    "num_heads": 2,
    "attention_size": 3,
    "feed_forward_factor": 2,
    "batch_normalization": True,
    "dropout": 0.0,
}
NAMES = list(presets.PRESETS)
ATTENTIVE = ["kl_transformer", "dasalc", "transformer"]


def build(name, num_grades=None, compact=True, initializer="glorot", **given):
    """A small model by the name of its scorer."""
    tf.keras.utils.set_random_seed(0)
    preset = presets.PRESETS[name]
    small = {k: v for k, v in {**SIZES, **given}.items() if k in preset.defaults}
    for fixed in preset.fixed:
        small.pop(fixed)
    options = {**dict.fromkeys(presets.OPTIONS), **small}
    if num_grades:
        options["output_activation"] = "linear"
    others = {"compact": compact, "initializer": initializer}
    scorer = presets.scorer(name, options, num_grades=num_grades, **others)
    return models.model_builder(3, scorer).build()


def batch(lengths=(4, 2, 1), seed=0):
    return data.padded_batch(make_lists(lengths, seed=seed), np.arange(len(lengths)))


def warmed(name, **given):
    """A model whose weights, statistics included, are not those of the start."""
    model = build(name, **given)
    for number, weight in enumerate(model.weights):
        if weight.dtype == "int64" or weight.dtype == tf.int64:
            continue
        drawn = tf.random.stateless_uniform(weight.shape, [number, 3])
        weight.assign(drawn + 0.1 if "moving" in weight.name else 1.5 * drawn - 0.6)
    return model


def step(model, features):
    """Scores in training, and the gradient of the loss in features and weights."""
    x = {k: tf.constant(v) for k, v in features.items()}
    with tf.GradientTape() as tape:
        tape.watch(x["float_features"])
        scores = model(x, training=True)
        value = tf.reduce_sum(tf.where(x["mask"], tf.sin(3 * scores), 0.0))
    return scores, tape.gradient(value, [x["float_features"], *model.trainable_weights])


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_padding_is_invisible_and_items_may_come_in_any_order(name, compact):
    features, labels = batch()
    wide = widened(features, 3)  # with NaN at padding
    order = np.random.default_rng(0).permutation(7)
    moved = {k: v[:, order] for k, v in wide.items()}
    found = [step(warmed(name, compact=compact), x) for x in (features, wide)]
    again, slopes = step(warmed(name, compact=compact), moved)
    real = features["mask"]
    for scores, gradients in found:
        np.testing.assert_allclose(
            scores.numpy()[:, :4][real], found[0][0][real], rtol=1e-4, atol=1e-5
        )
        assert not gradients[0].numpy()[:, :4][~real].any()
        for ours, theirs in zip(gradients[1:], found[0][1][1:]):
            assert np.isfinite(ours).all()
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        again, found[1][0].numpy()[:, order], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        slopes[0], found[1][1][0].numpy()[:, order], rtol=1e-3, atol=1e-4
    )


@pytest.mark.two_graphs
@pytest.mark.parametrize("name", NAMES)
def test_no_list_sees_another_and_odd_lists_have_finite_scores(name):
    model = warmed(name)
    features, _ = batch()
    together = model(features).numpy()
    for row in range(3):
        own = {k: v[row : row + 1] for k, v in features.items()}
        np.testing.assert_allclose(
            model(own).numpy(), together[row : row + 1], rtol=1e-4, atol=1e-6
        )
    empty = {**features, "mask": np.zeros_like(features["mask"])}
    np.testing.assert_allclose(model(empty), models.scorers.PADDING_SCORE)
    before = model.get_weights()
    _, gradients = step(model, empty)
    assert all(g is None or not np.any(g) for g in gradients)
    for old, new in zip(before, model.get_weights()):
        np.testing.assert_array_equal(new, old)


@pytest.mark.parametrize("name", ATTENTIVE)
def test_items_see_their_list(name):
    model, features = warmed(name), batch()[0]
    alone = {k: v[:1, :1] for k, v in features.items()}
    both = {k: v[:1, :2] for k, v in features.items()}
    assert abs(model(alone)[0, 0] - model(both)[0, 0]) > 1e-4


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", ATTENTIVE)
def test_half_precision_and_grades(name, policy):
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        model = build(name, num_grades=3)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    features, _ = batch()
    features["float_features"] *= 1e5  # beyond float16
    scores = model(features, training=True)
    assert scores.shape == [3, 4, 3] and scores.dtype == tf.float32
    _, gradients = step(build(name), features)
    assert np.isfinite(scores).all() and all(np.isfinite(g).all() for g in gradients)


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["dasalc", "transformer", "kl_transformer"])
def test_a_compiled_step_takes_the_same_step(name):
    """With padding left out, computed in vain, and by XLA."""
    features, labels = batch()
    wide, states = widened(features, 1), []
    wide_labels = np.pad(labels, [[0, 0], [0, 1]], constant_values=-1)
    for compact, jit in ((True, False), (False, True)):
        model = build(name, compact=compact, num_layers=1)
        model.compile("sgd", losses.ListNetLoss(), jit_compile=jit)
        for _ in range(2):
            model.train_on_batch(wide, wide_labels)
        states.append([*model.get_weights(), model.predict(features, verbose=0)])
    for ours, theirs in zip(*states):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.first_case("name")
@pytest.mark.parametrize(
    "given",
    [
        {"dropout": 0.2, "l2_regularization": 0.1, "initializer": "pytorch"},
        {"num_grades": 3},
        {"compact": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", NAMES)
def test_what_each_scorer_consists_of_may_be_loaded(name, given, tmp_path):
    model, path = build(name, **given), str(tmp_path / "model.keras")
    model.save(path)
    assert len(keras_file.load(path).weights) == len(model.weights)


@pytest.mark.parametrize("name", ATTENTIVE)
def test_a_saved_model_loads_without_custom_objects(name, tmp_path):
    features, _ = batch()
    model = warmed(name, l2_regularization=0.1)
    model.save(str(tmp_path / "model.keras"))
    loaded = keras_file.load(str(tmp_path / "model.keras"))
    np.testing.assert_array_equal(loaded(features), model(features))
    np.testing.assert_allclose(sum(loaded.losses), sum(model.losses))
    kernels = [
        w for w in model.trainable_weights if "kernel" in getattr(w, "path", w.name)
    ]
    np.testing.assert_allclose(
        sum(model.losses),
        sum(0.05 * np.sum(w.numpy() ** 2) for w in kernels),
        rtol=1e-5,
    )


def attended_by_hand(x, layer, lengths):
    """Self-attention in float64, list by list, item by item and head by head."""
    weights = {}
    for weight in layer.weights:
        path = getattr(weight, "path", weight.name).split("/")
        weights[path[-2], path[-1].split(":")[0]] = weight.numpy().astype(np.float64)
    query, key, value, out = (
        (weights[part, "kernel"], weights[part, "bias"])
        for part in ("query", "key", "value", "attention_output")
    )
    found, start = [], 0
    heads, size = query[1].shape
    for length in lengths:
        items = x[start : start + length]
        start += length
        for item in items:
            total = out[1].copy()
            for h in range(heads):
                q = item @ query[0][:, h] + query[1][h]
                logits = [
                    q @ (other @ key[0][:, h] + key[1][h]) / np.sqrt(size)
                    for other in items
                ]
                shares = np.exp(np.array(logits) - max(logits))
                shares /= shares.sum()
                seen = sum(
                    share * (other @ value[0][:, h] + value[1][h])
                    for share, other in zip(shares, items)
                )
                total += seen @ out[0][h]
            found.append(total)
    return np.array(found)


def test_the_kl_transformer_equals_the_network_computed_by_hand():
    """Three features and two heads, so that heads do not divide the features."""
    lengths = (4, 2, 1)
    lists = make_lists(lengths)
    features, _ = batch(lengths)
    model = warmed("kl_transformer", batch_normalization=False)
    assert model.get_layer("attention").get_config()["key_dim"] == 2

    def dense(x, name):
        layer = model.get_layer(name)
        return x @ layer.kernel.numpy().astype(float) + layer.bias.numpy()

    for training in (False, True):

        def normalized(x, name, training=training):
            layer = model.get_layer(name)
            mean, variance = layer.moving_mean.numpy(), layer.moving_variance.numpy()
            if training:
                mean, variance = x.mean(axis=0), x.var(axis=0)
            scale = layer.gamma.numpy() / np.sqrt(variance + layer.epsilon)
            return (x - mean) * scale + layer.beta.numpy()

        x = attended_by_hand(
            lists.features.astype(float), model.get_layer("attention"), lengths
        )
        first = normalized(x, "regularization_input")
        y = np.maximum(dense(first, "regularization_hidden"), 0)
        y = dense(
            normalized(y, "regularization_normalization"), "regularization_linear"
        )
        x = normalized(first + y, "regularization_output")
        expected = dense(np.maximum(dense(x, "hidden_1"), 0), "score")[:, 0]
        scores = model(features, training=training).numpy()[features["mask"]]
        np.testing.assert_allclose(scores, expected, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("block", [None, 40])
def test_attention_is_that_of_keras(block, monkeypatch):
    """Values and gradients, at once and in blocks, as Keras' layer without them."""
    if block:
        monkeypatch.setattr(blocks, "_BLOCK", block)
    rng = np.random.default_rng(0)
    x = [tf.constant(rng.normal(size=[3, 5, 2, 4]), tf.float32) for _ in range(3)]
    mask = tf.sequence_mask([5, 2, 1], 5)
    weights = rng.normal(size=[3, 5, 2, 4])

    def plain(q, k, v):
        logits = tf.einsum("bqhd,bkhd->bhqk", q, k) / 2
        logits = tf.where(mask[:, None, None], logits, -1e9)
        return tf.einsum("bhqk,bkhd->bqhd", tf.nn.softmax(logits), v)

    results = []
    for function in (plain, lambda *x: self_attention.attend(*x, mask)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = tf.function(function)(*x)
            total = tf.reduce_sum(outputs * weights)
        results.append([outputs, *tape.gradient(total, x)])
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"hidden_sizes": ()}, "hidden_sizes.*at least one size"),
        ({"num_layers": 0}, "num_layers.*>= 1. Received: 0"),
        ({"num_heads": 0}, "num_heads.*>= 1. Received: 0"),
        ({"feed_forward_factor": 0}, "feed_forward_factor.*>= 1"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_wrong_arguments_are_named(arguments, told):
    with pytest.raises(ValueError, match=told):
        models.TransformerScorer(**arguments)


@pytest.mark.parametrize("name", NAMES)
def test_defaults_of_a_scorer_can_be_given_and_read_back(name):
    config = ModelConfig(name)
    assert ModelConfig(name, **config.options()) == config
    assert config.dropout is not None and config.hidden_sizes is not None
    assert ModelConfig(name, dropout=0.25).dropout == 0.25


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"model": "linear", "hidden_sizes": (4,)}, "`hidden_sizes=.4,.` has no eff"),
        ({"model": "linear", "activation": "tanh"}, "`activation='tanh'` has no eff"),
        ({"num_heads": 2}, "`num_heads=2` has no effect with `model='auto'`: it is f"),
        ({"model": "kl_transformer", "num_layers": 2}, "for 'dasalc', 'transformer'"),
        ({"model": "transformer", "attention_size": 2}, "it is for 'dasalc'. Leave"),
        ({"model": "dnnn"}, "must be one of"),
    ],
)
def test_a_setting_without_effect_is_told(given, told):
    with pytest.raises(ValueError, match=told):
        ModelConfig(**given)
