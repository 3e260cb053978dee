"""`--dataset=NAME` of a data set of TensorFlow Datasets."""

import dataclasses
import json

import numpy as np
import pytest

from tests import layouts
from tests.commands import run_command
from tests.helpers import assert_same_lists
from tfr_ext import data
from tfr_ext.sources import named_sources
from tfr_ext.sources.source import SPLITS
from tfr_ext.training import DataConfig

SMALL = ("--hidden_sizes=4", "--num_epochs=1", "--batch_size=4", "--verbose=silent")


@pytest.fixture
def config(tmp_path):
    """Settings from which lists are read."""
    return DataConfig(
        dataset="letor4/mq2008_fold1",
        data_dir=tmp_path / "data",
        manual_dir=tmp_path / "files",
    )


@pytest.fixture
def files(tmp_path):
    """The directory of downloaded files."""
    return tmp_path / "files"


def test_the_same_lists_as_from_text(config, files):
    fold = files / "MQ2008" / "Fold1"
    layouts.write_fold(fold, 46)
    by_name = named_sources.source(config)
    text = named_sources.source(
        DataConfig(
            dataset="text",
            train_path=fold / "train.txt",
            valid_path=[fold / "vali.txt"],
            test_path=[fold / "test.txt"],
        )
    )
    assert list(by_name.splits) == list(text.splits) == list(SPLITS)
    for split in SPLITS:
        assert_same_lists(by_name.read(split, 46), text.read(split, 46))


def test_a_data_set_without_validation_split(config, files):
    layouts.write_archive(
        files / "istella-letor.tar.gz",
        {
            f"full/{split}.txt": layouts.letor_text(split, 220, comments=False)
            for split in ("train", "test")
        },
    )
    # So that queries of 'train' are held out for it.
    config = dataclasses.replace(config, dataset="istella/main")
    assert list(named_sources.source(config).splits) == ["train", "test"]


def test_distributions_reach_the_batches(config, files):
    layouts.write_covid(files)
    config = dataclasses.replace(config, dataset="covid_mlia/fold2")
    train = named_sources.source(config).read("train", None)
    _, labels = next(iter(data.BatchedLists(train, 1, num_grades=3).dataset()))
    np.testing.assert_array_equal(labels[0], train.label_distributions[:2])
    assert 0 < float(np.max(labels)) < 1  # Neither is one-hot.


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"dataset": "txet"}, ["`dataset='txet'`", "did you mean 'text'?"]),
        ({"dataset": "synthtic"}, ["did you mean 'synthetic'?"]),
        (
            {"dataset": "letr4/mq2008_fold1"},
            ["did you mean 'letor4/mq2008_fold1'", "elwc, synthetic, table, text"],
        ),
        ({"dataset": "mslr_web"}, ["mslr_web/10k_fold1..5"]),
        ({"train_path": ["x.txt"]}, ["`train_path`", "`dataset='text'`"]),
        ({"num_features": 45}, ["45 features", "letor4/mq2008_fold1'` has 46"]),
        ({"missing": "-1"}, ["`missing='-1'`", "missing values are 0"]),
    ],
)
def test_settings_that_do_not_fit(config, changes, parts):
    config = dataclasses.replace(config, **changes)
    with pytest.raises(ValueError) as error:
        named_sources.source(config)
    for part in parts:
        assert part in str(error.value)


def test_a_model_of_another_width(config, files):
    layouts.write_fold(files / "MQ2008" / "Fold1", 46)
    source = named_sources.TfdsSource(config)
    with pytest.raises(ValueError, match="expects 45 features(.*) has 46"):
        source.read("test", 45)


@pytest.mark.grid
def test_training_on_mq2008(tmp_path):
    layouts.write_fold(tmp_path / "files" / "MQ2008" / "Fold1", 46)
    done = run_command(
        "pipelines.train",
        "--dataset=letor4/mq2008_fold1",
        f"--manual_dir={tmp_path}/files",
        f"--data_dir={tmp_path}/data",
        f"--model_dir={tmp_path}/model",
        *SMALL,
    )
    assert done.stderr == ""  # It is no terminal: there is no progress bar.
    assert "train: 3 queries, 6 items of 46 features" in done.stdout
    report = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert report["queries"] == {"valid": 1, "test": 2}
    assert (tmp_path / "model" / "run.trec").read_text().split()[2].startswith("GX-")


def test_training_on_judgement_distributions(real_data, tmp_path):
    done = run_command(
        "pipelines.train",
        "--dataset=covid_mlia/fold1",
        f"--manual_dir={real_data}",
        f"--data_dir={tmp_path}/data",
        f"--model_dir={tmp_path}/model",
        "--loss=pointwise_kl_multinomial_loss",
        "--grade_values=0,0.75,1",
        "--relevance_threshold=0.1",
        *SMALL,
    )
    # Labels that are not grades: only distributions can have been trained on.
    assert "items of 24 features" in done.stdout and "labels 0 to 1" in done.stdout
    report = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert 0 < report["test"]["ndcg_10"] < 1
