"""Damaged requests: each is an error with a message, and the next one is answered.

`TFR_EXT_FUZZ` is the number of requests of each protocol; -s prints how many there were
of each kind.
"""

import base64
import collections
import http.client
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from tests.elwc_files import elwc, protos
from tests.helpers import assert_same_scores
from tfr_ext.serving import exporter

pytestmark = pytest.mark.any_keras

REQUESTS = int(os.environ.get("TFR_EXT_FUZZ", 500))
WIDTH = 4
GOOD = np.float32(np.random.default_rng(0).normal(size=[1, 3, WIDTH]))
REAL = np.ones([1, 3], bool)
NAN = float("nan")


def good_elwc(rng):
    """The bytes of a list that is right."""
    rows = rng.normal(size=[3, WIDTH]).tolist()
    return elwc([{"float_features": row} for row in rows]).SerializeToString()


# Arrays of a request, by kind: a signature, and what its inputs are.


def wrong_type(rng):
    kind = rng.choice(["float64", "int32", "int64", "bool"])
    return "masked", {"float_features": GOOD.astype(kind), "mask": REAL}


def strings(rng):
    words = np.array([[["a"] * WIDTH]], object)
    return "masked", {"float_features": words, "mask": REAL[:, :1]}


def wrong_rank(rng):
    shape = [WIDTH] * rng.choice([0, 1, 2, 4, 5])
    array = np.zeros(shape, np.float32)
    if rng.random() < 0.5:
        return "serving_default", {"float_features": array}
    return "masked", {"float_features": array, "mask": REAL}


def wrong_width(rng):
    width = rng.choice([0, 1, 2, 3, 5, 17])
    array = np.zeros([1, 3, width], np.float32)
    return "masked", {"float_features": array, "mask": REAL}


def wrong_mask(rng):
    shape = [(1, 2), (2, 3), (3, 1), (0, 3), (3,), (1, 3, 1), (1, 1)][rng.integers(7)]
    return "masked", {"float_features": GOOD, "mask": np.ones(shape, bool)}


def mask_of_numbers(rng):
    kind = rng.choice(["float32", "int32", "uint8"])
    return "masked", {"float_features": GOOD, "mask": REAL.astype(kind)}


def wrong_names(rng):
    names = [("features", "mask"), ("float_features",), ("mask",), ()]
    names += [("float_features", "mask", "more"), ("Float_features", "mask")]
    chosen = names[rng.integers(len(names))]
    return "masked", {x: REAL if x == "mask" else GOOD for x in chosen}


def unknown_signature(rng):
    name = rng.choice(
        ["no", "Masked", "masked ", "serving-default", "\u00e4", "x" * 999]
    )
    return str(name), {"float_features": GOOD, "mask": REAL}


def not_a_number(rng):
    array = GOOD.copy()
    array[0, rng.integers(3), rng.integers(WIDTH)] = NAN
    return "masked", {"float_features": array, "mask": REAL}


def truncated_proto(rng):
    """Cut inside of a field, as a message that ends between two is one."""
    content = good_elwc(rng)
    # All examples, without the last bytes of the last one.
    return "elwc", {"examples": np.array([content[: -int(rng.integers(1, 9))]], object)}


def junk_proto(rng):
    return "elwc", {"examples": np.array([b"\xff" + rng.bytes(30)], object)}


def elwc_of_another_width(rng):
    width = rng.choice([1, 3, 5])
    made = elwc([{"float_features": [0.5] * width}]).SerializeToString()
    return "elwc", {"examples": np.array([made], object)}


ARRAYS = (
    *(wrong_type, strings, wrong_rank, wrong_width, wrong_mask, mask_of_numbers),
    *(wrong_names, unknown_signature, not_a_number, truncated_proto, junk_proto),
    elwc_of_another_width,
)


# What only one protocol can send: bytes of a message.


def as_request(signature, inputs):
    """The message of a Predict request."""
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = "ranker"
    request.model_spec.signature_name = signature
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return request


def huge_shape(rng):
    """A shape of many numbers, and few of them."""
    request = as_request("masked", {"float_features": GOOD, "mask": REAL})
    sizes = [(1 << 30, 3, WIDTH), (1, 1 << 40, WIDTH), (1 << 20, 1 << 20, WIDTH)]
    sizes += [(1 << 62, 1 << 62, WIDTH), (-1, 3, WIDTH), (1, 4, WIDTH)]
    for place, size in enumerate(sizes[rng.integers(len(sizes))]):
        request.inputs["float_features"].tensor_shape.dim[place].size = size
    return request.SerializeToString()


def truncated_request(rng):
    content = as_request("masked", {"float_features": GOOD, "mask": REAL})
    content = content.SerializeToString()
    return content[: -int(rng.integers(1, 40))]


def damaged_type(rng):
    request = as_request("masked", {"float_features": GOOD, "mask": REAL})
    request.inputs["float_features"].dtype = int(rng.choice([0, 7, 20, 99, 101]))
    return request.SerializeToString()


MESSAGES = (huge_shape, truncated_request, damaged_type)


# JSON.


def broken_json(rng):
    content = json.dumps({"signature_name": "serving_default", "inputs": GOOD.tolist()})
    content = content.encode()
    cut = int(rng.integers(0, len(content)))
    changed = [content[:cut], b"{" * 5000, content + b"}", b"\xff\xfe", b"null", b"[]"]
    return changed[rng.integers(len(changed))]


def bad_base64(rng):
    text = base64.b64encode(good_elwc(rng)).decode()
    wrong = ["*" + text, text[:-3] + "=", "%%%", {"b64": 1}, {"b64": text, "c": 1}]
    chosen = wrong[rng.integers(len(wrong))]
    one = chosen if isinstance(chosen, dict) else {"b64": chosen}
    return json.dumps(
        {"signature_name": "elwc", "inputs": {"examples": [one]}}
    ).encode()


def uneven_lists(rng):
    rows = GOOD.tolist()
    rows[0][int(rng.integers(1, 3))] = [0.5] * int(rng.choice([0, 1, 3, 5]))
    return json.dumps({"inputs": rows}).encode()


def huge_numbers(rng):
    rows = GOOD.tolist()
    rows[0][0][0] = [1e39, -1e300, 10**400, "1", None, True][rng.integers(6)]
    return json.dumps({"inputs": rows}).encode()


def wrong_keys(rng):
    bodies = [{}, {"instances": [], "inputs": []}, {"instances": {}}, {"instances": []}]
    bodies += [{"signature_name": 1, "inputs": GOOD.tolist()}, {"examples": [{}]}]
    bodies += [{"instances": [{"float_features": [[0.0] * WIDTH], "more": 1}]}]
    return json.dumps(bodies[rng.integers(len(bodies))]).encode()


BODIES = (broken_json, bad_base64, uneven_lists, huge_numbers, wrong_keys)


def body_of(signature, inputs):
    """The JSON of arrays."""
    plain = {}
    for name, value in inputs.items():
        if signature == "elwc":
            value = [{"b64": base64.b64encode(one).decode()} for one in value]
        plain[name] = value if isinstance(value, list) else value.tolist()
    return json.dumps({"signature_name": signature, "inputs": plain}).encode()


@pytest.fixture(scope="module")
def expected(exported):
    """The scores of the request that is right."""
    scorer = exporter.load_scorer(f"{exported.base_path}/2")
    one = exported.lists.select([3])
    return one.features[None], scorer.scores(one, 1)


def check_rest(server, expected):
    """Returns functions: sends a body, and asks what is right."""
    host, port = server.rest.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)

    def send(body):
        connection.request("POST", "/v1/models/ranker:predict", body)
        answer = connection.getresponse()
        return answer.status, answer.read()

    features, scores = expected
    body = body_of("serving_default", {"float_features": features})

    def right():
        status, content = send(body)
        found = np.float32(json.loads(content)["outputs"])
        assert status == 200
        assert_same_scores(found, [scores])

    return send, right


def test_rest(server, exported, expected):
    rng = np.random.default_rng(18)
    send, right = check_rest(server, expected)
    counts = collections.Counter()
    # JSON has one kind of number, and the server gives it the type of the input.
    kinds = [k for k in (*ARRAYS, *BODIES) if k not in (wrong_type, mask_of_numbers)]
    for number in range(REQUESTS):
        kind = kinds[number % len(kinds)]
        made = kind(rng)
        if kind is wrong_names:  # Among columns, the server takes a name too many.
            rows = [{name: value[0].tolist() for name, value in made[1].items()}]
            made = json.dumps({"signature_name": made[0], "instances": rows}).encode()
        status, content = send(made if isinstance(made, bytes) else body_of(*made))
        counts[kind.__name__] += 1
        # A torn proto is a loss of data, for which there is no other status.
        assert status in (400, 404, 429, 500), (kind.__name__, content)
        assert json.loads(content)["error"].strip(), kind.__name__
        right()
    print("\nREST:", dict(counts))
    assert counts.total() == REQUESTS


def test_grpc(server, exported, expected):
    grpc = pytest.importorskip("grpc")
    pytest.importorskip("tensorflow_serving")
    from tensorflow_serving.apis import predict_pb2

    rng = np.random.default_rng(81)
    channel = grpc.insecure_channel(server.grpc)
    predict = channel.unary_unary(
        "/tensorflow.serving.PredictionService/Predict",
        response_deserializer=predict_pb2.PredictResponse.FromString,
    )
    features, scores = expected
    good = as_request("serving_default", {"float_features": features})
    good = good.SerializeToString()
    counts, codes = collections.Counter(), collections.Counter()
    kinds = (*ARRAYS, *MESSAGES)
    for number in range(REQUESTS):
        kind = kinds[number % len(kinds)]
        made = kind(rng)
        if not isinstance(made, bytes):
            made = as_request(*made).SerializeToString()
        counts[kind.__name__] += 1
        with pytest.raises(grpc.RpcError) as error:
            predict(made, timeout=60)
        code = error.value.code().name
        codes[code] += 1
        assert error.value.details().strip(), kind.__name__
        assert code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED"), kind.__name__
        answer = predict(good, timeout=60)
        found = tf.make_ndarray(answer.outputs["scores"])
        assert_same_scores(found, [scores])
    print("\ngRPC:", dict(counts), dict(codes))
    assert counts.total() == REQUESTS


def test_the_lists_that_are_damaged_are_right_before(server, exported):
    """Otherwise another fault than the one that is meant would be refused."""
    send, _ = check_rest(server, (exported.lists.features[None], None))
    rng = np.random.default_rng(0)
    rows = np.array([good_elwc(rng)], object)
    first = protos(exported.lists.select([0]))[0].SerializeToString()
    for inputs in (rows, np.array([first], object)):
        assert send(body_of("elwc", {"examples": inputs}))[0] == 200
    assert send(body_of("masked", {"float_features": GOOD, "mask": REAL}))[0] == 200
