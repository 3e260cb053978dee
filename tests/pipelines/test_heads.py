"""Training models that end in a distribution over grades."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.commands import SMALL, bad, train
from tests.helpers import make_lists, small_fitter, with_distributions
from tests.training.graded import MULTINOMIAL, make_fitter
from tfr_ext import data, losses, models
from tfr_ext.serving import exporter
from tfr_ext.training import LossConfig, lists_datasets


def scores_of_export(directory):
    """By query and document, as `run.trec` has them."""
    lists = data.synthetic_lists(60, 12, shared_columns=True, seed=1)
    scorer = exporter.load_scorer(str(directory / "export"))
    scores = scorer.scores(lists, 16)
    names = [(q, f"{q}-{i + 1}") for q in lists.query_ids for i in range(12)]
    return dict(zip(names, scores))


def assert_export_gives_the_run(directory):
    served = scores_of_export(directory)
    rows = [line.split() for line in (directory / "run.trec").read_text().splitlines()]
    assert len(rows) == 12 * 12
    for query, _, document, _, score, _ in rows:
        expected = served[query, document]
        np.testing.assert_allclose(float(score), expected, rtol=1e-4, atol=1e-6)
        assert 0 <= expected <= 1


@pytest.mark.grid
def test_expected_grade_by_command(tmp_path):
    done = train(*SMALL, f"--model_dir={tmp_path}", "--head=expected_grade")
    assert "Exported" in done.stdout
    assert_export_gives_the_run(tmp_path)
    state = json.loads((tmp_path / "checkpoints" / "state.json").read_text())
    assert state["history"]["loss"][-1] < state["history"]["loss"][0]


def test_grades_by_command_and_its_metrics(tmp_path):
    train(*SMALL, f"--loss={MULTINOMIAL}", f"--model_dir={tmp_path}")
    assert_export_gives_the_run(tmp_path)
    state = json.loads((tmp_path / "checkpoints" / "state.json").read_text())
    report = json.loads((tmp_path / "metrics.json").read_text())
    # In training by the adapter, at the end by the scores: the same metric.
    np.testing.assert_allclose(
        state["history"]["val_ndcg_10"][state["best_epoch"] - 1],
        report["valid"]["ndcg_10"],
        rtol=1e-5,
    )


@pytest.mark.grid
@pytest.mark.parametrize("given", [False, True], ids=["one-hot", "distributions"])
def test_a_resumed_run_equals_the_undisturbed_one(tmp_path, given):
    lists = make_lists([4, 3, 5, 2] * 3, labels=np.arange(42) % 3)
    if given:
        lists = with_distributions(lists)
    whole = make_fitter(tmp_path / "whole", lists, 4).train_and_validate()
    make_fitter(tmp_path / "parts", lists, 2).train_and_validate()
    parts = make_fitter(tmp_path / "parts", lists, 4).train_and_validate()
    assert parts.history == whole.history and len(whole.history["loss"]) == 4
    features, _ = data.padded_batch(lists, np.arange(4))
    scores = whole.model.predict(features, verbose=0)
    assert scores.shape == features["mask"].shape
    np.testing.assert_array_equal(scores, parts.model.predict(features, verbose=0))


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--head=grades"], ["--head=grades is for losses", "--head=expected_grade"]),
        (["--grade_values=0,1"], ["--head=score"]),
        (["--head=expected_grade", "--grade_values=0,x"], ["--grade_values", "'x'"]),
        (["--head=expected_grade", "--grade_values=1,0"], ["--grade_values", "rising"]),
        (["--head=grade"], ["head", "expected_grade"]),
        (
            ["--label_sampling=run", "--max_label=0.5"],
            ["--max_label=0.5, but there is a label 4"],
        ),
    ],
    ids=lambda x: " ".join(x),
)
def test_flags_that_do_not_fit_are_told(tmp_path, flags, told):
    message = bad(tmp_path, *SMALL, *flags)
    for part in told:
        assert part in message


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--label_sampling=run"], "--label_sampling=run"),
        (["--loss_param=from_logits=False"], "from_logits=False"),
        (["--loss_param=grade_values=[0,1]", "--grade_values=0,2"], "differ"),
        (["--grade_values=0,0.5,1"], "integers from 0 to 2. There is a label"),
        (["--nosynthetic_integer_labels"], "must be integers from 0 to"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_flags_that_do_not_fit_grades_are_told(tmp_path, flags, told):
    done = train(
        *SMALL, f"--loss={MULTINOMIAL}", f"--model_dir={tmp_path}", *flags, check=False
    )
    assert done.returncode and "Traceback" not in done.stderr
    assert told in done.stderr


class MeanScore(tf.keras.metrics.Mean):
    """A diagnostic: the mean of the real items' scores."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        return super().update_state(y_pred[y_true >= 0])


class Diagnosed(losses.ListNetLoss):
    """A loss with a metric of itself."""

    def diagnostics(self):
        return [MeanScore("mean_score")]


@pytest.mark.first_case
@pytest.mark.parametrize("wanted", [True, False])
def test_diagnostics_join_the_history(monkeypatch, tmp_path, wanted):
    monkeypatch.setattr(
        losses, "_LOSSES", {**losses._LOSSES, "list_net_loss": Diagnosed}
    )
    lists = make_lists([4, 3, 5, 2])
    trained = small_fitter(
        models.model_builder(3, models.MLPScorer([4])),
        lists_datasets.ListsDatasets(lists, lists, 4, 0),
        tmp_path,
        2,
        LossConfig("list_net_loss", loss_diagnostics=wanted),
    ).train_and_validate()
    for name in ("mean_score", "val_mean_score"):
        assert (name in trained.history) == wanted
    assert losses.SmoothILoss().diagnostics() == []


@pytest.mark.grid
def test_the_flag_is_taken_by_losses_without_diagnostics(tmp_path):
    train(*SMALL, "--num_epochs=1", f"--model_dir={tmp_path}", "--loss_diagnostics")
