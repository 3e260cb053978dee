"""SmoothI against a float64 oracle, its theorem, and TensorFlow Ranking's models."""

import numpy as np
import pytest
import tensorflow as tf

from tests import oracles
from tests.helpers import loads_saved_models, random_lists, tfr, value_and_gradient
from tests.oracles import smoothi
from tfr_ext import losses

METRICS = ["ndcg", "precision", "map", "arp", "mrr", "err", "nerr"]


def highest_of(metric, label):
    return {"max_label": label} if metric in ("err", "nerr") else {}


@pytest.mark.first_case("metric")
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("topn", [None, 1, 3, 20])
@pytest.mark.parametrize("stop_gradient", [True, False])
@pytest.mark.parametrize(("alpha", "delta"), [(1.0, 0.1), (7.0, 0.4)])
def test_value_and_gradient_equal_the_oracle(metric, topn, stop_gradient, alpha, delta):
    arguments = {"topn": topn, **highest_of(metric, 3.0)}
    if topn == 1:
        delta, stop_gradient = 0.1, True  # The first rank has none before it.
    if metric in ("precision", "map", "mrr"):
        arguments["relevance_threshold"] = 2.0
    loss = losses.SmoothILoss(
        metric=metric,
        alpha=alpha,
        delta=delta,
        stop_gradient=stop_gradient,
        **arguments,
    )
    for scores, labels in random_lists(len(metric)):
        value, slopes = value_and_gradient(loss, [labels], np.array([scores]))
        expected = smoothi.smoothi_loss(
            scores, labels, metric, alpha, delta, **arguments
        )
        np.testing.assert_allclose(value, np.real(expected), rtol=1e-9, atol=1e-12)
        expected = smoothi.smoothi_loss_gradient(
            scores, labels, metric, alpha, delta, stop_gradient, **arguments
        )
        np.testing.assert_allclose(slopes[0], expected, rtol=1e-7, atol=1e-10)


@pytest.mark.first_case
@pytest.mark.parametrize("stop_gradient", [True, False])
@pytest.mark.parametrize("size", [41, 87, 300])
def test_long_lists_take_the_loop_and_equal_the_oracle(size, stop_gradient):
    rng = np.random.default_rng(size)
    scores, labels = rng.normal(size=size), rng.integers(0, 3, size).astype(float)
    topn = None if size < 300 else 230
    y_pred = tf.constant([scores], tf.float64)
    loss = losses.SmoothILoss(stop_gradient=stop_gradient, topn=topn)
    with tf.GradientTape() as tape:
        tape.watch(y_pred)
        value = loss([labels], y_pred)
    rows, products = _fast_rows(scores, topn or size)
    gain = 2 ** (rows @ labels) - 1
    discount = 1 / np.log2(np.arange(2, len(rows) + 2))
    ideal = (2 ** np.sort(labels)[::-1][: len(rows)] - 1) @ discount
    np.testing.assert_allclose(value, 1 - gain @ discount / ideal, rtol=1e-10)
    if stop_gradient:
        weight = -np.log(2) * (gain + 1) * discount / ideal
        spread = labels - (rows @ labels)[:, np.newaxis]
        slopes = weight @ (products * rows * spread)
        slopes[np.argmin(scores)] -= slopes.sum()
        np.testing.assert_allclose(
            tape.gradient(value, y_pred)[0], slopes, rtol=1e-6, atol=1e-9
        )


def _fast_rows(scores, depth, alpha=1.0, delta=0.1):
    """The oracle's rows with running products: its loops are cubic in the list."""
    shifted, product = scores - scores.min(), np.ones_like(scores)
    rows, products = [], []
    for _ in range(depth):
        exponentials = np.exp(alpha * shifted * product)
        products.append(product)
        rows.append(exponentials / exponentials.sum())
        product = product * (1 - rows[-1] - delta)
    return np.array(rows), np.array(products)


def exact(metric, scores, labels, topn):
    rows = oracles.exact_indicators(scores, min(topn or 10**9, len(scores)))
    return oracles.metric(metric, rows, labels, topn=topn, max_label=4.0)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("topn", [1, 3, 5])
def test_theorem_2_error_falls_exponentially_in_alpha(metric, topn):
    """On scores 1 .. 20 the logarithm of the error falls linearly in alpha."""
    rng = np.random.default_rng(5)
    scores = rng.permutation(np.arange(1.0, 21.0))
    labels = rng.integers(0, 5, 20).astype(float)
    target = exact(metric, scores, labels, topn)
    errors = {}
    for alpha in (8.0, 12.0, 16.0, 20.0):
        loss = losses.SmoothILoss(
            metric=metric, topn=topn, alpha=alpha, **highest_of(metric, 4.0)
        )
        value = float(loss([labels], tf.constant([scores], tf.float64)))
        errors[alpha] = abs((value if metric == "arp" else 1 - value) - target)
    assert errors[16.0] < 3e-5
    # An exponential law: each step of 4 in alpha divides the error by at least e,
    # until float64 has nothing left to divide.
    for alpha in (8.0, 12.0, 16.0):
        assert errors[alpha + 4] <= max(errors[alpha] / np.e, 1e-13)


def test_limit_in_float32_is_the_exact_metric():
    rng = np.random.default_rng(0)
    scores = rng.permutation(np.linspace(0, 30, 8))
    labels = rng.integers(0, 4, 8).astype(float)
    for metric in METRICS:
        loss = losses.SmoothILoss(
            metric=metric, topn=4, alpha=100.0, **highest_of(metric, 4.0)
        )
        value = float(loss([labels], tf.constant([scores], tf.float32)))
        target = exact(metric, scores, labels, 4)
        assert abs((value if metric == "arp" else 1 - value) - target) < 1e-5


def test_numpy_integers_are_cut_offs():
    assert losses.SmoothILoss(topn=np.int64(3)).get_config()["topn"] == 3


@pytest.mark.parametrize("delta", [1e-6, 1e-9, 1e-18])
def test_a_tiny_delta_is_computed_as_the_oracle_has_it(delta):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=60), rng.integers(0, 3, 60).astype(float)
    y_pred = tf.constant([scores])
    loss = losses.SmoothILoss(delta=delta)
    with tf.GradientTape() as tape:
        tape.watch(y_pred)
        value = loss([labels], y_pred)
    rows, _ = _fast_rows(scores, 60, delta=delta)
    discount = 1 / np.log2(np.arange(2, 62))
    ideal = (2 ** np.sort(labels)[::-1] - 1) @ discount
    expected = 1 - (2 ** (rows @ labels) - 1) @ discount / ideal
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    assert np.abs(tape.gradient(value, y_pred)).max() > 1e-3


def test_alpha_stretches_the_scores():
    labels, scores = [[2.0, 0.0, 1.0]], tf.constant([[0.3, 0.9, -0.4]])
    np.testing.assert_allclose(
        losses.SmoothILoss(alpha=3.0)(labels, scores),
        losses.SmoothILoss(alpha=1.0)(labels, 3.0 * scores),
        rtol=1e-6,
    )


def test_value_by_hand():
    # One relevant item of two, scores 0 and log 3: I^1 = (1/4, 3/4),
    # I^2 = softmax(0, (1 - 3/4 - 0.1) log 3).
    second = 3.0**0.15 / (1 + 3.0**0.15)
    gain = (2**0.75 - 1) + (2**second - 1) / np.log2(3)
    loss = losses.SmoothILoss()([[0.0, 1.0]], [[0.0, np.log(3.0)]])
    np.testing.assert_allclose(loss, 1 - gain, rtol=1e-6)


def tfr_model(num_features=4):
    """A plain TensorFlow Ranking model, as its users build them."""
    spec = {
        "x": tf.io.FixedLenFeature([num_features], tf.float32, [0.0] * num_features)
    }
    builder = tfr.keras.model.ModelBuilder(
        input_creator=tfr.keras.model.FeatureSpecInputCreator({}, spec),
        preprocessor=tfr.keras.model.PreprocessorWithSpec(),
        scorer=tfr.keras.model.DNNScorer(hidden_layer_dims=[8], output_units=1),
        mask_feature_name="mask",
        name="plain",
    )
    return builder.build()


def learnable_batches(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=[64, 6, 4]).astype(np.float32)
    labels = (x[..., 0] + x[..., 1] > 0.5).astype(np.float32)
    mask = np.arange(6) < rng.integers(2, 7, [64, 1])
    labels[~mask] = -1
    features = {"x": x, "mask": mask}
    return tf.data.Dataset.from_tensor_slices((features, labels)).batch(16)


@pytest.mark.grid
def test_in_a_plain_tfr_model_and_loaded_again_without_custom_objects(tmp_path):
    tf.keras.utils.set_random_seed(1)
    model = tfr_model()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.05),
        loss=losses.SmoothILoss(alpha=1.0),
        metrics=[tfr.keras.metrics.MRRMetric(name="mrr")],
    )
    data = learnable_batches()
    before = model.evaluate(data, verbose=0, return_dict=True)
    model.fit(data, epochs=15, verbose=0)
    after = model.evaluate(data, verbose=0, return_dict=True)
    assert after["loss"] < before["loss"] - 0.05
    assert after["mrr"] > before["mrr"]
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded = tf.keras.models.load_model(path)
    assert isinstance(loaded.loss, losses.SmoothILoss)
    np.testing.assert_allclose(
        loaded.evaluate(data, verbose=0, return_dict=True)["loss"],
        after["loss"],
        rtol=1e-6,
    )
    loaded.fit(data, epochs=1, verbose=0)


@loads_saved_models
def test_in_a_saved_model_loaded_again_without_custom_objects(tmp_path):
    inputs = tf.keras.Input([None, 4])
    outputs = tf.keras.layers.Dense(1)(inputs)[:, :, 0]
    model = tf.keras.Model(inputs, outputs)
    model.compile(loss=losses.SmoothILoss(metric="map", alpha=3.0))
    x = tf.random.stateless_normal([8, 5, 4], [1, 2])
    y = tf.cast(x[..., 0] > 0, tf.float32)
    expected = model.evaluate(x, y, verbose=0)
    model.save(str(tmp_path / "saved"))
    loaded = tf.keras.models.load_model(str(tmp_path / "saved"))
    assert loaded.loss.get_config() == model.loss.get_config()
    np.testing.assert_allclose(loaded.evaluate(x, y, verbose=0), expected, rtol=1e-6)


@pytest.mark.grid
def test_in_tfr_keras_pipeline(tmp_path):
    data = learnable_batches()

    class Pipeline(tfr.keras.pipeline.SimplePipeline):
        def build_loss(self):
            return losses.get("smoothi_loss", alpha=1.0)

    class Builder(tfr.keras.model.AbstractModelBuilder):
        def build(self):
            return tfr_model()

    class Datasets(tfr.keras.pipeline.NullDatasetBuilder):
        def build_signatures(self, model):
            spec = {"x": tf.io.FixedLenFeature([4], tf.float32, [0.0] * 4)}
            return tfr.keras.saved_model.Signatures(model, {}, spec, "mask")()

    hparams = tfr.keras.pipeline.PipelineHparams(
        model_dir=str(tmp_path),
        num_epochs=2,
        steps_per_epoch=4,
        validation_steps=4,
        learning_rate=0.05,
        loss="softmax_loss",
        steps_per_execution=1,
        export_best_model=True,
        best_exporter_metric="ndcg",
        best_exporter_metric_higher_better=True,
    )
    Pipeline(Builder(), Datasets(data.repeat(), data), hparams).train_and_validate()
    exported = tf.saved_model.load(str(tmp_path / "export" / "best_model_by_metric"))
    assert tf.saved_model.PREDICT_METHOD_NAME in exported.signatures
