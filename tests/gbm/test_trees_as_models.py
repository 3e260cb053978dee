"""Trees of a run where an export is taken: `evaluate`, `rank`, re-ranking."""

import csv
import dataclasses
import os
import pathlib
import shutil
import sys

import numpy as np
import pytest

from tests.files import content, damages, write_letor
from tests.helpers import make_lists
from tests.tables import frame
from tfr_ext import gbm
from tfr_ext.evaluation import trec
from tfr_ext.models.trees import gbm_model
from tfr_ext.training import (
    DataConfig,
    EvaluationConfig,
    MetricsConfig,
    RankConfig,
    evaluate,
    rank,
)

LIBRARIES = {"lightgbm": "lambdarank", "catboost": "yetirank"}
COLUMNS = {"query_column": "query"}
SPLITS = {"train": 30, "valid": 8, "test": 9}


def lists_of(split):
    """Lists whose first feature tells the label, where it is not missing."""
    number = list(SPLITS).index(split)
    lists = make_lists([6] * SPLITS[split], seed=number, num_features=4)
    lists.features[:, 0] += 2 * lists.labels
    lists.features[::5, 0] = np.nan
    names = tuple(f"{split}{i}" for i in range(lists.num_lists))
    return dataclasses.replace(lists, query_ids=names)


def as_text(tmp_path):
    """Writes the splits as LETOR text, where missing features are left out."""
    for split in SPLITS:
        path = tmp_path / f"{split}.txt"
        write_letor(path, lists_of(split))
        lines = path.read_text().splitlines()
        kept = [" ".join(w for w in line.split() if "nan" not in w) for line in lines]
        path.write_text("\n".join(kept) + "\n")
    paths = {f"{split}_path": str(tmp_path / f"{split}.txt") for split in SPLITS}
    return DataConfig(dataset="text", **paths)


def as_table(tmp_path):
    """Writes the splits as CSV with names of features, and empty missing ones."""
    for split in SPLITS:
        lists = dataclasses.replace(lists_of(split), feature_names=tuple("abcd"))
        frame(lists).to_csv(tmp_path / f"{split}.csv", index=False)
    paths = {f"{split}_path": str(tmp_path / f"{split}.csv") for split in SPLITS}
    return DataConfig(dataset="table", **paths, **COLUMNS)


def trained(data, tmp_path, library="lightgbm", **given):
    small = {"min_data_in_leaf": 5} if library == "lightgbm" else {"max_depth": 2}
    return gbm.train(
        gbm.GbmConfig(
            data=data,
            objective=LIBRARIES[library],
            model_dir=str(tmp_path / "run"),
            num_trees=8,
            num_threads=1,
            draw_curves=False,
            evaluation=MetricsConfig(metrics=("ndcg_5", "err")),
            monitor="ndcg_5",
            **small,
            **given,
        )
    )


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A folder with text and what LightGBM trained on it, and the data."""
    folder = tmp_path_factory.mktemp("once")
    data = as_text(folder)
    trained(data, folder)
    return folder, data


# Each library and each way to write once: what they cross is of the grid.
@pytest.mark.parametrize(
    ("write", "library"),
    [
        (as_text, "lightgbm"),
        (as_table, "catboost"),
        pytest.param(as_text, "catboost", marks=pytest.mark.grid),
        pytest.param(as_table, "lightgbm", marks=pytest.mark.grid),
    ],
)
def test_evaluate_and_rank_give_what_training_gave(library, write, tmp_path):
    data = write(tmp_path)
    result = trained(data, tmp_path, library, num_models=2)
    run = pathlib.Path(result.model_dir)
    found = evaluate(
        EvaluationConfig(
            data=data,
            metrics=MetricsConfig(metrics=("ndcg_5", "err")),
            export=str(run),
            output_dir=str(tmp_path / "again"),
        )
    )
    assert found.metrics == result.metrics["test"]
    for name in ("run.trec", "run.valid.trec"):
        first, again = (
            trec.read_run(str(folder / name)).documents
            for folder in (run, tmp_path / "again")
        )
        assert first == again
    path = str(tmp_path / "ranked.csv")
    columns = COLUMNS if data.dataset == "table" else {}
    rank(RankConfig(export=str(run), input=data.test_path, output=path, **columns))
    with open(path, encoding="utf-8") as file:
        scores = [
            (row["query_id"], float(row["score"])) for row in csv.DictReader(file)
        ]
    for query, documents in trec.read_run(str(run / "run.trec")).documents.items():
        wanted = sorted(documents.values(), reverse=True)
        given = [score for one, score in scores if one == query]
        np.testing.assert_allclose(given, wanted, rtol=1e-6)


def test_the_best_of_trees_are_ranked_anew(tmp_path):
    data = as_text(tmp_path)
    run = trained(data, tmp_path).model_dir
    whole = {**vars(data), "test_path": data.train_path}
    evaluate(
        EvaluationConfig(
            data=DataConfig(dataset="text", test_path=whole["test_path"]),
            export=run,
            output_dir=str(tmp_path / "on_train"),
        )
    )
    runs = (f"{run}/run.trec", f"{run}/run.valid.trec", f"{tmp_path}/on_train/run.trec")
    second = gbm.train(
        gbm.GbmConfig(
            data=DataConfig(
                **{**vars(data), "rerank_run": runs, "rerank_depth": 3},
            ),
            model_dir=str(tmp_path / "second"),
            num_trees=2,
            min_data_in_leaf=3,
            draw_curves=False,
        )
    )
    documents = trec.read_run(second.paths["run.trec"]).documents
    first = trec.read_run(f"{run}/run.trec").documents
    assert {len(found) for found in documents.values()} == {3}
    for query, found in documents.items():
        lowest = min(first[query][name] for name in found)
        left = [score for name, score in first[query].items() if name not in found]
        assert max(left) <= lowest


@pytest.mark.parametrize(
    "spoil, message",
    [
        (
            lambda run: (run / "model.txt").write_text("no trees"),
            "model.txt differs from what was written: its SHA-256 digest is ",
        ),
        (lambda run: os.remove(run / "model.txt"), "model.txt is missing, but"),
        (
            lambda run: (run / gbm_model.DIGESTS).write_text("no digests"),
            "models.sha256 is not what `train_gbm` writes",
        ),
        (lambda run: os.remove(run / "metrics.json"), "has trees, but no metrics.json"),
        (lambda run: (run / "metrics.json").write_text("{"), "metrics.json"),
    ],
)
def test_spoiled_files_are_told_and_nothing_is_written(spoil, message, once, tmp_path):
    folder, data = once
    run = shutil.copytree(folder / "run", tmp_path / "run")
    spoil(run)
    before = content(tmp_path)
    with pytest.raises(ValueError, match=message):
        evaluate(
            EvaluationConfig(
                data=data, export=str(run), output_dir=str(tmp_path / "again")
            )
        )
    with pytest.raises(ValueError, match=message):
        rank(
            RankConfig(
                export=str(run),
                input=data.test_path,
                output=str(tmp_path / "new.trec"),
            )
        )
    assert content(tmp_path) == before


def test_another_width_or_no_library_is_told(once, tmp_path, monkeypatch):
    folder, data = once
    run = str(folder / "run")
    wide = make_lists([4, 4], num_features=7)
    write_letor(tmp_path / "wide.txt", wide)
    with pytest.raises(ValueError, match="7"):
        evaluate(
            EvaluationConfig(
                data=DataConfig(dataset="text", test_path=str(tmp_path / "wide.txt")),
                export=run,
            )
        )
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ValueError, match=r"pip install tfr-ext\[gbm\]"):
        evaluate(EvaluationConfig(data=data, export=run))


@pytest.fixture(scope="module", params=LIBRARIES)
def finished(request, tmp_path_factory):
    """Returns a library, and the directory of a run of two models of it."""
    folder = tmp_path_factory.mktemp(request.param)
    result = trained(as_text(folder), folder, request.param, num_models=2)
    return request.param, pathlib.Path(result.model_dir)


def test_no_library_sees_a_model_that_is_damaged(finished, tmp_path, monkeypatch):
    library, run = finished
    expected = gbm.load(str(run)).score_lists(lists_of("test"))
    copied = shutil.copytree(run, tmp_path / "copied")
    path = copied / gbm_model.file_names(library, 2)[1]
    whole, count = path.read_bytes(), 0
    with monkeypatch.context() as patched:
        patched.setattr(gbm_model, "imported", pytest.fail)
        for damaged in damages(whole, 250):
            if damaged != whole:  # Blocks that were swapped may be the same.
                path.write_bytes(damaged)
                with pytest.raises(ValueError) as error:
                    gbm.load(str(copied))
                assert str(error.value).startswith(f"{path} differs from what was")
                count += 1
    assert count > 240
    path.write_bytes(whole)
    again = gbm.load(str(copied)).score_lists(lists_of("test"))
    np.testing.assert_array_equal(again, expected)


def test_damaged_digests_score_nothing_otherwise(finished, tmp_path):
    _, run = finished
    expected = gbm.load(str(run)).score_lists(lists_of("test"))
    copied = shutil.copytree(run, tmp_path / "copied")
    path, refused = copied / gbm_model.DIGESTS, 0
    for damaged in damages(path.read_bytes(), 100):
        path.write_bytes(damaged)
        try:
            found = gbm.load(str(copied)).score_lists(lists_of("test"))
        except ValueError as error:
            assert gbm_model.DIGESTS in str(error)
            refused += 1
        else:
            np.testing.assert_array_equal(found, expected)
    assert refused > 80


def test_models_of_the_libraries_themselves_have_no_digest(finished, tmp_path):
    library, run = finished
    name = gbm_model.file_names(library)[0]
    gbm.load(str(run)).boosters[0].save_model(str(tmp_path / name))
    lists = lists_of("test")
    found = gbm.load(str(tmp_path)).score_lists(lists)
    expected = gbm.load(str(run)).boosters[0].predict(lists.features)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    (tmp_path / name).write_text("no trees")
    with pytest.raises(ValueError, match=f"{name} is not a model of {library}"):
        gbm.load(str(tmp_path))


def test_a_model_that_is_left_of_others_is_refused(finished, tmp_path):
    library, run = finished
    copied = shutil.copytree(run, tmp_path / "copied")
    gbm_model.GbmModel(gbm.load(str(run)).boosters[1:], library).save(str(copied))
    with pytest.raises(
        ValueError, match=r"model_2\.\w+ has no digest in models.sha256"
    ):
        gbm.load(str(copied))


def test_killed_before_the_digests_it_ends_with_the_same_files(tmp_path):
    data = as_text(tmp_path)
    run = pathlib.Path(trained(data, tmp_path).model_dir)
    record = run / ".written_by_train_gbm"  # The order of its names may change.
    expected = {**content(run), record.name: b""}
    # What a kill may leave: the results come last.
    os.remove(run / "metrics.json")
    os.remove(run / gbm_model.DIGESTS)
    (run / "model.txt").write_text("half")
    with pytest.raises(ValueError, match="no metrics.json"):
        evaluate(EvaluationConfig(data=data, export=str(run)))
    trained(data, tmp_path)
    assert {**content(run), record.name: b""} == expected
