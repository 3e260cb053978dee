"""The collections themselves, where TFR_EXT_DATA names them."""

import collections
import json

import numpy as np
import pytest
from tensorflow_datasets.ranking import libsvm_ranking_parser

from tests.helpers import assert_same_lists
from tfr_ext import data, datasets

FILES = {"train": "train", "valid": "vali", "test": "test"}


def counts(parts):
    """Queries, documents, and documents of each label."""
    labels = collections.Counter(float(y) for lists in parts for y in lists.labels)
    queries = {query for lists in parts for query in lists.query_ids}
    assert len(queries) == sum(lists.num_lists for lists in parts)
    return len(queries), sum(labels.values()), dict(labels)


@pytest.mark.parametrize(
    ("name", "directory", "expected"),
    [
        (
            "letor4/mq2008_fold",
            "MQ2008",
            (784, 15_211, {0: 12_279, 1: 2_001, 2: 931}),
        ),
        (
            "ohsumed/fold",
            "OHSUMED/QueryLevelNorm",
            (106, 16_140, {0: 11_303, 1: 2_585, 2: 2_252}),
        ),
    ],
)
def test_five_folds(real_data, tmp_path, name, directory, expected):
    tests = []
    for fold in range(1, 6):
        builder = datasets.prepare(f"{name}{fold}", tmp_path, real_data)
        parts = {split: datasets.read(builder, split) for split in FILES}
        assert counts(parts.values()) == expected
        tests.append(parts["test"])
        for split, file in FILES.items():
            path = real_data / directory / f"Fold{fold}" / f"{file}.txt"
            assert_same_lists(parts[split], data.read_letor(path))
    assert counts(tests) == expected
    # The reader of TFDS's own builders, on the last file.
    width = tests[-1].num_features
    names = {i: str(i) for i in range(1, width + 1)}
    with open(path) as file:
        parsed = dict(
            libsvm_ranking_parser.LibSVMRankingParser(
                file, names, combine_features=True
            )
        )
    assert list(parsed) == tests[-1].query_ids
    for key, values in (
        ("float_features", tests[-1].features),
        ("label", tests[-1].labels),
    ):
        theirs = np.concatenate([example[key] for example in parsed.values()])
        np.testing.assert_array_equal(values, theirs.astype(np.float32))


def test_ohsumed_with_null_values(real_data, tmp_path):
    fold = tmp_path / "files" / "OHSUMED" / "Feature-null" / "Fold1"
    fold.mkdir(parents=True)
    for name in ("trainingset.txt", "validationset.txt", "testset.txt"):
        (fold / name).symlink_to(real_data / "ohsumed_null.txt")
    builder = datasets.prepare("ohsumed/null_fold1", tmp_path, tmp_path / "files")
    lists = datasets.read(builder, "train")
    assert (lists.num_lists, lists.num_items, lists.num_features) == (21, 3_076, 45)
    assert set(lists.labels) == {0, 1, 2}
    text = (real_data / "ohsumed_null.txt").read_text()
    assert builder.info.metadata["train_null_values"] == text.count(":NULL") > 0
    assert_same_lists(lists, data.read_letor(real_data / "ohsumed_null.txt"))


def test_mslr_web(real_data, tmp_path):
    fold = tmp_path / "files" / "MSLR-WEB10K" / "Fold1"
    fold.mkdir(parents=True)
    for name in FILES.values():
        (fold / f"{name}.txt").symlink_to(real_data / "mslr35.txt")
    lists = datasets.load("mslr_web/10k_fold1", "valid", tmp_path, tmp_path / "files")
    labels = {0: 1_623, 1: 1_139, 2: 547, 3: 58, 4: 26}
    assert counts([lists]) == (35, 3_393, labels)
    assert (lists.num_features, lists.lengths.max()) == (136, 204)
    assert lists.doc_ids[:2] == [f"{lists.query_ids[0]}-{i}" for i in (1, 2)]


def test_covid_mlia(real_data, tmp_path):
    tests = []
    for fold in range(1, 6):
        builder = datasets.prepare(f"covid_mlia/fold{fold}", tmp_path, real_data)
        parts = [datasets.read(builder, split) for split in FILES]
        assert counts(parts)[:2] == (27, 1_024)
        tests.append(parts[-1])
    assert counts(tests)[:2] == (27, 1_024)
    assert dict(builder.info.metadata) == {
        "topics": 30,
        "topics_without_documents": 3,
        "scored": 10_513,
        "scored_without_judgements": 10_513 - 1_024,
        "judged": 1_941,
        "judged_without_scores": 1_941 - 1_024,
    }
    scores, judgements = (
        json.loads((real_data / "covid_mlia" / f"{name}.jsonl").read_text())
        for name in ("docs_scores_by_qid", "qids_dids_labels")
    )
    for lists in tests:
        items = zip(np.repeat(lists.query_ids, lists.lengths), lists.doc_ids)
        for i, (topic, name) in enumerate(items):
            np.testing.assert_allclose(lists.features[i], scores[topic][name])
            np.testing.assert_allclose(
                lists.label_distributions[i], judgements[topic][name], atol=1e-7
            )
