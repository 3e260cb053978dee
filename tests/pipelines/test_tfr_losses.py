"""TensorFlow Ranking's losses and lambda weights in the training command."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.commands import SMALL, bad, train
from tests.helpers import make_lists, small_fitter
from tfr_ext import losses, models
from tfr_ext.losses.tfr import classes
from tfr_ext.training import DataConfig, LossConfig, TrainingConfig, lists_datasets
from tfr_ext.training.run_steps import RunInputs

pytestmark = pytest.mark.stack_b

NDCG = (
    *SMALL,
    "--num_epochs=2",
    "--loss_param=",
    "--loss=pairwise_logistic_loss",
    "--lambda_weight=ndcg",
    "--lambda_weight_param=topn=10",
    "--nodraw_curves",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    return directory, train(*NDCG, f"--model_dir={directory}")


def test_a_lambda_weight_by_flag(run):
    directory, done = run
    assert "pairwise_logistic_loss puts items of equal scores" in done.stdout
    assert (directory / "export" / "1" / "saved_model.pb").exists()
    flag_file = (directory / "flags.cfg").read_text().splitlines()
    assert "--lambda_weight=ndcg" in flag_file
    assert "--lambda_weight_param=topn=10" in flag_file


@pytest.mark.grid
def test_the_flag_file_reproduces(run, tmp_path):
    directory, _ = run
    train(f"--flagfile={directory}/flags.cfg", f"--model_dir={tmp_path}")
    assert (tmp_path / "run.trec").read_text() == (directory / "run.trec").read_text()


@pytest.mark.grid
def test_an_empty_flag_drops_what_a_flag_file_has(run, tmp_path):
    directory, _ = run
    train(
        f"--flagfile={directory}/flags.cfg",
        f"--model_dir={tmp_path}",
        "--loss=softmax_loss",
        "--lambda_weight=",
        "--num_epochs=1",
    )
    assert (tmp_path / "metrics.json").exists()


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            ["--loss=softmax_loss", "--lambda_weight=ndgc"],
            ["--lambda_weight=ndgc", "did you mean 'ndcg'"],
        ),
        (
            ["--loss=softmax_loss", "--lambda_weight=dcg", "--lambda_weight_param=n=1"],
            ["--lambda_weight_param=n=1", "no parameter 'n'", "= drops those before"],
        ),
        (
            ["--lambda_weight=ndcg"],
            ["'smoothi_loss' has no", "Lambda weights are for", "(--lambda_weight= "],
        ),
        (["--lambda_weight_param=topn"], ["--lambda_weight_param", "name=value"]),
        (["--loss_param=lambda_weight=ndcg"], ["--lambda_weight and"]),
        (
            ["--loss_param=", "--loss=ordinal_loss", "--loss_param=ordinal_size=3"],
            ["--loss=ordinal_loss", "no --head"],
        ),
    ],
    ids=lambda x: x[0] if isinstance(x, list) else "",
)
def test_bad_flags_are_told(tmp_path, flags, told):
    message = bad(tmp_path, *flags)
    for part in told:
        assert part in message


def fit(directory, key, num_epochs=2, **params):
    tf.keras.utils.set_random_seed(0)
    lists = make_lists([5, 3, 8, 2] * 3, num_features=4)
    return (
        small_fitter(
            models.model_builder(4, models.MLPScorer(hidden_sizes=[16], seed=0)),
            lists_datasets.ListsDatasets(lists, lists, batch_size=8, seed=0),
            directory,
            num_epochs,
            LossConfig(key),
            loss_params=params,
        )
        .train_and_validate()
        .history
    )


@pytest.mark.grid
@pytest.mark.parametrize(
    "key", [key for key in classes.LOSSES if key != "ordinal_loss"]
)
def test_each_key_trains_and_tells_what_remains(tmp_path, key, capsys):
    assert np.isfinite(fit(tmp_path, key)["loss"]).all()
    source = DataConfig(synthetic_num_queries=10, synthetic_list_size=4)
    inputs = RunInputs(TrainingConfig(data=source, loss=LossConfig(key)))
    inputs.load()
    assert inputs.loss_params is inputs.loss_params
    told = capsys.readouterr().out.splitlines()
    caveats = losses.get(key).caveats()
    assert [line for line in told if line.startswith(f"Warning: {key} ")] == [
        f"Warning: {key} {caveat}." for caveat in caveats
    ]


@pytest.mark.grid
def test_a_resumed_run_of_a_lambda_weight_is_that_of_an_undisturbed_one(tmp_path):
    weight = {"lambda_weight": "ndcg", "lambda_weight_params": {"topn": 10}}
    whole = fit(tmp_path / "whole", "pairwise_logistic_loss", **weight)
    fit(tmp_path / "parts", "pairwise_logistic_loss", 1, **weight)
    resumed = fit(tmp_path / "parts", "pairwise_logistic_loss", **weight)
    assert json.dumps(resumed) == json.dumps(whole)
