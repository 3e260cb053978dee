"""Training on tables: what text gives, weights in the loss, and what is told."""

import dataclasses
import functools
import importlib.util

import numpy as np
import pandas as pd
import pytest

from tests.files import write_letor
from tests.helpers import make_lists
from tests.tables import frame, tabular
from tfr_ext import data, losses
from tfr_ext.sources import data_splits, named_sources
from tfr_ext.training import (
    DataConfig,
    LossConfig,
    MetricsConfig,
    ModelConfig,
    TrainingConfig,
    train,
)

SPLITS = ("train", "valid", "test")
CONFIG = TrainingConfig(
    model=ModelConfig(hidden_sizes=(4,), batch_normalization=False),
    loss=LossConfig("list_net_loss"),  # Its graph is built soon.
    evaluation=MetricsConfig(metrics=("ndcg_10", "map")),
    num_epochs=2,
    batch_size=8,
    verbose="silent",
    draw_curves=False,
    export_model=False,
)
TABLE = DataConfig(dataset="table", query_column="query", doc_id_column="doc")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same lists as text, CSV and Parquet; the tables have weights too."""
    directory = tmp_path_factory.mktemp("files")
    for seed, split in enumerate(SPLITS):
        lists = make_lists([5, 9, 2, 7] * 6, seed=seed)
        write_letor(directory / f"{split}.txt", lists)
        lists = tabular(data.read_letor(directory / f"{split}.txt"))
        df = frame(lists).assign(text="a b", ones=1.0)
        df = df.assign(by_list=df.groupby("query")["weight"].transform("first"))
        df.to_csv(directory / f"{split}.csv", index=False)
        if importlib.util.find_spec("pyarrow"):
            df.to_parquet(directory / f"{split}.parquet")
    return directory


def config_of(files, ending, config=TABLE, **settings):
    """The settings of the data in files of one format."""
    return dataclasses.replace(
        config,
        **{f"{split}_path": files / f"{split}.{ending}" for split in SPLITS},
        **{"feature_columns": "x,y,z".split(",")} if ending != "txt" else {},
        **settings,
    )


@pytest.fixture(scope="module")
def trained(files):
    """Trains on files of one kind, once, and returns the result and the settings."""

    @functools.cache
    def trained(ending, **settings):
        config = TABLE if ending != "txt" else DataConfig(dataset="text")
        config = dataclasses.replace(
            CONFIG,
            data=config_of(files, ending, config, **settings),
            model_dir=files / "-".join([ending, *settings.values()]),
        )
        return train(config), config

    return trained


@pytest.mark.parametrize(
    ("ending", "settings"),
    [("csv", {}), ("parquet", {}), ("csv", {"weight_column": "ones"})],
    ids=str,
)
def test_tables_train_as_text_does(trained, ending, settings):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    expected, as_text = trained("txt")
    result, config = trained(ending, **settings)
    assert result.history == expected.history
    for name in ("metrics.json", "run.trec", "per_query.tsv", "qrels.trec"):
        texts = [open(run.paths[name]).read() for run in (expected, result)]
        assert texts[0] == texts[1], name
    same = (
        named_sources.source(config.data).digest()
        == named_sources.source(as_text.data).digest()
    )
    assert same == (not settings)


def test_weights_are_in_the_loss_and_in_no_metric(trained, capsys):
    """A weight that is constant in a list is the weight of a listwise loss."""
    result, config = trained("csv", weight_column="by_list")
    epoch = result.best_epoch - 1
    valid = data_splits.load(config.data).valid
    told = "The loss uses the weights of the items; metrics do not."
    assert told in capsys.readouterr().out
    found = []
    for q in range(valid.num_lists):
        features, labels, weights = data.padded_batch(valid, np.array([q]))
        assert (weights == weights[0, 0]).all()
        value = losses.ListNetLoss()(labels, result.model(features))
        found.append(weights[0, 0] * value)
    np.testing.assert_allclose(
        result.history["val_loss"][epoch], np.mean(found), rtol=1e-5
    )
    np.testing.assert_allclose(
        result.history["val_ndcg_10"][epoch],
        result.metrics["valid"]["ndcg_10"],
        rtol=1e-5,
    )
    assert result.history["loss"] != trained("csv")[0].history["loss"]


def test_held_out_lists_and_cut_ones_keep_their_weights(files):
    config = config_of(files, "csv", weight_column="weight", list_size=3)
    config = dataclasses.replace(config, valid_path=(), test_path=())
    splits = data_splits.load(config)
    whole = data_splits.load(dataclasses.replace(config, list_size=None))
    for name in SPLITS:
        lists, all_of_them = getattr(splits, name), getattr(whole, name)
        weight_of = {
            (x, y): w
            for x, y, w in zip(
                all_of_them.features[:, 0], all_of_them.labels, all_of_them.weights
            )
        }
        found = zip(lists.features[:, 0], lists.labels)
        assert lists.weights.tolist() == [weight_of[item] for item in found]
    assert splits.train.lengths.max() == 3 < splits.valid.lengths.max()


def test_a_run_knows_its_weights(trained, tmp_path):
    result, config = trained("csv", weight_column="by_list")
    assert train(config).history == result.history
    other = dataclasses.replace(config.data, weight_column="weight")
    told = "`weight_column='by_list'` then, `weight_column='weight'` now"
    with pytest.raises(ValueError, match=told):
        train(dataclasses.replace(config, data=other))
    df = pd.read_csv(config.data.train_path[0])
    df.assign(by_list=df["by_list"] * 2).to_csv(tmp_path / "train.csv", index=False)
    other = dataclasses.replace(config.data, train_path=tmp_path / "train.csv")
    told = "`train_path=.* then, `train_path="
    with pytest.raises(ValueError, match=told):
        train(dataclasses.replace(config, data=other))
    assert (
        named_sources.source(other).digest()
        != named_sources.source(config.data).digest()
    )


def test_features_are_those_of_the_training_files_by_name(files, tmp_path, capsys):
    config = dataclasses.replace(config_of(files, "csv"), feature_columns=())
    expected = data_splits.load(config)
    told = capsys.readouterr().out
    assert "Features: x, y, z, weight, ones, by_list. Not used, as they are not" in told
    assert "not numbers: text." in told
    for split in ("valid", "test"):
        df = pd.read_csv(files / f"{split}.csv")
        df[df.columns[::-1]].assign(more=3).to_csv(tmp_path / f"{split}.csv")
    other = dataclasses.replace(
        config,
        valid_path=tmp_path / "valid.csv",
        test_path=tmp_path / "test.csv",
    )
    found = data_splits.load(other)
    for split in SPLITS:
        one, two = getattr(found, split), getattr(expected, split)
        np.testing.assert_array_equal(one.features, two.features)
        assert tuple(one.feature_names) == tuple(two.feature_names)


def test_only_training_needs_weights(files, tmp_path, capsys):
    config = config_of(files, "csv", weight_column="weight")
    df = pd.read_csv(files / "test.csv").drop(columns="weight")
    df.to_csv(tmp_path / "test.csv", index=False)
    splits = data_splits.load(
        dataclasses.replace(config, test_path=tmp_path / "test.csv")
    )
    assert splits.test.weights is None and splits.valid.has_weights
    assert f"test: {tmp_path}/test.csv has no weights (" in capsys.readouterr().out
    with pytest.raises(data.DataFormatError, match="test.csv: .*no column 'weight'"):
        data_splits.load(dataclasses.replace(config, train_path=tmp_path / "test.csv"))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"num_features": 4}, "expects 4 features, .* has 3: x, y, z. .* `feature_c"),
        (
            {"label_column": "rel"},
            "train.csv: There is no column 'rel'. Found: 'query'",
        ),
        ({"query_column": "qid"}, "There is no column 'qid'"),
        ({"doc_id_column": "d"}, "There is no column 'd'"),
        ({"feature_columns": ("x", "w")}, "There is no column 'w'"),
        ({"feature_columns": ("x", "text")}, "row 0: column 'text' is 'a b', expected"),
        ({"feature_columns": ("x", "label")}, "Column 'label' has two uses"),
        ({"missing": "1"}, "`missing='1'` is not for `dataset='table'`"),
        ({"train_path": ()}, "`dataset='table'` needs `train_path`"),
        ({"stream": True}, "`stream` needs `dataset='elwc'`, .* `dataset='table'`"),
    ],
)
def test_wrong_settings(files, settings, told):
    with pytest.raises(ValueError, match=told):
        data_splits.load(dataclasses.replace(config_of(files, "csv"), **settings))


@pytest.mark.parametrize("dataset", ["text", "synthetic", "letor4/mq2008_fold1"])
@pytest.mark.parametrize(
    "name", ["weight_column", "label_column", "query_column", "doc_id_column"]
)
def test_other_sources_have_no_columns(dataset, name):
    with pytest.raises(ValueError, match=f"`{name}='w'` has no meaning with `dataset="):
        DataConfig(dataset=dataset, **{name: "w"})
    assert DataConfig(dataset="elwc", weight_column="w").weight_column == "w"
    with pytest.raises(ValueError, match="`label_column` must name a column"):
        DataConfig(dataset="table", label_column="")


def test_documents_need_no_names(files, tmp_path):
    """`doc_id` is the default, and may be missing."""
    config = config_of(files, "csv", doc_id_column="doc_id")
    splits = data_splits.load(config)
    assert splits.test.doc_ids is None
    for split in SPLITS:
        df = pd.read_csv(files / f"{split}.csv").rename(columns={"doc": "doc_id"})
        df.to_csv(tmp_path / f"{split}.csv", index=False)
    splits = data_splits.load(config_of(tmp_path, "csv", doc_id_column="doc_id"))
    assert splits.test.doc_ids[0] == "D0"
