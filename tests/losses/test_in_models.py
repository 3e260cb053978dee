"""Every loss in a Keras model, of whichever Keras `tf.keras` is."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import KERAS_3
from tests.losses.cases import ONE_OF_EACH_CLASS, LossCase
from tfr_ext import losses, metrics

pytestmark = pytest.mark.parametrize("case", ONE_OF_EACH_CLASS, ids=str)

RNG = np.random.default_rng(5)
X = RNG.normal(size=[6, 5, 3]).astype(np.float32)
Y = RNG.integers(0, 4, [6, 5]).astype(np.float32)
Y[1, 3:] = Y[4, 2:] = -1  # padding
Y[2] = 0
WEIGHTS = {
    "item": RNG.uniform(0.5, 2, [6, 5]).astype(np.float32),
    "list": RNG.uniform(0.5, 2, [6]).astype(np.float32),
}


def model(loss, **kwargs):
    tf.keras.utils.set_random_seed(1)
    built = tf.keras.Sequential(
        [
            tf.keras.Input([None, 3]),
            tf.keras.layers.Dense(4, "tanh"),
            tf.keras.layers.Dense(1, dtype="float32"),
            tf.keras.layers.Reshape([-1], dtype="float32"),
        ]
    )
    built.compile("sgd", loss, **kwargs)
    return built


@contextlib.contextmanager
def policy(name):
    tf.keras.mixed_precision.set_global_policy(name)
    try:
        yield
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


def evaluated(built, weights=None):
    found = built.evaluate(
        X, Y, batch_size=6, sample_weight=weights, verbose=0, return_dict=True
    )
    return {name: float(value) for name, value in found.items()}


def test_evaluate_is_the_direct_call(case: LossCase):
    ndcg = metrics.RankingMetric("ndcg", topn=3)
    built = model(case.build(), weighted_metrics=[ndcg])
    history = built.fit(
        X, Y, batch_size=6, sample_weight=WEIGHTS["item"], epochs=2, verbose=0
    ).history
    assert np.isfinite(history["loss"]).all()
    scores = built.predict(X, batch_size=6, verbose=0)
    for weights in (*WEIGHTS.values(), None):
        first = evaluated(built, weights)
        value = float(case.build()(Y, scores, weights))
        np.testing.assert_allclose(first["loss"], value, rtol=1e-5)
        alone = metrics.RankingMetric("ndcg", topn=3)(Y, scores, weights)
        np.testing.assert_allclose(first["ndcg_3"], alone, rtol=1e-6)
        # Whatever came before, a metric begins anew.
        assert evaluated(built, weights) == first


def test_xla_of_the_loss_alone_takes_the_same_steps(case: LossCase):
    fitted = [
        model(loss).fit(
            *(X, Y, 6, 2), sample_weight=WEIGHTS["item"], shuffle=False, verbose=0
        )
        for loss in (case.build(), losses.JitCompiledLoss(case.build()))
    ]
    np.testing.assert_allclose(*(f.history["loss"] for f in fitted), rtol=1e-4)


def test_half_precision_trains(case: LossCase):
    with policy("mixed_float16"):
        built = model(case.build())
        value = float(case.build()(Y, built.predict(X, batch_size=6, verbose=0)))
        np.testing.assert_allclose(evaluated(built)["loss"], value, rtol=1e-5)
        history = built.fit(X, Y, batch_size=6, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_a_saved_model_is_the_same(case: LossCase, tmp_path):
    built = model(case.build(), metrics=[metrics.RankingMetric("map")])
    built.fit(X, Y, batch_size=6, verbose=0)
    path = str(tmp_path / "model.keras")
    built.save(path)
    loaded = tf.keras.models.load_model(path)
    assert type(loaded.loss) is type(built.loss)
    assert loaded.loss.get_config() == built.loss.get_config()
    assert evaluated(loaded) == evaluated(built)


def test_keras_builds_it_by_what_it_serialised(case: LossCase):
    loss = case.build()
    again = tf.keras.losses.get(tf.keras.losses.serialize(loss))
    assert type(again) is type(loss) and again.get_config() == loss.get_config()


@pytest.mark.skipif(KERAS_3, reason="Keras 3 looks up its own losses only by name")
def test_keras_builds_it_by_key(case: LossCase):
    built = model(case.key)
    expected = losses.get(case.key).get_config()
    assert tf.keras.losses.get(case.key).get_config() == expected
    if case.lifted is None and "max_label" not in case.kwargs:
        assert np.isfinite(evaluated(built)["loss"])
