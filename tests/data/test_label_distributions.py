"""Labels as distributions over grades: one-hot, or given with the lists."""

import dataclasses

import numpy as np
import pytest

from tests.helpers import make_lists, with_distributions
from tfr_ext import data


def test_batches_of_one_hot_labels():
    lists = make_lists([3, 1, 2], labels=[0, 1, 2, 2, 1, 0])
    ((features, labels),) = data.BatchedLists(lists, 3, num_grades=4).dataset()
    labels, mask = labels.numpy(), features["mask"].numpy()
    assert labels.shape == (3, 3, 4)
    np.testing.assert_array_equal(
        labels[mask], np.eye(4)[lists.labels.astype(np.int64)]
    )
    assert (labels[~mask] == -1).all()


def test_distributions_of_the_lists_are_kept_by_everything():
    lists = with_distributions(make_lists([3, 1, 5, 2], labels=[0] * 11))
    batched = data.BatchedLists(lists, 4, num_grades=3)
    ((features, labels),) = batched.dataset()
    mask = features["mask"].numpy()
    np.testing.assert_array_equal(labels.numpy()[mask], lists.label_distributions)
    part = lists.select([2, 0])
    np.testing.assert_array_equal(
        part.label_distributions,
        lists.label_distributions[[4, 5, 6, 7, 8, 0, 1, 2]],
    )
    cut, _ = data.truncate(lists, 2, seed=1)
    for x, distribution in zip(cut.features, cut.label_distributions):
        item = int(np.flatnonzero((lists.features == x).all(axis=1))[0])
        np.testing.assert_array_equal(distribution, lists.label_distributions[item])
    # Without `num_grades` labels are plain.
    ((_, labels),) = data.BatchedLists(lists, 4).dataset()
    assert labels.shape == (4, 5)


@pytest.mark.parametrize("label", [1.5, 3.0])
def test_labels_that_are_not_grades_are_told(label):
    lists = make_lists([3], labels=[0, label, 2])
    with pytest.raises(ValueError, match=f"integers from 0 to 2.*label {label:g}"):
        data.BatchedLists(lists, 1, num_grades=3)


def test_another_number_of_grades_is_told():
    lists = with_distributions(make_lists([3]))
    with pytest.raises(ValueError, match="4 grades.*over 3"):
        data.BatchedLists(lists, 1, num_grades=4)


def test_sampled_labels_are_not_grades():
    with pytest.raises(ValueError, match="label_transform"):
        data.BatchedLists(
            make_lists([3], [0, 1, 2]),
            1,
            label_transform=data.BinomialLabels(8, 2.0),
            num_grades=3,
        )


@pytest.mark.parametrize(
    ("distributions", "told"),
    [
        (np.ones([2, 3]) / 3, r"\[3, num_grades\].*\(2, 3\)"),
        (np.ones([3, 1]), "at least 2 grades"),
        (np.ones([3, 2]), "sum to 1. Item 0"),
        (np.array([[0.5, 0.5], [1.5, -0.5], [1, 0]]), "Item 1"),
        (np.array([[0.5, 0.5], [1, 0], [np.nan, 1]]), "Item 2"),
    ],
)
def test_what_is_no_distribution_is_told(distributions, told):
    with pytest.raises(ValueError, match=told):
        dataclasses.replace(make_lists([2, 1]), label_distributions=distributions)
