"""Starts a model server in a process of its own: the loopback one, or the real one.

The variable TENSORFLOW_MODEL_SERVER names the binary of TensorFlow Serving. Without it,
tests/serving/loopback imitates that server.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from tests.commands import free_ports

LOOPBACK = pathlib.Path(__file__).with_name("loopback")
REAL = os.environ.get("TENSORFLOW_MODEL_SERVER")
_SECONDS_TO_START = 300


@dataclasses.dataclass
class ModelServer:
    """A server that runs.

    Attributes:
        grpc: its gRPC address; None if tensorflow-serving-api is not installed.
        rest: its REST address.
        process: its process.
        ready: what the loopback server said of itself; empty for the real one.
    """

    grpc: str | None
    rest: str
    process: subprocess.Popen
    ready: dict

    def address(self, protocol):
        """Returns the address for 'grpc' or 'rest'."""
        return {"grpc": self.grpc, "rest": self.rest}[protocol]

    def stop(self):
        """Ends the process at once, as a machine that fails does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def serving(base_path, name="ranker", labels=None, policy="latest:1", **options):
    """Serves the versions of an export while the context lasts.

    Args:
        base_path: the directory of versions.
        name: the name of the model.
        labels: versions by label.
        policy: which versions are loaded: 'all', 'latest:N' or 'specific:1,2'.
        **options: more flags of the loopback server, such as `end_at`.
    """
    start = _start_real if REAL and not options else _start_loopback
    server = start(str(base_path), name, labels or {}, policy, options)
    try:
        yield server
    finally:
        server.stop()


def _start_loopback(base_path, name, labels, policy, options):
    pairs = ",".join(f"{label}:{version}" for label, version in labels.items())
    errors = tempfile.TemporaryFile("w+")  # A pipe could be full.
    process = subprocess.Popen(
        [
            *(sys.executable, str(LOOPBACK), f"--model_name={name}"),
            *(f"--model_base_path={base_path}", f"--version_policy={policy}"),
            *(f"--version_labels={pairs}", "--poll_seconds=0.2"),
            "--end_with_input",
            *(f"--{key}={value}" for key, value in options.items()),
        ],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    line = process.stdout.readline()
    if not line:
        process.wait()
        errors.seek(0)
        raise RuntimeError(errors.read()[-3000:])
    ready = json.loads(line)
    ports = ready["grpc_port"], ready["rest_port"]
    grpc, rest = (port and f"127.0.0.1:{port}" for port in ports)
    return ModelServer(grpc, rest, process, ready)


def _start_real(base_path, name, labels, policy, _):
    ports = free_ports(2)
    kind, _, text = policy.partition(":")
    inner = {
        "all": "",
        "latest": f"num_versions: {text}",
        "specific": " ".join(f"versions: {x}" for x in text.split(",")),
    }[kind]
    pairs = [f"key: '{label}' value: {version}" for label, version in labels.items()]
    config = (
        f"model_config_list {{ config {{ name: '{name}' base_path: '{base_path}' "
        f"model_platform: 'tensorflow' model_version_policy {{ {kind} {{ {inner} }} }} "
        f"{' '.join(f'version_labels {{ {pair} }}' for pair in pairs)} }} }}"
    )
    path = pathlib.Path(base_path).parent / f"models-{ports[0]}.config"
    path.write_text(config)
    process = subprocess.Popen(
        [
            *(REAL, f"--port={ports[0]}", f"--rest_api_port={ports[1]}"),
            *(f"--model_config_file={path}", "--file_system_poll_wait_seconds=1"),
            "--allow_version_labels_for_unavailable_models=true",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    grpc, rest = (f"127.0.0.1:{port}" for port in ports)
    server = ModelServer(grpc, rest, process, {})
    deadline = time.monotonic() + _SECONDS_TO_START
    while "AVAILABLE" not in _status(rest, name):
        if process.poll() is not None or time.monotonic() > deadline:
            server.stop()
            raise RuntimeError(f"{REAL} did not start with {config}")
        time.sleep(0.2)
    return server


def _status(rest, name):
    try:
        with urllib.request.urlopen(f"http://{rest}/v1/models/{name}") as answer:
            return answer.read().decode()
    except (urllib.error.URLError, OSError):
        return ""
