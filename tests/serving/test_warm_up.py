"""The warm-up requests: TF Serving's own classes read them, and the model answers."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import make_lists
from tfr_ext import data, models
from tfr_ext.serving import exporter

pytestmark = pytest.mark.stack_b

prediction_log_pb2 = pytest.importorskip(
    "tensorflow_serving.apis.prediction_log_pb2", reason="needs tensorflow-serving-api"
)
NAMED = data.ElwcFeatures(
    (data.Feature("a"), data.Feature("b", is_integer=True)),
    (data.Feature("c"),),
)


@pytest.mark.parametrize(
    ("named", "forms"),
    [
        (None, []),
        (NAMED, ["query_minmax"]),
        pytest.param(NAMED, [], marks=pytest.mark.grid),
        pytest.param(None, ["query_minmax"], marks=pytest.mark.grid),
    ],
)
def test_each_signature_is_warmed_up(named, forms, tmp_path):
    transforms = models.feature_transforms(forms, make_lists([6])) if forms else None
    model = models.model_builder(3, models.MLPScorer([8]), transforms).build()
    version = exporter.export_ranker(model, str(tmp_path), elwc_features=named)
    loaded = tf.saved_model.load(version).signatures
    path = pathlib.Path(version, "assets.extra", "tf_serving_warmup_requests")
    logs = [
        prediction_log_pb2.PredictionLog.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(str(path))
    ]
    seen = []
    for log in logs:
        if log.WhichOneof("log_type") == "regress_log":
            request = log.regress_log.request
            examples = request.input.example_list.examples
            inputs = {"inputs": [x.SerializeToString() for x in examples]}
        else:
            assert log.WhichOneof("log_type") == "predict_log"
            request = log.predict_log.request
            inputs = {k: tf.make_ndarray(v) for k, v in request.inputs.items()}
        name = request.model_spec.signature_name
        seen.append(name)
        tensors = {key: tf.constant(value) for key, value in inputs.items()}
        for output in loaded[name](**tensors).values():
            assert output.shape[0] >= 1 and np.isfinite(output.numpy()).all()
    assert sorted(seen) == sorted(loaded)
