"""From names and files to lists."""

import json
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tests import layouts
from tests.helpers import assert_same_lists
from tfr_ext import data, datasets
from tfr_ext.datasets import decoding, loading


@pytest.fixture
def load(tmp_path):
    """Loads a split from files in `tmp_path / 'files'`."""

    def load(name, split="train"):
        return datasets.load(name, split, tmp_path / "data", tmp_path / "files")

    return load


def test_the_lists_are_those_of_the_text(load, tmp_path):
    fold = tmp_path / "files" / "MQ2008" / "Fold1"
    layouts.write_fold(fold, 46)
    # More queries than are decoded at a time, in an order that no sorting gives.
    many = layouts.letor_text("train", 46, num_queries=150)
    (fold / "train.txt").write_text(many)
    for split, name in (("train", "train"), ("valid", "vali"), ("test", "test")):
        expected = data.read_letor(fold / f"{name}.txt")
        assert_same_lists(load("letor4/mq2008_fold1", split), expected)
    assert load("letor4/mq2008_fold1").num_lists == 150


@pytest.mark.parametrize("place", ["plain", "odd[1] a\\b*?,{x}"])
def test_a_prepared_data_set_needs_no_files(place, tmp_path):
    files, data_dir = tmp_path / place / "files", tmp_path / place / "data"
    fold = files / "MSLR-WEB10K" / "Fold2"
    layouts.write_fold(fold, 136, comments=False)
    first = datasets.load("mslr_web/10k_fold2", "test", data_dir, files)
    assert first.doc_ids == ["t0-1", "t1-1", "t1-2"]
    fold.rename(tmp_path / "gone")
    assert_same_lists(datasets.load("mslr_web/10k_fold2", "test", data_dir), first)


def test_null_becomes_0_and_is_counted(load, tmp_path, caplog):
    fold = tmp_path / "files" / "MQ2007-agg" / "Fold1"
    layouts.write_fold(fold, 21)
    (fold / "train.txt").write_text(
        "1 qid:1 1:NULL 2:3 21:NULL #docid = a\n0 qid:1 1:4 2:NULL 3:0 #docid = b\n"
    )
    lists = load("letor4/mq2007agg_fold1")
    np.testing.assert_array_equal(
        lists.features[:, [0, 1, 2, 20]], [[0, 3, 0, 0], [4, 0, 0, 0]]
    )
    builder = datasets.builder("letor4/mq2007agg_fold1", tmp_path / "data")
    assert dict(builder.info.metadata) == {
        "train_null_values": 3,
        "vali_null_values": 0,
        "test_null_values": 0,
    }
    assert [message for message in caplog.messages if "NULL" in message] == [
        f"{fold}/train.txt: 3 NULL values become 0."
    ]


def test_degrees_of_listwise_ranking_stay(load, tmp_path):
    fold = tmp_path / "files" / "MQ2007-list" / "Fold1"
    layouts.write_fold(fold, 46)
    (fold / "train.txt").write_text("1008 qid:1 1:1\n1007 qid:1 1:2\n")
    assert load("letor4/mq2007list_fold1").labels.tolist() == [1008, 1007]


def test_covid_mlia_joins_scores_and_judgements(load, tmp_path, caplog):
    scores, judgements = layouts.write_covid(tmp_path / "files")
    lists = load("covid_mlia/fold2")
    # In order 1 2 3 10 20 30 40 the parts are [1, 30], [2, 40], [3], [10] and [20].
    assert lists.query_ids == ["2", "3", "10"]
    assert load("covid_mlia/fold2", "valid").query_ids == ["20"]
    assert load("covid_mlia/fold2", "test").query_ids == ["1", "30"]
    assert lists.doc_ids == ["d1", "d3"] * 3  # In the order of the scores.
    for q, topic in enumerate(lists.query_ids):
        for i, name in enumerate(["d1", "d3"], 2 * q):
            shares = judgements[topic][name]
            np.testing.assert_allclose(lists.features[i], scores[topic][name])
            np.testing.assert_allclose(lists.label_distributions[i], shares)
            # The paper's weights, from [-1, 1] to [0, 1].
            paper = -shares[0] + 0.5 * shares[1] + shares[2]
            np.testing.assert_allclose(lists.labels[i], (paper + 1) / 2, rtol=1e-6)
    builder = datasets.builder("covid_mlia/fold2", tmp_path / "data")
    assert dict(builder.info.metadata) == {
        "topics": 7,
        "topics_without_documents": 1,
        "scored": 28,
        "scored_without_judgements": 16,
        "judged": 14,
        "judged_without_scores": 2,
    }
    (message,) = [message for message in caplog.messages if "judged" in message]
    assert "of 14 judged documents 2 have no scores" in message
    assert "of 28 scored documents 16 no judgements" in message


@pytest.mark.parametrize(
    ("name", "topic", "problem"),
    [
        ("docs_scores_by_qid", {"d1": [1.0] * 23}, "expected 24 finite numbers"),
        ("docs_scores_by_qid", {"d1": [1e40] * 24}, "expected 24 finite numbers"),
        ("docs_scores_by_qid", {"d1": "x"}, "expected 24 finite numbers"),
        ("qids_dids_labels", {"d1": [0.5, 0.2, 0.2]}, "shares that sum to 1"),
        ("qids_dids_labels", {"d1": [1.5, -0.5, 0]}, "shares that sum to 1"),
        ("qids_dids_labels", [1], "expected {topic: {document: [number, ...]}}"),
    ],
)
def test_wrong_tables_of_covid_mlia(load, tmp_path, name, topic, problem):
    layouts.write_covid(tmp_path / "files")
    path = tmp_path / "files" / "covid_mlia" / f"{name}.jsonl"
    path.write_text(json.dumps({**json.loads(path.read_text()), "2": topic}))
    with pytest.raises(data.DataFormatError) as error:
        load("covid_mlia/fold1")
    assert str(path) in str(error.value) and problem in str(error.value)
    if isinstance(topic, dict):
        assert "topic '2', document 'd1'" in str(error.value)
    path.write_text(path.read_text()[:-1])
    with pytest.raises(data.DataFormatError, match="one JSON object"):
        load("covid_mlia/fold1")


def test_a_builder_of_tfds_with_float64_and_line_numbers(load, tmp_path):
    texts = {
        f"full/{split}.txt": layouts.letor_text(split, 220, comments=False)
        for split in ("train", "test")
    }
    layouts.write_archive(tmp_path / "files" / "istella-letor.tar.gz", texts)
    lists = load("istella/main")
    # TFDS shuffles the lists by a hash of the query.
    order = [["t0", "t1", "t2"].index(query) for query in lists.query_ids]
    path = tmp_path / "train.txt"
    path.write_text(texts["full/train.txt"])
    expected = data.read_letor(path).select(order)
    np.testing.assert_array_equal(lists.features, expected.features)
    np.testing.assert_array_equal(lists.labels, expected.labels)
    lines = {"t0": "1", "t1": "2 3", "t2": "4 5 6"}
    assert lists.doc_ids == " ".join(lines[q] for q in lists.query_ids).split()
    builder = datasets.prepare("istella/main", tmp_path / "data")
    assert datasets.splits(builder) == {"train": "train", "test": "test"}
    with pytest.raises(ValueError, match="no split 'valid'. It has: train, test"):
        datasets.read(builder, "valid")


def test_our_mslr_web_and_that_of_tfds_stand_beside_each_other(tmp_path):
    ours = datasets.builder("mslr_web/10k_fold1", tmp_path)
    theirs = tfds.builder("mslr_web/10k_fold1", data_dir=tmp_path)
    assert type(ours).__module__.startswith("tfr_ext.")
    assert type(theirs).__module__.startswith("tensorflow_datasets.")
    assert ours.data_path != theirs.data_path
    assert ours.info.features.keys() == theirs.info.features.keys()


def test_names():
    names = datasets.names()
    assert len(names) == len(set(names)) == 30 + 15 + 10 + 5 + 2 + 3
    assert {"letor4/mq2007list_fold3", "ohsumed/null_fold5", "yahoo_ltrc/set2"} < set(
        names
    )


@pytest.mark.parametrize(
    ("name", "directory", "num_features"),
    [
        ("letor4/mq2007_fold1", "MQ2007/Fold1", 46),
        ("letor4/mq2008agg_fold4", "MQ2008-agg/Fold4", 25),
        ("letor4/mq2007agg_fold4", "MQ2007-agg/Fold4", 21),
        ("letor4/mq2007list_fold3", "MQ2007-list/Fold3", 46),
        ("ohsumed/fold2", "OHSUMED/QueryLevelNorm/Fold2", 45),
        ("ohsumed/min_fold5", "OHSUMED/Feature-min/Fold5", 45),
        ("mslr_web/30k_fold3", "MSLR-WEB30K/Fold3", 136),
    ],
)
def test_where_files_are_expected(load, tmp_path, name, directory, num_features):
    layouts.write_fold(tmp_path / "files" / directory, num_features)
    lists = load(name, "test")
    assert (lists.num_lists, lists.num_features) == (2, num_features)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("letor4/mq2008_fold6", ["did you mean 'letor4/mq2008_fold"]),
        ("letr4/mq2008_fold1", ["did you mean 'letor4/mq2008_fold1'"]),
        ("ohsumed", ["ohsumed/fold1..5, ohsumed/min_fold1..5"]),
        ("istella/q", ["istella/main, istella/s, istella/x"]),
        ("somewhere:letor4", ["letor4/mq2008_fold1..5"]),
        ("", ["covid_mlia/fold1..5"]),
        ("mnist", ["not for ranking", "no float_features", "are: image, label"]),
    ],
)
def test_wrong_names(name, parts, tmp_path):
    with pytest.raises(ValueError) as error:
        datasets.builder(name, tmp_path)
    assert repr(name) in str(error.value)
    for part in parts:
        assert part in str(error.value)


def test_missing_files_are_named(load, tmp_path):
    name = "ohsumed/fold1"
    with pytest.raises(ValueError, match="`manual_dir`(.|\n)*letor-3-0"):
        datasets.load(name, "train", tmp_path / "data")
    for make in (lambda: None, (tmp_path / "files").mkdir):
        make()
        with pytest.raises(
            FileNotFoundError, match="not a directory, or is empty(.|\n)*3-0"
        ):
            load(name)
    layouts.write_fold(tmp_path / "files" / "OHSUMED" / "QueryLevelNorm", 45)
    with pytest.raises(FileNotFoundError) as error:
        load(name)
    for part in (
        "  OHSUMED/QueryLevelNorm/Fold1/train.txt or "
        "OHSUMED/QueryLevelNorm/Fold1/trainingset.txt\n",
        "OHSUMED/QueryLevelNorm/Fold1/testset.txt\n",
        f"{tmp_path}/files (`manual_dir`)",
        "letor-3-0",
    ):
        assert part in str(error.value)
    for name, archive in (
        ("yahoo_ltrc/set1", "ltrc_yahoo.tar.bz2"),
        ("istella/x", "istella-X.tar.gz"),
    ):
        with pytest.raises(FileNotFoundError, match=f"\n  {archive}\n"):
            load(name)


def test_what_is_not_whole_is_told(load, tmp_path):
    layouts.write_fold(tmp_path / "files" / "MQ2008" / "Fold1", 46)
    load("letor4/mq2008_fold1")
    found = datasets.builder("letor4/mq2008_fold1", tmp_path / "data")
    (found.data_path / "dataset_info.json").unlink()
    with pytest.raises(ValueError, match="is not a complete data set. Remove it"):
        load("letor4/mq2008_fold1")


def test_a_bad_line_is_named_and_once_mended_all_is_well(load, tmp_path):
    fold = tmp_path / "files" / "MQ2008" / "Fold3"
    layouts.write_fold(fold, 46)
    good = (fold / "vali.txt").read_text()
    (fold / "vali.txt").write_text(good + "1 qid:x 47:1\n")
    with pytest.raises(data.DataFormatError, match="vali.txt:2: feature index 47"):
        load("letor4/mq2008_fold3")
    (fold / "vali.txt").write_text(good)
    assert load("letor4/mq2008_fold3", "valid").num_lists == 1


def test_errors_of_tfds_are_of_the_value(load, tmp_path):
    archive = tmp_path / "files" / "istella-X.tar.gz"
    bad = {f"{split}.txt": "1 qid:1 1:x\n" for split in layouts.SPLITS}
    layouts.write_archive(archive, bad)
    with pytest.raises(ValueError, match="istella/x: (.|\n)*parse line 1"):
        load("istella/x")
    archive.write_bytes(archive.read_bytes()[:40])
    with pytest.raises(ValueError, match="istella/x: (.|\n)*istella-X.tar.gz"):
        load("istella/x")
    good = {name: text.replace("x", "7") for name, text in bad.items()}
    layouts.write_archive(archive, good)
    assert load("istella/x").features[0, 0] == 7


@pytest.mark.parametrize("module", [None, types.ModuleType("tensorflow_datasets")])
def test_a_missing_or_broken_tfds_is_told(monkeypatch, module):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", module)
    for use in (datasets.names, lambda: datasets.builder("ohsumed/fold1")):
        with pytest.raises(ImportError, match="tensorflow-metadata==1.17.3"):
            use()


def test_tfds_is_imported_only_when_it_is_needed():
    code = "import sys, tfr_ext.datasets; print('tensorflow_datasets' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("-1 qid:t9 1:1 220:2", "label of item 1 of query 't9' is -1, expected"),
        ("nan qid:t9 1:1 220:2", "label of item 1 of query 't9' is nan, expected"),
        ("1 qid:t9 1:1 220:nan", "feature 220 of item 1 of query 't9' is nan"),
        ("1 qid:t9 1:1 2:-3e39 220:1", "feature 2 of item 1 of query 't9' is -3e"),
    ],
)
def test_numbers_that_lists_may_not_have(load, tmp_path, line, told):
    text = layouts.letor_text("train", 220, comments=False)
    texts = {"full/train.txt": f"{text}{line}\n", "full/test.txt": text}
    layouts.write_archive(tmp_path / "files" / "istella-letor.tar.gz", texts)
    with pytest.raises(ValueError, match=f"istella/main.*'train': {told}"):
        load("istella/main")


@pytest.mark.parametrize("name", ["mslr_web/10k_fold1", "istella/main"])
def test_parts_of_many_files_as_tfds_decodes_them(tmp_path, monkeypatch, name):
    """Bytes; and zipped float64, with line numbers as names of items."""
    files = tmp_path / "files"
    if name == "istella/main":
        texts = {
            f"full/{split}.txt": layouts.letor_text(split, 220, False, 70)
            for split in ("train", "test")
        }
        layouts.write_archive(files / "istella-letor.tar.gz", texts)
    else:
        fold = files / "MSLR-WEB10K" / "Fold1"
        layouts.write_fold(fold, 136, comments=False)
        for split in layouts.SPLITS:
            text = layouts.letor_text(split, 136, False, 70)
            (fold / f"{split}.txt").write_text(text)
    builder = datasets.builder(name, tmp_path / "data")
    config = tfds.download.DownloadConfig(
        manual_dir=files, num_shards=3, try_download_gcs=False
    )
    builder.download_and_prepare(download_config=config)
    assert len(builder.info.splits["train"].filenames) == 3
    parts = "train", "train[3:50]", "train[60%:]"
    found = [loading.read(builder, part) for part in parts]
    assert [lists.num_lists for lists in found] == [70, 47, 28]
    monkeypatch.setattr(decoding, "_codec", lambda feature: None)
    for part, lists in zip(parts, found):
        theirs = loading.read(builder, part)
        # Of several files, TFDS takes lists in turns unless their order matters.
        order = [theirs.query_ids.index(query) for query in lists.query_ids]
        assert_same_lists(lists, theirs.select(order))


def test_missing_values_of_istella(load, tmp_path, caplog):
    text = layouts.letor_text("train", 220, comments=False)
    line = "1 qid:t9 1:1.79769313486231570E+308 2:5 220:1.79769313486231570E+308\n"
    texts = {"full/train.txt": text + line, "full/test.txt": text}
    layouts.write_archive(tmp_path / "files" / "istella-letor.tar.gz", texts)
    lists = load("istella/main")
    q = lists.query_ids.index("t9")
    assert lists.features[lists.row_splits[q], [0, 1, 219]].tolist() == [0, 5, 0]
    assert any("Replaced 2 missing values by 0" in m for m in caplog.messages)


def test_damaged_prepared_files_are_told(load, tmp_path):
    fold = tmp_path / "files" / "MQ2008" / "Fold1"
    layouts.write_fold(fold, 46)
    load("letor4/mq2008_fold1")
    (file,) = (tmp_path / "data").glob("letor4/*/*/*train*tfrecord*")
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    with pytest.raises(ValueError, match="'train' in .*damaged.*Remove the directory"):
        load("letor4/mq2008_fold1")
    first = 16 + int.from_bytes(whole[:8], "little")
    file.write_bytes(whole[first:])  # Without its first list.
    with pytest.raises(ValueError, match="damaged: 2 lists were found, expected 3"):
        load("letor4/mq2008_fold1")
    file.unlink()
    with pytest.raises(ValueError, match="'train' in .*damaged.*Remove the directory"):
        load("letor4/mq2008_fold1")


@pytest.mark.parametrize("place", ["plain", "odd[1] a b*?{x}"])
def test_a_data_set_of_ones_own(place, tmp_path):
    """Prepared with TFDS, with labels that are integers or truth values."""
    for dtype, labels in ((np.int64, [2, 0]), (np.bool_, [True, False])):
        name = f"own_{np.dtype(dtype).name}"
        tfds.dataset_builders.store_as_tfds_dataset(
            name=name,
            version="1.0.0",
            data_dir=tmp_path / place,
            features=tfds.features.FeaturesDict(
                {
                    "query_id": tfds.features.Text(),
                    "float_features": tfds.features.Tensor(
                        shape=(None, 2), dtype=np.float32
                    ),
                    "label": tfds.features.Tensor(shape=(None,), dtype=dtype),
                }
            ),
            split_datasets={
                "train": tf.data.Dataset.from_tensors(
                    {
                        "query_id": "q1",
                        "float_features": [[1.0, 2.0], [3.0, 4.0]],
                        "label": np.array(labels),
                    }
                )
            },
        )
        lists = datasets.load(name, "train", tmp_path / place)
        assert lists.labels.tolist() == [float(x) for x in labels]
        assert lists.features.tolist() == [[1, 2], [3, 4]]
        assert lists.query_ids == ["q1"]
