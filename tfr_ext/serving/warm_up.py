"""Requests that TF Serving replays when it loads a version, before it serves it.

TensorFlow prepares much of its work when a graph first runs, so that without them the
first users wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from tfr_ext.data.batches.batching import MASK, input_signature
from tfr_ext.data.elwc.message import ExampleListWithContext, message_classes
from tfr_ext.data.elwc.proto_features import ElwcFeatures
from tfr_ext.data.features import Feature, FeatureSpec
from tfr_ext.serving import model_file, requests, signatures

_NAME = "tf_serving_warmup_requests"
# The lists of a request: TensorFlow plans anew for other shapes, if at all, in no time.
_SHAPE = (2, 3)
# The part of TF Serving's messages that these requests need, with its field numbers.
_MESSAGES = {
    "ModelSpec": {"signature_name": (3, "string")},
    "ExampleList": {"examples": (1, "*tensorflow.Example")},
    "Input": {"example_list": (1, "ExampleList")},
    "RegressionRequest": {"model_spec": (1, "ModelSpec"), "input": (2, "Input")},
    "Entry": {"key": (1, "string"), "value": (2, "tensorflow.TensorProto")},
    "PredictRequest": {"model_spec": (1, "ModelSpec"), "inputs": (2, "*Entry")},
    "RegressLog": {"request": (1, "RegressionRequest")},
    "PredictLog": {"request": (1, "PredictRequest")},
    "PredictionLog": {
        "regress_log": (3, "RegressLog"),
        "predict_log": (6, "PredictLog"),
    },
}


def write(
    version: str,
    names: Iterable[str],
    num_features: int,
    in_protos: ElwcFeatures,
    spec: FeatureSpec | None = None,
) -> None:
    """Writes a request for each signature into the directory of a version."""
    folder = os.path.join(version, model_file.EXTRA)
    os.makedirs(folder, exist_ok=True)
    with tf.io.TFRecordWriter(os.path.join(folder, _NAME)) as writer:
        for name in names:
            log = _log(name, num_features, in_protos, spec)
            writer.write(log.SerializeToString())


def _log(
    name: str, num_features: int, in_protos: ElwcFeatures, spec: FeatureSpec | None
) -> Any:
    """Returns the request of one signature, as a log of it."""
    log = _CLASSES["PredictionLog"]()
    if name == signatures.REGRESS_SIGNATURE:
        request = log.regress_log.request
        items = request.input.example_list.examples
        _fill(items.add(), (*in_protos.examples, *in_protos.context))
    else:
        request = log.predict_log.request
        for key, value in _inputs(name, num_features, in_protos, spec).items():
            tensor = tf.make_tensor_proto(value)
            request.inputs.add(key=key).value.MergeFromString(
                tensor.SerializeToString()
            )
    request.model_spec.signature_name = name
    return log


def _inputs(
    name: str, num_features: int, in_protos: ElwcFeatures, spec: FeatureSpec | None
) -> dict[str, Any]:
    """Returns the inputs of a signature for lists whose features are all 0 or ''."""
    if name in (signatures.ELWC_SIGNATURE, signatures.PREDICT_SIGNATURE):
        lists = ExampleListWithContext()
        _fill(lists.context, in_protos.context)
        for _ in range(_SHAPE[1]):
            _fill(lists.examples.add(), in_protos.examples)
        key = "examples" if name == signatures.ELWC_SIGNATURE else "inputs"
        return {key: np.array([lists.SerializeToString()] * _SHAPE[0], object)}
    inputs: dict[str, Any] = {}
    if name == signatures.IDS_SIGNATURE:
        specs = input_signature(num_features, spec)
    elif name == signatures.FEATURES_SIGNATURE:
        specs = {}
    else:
        specs = requests.request_signature(num_features, spec)
    for key, x in specs.items():
        shape = [size or known for size, known in zip(x.shape, (*_SHAPE, 1))]
        inputs[key] = np.zeros(shape, x.dtype.as_numpy_dtype)
        if x.dtype == tf.string:
            inputs[key] = np.full(shape, b"", object)
    if name != signatures.DEFAULT_SIGNATURE:
        inputs[MASK] = np.ones(_SHAPE, bool)
    if name == signatures.RANK_SIGNATURE:
        inputs[signatures.TOPN] = np.full(_SHAPE[0], _SHAPE[1], np.int32)
    return inputs


def _fill(example: tf.train.Example, features: Iterable[Feature]) -> None:
    """Sets numbers of an example to 0; categories and texts are missing."""
    for feature in features:
        if feature.kind in ("category", "text"):
            continue
        values = example.features.feature[feature.name]
        kind = values.int64_list if feature.is_integer else values.float_list
        kind.value.extend([0] * feature.width)


_CLASSES = message_classes(
    "tfr_ext.serving", _MESSAGES, tf.train.Example, tensor_pb2.TensorProto
)
