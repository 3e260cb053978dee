"""A server that lies: each damaged answer is right or an error, and the next is read.

`TFR_EXT_FUZZ` is the number of random damages of each protocol.
"""

import contextlib
import copy
import gzip
import json
import os

import numpy as np
import pytest

from pipelines.client import answers
from tests.serving.liars import (
    FEATURES,
    LOWEST,
    MASK,
    ORDER,
    SCORES,
    GrpcLiar,
    RestLiar,
    assert_right,
    connect,
    metadata,
    outcome,
    packed,
    ranks,
    tf_metadata,
    tf_ranks,
    told,
)

pytestmark = pytest.mark.any_keras

DAMAGES = int(os.environ.get("TFR_EXT_FUZZ", 400))
# What may stand where a number or a text is expected.
STRANGE = (
    *(None, True, False, "", "x", "٤", "1.5", "4.7", "-3", "9" * 5000, [], {}, [[1]]),
    *({"a": 1}, -3, 4.7, 1e39, -1e39, 10**30, 10**400, 2**31, 2**32, 2**63, 2**64),
    *(float("nan"), float("inf"), -float("inf"), LOWEST, "\x1b[31m", "a" * 100_000),
)


@pytest.fixture(params=["rest", "grpc"])
def liar(request):
    server = {"rest": RestLiar, "grpc": GrpcLiar}[request.param]()
    yield server
    server.close()


def places(content, path=()):
    """The path to each value of a JSON."""
    yield path
    if isinstance(content, list):
        content = dict(enumerate(content))
    for key, value in content.items() if isinstance(content, dict) else ():
        yield from places(value, (*path, key))


def changed(content, path, value):
    if not path:
        return value
    made = copy.deepcopy(content)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return made


def asks(liar, client):
    """What is asked, with the JSON of the right answer."""
    return ((metadata(), lambda: connect(liar).close()),
            (ranks(), lambda: client.rank(FEATURES, MASK)))  # fmt: skip


def rest_damages(content):
    """Answers that are not right, but for some that say the same."""
    text = json.dumps(content).encode()
    for path in places(content):
        for value in STRANGE:
            yield packed(json.dumps(changed(content, path, value)).encode())
    rng = np.random.default_rng(5)
    for _ in range(DAMAGES):
        cut, place = rng.integers(0, len(text), 2)
        yield packed(text[:cut])
        torn = bytearray(text)
        torn[place] = rng.integers(256)
        yield packed(bytes(torn))
        yield packed(text)[: cut + 1] + b"<closed>"
    for body in (b"[" * 100_000, b'{"a":' * 100_000, b'{"outputs":' + b"[" * 900,
                 gzip.compress(text), text.decode().encode("utf-16"), b"\xff" + text,
                 text + b"}", b"1e999", b"-" + b"1" * 10_000, b""):  # fmt: skip
        yield packed(body)
    for head in ("HTTP/1.1 199 x", "HTTP/1.1 103 Early", "HTTP/1.1 204 No",
                 "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/", "HTTP/2 200 OK",
                 "HTTP/1.1 301 x\r\nLocation: /", "HTTP/1.1 99999 OK", "HTTP/1.1 x OK",
                 "HTTP/1.1", "\x1b[2J", "ICY 200 OK", "HTTP/1.1 404 x",
                 "HTTP/1.1 429 x", "HTTP/1.1 503 x", "HTTP/1.1 -200 x",
                 "HTTP/1.1 200 OK\r\nContent-Length: -5"):  # fmt: skip
        yield packed(text, head) + b"<closed>"
    yield packed(text, "HTTP/1.1 103 Early") + packed(text)
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    whole = f"{len(text):x}\r\n".encode() + text + b"\r\n"
    for chunks in (b"-1\r\n" + text, b"-5\r\n" + text, b"zz\r\n", b"f" * 30 + b"\r\n{",
                   whole + b"-1\r\n" + b" " * 3_000_000, whole + b"5\r\n",
                   whole + b"0\r\n" + b"a" * 99_999):  # fmt: skip
        yield start + chunks + b"<closed>"
    yield b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000 + b"\r\n<closed>"
    yield b"HTTP/1.1 200 OK\r\na: " + b"b" * 99_999 + b"<closed>"
    yield packed(text) + b"unasked"


def test_damaged_answers_over_rest():
    liar = RestLiar()
    right = wrong = 0
    with contextlib.closing(liar), connect(liar) as client:
        for content, ask in asks(liar, client):
            for number, lie in enumerate(rest_damages(content)):
                found = outcome(liar, lie, ask)
                wrong += isinstance(found, answers.ServingError)
                if isinstance(found, tuple):
                    assert np.isfinite(found[0][MASK]).all(), lie
                    right += found[0].tolist() == SCORES
                if number % 7 == 0 or not isinstance(found, answers.ServingError):
                    assert_right(client.rank(FEATURES, MASK))
    assert wrong > 1000 and right > 10, (wrong, right)


def grpc_damages(right):
    """Answers that are not right, but for some that say the same."""
    content = right.SerializeToString()
    rng = np.random.default_rng(6)
    for _ in range(DAMAGES):
        cut, place = rng.integers(0, len(content), 2)
        yield content[:cut]
        torn = bytearray(content)
        torn[place] = rng.integers(256)
        yield bytes(torn)
    yield from ("", "\x1b[2J\x07 \u202e", "x" * 5000, "version label")
    for width in (0, -1, -(2**40), 2**40):
        yield tf_metadata(width).SerializeToString()
    junk = tf_metadata()
    junk.metadata["signature_def"].value = b"\xff\xff"
    yield junk.SerializeToString()
    for kind in ("bool", "float16", "float64", "int32", "int64", "uint8", "complex64"):
        array = np.asarray(SCORES).clip(-1e3).astype(kind)
        yield tf_ranks(scores=array).SerializeToString()
        yield tf_ranks(order=array).SerializeToString()
    for order in ([[2**32, 2, 1], ORDER[1]], [[0, 2, 2**40], ORDER[1]]):
        yield tf_ranks(order=np.int64(order)).SerializeToString()
    for scores in (np.full([2, 3], "1.5"), np.full([2, 3], 1e39), np.zeros([2]),
                   np.full([2, 3], np.inf, np.float32)):  # fmt: skip
        yield tf_ranks(scores=scores).SerializeToString()
    huge = tf_ranks()
    for name, sizes in (("order", (2**40, 3)), ("scores", (2**31, 2**31))):
        del huge.outputs[name].tensor_shape.dim[:]
        for size in sizes:
            huge.outputs[name].tensor_shape.dim.add(size=size)
        huge.outputs[name].tensor_content = b""
        huge.outputs[name].float_val.append(1.0)
        yield huge.SerializeToString()
    for kind in range(-1, 130):
        made = tf_ranks()
        made.outputs["scores"].dtype = kind
        yield made.SerializeToString()


def test_damaged_answers_over_grpc():
    liar = GrpcLiar()
    right = wrong = 0
    with contextlib.closing(liar), connect(liar) as client:
        asked = zip((tf_metadata(), tf_ranks()), asks(liar, client))
        for message, (_, ask) in asked:
            for lie in grpc_damages(message):
                found = outcome(liar, lie, ask)
                wrong += isinstance(found, answers.ServingError)
                if isinstance(found, tuple):
                    assert np.isfinite(found[0][MASK]).all(), lie
                    right += found[0].tolist() == SCORES
                assert_right(client.rank(FEATURES, MASK))
    assert wrong > 500 and right > 10, (wrong, right)


def length(most):
    """Answers with more bytes than a limit: what they declare, or what they send."""
    blanks = b" " * (most + 1)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 40)
    yield packed(blanks)
    yield b"HTTP/1.1 200 OK\r\n\r\n" + blanks + b"<closed>"
    yield chunked + b"%x\r\n" % (1 << 40) + blanks
    yield chunked + b"400\r\n" + blanks[:1024] + b"\r\n" + b"%x\r\n" % most + blanks


def test_an_answer_is_read_up_to_a_size_that_follows_from_the_request(liar):
    """The next call is answered, also by one as long as an answer can be."""
    with connect(liar) as client:
        for ask, most in (
            (lambda: connect(liar), answers.MOST_BYTES),
            (lambda: client.rank(FEATURES, MASK), answers.MOST_BYTES + 2 * 2 * 4 * 64),
        ):
            rest_lies = length(most) if liar.protocol == "rest" else ()
            for lie in rest_lies or [tf_ranks().SerializeToString() + b"\xfa\1" * most]:
                said = told(liar, lie, ask)
                assert f"it has more than {most:,} bytes" in said or not rest_lies
                assert "it has more than" in said
                assert_right(client.rank(FEATURES, MASK))


def test_the_longest_right_answer_is_taken(liar):
    """As a pretty printer writes the longest numbers, or a message without packing."""
    batch, size = 300, 100
    lowest, order = np.full([batch, size], LOWEST), np.arange(size)[::-1]
    many = np.tile(order, [batch, 1])
    if liar.protocol == "rest":
        value = {"outputs": {"scores": (lowest / 3).tolist(), "order": many.tolist()}}
        lie = packed(json.dumps(value, indent=4).encode())
    else:
        lie = tf_ranks(np.float32(lowest / 3), np.int32(many)).SerializeToString()
    assert liar.protocol == "grpc" or len(lie) > answers.MOST_BYTES
    with connect(liar) as client:
        found = outcome(liar, lie, lambda: client.rank(np.zeros([batch, size, 4])))
        assert found[1].tolist() == many.tolist()


def test_a_long_answer_over_grpc_is_taken():
    """More than the 4 MiB that gRPC takes by default, and than what a channel began."""
    liar = GrpcLiar()
    scores = np.random.default_rng(0).normal(size=[600, 4000]).astype(np.float32)
    lie = tf_ranks(scores).SerializeToString()
    assert len(lie) > 4 << 20
    with contextlib.closing(liar), connect(liar) as client:
        found = outcome(liar, lie, lambda: client.scores(np.zeros([600, 4000, 4])))
        np.testing.assert_array_equal(found, scores)
        assert_right(client.rank(FEATURES, MASK))


NAMED = [
    ({"name": "other"}, "it is of version 7 of model 'other', not of model 'ranker'."),
    ({"version": -3}, "it is "),
    ({"version": 8}, "it is of version 8 of model 'ranker', not of version 7 of "),
    ({"width": 0}, "no 'float_features' of a known width."),
    ({"width": -1}, "no 'float_features' of a known width."),
]


@pytest.mark.parametrize(("spec", "message"), NAMED)
def test_metadata_is_of_the_model_that_was_asked_for(liar, spec, message):
    name, version = spec.get("name", "ranker"), spec.get("version", 7)
    right = metadata()
    right["model_spec"].update(name=name, version=str(version))
    masked = right["metadata"]["signature_def"]["signature_def"]["masked"]
    sizes = masked["inputs"]["float_features"]["tensor_shape"]["dim"]
    sizes[-1]["size"] = str(spec.get("width", 4))
    lie = packed(json.dumps(right).encode())
    if liar.protocol == "grpc":
        lie = tf_metadata(**spec).SerializeToString()
    asked = 7 if version == 8 else None
    assert message in told(liar, lie, lambda: connect(liar, version=asked))


@pytest.mark.parametrize(("spec", "message"), NAMED[:3])
def test_each_answer_over_grpc_is_of_that_model(spec, message):
    liar = GrpcLiar()
    with contextlib.closing(liar), connect(liar, version=7) as client:
        lie = tf_ranks(**spec).SerializeToString()
        assert message.partition(", ")[0] in told(
            liar, lie, lambda: client.rank(FEATURES, MASK)
        )
        unnamed = tf_ranks()
        unnamed.ClearField("model_spec")
        lie = unnamed.SerializeToString()
        assert_right(outcome(liar, lie, lambda: client.rank(FEATURES, MASK)))


@pytest.mark.parametrize(
    ("version", "width"),
    [(float("inf"), "4"), (7.0, "4"), (True, "4"), ("٤", "4"), ("+7", "4"),
     ("7 ", "4"), (2**63, "4"), ("9" * 5000, "4"), (None, "4"), ("7", "4.7"),
     ("7", 4.7), ("7", True), ("7", "٤"), ("7", float("inf")), ("7", "")],
)  # fmt: skip
def test_numbers_of_metadata_are_integers(version, width):
    liar = RestLiar()
    right = metadata()
    right["model_spec"]["version"] = version
    masked = right["metadata"]["signature_def"]["signature_def"]["masked"]
    masked["inputs"]["float_features"]["tensor_shape"]["dim"][-1]["size"] = width
    lie = packed(json.dumps(right).encode())
    with contextlib.closing(liar):
        said = told(liar, lie, lambda: connect(liar))
        assert "it is not what TensorFlow Serving says about a model." in said


@pytest.mark.parametrize(
    ("value", "message"),
    [
        *((x, "the score of item 1 of list 0 is ") for x in (1e39, -1e39)),
        *((float(x), f"of list 0 is {x}.") for x in ("inf", "-inf")),
        (float("nan"), "of list 0 is NaN."),
        (True, "must be float32 of the shape [2, 3], but is bool and float of"),
        ("1.5", "must be float32 of the shape [2, 3], but is float and str of"),
        (None, "but is NoneType and float of"),
        (10**400, "'scores' is not an array."),
    ],
)  # fmt: skip
def test_scores_are_finite_numbers(value, message):
    liar = RestLiar()
    with contextlib.closing(liar), connect(liar) as client:
        for place, wrong in (((0, 1), True), ((1, 2), isinstance(value, float))):
            lie = changed(ranks(), ("outputs", "scores", *place), value)
            lie = packed(json.dumps(lie).encode())
            if place == (0, 1):
                said = told(liar, lie, lambda: client.rank(FEATURES, MASK))
                assert message in said
            elif wrong:  # Padding has the lowest float, whatever a server says.
                assert_right(outcome(liar, lie, lambda: client.rank(FEATURES, MASK)))


@pytest.mark.parametrize(
    "order", [[0, 2, True], [0, 2, 1.0], [0, 2, 2**32], [0, 2, 10**30], [0, 2, -1],
              [0, 2, 3], [0, 2, -2], [0, 2, 2], ["0", "2", "1"]],
    ids=str,
)  # fmt: skip
def test_an_order_is_the_positions_of_all_items(order):
    liar = RestLiar()
    lie = packed(json.dumps(changed(ranks(), ("outputs", "order", 0), order)).encode())
    with contextlib.closing(liar), connect(liar) as client:
        assert "'order' " in told(liar, lie, lambda: client.rank(FEATURES, MASK))


def test_a_redirect_is_not_followed_and_errors_are_printable():
    with (
        contextlib.closing(RestLiar()) as other,
        contextlib.closing(RestLiar()) as liar,
    ):
        other.lie = b"untouched"
        head = f"HTTP/1.1 307 x\r\nLocation: http://{other.address}/"
        assert "HTTP status 307" in told(liar, packed(b"", head), lambda: connect(liar))
        assert other.lie == b"untouched"


@pytest.mark.parametrize("text", ["\x1b]0;own\x07\x9b2J\u202e\u2028x", "ab" * 50_000])
def test_what_a_server_says_is_printable_and_short(liar, text):
    lie = packed(json.dumps({"error": text}).encode(), "HTTP/1.1 400 Bad")
    if liar.protocol == "grpc":
        lie = text[:5000]
    said = told(liar, lie, lambda: connect(liar))
    assert "refused the request: " in said and len(said) < 2100 and said.isprintable()
    assert ("\\x1b]0;own\\x07" if "own" in text else " characters]") in said
