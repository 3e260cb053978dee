"""Only what a run ranks highest is trained on and ranked."""

import dataclasses
import json

import numpy as np
import pytest

from tests.files import write_letor
from tests.helpers import make_lists
from tfr_ext import evaluation
from tfr_ext.sources import data_splits, long_lists, named_sources
from tfr_ext.training import DataConfig, EvaluationConfig, MetricsConfig, evaluate

SPLITS = ("train", "valid", "test")


@pytest.fixture
def files(tmp_path):
    """Files of lists of each split, and a run of all in three files."""
    for number, split in enumerate(SPLITS):
        lists = make_lists([5, 1, 8, 3], num_features=2, seed=number)
        lists = dataclasses.replace(lists, query_ids=[f"{split}{i}" for i in range(4)])
        write_letor(tmp_path / f"{split}.txt", lists)
        named = dataclasses.replace(lists, doc_ids=[f"D{i}" for i in range(17)])
        scores = np.random.default_rng(number).normal(size=17).round(1)
        evaluation.write_run(str(tmp_path / f"{split}.trec"), named, scores, "x")
    return tmp_path


def config(files, **more):
    paths = {f"{split}_path": str(files / f"{split}.txt") for split in SPLITS}
    given = {"rerank_run": (str(files / "*.trec"),), "rerank_depth": 3, **more}
    return DataConfig(dataset="text", **paths, **given)


def test_the_best_items_of_each_split_stay_in_their_order(files, capsys):
    whole = data_splits.load(config(files, rerank_run=(), rerank_depth=150))
    splits = data_splits.load(config(files))
    said = capsys.readouterr().out
    assert "cut 2 of 4 test lists to the 3 best items of the run; 7 of 17" in said
    for split in SPLITS:
        lists, full = getattr(splits, split), getattr(whole, split)
        run = evaluation.read_run(str(files / f"{split}.trec")).documents
        assert lists.lengths.tolist() == [3, 1, 3, 3]
        for q, query in enumerate(full.query_ids):
            names = full.doc_ids[full.row_splits[q] : full.row_splits[q + 1]]
            best = sorted(names, key=lambda d: -run[query][d])[:3]
            kept = lists.doc_ids[lists.row_splits[q] : lists.row_splits[q + 1]]
            assert kept == [name for name in names if name in best]
            for name in kept:
                mine, theirs = lists.doc_ids.index(name), full.doc_ids.index(name)
                assert lists.labels[mine] == full.labels[theirs]
                assert (lists.features[mine] == full.features[theirs]).all()
    cut = splits.eval_cuts["test"]
    assert cut["rerank_depth"] == 3 and cut["seed"] is None
    assert (cut["lists_cut"], cut["items_left_out"]) == (2, 7)
    lost = (whole.test.labels > 0).sum() - (splits.test.labels > 0).sum()
    assert cut["relevant_left_out"] == lost
    both = data_splits.load(config(files, list_size=2))
    assert both.train.lengths.max() == 2 and both.test.lengths.max() == 3


def test_a_run_is_evaluated_on_what_is_ranked_anew(files, tmp_path):
    out = tmp_path / "out"
    result = evaluate(
        EvaluationConfig(
            data=config(files),
            metrics=MetricsConfig(metrics=("ndcg_2", "map")),
            run=str(files / "test.trec"),
            output_dir=str(out),
        )
    )
    lists = data_splits.load(config(files)).test
    ranked = evaluation.read_run(str(files / "test.trec")).only([lists]).ranked(lists)
    assert ranked[0].num_items == lists.num_items == 10
    values = evaluation.per_query(*ranked, ["ndcg_2", "map"], result.convention)
    assert result.metrics == pytest.approx(evaluation.means(values))
    assert len((out / "run.trec").read_text().splitlines()) == 10
    report = json.loads((out / "metrics.json").read_text())
    assert report["eval_list_size"]["test"]["rerank_depth"] == 3


def test_ties_are_trec_evals_and_the_digest_knows_the_run(files):
    lists = make_lists([3], doc_ids=["a", "b", "c"])
    path = files / "ties"
    path.write_text("".join(f"q0 Q0 {d} 1 1 x\n" for d in "abc"))
    assert long_lists.rerank(lists, [str(path)], 2).doc_ids == ["b", "c"]
    before = named_sources.source(config(files)).digest()
    assert before == named_sources.source(config(files)).digest()
    text = (files / "test.trec").read_text()
    (files / "test.trec").write_text(text.replace("test0 Q0 D0 ", "test0 Q0 D9 "))
    assert named_sources.source(config(files)).digest() != before


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda t: t.replace("test2 ", "other "), "Query 'test2' is in no run"),
        (
            lambda t: "".join(x for x in t.splitlines(True) if " D1 " not in x),
            "",
        ),
        (
            lambda t: t.replace("test2 Q0 D", "test2 Q0 E"),
            "at least 3 of the 8 documents of query 'test2'. Found: 0, without 'D6'",
        ),
        (lambda t: t + "train0 Q0 D0 1 1 x\n", "query 'train0' is in both"),
        (lambda t: "nothing", "expected `query Q0 document"),
    ],
)
def test_wrong_runs(change, told, files):
    path = files / "test.trec"
    path.write_text(change(path.read_text()))
    if not told:  # Enough documents are left.
        assert data_splits.load(config(files)).test.lengths.max() == 3
        return
    with pytest.raises(ValueError, match=told):
        data_splits.load(config(files))


def test_wrong_settings(files):
    with pytest.raises(ValueError, match="`rerank_depth` has no meaning"):
        DataConfig(rerank_depth=3)
    with pytest.raises(ValueError, match="`rerank_run` needs an `export` or a `run`"):
        EvaluationConfig(data=config(files), scores="x")
    with pytest.raises(FileNotFoundError, match="nothing is at 'none'"):
        data_splits.load(config(files, rerank_run=("none",)))
