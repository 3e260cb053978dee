"""Fusions of runs in directories and files, and what they refuse."""

import dataclasses
import json

import numpy as np
import pytest

from tests.helpers import make_lists
from tfr_ext import evaluation
from tfr_ext.evaluation import comparison
from tfr_ext.runs import outputs
from tfr_ext.training import FusionConfig, MetricsConfig, fuse

NAMES = ["ndcg_5", "map"]


def lists_of(split):
    lists = make_lists([6, 9, 3, 7, 8], seed={"test": 1, "valid": 2}[split])
    names = [f"{split[0]}{q}" for q in range(lists.num_lists)]
    lists = dataclasses.replace(lists, query_ids=names)
    return evaluation.with_runs(lists, [])[0]  # With names of documents.


def write(directory, noise, seed, gain="linear", splits=("test", "valid")):
    """Writes what `evaluate` writes of a ranker, and returns its scores."""
    directory.mkdir()
    rng = np.random.default_rng(seed)
    convention = evaluation.Convention(gain, max_label=3.0)
    found = {}
    for split in splits:
        lists = lists_of(split)
        scores = lists.labels + rng.normal(0, noise, lists.num_items)
        found[split] = scores.astype(np.float32)
        outputs.write_trec(str(directory), lists, found[split], "x", split=split)
        if split == "test":
            values = evaluation.per_query(lists, found[split], NAMES, convention)
            outputs.write_per_query(str(directory), lists, values)
    report = {"convention": convention.as_dict(), "labels": None, "seed": seed}
    (directory / "metrics.json").write_text(json.dumps(report))
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return root, [write(root / name, 1.5, i) for i, name in enumerate("ab")]


@pytest.mark.parametrize("kind", ["zscore", "rank", "rrf"])
def test_a_fusion_is_that_of_its_formula(runs, kind, tmp_path):
    root, scores = runs
    out = tmp_path / "out"
    paths = (str(root / "a"), str(root / "b"))
    config = FusionConfig(paths, fusion=kind, weights="1,3", output_dir=str(out))
    result = fuse(config)
    convention = evaluation.Convention("linear", max_label=3.0)
    assert result.evaluation.convention == convention
    for split, found in (("test", result.evaluation.metrics), ("valid", result.valid)):
        lists = lists_of(split)
        parts = [
            evaluation.contributions(one[split], lists.row_splits, kind)
            for one in scores
        ]
        fused = 0.25 * parts[0] + 0.75 * parts[1]
        values = evaluation.per_query(lists, fused, NAMES, convention)
        assert found == pytest.approx(evaluation.means(values), abs=1e-12)
        run, qrels = (str(out / name) for name in outputs.trec_files(split))
        assert evaluation.read_qrels(qrels).query_ids == lists.query_ids
        written = evaluation.read_run(run, lists).ranked(lists)[1]
        again = evaluation.per_query(lists, written, NAMES, convention)
        assert evaluation.means(again) == pytest.approx(found, abs=1e-12)
    # It is a run like those that it was made of.
    compared = comparison.compare({"a": [paths[0]], "fused": [str(out)]})
    assert compared.metrics == tuple(NAMES) and compared.notes == ()
    assert compared.results["fused"]["map"].mean == pytest.approx(
        result.evaluation.metrics["map"], rel=1e-8
    )
    before = (out / "run.trec").read_text()
    fuse(config)
    assert (out / "run.trec").read_text() == before


def test_weights_of_the_validation_lists(runs, tmp_path, capsys):
    root, scores = runs
    bad = write(tmp_path / "bad", 99.0, 5)
    paths = (str(root / "a"), str(tmp_path / "bad"))
    out = tmp_path / "out"
    result = fuse(
        FusionConfig(paths, weights="valid", monitor="map", output_dir=str(out))
    )
    assert result.chosen.tried == 11 and result.weights[0] > 0.5
    assert result.valid["map"] == pytest.approx(result.chosen.value)
    report = json.loads((out / "metrics.json").read_text())
    assert report["fusion"]["weights"] == list(result.weights)
    assert report["fusion"]["chosen"]["monitor"] == "map"
    assert "with the best of 11 weights" in capsys.readouterr().out
    assert len(bad) == 2 and scores


def test_files_and_what_they_lack(runs, tmp_path, capsys):
    root, _ = runs
    lines = (root / "a" / "run.trec").read_text().splitlines(keepends=True)
    part = tmp_path / "part.trec"
    kept = [line for line in lines if not line.startswith("t0 ")][:-2]
    part.write_text("".join([*kept, "t4 Q0 new 99 -9 x\n"]))
    result = fuse(FusionConfig((str(root / "b"), str(part)), fusion="rank"))
    said = capsys.readouterr().out
    assert f"{part} lacks 1 of 5 test queries, such as 't0'" in said
    assert f"{root}/b lacks 1 of 34 documents" in said
    assert result.valid is None
    assert result.evaluation.metrics.keys() == {*NAMES}


def test_what_is_refused(runs, tmp_path):
    root, _ = runs
    a, b = (str(root / name) for name in "ab")
    write(tmp_path / "gain", 1.0, 3, gain="exponential")
    write(tmp_path / "test", 1.0, 3, splits=["test"])
    write(tmp_path / "other", 1.0, 3)
    qrels = tmp_path / "other" / "qrels.trec"
    qrels.write_text(qrels.read_text().replace("t0 ", "t9 "))
    run = tmp_path / "run.trec"
    run.write_text("q7 Q0 a 1 1 x\n")
    for runs_of, more, told in (
        ((a, str(tmp_path / "none")), {}, "none: expected the directory of a run"),
        ((a, a), {}, "is given twice"),
        ((a, b), {"weights": "1"}, "weight for each of the 2 runs"),
        ((a, b), {"weights": "x,y"}, "or 'valid'. Received: 'x,y'"),
        ((a, b), {"rrf_k": 5.0}, "has no meaning"),
        ((a, str(tmp_path / "gain")), {}, "do not have the same meaning: gain"),
        ((a, str(tmp_path / "test")), {"weights": "valid"}, "test has none"),
        ((a, str(tmp_path / "other")), {}, "Query 't0' is missing"),
        ((a, str(run)), {}, "no query of the run is among"),
        ((str(run),), {}, "No run has qrels.trec"),
        (
            (a, b),
            {"metrics": MetricsConfig(empty_list="one")},
            "`empty_list='one'`, but the metrics of",
        ),
    ):
        with pytest.raises(ValueError, match=told):
            fuse(FusionConfig(runs_of, **more))
