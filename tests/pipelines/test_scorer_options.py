"""The options of the network, and lists cut in evaluation, by flags."""

import csv
import functools
import json

import numpy as np
import pytest

from tests.commands import run_command
from tfr_ext import data
from tfr_ext.serving import exporter

train = functools.partial(run_command, "pipelines.train")
evaluate = functools.partial(run_command, "pipelines.evaluate")

DATA = (
    "--dataset=synthetic",
    "--synthetic_num_queries=30",
    "--synthetic_list_size=9",
    "--seed=1",
)
# The WassRank paper's scorer.
ONE_LAYER = (
    "--hidden_sizes=",
    "--nobatch_normalization",
    "--output_activation=sigmoid",
    "--dropout=0.01",
    "--l2_regularization=0.001",
    "--loss=list_net_loss",
    "--num_epochs=2",
    "--verbose=silent",
    "--nodraw_curves",
)
CUT = ("--eval_list_size=4", "--first_stage_feature=6")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    return directory, train(*DATA, *ONE_LAYER, *CUT, f"--model_dir={directory}")


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.grid
def test_the_network_of_flags_is_exported_and_written_down(run, tmp_path):
    directory, _ = run
    written = (directory / "flags.cfg").read_text().splitlines()
    for flag in ("--hidden_sizes=", "--activation=relu", *ONE_LAYER[2:5], *CUT):
        assert flag in written
    scorer = exporter.load_scorer(str(directory / "export"))
    scores = scorer.scores(data.synthetic_lists(30, 9, shared_columns=True, seed=1), 8)
    assert 0 < scores.min() < scores.max() < 1
    train(f"--flagfile={directory}/flags.cfg", f"--model_dir={tmp_path}")
    for name in ("metrics.json", "run.trec"):
        assert (tmp_path / name).read_text() == (directory / name).read_text()


def test_lists_are_cut_in_validation_and_test_and_it_is_told(run):
    directory, done = run
    # 6 queries each; those of training stay whole.
    assert "train: 18 queries, 162 items" in done.stdout
    assert "test: 6 queries, 24 items" in done.stdout
    for split in ("validation", "test"):
        told = f"--eval_list_size=4 cut 6 of 6 {split} lists to the items with the"
        assert f"{told} highest feature 6; 30 of 54 items are left out" in done.stdout
    ranked = [
        line.split() for line in (directory / "run.trec").read_text().splitlines()
    ]
    lists = data.synthetic_lists(30, 9, shared_columns=True, seed=1)
    left_out = 0
    for query in {row[0] for row in ranked}:
        q = lists.query_ids.index(query)
        items = slice(*lists.row_splits[q : q + 2])
        best = np.argsort(-lists.features[items, 5])[:4]
        assert {row[2] for row in ranked if row[0] == query} == {
            f"{query}-{i + 1}" for i in best
        }
        labels = lists.labels[items]
        left_out += (labels > 0).sum() - (labels[best] > 0).sum()
    report = json.loads((directory / "metrics.json").read_text())
    assert report["eval_list_size"]["test"] == {
        "list_size": 4,
        "first_stage_feature": 6,
        "seed": None,
        "lists_cut": 6,
        "items_left_out": 30,
        "relevant_left_out": left_out,
    }
    assert report["eval_list_size"]["valid"]["lists_cut"] == 6


@pytest.mark.two_graphs
def test_evaluate_cuts_as_training_does(run, tmp_path):
    directory, _ = run
    done = evaluate(
        *DATA, *CUT, f"--export={directory}/export", f"--output_dir={tmp_path}"
    )
    assert "--eval_list_size=4 cut 6 of 6 test lists" in done.stdout
    ours = json.loads((tmp_path / "metrics.json").read_text())
    theirs = json.loads((directory / "metrics.json").read_text())
    assert ours["eval_list_size"] == theirs["eval_list_size"]
    assert {*ours["eval_list_size"]} == {"valid", "test"}
    for name, value in theirs["test"].items():
        np.testing.assert_allclose(ours["test"][name], value, atol=1e-6)
    assert [row["query"] for row in rows(tmp_path / "per_query.tsv")] == [
        row["query"] for row in rows(directory / "per_query.tsv")
    ]
    done = evaluate(*DATA, *CUT, f"--run={directory}/run.trec", check=False)
    assert done.returncode and "--eval_list_size needs an --export" in done.stderr
