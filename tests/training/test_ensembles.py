"""Runs of several models: what they score, where they differ, and how they go on."""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.combined_scores import by_scipy
from tests.commands import ROOT, run_command, told
from tests.files import content
from tests.helpers import make_lists
from tfr_ext import Ranker, data
from tfr_ext.core.setting_kinds import HIGHEST_SEED
from tfr_ext.runs.owned_files import OwnedFiles
from tfr_ext.runs.run_directory import RUN_FILES
from tfr_ext.serving import exporter, parity
from tfr_ext.sources import data_splits
from tfr_ext.training import (
    DataConfig,
    ExportConfig,
    LossConfig,
    ModelConfig,
    TrainingConfig,
    export_runs,
    train,
)

pytestmark = pytest.mark.any_keras

# A loss and a network whose graphs are built soon. Units of "relu" may all be 0 for
# several items, whose scores tie then, but not in the file of a run.
LOSS = "list_net_loss"
MODEL = ModelConfig(
    "mlp", hidden_sizes=(4,), activation="tanh", batch_normalization=False, dropout=0.2
)
SMALL = TrainingConfig(
    data=DataConfig(synthetic_num_queries=20, synthetic_list_size=5),
    model=MODEL,
    loss=LossConfig(LOSS),
    num_models=2,
    ensemble="zscore",
    num_epochs=2,
    draw_curves=False,
    verbose="silent",
)
LISTS = data_splits.load(SMALL.data)
NAMES = [name for name in RUN_FILES if name != "curves.png"]
RESULTS = ("metrics.json", "history.tsv", "run.trec", "per_query.tsv", "qrels.trec")


def trained(directory, callbacks=(), splits=None, **changes):
    config = dataclasses.replace(SMALL, model_dir=str(directory), **changes)
    return train(config, splits, callbacks)


def scores_of(directory, lists=LISTS.test):
    return parity.read_scores(str(directory / "run.trec"), lists)


def results(directory):
    return {name: (directory / name).read_text() for name in RESULTS}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ensembles") / "run"
    return directory, trained(directory)


def members_of(directory, count=2):
    return [directory / "models" / str(number) for number in range(1, count + 1)]


def test_the_scores_are_the_mean_of_z_scores(run):
    directory, result = run
    each = [scores_of(member) for member in members_of(directory)]
    assert np.std(each, axis=0).min() > 1e-4
    expected = by_scipy("zscore", each, LISTS.test)
    np.testing.assert_allclose(scores_of(directory), expected, rtol=1e-4, atol=1e-5)
    found = data.score_lists(result.model, LISTS.test, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    scorer = exporter.load_scorer(result.paths["export"])
    np.testing.assert_allclose(
        scorer.scores(LISTS.test, 3), expected, rtol=1e-4, atol=1e-5
    )
    version = os.path.join(result.paths["export"], "1")
    assert "regress" not in tf.saved_model.load(version).signatures
    about = json.loads(pathlib.Path(version, "assets.extra", "model.json").read_text())[
        "models"
    ][0]
    assert (about["num_models"], about["ensemble"]) == (2, "zscore")


def test_a_model_is_the_run_of_its_seed(run, tmp_path):
    """On the same data, with its own seed for all else."""
    directory, _ = run
    alone = {"num_models": 1, "ensemble": "mean", "export_model": False}
    seeds = dataclasses.replace(SMALL.data, seed=2, data_seed=1)
    trained(tmp_path / "run", data=seeds, **alone)
    for name in RESULTS:
        alone = (tmp_path / "run" / name).read_text()
        assert (directory / "models" / "2" / name).read_text() == alone, name
    flags = [(one / "flags.cfg").read_text() for one in members_of(directory)]
    for line in ("--data_seed=1", "# The data that it read: SHA-256 "):
        first, second = ([x for x in text.splitlines() if line in x] for text in flags)
        assert first == second != []


def test_the_report_has_its_models(run):
    directory, result = run
    report = json.loads((directory / "metrics.json").read_text())
    assert report["ensemble"] == "zscore"
    assert [one["seed"] for one in report["models"]] == [1, 2]
    for one, member in zip(report["models"], members_of(directory)):
        own = json.loads((member / "metrics.json").read_text())
        assert {**own, **one} == own
    loss = [
        np.loadtxt(m / "history.tsv", skiprows=1)[:, 1] for m in members_of(directory)
    ]
    np.testing.assert_allclose(result.history["loss"], np.mean(loss, axis=0), rtol=1e-6)
    best = np.argmax(result.history["val_ndcg_10"]) + 1
    assert report["best_epoch"] == result.best_epoch == best
    assert not any((member / "export").exists() for member in members_of(directory))


def test_a_finished_run_is_found(run):
    directory, result = run
    before = content(directory)
    found = trained(directory)
    assert content(directory) == before
    assert found.metrics == result.metrics and found.history == result.history
    scores = [data.score_lists(one.model, LISTS.test, 3) for one in (found, result)]
    np.testing.assert_array_equal(*scores)


class Stop(tf.keras.callbacks.Callback):
    """Ends the process' work after some epochs, as Ctrl-C does."""

    def __init__(self, epochs):
        super().__init__()
        self.left = epochs

    def on_epoch_begin(self, epoch, logs=None):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.first_case
@pytest.mark.parametrize("epochs", [3, 2, 1])
def test_it_goes_on_with_what_is_missing(epochs, run, tmp_path):
    directory, _ = run
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "run", [Stop(epochs)], export_model=False)
    first, second = members_of(tmp_path / "run")
    assert (first / "metrics.json").exists() == (epochs > 1)
    assert second.exists() == (epochs > 2)
    assert not (tmp_path / "run" / "metrics.json").exists()
    with pytest.raises(ValueError, match="holds a run with other settings"):
        trained(tmp_path / "run", ensemble="rank", export_model=False)
    before = content(first) if epochs > 1 else {}
    trained(tmp_path / "run", export_model=False)
    assert {**content(first), **before} == content(first)
    assert results(tmp_path / "run") == results(directory)


def test_overwriting_removes_the_models_of_before(tmp_path):
    directory = tmp_path / "run"
    short = {"num_epochs": 1, "export_model": False, "overwrite": True}
    trained(directory, num_models=1, ensemble="mean", **short)
    assert (directory / "checkpoints").exists()
    trained(directory, ensemble="rank", **short)
    assert not (directory / "checkpoints").exists()
    assert sorted(os.listdir(directory / "models")) == ["1", "2"]
    each = [scores_of(member) for member in members_of(directory)]
    expected = by_scipy("rank", each, LISTS.test)
    # The file tells items of one score apart in their last digit.
    np.testing.assert_allclose(scores_of(directory), expected, rtol=1e-6)
    (directory / "models" / "mine.txt").write_text("mine")
    trained(directory, num_models=1, ensemble="mean", **short)
    assert os.listdir(directory / "models") == ["mine.txt"]
    assert (directory / "checkpoints").exists()


@pytest.mark.parametrize("removed", range(5))
def test_a_removal_that_was_broken_off_can_be_repeated(removed, tmp_path, monkeypatch):
    """Each model still knows what is left of its files, whatever order a disk has."""
    model = tmp_path / "models" / "1"
    (model / "checkpoints").mkdir(parents=True)
    whole, part = (
        OwnedFiles("train", "model_dir", str(d), NAMES) for d in (tmp_path, model)
    )
    for files in (whole, part):
        files.claim()
    for name in ("flags.cfg", "metrics.json", "run.trec", "checkpoints/state.json"):
        (model / name).write_text("written")
    remove, left = os.remove, [removed]

    def remove_some(path):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        remove(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "remove", remove_some)
        with pytest.raises(KeyboardInterrupt):
            whole.remove()
    part.check()
    whole.remove()
    assert not (tmp_path / "models").exists()


def test_side_by_side_gives_the_same(run, tmp_path, capsys):
    """With lists in memory too."""
    directory, _ = run
    told = {"parallel_models": 2, "verbose": "line"}
    trained(tmp_path / "run", splits=LISTS, export_model=False, **told)
    assert results(tmp_path / "run") == results(directory)
    assert "[2] Epoch 2/2\n" in capsys.readouterr().out


@pytest.mark.grid
def test_the_reason_of_a_failed_process_is_told(tmp_path):
    features = LISTS.train.features / np.abs(LISTS.train.features).max()
    wide = dataclasses.replace(LISTS.train, features=features * np.float32(3e38))
    with pytest.raises(
        FloatingPointError, match=r"Model [12] of 2 \(seed [12]\): The loss"
    ):
        trained(
            tmp_path / "run",
            splits=dataclasses.replace(LISTS, train=wide),
            model=ModelConfig("mlp", hidden_sizes=(4,), batch_normalization=False),
            parallel_models=2,
        )
    assert not (tmp_path / "run" / "metrics.json").exists()


FLAGS = (
    "--synthetic_num_queries=40 --synthetic_list_size=6 --hidden_sizes=4 "
    f"--loss={LOSS} --num_epochs=4 --num_models=3 --ensemble=rank --verbose=line "
    "--nodraw_curves"
).split()


@pytest.mark.grid
@pytest.mark.parametrize("parallel", [1, 2])
def test_killed_at_any_moment(parallel, tmp_path):
    flags = (*FLAGS, f"--parallel_models={parallel}")
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    run_command("pipelines.train", *flags, f"--model_dir={undisturbed}")
    command = [sys.executable, "-m", "pipelines.train", *flags]
    # Soon after a file appears, so that the speed of the machine does not matter.
    for name in ("1/flags.cfg", "1/metrics.json", "2/metrics.json", "3/flags.cfg"):
        process = subprocess.Popen(
            [*command, f"--model_dir={killed}"], cwd=ROOT, stdout=subprocess.DEVNULL
        )
        while process.poll() is None and not (killed / "models" / name).exists():
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
        process.wait()
    run_command("pipelines.train", *flags, f"--model_dir={killed}")
    assert results(killed) == results(undisturbed)


@pytest.mark.grid
def test_the_commands_take_the_flags(tmp_path):
    run_command("pipelines.train", *FLAGS, f"--model_dir={tmp_path}/run")
    done = run_command(
        "pipelines.export",
        f"--model_dir={tmp_path}/run/models/1,{tmp_path}/run/models/2",
        f"--export_dir={tmp_path}/both",
        "--ensemble=rank",
    )
    assert "test items as in training" in done.stdout
    done = run_command("pipelines.export", f"--model_dir={tmp_path}/run")
    assert f"Exported for serving: {tmp_path}/run/export/2\n" in done.stdout
    done = run_command(
        "pipelines.train", "--ensemble=rank", "--model_dir=x", check=False
    )
    assert "--ensemble=rank has no meaning with one model" in told(done)
    done = run_command(
        "pipelines.experiment",
        "--synthetic_num_queries=40",
        "--synthetic_list_size=6",
        "--hidden_sizes=4",
        "--num_epochs=1",
        "--seeds=1,11",
        "--jobs=2",
        "--metrics=ndcg_10",
        "--method=One: --num_models=1",
        "--method=Three: --num_models=3 --ensemble=zscore --parallel_models=2",
        f"--output_dir={tmp_path}/experiment",
    )
    assert "Three" in done.stdout
    left = [p for p in (tmp_path / "experiment").rglob("models")]
    assert not left


@pytest.mark.two_graphs
def test_finished_runs_become_one_by_their_ranks(run, tmp_path):
    directory, result = run
    shutil.copytree(directory, tmp_path / "run")
    model, members = result.model, members_of(tmp_path / "run")
    out = str(tmp_path / "both")
    paths = tuple(map(str, members))
    export = ExportConfig(model_dir=paths, export_dir=out, ensemble="rank")
    version = export_runs(export).paths["version"]
    lists = make_lists([5, 3], num_features=25)
    each = [data.score_lists(part, lists, 2) for part in parts(model)]
    found = exporter.load_scorer(version).scores(lists, 2)
    np.testing.assert_array_equal(found, by_scipy("rank", each, lists))
    again = export_runs(ExportConfig(model_dir=str(tmp_path / "run")))
    assert again.paths["version"] == f"{tmp_path}/run/export/2"
    found = exporter.load_scorer(again.paths["version"]).scores(lists, 2)
    expected = data.score_lists(model, lists, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def parts(model):
    return [layer for layer in model.layers if isinstance(layer, tf.keras.Model)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_models": 0}, "`num_models` must be an integer >= 1"),
        ({"num_models": 1}, "`ensemble='zscore'` has no meaning with one model"),
        ({"ensemble": "median"}, "`ensemble` must be"),
        ({"parallel_models": 0}, "`parallel_models` must be an integer >= 1"),
        ({"data": DataConfig(seed=HIGHEST_SEED)}, "would exceed 4294967295"),
        (
            {"parallel_models": 2, "strategy": "mirrored"},
            "`parallel_models=2` has no meaning with `strategy='mirrored'`",
        ),
    ],
)
def test_bad_values(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SMALL, **changes)


def test_what_cannot_be_combined_is_refused(tmp_path):
    with pytest.raises(ValueError, match="`callbacks` cannot be passed"):
        trained(tmp_path / "run", [Stop(1)], parallel_models=2)
    with pytest.raises(ValueError, match="has no meaning with one run"):
        ExportConfig(model_dir="a", ensemble="rank")
    assert not (tmp_path / "run").exists()


@pytest.mark.two_graphs
def test_an_estimator_of_several_models(tmp_path):
    X, y = LISTS.train.features, LISTS.train.labels
    ranker = Ranker(
        num_models=2,
        loss=LOSS,
        hidden_sizes=(4,),
        batch_normalization=False,
        num_epochs=1,
        settings={"ensemble": "rank"},
    ).fit(X, y, group=LISTS.train.lengths)
    scores = ranker.predict(X, group=LISTS.train.lengths)
    each = [data.score_lists(one, LISTS.train, 3) for one in parts(ranker.model_)]
    np.testing.assert_array_equal(scores, by_scipy("rank", each, LISTS.train))
    with pytest.raises(ValueError, match="needs whole lists"):
        ranker.predict(X)
    ranker.save(str(tmp_path))
    loaded = Ranker.load(str(tmp_path))
    np.testing.assert_array_equal(loaded.predict(X, group=LISTS.train.lengths), scores)
