"""Training of trees: what is trained, what is written, what is found again, refused."""

import dataclasses
import json
import pathlib
import sys

import lightgbm
import numpy as np
import pytest

from tests.elwc_files import elwc, write
from tests.helpers import make_lists
from tfr_ext import evaluation, gbm
from tfr_ext.gbm import boosters
from tfr_ext.runs import outputs
from tfr_ext.scoring.list_ranker import rank
from tfr_ext.scoring.loaded_scorers import load_scorer
from tfr_ext.scoring.rank_config import RankConfig
from tfr_ext.sources.data_splits import Splits
from tfr_ext.training import DataConfig, MetricsConfig


def learnable(num_lists, seed):
    """Lists whose first feature tells the label, where it is not missing."""
    lists = make_lists([6] * num_lists, seed=seed, num_features=4)
    lists.features[:, 0] += 2 * lists.labels
    lists.features[::5, 0] = np.nan
    return lists


SPLITS = Splits(learnable(40, 0), learnable(10, 1), learnable(12, 2))


def config(tmp_path, **given):
    return gbm.GbmConfig(
        **{
            "model_dir": str(tmp_path / "run"),
            "num_trees": 12,
            "min_data_in_leaf": 5,
            "num_leaves": 5,
            "num_threads": 1,
            "draw_curves": False,
            "evaluation": MetricsConfig(metrics=("ndcg_5", "map")),
            "monitor": "ndcg_5",
            **given,
        }
    )


def test_lambdarank_is_lightgbm_s_own(tmp_path):
    result = gbm.train(config(tmp_path, bagging_fraction=0.7), SPLITS)
    train, valid = SPLITS.train, SPLITS.valid
    params = {
        **{"objective": "lambdarank", "metric": "None", "verbosity": -1, "seed": 1},
        **{"num_leaves": 5, "min_data_in_leaf": 5, "learning_rate": 0.1},
        **{"bagging_fraction": 0.7, "bagging_freq": 1},
        **{"deterministic": True, "force_row_wise": True, "num_threads": 1},
    }
    values = []
    data = lightgbm.Dataset(train.features, train.labels, group=train.lengths)
    theirs = lightgbm.train(params, data, num_boost_round=12)
    for number in range(1, 13):
        scores = theirs.predict(valid.features, num_iteration=number)
        values.append(evaluation.per_query(valid, scores, ["ndcg_5"])["ndcg_5"].mean())
    assert result.history["val_ndcg_5"] == pytest.approx(values, abs=1e-12)
    assert result.num_trees == (int(np.argmax(values)) + 1,)
    np.testing.assert_array_equal(
        result.model.score_lists(SPLITS.test),
        theirs.predict(SPLITS.test.features, num_iteration=result.num_trees[0]),
    )


@pytest.mark.parametrize(
    "objective",
    [
        *("yetirank", "pointwise_kl_binomial_loss", "listwise_kl_gaussian_loss"),
        "smoothi_loss",
        # As of any other loss, TensorFlow gives its gradient.
        pytest.param("pirank_ndcg_loss", marks=pytest.mark.grid),
    ],
)
def test_each_learns_writes_its_files_and_is_found_again(objective, tmp_path):
    given = {}
    if objective == "yetirank":
        given = {"num_leaves": None, "min_data_in_leaf": None, "max_depth": 2}
    settings = config(tmp_path, objective=objective, **given)
    result = gbm.train(settings, SPLITS)
    assert result.metrics["test"]["ndcg_5"] > 0.75  # At random it is .56.
    folder = pathlib.Path(settings.model_dir)
    model = "model.cbm" if objective == "yetirank" else "model.txt"
    wanted = {"metrics.json", "per_query.tsv", "run.trec", "qrels.trec", "history.tsv"}
    assert {*wanted, model, "flags.cfg"} <= {path.name for path in folder.iterdir()}
    # The files say what the model gives.
    scores = gbm.load(settings.model_dir).score_lists(SPLITS.test)
    values = evaluation.per_query(SPLITS.test, scores, ["ndcg_5", "map"])
    found = outputs.read_metrics(str(folder / "metrics.json"))
    for name, of_query in values.items():
        assert found["test"][name] == pytest.approx(of_query.mean(), abs=1e-6)
    assert load_scorer(settings.model_dir).held_out == [found["held_out"]] == [{}]
    assert found["trees"] == list(result.num_trees) and found["loss"] == objective
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    again = gbm.train(settings, SPLITS)
    assert again.metrics == result.metrics and again.num_trees == result.num_trees
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    # With other settings it is refused, unless it may be replaced.
    other = dataclasses.replace(settings, learning_rate=0.2)
    with pytest.raises(ValueError, match=r"other settings:\s+`learning_rate=0.1` then"):
        gbm.train(other, SPLITS)


def test_the_same_seed_gives_the_same_and_several_seeds_are_averaged(tmp_path):
    given = {"feature_fraction": 0.5, "bagging_fraction": 0.5}
    one, other = (
        gbm.train(config(tmp_path / name, **given, data=DataConfig(seed=seed)), SPLITS)
        for name, seed in (("a", 1), ("b", 2))
    )
    both = gbm.train(config(tmp_path / "c", **given, num_models=2), SPLITS)
    assert both.num_trees == (*one.num_trees, *other.num_trees)
    assert {"model.txt", "model_2.txt"} <= both.paths.keys()
    scores = [run.model.score_lists(SPLITS.test) for run in (one, other, both)]
    assert not np.array_equal(scores[0], scores[1])
    np.testing.assert_allclose(scores[2], (scores[0] + scores[1]) / 2)
    # Fewer models in its place leave none of those there were.
    fewer = config(tmp_path / "c", **given, overwrite=True)
    assert "model_2.txt" not in gbm.train(fewer, SPLITS).paths


def test_missing_features_stay_missing(tmp_path):
    text = []
    rng = np.random.default_rng(0)
    for query in range(30):
        for _ in range(6):
            label = int(rng.integers(0, 3))
            value = "NULL" if label == 1 else f"{label + rng.normal() / 9:.3f}"
            text.append(f"{label} qid:{query} 1:{value} 2:{rng.normal():.3f}")
    path = tmp_path / "lists.txt"
    path.write_text("\n".join(text) + "\n")
    data = DataConfig(dataset="text", train_path=(str(path),))
    result = gbm.train(
        config(tmp_path, data=data, objective="listwise_kl_gaussian_loss")
    )
    # Only a branch of its own puts what is missing between the others.
    scores = result.model.predict([[2, 0], [np.nan, 0], [0, 0]])
    assert scores[0] > scores[1] > scores[2]
    assert result.metrics["test"]["ndcg_5"] > 0.99


def test_early_stopping_and_best_step(tmp_path):
    settings = config(tmp_path, num_trees=200, early_stopping_patience=3)
    result = gbm.train(settings, SPLITS)
    values = result.history["val_ndcg_5"]
    assert result.num_trees[0] == 1 + int(np.argmax(values))
    assert len(values) == result.num_trees[0] + 3
    # A cost is minimised.
    arp = gbm.train(config(tmp_path / "arp", monitor="arp", learning_rate=0.5), SPLITS)
    assert arp.num_trees[0] == 1 + int(np.argmin(arp.history["val_arp"]))
    assert boosters.best_step([], 0) == 1


def test_the_order_of_elwc_features_is_kept(tmp_path):
    rng = np.random.default_rng(0)
    protos = [
        elwc([{"a": [x], "b": [-x], "label": [x > 0]} for x in rng.normal(size=5)])
        for _ in range(60)
    ]
    path = str(write(tmp_path / "lists.tfrecord", protos))
    read = DataConfig(dataset="elwc", train_path=path, elwc_features=("b", "a"))
    gbm.train(config(tmp_path, data=read))
    given = {"export": str(tmp_path / "run"), "input": path}
    for features in (("b", "a"), ("a", "b")):
        output = str(tmp_path / f"{features[0]}.csv")
        ranking = RankConfig(**given, elwc_features=features, output=output)
        if features == ("b", "a"):
            assert rank(ranking).num_queries == 60
        else:
            with pytest.raises(ValueError, match="order \\['a', 'b'\\], but the model"):
                rank(ranking)


@pytest.mark.parametrize(
    "given", [{"min_data_in_leaf": 10_000}, {"objective": "pairwise_kl_binomial_loss"}]
)
def test_what_cannot_be_split_has_one_score_and_is_told(given, tmp_path, capsys):
    result = gbm.train(config(tmp_path, **given), SPLITS)
    assert len({*result.model.score_lists(SPLITS.test)}) == 1
    told = "Warning: There is no tree, and all items have the same score"
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"objective": "smothi_loss"}, "smothi_loss"),
        ({"objective": "smoothi_loss", "params": {"aplha": 1}}, "aplha"),
        ({"params": {"topn": 1}}, "lambdarank has no such parameter"),
        ({"hessian": "constant"}, "has no meaning with lambdarank"),
        ({"objective": "pointwise_kl_multinomial_loss"}, "one score per item"),
        ({"monitor": "ndgc_10"}, "ndgc"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_read(given, told, tmp_path):
    with pytest.raises(ValueError, match=told):
        gbm.train(config(tmp_path, **given), SPLITS)
    assert not (tmp_path / "run").exists()


def test_settings_that_do_not_fit():
    for given, told in (
        ({"objective": "yetirank", "num_leaves": 5}, "trees are symmetric"),
        ({"data": DataConfig(seed=2**32 - 1), "num_models": 2}, "would exceed"),
        ({"num_leaves": 1}, "`num_leaves` must be an integer"),
        ({"data": DataConfig(dataset="elwc", stream=True)}, "all lists in memory"),
    ):
        with pytest.raises(ValueError, match=told):
            gbm.GbmConfig(**given)


def test_labels_that_do_not_fit(tmp_path):
    train = SPLITS.train
    halves = dataclasses.replace(train, labels=train.labels / 2)
    with pytest.raises(ValueError, match="needs integer labels.* a label 1.5"):
        gbm.train(config(tmp_path), dataclasses.replace(SPLITS, train=halves))
    weighted = dataclasses.replace(train, weights=np.ones_like(train.labels))
    plain = {"num_leaves": None, "min_data_in_leaf": None}
    with pytest.raises(ValueError, match="takes no weights of items"):
        gbm.train(
            config(tmp_path, objective="yetirank", **plain),
            dataclasses.replace(SPLITS, train=weighted),
        )


def test_without_the_library_a_line_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ValueError) as error:
        gbm.train(config(tmp_path), SPLITS)
    assert "pip install tfr-ext[gbm]" in str(error.value)
    assert str(error.value).count("\n") == 0


def test_a_directory_of_another_command_is_refused(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.json").write_text(
        json.dumps({"valid": {}, "test": {}})
    )
    with pytest.raises(ValueError, match="`train_gbm` did not write"):
        gbm.train(config(tmp_path), SPLITS)
    with pytest.raises(ValueError, match="must have a model.txt or a model.cbm"):
        gbm.load(str(tmp_path))
