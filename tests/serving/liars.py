"""Servers that lie, and clients of them."""

import contextlib
import json
import socket
import threading
from concurrent import futures

import numpy as np
import pytest

from pipelines.client import answers, grpc_client, rest

FEATURES = np.zeros([2, 3, 4], np.float32)
MASK = np.bool_([[1, 1, 1], [1, 1, 0]])
LOWEST = float(np.finfo(np.float32).min)
SCORES = [[1.5, -2.0, 0.25], [3.0, 4.0, LOWEST]]
ORDER = [[0, 2, 1], [1, 0, -1]]
CLIENTS = {"rest": rest.RestClient, "grpc": grpc_client.GrpcClient}


def metadata():
    def signature(*names):
        size = {"size": "4", "name": ""}
        spec = {"tensor_shape": {"dim": [{"size": "-1"}, {"size": "-1"}, size]}}
        return {"inputs": {"float_features": spec}, "outputs": dict.fromkeys(names, {})}

    signatures = {"masked": signature("scores"), "rank": signature("scores", "order")}
    return {
        "model_spec": {"name": "ranker", "signature_name": "", "version": "7"},
        "metadata": {"signature_def": {"signature_def": signatures}},
    }


def ranks():
    return {"outputs": {"scores": SCORES, "order": ORDER}}


def packed(content, head="HTTP/1.1 200 OK"):
    return f"{head}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


class RestLiar:
    """Speaks HTTP; `lie` is sent instead of the next right answer."""

    protocol = "rest"

    def __init__(self):
        self.lie = None
        self._waiting = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._waiting.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection = self._waiting.accept()[0]
                threading.Thread(
                    target=self._talk, args=[connection], daemon=True
                ).start()

    def _talk(self, connection):
        with (
            contextlib.suppress(OSError),
            connection,
            connection.makefile("rb") as file,
        ):
            while head := file.readline():
                length = 0
                while (line := file.readline()) not in (b"\r\n", b""):
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                file.read(length)
                lie, self.lie = self.lie, None
                right = metadata() if b"/metadata" in head else ranks()
                connection.sendall(lie or packed(json.dumps(right).encode()))
                if lie and lie.endswith(b"<closed>"):
                    return

    def close(self):
        self._waiting.close()


class GrpcLiar:
    """Speaks gRPC; `lie` is sent instead of the next right answer."""

    protocol = "grpc"

    def __init__(self):
        grpc = pytest.importorskip("grpc")
        pytest.importorskip("tensorflow_serving")
        self.lie = None

        def answered(request, context):
            lie, self.lie = self.lie, None
            if isinstance(lie, str):
                context.abort(grpc.StatusCode.INTERNAL, lie)
            return self.right(b"signature_def" in request) if lie is None else lie

        handler = grpc.unary_unary_rpc_method_handler(answered)
        methods = dict.fromkeys(["Predict", "GetModelMetadata"], handler)
        options = [(f"grpc.max_{x}_message_length", -1) for x in ("send", "receive")]
        self._server = grpc.server(futures.ThreadPoolExecutor(2), options=options)
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    "tensorflow.serving.PredictionService", methods
                )
            ]
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def right(self, is_metadata):
        return (tf_metadata() if is_metadata else tf_ranks()).SerializeToString()

    def close(self):
        self._server.stop(None)


def named(answer, name="ranker", version=7):
    answer.model_spec.name, answer.model_spec.version.value = name, version
    return answer


def tf_metadata(width=4, **spec):
    from tensorflow_serving.apis import get_model_metadata_pb2 as messages

    signatures = messages.SignatureDefMap()
    for name, outputs in (("masked", ["scores"]), ("rank", ["scores", "order"])):
        about = signatures.signature_def[name]
        for size in (-1, -1, width):
            about.inputs["float_features"].tensor_shape.dim.add(size=size)
        for output in outputs:
            about.outputs[output].name = output
    answer = messages.GetModelMetadataResponse()
    answer.metadata["signature_def"].Pack(signatures)
    return named(answer, **spec)


def tf_ranks(scores=None, order=None, **spec):
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    answer = predict_pb2.PredictResponse()
    scores = np.float32(SCORES) if scores is None else scores
    order = np.int32(ORDER) if order is None else order
    for name, array in (("scores", scores), ("order", order)):
        answer.outputs[name].CopyFrom(tf.make_tensor_proto(array))
    return named(answer, **spec)


def connect(liar, **options):
    settings = {"retries": 0, "deadline": 20.0, **options}
    target = answers.Target(liar.address, "ranker", **settings)
    return CLIENTS[liar.protocol](target)


def outcome(liar, lie, work):
    """The error of an answer, or its result; fails if it is of another kind."""
    liar.lie = lie
    try:
        found = work()
    except answers.ServingError as error:
        assert not isinstance(error, answers.DeadlineError), lie[:200]
        assert len(str(error)) < 3000 and str(error).isprintable()
        return error
    finally:
        liar.lie = None
    return found


def assert_right(found):
    assert found[0].dtype == np.float32 and found[1].dtype == np.int32
    assert (found[0].tolist(), found[1].tolist()) == (SCORES, ORDER)


def told(liar, lie, ask):
    """What is said of an answer that must be an error."""
    error = outcome(liar, lie, ask)
    assert isinstance(error, answers.ServingError), error
    return str(error)
