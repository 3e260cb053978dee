"""An object of one Keras that is given to the other is refused, whatever it is."""

import importlib.util
import os
import subprocess
import sys

import pytest

from tests.helpers import STACK_B

pytestmark = [
    pytest.mark.stack_b,
    pytest.mark.skipif(
        not STACK_B or importlib.util.find_spec("tf_keras") is None,
        reason="there is one Keras only",
    ),
]

# Gives objects of the Keras that tf.keras is to models of the other, `theirs`.
SCRIPT = """
import sys
import numpy as np
import tensorflow as tf
import tfr_ext
theirs = __import__(sys.argv[1])
ours = tfr_ext.losses.SmoothILoss.__mro__
assert (theirs.losses.Loss in ours) is False

x = np.random.default_rng(0).normal(size=[8, 3, 4]).astype("float32")
y = np.array([[0., 1., 2.]] * 8, "float32")

def model():
    layers = theirs.layers
    return theirs.Sequential([layers.Dense(1), layers.Reshape([-1])])

def refused(what, call):
    try:
        call()
    except AttributeError as error:
        # Keras 2 looks at the variables of a metric before we are asked.
        assert "_distribute_strategy" in str(error), error
        assert theirs.__name__ == "tf_keras" and "metric" in what, what
        print("refused", what)
    except TypeError as error:
        text = str(error)
        assert "Keras 2" in text and "Keras 3" in text, text
        assert "TF_USE_LEGACY_KERAS" in text or "tf.keras" in text, text
        print("refused", what)
    else:
        raise AssertionError(f"{what} was taken")

def fit(callbacks=(), eager=False, **kwargs):
    given = {"optimizer": "sgd", "loss": "mse", **kwargs}
    m = model()
    m.compile(run_eagerly=eager, **given)
    m.fit(x, y, verbose=0, callbacks=list(callbacks))

shapes = {"pointwise_kl_multinomial_loss"}
for key in tfr_ext.losses.keys():
    if key in shapes or type(tfr_ext.losses.get(key)).__mro__[1].__module__.startswith(
        "tfr_ext.losses.tfr"
    ):
        continue
    loss = tfr_ext.losses.get(key)
    refused(key, lambda: fit(loss=loss))
loss = tfr_ext.losses.SmoothILoss()
refused("loss, eager", lambda: fit(loss=loss, eager=True))
for metric in (
    tfr_ext.metrics.RankingMetric("ndcg"),
    tfr_ext.metrics.ERRMetric(max_label=2),
    tfr_ext.metrics.SinkhornErrorMetric(),
):
    refused("metric " + metric.name, lambda: fit(metrics=[metric]))
    refused("metric " + metric.name, lambda: fit(metrics=[metric], eager=True))
refused("callback", lambda: fit(callbacks=[tfr_ext.losses.LossAnnealing(loss)]))
schedule = theirs.optimizers.schedules.ExponentialDecay(1.0, 2, 0.5)
refused("schedule", lambda: tfr_ext.losses.SmoothILoss(alpha=schedule))
# Called by a person, not by a model, each serves any tensors.
value = loss(y, model()(x))
assert 0 < float(value) < 1
"""


@pytest.mark.parametrize(
    ("legacy", "theirs"), [("1", "keras"), (None, "tf_keras")], ids=["2 in 3", "3 in 2"]
)
def test_the_other_keras_is_refused(legacy, theirs):
    variables = {**os.environ, "PYTHONPATH": os.getcwd(), "TF_USE_LEGACY_KERAS": legacy}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, theirs],
        env={k: v for k, v in variables.items() if v is not None},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("refused") > 20
