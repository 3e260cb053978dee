"""The files of serving/: what the server, Docker and the guide make of them."""

import http.server
import pathlib
import re
import shutil
import subprocess
import threading

import pytest
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)

from tests.commands import free_ports
from tests.docs import commands, pages

pytestmark = pytest.mark.any_keras

SERVING = pages.ROOT / "serving"
GUIDE = "docs/guide/serving.md"
WORDS = "google.protobuf."
# What --help of tensorflow_model_server 2.21 lists, as its main.cc defines it.
KNOWN_FLAGS = """
    port grpc_socket_path rest_api_port rest_api_num_threads rest_api_timeout_in_ms
    rest_api_enable_cors_support enable_batching batching_parameters_file
    allow_version_labels_for_unavailable_models enable_per_model_batching_parameters
    model_config_file model_config_file_poll_wait_seconds model_name model_base_path
    num_load_threads num_unload_threads max_num_load_retries load_retry_interval_micros
    file_system_poll_wait_seconds flush_filesystem_caches tensorflow_session_parallelism
    tensorflow_session_config_file tensorflow_intra_op_parallelism
    tensorflow_inter_op_parallelism use_alts_credentials ssl_config_file
    platform_config_file per_process_gpu_memory_fraction saved_model_tags
    grpc_channel_arguments grpc_max_threads enable_model_warmup
    num_request_iterations_for_warmup version monitoring_config_file
    remove_unused_fields_from_bundle_metagraph enable_signature_method_name_check
    enable_profiler thread_pool_factory_config_file
""".split()
# The messages that tensorflow-serving-api does not bring, with what is used of them.
MESSAGES = {
    "BatchingParameters": [
        (1, "max_batch_size", f"{WORDS}Int64Value"),
        (2, "batch_timeout_micros", f"{WORDS}Int64Value"),
        (3, "max_enqueued_batches", f"{WORDS}Int64Value"),
        (4, "num_batch_threads", f"{WORDS}Int64Value"),
        (5, "thread_pool_name", f"{WORDS}StringValue"),
        (6, "allowed_batch_sizes", "repeated int64"),
        (7, "pad_variable_length_inputs", "bool"),
    ],
    "PrometheusConfig": [(1, "enable", "bool"), (2, "path", "string")],
    "MonitoringConfig": [(1, "prometheus_config", "serving_files.PrometheusConfig")],
}


@pytest.fixture(scope="module")
def messages():
    """The classes of `MESSAGES`, by name."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="serving_files.proto", package="serving_files", syntax="proto3"
    )
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, described in fields:
            *repeated, kind = described.split()
            added = message.field.add(name=field, number=number)
            added.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if "." in kind:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".{kind}"
            else:
                added.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"serving_files.{name}")
        )
        for name in MESSAGES
    }


def model_config(path):
    """The only model of a models.config."""
    pytest.importorskip("tensorflow_serving")
    from tensorflow_serving.config import model_server_config_pb2

    config = model_server_config_pb2.ModelServerConfig()
    text_format.Parse(path.read_text(), config)
    (model,) = config.model_config_list.config
    return model


def test_the_model_and_its_labels():
    model = model_config(SERVING / "models.config")
    assert (model.name, model.base_path) == ("ranker", "/models/ranker")
    assert model.model_platform == "tensorflow"
    assert [*model.model_version_policy.specific.versions] == [1]
    assert dict(model.version_labels) == {"stable": 1, "canary": 1}


def test_the_guide_rolls_out_and_back(tmp_path):
    """Its edits, in its order; none labels a version that the one before lacks."""
    shutil.copytree(SERVING, tmp_path / "serving")
    edits = [
        line
        for block in pages.blocks(GUIDE)
        if block.language == "sh"
        for line in commands.lines(block.text)
        if line.startswith("sed ")
    ]
    seen, loaded = [], {1}
    for edit in edits:
        subprocess.run(["bash", "-ec", edit], cwd=tmp_path, check=True)
        model = model_config(tmp_path / "serving/models.config")
        versions = [*model.model_version_policy.specific.versions]
        labels = dict(model.version_labels)
        assert {*labels.values()} <= loaded
        loaded = {*versions}
        seen.append((versions, labels["stable"], labels["canary"]))
    assert seen == [
        ([1, 2], 1, 1),
        ([1, 2], 1, 2),
        ([1, 2], 2, 2),
        ([1, 2], 1, 2),
    ]


def test_batching(messages):
    parameters = text_format.Parse(
        (SERVING / "batching.config").read_text(), messages["BatchingParameters"]()
    )
    sizes = [*parameters.allowed_batch_sizes]
    assert sizes == sorted({*sizes})
    assert sizes[-1] == parameters.max_batch_size.value > 1
    assert parameters.num_batch_threads.value >= 1
    assert parameters.max_enqueued_batches.value >= 1
    assert 0 < parameters.batch_timeout_micros.value < 100_000
    assert not parameters.pad_variable_length_inputs


def test_monitoring(messages):
    config = text_format.Parse(
        (SERVING / "monitoring.config").read_text(), messages["MonitoringConfig"]()
    )
    assert config.prometheus_config.enable
    path = config.prometheus_config.path
    assert path.startswith("/") and path in (pages.ROOT / GUIDE).read_text()


def test_a_wrong_field_is_seen(messages):
    with pytest.raises(text_format.ParseError, match="max_batch"):
        text_format.Parse("max_batch { value: 1 }", messages["BatchingParameters"]())


def compose():
    """The service of docker-compose.yml, and the lines that it has as comments."""
    yaml = pytest.importorskip("yaml")
    text = (SERVING / "docker-compose.yml").read_text()
    (service,) = yaml.safe_load(text)["services"].values()
    optional = re.findall(r"^ +# - (--\S+)$", text, re.M)
    return service, optional


def test_the_image_is_pinned_to_a_release():
    service, _ = compose()
    assert re.fullmatch(r"tensorflow/serving:\d+\.\d+\.\d+", service["image"])
    assert service["entrypoint"] == ["tensorflow_model_server"]


def test_the_flags_are_known_and_name_files_that_are_mounted():
    service, optional = compose()
    assert {x.partition("=")[0] for x in optional} == {
        "--enable_batching",
        "--batching_parameters_file",
    }
    flags = dict(line.split("=", 1) for line in [*service["command"], *optional])
    assert {*flags} <= {f"--{name}" for name in KNOWN_FLAGS}
    assert flags["--allow_version_labels_for_unavailable_models"] == "true"
    assert int(flags["--model_config_file_poll_wait_seconds"]) > 0
    mounts = {mount["target"]: mount for mount in service["volumes"]}
    assert all(mount["read_only"] for mount in mounts.values())
    named = [pathlib.Path(x) for x in flags.values() if x.startswith("/")]
    assert len(named) == 3
    for path in named:
        source = SERVING / mounts[str(path.parent)]["source"]
        assert (source / path.name).is_file()
    exports = mounts["/models/ranker"]["source"]
    default = re.fullmatch(r"\$\{EXPORT_DIR:-(.+)\}", exports)[1]
    assert (SERVING / default).resolve() == pages.ROOT / "models/quickstart/export"


def test_its_ports_are_those_of_the_server_and_closed_to_others():
    service, _ = compose()
    flags = dict(line.split("=", 1) for line in service["command"])
    ports = [flags["--port"], flags["--rest_api_port"]]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports]
    limits = service["deploy"]["resources"]["limits"]
    for flag in ("intra", "inter"):
        threads = flags[f"--tensorflow_{flag}_op_parallelism"]
        assert float(threads) == float(limits["cpus"])
    assert limits["memory"]


def is_healthy(port):
    """Whether the health check says so of a server on a port."""
    service, _ = compose()
    kind, *command = service["healthcheck"]["test"]
    assert kind == "CMD" and "8501" in command[-1]
    command[-1] = command[-1].replace("8501", str(port))
    done = subprocess.run(command, timeout=60, capture_output=True, text=True)
    return done.returncode == 0


@pytest.mark.parametrize(
    ("code", "state", "healthy"),
    [(200, "AVAILABLE", True), (200, "LOADING", False), (404, "", False)],
)
def test_the_health_check(code, state, healthy):
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802
            asked.append(self.path)
            self.send_response(code)
            self.end_headers()
            answer = f'{{"model_version_status": [{{"state": "{state}"}}]}}'
            self.wfile.write(answer.encode())

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as stub:
        thread = threading.Thread(target=stub.handle_request)
        thread.start()
        assert is_healthy(stub.server_address[1]) == healthy
        thread.join()
    assert asked == ["/v1/models/ranker"]


def test_the_health_check_of_a_server_that_is_gone():
    assert not is_healthy(*free_ports(1))


def test_the_health_check_of_the_model_server(server):
    assert is_healthy(server.rest.rpartition(":")[2])


def test_the_source_distribution_has_them(monkeypatch):
    egg_info = pytest.importorskip("setuptools.command.egg_info")
    monkeypatch.chdir(pages.ROOT)
    found = egg_info.FileList()
    for line in (pages.ROOT / "MANIFEST.in").read_text().splitlines():
        found.process_template_line(line)
    files = {f"serving/{path.name}" for path in SERVING.iterdir()}
    assert len(files) == 5 and files <= {*found.files}
