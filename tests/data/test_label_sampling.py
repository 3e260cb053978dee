"""Binomial labels: their distribution, and what it depends on."""

import json

import numpy as np
import pytest

from tests.commands import SMALL, bad, train
from tests.helpers import make_lists
from tfr_ext import data


@pytest.mark.parametrize("trials", [1, 8, 32])
def test_mean_and_variance_are_those_of_the_distribution(trials):
    sampled = data.BinomialLabels(trials, max_label=4.0, seed=3)
    count = 100_000
    for grade in (0, 1, 2, 3, 4):
        drawn = sampled(np.full(count, grade, np.float32), epoch=0)
        p = grade / 4
        # In trials: mean n p, variance n p (1 - p).
        successes = drawn.astype(np.float64) / 4 * trials
        np.testing.assert_allclose(successes, np.round(successes), atol=1e-5)
        variance = trials * p * (1 - p)
        error = 5 * np.sqrt(variance / count)
        np.testing.assert_allclose(successes.mean(), trials * p, atol=error + 1e-7)
        np.testing.assert_allclose(successes.var(), variance, rtol=0.03, atol=1e-12)
        if grade in (0, 4):
            assert (drawn == grade).all()


def test_draws_are_independent_of_each_other():
    drawn = data.BinomialLabels(32, 2.0, seed=1)(np.ones([2, 50_000]), 0)
    assert abs(np.corrcoef(drawn)[0, 1]) < 0.02


def test_the_draw_depends_on_seed_and_epoch_only():
    labels = np.float32([0, 1, 2, 1, 1] * 20)
    per_run = data.BinomialLabels(32, 2.0, seed=5)
    per_epoch = data.BinomialLabels(32, 2.0, seed=5, per_epoch=True)
    np.testing.assert_array_equal(per_run(labels, 0), per_run(labels, 3))
    np.testing.assert_array_equal(per_run(labels, 0), per_epoch(labels, 0))
    third = per_epoch(labels, 2)
    assert (third != per_epoch(labels, 1)).any()
    again = data.BinomialLabels(32, 2.0, seed=5, per_epoch=True)
    np.testing.assert_array_equal(again(labels, 2), third)
    other = data.BinomialLabels(32, 2.0, seed=6, per_epoch=True)
    assert (other(labels, 2) != third).any()


def test_the_highest_label_may_be_any_number():
    labels = np.float32([0.1, 0.0, 0.05])
    drawn = data.BinomialLabels(10, 0.1)(labels, 0)
    assert drawn[0] == labels[0] and drawn[1] == 0


@pytest.mark.parametrize("label", [2.5, np.nan, -1])
def test_labels_out_of_range_are_told(label):
    with pytest.raises(ValueError, match=f"`max_label` = 2.*{label}"):
        data.BinomialLabels(32, 2.0)(np.float32([0, label, 1]), 0)


@pytest.mark.parametrize(
    "arguments", [{"num_trials": 0}, {"max_label": 0.0}, {"max_label": np.inf}]
)
def test_wrong_arguments_are_named(arguments):
    with pytest.raises(ValueError, match=f"`{next(iter(arguments))}`"):
        data.BinomialLabels(**arguments)


def labels_by_item(dataset):
    """Labels of one pass, by the item's first feature."""
    found = {}
    for features, labels in dataset:
        first = features["float_features"].numpy()[..., 0]
        real = features["mask"].numpy()
        found.update(zip(first[real].tolist(), labels.numpy()[real].tolist()))
        assert (labels.numpy()[~real] == -1).all()
    return found


def test_batches_have_the_labels_of_their_pass():
    lists = make_lists([3, 1, 4, 2, 5, 2])
    transform = data.BinomialLabels(32, 3.0, seed=2, per_epoch=True)
    batched = data.BatchedLists(lists, 4, seed=0, label_transform=transform)
    dataset = batched.dataset()
    passes = [labels_by_item(dataset) for _ in range(3)]
    for number, found in enumerate(passes):
        expected = transform(lists.labels, number).tolist()
        assert found == dict(zip(lists.features[:, 0].tolist(), expected))
    # From the third on, as after a resume.
    resumed = data.BatchedLists(lists, 4, seed=0, label_transform=transform)
    resumed.epoch = 2
    assert labels_by_item(resumed.dataset()) == passes[2]


def test_epochs_of_so_many_steps_change_labels_between_passes():
    lists = make_lists([1] * 6, labels=[1] * 6)
    batched = data.BatchedLists(
        lists, 2, seed=0, label_transform=lambda labels, epoch: labels + epoch
    )
    dataset = batched.dataset(steps=2)
    seen = [int(labels[0, 0]) for _ in range(3) for _, labels in dataset]
    assert seen == [1, 1, 1, 2, 2, 2]


def test_labels_are_checked_before_training():
    with pytest.raises(ValueError, match="label 3"):
        data.BatchedLists(
            make_lists([3], [0, 3, 1]), 1, label_transform=data.BinomialLabels(8, 2.0)
        )


def results(directory):
    state = json.loads((directory / "checkpoints" / "state.json").read_text())
    return state["history"], (directory / "metrics.json").read_text()


@pytest.mark.grid
def test_the_flags(tmp_path):
    flags = (*SMALL, "--num_epochs=2", "--label_sampling=epoch")
    train(*flags, f"--model_dir={tmp_path}/a")
    train(*flags, f"--model_dir={tmp_path}/plain", "--label_sampling=none")
    assert results(tmp_path / "a")[0]["loss"] != results(tmp_path / "plain")[0]["loss"]
    told = bad(tmp_path, *SMALL, "--label_sampling=run", "--max_label=3")
    assert "--max_label=3, but there is a label 4" in told
