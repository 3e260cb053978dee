"""Only Keras's TensorFlow backend is taken, and what is said of the others."""

import inspect

import pytest
import tensorflow as tf

import tfr_ext
from tfr_ext import losses, metrics, models
from tfr_ext.losses.tfr import names

# Losses of TensorFlow Ranking need Keras 2, which has no other backend.
KEYS = [key for key in losses.keys() if key not in names.LOSSES]
# What the constructors of metrics need.
NEEDED = {"ERRMetric": {"max_label": 2.0}, "ExpectedGradeMetric": {"grade_values": [0]}}
MADE = {
    **{key: lambda key=key: losses.get(key) for key in KEYS},
    **{
        name: lambda name=name: getattr(metrics, name)(**NEEDED.get(name, {}))
        for name in metrics.__all__
        if inspect.isclass(getattr(metrics, name))
    },
    "JitCompiledLoss": lambda: losses.JitCompiledLoss(
        tf.keras.losses.MeanSquaredError()
    ),
    "Ranker": tfr_ext.Ranker,
    "model_builder": lambda: models.model_builder(3, models.MLPScorer([2])),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_another_backend_is_refused(name, backend, monkeypatch):
    monkeypatch.setattr(tf.keras.backend, "backend", lambda: backend)
    with pytest.raises(ValueError, match=backend) as error:
        MADE[name]()
    assert "start Python with KERAS_BACKEND=tensorflow" in str(error.value)
    assert "\n" not in str(error.value)
