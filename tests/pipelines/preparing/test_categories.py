"""Shards of lists with categories: ids as bytes, and in the manifest what they are."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from pipelines.preparing import shard_directory, work_units
from tests.helpers import assert_same_lists, make_lists
from tests.pipelines.preparing.shards import load
from tfr_ext import data
from tfr_ext.data.elwc import manifest, reading, shards
from tfr_ext.data.elwc.message import ExampleListWithContext
from tfr_ext.data.elwc.parsing import Parser
from tfr_ext.data.elwc.writing import ShardWriter, encode
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources import elwc_source, named_sources
from tfr_ext.sources.source import FileSource, Piece

SPLITS = ("train", "valid", "test")
KINDS = {
    "all": {"categories": ["brand", "tags", "device"], "context": ["device", "age"]},
    "of the context": {"categories": ["device"], "context": ["device"]},
    "no numbers": {"categories": ["brand"], "features": []},
    "texts": {"categories": [], "texts": ["title", "age"], "context": ["age"]},
    "embeddings": {
        **{"categories": [], "features": [], "embeddings": ["vector"]},
        "embedding_inputs": True,
    },
}


def lists_of(path, **columns):
    table = pd.read_json(path, dtype={"query": str})
    texts = columns.get("texts", [])
    brands = [x.encode("latin-1") if isinstance(x, str) else x for x in table["brand"]]
    table["brand"] = pd.Series(brands, dtype=object)
    table = table.assign(age=table["age"].map("{} years".format)) if texts else table
    kept = ["query", "label", "doc", *columns["categories"], *texts]
    kept += columns.get("embeddings", [])
    if "features" not in columns:
        kept += ["price"] if texts else ["price", "age"]
    columns.pop("features", None)
    return data.RankingLists.from_dataframe(
        table[kept], "label", "query", doc_id="doc", **columns
    )


@dataclasses.dataclass(frozen=True)
class FramePiece(Piece):
    path: str
    kind: str

    def read(self, num_features):
        yield lists_of(self.path, **KINDS[self.kind])

    def locate(self, query_id):
        return self.path


class FrameSource(FileSource):
    """Frames with categories, as tables are."""

    kind = "all"

    def _read(self, split, num_features):
        pieces = (lists_of(path, **KINDS[self.kind]) for path in self.files(split))
        return data.concatenate(pieces)

    def _pieces(self, split, files, piece_bytes):
        return [FramePiece(path, self.kind) for path in files]


def write_frames(folder):
    """Two files of some queries, with values that are missing, several or no UTF-8."""
    rng = np.random.default_rng(0)
    for number in range(2):
        query = np.repeat(np.arange(12) + 100 * number, rng.integers(1, 6, 12))
        size = len(query)
        pd.DataFrame(
            {
                "query": query,
                "label": rng.integers(0, 3, size),
                "doc": [f"d{i}" for i in range(size)],
                "price": rng.normal(size=size),
                "brand": rng.choice(["\xff\xfe", "acme", "", None], size),
                "tags": [list("abcdefghijk")[: rng.integers(0, 12)] for _ in query],
                "device": np.where(query % 3, query % 4, np.nan),
                "age": query % 50,
                "title": rng.choice(["Red hat", "", "für dich " * 9], size),
                "vector": [*rng.normal(size=[size, 3])],
            }
        ).to_json(folder / f"part-{number}.json", orient="records")
    return f"{folder}/part-*.json"


@pytest.fixture(params=KINDS)
def prepared(request, tmp_path, run, monkeypatch):
    """What is prepared from frames, with queries held out, and the lists themselves."""
    monkeypatch.setattr(FrameSource, "kind", request.param)
    monkeypatch.setitem(named_sources.SOURCES, "table", FrameSource)
    given = ["--dataset=table", f"--train_path={write_frames(tmp_path)}"]
    given += ["--valid_fraction=0.04", "--test_fraction=0.2", "--output_dir=unused"]
    found = []
    run(*given, work=lambda: found.append(load()))
    run(*given, f"--output_dir={tmp_path / 'out'}")
    return tmp_path / "out", found[0]


def test_shards_have_the_ids_of_the_source(prepared, run):
    directory, expected = prepared
    found = []
    again = directory.parent / "again"
    of_shards = ("--dataset=elwc", f"--data_dir={directory}")
    run(*of_shards, f"--output_dir={again}")
    for out in (directory, again):
        given = ("--dataset=elwc", f"--data_dir={out}", "--output_dir=unused")
        run(*given, work=lambda: found.append(load()))
    for splits in found:
        for split in SPLITS:
            assert_same_lists(getattr(splits, split), getattr(expected, split))
    about = json.loads((directory / "manifest.json").read_text())
    assert about["features"] == expected.train.spec.to_json()
    for path in sorted(directory.glob("test-*.tfrecord")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            check_record(ExampleListWithContext.FromString(record), expected.test)


def check_record(elwc, lists):
    """Checks the bytes of a record."""
    context = elwc.context.features.feature
    q = lists.query_ids.index(context["query_id"].bytes_list.value[0].decode())
    if lists.context_ids is None:
        assert "context_ids" not in context
    else:
        ids = lists.context_ids[q].astype("<i8").tobytes()
        assert context["context_ids"].bytes_list.value == [ids]
    for item, example in enumerate(elwc.examples, lists.row_splits[q]):
        feature = example.features.feature
        assert ("float_features" in feature) == (lists.num_features > 0)
        if lists.ids is None:
            assert "ids" not in feature
        else:
            ids = lists.ids[item].astype("<i8").tobytes()
            assert feature["ids"].bytes_list.value == [ids]


def test_the_slow_path_reads_the_same(prepared, monkeypatch):
    directory, expected = prepared
    source = elwc_source.ElwcSource(DataConfig(dataset="elwc", data_dir=str(directory)))
    monkeypatch.setattr(Parser, "parse_quickly", lambda *_, **__: None)
    monkeypatch.setattr(Parser, "checked", lambda *_: None)
    assert_same_lists(source.read("train", None), expected.train)


def test_unjudged_items_take_their_ids_with_them(tmp_path):
    write_frames(tmp_path)
    lists = lists_of(tmp_path / "part-0.json", **KINDS["all"])
    labels = lists.labels - 1
    path = str(tmp_path / "file.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for text in encode(dataclasses.replace(lists, labels=labels)):
            writer.write(text)
    schema = dataclasses.replace(shards.PREPARED, packed=lists.spec)
    found = reading.read_elwc(path, schema=schema)
    judged = labels >= 0
    np.testing.assert_array_equal(found.ids, lists.ids[judged])
    kept = [lists.query_ids.index(query) for query in found.query_ids]
    assert 0 < len(kept) < lists.num_lists
    np.testing.assert_array_equal(found.context_ids, lists.context_ids[kept])


def test_a_manifest_of_other_features_is_refused(prepared):
    directory, _ = prepared
    path = directory / "manifest.json"
    content = json.loads(path.read_text())
    config = DataConfig(dataset="elwc", data_dir=str(directory))

    def read(features):
        path.write_text(json.dumps({**content, "features": features}))
        return elwc_source.ElwcSource(config).read("train", None)

    more = {"name": "x", "kind": "number"}
    with pytest.raises(ValueError, match="num_features is .*, as in 'features'"):
        read([*content["features"], more])
    with pytest.raises(ValueError, match="ids` must have shape"):
        read([*content["features"], {**more, "kind": "category"}])
    with pytest.raises(ValueError, match=f"{path}.* no kind of feature 'x'"):
        read([{"name": "x", "kind": "x"}])


def test_numbers_leave_nothing_new(tmp_path):
    """A spec of numbers is what a missing entry means."""
    lists = make_lists([2, 3])
    numbers = tuple(data.Feature(x, context=x == "c") for x in "abc")
    about = dataclasses.replace(lists, spec=data.FeatureSpec(numbers))
    assert [*encode(about)] == [*encode(lists)]
    shard = manifest.Shard("s", 1, 1, 1, "0" * 64)
    text = manifest.Manifest(
        3, None, {}, {"train": manifest.Split([shard], {}, 1, 1)}
    ).as_json()
    assert "features" not in json.loads(text) and "spec" not in text


def test_shards_of_other_categories_are_not_read_together(tmp_path):
    shown = []
    for name in ("brand", "colour"):
        folder = tmp_path / name
        folder.mkdir()
        lists = dataclasses.replace(
            make_lists([2]),
            query_ids=[name],
            ids=np.zeros([2, 1], np.int64),
            spec=data.FeatureSpec(
                (*map(data.Feature, "abc"), data.Feature(name, "category"))
            ),
        )
        with ShardWriter(str(folder), "train-00000-of-00001.tfrecord") as writer:
            writer.write(lists)
        content = shard_directory.describe(
            [work_units.Written({"train": writer.record}, [name])], {}
        )
        (folder / manifest.FILE_NAME).write_text(content.as_json())
        shown.append(str(folder / "train-*"))
    source = elwc_source.ElwcSource(DataConfig(dataset="elwc", train_path=shown[0]))
    assert (
        source.read("train", None).spec == manifest.load(str(tmp_path / "brand")).spec
    )
    source = elwc_source.ElwcSource(DataConfig(dataset="elwc", train_path=tuple(shown)))
    with pytest.raises(ValueError, match=r"colour/manifest.json.*expected features"):
        source.read("train", None)
