"""The server that the other tests use: what it answers, and what it refuses."""

import base64
import json
import urllib.error
import urllib.request

import numpy as np
import pytest
import tensorflow as tf

from tests.elwc_files import protos
from tests.helpers import assert_same_scores
from tests.serving.model_server import REAL
from tfr_ext.serving import exporter

pytestmark = pytest.mark.any_keras

PREDICT, REGRESS = "tensorflow/serving/predict", "tensorflow/serving/regress"
BOTH = pytest.mark.parametrize("protocol", ["grpc", "rest"])


def stub(server):
    """The stub of a server's predictions, and the modules of the messages."""
    grpc = pytest.importorskip("grpc")
    pytest.importorskip("tensorflow_serving")
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    channel = grpc.insecure_channel(server.grpc)
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def predict(server, protocol, signature, version="", result="scores", **inputs):
    """The result that a signature gives for arrays."""
    if protocol == "rest":
        inputs = {
            name: [{"b64": base64.b64encode(one).decode()} for one in value]
            if value.dtype == object
            else value.tolist()
            for name, value in inputs.items()
        }
        body = {"signature_name": signature, "inputs": inputs}
        return np.float32(post(server, f"{version}:predict", body)["outputs"])
    channel = stub(server)
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = "ranker"
    request.model_spec.signature_name = signature
    kind, _, value = version.strip("/").partition("/")
    if kind == "versions":
        request.model_spec.version.value = int(value)
    elif kind:
        request.model_spec.version_label = value
    for name, one in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(one))
    return tf.make_ndarray(channel.Predict(request, 60).outputs[result])


def post(server, path, body):
    """What the server answers to JSON."""
    url = f"http://{server.rest}/v1/models/ranker{path}"
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with urllib.request.urlopen(url, data) as answer:
        return json.load(answer)


def get(server, path):
    with urllib.request.urlopen(f"http://{server.rest}/v1/models{path}") as answer:
        return json.load(answer)


def expected(exported, version, lists):
    scorer = exporter.load_scorer(f"{exported.base_path}/{version}")
    return scorer.scores(lists, 1)


@pytest.mark.skipif(bool(REAL), reason="the real server does not say")
def test_it_imports_nothing_of_this_project(server):
    assert server.ready["modules_of_this_project"] == []
    assert server.ready["versions"] == [1, 2]


@pytest.mark.two_graphs
@BOTH
@pytest.mark.parametrize(
    ("path", "version"),
    [("", 2), ("/versions/1", 1), ("/labels/stable", 1), ("/labels/canary", 2)],
)
def test_each_version_gives_its_own_scores(server, exported, protocol, path, version):
    if protocol == "grpc":
        stub(server)
    one = exported.lists.select([2])
    wanted = expected(exported, version, one)
    arrays = {"float_features": one.features[None], "mask": np.ones([1, 8], bool)}
    for signature, names in (("serving_default", 1), ("masked", 2)):
        inputs = dict(list(arrays.items())[:names])
        found = predict(server, protocol, signature, path, **inputs)
        assert_same_scores(found, [wanted])
    elwc = np.array([protos(one)[0].SerializeToString()], object)
    found = predict(server, protocol, "elwc", path, examples=elwc)
    assert_same_scores(found, [wanted])


def test_rest_takes_rows_and_columns(server, exported):
    features = exported.lists.select([0]).features[None].tolist()
    whole = post(server, ":predict", {"inputs": {"float_features": features}})
    plain = post(server, ":predict", {"inputs": features})
    rows = post(server, ":predict", {"instances": features})
    named = post(server, ":predict", {"instances": [{"float_features": features[0]}]})
    assert whole["outputs"] == plain["outputs"]
    assert whole["outputs"] == rows["predictions"] == named["predictions"]


def test_rest_says_what_there_is(server):
    found = get(server, "/ranker")["model_version_status"]
    assert [one["version"] for one in found] == ["2", "1"]
    assert {one["state"] for one in found} == {"AVAILABLE"}
    metadata = get(server, "/ranker/labels/stable/metadata")
    assert metadata["model_spec"]["version"] == "1"
    masked = metadata["metadata"]["signature_def"]["signature_def"]["masked"]
    sizes = masked["inputs"]["float_features"]["tensor_shape"]["dim"]
    assert [size["size"] for size in sizes] == ["-1", "-1", "4"]


def items_of(exported, count):
    """Some items as serialised `tf.train.Example`s, and their scores alone."""
    lists = exported.lists.select([2])
    examples = protos(lists)[0].examples[:count]
    scores = expected(exported, 1, lists)[:count]
    return [example.SerializeToString() for example in examples], scores


def test_items_are_scored_by_regress_over_rest(server, exported):
    """Its rows are examples in JSON, which the server turns into protos."""
    serialised, scores = items_of(exported, 3)
    rows = [
        {"float_features": list(x.features.feature["float_features"].float_list.value)}
        for x in map(tf.train.Example.FromString, serialised)
    ]
    body = {"signature_name": REGRESS, "examples": rows}
    found = post(server, "/versions/1:regress", body)["results"]
    np.testing.assert_allclose(found, scores, rtol=1e-5, atol=1e-6)
    with pytest.raises(urllib.error.HTTPError) as error:
        post(server, ":regress", {**body, "examples": [{"float_features": [1.0]}]})
    assert "Key: float_features" in json.load(error.value)["error"]


@pytest.mark.two_graphs
def test_items_are_scored_by_regress_over_grpc(server, exported):
    channel = stub(server)
    import grpc
    from tensorflow_serving.apis import regression_pb2

    serialised, scores = items_of(exported, 3)
    request = regression_pb2.RegressionRequest()
    request.model_spec.name = "ranker"
    request.model_spec.version.value = 1
    request.model_spec.signature_name = REGRESS
    for one in serialised:
        request.input.example_list.examples.add().MergeFromString(one)
    answer = channel.Regress(request, 60).result.regressions
    found = [regression.value for regression in answer]
    np.testing.assert_allclose(found, scores, rtol=1e-5, atol=1e-6)
    features = request.input.example_list.examples[1].features.feature
    features["float_features"].float_list.value.append(1)  # One too many.
    with pytest.raises(grpc.RpcError) as error:
        channel.Regress(request, 60)
    assert error.value.code().name == "INVALID_ARGUMENT"
    # The other signatures are not of that method.
    request.model_spec.signature_name = "elwc"
    with pytest.raises(grpc.RpcError, match="regression signature"):
        channel.Regress(request, 60)


@pytest.mark.two_graphs
@BOTH
def test_the_signature_of_tensorflow_ranking_predicts(server, protocol, exported):
    lists = exported.lists.select([2])
    whole = np.array([protos(lists)[0].SerializeToString()], object)
    found = predict(
        server, protocol, PREDICT, "/versions/1", result="outputs", inputs=whole
    )
    assert_same_scores(found[0], expected(exported, 1, lists))


@pytest.mark.parametrize(
    ("path", "body", "status", "told"),
    [
        ("/versions/9:predict", {"inputs": 1}, 404,
         "Servable not found for request: Specific(ranker, 9)"),
        ("/labels/none:predict", {"inputs": 1}, 400,
         "Unrecognized servable version label: none"),
        (":predict", {"inputs": 1, "signature_name": "no"}, 400, "not found in sig"),
        (":predict", {"inputs": [[["a"]]]}, 400, "is not of expected type: float"),
        (":predict", {"inputs": [[[1, 2]]]}, 400, "is not compatible with"),
        (":predict", b"{", 400, "JSON Parse error"),
        (":predict", {"signature_name": "elwc", "inputs": [{"b64": "!"}]}, 400,
         "Unable to base64 decode"),
        (":regress", {"examples": [{}]}, 400, "Expected regression signature"),
        (":classify", {"examples": [{}]}, 400, "Expected classification signature"),
    ],
)  # fmt: skip
def test_rest_refuses(server, path, body, status, told):
    with pytest.raises(urllib.error.HTTPError) as error:
        post(server, path, body)
    assert error.value.code == status
    assert told in json.load(error.value)["error"]


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        ({"name": "other"}, "NOT_FOUND", "Latest(other)"),
        ({"signature_name": "no"}, "FAILED_PRECONDITION", '"no" not found'),
        ({"version_label": "no"}, "INVALID_ARGUMENT", "version label: no"),
    ],
)
def test_grpc_refuses(server, change, code, told):
    channel = stub(server)
    import grpc
    from tensorflow_serving.apis import classification_pb2, predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = "ranker"
    for name, value in change.items():
        setattr(request.model_spec, name, value)
    with pytest.raises(grpc.RpcError) as error:
        channel.Predict(request, 60)
    assert (error.value.code().name, told in error.value.details()) == (code, True)
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name = "ranker"
    with pytest.raises(grpc.RpcError, match="classification signature method_name"):
        channel.Classify(request, 60)
