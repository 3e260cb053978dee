"""The REST half of the server: the paths, JSON and errors of TensorFlow Serving."""

import http.server
import json
import re
import threading

import numpy as np
import request_json
import served_models
from google.protobuf import json_format

_PREDICTION = re.compile(
    r"(?i)/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?"
    r":(classify|regress|predict)"
)
_STATUS = re.compile(
    r"(?i)/v1/models(?:/([^/:]+))?(?:/versions/(\d+)|/labels/([^/:]+))?(/metadata)?"
)
_HTTP = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


def start(model, count):
    """Starts to serve a model on a port that the system chooses.

    Args:
        model: a `ServedModel`.
        count: is called before each prediction.

    Returns:
        The server, and its port.
    """

    class Handler(_Handler):
        served, counted = model, staticmethod(count)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, server.server_address[1]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *args):
        """Says nothing."""

    def do_GET(self):  # noqa: N802
        self._answer(b"")

    def do_POST(self):  # noqa: N802
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            self.close_connection = True
        self._answer(self.rfile.read(int(length)) if length.isdigit() else b"")

    def _answer(self, body):
        try:
            code, content = 200, self._content(body)
        except served_models.RequestError as error:
            code = _HTTP.get(error.code, 500)
            content = json.dumps({"error": str(error)})
        text = content.encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _content(self, body):
        prediction = _PREDICTION.fullmatch(self.path)
        if self.command == "POST" and prediction:
            self.counted()
            name, number, label, method = prediction.groups()
            number = int(number) if number else None
            request = request_json.parsed(body)
            version = self.served.find(name, number, label)
            return getattr(self, f"_{method.lower()}")(version, request)
        status = _STATUS.fullmatch(self.path)
        if self.command == "GET" and status:
            name, number, label, metadata = status.groups()
            number = int(number) if number else None
            return self._about(name, number, label, metadata)
        raise served_models.wrong(f"Malformed request: {self.command} {self.path}")

    def _about(self, name, number, label, metadata):
        if not name:
            raise served_models.wrong("Missing model name in request.")
        if label or metadata:
            version = self.served.find(name, number, label)
            number = version.number
        if metadata:
            return _metadata(name, version)
        return json.dumps(
            {
                "model_version_status": [
                    {
                        "version": str(found),
                        "state": "AVAILABLE",
                        "status": {"error_code": "OK", "error_message": ""},
                    }
                    for found in self.served.states(name, number)
                ]
            }
        )

    def _predict(self, version, request):
        signature = request_json.signature_name(request)
        name = signature or served_models.DEFAULT_SIGNATURE
        if name not in version.signatures:
            raise served_models.wrong(
                f'Serving signature name: "{name}" not found in signature def'
            )
        specs = version.signatures[name].inputs
        inputs, by_rows = request_json.tensors(request, specs)
        outputs = self.served.predict(version, name, inputs)
        told = {key: _plain(value) for key, value in outputs.items()}
        if not by_rows:
            whole = next(iter(told.values())) if len(told) == 1 else told
            return json.dumps({"outputs": whole})
        if len(told) == 1:
            return json.dumps({"predictions": next(iter(told.values()))})
        rows = [dict(zip(told, row)) for row in zip(*told.values())]
        return json.dumps({"predictions": rows})

    def _regress(self, version, request):
        signature = request_json.signature_name(request)
        examples = request_json.examples(request)
        values = self.served.regress(version, signature, examples)
        return json.dumps({"results": _plain(values)})

    def _classify(self, version, request):
        signature = request_json.signature_name(request)
        self.served.checked(version, signature, served_models.CLASSIFY)
        raise served_models.RequestError("UNIMPLEMENTED", "classify")


def _plain(values):
    """Returns an array as lists; numbers with nine digits, as the real server does."""
    if values.dtype == np.float32:
        flat = [float(f"{x:.9g}") for x in values.ravel().tolist()]
        return _nested(flat, values.shape)
    if values.dtype == object:
        return _nested([x.decode() for x in values.ravel()], values.shape)
    return values.tolist()


def _nested(flat, shape):
    if len(shape) < 2:
        return flat if shape else flat[0]
    size = len(flat) // shape[0] if shape[0] else 0
    rows = [flat[i * size : (i + 1) * size] for i in range(shape[0])]
    return [_nested(row, shape[1:]) for row in rows]


def _metadata(name, version):
    signatures = {
        key: json_format.MessageToDict(
            value,
            preserving_proto_field_name=True,
        )
        for key, value in version.signatures.items()
    }
    kind = "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    return json.dumps(
        {
            "model_spec": {
                "name": name,
                "signature_name": "",
                "version": str(version.number),
            },
            "metadata": {"signature_def": {"@type": kind, "signature_def": signatures}},
        }
    )
