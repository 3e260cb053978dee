"""Trees that take categories, of items and of lists, and keep their vocabularies."""

import contextlib
import dataclasses
import io
import os
import pathlib
import shutil

import lightgbm
import numpy as np
import pandas as pd
import pytest

from pipelines.preparing import shard_directory, work_units
from tfr_ext import gbm
from tfr_ext.data import RankingLists
from tfr_ext.data.elwc.writing import ShardWriter
from tfr_ext.models.trees import gbm_model
from tfr_ext.models.trees.category_codes import Codes, rows
from tfr_ext.scoring import loaded_scorers
from tfr_ext.sources.data_splits import Splits
from tfr_ext.training import DataConfig, EvaluationConfig, MetricsConfig, evaluate

LIBRARIES = {"lightgbm": "lambdarank", "catboost": "yetirank"}
COLUMNS = {"categories": ["device", "brand", "shop"], "context": ["device", "age"]}
BRANDS = ["acme", b"\xff\xfe", "naïve", "fourth"]


def table(num_lists=60, seed=0):
    """A frame where the device says which brands are good: no number does."""
    rng = np.random.default_rng(seed)
    size = 10 * num_lists
    phone = np.repeat(rng.random(num_lists) < 0.5, 10)
    brand = rng.integers(0, 4, size)
    return pd.DataFrame(
        {
            "query": np.repeat(np.arange(num_lists), 10),
            "device": np.where(phone, "phone", "desktop"),
            "price": rng.normal(size=size),
            "brand": [BRANDS[i] for i in brand],
            "shop": rng.integers(100, 103, size),
            "age": np.repeat(rng.integers(20, 60, num_lists), 10),
            "label": (brand < 2) == phone,
        }
    )


def lists_of(frame, **columns):
    return RankingLists.from_dataframe(frame, "label", "query", **columns)


def trained(lists, directory, library="lightgbm", **given):
    return gbm.train(
        gbm.GbmConfig(
            objective=LIBRARIES[library],
            model_dir=str(directory),
            num_trees=10,
            num_threads=1,
            draw_curves=False,
            evaluation=MetricsConfig(metrics=("ndcg_5",)),
            monitor="ndcg_5",
            **given,
        ),
        Splits(*[lists] * 3) if isinstance(lists, RankingLists) else lists,
    )


@pytest.fixture(scope="module", params=LIBRARIES)
def run(request, tmp_path_factory):
    """The directory of two models, and what training says of the test lists."""
    folder = tmp_path_factory.mktemp(request.param) / "run"
    splits = Splits(*(lists_of(table(200, seed), **COLUMNS) for seed in range(3)))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = trained(splits, folder, request.param, num_models=2)
    line = "shop (a category of whole numbers): 3 values in the vocabulary; 0% of"
    assert printed.getvalue().count(line) == 1
    return folder, result.metrics["test"]["ndcg_5"]


def test_categories_decide_and_the_saved_model_knows_them(run):
    folder, ndcg = run
    test = lists_of(table(seed=2), **COLUMNS)
    assert ndcg > 0.98
    numbers = lists_of(table(seed=2)[["query", "price", "age", "label"]])
    assert gbm_model.CATEGORIES in (folder / gbm_model.DIGESTS).read_text()
    scorer = loaded_scorers.load_scorer(str(folder))
    assert scorer.spec == test.spec and scorer.num_features == 2
    assert list(scorer.feature_names) == ["price", "age"]
    scores = scorer.scores(test, 8)
    good = scores[test.labels > 0].min(), scores[test.labels == 0].max()
    assert good[0] > good[1]
    for wrong in (numbers, lists_of(table(), categories=["device", "brand"])):
        with pytest.raises(ValueError, match="trees take the categories .*'brand'.* F"):
            scorer.scores(wrong, 8)


def test_unseen_values_score_as_one_and_missing_ones_score(run):
    folder, _ = run
    frame = table(1)
    several = []
    for value in ("new", "newer", None):
        spec = loaded_scorers.load_scorer(str(folder)).spec
        columns = {"brand": value, "shop": np.where(frame.index == 3, 7, frame["shop"])}
        lists = lists_of(frame.assign(**columns), **COLUMNS)
        lists = dataclasses.replace(lists, spec=spec)  # All missing tells no type.
        several.append(gbm.load(str(folder)).score_lists(lists))
    np.testing.assert_array_equal(several[0], several[1])
    assert np.isfinite(several).all()


def test_rows_are_numbers_and_places_in_the_vocabulary(tmp_path):
    frame = table(2).assign(brand=["a", "b", "b", None, "a"] * 4)
    frame.loc[7, "brand"] = "once"
    lists = lists_of(frame, **COLUMNS)
    codes = Codes.learnt(lists)
    codes.save(str(tmp_path / "codes"))
    again = Codes.load(str(tmp_path / "codes"))
    assert again.spec == lists.spec
    found = rows(lists, again)
    np.testing.assert_array_equal(found, rows(lists, codes))
    np.testing.assert_array_equal(found[:, :2], lists.features)
    brand, shop, device = found[:, 2:].T
    assert np.isnan(brand[3::5]).all() and brand[7] == 0
    known = {name: set(brand[frame["brand"] == name]) for name in ("a", "b")}
    assert sorted([*known["a"], *known["b"]]) == [1, 2]
    assert len(set(zip(shop, frame["shop"]))) == 3
    assert len(set(zip(device, frame["device"]))) == frame["device"].nunique()


def test_lightgbm_splits_them_as_categories(tmp_path):
    """A single split by sets of values, where numbers would need several."""
    result = trained(lists_of(table(), **COLUMNS), tmp_path / "run", num_leaves=2)
    text = pathlib.Path(result.paths["model.txt"]).read_text()
    assert "num_cat=1" in text
    numbers = trained(lists_of(table()), tmp_path / "numbers", num_leaves=2)
    folder = pathlib.Path(numbers.model_dir)
    assert not (folder / gbm_model.CATEGORIES).exists()
    assert lightgbm.Booster(model_file=str(folder / "model.txt")).num_feature() == 3


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_texts_share_decides_where_there_is_nothing_else(library, tmp_path):
    frame = table(200)[["query", "label", "brand"]]
    wanted = np.where(table(200)["device"] == "phone", "ACME or..?", "fourth, naïve")
    names = [["acme", "or", "naïve", "fourth"][BRANDS.index(x)] for x in frame["brand"]]
    frame = frame.assign(title=[f"The {x}!" for x in names], words=wanted)
    columns = {"texts": ["title", "words"], "context": ["words"]}
    lists = lists_of(frame, **columns)
    result = trained(lists, tmp_path / "run", library)
    assert result.metrics["test"]["ndcg_5"] > 0.98
    scorer = loaded_scorers.load_scorer(result.model_dir)
    np.testing.assert_array_equal(
        scorer.scores(lists, 8), result.model.score_lists(lists)
    )


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("as_input", [False, True])
def test_cosines_decide_where_there_is_nothing_else(library, as_input, tmp_path):
    rng = np.random.default_rng(0)
    frame = table(200)[["query", "label"]]
    size, wish = len(frame), np.repeat(rng.normal(size=[200, 4]), 10, axis=0)
    vectors = wish * (2.0 * frame["label"].to_numpy()[:, None] - 1)
    vectors = (vectors + 0.3 * rng.normal(size=[size, 4])) * rng.uniform(
        1, 9, [size, 1]
    )
    frame = frame.assign(vector=[*vectors], wish=[*wish])
    columns = {"embeddings": ["vector", "wish"], "context": ["wish"]}
    lists = lists_of(frame, **columns, embedding_inputs=as_input)
    result = trained(lists, tmp_path / "run", library)
    assert result.metrics["test"]["ndcg_5"] > 0.98
    found = rows(lists, result.model.codes)
    assert found.shape[1] == 1 + 8 * as_input == result.model.codes.num_numbers
    both = (vectors * wish).sum(axis=1)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(wish, axis=1)
    np.testing.assert_allclose(found[:, -1], both / lengths, rtol=1e-5, atol=1e-6)
    scorer = loaded_scorers.load_scorer(result.model_dir)
    np.testing.assert_array_equal(
        scorer.scores(lists, 8), result.model.score_lists(lists)
    )


def test_a_text_alone_is_refused(tmp_path):
    frame = table()[["query", "label", "price"]].assign(title="The")
    with pytest.raises(ValueError, match="'title' says nothing to trees"):
        trained(lists_of(frame, texts=["title"]), tmp_path / "run")


@pytest.mark.parametrize("library", LIBRARIES)
def test_there_need_be_no_numbers(library, tmp_path):
    frame = table(200)[["query", "label", "device", "brand"]]
    columns = {"categories": ["device", "brand"], "context": ["device"]}
    lists = lists_of(frame, **columns)
    result = trained(lists, tmp_path / "run", library)
    scorer = loaded_scorers.load_scorer(result.model_dir)
    assert scorer.num_features == 0 and result.metrics["test"]["ndcg_5"] > 0.98
    np.testing.assert_array_equal(
        scorer.scores(lists, 8), result.model.score_lists(lists)
    )


def test_no_trees_score_with_another_vocabulary(run, tmp_path):
    copied = shutil.copytree(run[0], tmp_path / "copied")
    path = copied / gbm_model.CATEGORIES
    text = path.read_text()
    path.write_text(text.replace("1", "2", 1))
    with pytest.raises(ValueError, match=r"categories.json differs from what was"):
        loaded_scorers.load_scorer(str(copied))
    path.unlink()
    with pytest.raises(ValueError, match=r"categories.json is missing, but"):
        loaded_scorers.load_scorer(str(copied))
    path.write_text(text)
    digests = copied / gbm_model.DIGESTS
    lines = digests.read_text().splitlines()
    digests.write_text("".join(f"{x}\n" for x in lines if "categories" not in x))
    with pytest.raises(ValueError, match=r"categories.json has no digest in"):
        loaded_scorers.load_scorer(str(copied))


@pytest.mark.parametrize("library", LIBRARIES)
def test_prepared_shards_train_and_evaluate_as_lists_do(library, tmp_path):
    splits = Splits(*(lists_of(table(seed=seed), **COLUMNS) for seed in range(3)))
    records, folder = {}, str(tmp_path / "shards")
    os.mkdir(folder)
    for split in ("train", "valid", "test"):
        name = f"{split}-00000-of-00001.tfrecord"
        with ShardWriter(folder, name) as writer:
            writer.write(getattr(splits, split))
        records[split] = writer.record
    content = shard_directory.describe([work_units.Written(records, [])], {})
    with open(os.path.join(folder, "manifest.json"), "w") as file:
        file.write(content.as_json())
    data = DataConfig(dataset="elwc", data_dir=folder)
    of_shards = trained(None, tmp_path / "first", library, data=data)
    of_lists = trained(splits, tmp_path / "second", library)
    assert of_shards.metrics == of_lists.metrics
    export = str(tmp_path / "first")
    metrics = MetricsConfig(metrics=("ndcg_5",))
    found = evaluate(EvaluationConfig(data=data, export=export, metrics=metrics))
    assert found.metrics == of_shards.metrics["test"]


def test_several_values_are_refused_by_name(tmp_path):
    frame = table(4)
    frame["brand"] = [[x, "more"] for x in frame["brand"]]
    with pytest.raises(ValueError, match="Category 'brand' has up to 8 values, and"):
        trained(lists_of(frame, **COLUMNS), tmp_path / "run")
    assert not (tmp_path / "run" / "model.txt").exists()
