"""The preparation of shards: what TensorFlow Ranking reads is what training would."""

from __future__ import annotations

import gzip
import hashlib
import json

import numpy as np
import pytest

from tests.files import WIDTH, write_text
from tests.helpers import assert_same_lists
from tests.pipelines.preparing.shards import (
    load,
    read_split,
    shards,
    text_flags,
)
from tfr_ext.data.elwc import manifest
from tfr_ext.settings.data_config import DEFAULT_SEED
from tfr_ext.sources.source import SPLITS


@pytest.mark.parametrize("held_out", [(), ("valid",), ("valid", "test")])
def test_shards_of_text_are_what_training_reads(tmp_path, run, held_out):
    given = [*text_flags(tmp_path), "--seed=3"]
    for split in {"valid", "test"}.difference(held_out):
        path = write_text(tmp_path / f"{split}.txt", seed=1)
        packed = tmp_path / f"{split}.gz"
        packed.write_bytes(gzip.compress((tmp_path / f"{split}.txt").read_bytes()))
        given.append(f"--{split}_path={path if split == 'valid' else packed}")
    out = tmp_path / "out"
    printed = run(*given, f"--output_dir={out}")
    expected = []
    described = run(
        *given,
        f"--output_dir={out}",
        work=lambda: expected.append(load()),
    )
    assert len(list(out.glob("train-*"))) > 5
    found = manifest.load(str(out))
    assert found.num_features == WIDTH and found.num_grades is None
    for split in SPLITS:
        lists = getattr(expected[0], split)
        assert_same_lists(read_split(out, split, WIDTH), lists)
        entry = found.splits[split]
        assert (entry.queries, entry.items) == (lists.num_lists, lists.num_items)
        assert entry.max_list_size == lists.lengths.max()
        assert entry.max_label == lists.labels.max()
        labels, counts = np.unique(lists.labels, return_counts=True)
        assert entry.labels == {f"{k:g}": n for k, n in zip(labels, counts)}
    for line in described.splitlines():  # With the number of shards at the end.
        assert f"\n{line}, shards: " in printed
    assert f"--dataset=elwc --data_dir={out}" in printed


def test_the_manifest_names_every_shard_and_its_digest(tmp_path, run):
    run(*text_flags(tmp_path), f"--output_dir={tmp_path / 'out'}")
    content = json.loads((tmp_path / "out" / "manifest.json").read_text())
    every = [s for split in content["splits"].values() for s in split["shards"]]
    assert sorted(s["name"] for s in every) == shards(tmp_path / "out")
    for split, entry in content["splits"].items():
        count = len(entry["shards"])
        names = [f"{split}-{i:05}-of-{count:05}.tfrecord" for i in range(count)]
        assert [shard["name"] for shard in entry["shards"]] == names
    for shard in every:
        text = (tmp_path / "out" / shard["name"]).read_bytes()
        assert shard["bytes"] == len(text)
        assert shard["sha256"] == hashlib.sha256(text).hexdigest()
    assert content["source"]["train_path"] == [str(tmp_path / "train.txt")]
    assert content["source"]["seed"] == DEFAULT_SEED
    assert "synthetic_list_size" not in content["source"]


def test_shards_of_synthetic_lists(tmp_path, run):
    given = (
        "--dataset=synthetic",
        "--synthetic_num_queries=50",
        "--synthetic_list_size=7",
        "--seed=5",
        "--list_size=4",
        f"--output_dir={tmp_path / 'out'}",
    )
    printed = run(*given, "--shard_megabytes=0.01")
    assert "--list_size=4 does not change the shards; training applies it." in printed
    expected = []
    without = [flag for flag in given if "--list_size" not in flag]
    run(
        *without,
        work=lambda: expected.append(load()),
    )
    for split in SPLITS:
        found = read_split(tmp_path / "out", split, 25)
        assert_same_lists(found, getattr(expected[0], split))
    assert len(list((tmp_path / "out").glob("train-*"))) == 4  # Of 35 kB.


def test_document_ids_are_in_all_held_out_splits_or_in_none(tmp_path, run):
    path = tmp_path / "train.txt"
    lines = [f"1 qid:{q} 1:{q} #docid = d{q}\n" for q in range(40)]
    lines[30] = lines[30].replace("docid", "id")
    path.write_text("".join(lines))
    given = ("--dataset=text", f"--train_path={path}", "--shard_megabytes=0.0003")
    run(*given, f"--output_dir={tmp_path / 'out'}")
    for split in SPLITS:
        assert read_split(tmp_path / "out", split, 1).doc_ids is None


@pytest.mark.parametrize("surveyed", [True, False])
def test_a_bad_line_in_a_later_range(tmp_path, run, surveyed):
    given = text_flags(tmp_path)
    path = tmp_path / "train.txt"
    lines = path.read_bytes().split(b"\n")
    with_data = [i for i, line in enumerate(lines) if b"#docid" in line]
    wrong = with_data[len(with_data) // 2]
    lines[wrong] = b"x" + lines[wrong]
    path.write_bytes(b"\n".join(lines))
    if not surveyed:
        other = write_text(tmp_path / "other.txt", seed=1)
        given += (f"--num_features={WIDTH}",)
        given += (f"--valid_path={other}", f"--test_path={other}")
    with pytest.raises(ValueError) as info:
        run(*given, f"--output_dir={tmp_path / 'out'}")
    assert str(info.value).startswith(f"{path}:{wrong + 1}: label is not a number")
    assert "while running" not in str(info.value)
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert bool(shards(tmp_path / "out")) == (not surveyed)  # Those of ranges before.
    with pytest.raises(ValueError, match=f":{wrong + 1}: label is not a number"):
        run(*given, f"--output_dir={tmp_path / 'out'}")


def test_a_query_in_two_files(tmp_path, run):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("1 qid:1 1:1\n1 qid:2 1:1\n")
    second.write_text("\n1 qid:3 1:1\n1 qid:1 1:1\n")
    with pytest.raises(ValueError) as info:
        run(
            "--dataset=text",
            f"--train_path={first},{second}",
            f"--output_dir={tmp_path / 'out'}",
        )
    assert (
        f"{second}:3: query '1' of the train data began earlier, at {first}:1"
        in str(info.value)
    )
    assert not (tmp_path / "out" / "manifest.json").exists()
    # But the splits may share queries, as the folds of a collection do.
    second.write_text("1 qid:1 1:1\n")
    given = [f"--train_path={first}", f"--valid_path={second}", f"--test_path={second}"]
    run("--dataset=text", *given, f"--output_dir={tmp_path / 'other'}")


def test_errors_of_the_flags(tmp_path, run):
    out = f"--output_dir={tmp_path / 'out'}"
    given = text_flags(tmp_path)
    with pytest.raises(ValueError, match="`dataset=.text.` needs `train_path`"):
        run("--dataset=text", f"--test_path={tmp_path / 'train.txt'}", out)
    with pytest.raises(ValueError, match="index 6 is out of range, expected 1 to 5"):
        run(*given, out, "--num_features=5")
    with pytest.raises(FileNotFoundError, match="No file matches"):
        run("--dataset=text", "--train_path=/no/file", out)
    with pytest.raises(ValueError, match="`dataset='synthetic'` reads no files"):
        run(*given, "--dataset=synthetic", out)
