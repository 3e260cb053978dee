"""ELWC files with categories: bytes and int64, of examples and of the context."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from tests.elwc_files import CATEGORY_VALUES, elwc, with_categories, write
from tests.helpers import assert_same_lists
from tfr_ext import data
from tfr_ext.data.batches import streamed_batches, streams
from tfr_ext.data.elwc import diagnosis, parsing
from tfr_ext.data.fingerprints import FILL, MISSING, of_values, words

SCHEMA = data.ElwcSchema(
    ["price"],
    category_columns=["brand", "tags", "shop", "device"],
    text_columns=["title", "words"],
    context_columns=["device", "words"],
    text_words=4,
)


def of_frame(frame):
    names = ["brand", "tags", "shop", "device"]
    return data.RankingLists.from_dataframe(
        *(frame, "label", "query"),
        categories=names,
        texts=["title", "words"],
        context=["device", "words"],
        text_words=4,
    )


def same(lists, expected):
    """Compares lists, whose categories may have another order."""
    np.testing.assert_array_equal(lists.features, expected.features)
    for context, key in ((False, "ids"), (True, "context_ids")):
        parts = []
        for each in (lists, expected):
            widths = {x.name: x.width for x in each.spec.encoded(context)}
            ends = np.cumsum([*widths.values()])
            split = np.split(getattr(each, key), ends[:-1], axis=1)
            parts.append(dict(zip(widths, split)))
        assert parts[0].keys() == parts[1].keys()
        for name in parts[0]:
            np.testing.assert_array_equal(parts[0][name], parts[1][name], name)


@pytest.fixture(params=["fast", "padded", "slow"])
def path_taken(request, monkeypatch):
    """Reads by one of the two readers, and by each of the fast one's graphs."""
    checked, graph, kept = parsing.Parser.checked, parsing.Parser.graph, []

    def found(*args):
        kept.append(checked(*args))
        return None if request.param == "slow" else kept[-1]

    padded = request.param == "padded"
    monkeypatch.setattr(parsing.Parser, "checked", found)
    monkeypatch.setattr(parsing.Parser, "graph", lambda self, _: graph(self, padded))
    yield request.param
    assert kept and all(chunk is not None for chunk in kept)


@pytest.mark.parametrize("most", [4, 12])
def test_ids_are_those_of_the_same_data_as_a_frame(
    tmp_path, path_taken, most, monkeypatch
):
    frame, protos = with_categories(most=most)
    told = []
    monkeypatch.setattr(
        logging, "warning", lambda text, *args: told.append(text % args)
    )
    lists = data.read_elwc(write(tmp_path / "a", protos), schema=SCHEMA)
    if most > 8:
        with pytest.warns(UserWarning, match="more than 8"):
            expected = of_frame(frame)
        lengths = words(tf.constant(frame["title"])).row_lengths()
        many = int((frame["tags"].str.len() > 8).sum() + np.sum(lengths > 4))
        assert told[-1].startswith(f"{many} categories or texts of items or lists have")
    else:
        expected = of_frame(frame)
    same(lists, expected)
    kinds = {x.name: (x.width, x.is_integer, x.context) for x in lists.spec.features}
    assert kinds == {
        "price": (1, False, False),
        "brand": (1, False, False),
        "tags": (8, False, False),
        "shop": (1, True, False),
        "device": (1, False, True),
        "title": (4, False, False),
        "words": (4, False, True),
    }
    assert (lists.ids == MISSING).any() and (lists.context_ids == MISSING).any()
    odd = of_values([CATEGORY_VALUES[2], b"4611686018427387905"])
    assert np.isin(odd, lists.ids).all()
    assert (lists.ids[:, 1:9] == FILL).any() and lists.query_ids == expected.query_ids


def test_without_numbers(tmp_path, path_taken):
    """And where nobody judged any item of some lists."""
    frame, protos = with_categories()
    schema = dataclasses.replace(SCHEMA, features=())
    lists = data.read_elwc(write(tmp_path / "a", protos), 0, schema)
    expected = of_frame(frame)
    assert lists.features.shape == (len(frame), 0)
    same(
        lists,
        dataclasses.replace(
            expected, features=expected.features[:, :0], feature_names=()
        ),
    )
    for proto in protos[:5]:
        for example in proto.examples:
            example.features.feature["label"].float_list.value[:] = [-1.0]
    path = write(tmp_path / "b", protos)
    found = data.concatenate(data.iter_elwc(path, schema=schema, lists_per_piece=2))
    assert_same_lists(found, lists.select(range(5, lists.num_lists)))
    np.testing.assert_array_equal(found.context_ids, lists.context_ids[5:])
    np.testing.assert_array_equal(found.ids, lists.ids[lists.row_splits[5] :])


def row(**features):
    features = {"label": [1.0], "price": [0.5], "brand": [b"a"], **features}
    return {name: values for name, values in features.items() if values}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"brand": [7]}, "category 'brand' is a int64_list, expected a bytes_list"),
        ({"brand": [0.5]}, "category 'brand' is a float_list, expected a bytes_list"),
        ({"brand": [b"a", b"b"]}, "category 'brand' has 2 values, expected at most 1"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, wrong, told):
    records = [elwc([row()]) for _ in range(1100)] + [elwc([row(), row(**wrong)])]
    schema = data.ElwcSchema(["price"], category_columns=["brand"])
    with pytest.raises(data.DataFormatError) as error:
        data.read_elwc(write(tmp_path / "a", records), schema=schema)
    assert f"{tmp_path / 'a'}: record 1101, example 2: {told}" in str(error.value)


@pytest.mark.parametrize("kind", ["category", "text"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0])
def test_a_number_in_place_of_a_name_is_told_with_its_place(tmp_path, kind, value):
    """As of a missing brand in pandas, in the first record."""
    path = write(tmp_path / "a", [elwc([row(), row(brand=[value])])])
    columns = {"category": "category_columns", "text": "text_columns"}
    schema = data.ElwcSchema(["price"], **{columns[kind]: ["brand"]})
    told = f"record 1, example 2: {kind} 'brand' is a float_list, expected a bytes_list"
    with pytest.raises(data.DataFormatError, match=told):
        data.read_elwc(path, schema=schema)


def test_the_fast_reader_takes_no_damaged_record_for_another(tmp_path):
    """It says of each what the slow one says, or leaves it to that."""
    protos = with_categories(8, most=12)[1]
    records = [proto.SerializeToString() for proto in protos]
    widths = diagnosis.measure(records, "a", SCHEMA)
    fast, rng = parsing.parser(SCHEMA, widths), np.random.default_rng(0)
    counts = {"same": 0, "left": 0}
    for _ in range(300):
        damaged = bytearray(records[rng.integers(len(records))])
        damaged[rng.integers(len(damaged))] = rng.integers(256)
        record = bytes(damaged)
        both = [fast.parse_quickly(tf.constant([record]), x) for x in (False, True)]
        try:
            slow = diagnosis.parse_slowly([record], "a", 1, SCHEMA, widths)
        except data.DataFormatError as error:
            refused = "expected a serialised" in str(error)
            assert refused or both == [None, None], str(error)
            continue
        for quick in both:
            counts["left" if quick is None else "same"] += 1
            for key in ("ids", "context_ids", "faults") if quick else ():
                one, other = getattr(quick, key), getattr(slow, key)
                np.testing.assert_array_equal(one, other, key)
    assert counts["same"] > 150, counts


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"category_columns": ["shop"], "context_columns": ["device"]},
            "names 'device'",
        ),
        ({"category_columns": ["price"]}, "'price' has two uses"),
        ({"category_columns": ["label"]}, "'label' has two uses"),
        (
            {
                **{"category_columns": ["shop"], "text_columns": ["shop"]},
                "context_columns": ["shop"],
            },
            "'shop' has two uses",
        ),
        (
            {"category_columns": ["query_id"], "context_columns": ["query_id"]},
            "two uses",
        ),
        ({"category_columns": "shop"}, "must be a list"),
        ({"category_columns": ["brnd"]}, "no example has a value of 'brnd'.*'brand'"),
    ],
)
def test_wrong_names(tmp_path, options, told):
    path = write(tmp_path / "a", [elwc([row()], query_id=[b"q"])])
    with pytest.raises(ValueError, match=told):
        data.read_elwc(path, schema=data.ElwcSchema(["price"], **options))


def test_a_model_knows_the_kinds_of_a_file_that_lacks_a_category(tmp_path, path_taken):
    spec = data.measure_features(
        write(tmp_path / "a", with_categories()[1]), SCHEMA
    ).spec
    assert [x.name for x in spec.features] == [
        "price",
        "brand",
        "tags",
        "shop",
        "title",
        "device",
        "words",
    ]
    record = elwc([row(brand=None), row(tags=[b"x"])], query_id=[b"q"])
    path = write(tmp_path / "b", [record])
    lists = data.read_elwc(path, schema=data.ElwcSchema(["price"], spec=spec))
    assert lists.spec == spec
    brand, tag = of_values([b"a", b"x"])
    fill = [FILL] * 7
    assert lists.ids.tolist() == [
        [MISSING, MISSING, *fill, MISSING, MISSING, *fill[:3]],
        [brand, tag, *fill, MISSING, MISSING, *fill[:3]],
    ]
    assert lists.context_ids.tolist() == [[MISSING, MISSING, *fill[:3]]]


def test_the_name_of_the_query_may_be_a_text(tmp_path, path_taken):
    named = {"text_columns": ["query_id"], "context_columns": ["query_id"]}
    schema = data.ElwcSchema(["price"], **named, text_words=2)
    protos = [elwc([row()], query_id=[b"Red hat"]), elwc([row()], query_id=[b"shoe"])]
    lists = data.read_elwc(write(tmp_path / "a", protos), schema=schema)
    assert lists.query_ids == ["Red hat", "shoe"]
    red, hat, shoe = of_values([b"red", b"hat", b"shoe"])
    assert lists.context_ids.tolist() == [[red, hat], [shoe, FILL]]


def test_bytes_that_are_no_text_are_counted(tmp_path, path_taken, monkeypatch):
    schema = data.ElwcSchema(
        ["price"], text_columns=["title", "words"], text_words=9,
        context_columns=["words"],
    )  # fmt: skip
    told, titles = [], ([b"caf\xe9 bar", b"\xff"], [b"shoe"], [])
    monkeypatch.setattr(
        logging, "warning", lambda text, *args: told.append(text % args)
    )
    items = [row(title=title) for title in titles]
    protos = [elwc([item], words=[b"\xe9t\xe9 red"]) for item in items]
    lists = data.read_elwc(write(tmp_path / "a", protos), schema=schema)
    assert f"{3 + 2} texts have bytes that are not UTF-8; the words around" in told[-1]
    caf, bar, shoe, red, t = of_values([b"caf", b"bar", b"shoe", b"red", b"t"])
    assert lists.ids[:, :2].tolist() == [[caf, bar], [shoe, FILL], [MISSING, FILL]]
    assert lists.context_ids[:, :2].tolist() == [[t, red]] * 3


def test_the_graph_of_an_export_reads_the_same_ids(tmp_path):
    _, protos = with_categories(most=12)
    path = write(tmp_path / "a", protos)
    lists = data.read_elwc(path, schema=SCHEMA)
    found = data.measure_features(path, SCHEMA).parse(
        tf.constant([proto.SerializeToString() for proto in protos])
    )
    batch, _ = data.padded_batch(lists, np.arange(lists.num_lists))
    assert found.keys() == batch.keys()
    for key, values in batch.items():
        np.testing.assert_array_equal(found[key], values, key)
    # One's own pipeline gets all that there is.
    context, examples = data.elwc_parsing(lists.spec)
    items = [x.SerializeToString() for proto in protos for x in proto.examples]
    tags = tf.io.parse_example(items, examples)["tags"].to_list()
    assert tags == [
        list(x.features.feature["tags"].bytes_list.value)
        for proto in protos
        for x in proto.examples
    ]
    assert [*context] == ["device", "words"]


@pytest.mark.parametrize("numbers", [["price"], []])
def test_streamed_batches_are_those_of_lists_in_memory(tmp_path, monkeypatch, numbers):
    monkeypatch.setattr(streams, "_LISTS_PER_PIECE", 3)
    schema = dataclasses.replace(SCHEMA, features=numbers)
    _, protos = with_categories()
    path = write(tmp_path / "a", protos)
    lists = data.read_elwc(path, schema=schema)
    streamed = data.StreamedLists([path], schema=schema)
    assert streamed.spec == lists.spec
    # A run has all lists, and the seed of a run that of its number.
    made = data.StreamedBatches(streamed, 4, seed=5).dataset()
    expected = data.BatchedLists(
        lists, 4, seed=streams.number_of(0, 5), max_padding=None
    ).dataset()
    assert made.element_spec == expected.element_spec
    for one, other in itertools.zip_longest(made, expected):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)
    monkeypatch.setattr(streamed_batches, "_RUN_BATCHES", 2)
    pieces = [x for x, _ in data.StreamedBatches(streamed, 4, seed=5).dataset()]
    ids = np.concatenate([x["ids"].numpy()[x["mask"].numpy()] for x in pieces])
    assert sorted(ids.tolist()) == sorted(lists.ids.tolist())
