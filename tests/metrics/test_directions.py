"""Which way metrics are better, and the callbacks of Keras that need to know."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfr_ext import evaluation, losses, metrics, objectives
from tfr_ext.core import which_keras

X = np.arange(3.0)[None, :, None]
Y = np.arange(3.0)[None]
# The factor of the scores in each epoch; the second ranks best, the others worst.
FACTORS = [-1.0, 1.0, -1.0, -1.0, -1.0]

METRICS = {name: {"metric": name, "max_label": 2.0} for name in ("err", "nerr")}
METRICS |= {name: {"metric": name} for name in {*objectives.names()} - {*METRICS}}


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_ranking_metric_knows_its_direction(name):
    expected = "up" if evaluation.higher_is_better(name) else "down"
    for metric in (
        metrics.RankingMetric(**METRICS[name]),
        metrics.ExpectedGradeMetric([0.0, 1.0], **METRICS[name]),
    ):
        again = type(metric).from_config(metric.get_config())
        assert metric._direction == again._direction == expected


def test_every_other_metric_knows_its_direction():
    made = {
        metrics.RankingMetric: metrics.RankingMetric(),
        metrics.ERRMetric: metrics.ERRMetric(max_label=2.0),
        metrics.ExpectedGradeMetric: metrics.ExpectedGradeMetric([0.0, 1.0]),
        metrics.SinkhornErrorMetric: metrics.SinkhornErrorMetric(),
    }
    for name in metrics.__all__:
        kind = getattr(metrics, name)
        if isinstance(kind, type):
            downwards = kind is metrics.SinkhornErrorMetric
            assert made[kind]._direction == ("down" if downwards else "up")


class Factors(tf.keras.callbacks.Callback):
    """Sets the factor of the scores before each epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        self.model.set_weights([np.full([1, 1], FACTORS[epoch])])


def scorer(metric):
    dense = tf.keras.layers.Dense(1, use_bias=False)
    layers = [tf.keras.Input([3, 1]), dense, tf.keras.layers.Reshape([3])]
    model = tf.keras.Sequential(layers)
    loss = losses.ListNetLoss()  # Its graph is built soon.
    model.compile(tf.keras.optimizers.SGD(1e-6), loss=loss, metrics=[metric])
    return model


@pytest.mark.parametrize(
    ("name", "prefix", "loaded"),
    [
        ("ndcg", "val_", False),
        ("arp", "", True),
        *(
            pytest.param(*more, marks=pytest.mark.grid)
            for more in itertools.product(["ndcg", "arp"], ["", "val_"], [False, True])
            if more not in [("ndcg", "val_", False), ("arp", "", True)]
        ),
    ],
)
@pytest.mark.parametrize("mode", ["given", "auto"])
def test_callbacks_keep_the_best_epoch(mode, name, prefix, loaded, tmp_path):
    if mode == "given":
        mode = "max" if evaluation.higher_is_better(name) else "min"
    elif which_keras.IS_KERAS_2:
        pytest.skip("On Keras 2, 'auto' means 'min'.")
    model = scorer(metrics.RankingMetric(name))
    if loaded:
        model.fit(X, Y, verbose=0)
        model.save(tmp_path / "model.keras")
        model = tf.keras.models.load_model(tmp_path / "model.keras")
    monitor, kept = prefix + name, tmp_path / "kept.keras"
    how = {"monitor": monitor, "mode": mode}
    stopping = tf.keras.callbacks.EarlyStopping(patience=3, **how)
    callbacks = [
        Factors(),
        stopping,
        tf.keras.callbacks.ModelCheckpoint(str(kept), save_best_only=True, **how),
        tf.keras.callbacks.ReduceLROnPlateau(factor=0.5, patience=2, **how),
    ]
    data = {"validation_data": (X, Y), "epochs": len(FACTORS), "verbose": 0}
    seen = model.fit(X, Y, callbacks=callbacks, **data).history[monitor]
    worst, best, *others = seen
    assert worst != best and others == [worst] * 3
    assert stopping.best == best and stopping.stopped_epoch == 4
    (weight,) = tf.keras.models.load_model(kept).get_weights()
    assert weight[0, 0] == pytest.approx(1.0, abs=1e-3)
    rate = model.optimizer.learning_rate
    assert float(rate) == pytest.approx(0.5e-6)
