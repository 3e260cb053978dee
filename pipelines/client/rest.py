"""A client for the REST API of TensorFlow Serving, with Python and NumPy only.

from pipelines.client import rest
with rest.connect("localhost:8501", "ranker") as client:
    scores = client.scores(features)
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import random
import socket
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pipelines.client import answers, ranking_client

_FIRST_PAUSE = 0.2
_NOT_FOUND, _BUSY, _LATE = 404, 503, 504


class _Retry(Exception):
    """A request failed in a way that is worth another try."""


class RestClient(ranking_client.RankingClient):
    """Scores and ranks lists over REST. For one thread; make one for each."""

    def __init__(self, target: answers.Target):
        """Asks the server about the model."""
        host, _, port = target.server.rpartition(":")
        self._connection = http.client.HTTPConnection(host.strip("[]"), int(port))
        self._path = f"/v1/models/{urllib.parse.quote(target.model_name, safe='')}"
        super().__init__(target)

    def close(self) -> None:
        """Closes the connection; the next request opens it again."""
        self._connection.close()

    def _metadata(self) -> answers.Metadata:
        content = self._asked("/metadata")
        try:
            definitions = content["metadata"]["signature_def"]["signature_def"]
            widths = {name: _width(about) for name, about in definitions.items()}
            outputs = {name: {**x["outputs"]} for name, x in definitions.items()}
            spec = content["model_spec"]
            name, number = str(spec["name"]), _integer(spec["version"])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            text = "it is not what TensorFlow Serving says about a model."
            raise self.target.strange(text) from None
        self.target.check_model(name, number)
        return answers.Metadata(number, widths, outputs)

    def _predict(
        self, signature: str, inputs: Mapping[str, np.ndarray], wanted: tuple[str, ...]
    ) -> Mapping[str, Any]:
        arrays = {name: array.tolist() for name, array in inputs.items()}
        request = {"signature_name": signature, "inputs": arrays}
        most = answers.most_bytes(inputs[answers.MASK].shape, wanted)
        # Bytes need not be UTF-8.
        body = json.dumps(
            request, default=lambda x: {"b64": base64.b64encode(x).decode()}
        )
        found = self._asked(":predict", body.encode(), most)
        outputs = found.get("outputs") if isinstance(found, dict) else None
        if len(wanted) == 1 and isinstance(outputs, list):
            return {wanted[0]: outputs}
        missing = [
            name
            for name in wanted
            if not isinstance(outputs, dict) or name not in outputs
        ]
        if missing or outputs is None:
            raise self.target.strange(f"it has no {' and no '.join(missing)}.")
        return outputs

    def _asked(
        self, method: str, body: bytes | None = None, most: int = answers.MOST_BYTES
    ) -> Any:
        """Returns the server's JSON answer about the version."""
        target, version = self.target, ""
        if target.version is not None:
            version = f"/versions/{target.version}"
        elif target.label is not None:
            version = f"/labels/{urllib.parse.quote(target.label, safe='')}"
        status, content = self._exchanged(f"{self._path}{version}{method}", body, most)
        if status == http.client.OK:
            return _parsed(content, target)
        if status == _LATE:
            raise target.late()
        text = _error_of(content) or f"HTTP status {status}"
        if "version label" in text and target.label is not None:
            target.raise_unknown(self._versions())
        if status == _NOT_FOUND:
            target.raise_unknown([v for v in self._versions() if v != target.version])
        raise target.refused(text)

    def _versions(self) -> list[int]:
        """Returns the versions of the model that the server has."""
        status, content = self._exchanged(self._path, None, answers.MOST_BYTES)
        if status != http.client.OK:
            return []
        with contextlib.suppress(KeyError, RecursionError, TypeError, ValueError):
            several = json.loads(content)["model_version_status"]
            ready = [x for x in several if x["state"] == "AVAILABLE"]
            return [_integer(x["version"]) for x in ready]
        return []

    def _exchanged(
        self, path: str, body: bytes | None, most: int
    ) -> tuple[int, bytearray]:
        """Sends a request until it is answered; returns the status and the content."""
        end = time.monotonic() + self.target.deadline
        pause = _FIRST_PAUSE
        for left in reversed(range(self.target.retries + 1)):
            try:
                status, content = self._sent(path, body, most, end)
            except _Retry as error:
                if not left:
                    raise self.target.unreachable(str(error)) from error
            else:
                if status != _BUSY:
                    return status, content
                if not left:
                    text = _error_of(content) or "it is unavailable (503)"
                    raise self.target.unreachable(text)
            wait = pause * random.uniform(0.8, 1.2)
            if time.monotonic() + wait >= end:
                raise self.target.late()
            time.sleep(wait)
            pause *= 2
        raise AssertionError("unreachable")

    def _sent(
        self, path: str, body: bytes | None, most: int, end: float
    ) -> tuple[int, bytearray]:
        """Sends a request once; raises `_Retry` if the server cannot be reached."""
        self._close_if_stale()
        kept = self._connection.sock is not None
        headers = {"Content-Type": "application/json"} if body is not None else {}
        method = "GET" if body is None else "POST"
        late = threading.Event()
        try:
            with self._ended_at(end, late):
                self._connection.request(method, path, body, headers)
                answer = self._connection.getresponse()
                size = most + 1 if answer.length is None else answer.length
                content = bytearray(size * (size <= most + 1))
                # `read` takes a chunk of a negative size for all that is left.
                del content[answer.readinto(content) :]
            if late.is_set():
                raise TimeoutError
            if max(len(content), answer.length or 0) > most:
                raise self.target.too_long(most)
            if answer.length:
                raise http.client.IncompleteRead(bytes(content), answer.length)
            if answer.status != http.client.OK:  # More may follow, as after a 103.
                self._connection.close()
            return answer.status, content
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            if isinstance(error, answers.ServingError):
                raise
            if late.is_set() or isinstance(error, TimeoutError):
                raise self.target.late() from error
            # A server may close a connection that nobody used for a while.
            if kept and isinstance(error, ConnectionError):
                return self._sent(path, body, most, end)
            if isinstance(error, ConnectionError):
                raise _Retry(str(error) or type(error).__name__) from error
            if isinstance(error, http.client.IncompleteRead):
                raise _Retry("it ended in the middle of an answer") from error
            if isinstance(error, http.client.HTTPException):
                raise self.target.strange(
                    "it is not HTTP. Is this the port of the REST API?"
                ) from None
            raise self.target.unreachable(str(error)) from error

    def _close_if_stale(self) -> None:
        """Closes a connection that the server closed, or sent something unasked on."""
        try:
            if self._connection.sock is not None:
                self._connection.sock.setblocking(False)
                self._connection.sock.recv(1)
        except BlockingIOError:
            return
        except OSError:
            pass
        self._connection.close()

    @contextlib.contextmanager
    def _ended_at(self, end: float, late: threading.Event) -> Iterator[None]:
        """Opens the connection, and cuts it off at the end, then setting `late`."""
        connection = self._connection
        connection.timeout = max(0.001, end - time.monotonic())
        if connection.sock is None:
            connection.connect()
        opened: socket.socket = connection.sock
        opened.settimeout(max(0.001, end - time.monotonic()))

        def cut() -> None:
            late.set()
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

        wait = max(0.0, end - time.monotonic())
        timer = threading.Timer(wait, cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _width(signature: Mapping[str, Any]) -> int | None:
    """Returns the width of the features of a signature, if it has features."""
    spec = signature["inputs"].get(answers.FEATURES)
    size = "-1" if spec is None else spec["tensor_shape"]["dim"][-1]["size"]
    return None if size == "-1" else _integer(size)


def _integer(value: Any) -> int:
    """Returns an int64 that is not negative; JSON has one as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError
    return value


def _parsed(content: bytearray, target: answers.Target) -> Any:
    try:
        return json.loads(content)
    except (RecursionError, ValueError) as error:
        raise target.strange(f"it is not JSON ({error}).") from None


def _error_of(content: bytearray) -> str:
    """Returns the error in an answer, or ''."""
    with contextlib.suppress(KeyError, RecursionError, TypeError, ValueError):
        return str(json.loads(content)["error"])
    return ""


connect = RestClient.connect
