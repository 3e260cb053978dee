"""The clients: right scores, clear errors, and what the one over REST imports."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

from pipelines.client import answers, grpc_client, rest
from tests.commands import ROOT, free_ports
from tests.helpers import assert_same_scores
from tests.serving.model_server import serving
from tfr_ext.data.batches.batching import padded_batch
from tfr_ext.serving import exporter

pytestmark = pytest.mark.any_keras

CONNECT = {"grpc": grpc_client.connect, "rest": rest.connect}


@pytest.fixture(params=["grpc", "rest"])
def protocol(request):
    if request.param == "grpc":
        pytest.importorskip("tensorflow_serving")
    return request.param


@pytest.fixture
def connect(protocol, server):
    """Connects to the server that all tests share."""

    def connected(model_name="ranker", **options):
        return CONNECT[protocol](server.address(protocol), model_name, **options)

    return connected


def batch(exported, chosen=(0, 2, 3)):
    """A padded batch, with junk as padding, and the scores of its items by version."""
    lists = exported.lists.select(list(chosen))
    arrays = padded_batch(lists, np.arange(len(chosen)))[0]
    features, mask = arrays["float_features"], arrays["mask"]
    expected = {
        version: exporter.load_scorer(f"{exported.base_path}/{version}").scores(
            lists, len(chosen)
        )
        for version in (1, 2)
    }
    features[~mask] = np.nan
    features[~mask, 0] = np.inf
    assert np.isinf(features).any()
    return features, mask, expected


@pytest.mark.two_graphs
def test_scores_are_those_of_the_export(connect, exported):
    features, mask, expected = batch(exported)
    for options, version in (
        ({}, 2),
        ({"version": 1}, 1),
        ({"label": "stable"}, 1),
        ({"label": "canary"}, 2),
    ):
        with connect(**options) as client:
            assert (client.version, client.num_features) == (version, 4)
            found = client.scores(features, mask)
        assert found.dtype == np.float32
        assert_same_scores(found[mask], expected[version])
        assert (found[~mask] == np.finfo(np.float32).min).all()


@pytest.mark.two_graphs
def test_ranks_are_those_of_the_scores(connect, exported):
    features, mask, _ = batch(exported)
    features[0, 1] = features[0, 3]  # A tie.
    with connect() as client:
        scores, order = client.rank(features, mask)
        assert_same_scores(scores, client.scores(features, mask))
        some = client.rank(features, mask, topn=2)[1]
    for row in range(len(mask)):
        items = sorted(np.flatnonzero(mask[row]), key=lambda i: (-scores[row, i], i))
        assert order[row].tolist() == items + [-1] * int((~mask[row]).sum())
        assert (
            some[row].tolist() == (items[:2] + [-1] * mask.shape[1])[: len(some[row])]
        )


@pytest.mark.parametrize(
    ("features", "mask", "told"),
    [
        (np.zeros([1, 2, 3]), None, "have 3 features, but the model takes 4"),
        (np.zeros([2, 4]), None, "must have the shape [batch, list, features]"),
        (np.zeros([1, 0, 4]), None, "List 0 has no items"),
        (np.zeros([0, 2, 4]), None, "List 0 has no items"),
        (np.zeros([2, 1, 4]), [[True], [False]], "List 1 has no items"),
        (np.zeros([1, 2, 4]), [[True]], "The mask must be boolean and have the shape"),
        (np.zeros([1, 2, 4]), [[1.0, 0.0]], "The mask must be boolean"),
        ([[["a", "b", "c", "d"]]], None, "The features must be numbers"),
        ([[["1", "2", "3", "4"]]], None, "numbers [batch, list, features]: there are "
         "texts, times or complex numbers."),
        (np.zeros([1, 1, 4], "m8[s]"), None, "there are texts, times or complex"),
        ([[[1, 2, 3, "4"]]], None, "there are texts, times or complex numbers."),
        (np.array([[[1, 2, 3, "4"]]], object), None, "there are texts, times or"),
        (np.zeros([1, 1, 4], complex), None, "there are texts, times or complex"),
        ([[[1, 2, 3, 1e300]]], None, "Feature 3 of item 0 of list 0 (all from 0) is "
         "infinite as float32, expected a finite number."),
        ([[[1, 2, 3, 10**400]]], None, "The features must be numbers [batch, list, "),
    ],
)  # fmt: skip
def test_what_cannot_be_ranked_is_not_sent(connect, features, mask, told):
    with connect() as client:
        with pytest.raises(ValueError) as error:
            client.scores(features, mask)
        assert told in str(error.value)
        for topn in (0, 2.5, True, "2"):
            with pytest.raises(ValueError, match="`topn` must be an integer >= 1"):
                client.rank(np.zeros([1, 1, 4]), topn=topn)


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("other", {}, "has no model 'other'."),
        ("other", {"version": 1}, "has no model 'other'."),
        ("ranker", {"version": 9},
         "has no version 9 of model 'ranker'. It has the versions: 1, 2."),
        ("ranker", {"label": "none"},
         "has no version 'none' of model 'ranker'. It has the versions: 1, 2."),
    ],
)  # fmt: skip
def test_what_a_server_does_not_have_is_told(connect, server, protocol, name, options,
                                             told):  # fmt: skip
    with pytest.raises(answers.UnknownError) as error:
        connect(name, **options)
    assert str(error.value) == f"The server at {server.address(protocol)} {told}"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"server": "localhost"}, "`server` must be host:port"),
        ({"server": ":80"}, "`server` must be host:port"),
        ({"server": "a:99999"}, "`server` must be host:port"),
        (
            {"server": "https://a:80"},
            "plain HTTP or gRPC, and may be a proxy that adds TLS",
        ),
        *(
            ({"server": server}, "`server` must be host:port")
            for server in (
                "me@a:80",
                "a b:80",
                "a/b:80",
                "a:80\r\nx:1",
                "a:٤",
                "ä:80",
                "::1:80",
                "[a b]:80",
                "a:80\n",
                "a:80:80",
            )
        ),
        *(
            ({key: name}, f"`{key}` must be a name without")
            for key in ("model_name", "label")
            for name in ("a/b", "..", ".", "", "a b", "a\n", "\x1b[31m", "\ud800")
        ),
        ({"version": 2**63}, "The version must be an integer >= 0"),
        ({"version": 1, "label": "a"}, "Give one of them only"),
        ({"version": -1}, "The version must be an integer >= 0"),
        ({"deadline": 0}, "`deadline` must be seconds > 0"),
        ({"deadline": float("nan")}, "`deadline` must be seconds > 0"),
        ({"retries": 5}, "`retries` must be an integer from 0 to 4"),
    ],
)
def test_arguments_that_are_wrong(protocol, options, told):
    given = {"server": "localhost:1", "model_name": "ranker", **options}
    with pytest.raises(ValueError, match=told.replace("[", "\\[")):
        CONNECT[protocol](**given)


def test_a_server_that_is_gone(protocol):
    address = f"127.0.0.1:{free_ports(1)[0]}"
    for retries in (0, 1):
        with pytest.raises(answers.UnavailableError) as error:
            CONNECT[protocol](address, "ranker", retries=retries)
        assert str(error.value).startswith(f"The server at {address} is not there: ")


@contextlib.contextmanager
def listening(talk):
    """An address of 127.0.0.1 at which a function gets each connection."""
    with socket.create_server(("127.0.0.1", 0)) as waiting:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    connection = waiting.accept()[0]
                    threading.Thread(
                        target=talk, args=[connection], daemon=True
                    ).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{waiting.getsockname()[1]}"
        waiting.shutdown(socket.SHUT_RDWR)


def test_a_deadline_ends_a_request(protocol):
    """Of a server that says nothing, or an answer that never ends."""
    ended = threading.Event()

    def trickle(connection):
        with contextlib.suppress(OSError):
            while not ended.wait(0.05):
                connection.sendall(b"x" if protocol == "rest" else b"")

    with listening(trickle) as address:
        with pytest.raises(answers.DeadlineError, match="within 0.5 seconds"):
            CONNECT[protocol](address, "ranker", deadline=0.5)
        ended.set()


def reply(status, content):
    """Speaks HTTP: gives the same answer to each request."""

    def talk(connection):
        with contextlib.suppress(OSError), connection:
            while connection.recv(1 << 20):
                head = (
                    f"HTTP/1.1 {status} Told\r\nContent-Length: {len(content)}\r\n\r\n"
                )
                connection.sendall(head.encode() + content)

    return talk


@pytest.mark.parametrize(
    ("status", "content", "kind", "told"),
    [
        (200, b"{", answers.ServingError, "cannot be used: it is not JSON"),
        (200, b"[1]", answers.ServingError, "not what TensorFlow Serving says"),
        (200, b'{"metadata": {}}', answers.ServingError, "not what TensorFlow Serving"),
        (503, b'{"error": "full"}', answers.UnavailableError, "is not there: full"),
        (504, b"", answers.DeadlineError, "did not answer within"),
        (500, b'{"error": "bad\\nluck"}', answers.ServingError, "request: bad luck"),
        (500, b"<html>", answers.ServingError, "request: HTTP status 500"),
    ],
)
def test_answers_of_another_kind_over_rest(status, content, kind, told):
    with listening(reply(status, content)) as address:
        with pytest.raises(kind) as error:
            rest.connect(address, "ranker", retries=0)
        assert told in str(error.value)


def test_a_busy_server_is_tried_again_over_rest(server):
    """It says 503 twice, and then it is another server's word that counts."""
    tries = []

    def talk(connection):
        with contextlib.suppress(OSError), connection:
            while request := connection.recv(1 << 20):
                tries.append(request)
                busy = len(tries) < 3
                reply_of = b'{"error": "busy"}' if busy else b'{"error": "no"}'
                status = 503 if busy else 400
                head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(reply_of)}\r\n\r\n"
                connection.sendall(head.encode() + reply_of)

    with listening(talk) as address:
        with pytest.raises(answers.ServingError, match="refused the request: no"):
            rest.connect(address, "ranker", retries=2)
    assert len(tries) == 3


def test_the_port_of_the_other_protocol(server, protocol):
    if server.grpc is None:
        pytest.skip("needs both ports")
    address = server.address({"grpc": "rest", "rest": "grpc"}[protocol])
    with pytest.raises(answers.ServingError):
        CONNECT[protocol](address, "ranker", retries=0)


class Liar(tf.Module):
    """A model whose signatures take what a ranker takes, and give something else."""

    def __init__(self, wrong):
        super().__init__()
        features = tf.TensorSpec([None, None, 4], tf.float32, "float_features")
        mask = tf.TensorSpec([None, None], tf.bool, "mask")
        topn = tf.TensorSpec([None], tf.int32, "topn")

        def scores(x):
            given = x[:, :, 0]
            return {
                "shape": given[:, 1:],
                "nan": given * float("nan"),
                "type": tf.cast(given, tf.string) if wrong == "type" else given,
            }.get(wrong, given)

        @tf.function(input_signature=[features, mask])
        def masked(float_features, mask):
            name = "other" if wrong == "name" else "scores"
            return {name: scores(float_features)}

        @tf.function(input_signature=[features, mask, topn])
        def rank(float_features, mask, topn):
            order = tf.zeros(tf.shape(mask), tf.int32)
            return {"scores": scores(float_features), "order": order}

        self.made = {"masked": masked, "rank": rank}
        if wrong == "signature":
            del self.made["masked"]


@pytest.fixture(scope="module")
def lying(tmp_path_factory):
    """A server whose versions lie, and the number of each lie."""
    base = tmp_path_factory.mktemp("lying")
    lies = ("shape", "nan", "order", "name", "signature")
    for number, lie in enumerate(lies, 1):
        model = Liar(lie)
        tf.saved_model.save(model, str(base / str(number)), {**model.made})
    with serving(base, policy="all") as running:
        yield running, {lie: number for number, lie in enumerate(lies, 1)}


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        ("shape", "of the shape [2, 3], but is "),
        ("nan", "the score of item 0 of list 0 is NaN."),
        ("order", "'order' has [0, 0, 0], which are not positions of items"),
        ("name", "its signature 'masked' gives no 'scores'."),
        ("signature", "has no signature 'masked'. It has: rank"),
    ],
)
def test_an_answer_that_was_not_asked_for(lying, protocol, lie, told):
    running, numbers = lying
    with pytest.raises(answers.ServingError) as error:
        client = CONNECT[protocol](
            running.address(protocol), "ranker", version=numbers[lie]
        )
        (client.rank if lie == "order" else client.scores)(np.zeros([2, 3, 4]))
    assert told in str(error.value)


BARE = """
import sys
sys.path[:] = [p for p in sys.path if "site-packages" not in p] + sys.argv[1:3]
import numpy
before = {name.partition(".")[0] for name in sys.modules}
from pipelines.client import rest
with rest.connect(sys.argv[3], "ranker", label="stable") as client:
    print(client.scores(numpy.zeros([1, 2, client.num_features])).tolist())
after = {name.partition(".")[0] for name in sys.modules} - {"__mp_main__"}
print(sorted(after - before - set(sys.stdlib_module_names)))
"""


def test_the_rest_client_needs_python_and_numpy_only(server, tmp_path):
    """Nothing else is on the path of a process that asks the server."""
    packages = pathlib.Path(np.__file__).parents[1]
    for folder in [packages / "numpy", *packages.glob("numpy.libs")]:
        (tmp_path / folder.name).symlink_to(folder)
    done = subprocess.run(
        [sys.executable, "-S", "-c", BARE, str(tmp_path), str(ROOT), server.rest],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    scores, modules = done.stdout.splitlines()
    assert len(eval(scores)[0]) == 2
    assert modules == "['pipelines']"


def test_what_the_grpc_client_needs_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis.predict_pb2", None)
    with pytest.raises(ImportError, match=r"Install it: pip install 'tfr-ext\[serving"):
        grpc_client.connect("127.0.0.1:1", "ranker")


def test_features_that_a_mask_hides_are_missing():
    features = np.ma.array(np.ones([1, 2, 3]), mask=np.eye(2, 3)[np.newaxis])
    found, _ = answers.checked_inputs(features, None, 3)
    assert np.isnan(found).tolist() == np.eye(2, 3, dtype=bool)[np.newaxis].tolist()
