"""Requests with categories: the clients' scores are those of the ranker in memory."""

import dataclasses
import json
import shlex
import urllib.request
from typing import Any

import numpy as np
import pandas
import pytest
import tensorflow as tf

import tfr_ext
from pipelines.client import answers, grpc_client, rest
from pipelines.client.server_scorer import ServerConfig, ServerScorer
from tests.docs import commands, pages
from tests.serving.liars import RestLiar, metadata, packed
from tests.serving.model_server import ModelServer, serving
from tfr_ext.data.lists import RankingLists
from tfr_ext.scoring import list_ranker
from tfr_ext.serving import parity
from tfr_ext.training import RankConfig, rank

pytestmark = pytest.mark.any_keras

CONNECT = {"grpc": grpc_client.connect, "rest": rest.connect}
RAW = b"\xff\x00\xfe\x00"  # Not UTF-8, and it ends with a zero.
LENGTHS = [4, 1, 7, 2] * 10
CATEGORIES = ["brand", "shop", "made in", "size", "tags", "ids", "user", "likes"]
TEXTS = ["title", "words"]
EMBEDDINGS = ["the picture", "wish"]
INPUTS = [*CATEGORIES, *TEXTS, *EMBEDDINGS]
CONTEXT = ["age", "user", "likes", "words", "wish"]


def drawn(rng, values, count, several=False):
    """Values, some of which are missing."""
    found = [values[i] for i in rng.integers(0, len(values), count)]
    if several:
        return [[values[i] for i in rng.integers(0, len(values), n)]
                for n in rng.integers(0, 4, count)]  # fmt: skip
    return [None if rng.random() < 0.1 else value for value in found]


def made():
    """A frame of six kinds, of items and of the context."""
    rng = np.random.default_rng(7)
    count, query = sum(LENGTHS), np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    brands = pandas.Series(
        drawn(rng, ["acme", "Ünï", RAW, "new\x00"], count), dtype=object
    )
    of_lists = pandas.DataFrame(
        {
            "age": rng.normal(size=len(LENGTHS)),
            "user": drawn(rng, ["old", "young"], len(LENGTHS)),
            "likes": drawn(rng, ["red", "blue", "hats"], len(LENGTHS), several=True),
            "words": drawn(rng, ["Red hat", "SHOE, für dich", "???"], len(LENGTHS)),
            "wish": [*rng.normal(size=[len(LENGTHS), 2])],
        }
    ).iloc[query]
    return pandas.DataFrame(
        {
            "query": query,
            "price": rng.normal(size=count),
            "weight": rng.normal(size=count),
            "brand": brands.astype("category"),
            "shop": pandas.Series(drawn(rng, ["a", "b b"], count), dtype="string"),
            "made in": pandas.Series(drawn(rng, ["at", "jp"], count),
                                     dtype=pandas.StringDtype("pyarrow")),
            "size": pandas.Series(drawn(rng, [7, 38, -1], count), dtype="Int64"),
            "tags": drawn(rng, ["x", "y", RAW], count, several=True),
            "ids": drawn(rng, ["i", "j"], count),  # No name for an input.
            "title": drawn(rng, ["a red hat", "Für Shoe", RAW, "hat"], count),
            "the picture": drawn(rng, [[1.0, 0.0], [3.0, -4.0]], count),
            **{name: of_lists[name].tolist() for name in of_lists},
        }
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Served:
    """A server of a ranker, and a frame with its scores in memory."""

    server: ModelServer
    base_path: str
    frame: pandas.DataFrame
    scores: np.ndarray

    def request(self, queries, **changes) -> dict[str, Any]:
        """The lists of some queries, as a client takes them."""
        frame = self.frame
        lists = [frame[frame["query"] == query] for query in queries]
        numbers = [x[["price", "weight", "age"]].to_numpy().tolist() for x in lists]
        of_items = {
            name: [x[name].tolist() for x in lists]
            for name in INPUTS
            if name not in CONTEXT
        }
        of_context = {name: [x[name].iloc[0] for x in lists] for name in CONTEXT[1:]}
        return {"float_features": numbers, **of_items, **of_context, **changes}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    frame = made()
    labels = np.random.default_rng(1).integers(0, 3, len(frame))
    ranker = tfr_ext.Ranker(
        query="query", categories=CATEGORIES, texts=TEXTS, embeddings=EMBEDDINGS,
        context=CONTEXT,
        hidden_sizes=(8,), num_epochs=3, learning_rate=0.05, verbose=0,
        settings={"min_count": 1},
    ).fit(frame, labels)  # fmt: skip
    base = str(tmp_path_factory.mktemp("served"))
    ranker.export(base)
    with serving(base) as server:
        yield Served(server, base, frame, ranker.predict(frame))


@pytest.fixture(params=["grpc", "rest"])
def protocol(request):
    if request.param == "grpc":
        pytest.importorskip("tensorflow_serving")
    return request.param


@pytest.fixture
def client(served, protocol):
    address = served.server.address(protocol)
    with CONNECT[protocol](address, "ranker") as found:
        yield found


def assert_close(found, expected):
    allowed = parity.TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=allowed)


def test_scores_are_those_of_the_ranker(served, client):
    """With lists of different lengths, missing values and bytes that are no text."""
    assert (client.num_features, client.inputs) == (3, INPUTS)
    queries = range(len(LENGTHS))
    scores, order = client.rank(served.request(queries), topn=3)
    mask = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, np.newaxis]
    assert np.ptp(served.scores) > 0.01
    assert_close(scores[mask], served.scores)
    assert (scores[~mask] == np.finfo(np.float32).min).all()
    for row, length in zip(order, LENGTHS):
        assert (row >= 0).sum() == min(3, length) and row.max() < length
    assert_close(client.scores(served.request(queries))[mask], served.scores)


def test_a_mask_hides_items(served, client):
    request = served.request([0, 8])
    mask = np.ones([2, 4], bool)
    mask[1, 3] = False
    some = client.scores(request, mask)
    shorter = {
        name: x if name in CONTEXT else [x[0], x[1][:3]] for name, x in request.items()
    }
    assert_close(some[mask], client.scores(shorter)[mask])
    assert some[1, 3] == np.finfo(np.float32).min < some[mask].min()
    with pytest.raises(ValueError, match="The mask has items that the lists do not"):
        client.scores(shorter, np.ones([2, 4], bool))


def test_forms_of_a_value(served, client):
    def scores(**changes):
        return client.scores(served.request([1], **changes))[0, 0]

    assert scores(size=[[7]]) != scores(size=[[38]])
    for same in (7.0, "7", "7.0", b"7", np.int32(7), np.float32(7)):
        assert scores(size=[[same]]) == scores(size=[[7]])
    assert scores(brand=[["acme"]]) != scores(brand=[[RAW]])
    assert scores(brand=[[b"acme"]]) == scores(brand=np.array([["acme"]]))
    for missing in (None, "", b"", np.nan, pandas.NA, pandas.NaT):
        assert scores(brand=[[missing]]) == scores(brand=[[None]])
        assert scores(tags=[[missing]]) == scores(tags=[[[]]])
        assert scores(tags=[[[missing, "x"]]]) == scores(tags=[["x"]])
        assert scores(likes=[missing]) == scores(likes=[[]])
    assert scores(tags=[[["x", "y"]]]) != scores(tags=[["x"]])
    assert scores(brand=[["acm"]]) == scores(brand=[["unseen"]])
    for same in ("HAT: red", b"red hat", "red\u00a0Hat.", ["red", "HAT"]):
        assert scores(title=[[same]]) == scores(title=[["red hat"]])
    assert scores(title=[["red hat"]]) != scores(title=[["hat"]])
    assert scores(words=["red"]) != scores(words=["hat"])
    with pytest.warns(UserWarning, match="'tags' has more than 8 values 1 times; the"):
        assert scores(tags=[[["x"] * 8 + ["y"]]]) == scores(tags=[[["x"] * 8]])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"brend": [["acme"]]}, "There is no input 'brend'; did you mean 'brand'? The "
         "model takes: float_features, brand, "),
        ({"mask": [[True]]}, "There is no input 'mask'. The model takes: "),
        ({"brand": ...}, "The request has no 'brand'. The model takes: "),
        ({"user": ...}, "The request has no 'user'. The model takes: "),
        ({"float_features": ...}, "The request has no 'float_features'."),
        ({"brand": "acme"}, "brand is 'acme', expected a list, as 'brand' is [batch, "
         "list]."),
        ({"brand": ["acme", "b"]}, "brand[0] is 'acme', expected a list, as "),
        ({"brand": [["acme", "new"], [["acme"]]]}, "brand[1][0] is ['acme'], expected "
         "a text or a whole number."),
        ({"tags": [["x", "y"], [[["x"]]]]}, "tags[1][0][0] is ['x'], expected a text"),
        ({"tags": "x"}, "tags is 'x', expected a list, as 'tags' is [batch, list, "
         "values]."),
        ({"user": [["old"], "old"]}, "user[0] is ['old'], expected a text"),
        ({"title": [[{}, "a"], ["a"]]}, "title[0][0] is {}, expected a text or a "),
        ({"user": ["old"]}, "'user' has 1 lists, not 2, as 'float_features' has."),
        ({"brand": [["acme"] * 2, ["a"] * 2]}, "'brand' has 2 items in list "
         "1, not 1, as 'float_features' has."),
        ({"size": [[7, 7.5], [7]]}, "size[0][1] is 7.5, expected a whole number."),
        ({"size": [[7, "007"], [7]]}, "size[0][1] is '007', expected a whole number."),
        ({"brand": [["a", 7.5], ["a"]]}, "brand[0][1] is 7.5, expected a text or a "),
        ({"float_features": [[[1, 2, 3], [1, 2]], [[1, 2, 3]]]},
         "float_features[0][1] is [1, 2], expected 3 numbers."),
        ({"float_features": [[[1, 2, 3], ["a", 1, 2]], [[1, 2, 3]]]},
         "float_features[0][1] is ['a', 1, 2], expected 3 numbers."),
        ({"float_features": [[[1, 2, 3], ["1", "1", "2"]], [[1, 2, 3]]]},
         "float_features[0][1] is ['1', '1', '2'], expected 3 numbers."),
        ({"float_features": [[[1, 2, 3], [None, 1, "2"]], [[1, 2, 3]]]},
         "float_features[0][1] is [None, 1, '2'], expected 3 numbers."),
        ({"float_features": [[[1, 2, 3], [1e300, 1, 2]], [[1, 2, 3]]]},
         "Feature 0 of item 1 of list 0 (all from 0) is infinite as float32, expected"),
        ({"float_features": [[1, 2], [1]]}, "float_features[0][0] is 1, expected a "),
    ],
)  # fmt: skip
def test_what_a_model_does_not_take_is_not_sent(served, client, changes, told):
    request = served.request([3, 1], **changes)
    request = {name: x for name, x in request.items() if x is not ...}
    with pytest.raises(ValueError) as error:
        client.rank(request)
    assert str(error.value).startswith(told)


def test_requests_without_lists_or_names_are_not_sent(served, client):
    with pytest.raises(ValueError, match="Expected a mapping of inputs, not ndarray"):
        client.scores(np.zeros([1, 2, 3]))
    for request in (served.request([]), {**dict.fromkeys(client.inputs, [[]]),
                    "float_features": [[]], "user": [""], "words": [""],
                    "wish": [None]}):  # fmt: skip
        with pytest.raises(ValueError, match="List 0 has no items"):
            client.scores(request)


def test_numbers_only_may_be_named_too(server, exported, protocol):
    rows = exported.lists.features[:3].tolist()
    with CONNECT[protocol](server.address(protocol), "ranker") as client:
        assert client.inputs == []
        found = client.scores({"float_features": [rows[:2], rows[2:]]})
        padded = np.float32([rows[:2], [rows[2], rows[2]]])
        mask = np.bool_([[True, True], [True, False]])
        assert found.tolist() == client.scores(padded, mask).tolist()
        assert (
            found.tolist() == client.scores({"float_features": padded}, mask).tolist()
        )
        for missing in (np.ma.masked_less(padded, 9.0), [[[None] * 4]]):
            with pytest.raises(answers.ServingError, match="NaN feature"):
                client.scores({"float_features": missing})


def test_lists_in_memory_and_files_are_scored_by_a_server(
    served, protocol, tmp_path, monkeypatch
):
    config = ServerConfig(served.server.address(protocol), "ranker", protocol)
    scorer = ServerScorer(config)
    columns = {"categories": CATEGORIES, "texts": TEXTS, "context": CONTEXT}
    columns["embeddings"] = EMBEDDINGS
    lists = RankingLists.from_dataframe(served.frame, None, "query", **columns)
    assert scorer.spec == lists.spec
    assert scorer.feature_names[:3] == ["price", "weight", "age"]
    assert len(scorer.feature_names) == scorer.num_features == 3 + 2 + 2
    assert_close(scorer.scores(lists, 7), served.scores)
    monkeypatch.setattr(list_ranker, "read", lambda *args: iter([lists]))
    settings = {"input": __file__, "topn": 2}
    paths = [str(tmp_path / name) for name in ("a.trec", "b.trec")]
    rank(RankConfig(output=paths[0], **settings), scorer)
    rank(RankConfig(output=paths[1], export=served.base_path, **settings))
    one, other = (open(path).read() for path in paths)
    assert one == other and one.count("\n") == sum(min(2, n) for n in LENGTHS)
    scorer.close()


def test_categories_alone(tmp_path):
    """Without numbers, and with several values in the first input, the context's."""
    frame = made()[["likes", "query", "shop"]]
    names = {"categories": ["likes", "shop"], "context": ["likes"]}
    ranker = tfr_ext.Ranker(
        query="query", model="mlp", num_epochs=1, hidden_sizes=(4,), verbose=0, **names
    )
    ranker.fit(frame, np.arange(len(frame)) % 3).export(str(tmp_path))
    expected = ranker.predict(frame)[:4]
    request = {"shop": [frame["shop"][:4].tolist()], "likes": [frame["likes"][0]]}
    with serving(tmp_path) as server:
        with rest.connect(server.rest, "ranker") as client:
            assert client.num_features == 0
            assert_close(client.scores(request)[0], expected)
        shops = [x if isinstance(x, str) else "" for x in request["shop"][0]]
        texts = {"shop": [shops], "likes": [request["likes"][0] or [""]]}
        asked = urllib.request.Request(
            f"http://{server.rest}/v1/models/ranker:predict",
            json.dumps({"inputs": texts}).encode(),
        )
        with urllib.request.urlopen(asked) as answer:
            assert_close(json.load(answer)["outputs"][0], expected)


def test_each_signature_is_warmed_up(served):
    messages = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    loaded = tf.saved_model.load(f"{served.base_path}/1").signatures
    path = f"{served.base_path}/1/assets.extra/tf_serving_warmup_requests"
    seen = set()
    for record in tf.data.TFRecordDataset(path):
        log = messages.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        inputs = {k: tf.constant(tf.make_ndarray(v)) for k, v in request.inputs.items()}
        name = request.model_spec.signature_name
        assert all(len(x) for x in loaded[name](**inputs).values())
        seen.add(name)
    assert seen == {*loaded} > {"ids", "features"}


def test_the_requests_of_the_guide(tmp_path):
    frame = pandas.DataFrame(
        {
            "query": np.repeat(np.arange(20), 3),
            "price": np.linspace(0, 9, 60),
            "brand": ["acme", "new", "old"] * 20,
            "tags": [["red"], ["new", "red"], []] * 20,
            "device": np.repeat(["phone", "desk"], 30),
        }
    )
    small = {"model": "mlp", "num_epochs": 1, "hidden_sizes": (4,), "verbose": 0}
    ranker = tfr_ext.Ranker(query="query", context=["device"], **small)
    ranker.fit(frame, np.arange(60) % 3 % 2).export(str(tmp_path))
    shell, python = (
        block
        for block in pages.blocks("docs/guide/serving.md")
        if '"device"' in block.text
    )
    told: dict[str, Any] = {}
    with serving(tmp_path) as server:
        (line,) = commands.lines(shell.text)
        _, _, body, url = shlex.split(line)
        asked = urllib.request.Request(f"http://{url}", body.encode())
        asked.host = server.rest
        with urllib.request.urlopen(asked) as answer:
            outputs = json.load(answer)["outputs"]
        exec(python.text.replace("localhost:8501", server.rest), told)
    assert told["client"].inputs == ["brand", "tags", "device"]
    assert told["order"].tolist() in ([[0, 1], [0, -1]], [[1, 0], [0, -1]])
    # The same list.
    assert_close(outputs["scores"][0], told["scores"][0])
    assert outputs["order"][0] == told["order"][0].tolist()


@pytest.mark.parametrize(
    "lie",
    [
        "{",
        "[]",
        7,
        "{}",
        '{"features": [{"kind": "picture", "name": "a"}], "inputs": {}}',
        '{"features": [{"kind": "category", "name": "a"}], "inputs": {"b": "b"}}',
        '{"features": 7, "inputs": {}}',
        "[" * 10_000,
    ],
)
def test_a_server_that_lies_about_its_features(lie):
    liar = RestLiar()
    right = metadata()
    signatures = right["metadata"]["signature_def"]["signature_def"]
    signatures["features"] = {"inputs": {}, "outputs": {"features": {}}}
    told = iter([right, {"outputs": [[lie]]}])
    target = answers.Target(liar.address, "ranker", retries=0, deadline=20.0)

    class Lied(rest.RestClient):
        def _asked(self, *args):
            liar.lie = packed(json.dumps(next(told)).encode())
            return super()._asked(*args)

    with pytest.raises(answers.ServingError, match="'features' is not what an export"):
        Lied(target)
    liar.close()
