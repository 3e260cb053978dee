"""A client for the gRPC API of TensorFlow Serving, on tensorflow-serving-api.

from pipelines.client import grpc_client
with grpc_client.connect("localhost:8500", "ranker") as client:
    scores = client.scores(features)
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pipelines.client import answers, ranking_client

_APIS = "tensorflow_serving.apis"
_SERVICES = "/tensorflow.serving."


class GrpcClient(ranking_client.RankingClient):
    """Scores and ranks lists over gRPC."""

    def __init__(self, target: answers.Target):
        """Asks the server about the model."""
        self._grpc = _imported("grpc")
        self._tf = _imported("tensorflow")
        self._damaged = _imported("google.protobuf.message").DecodeError
        self._messages = {
            name: _imported(f"{_APIS}.{name}_pb2")
            for name in ("predict", "get_model_metadata", "get_model_status")
        }
        self._most = 0
        self._channel: Any = None
        try:
            super().__init__(target)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection; the next request opens it again."""
        if self._channel is not None:
            self._channel.close()
        self._channel = None

    def _metadata(self) -> answers.Metadata:
        messages = self._messages["get_model_metadata"]
        request = messages.GetModelMetadataRequest(metadata_field=["signature_def"])
        self._address(request.model_spec)
        answer = messages.GetModelMetadataResponse()
        self._ask("PredictionService/GetModelMetadata", request, answer)
        found = messages.SignatureDefMap()
        packed = answer.metadata["signature_def"]
        try:
            fine = packed.Unpack(found)
        except self._damaged:
            fine = False
        if not fine:
            raise self.target.strange("it says nothing about signatures.")
        spec = answer.model_spec
        self.target.check_model(spec.name, spec.version.value)
        widths = {name: _width(about) for name, about in found.signature_def.items()}
        outputs = {
            name: [*about.outputs] for name, about in found.signature_def.items()
        }
        return answers.Metadata(spec.version.value, widths, outputs)

    def _predict(
        self, signature: str, inputs: Mapping[str, np.ndarray], wanted: tuple[str, ...]
    ) -> Mapping[str, Any]:
        request = self._messages["predict"].PredictRequest(output_filter=wanted)
        self._address(request.model_spec)
        request.model_spec.signature_name = signature
        for name, array in inputs.items():
            request.inputs[name].CopyFrom(self._tf.make_tensor_proto(array))
        answer = self._messages["predict"].PredictResponse()
        shape = inputs[answers.MASK].shape
        most = answers.most_bytes(shape, wanted)
        self._ask("PredictionService/Predict", request, answer, most)
        if answer.model_spec.name:  # Not every server says it with each answer.
            spec = answer.model_spec
            self.target.check_model(spec.name, spec.version.value)
        for name in wanted:
            sizes = [dim.size for dim in answer.outputs[name].tensor_shape.dim]
            if sizes != [*shape]:  # A few bytes can stand for a huge tensor.
                raise self.target.strange(
                    f"{name!r} must be of the shape {[*shape]}, but is of {sizes[:9]}."
                )
        try:
            return {x: self._tf.make_ndarray(answer.outputs[x]) for x in wanted}
        except (KeyError, TypeError, ValueError) as error:
            raise self.target.strange(f"it has no tensors ({error}).") from None

    def _address(self, spec: Any) -> None:
        """Names the model and its version in a request."""
        spec.name = self.target.model_name
        if self.target.version is not None:
            spec.version.value = self.target.version
        elif self.target.label is not None:
            spec.version_label = self.target.label

    def _ask(
        self, method: str, request: Any, answer: Any, most: int = answers.MOST_BYTES
    ) -> None:
        """Sends a request, and fills a message with the answer."""
        codes, target = self._grpc.StatusCode, self.target
        try:
            self._send(method, request, answer, most)
            return
        except self._grpc.RpcError as error:
            code, text = error.code(), error.details() or ""
        if code == codes.DEADLINE_EXCEEDED:
            raise target.late()
        if code == codes.UNAVAILABLE:
            raise target.unreachable(text)
        if "CLIENT: Received message larger than max" in text:
            raise target.too_long(self._most)
        if "version label" in text and target.label is not None:
            target.raise_unknown(self._versions())
        if code == codes.NOT_FOUND:
            target.raise_unknown([v for v in self._versions() if v != target.version])
        raise target.refused(f"{text} ({code.name})")

    def _versions(self) -> list[int]:
        """Returns the versions of the model that the server has."""
        messages = self._messages["get_model_status"]
        answer = messages.GetModelStatusResponse()
        request = messages.GetModelStatusRequest()
        request.model_spec.name = self.target.model_name
        try:
            self._send("ModelService/GetModelStatus", request, answer)
        except (self._grpc.RpcError, answers.ServingError):
            return []
        ready = messages.ModelVersionStatus.State.AVAILABLE
        return [x.version for x in answer.model_version_status if x.state == ready]

    def _send(
        self, method: str, request: Any, answer: Any, most: int = answers.MOST_BYTES
    ) -> None:
        """Sends a request, and fills `answer`, empty before, of at most `most` bytes.

        A channel has one limit, so the first request with longer answers opens another.
        """
        if most > self._most:
            self._most = 1 << (most - 1).bit_length()
            self.close()
        if self._channel is None:
            self._channel = self._grpc.insecure_channel(
                self.target.server, options=_options(self.target.retries, self._most)
            )
        # Without the stubs, whose errors hide which answers cannot be parsed.
        call = self._channel.unary_unary(_SERVICES + method)
        try:
            answer.ParseFromString(
                call(request.SerializeToString(), timeout=self.target.deadline)
            )
        except self._damaged:
            raise self.target.strange("it is not a message of its kind.") from None


def _options(retries: int, most: int) -> list[tuple[str, Any]]:
    """Returns the options of a channel that retries unreachable servers."""
    policy = {
        "maxAttempts": retries + 1,
        "initialBackoff": "0.2s",
        "maxBackoff": "5s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", most),
        ("grpc.max_send_message_length", -1),
        # Only what is not compressed, as little can become much.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        # Otherwise a second try would meet the failure of the first connection.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.enable_retries", int(retries > 0)),
    ]
    if retries:
        options.append(("grpc.service_config", json.dumps(config)))
    return options


def _width(signature: Any) -> int | None:
    """Returns the width of the features of a signature, if it has features."""
    if answers.FEATURES not in signature.inputs:
        return None
    sizes = signature.inputs[answers.FEATURES].tensor_shape.dim
    return sizes[-1].size if sizes else None


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"The gRPC client needs tensorflow-serving-api ({error}). Install it: pip "
            "install 'tfr-ext[serving]', or for TensorFlow 2.21 pip install --no-deps "
            "tensorflow-serving-api==2.21.0 grpcio. The REST client needs neither."
        ) from error


connect = GrpcClient.connect
