"""Labels that look wrong, each constructed."""

import re

import numpy as np
import pytest

from tests.helpers import make_lists, needs_tfr
from tfr_ext import evaluation, losses
from tfr_ext.training.diagnosis import label_fit, label_warnings


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ([[1, 2, 3], [3, 1, 2]], "1 to its length: they look like ranks"),
        ([[2, 1, 0, -1], [3, 1, 0, 2]], "0 to its length - 1: they look like ranks"),
        ([[2, -3, 0], [1, 0, -1]], "1 label is negative but not -1"),
        ([[2, 1, 0], [-1, -1, -1]], "1 list has no item but padding"),
        ([[1, 1], [1, -1]], "All labels are 1"),
        ([[1, 1], [0, 0]], "No list has two different labels"),
        ([[1, np.nan], [0, np.inf]], "2 labels are NaN or infinite"),
        ([[31, 0], [1, 5]], "The highest label is 31: .* labels below 7"),
        ([[2.5, 0], [1, 2]], "Labels such as 2.5 are not integers"),
    ],
)
def test_each_is_told(labels, told):
    lines = label_warnings(labels)
    assert len(lines) == 1, lines
    assert re.search(told, lines[0]), lines


@pytest.mark.parametrize(
    "labels",
    [
        [[0, 1, 2], [2, 2, 0]],
        [[0, 1], [1, 0]],  # of two labels, both orders are common
        [[0, 1, 2, -1], [1, 0, -1, -1]],  # one list of 3 may be so by chance
        [[1, 2, 3], [3, 1, 2], [1, 1, 2]],
        [[1, 2, 4], [4, 1, 2]],
        [[0.5, 0.25], [1, 0]],
        np.zeros([0, 3]),
    ],
)
def test_ordinary_labels_are_not(labels):
    assert label_warnings(labels) == []


def test_the_highest_label_and_the_gain():
    (line,) = label_warnings([[2, 0, 3], [4, 0, 1]], max_label=2)
    assert "2 labels are above max_label=2: the highest is 4" in line
    assert label_warnings([[2, 0, 3], [4, 0, 1]], max_label=4) == []
    for labels in ([[31, 0], [1, 5]], [[2.5, 0], [1, 2]]):
        assert label_warnings(labels, gain="linear") == []


def test_another_shape_is_an_error():
    with pytest.raises(ValueError, match=r"\[batch, list\]. Received: \(3,\)"):
        label_warnings([0, 1, 2])


START = "Of the training labels: The highest label is 40: with the gain 2**label"


def told(key, metric_gain, **arguments):
    return label_fit.warnings(
        make_lists([3, 2], labels=[0, 40, 1, 2, 0]),
        ["ndcg_10"],
        evaluation.Convention(gain=metric_gain),
        losses.get(key, **arguments),
    )


@needs_tfr
def test_the_command_tells_them_by_the_gain_of_the_metric():
    (line,) = told("mean_squared_loss", "exponential")
    assert line.startswith(f"{START} - 1, ")
    assert line.endswith(" or so, or give `gain='linear'`.")
    assert told("mean_squared_loss", "linear") == []


def test_the_command_tells_them_by_the_gain_in_use():
    # The gain of the loss is exponential, whatever the metric's.
    (line,) = told("smoothi_loss", "linear")
    assert line.endswith(" or so, or give `params['gain']='linear'`.")
    (line,) = told("smoothi_loss", "exponential")
    assert line.endswith(" give `params['gain']='linear'` and `gain='linear'`.")
    (line,) = told("approx_metric_loss", "linear", gain="power")
    assert line.startswith(f"{START}, ")
    assert told("smoothi_loss", "linear", gain="linear") == []
    # ERR has no other gain.
    (line,) = told("smoothi_loss", "linear", metric="err", max_label=40.0)
    assert line.endswith(" 0 to 4 or so.")
