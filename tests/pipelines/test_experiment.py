"""Experiments: candidates, choice by validation, cells that fail, are killed, stay."""

import csv
import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from pipelines.experiments import cell_work, cells, selection
from tests.commands import ROOT, run_command
from tests.pipelines.experiments import flags_of, write_folds
from tfr_ext.core.files import aside_name
from tfr_ext.core.system import child_process
from tfr_ext.training import TrainingConfig


def test_choices_are_all_combinations_and_lines_of_a_name_add_up():
    methods = cells.parse_methods(
        [
            "A: --x={1|2} --y={a,b|c} --z=p{fold}",
            "B b: --only='two words'",
            "A: --x=3",
        ]
    )
    assert [c.flags for c in methods["A"]] == [
        ("--x=1", "--y=a,b", "--z=p{fold}"),
        ("--x=1", "--y=c", "--z=p{fold}"),
        ("--x=2", "--y=a,b", "--z=p{fold}"),
        ("--x=2", "--y=c", "--z=p{fold}"),
        ("--x=3",),
    ]
    assert methods["A"][0].arguments("7")[2] == "--z=p7"
    assert methods["B b"][0].flags == ("--only=two words",)


@pytest.mark.parametrize(
    "text, message",
    [
        ("no colon", "NAME: --FLAG=VALUE"),
        ("A: loss=x", "NAME: --FLAG=VALUE"),
        (": --loss=x", "NAME: --FLAG=VALUE"),
        ("A: --loss='x", "No closing quotation"),
        ("A: --x={1|1}", "twice"),
        ("A: --seed={1|2}", "cannot differ"),
        ("A: --gain=linear", "cannot differ"),
    ],
)
def test_wrong_methods_are_told(text, message):
    with pytest.raises(ValueError, match=message):
        cells.parse_methods([text])


CONFIG = TrainingConfig()


def finished(tmp_path, name, valid, test):
    """A cell of candidate A or B, with metrics."""
    method, candidate, fold, seed = name.split()
    directory = tmp_path / name.replace(" ", "_")
    directory.mkdir()
    content = {"valid": {"ndcg": valid, "arp": valid}, "test": {"ndcg": test}}
    (directory / "metrics.json").write_text(json.dumps(content))
    chosen = cells.Candidate(method, (f"--x={candidate}",))
    return cells.Cell(chosen, fold, int(seed), CONFIG, str(directory))


def test_the_best_in_validation_is_chosen_for_each_fold_whatever_the_test(tmp_path):
    trained = [
        finished(tmp_path, "M 1 f1 1", 0.5, 0.9),
        finished(tmp_path, "M 1 f1 2", 0.1, 0.9),
        finished(tmp_path, "M 2 f1 1", 0.4, 0.0),
        finished(tmp_path, "M 2 f1 2", 0.4, 0.0),
        finished(tmp_path, "M 1 f2 1", 0.5, 0.0),
        finished(tmp_path, "M 2 f2 1", 0.4, 0.9),
        finished(tmp_path, "N 1 f1 1", None, 0.9),
    ]
    # This one failed: its candidate is not chosen, though half of it is the best.
    trained.append(finished(tmp_path, "M 3 f1 1", 0.9, 0.9))
    nowhere = str(tmp_path / "none")
    missing = cells.Cell(trained[-1].candidate, "f1", 2, CONFIG, nowhere)
    alone = cells.Cell(cells.Candidate("O", ()), "f1", 1, CONFIG, nowhere)
    choices = selection.choose([*trained, missing, alone], "ndcg")
    # The only candidate of N is chosen without a metric, as it has finished.
    assert np.isnan(choices.pop(("N", "f1")).valid)
    assert {k: (v.candidate.text, v.valid) for k, v in choices.items()} == {
        ("M", "f1"): ("--x=2", 0.4),
        ("M", "f2"): ("--x=1", 0.5),
    }
    # For all folds at once: M 1 has .3 and .5, M 2 .4 twice; the first of equals wins.
    of_all = selection.choose(trained[:6], "ndcg", selection.ALL)
    assert [of_all["M", f].candidate.text for f in ("f1", "f2")] == ["--x=1"] * 2
    of_all = selection.choose([*trained[:4], *trained[5:6]], "ndcg", selection.ALL)
    assert {c.candidate.text for c in of_all.values()} == {"--x=2"}
    # Of a cost the least is the best.
    costs = selection.choose(trained, "arp")
    assert costs["M", "f1"].candidate.text == "--x=1"


class Worker:
    """A process that trains nothing, and the pipe to it.

    It dies of what is called 'dies', and while it is idle after 'last'. The first that
    gets 'late' dies just after it.
    """

    exitcode = -signal.SIGKILL

    def __init__(self):
        self._pipe, self._other = multiprocessing.Pipe()
        self.fileno, self.poll = self._pipe.fileno, self._pipe.poll
        self.recv, self.close = self._pipe.recv, self._pipe.close
        self.ended = False

    def send(self, cell):
        is_late = False
        if cell.fold != "dies":
            path = pathlib.Path(cell.directory) / "metrics.json"
            path.parent.mkdir(exist_ok=True)
            is_late = cell.fold == "late" and not path.exists()
            path.write_text("{}")
            if not is_late:
                self._other.send(True)
        if cell.fold in ("dies", "last") or is_late:
            self._other.close()

    def is_alive(self):
        return not self.ended

    def kill(self):
        self.ended = True

    def join(self):
        pass


@pytest.fixture
def workers(monkeypatch):
    """The processes that are started, which are no real ones."""
    made = []

    def start(pool, *_):
        made.append(Worker())
        pool._processes[made[-1]] = made[-1]
        return made[-1]

    monkeypatch.setattr(child_process.Pool, "start", start)
    return made


def train(wanted, on_end):
    plan = cells.Plan({}, "", {}, (), (), ())
    cell_work.train(wanted, plan, 1, on_end)


def test_a_killed_process_fails_its_cell_alone(tmp_path, workers):
    one = cells.Candidate("M", ())
    names = ["a", "dies", "last", "b", "c"]
    wanted = [cells.Cell(one, n, 1, CONFIG, str(tmp_path / n)) for n in names]
    # Another method's cell that is the same training is trained once.
    wanted.append(
        cells.Cell(cells.Candidate("N", ()), "c", 1, CONFIG, wanted[-1].directory)
    )
    outcomes = {}
    train(wanted, lambda o: outcomes.setdefault(o.cell.fold, o.ok))
    assert outcomes == {"a": True, "dies": False, "last": True, "b": True, "c": True}
    assert wanted[1].failure() == "Error: its process was killed."
    assert len(workers) == 3 and all(worker.ended for worker in workers)
    assert all(cell.is_finished for cell in wanted if cell.fold != "dies")


def test_a_cell_that_was_finished_when_a_process_was_killed_is_settled(
    tmp_path, workers
):
    one = cells.Candidate("M", ())
    wanted = [cells.Cell(one, n, 1, CONFIG, str(tmp_path / n)) for n in "abc"]
    for name, files in {
        "a": {"metrics.json": "{}", cells.SECONDS: "7.5\n"},
        "b": {"metrics.json": "{}", aside_name(cells.SECONDS, "0123abcd"): ""},
    }.items():
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
    sent = []
    train(wanted, lambda outcome: sent.append(outcome.cell.fold))
    assert sent == ["c"]  # Nothing is told of what was finished before.
    assert [cell.seconds() for cell in wanted[:2]] == [7.5, 0.0]
    assert all(cell.is_settled for cell in wanted)
    assert {*os.listdir(tmp_path / "b")} == {"metrics.json", cells.SECONDS}


def test_a_cell_that_was_finished_when_its_process_was_killed_is_settled(
    tmp_path, workers
):
    one = cells.Candidate("M", ())
    wanted = [cells.Cell(one, n, 1, CONFIG, str(tmp_path / n)) for n in ("late", "b")]
    told = []
    train(wanted, lambda o: told.append((o.cell.fold, o.ok)))
    assert sorted(told) == [("b", True), ("late", True)]
    assert all(cell.is_settled for cell in wanted)


@pytest.fixture(scope="module")
def folds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folds")
    write_folds(folder)
    return folder


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.fixture(scope="module")
def experiment(folds, tmp_path_factory):
    """A whole experiment, with a method whose every cell fails."""
    out = tmp_path_factory.mktemp("experiment")
    flags = flags_of(
        folds, "--method=Bad: --loss=softmax_loss --learning_rate=1e38", "--jobs=2"
    )
    done = run_command(
        "pipelines.experiment", *flags, f"--output_dir={out}", check=False
    )
    return out, flags, done


@pytest.mark.grid
def test_an_experiment_chooses_trains_and_compares(experiment):
    out, _, done = experiment
    assert done.returncode == 1  # Something failed, which is told; the rest is there.
    assert "4 of 14 cells failed" in done.stderr and "The loss became" in done.stderr
    assert "Bad is not compared" in done.stdout
    found = rows(out / "cells.tsv")
    assert len(found) == 14
    status = {(row["method"], row["status"]) for row in found}
    assert status == {
        ("SmoothI", "finished"),
        ("ListNet", "finished"),
        ("Bad", "failed"),
    }
    # The candidate that hardly learns is not chosen; the other has both seeds.
    chosen = rows(out / "selected.tsv")
    assert {row["candidate"] for row in chosen if row["method"] == "SmoothI"} == {
        "--loss=smoothi_loss --learning_rate=0.05"
    }
    final = [row for row in found if row["phase"] == "final"]
    assert {(row["method"], row["fold"], row["seed"]) for row in final} == {
        ("SmoothI", "1", "2"),
        ("SmoothI", "2", "2"),
    }
    compared = _compared(out)
    assert {run["name"]: run["seeds"] for run in compared} == {
        "SmoothI": [1, 2],
        "ListNet": [1, 2],
    }
    # Every cell of what was chosen is named, and they are those compared.
    assert [(row["method"], row["fold"], row["seed"]) for row in chosen] == [
        (method, fold, seed)
        for method in ("SmoothI", "ListNet")
        for fold in "12"
        for seed in "12"
    ]
    cells_of = {row["directory"]: row["candidate"] for row in found}
    for row in chosen:
        assert cells_of[row["directory"]] == row["candidate"]
        assert (out / row["directory"] / "per_query.tsv").exists()
    # What it does is told before the first cell ends.
    said = done.stdout.splitlines()
    assert said[0].startswith("3 methods, 4 candidates, 2 folds, 2 seeds.")
    assert said[1].startswith("Cells to train: 12, then up to 2 with")
    assert "Up to 2 at a time" in said[1] and f"{out}/cells" in said[1]
    # The mean of the comparison is that of the cells.
    values = [
        float(row["test_ndcg"])
        for row in found
        if row["method"] == "ListNet" and row["status"] == "finished"
    ]
    (listnet,) = [run for run in compared if run["name"] == "ListNet"]
    assert listnet["metrics"]["ndcg"]["mean"] == pytest.approx(np.mean(values))
    facts = json.loads((out / "experiment.json").read_text())
    assert (facts["cells"], facts["failed"], facts["cached"]) == (14, 4, 0)
    # Models take room: only what tells the result stays.
    kept = {p.name for p in (out / found[0]["directory"]).iterdir()}
    assert "per_query.tsv" in kept and not kept & {"checkpoints", "export"}


def test_a_small_experiment(folds, tmp_path):
    """One method on two folds; the larger ones are of a grid."""
    flags = [
        flag for flag in flags_of(folds) if not flag.startswith("--method=SmoothI")
    ]
    done = run_command(
        "pipelines.experiment",
        # The method completes what is common: alone, --first_stage_feature is refused.
        *[f"{x} --list_size=3" if x.startswith("--method=") else x for x in flags],
        "--first_stage_feature=1",
        *("--seeds=1", "--num_epochs=1", f"--output_dir={tmp_path}"),
    )
    assert done.stdout.startswith("1 method, 1 candidate, 2 folds, 1 seed.")
    found = rows(tmp_path / "cells.tsv")
    assert [(row["fold"], row["status"]) for row in found] == [
        ("1", "finished"),
        ("2", "finished"),
    ]
    (run,) = _compared(tmp_path)
    mean = np.mean([float(row["test_ndcg"]) for row in found])
    assert run["metrics"]["ndcg"]["mean"] == pytest.approx(mean)
    assert f"{mean:.3f}" in (tmp_path / "table.md").read_text()
    assert f"Written: {tmp_path}/comparison.html, " in done.stdout


@pytest.mark.grid
def test_an_experiment_with_one_method_prints_its_table(folds, experiment, tmp_path):
    out, _, _ = experiment
    done = run_command(
        "pipelines.experiment",
        *[flag for flag in flags_of(folds) if not flag.startswith("--method=SmoothI")],
        *(f"--cells_dir={out / 'cells'}", f"--output_dir={tmp_path}"),
        *("--metrics=ndcg,arp,ndcg_10", "--select_by=ndcg@10", "--monitor=ndcg@10"),
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("1 method, 1 candidate, 2 folds, 2 seeds.")
    row = next(line for line in lines if line.startswith("ListNet"))
    assert lines[lines.index(row) - 1].split() == ["NDCG", "ARP", "NDCG@10"]
    (run,) = _compared(tmp_path)
    assert row.split()[1] == f"{run['metrics']['ndcg']['mean']:.3f}"
    assert "4 cells are finished already" in done.stdout
    assert (tmp_path / "table.md").exists()


@pytest.mark.grid
def test_a_cell_is_the_run_that_training_gives(experiment, tmp_path):
    out, _, _ = experiment
    row = rows(out / "cells.tsv")[0]
    cell = out / row["directory"]
    run_command(
        "pipelines.train",
        f"--flagfile={cell / 'flags.cfg'}",
        f"--model_dir={tmp_path}",
        "--checkpoint_epochs=1",
    )
    for name in ("per_query.tsv", "history.tsv", "run.trec"):
        assert (tmp_path / name).read_text() == (cell / name).read_text()


@pytest.mark.grid
def test_what_is_finished_is_not_done_again_and_other_data_is(
    experiment, folds, tmp_path
):
    out, _, _ = experiment
    more = (*flags_of(folds), "--seeds=1", f"--cells_dir={out / 'cells'}")
    more = (*more, f"--output_dir={tmp_path}")
    done = run_command("pipelines.experiment", *more)
    assert "6 cells are finished already" in done.stdout
    assert json.loads((tmp_path / "experiment.json").read_text())["cached"] == 6
    path = folds / "Fold2" / "test.txt"
    text = path.read_text()
    path.write_text(text.replace("1 qid", "2 qid", 1))
    try:
        done = run_command("pipelines.experiment", *more)
    finally:
        path.write_text(text)
    assert "3 cells are finished already" in done.stdout


@pytest.mark.parametrize(
    "flags, message",
    [
        pytest.param(["--method=A: --loss=no_loss"], "no_loss", marks=pytest.mark.grid),
        pytest.param(["--folds=1,3"], "Fold3", marks=pytest.mark.grid),
        pytest.param(
            ["--method=ListNet: --loss=list_net_loss --learning_rate=5e-2"],
            "same",
            marks=pytest.mark.grid,
        ),
        pytest.param(["--method=A: --dropout=1.5"], "dropout", marks=pytest.mark.grid),
        (["--folds=1,1"], "--folds"),
        (["--select_by=map"], "--select_by=map"),
        (["--seed=3"], "--seed"),
        (["--against=Smooth"], "--against=Smooth"),
        (["--level=2"], "level"),
        (["--plot_metric=map"], "--plot_metric=map"),
        (["--overwrite"], "--overwrite"),
    ],
)
def test_wrong_flags_end_it_before_any_training(folds, tmp_path, flags, message):
    done = run_command(
        "pipelines.experiment",
        *flags_of(folds),
        *flags,
        f"--output_dir={tmp_path}",
        check=False,
    )
    assert done.returncode == 1 and message in done.stderr
    assert "Traceback" not in done.stderr
    assert not [path for path in tmp_path.glob("cells/*") if path.is_dir()]


@pytest.mark.grid
def test_killed_it_goes_on_and_leaves_no_process(experiment, folds, tmp_path):
    out, _, _ = experiment
    command = [
        *(sys.executable, "-m", "pipelines.experiment", *flags_of(folds)),
        f"--output_dir={tmp_path}",
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while not list(tmp_path.glob("cells/*/metrics.json")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    started = len(list(tmp_path.glob("cells/*/metrics.json")))
    while _commands_with(str(tmp_path)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    done = run_command(
        "pipelines.experiment", *flags_of(folds), f"--output_dir={tmp_path}"
    )
    assert started < 10 and "finished already" in done.stdout
    kept = [row for row in rows(out / "selected.tsv") if row["method"] != "Bad"]
    assert rows(tmp_path / "selected.tsv") == kept
    assert _compared(tmp_path) == _compared(out)


def _compared(out):
    return json.loads((out / "comparison.json").read_text())["runs"]


def _commands_with(text):
    """Processes that have a file under a directory open."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if text in os.readlink(folder):
                found.append(folder)
        except OSError:
            pass
    return found
