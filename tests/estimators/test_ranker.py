"""The estimator: equal to training by settings, and at home in scikit-learn."""

import ast
import concurrent.futures
import json
import multiprocessing
import pickle
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import tfr_ext
from tests.files import damages
from tests.helpers import assert_same_scores, assert_within, metric_ranges
from tfr_ext import evaluation
from tfr_ext.core import messages
from tfr_ext.data import RankingLists
from tfr_ext.estimators import as_settings
from tfr_ext.models import keras_file
from tfr_ext.serving.exporter import load_scorer
from tfr_ext.sources.data_splits import Splits
from tfr_ext.training import (
    DataConfig,
    LossConfig,
    ModelConfig,
    TrainingConfig,
    train,
    user_callbacks,
)

# A loss and a network whose graphs are built soon.
SMALL = {
    "loss": "list_net_loss",
    "model": "mlp",
    "hidden_sizes": (8,),
    "batch_normalization": False,
    "num_epochs": 3,
    "batch_size": 8,
    "learning_rate": 0.02,
}
ALPHA = {"loss": "smoothi_loss", "loss_params": {"alpha": 2.0}}


def learnable(num_queries=30, seed=0):
    """Rows whose labels depend on their features, and the number of rows per query."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, 9, num_queries)
    X = rng.normal(size=[group.sum(), 4]).astype(np.float32)
    return X, np.clip(np.round(X[:, 0] + X[:, 1]), 0, 3), group


def fitted(**kwargs):
    X, y, group = learnable()
    return tfr_ext.Ranker(**{**SMALL, **kwargs}).fit(X, y, group=group)


@pytest.fixture(scope="module")
def ranker():
    """One that tests may read, but not change."""
    return fitted()


@pytest.mark.two_graphs
def test_it_trains_as_the_settings_do(tmp_path):
    X, y, group = learnable()
    valid = learnable(10, seed=1)
    ranker = tfr_ext.Ranker(**{**SMALL, **ALPHA})
    ranker.fit(X, y, group=group, eval_set=valid[:2], eval_group=valid[2])
    lists = RankingLists.from_arrays(X, y, group=group)
    held = RankingLists.from_arrays(*valid[:2], group=valid[2])
    config = TrainingConfig(
        data=DataConfig(),
        model=ModelConfig("mlp", hidden_sizes=(8,), batch_normalization=False),
        loss=LossConfig("smoothi_loss", {"alpha": 2.0}),
        batch_size=8,
        learning_rate=0.02,
        num_epochs=3,
        model_dir=str(tmp_path),
        verbose="silent",
        export_model=False,
    )
    result = train(config, Splits(lists, held, held))
    assert ranker.history_ == result.history
    assert ranker.best_epoch_ == result.best_epoch
    expected = result.metrics["valid"]
    found = ranker.evaluate(*valid[:2], group=valid[2])
    assert dict(found.metrics) == pytest.approx(expected, abs=1e-6)
    assert ranker.score(*valid[:2], group=valid[2]) == pytest.approx(
        expected["ndcg_10"], abs=1e-6
    )
    assert "ties by position" in str(found) and "ndcg_10" in str(found)


@pytest.mark.two_graphs
def test_group_qid_and_a_frame_are_one(ranker):
    pandas = pytest.importorskip("pandas")
    X, y, group = learnable()
    qid = np.repeat(np.arange(len(group)), group)
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(q=qid)
    by_group = ranker
    by_qid = tfr_ext.Ranker(**SMALL).fit(X, y, qid=qid)
    by_frame = tfr_ext.Ranker(query="q", **SMALL).fit(frame, y)
    expected = by_group.predict(X)
    assert_same_scores(by_qid.predict(X, qid=qid), expected)
    assert_same_scores(by_frame.predict(frame[["q", *"dcba"]]), expected)
    assert by_frame.feature_names_in_.tolist() == list("abcd")
    lists = RankingLists.from_arrays(X, y, group=group)
    ranges = metric_ranges(lists, expected, ["ndcg_10"])
    for value in (by_frame.score(frame, y), by_group.score(X, y, group=group)):
        assert_within({"ndcg_10": value}, ranges)
    with pytest.raises(ValueError, match="lacks columns that `fit` had: b"):
        by_frame.predict(frame.drop(columns="b"))
    with pytest.raises(ValueError, match="no column `query='q'`"):
        by_frame.predict(frame.drop(columns="q"))
    with pytest.raises(ValueError, match="leave out `group` and `qid`"):
        by_frame.predict(frame, qid=qid)


def test_it_learns_and_weights_reach_the_loss():
    X, y, group = learnable(60)
    before = fitted(num_epochs=1, learning_rate=1e-6).score(X, y, group=group)
    after = fitted(num_epochs=20).score(X, y, group=group)
    assert after > before + 0.1
    # What weighs nothing is not learnt from: labels turned round in 60 % of the lists.
    wrong = np.repeat(np.arange(len(group)) % 5 < 3, group)
    turned = np.where(wrong, y.max() - y, y)
    scores = [
        tfr_ext.Ranker(**{**SMALL, "num_epochs": 20})
        .fit(
            X,
            turned,
            group=group,
            sample_weight=weight,
            eval_set=(X, y),
            eval_group=group,
        )
        .score(X, y, group=group)
        for weight in (1.0 - wrong, None)
    ]
    assert scores[0] > scores[1] + 0.1


@pytest.mark.two_graphs
def test_it_comes_back_from_files_pickles_and_exports(tmp_path):
    X, y, group = learnable()
    ranker = fitted(**ALPHA, feature_transforms=["standard"], num_epochs=1)
    ranker.save(str(tmp_path / "saved"))
    loaded = tfr_ext.Ranker.load(str(tmp_path / "saved"))
    expected = ranker.predict(X)
    for again in (loaded, pickle.loads(pickle.dumps(ranker))):
        np.testing.assert_array_equal(again.predict(X), expected)
        assert again.score(X, y, group=group) == ranker.score(X, y, group=group)
        assert again.history_ == ranker.history_
        assert again.get_params()["loss_params"] == {"alpha": 2.0}
    version = ranker.export(str(tmp_path / "export"))
    scorer = load_scorer(str(tmp_path / "export"))
    assert version.endswith("/1") and scorer.max_label == y.max()
    lists = RankingLists.from_arrays(X, y, group=group)
    np.testing.assert_allclose(scorer.scores(lists, 8), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="is not what Ranker.save writes"):
        tfr_ext.Ranker.load(str(tmp_path))


@pytest.fixture(scope="module")
def saved(ranker, tmp_path_factory):
    """The directory of a ranker."""
    folder = tmp_path_factory.mktemp("saved")
    ranker.save(str(folder))
    return folder


def test_parameters_that_are_damaged_are_told(saved, tmp_path, monkeypatch):
    """Or are others that `save` might have written: they have no digest."""
    monkeypatch.setattr(keras_file, "load", lambda path, versions: None)
    path = shutil.copytree(saved, tmp_path / "copied") / "ranker.json"
    known = {*vars(tfr_ext.Ranker.load(str(path.parent)))}
    refused = 0
    for damaged in damages(path.read_bytes(), 250):
        path.write_bytes(damaged)
        try:
            assert {*vars(tfr_ext.Ranker.load(str(path.parent)))} == known
        except ValueError as error:
            assert str(error).startswith(str(path))
            refused += 1
    assert refused > 150


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("fitted", {"predict": 1}, "'fitted' must have n_features_in_.* predict"),
        ("fitted", [], "'fitted' must be an object"),
        ("params", {"predict": 1}, "unexpected keyword argument 'predict'"),
        ("history", None, "'history' must be an object"),
    ],
)
def test_only_what_a_ranker_has_is_set(key, value, message, saved, tmp_path):
    path = shutil.copytree(saved, tmp_path / "copied") / "ranker.json"
    about = json.loads(path.read_text())
    if isinstance(value, dict):
        value = {**about[key], **value}
    path.write_text(json.dumps({**about, key: value}))
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}.*{message}"):
        tfr_ext.Ranker.load(str(path.parent))


def test_only_a_fit_imports_callbacks(saved, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "some_callbacks.py").write_text("raise KeyError('imported')")
    path = shutil.copytree(saved, tmp_path / "copied") / "ranker.json"
    about = json.loads(path.read_text())
    about["params"]["settings"] = {"callback": ["some_callbacks:Mine"]}
    path.write_text(json.dumps(about))
    X, y, group = learnable()
    ranker = tfr_ext.Ranker.load(str(path.parent))
    assert np.isfinite(ranker.score(X, y, group=group))
    with pytest.raises(ValueError, match="some_callbacks:Mine.*cannot be imported"):
        ranker.fit(X, y, group=group)


def test_early_stopping_and_seeds(ranker):
    X, y, group = learnable()
    same = [one.predict(X) for one in (ranker, fitted(random_state=1))]
    np.testing.assert_array_equal(*same)
    assert not np.array_equal(fitted(random_state=4).predict(X), same[0])
    stopped = fitted(num_epochs=50, early_stopping_patience=2, learning_rate=1e-9)
    assert len(stopped.history_["loss"]) < 50
    a, b = (fitted(random_state=None).predict(X) for _ in range(2))
    assert not np.array_equal(a, b)


def test_it_prints_what_verbose_says(capfd):
    for verbose, words in ((0, None), (2, "Epoch 3/3")):
        fitted(verbose=verbose)
        printed = capfd.readouterr().out
        assert (words in printed) if words else not printed


def _settings(_=None):
    return as_settings.training_config(tfr_ext.Ranker().get_params()).verbose


def test_auto_is_a_bar_where_somebody_watches(monkeypatch):
    assert _settings() == "silent"
    monkeypatch.setattr(messages, "takes_bars", lambda: True)
    assert _settings() == "bar"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(_settings).result() == "silent"
    with multiprocessing.get_context("fork").Pool(1) as processes:
        assert processes.map(_settings, [None]) == ["silent"]


def test_a_line_stands_before_the_first_step(monkeypatch, capsys):
    printed = []

    class Watched(tf.keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            printed.append(capsys.readouterr().out)

    monkeypatch.setattr(user_callbacks, "find", lambda name: Watched)
    fitted(verbose=1, settings={"callback": ("mine:Watched",)})
    assert printed[0].startswith("train: 24 queries, ")


def test_an_interrupted_fit_goes_on(ranker, tmp_path):
    fitted(model_dir=str(tmp_path / "a"))
    again = fitted(model_dir=str(tmp_path / "a"))
    assert again.history_ == ranker.history_
    X, y, group = learnable()
    with pytest.raises(ValueError, match="other data"):
        tfr_ext.Ranker(**SMALL, model_dir=str(tmp_path / "a")).fit(
            X, y[::-1].copy(), group=group
        )


X, Y, GROUP = learnable()


@pytest.mark.parametrize(
    ("params", "arguments", "message"),
    [
        ({}, {}, "Pass `group`, the number of rows of each query, or"),
        ({}, {"group": GROUP[1:]}, "group"),
        ({}, {"group": GROUP, "qid": Y}, "Received both"),
        ({}, {"qid": np.arange(len(Y)) % 7}, "must be next to each other"),
        ({"loss": "smothi_loss"}, {"group": GROUP}, "smoothi_loss"),
        ({**ALPHA, "loss_params": {"alpa": 1}}, {"group": GROUP}, "alpha"),
        ({"num_epochs": 0}, {"group": GROUP}, "`num_epochs`"),
        ({"verbose": 3}, {"group": GROUP}, "`verbose` must be 'auto', 0, 1 or 2"),
        ({"monitor": "ndgc"}, {"group": GROUP}, "ndcg"),
        ({}, {"group": GROUP, "eval_group": GROUP}, "need an `eval_set`"),
        ({}, {"group": GROUP, "eval_set": X}, r"`eval_set` must be .*\(X, y\)"),
        ({}, {"group": GROUP, "eval_set": (X,)}, r"`eval_set` must be .*\(X, y\)"),
        ({}, {"group": GROUP, "eval_set": (X, Y)}, "queries of `eval_set`"),
        ({}, {"group": GROUP, "sample_weight": -Y - 1}, "weight"),
        ({"settings": {"num_epoch": 1}}, {"group": GROUP}, "num_epochs"),
    ],
)
def test_what_is_wrong_is_told(params, arguments, message):
    with pytest.raises(ValueError, match=message):
        tfr_ext.Ranker(**{**SMALL, **params}).fit(X, Y, **arguments)


def test_other_features_and_lists_that_matter_are_told():
    ranker = fitted(feature_transforms=("query_minmax",))
    with pytest.raises(ValueError, match="X has 3 features, but Ranker is expecting 4"):
        ranker.predict(X[:, :3], group=GROUP)
    with pytest.raises(ValueError, match="needs whole lists"):
        ranker.predict(X)
    assert ranker.predict(X, group=GROUP).shape == Y.shape


def test_a_cost_is_scored_so_that_higher_is_better():
    ranker = fitted(monitor="arp")
    value = ranker.evaluate(X, Y, group=GROUP).metrics["arp"]
    assert ranker.score(X, Y, group=GROUP) == -value < 0
    assert not evaluation.higher_is_better("arp")
    for measure in (ranker.score, ranker.evaluate):
        with pytest.raises(ValueError, match="`y` must be given"):
            measure(X, None, group=GROUP)


def test_grid_search_over_queries():
    model_selection = pytest.importorskip("sklearn.model_selection")
    pandas = pytest.importorskip("pandas")
    qid = np.repeat(np.arange(len(GROUP)), GROUP)
    frame = pandas.DataFrame(X).assign(**{"4": qid})  # Names of both types.
    search = model_selection.GridSearchCV(
        tfr_ext.Ranker(query=4, monitor="ndcg@10", **{**SMALL, "num_epochs": 8}),
        {"learning_rate": [1e-9, 0.02]},
        cv=model_selection.GroupKFold(2),
        error_score="raise",
    ).fit(frame, Y, groups=qid)
    assert search.best_params_ == {"learning_rate": 0.02}
    best = search.best_estimator_
    assert (best.query, best.monitor) == (4, "ndcg@10")
    assert best.predict(frame).shape == Y.shape


def test_the_default_is_one_model_by_its_name_and_by_its_parameters():
    """As docs/guide/training.md says it; a number of its own replaces the default."""
    X, y, group = learnable()
    own = {"loss": "list_net_loss", "num_epochs": 2}
    by_name = tfr_ext.Ranker(**own).fit(X, y, group=group)
    written = {
        **{"hidden_sizes": (256, 128), "dropout": 0.2, "batch_size": 32},
        "feature_transforms": ("log1p", "standard+query_standard+query_rank"),
    }
    ranker = tfr_ext.Ranker(model="mlp", **written, **own).fit(X, y, group=group)
    expected = ranker.predict(X, group=group)
    np.testing.assert_array_equal(by_name.predict(X, group=group), expected)
    assert by_name.history_ == ranker.history_


def test_whoever_has_no_lists_to_predict_is_told_what_to_do():
    X, y, group = learnable()
    ranker = tfr_ext.Ranker("list_net_loss", hidden_sizes=(4,), num_epochs=1)
    ranker.fit(X, y, group=group)
    with pytest.raises(ValueError, match="needs whole lists: give `group` or `qid`, or "
                       "name the column of the queries, `query`") as error:  # fmt: skip
        ranker.predict(X)
    (form,) = re.findall(r"feature_transforms=(\([^)]*\))` scores", str(error.value))
    ranker.set_params(feature_transforms=ast.literal_eval(form))
    ranker.fit(X, y, group=group)
    assert_same_scores(ranker.predict(X), ranker.predict(X, group=group))


def test_any_other_setting_of_training_holds():
    ranker = fitted(settings={"head": "expected_grade", "steps_per_execution": 2})
    assert ranker.predict(X).min() >= 0 and ranker.predict(X).max() <= 1
    assert isinstance(ranker.model_, tf.keras.Model)
