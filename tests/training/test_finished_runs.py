"""The export of finished runs, the check before it, and what it says of them."""

import dataclasses
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.commands import run_command, told
from tests.helpers import make_lists
from tfr_ext import data, models
from tfr_ext.runs import run_file
from tfr_ext.serving import exporter, parity
from tfr_ext.sources.data_splits import Splits
from tfr_ext.training import (
    DataConfig,
    ExportConfig,
    LossConfig,
    ModelConfig,
    TrainingConfig,
    export_runs,
    train,
)

pytestmark = pytest.mark.stack_b

SMALL = TrainingConfig(
    data=DataConfig(synthetic_num_queries=30, synthetic_list_size=6),
    model=ModelConfig(
        "mlp",
        hidden_sizes=(4,),
        batch_normalization=False,
        feature_transforms=("standard",),
    ),
    loss=LossConfig("list_net_loss"),  # Its graph is built soon.
    num_epochs=2,
    draw_curves=False,
    verbose="silent",
)


def trained(directory, **changes):
    config = dataclasses.replace(SMALL, model_dir=str(directory), **changes)
    return train(config)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of other losses and seeds, of which the second has no export."""
    folder = tmp_path_factory.mktemp("runs")
    first = trained(folder / "a", loss=LossConfig("smoothi_loss", {"alpha": 2.0}))
    seed = dataclasses.replace(SMALL.data, seed=7)
    second = trained(folder / "b", data=seed, export_model=False)
    return folder, first, second


@pytest.mark.two_graphs
def test_training_and_the_command_export_the_same(runs, tmp_path):
    folder, result, _ = runs
    done = run_command(
        "pipelines.export", f"--model_dir={folder}/a", f"--export_dir={tmp_path}/out"
    )
    assert f"Exported for serving: {tmp_path}/out/1\n" in done.stdout
    assert "scores 36 test items as in training" in done.stdout
    files = [
        pathlib.Path(version, "assets.extra", "model.json").read_text()
        for version in (f"{folder}/a/export/1", f"{tmp_path}/out/1")
    ]
    assert files[0] == files[1]
    lists = make_lists([5, 2], num_features=25)
    scores = [
        exporter.load_scorer(str(place)).scores(lists, 2)
        for place in (folder / "a" / "export", tmp_path / "out")
    ]
    np.testing.assert_array_equal(*scores)


def test_model_json_says_what_the_model_is(runs):
    folder, result, _ = runs
    about = json.loads((folder / "a/export/1/assets.extra/model.json").read_text())
    (run,) = about["models"]
    report = json.loads((folder / "a" / "metrics.json").read_text())
    assert run["metrics"] == {split: report[split] for split in ("valid", "test")}
    assert run["transforms"] == ["standard"] and run["loss"] == "smoothi_loss"
    assert run["loss_params"] == {"alpha": 2.0}
    digest = run_file.data_digest((folder / "a" / "flags.cfg").read_text())
    assert run["data"] == {"sha256": digest}
    assert about["label_range"] == [0, about["max_label"]]
    assert about["max_label"] == report["convention"]["max_label"]
    assert about["num_features"] == 25 and about["feature_names"] is None
    assert about["versions"]["tensorflow"] == tf.__version__
    signatures = tf.saved_model.load(str(folder / "a/export/1")).signatures
    assert about["signatures"] == sorted(signatures)


@pytest.mark.two_graphs
def test_several_runs_become_their_mean(runs, tmp_path):
    folder, first, second = runs
    out = str(tmp_path / "both")
    both = (str(folder / "a"), str(folder / "b"))
    result = export_runs(ExportConfig(model_dir=both, export_dir=out))
    lists = make_lists([5, 2], num_features=25)
    each = [data.score_lists(run.model, lists, 2) for run in (first, second)]
    found = exporter.load_scorer(result.paths["version"]).scores(lists, 2)
    np.testing.assert_allclose(found, np.mean(each, axis=0), rtol=1e-5, atol=1e-6)
    about = pathlib.Path(result.paths["version"], "assets.extra", "model.json")
    assert [run["seed"] for run in json.loads(about.read_text())["models"]] == [1, 7]


def test_the_names_of_elwc_features_are_columns(tmp_path):
    features = data.ElwcFeatures(
        (data.Feature("bm25"), data.Feature("vector", width=2)),
        (data.Feature("length", is_integer=True),),
    )
    model = models.model_builder(4, models.MLPScorer([8])).build()
    version = exporter.export_ranker(model, str(tmp_path), elwc_features=features)
    about = json.loads(pathlib.Path(version, "assets.extra", "model.json").read_text())
    names = ["bm25", "vector[0]", "vector[1]", "length"]
    assert about["feature_names"] == names
    assert exporter.load_scorer(version).feature_names == names
    length = {"name": "length", "width": 1, "is_integer": True}
    assert about["elwc_features"]["context"] == [length]


def test_shards_without_names_leave_none(tmp_path):
    """Else a table to rank would be asked for columns that nobody named so."""
    features = data.ElwcFeatures((data.Feature("float_features", width=3),))
    model = models.model_builder(3, models.MLPScorer([8])).build()
    version = exporter.export_ranker(model, str(tmp_path), elwc_features=features)
    assert exporter.load_scorer(version).feature_names is None


@pytest.mark.parametrize("several", [False, True])
def test_other_scores_than_those_of_the_run_are_not_exported(several, runs, tmp_path):
    folder, _, _ = runs
    changed = shutil.copytree(folder / "a", tmp_path / "a")
    lines = (changed / "run.trec").read_text().splitlines()
    query, q0, document, rank, score, tag = lines[2].split()
    lines[2] = f"{query} {q0} {document} {rank} {float(score) + 0.1:.9g} {tag}"
    (changed / "run.trec").write_text("\n".join(lines) + "\n")
    model_dir = [str(changed), str(folder / "b")] if several else str(changed)
    out = tmp_path / "out"
    with pytest.raises(ValueError, match=f"1 of 36 test items.*{query}.*Nothing was"):
        export_runs(ExportConfig(model_dir=model_dir, export_dir=str(out)))
    assert not out.exists() or not os.listdir(out)


def test_differences_are_relative_to_the_list():
    lists = make_lists([3, 0, 2])
    expected = np.array([1e6, 1.0, 2.0, 1e-3, 0.0])
    close = expected + [50.0, 50.0, -50.0, 5e-8, -5e-8]
    around = parity.around(expected, lists, 1e-4)
    parity.check(lists, close.astype(np.float32), around, "run.trec")
    for item, change in ((1, 200.0), (3, 1e-6), (4, np.nan), (0, np.inf)):
        other = expected.copy()
        other[item] += change
        with pytest.raises(ValueError, match=f"1 of 5 .*item {item % 3 + 1} of query"):
            parity.check(lists, other, around, "run.trec")


def in_memory(run, finished):
    lists = [make_lists([4] * 8, seed=seed) for seed in range(3)]
    config = dataclasses.replace(SMALL, model_dir=str(run), export_model=False)
    train(config, Splits(*lists))
    return "lists in memory"


def unfinished(run, finished):
    shutil.copytree(finished, run)
    (run / "metrics.json").unlink()
    return "is not finished"


def of_nothing(run, finished):
    run.mkdir()
    return "holds no training run"


def without_checkpoints(run, finished):
    shutil.copytree(finished, run)
    for path in (run / "checkpoints").iterdir():
        path.unlink()
    return "has no checkpoint"


def of_other_data(run, finished):
    shutil.copytree(finished, run)
    path = run / "flags.cfg"
    path.write_text(path.read_text().replace("SHA-256 ", "SHA-256 0"))
    return "holds a run on other data"


def of_unknown_flags(run, finished):
    shutil.copytree(finished, run)
    with open(run / "flags.cfg", "a") as file:
        file.write("--colour=red\n")
    return "flags.cfg: There is no setting 'colour'"


WRONG = [in_memory, unfinished, of_nothing, without_checkpoints, of_other_data]


@pytest.mark.parametrize("wrong", [*WRONG, of_unknown_flags])
def test_runs_that_cannot_be_exported_are_named(wrong, runs, tmp_path):
    folder, _, _ = runs
    why = wrong(tmp_path / "run", folder / "b")
    message = told(
        run_command("pipelines.export", f"--model_dir={tmp_path}/run", check=False)
    )
    assert why in message and str(tmp_path / "run") in message
    assert not (tmp_path / "run" / "export").exists()


def test_flags_that_do_not_fit_are_refused(runs, tmp_path):
    folder, _, _ = runs
    message = told(run_command("pipelines.export", check=False))
    assert "--model_dir" in message
    several = f"--model_dir={folder}/a,{folder}/b"
    message = told(run_command("pipelines.export", several, check=False))
    assert "--export_dir must be given for several runs" in message
