"""Shards of what other sources there are, to what trains on it."""

from __future__ import annotations

import functools
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from tests import elwc_files
from tests.commands import ROOT, run_command
from tests.files import write_text
from tests.helpers import assert_same_lists
from tests.pipelines.preparing.shards import (
    files_of,
    load,
    read_split,
    shards,
    text_flags,
)
from tfr_ext import data
from tfr_ext.sources.source import SPLITS


def test_training_on_shards_is_training_on_the_text(tmp_path):
    given = text_flags(tmp_path)[:2]
    out = tmp_path / "out"
    small = (
        *("--hidden_sizes=4", "--num_epochs=2", "--batch_size=8", "--verbose=silent"),
        *("--loss_param=", "--loss=list_net_loss"),
        *("--noexport_model", "--nodraw_curves"),
    )
    run_command("pipelines.prepare", *given, f"--output_dir={out}")
    train = functools.partial(run_command, "pipelines.train")
    flag_file = "--flagfile=configs/text.cfg"  # As the README has it.
    train(flag_file, *given, *small, f"--model_dir={tmp_path / 'text'}")
    shards_of = ("--dataset=elwc", f"--data_dir={out}")
    train(flag_file, *shards_of, *small, f"--model_dir={tmp_path / 'elwc'}")
    for name in ("run.trec", "per_query.tsv", "qrels.trec"):
        found = (tmp_path / "elwc" / name).read_text()
        assert found == (tmp_path / "text" / name).read_text()
    reports = [
        json.loads((tmp_path / name / "metrics.json").read_text())
        for name in ("elwc", "text")
    ]
    assert [len(report.pop("held_out")) for report in reports] == [0, 3]
    assert reports[0] == reports[1]


def test_no_flag_file_divides_queries_otherwise():
    """Or shards prepared without it have other splits than training with it."""
    for path in (ROOT / "configs").glob("*.cfg"):
        flags_of = [line.partition("=")[0] for line in path.read_text().splitlines()]
        chosen = {"--seed", "--data_seed", "--valid_fraction", "--test_fraction"}
        assert not chosen & set(flags_of), path


def test_shards_of_shards(tmp_path, run):
    run(*text_flags(tmp_path), f"--output_dir={tmp_path / 'one'}")
    given = ("--dataset=elwc", f"--data_dir={tmp_path / 'one'}")
    run(*given, f"--output_dir={tmp_path / 'two'}")
    one, two = files_of(tmp_path / "one"), files_of(tmp_path / "two")
    assert {**one, "manifest.json": b""} == {**two, "manifest.json": b""}
    os.truncate(tmp_path / "one" / shards(tmp_path / "one")[1], 50)
    with pytest.raises(ValueError, match="manifest.json"):
        run(*given, f"--output_dir={tmp_path / 'three'}")


def test_shards_of_a_data_set_of_tfds(tmp_path, run):
    fold = tmp_path / "files" / "MQ2008" / "Fold1"
    fold.mkdir(parents=True)
    for seed, name in enumerate(("train.txt", "vali.txt", "test.txt")):
        write_text(fold / name, seed)
    given = (
        "--dataset=letor4/mq2008_fold1",
        f"--manual_dir={tmp_path / 'files'}",
        f"--data_dir={tmp_path / 'tfds'}",
    )
    run(*given, f"--output_dir={tmp_path / 'out'}", "--shard_megabytes=0.005")
    expected = []
    out = f"--output_dir={tmp_path / 'out'}"
    run(
        *given,
        out,
        work=lambda: expected.append(load()),
    )
    assert len(list((tmp_path / "out").glob("train-*"))) > 3
    for split in SPLITS:
        found = read_split(tmp_path / "out", split, 46)
        assert_same_lists(found, getattr(expected[0], split))


def test_the_source_is_not_overwritten(tmp_path, run):
    out = tmp_path / "one"
    run(*text_flags(tmp_path), f"--output_dir={out}")
    before = files_of(out)
    for source in (f"--data_dir={out}", f"--train_path={out}/train-*"):
        with pytest.raises(ValueError, match="--output_dir=.*also holds the source"):
            run("--dataset=elwc", source, f"--output_dir={out}/", "--overwrite")
    assert files_of(out) == before


@pytest.mark.grid
def test_names_of_directories_are_not_patterns(tmp_path, run):
    for number, name in enumerate(("x1", "x[1]", "a,b")):
        run(*text_flags(tmp_path, seed=number), f"--output_dir={tmp_path / name}")
    for name in ("x[1]", "a,b"):
        source, out = tmp_path / name, tmp_path / f"again {name}"
        run("--dataset=elwc", f"--data_dir={source}", f"--output_dir={out}")
        for shard in shards(source):
            assert (out / shard).read_bytes() == (source / shard).read_bytes()
    file = tmp_path / "x[1]" / shards(tmp_path / "x[1]")[0]
    other = tmp_path / "x1" / shards(tmp_path / "x1")[0]
    assert data.read_elwc(str(file)).labels.tolist() != (
        data.read_elwc(str(other)).labels.tolist()
    )


def test_files_are_read_as_training_reads_them(tmp_path, run):
    """Widths are those of the first file, and names tell files of one name apart."""

    def records(widths, count):
        features = {n: [1.0] * w for n, w in zip("xy", widths)}
        return [elwc_files.elwc([{**features, "label": [1.0]}]) for _ in range(count)]

    for folder, widths in (("a", (2, 1)), ("b", (2, 1)), ("c", (1, 2))):
        (tmp_path / folder).mkdir()
        elwc_files.write(tmp_path / folder / "part-0", records(widths, 3))
    given = ("--dataset=elwc", "--elwc_features=x,y")
    paths = [f"{tmp_path}/{folder}/part-0" for folder in "abc"]
    for held_out in ("", ",0.5"):
        out = f"--output_dir={tmp_path}/out{held_out}"
        good = (*given, f"--train_path={paths[0]},{paths[1]}", out)
        run(*good, "--valid_fraction=0.3", "--test_fraction=0.3")
    bad = (*given, f"--train_path={paths[0]},{paths[2]}", f"--output_dir={tmp_path}/no")
    with pytest.raises(ValueError, match="c/part-0.*'x' has 1 values, expected 2"):
        run(*bad, "--valid_fraction=0.3", "--test_fraction=0.3")


@pytest.mark.parametrize(("missing", "absent"), [("-1.5", -1.5), ("auto", 0.0)])
def test_missing_features_are_written_as_training_takes_them(
    missing, absent, tmp_path, run
):
    """Also one that all validation examples lack, and by default NaN."""
    x = float("nan") if missing == "auto" else 1.0
    rows = ({"x": [x]}, {"y": [2.0, 3.0]}, {})
    for split, kept in (("train", rows), ("valid", rows[:1]), ("test", rows[1:])):
        records = [elwc_files.elwc([{**row, "label": [1.0]}]) for row in kept]
        elwc_files.write(tmp_path / split, records)
    source = ["--dataset=elwc", *(f"--{s}_path={tmp_path / s}" for s in SPLITS)]
    source += ["--elwc_features=x,y", f"--missing={missing}"]
    run(*source, f"--output_dir={tmp_path / 'out'}")
    found = []
    given = ("--dataset=elwc", f"--data_dir={tmp_path / 'out'}", "--output_dir=unused")
    run(*given, work=lambda: found.append(load()))
    expected = [[x, absent, absent], [absent, 2, 3], [absent] * 3]
    np.testing.assert_array_equal(found[0].train.features, expected)
    np.testing.assert_array_equal(found[0].valid.features, expected[:1])
    np.testing.assert_array_equal(found[0].test.features, expected[1:])


def test_another_file_system(tmp_path, run):
    """TensorFlow's file system in memory stands for those of a cloud."""
    path, out = "ram://source/train.txt", "ram://shards"
    tf.io.gfile.makedirs("ram://source")
    with tf.io.gfile.GFile(path, "wb") as file:
        with open(write_text(tmp_path / "train.txt", 0, queries=80), "rb") as local:
            file.write(local.read())
    source = ("--dataset=text", f"--train_path={path}")
    run(*source, f"--output_dir={out}", "--shard_megabytes=0.002")
    assert "nothing to do" in run(
        *source, f"--output_dir={out}", "--shard_megabytes=0.002"
    )
    found = []
    given = ("--dataset=elwc", f"--data_dir={out}", "--output_dir=unused")
    run(
        *given,
        work=lambda: found.append(load()),
    )
    run(
        *source,
        "--output_dir=unused",
        work=lambda: found.append(load()),
    )
    for split in SPLITS:
        assert_same_lists(*(getattr(one, split) for one in found))


def test_a_file_that_nobody_judged_gives_no_shard(tmp_path, run):
    judged, other = (
        [
            elwc_files.elwc([{"float_features": [1.0, 2.0], "label": [label]}])
            for _ in range(3)
        ]
        for label in (1.0, -1.0)
    )
    paths = [tmp_path / name for name in "abc"]
    for path, records in zip(paths, (judged, other, judged)):
        elwc_files.write(path, records)
    source = (
        "--dataset=elwc",
        f"--train_path={paths[0]},{paths[1]},{paths[2]}",
        f"--valid_path={paths[0]}",
    )
    good = (*source, f"--test_path={paths[2]}")
    told = run(*good, f"--output_dir={tmp_path / 'out'}")
    assert f"{paths[1]} has no judged items, so it makes no shard." in told
    found = []
    given = ("--dataset=elwc", f"--data_dir={tmp_path / 'out'}", "--output_dir=unused")
    run(
        *given,
        work=lambda: found.append(load()),
    )
    run(
        *good,
        "--output_dir=unused",
        work=lambda: found.append(load()),
    )
    for split in SPLITS:
        assert_same_lists(*(getattr(one, split) for one in found))
    bad = (*source, f"--test_path={paths[1]}", f"--output_dir={tmp_path / 'no'}")
    with pytest.raises(ValueError, match="The test data has no judged items"):
        run(*bad)
    assert not (tmp_path / "no" / "manifest.json").exists()
