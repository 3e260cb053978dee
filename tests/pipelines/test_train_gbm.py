"""Trees from the command line, and beside networks in an experiment."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from pipelines.experiments import cells
from pipelines.experiments.kinds import KINDS
from tests import helpers
from tests.commands import ROOT, run_command, told
from tests.pipelines.experiments import flags_of, write_folds
from tfr_ext import data, evaluation

helpers.need("lightgbm")

SMALL = (
    *("--synthetic_num_queries=40", "--synthetic_list_size=8", "--num_trees=4"),
    *("--min_data_in_leaf=3", "--metrics=ndcg_5,map", "--monitor=ndcg_5"),
)


def test_runs_of_trees_are_compared_and_evaluated(tmp_path):
    for name, more, written in (
        ("a", (), "curves.png, model.txt"),
        ("b", ("--objective=list_net_loss", "--nodraw_curves"), "model.txt"),
    ):
        done = run_command(
            "pipelines.train_gbm", *SMALL, *more, f"--model_dir={tmp_path}/{name}"
        )
        assert written in done.stdout
    run_command(
        "pipelines.compare",
        f"{tmp_path}/a",
        f"{tmp_path}/b",
        f"--output_dir={tmp_path}",
    )
    compared = json.loads((tmp_path / "comparison.json").read_text())
    assert [run["name"] for run in compared["runs"]] == ["a", "b"]
    run_command(
        "pipelines.evaluate",
        *(SMALL[0], SMALL[1], f"--run={tmp_path}/a/run.trec", "--metrics=ndcg_5"),
        f"--output_dir={tmp_path}/evaluated",
    )
    ours, theirs = (
        json.loads((tmp_path / name / "metrics.json").read_text())["test"]["ndcg_5"]
        for name in ("a", "evaluated")
    )
    assert theirs == pytest.approx(ours, abs=1e-6)  # The run has no ties.
    # Its settings run it again, and the other command does not touch it.
    run_command(
        "pipelines.train_gbm",
        *(f"--flagfile={tmp_path}/a/flags.cfg", f"--model_dir={tmp_path}/c"),
    )
    for name in ("per_query.tsv", "model.txt", "history.tsv"):
        assert (tmp_path / "a" / name).read_text() == (
            tmp_path / "c" / name
        ).read_text()
    message = told(
        run_command("pipelines.train", f"--model_dir={tmp_path}/a", check=False)
    )
    assert "pipelines.train did not write" in message


def test_killed_it_does_it_again(tmp_path):
    flags = [*SMALL[:2], "--num_trees=20000", "--nodraw_curves"]
    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.train_gbm", *flags, f"--model_dir={out}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    while not process.stdout.readline().startswith("test: "):
        assert process.poll() is None
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (out / "metrics.json").exists()
    run_command("pipelines.train_gbm", *SMALL, f"--model_dir={out}")
    assert (out / "metrics.json").exists()


def test_an_experiment_has_networks_trees_and_runs(tmp_path):
    write_folds(tmp_path)
    expected = [write_runs_with_ties(tmp_path, fold) for fold in (1, 2)]
    flags = [
        *(
            flag
            for flag in flags_of(tmp_path)
            if not flag.startswith("--method=SmoothI")
        ),
        *("--seeds=1", "--num_epochs=1", "--num_trees=3", "--optimizer=sgd"),
        "--method=Trees: train_gbm --objective={lambdarank|list_net_loss} "
        "--min_data_in_leaf=3",
        f"--method=Foreign: run --run_path={tmp_path}/{{fold}}.trec",
        f"--output_dir={tmp_path}/out",
    ]
    done = run_command("pipelines.experiment", *flags)
    assert done.stdout.startswith("3 methods, 4 candidates, 2 folds, 1 seed.")
    with open(tmp_path / "out" / "cells.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row["status"] for row in rows] == ["finished"] * 8
    trees = [row for row in rows if row["method"] == "Trees"]
    assert trees[0]["candidate"].startswith("train_gbm --objective=lambdarank ")
    compared = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert {run["name"] for run in compared["runs"]} == {"ListNet", "Trees", "Foreign"}
    runs = [row for row in rows if row["method"] == "Foreign"]
    found = [float(row["test_ndcg"]) for row in runs]
    assert found == pytest.approx(expected, abs=1e-6) and runs[0]["valid_ndcg"] == ""
    kept = os.listdir(tmp_path / "out" / trees[0]["directory"])
    assert "per_query.tsv" in kept and "model.txt" not in kept
    settings = tmp_path / "out" / trees[0]["directory"] / "flags.cfg"
    assert "--num_trees=3\n" in settings.read_text()
    # Other content makes another cell.
    write_runs_with_ties(tmp_path, 2, sign=-1)
    done = run_command("pipelines.experiment", *flags)
    assert "7 cells are finished already" in done.stdout
    with open(tmp_path / "out" / "cells.tsv", newline="") as file:
        again = [x for x in csv.DictReader(file, delimiter="\t") if x["test_ndcg"]]
    assert float(again[-1]["test_ndcg"]) < expected[1] - 0.01


def write_runs_with_ties(folder, fold, sign=1):
    """Writes a run of the test queries of a fold, and returns its NDCG."""
    lists = data.read_letor(str(folder / f"Fold{fold}" / "test.txt"))
    scores = sign * np.round(lists.features[:, 0])
    lines = []
    for query, start, end in zip(
        lists.query_ids, lists.row_splits, lists.row_splits[1:]
    ):
        for i in reversed(range(start, end)):  # The order of lines has no meaning.
            lines.append(f"{query} Q0 {query}-{i - start + 1} 1 {scores[i]:g} foreign")
    (folder / f"{fold}.trec").write_text("\n".join(lines) + "\n")
    assert len({*scores}) < 8  # Ties rank by position.
    return evaluation.per_query(lists, scores, ["ndcg"])["ndcg"].mean()


def test_what_a_command_does_not_know_is_refused(tmp_path):
    write_folds(tmp_path)
    done = run_command(
        "pipelines.experiment",
        *(*flags_of(tmp_path), "--method=A: train_gbm --optimizer=sgd"),
        f"--output_dir={tmp_path}/out",
        check=False,
    )
    assert "optimizer" in told(done)
    with pytest.raises(ValueError, match="one of the commands train, train_gbm, run"):
        cells.parse_methods(["A: train_gmb --num_leaves=9"], KINDS)
