"""Training and evaluation from Python: what the commands do, and its results."""

import dataclasses
import json
import re

import numpy as np
import pytest
import tensorflow as tf

from tests.commands import run_command
from tests.helpers import assert_within, metric_ranges
from tfr_ext import data
from tfr_ext.serving import exporter
from tfr_ext.sources import data_splits
from tfr_ext.training import (
    DataConfig,
    EvaluationConfig,
    LossConfig,
    MetricsConfig,
    ModelConfig,
    TrainingConfig,
    evaluate,
    train,
)

CONFIG = TrainingConfig(
    data=DataConfig(synthetic_num_queries=30, synthetic_list_size=6),
    model=ModelConfig(hidden_sizes=(4,)),
    loss=LossConfig("list_net_loss"),  # Its graph is built soon.
    evaluation=MetricsConfig(metrics=("ndcg_10", "map")),
    num_epochs=2,
    batch_size=8,
    verbose="silent",
    draw_curves=False,
)
WITHOUT_EXPORT = dataclasses.replace(CONFIG, export_model=False)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("training")


@pytest.fixture(scope="module")
def result(directory):
    return train(dataclasses.replace(CONFIG, model_dir=directory / "run"))


def lists():
    return data.synthetic_lists(30, 6, shared_columns=True, seed=1)


@pytest.mark.two_graphs
def test_the_result_is_what_the_files_have(result, directory):
    report = json.loads((directory / "run" / "metrics.json").read_text())
    assert result.metrics == {split: report[split] for split in ("valid", "test")}
    assert result.best_epoch == report["best_epoch"]
    assert len(result.history["val_ndcg_10"]) == 2
    assert {"metrics.json", "flags.cfg", "checkpoints", "export"} <= set(result.paths)
    scorer = exporter.load_scorer(result.paths["export"])
    np.testing.assert_allclose(
        scorer.scores(lists(), 8),
        data.score_lists(result.model, lists(), 8),
        rtol=1e-5,
        atol=1e-6,
    )


def test_a_finished_run_is_found_with_its_model(result, directory, capsys):
    found = train(dataclasses.replace(CONFIG, model_dir=directory / "run"))
    assert "finished: there is nothing to do" in capsys.readouterr().out
    for name in ("metrics", "history", "best_epoch", "paths"):
        assert getattr(found, name) == getattr(result, name)
    np.testing.assert_array_equal(
        data.score_lists(found.model, lists(), 8),
        data.score_lists(result.model, lists(), 8),
    )


def test_the_command_repeats_what_python_trained(result, directory):
    flags = f"--flagfile={directory}/run/flags.cfg"
    done = run_command("pipelines.train", flags)
    assert "is finished: there is nothing to do." in done.stdout
    again = f"--model_dir={directory}/again"
    run_command("pipelines.train", flags, again, "--noexport_model")
    for name in ("metrics.json", "run.trec", "history.tsv"):
        texts = [(directory / run / name).read_text() for run in ("run", "again")]
        assert texts[0] == texts[1]


def test_other_settings_are_refused_by_name(result, directory):
    other = dataclasses.replace(CONFIG, batch_size=4, model_dir=directory / "run")
    with pytest.raises(ValueError) as error:
        train(other)
    for text in ("`batch_size=8` then, `batch_size=4` now", "`overwrite=True`"):
        assert text in str(error.value)


def test_more_steps_at_a_time_give_the_same_weights(result, directory):
    config = dataclasses.replace(
        WITHOUT_EXPORT, steps_per_execution=2, model_dir=directory / "steps"
    )
    np.testing.assert_allclose(
        train(config).metrics["test"]["ndcg_10"],
        result.metrics["test"]["ndcg_10"],
        rtol=1e-5,
    )
    assert "--steps_per_execution=2\n" in (directory / "steps/flags.cfg").read_text()


def test_the_policy_of_the_process_is_its_own(tmp_path, result):
    half = dataclasses.replace(WITHOUT_EXPORT, mixed_precision="bfloat16", num_epochs=1)
    half = dataclasses.replace(half, model_dir=str(tmp_path / "half"))
    trained, found = (
        {layer.dtype_policy.name for layer in train(half).model.layers} for _ in "12"
    )
    assert trained == found and "mixed_bfloat16" in found
    assert tf.keras.mixed_precision.global_policy().name == "float32"
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        whole = dataclasses.replace(WITHOUT_EXPORT, model_dir=str(tmp_path / "whole"))
        whole = train(whole)
        assert tf.keras.mixed_precision.global_policy().name == "mixed_bfloat16"
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    assert whole.history == result.history


def test_without_a_directory():
    with pytest.raises(ValueError, match="`model_dir` must be given"):
        train(CONFIG)


@pytest.mark.two_graphs
def test_evaluation_gives_what_training_measured(result, directory):
    config = EvaluationConfig(
        data=CONFIG.data,
        metrics=CONFIG.evaluation,
        export=result.paths["export"],
        output_dir=directory / "evaluated",
    )
    found = evaluate(config)
    lists = data_splits.load(CONFIG.data).test
    scores = data.score_lists(result.model, lists, CONFIG.batch_size)
    ranges = metric_ranges(lists, scores, [*found.metrics], found.convention)
    assert_within(found.metrics, ranges)
    assert_within(result.metrics["test"], ranges)
    for name in found.metrics:
        assert len(found.per_query[name]) == len(found.query_ids) == 6
    report = json.loads((directory / "evaluated" / "metrics.json").read_text())
    assert report["test"] == found.metrics and set(found.paths) >= {"metrics.json"}
    again = run_command(
        "pipelines.evaluate", f"--flagfile={directory}/evaluated/flags.cfg"
    )
    assert f"{found.metrics['map']:.4f}" in again.stdout


class TestListsInMemory:
    """`train(config, splits)`."""

    @pytest.fixture(scope="class")
    def splits(self):
        return data_splits.load(CONFIG.data)

    def test_they_give_what_reading_them_gives(self, splits, result, directory):
        config = dataclasses.replace(WITHOUT_EXPORT, model_dir=directory / "memory")
        found = train(config, splits)
        assert found.metrics == result.metrics and found.history == result.history
        assert train(config, splits).metrics == result.metrics
        first = (directory / "memory/flags.cfg").read_text().split("\n")[0]
        assert first.endswith("train(settings, splits).")

    def test_a_run_goes_on_with_the_same_lists_only(self, splits, result, directory):
        begun = dataclasses.replace(WITHOUT_EXPORT, model_dir=directory / "begun")
        train(begun, splits)
        (directory / "begun/metrics.json").unlink()
        other = dataclasses.replace(splits.valid, labels=splits.valid.labels[::-1])
        with pytest.raises(ValueError, match="other data"):
            train(begun, dataclasses.replace(splits, valid=other))
        assert train(begun, splits).metrics == result.metrics

    def test_settings_of_labels_and_lists_hold_for_them(self, splits, directory):
        changed = DataConfig(
            synthetic_num_queries=30,
            synthetic_list_size=6,
            binarize_labels=2.0,
            list_size=4,
        )
        config = dataclasses.replace(WITHOUT_EXPORT, data=changed)
        results = [
            train(dataclasses.replace(config, model_dir=directory / name), *given)
            for name, *given in (("cut", splits), ("cut_too",))
        ]
        assert results[0].history == results[1].history

    @pytest.mark.parametrize(
        ("settings", "told"),
        [
            ({"dataset": "text", "train_path": ("a",)}, "`dataset='text'` has no"),
            ({"train_path": ("a",)}, "`train_path=('a',)` has no effect"),
            ({"stream": True}, "`stream=True` has no effect"),
            ({"num_features": 7}, "`splits.train` must have 7 features"),
        ],
    )
    def test_other_lists_are_refused(self, splits, directory, settings, told):
        config = dataclasses.replace(
            CONFIG, data=DataConfig(**settings), model_dir=directory / "refused"
        )
        with pytest.raises(ValueError, match=re.escape(told)):
            train(config, splits)
