"""Labels made of others, and what is told of labels that do not fit."""

import dataclasses

import numpy as np
import pytest

from tests.helpers import make_lists, needs_tfr
from tfr_ext import data, evaluation, losses
from tfr_ext.core import grades
from tfr_ext.sources import wanted_labels as pipeline_labels
from tfr_ext.training import heads
from tfr_ext.training.diagnosis import label_fit


def with_shares(shares):
    lists = make_lists([len(shares)], labels=np.zeros(len(shares)))
    return dataclasses.replace(lists, label_distributions=np.float32(shares))


def test_expected_labels_are_those_of_the_paper():
    """Weights -1, 0.5, 1 and their mean rescaled from -1..1 to 0..1, as it says."""
    shares = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    lists = data.expected_labels(with_shares(shares), [-1.0, 0.5, 1.0])
    aggregated = -1.0 * shares[:, 0] + 0.5 * shares[:, 1] + 1.0 * shares[:, 2]
    np.testing.assert_allclose(lists.labels, (aggregated + 1) / 2, atol=1e-6)
    assert lists.labels.dtype == np.float32
    np.testing.assert_array_equal(lists.label_distributions, np.float32(shares))


def test_one_hot_distributions_get_the_rescaled_weights():
    lists = data.expected_labels(with_shares(np.eye(4)), [2, 3, 4, 10])
    np.testing.assert_array_equal(lists.labels, np.float32([0, 1 / 8, 2 / 8, 1]))
    assert grades.rescaled([2, 3, 4, 10]) == [0, 1 / 8, 2 / 8, 1]


def test_shares_that_do_not_quite_sum_to_one_stay_in_the_range():
    lists = data.expected_labels(with_shares([[0, 1.0005], [0.9995, 0]]), [0, 1])
    assert lists.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ([0, 1], "one number for each of the 3 grades. Received: "),
        ([0, 1, 1], "rising order"),
        ([1], "at least two"),
        ([0, np.nan, 1], "finite"),
    ],
)
def test_wrong_weights_are_told(weights, told):
    with pytest.raises(ValueError, match=told):
        data.expected_labels(with_shares(np.eye(3)), weights)


def test_labels_without_distributions_are_told():
    with pytest.raises(ValueError, match="no label distributions"):
        data.expected_labels(make_lists([3]), [0, 1])


def test_binary_labels():
    lists = make_lists([5], labels=[0, 1, 2, 0.1, 3])
    assert data.binary_labels(lists, 2).labels.tolist() == [0, 0, 1, 0, 1]
    # 0.1 as a float32 is another number than as a float64.
    assert data.binary_labels(lists, 0.1).labels.tolist() == [0, 1, 1, 1, 1]
    assert lists.labels[2] == 2
    assert data.binary_labels(with_shares(np.eye(3)), 1).label_distributions is None
    for threshold in (0, -1, np.nan):
        with pytest.raises(ValueError, match="`threshold`"):
            data.binary_labels(lists, threshold)


def test_expected_labels_come_before_the_threshold():
    wanted = pipeline_labels.Labels(weights=[-1, 0.5, 1], threshold=0.75)
    lists = wanted(with_shares([[0, 1, 0], [0.1, 0.9, 0], [0, 0, 1]]))
    assert lists.labels.tolist() == [1, 0, 1]
    assert wanted.highest(None, [lists]) == 1
    # No label distributions are left whose grades could stand for labels.
    assert wanted.values is None is lists.label_distributions
    assert "rescaled to 0 to 1; then 1 from 0.75 up" in wanted.describe()


def test_the_highest_label_is_given_or_known_or_found():
    lists = [make_lists([3], labels=labels) for labels in ([0, 1, 0], [0, 0, 2])]
    as_given = pipeline_labels.AS_GIVEN
    assert as_given.highest(None, lists) == 2
    assert as_given.highest(4.0, lists) == 4
    with pytest.raises(ValueError, match="`max_label=1`, .* label 2"):
        as_given.highest(1.0, lists)
    tenth = [make_lists([2], labels=[0, 0.1])]
    assert as_given.highest(0.1, tenth) == 0.1
    assert as_given.highest(None, [make_lists([2], labels=[0, 0])]) == 1
    assert pipeline_labels.Labels(None, 3.0).highest(None, [lists[0]]) == 1


LABELS_TO_2 = [make_lists([3], labels=[0, 1, 2])]
HAVE_MAX_LABEL = [k for k in losses.keys() if "max_label" in losses.parameters(k)]


@pytest.mark.parametrize("key", HAVE_MAX_LABEL)
def test_a_loss_is_told_the_highest_label_where_it_depends_on_it(key):
    if "metric" in losses.parameters(key):
        assert not label_fit.needs_max_label(key, {"metric": "ndcg"})
        assert label_fit.needs_max_label(key, {"metric": "err"})
        params = {"metric": "err"}
    else:
        assert label_fit.needs_max_label(key, {})
        params = {}
    given = {**params, "max_label": 2.0}
    assert not label_fit.needs_max_label(key, given)
    label_fit.check_max_label(key, given, LABELS_TO_2)
    with pytest.raises(ValueError, match=f"=1.5`, .* label 2, which {key}"):
        label_fit.check_max_label(key, {**params, "max_label": 1.5}, LABELS_TO_2)


@needs_tfr
def test_there_are_losses_with_a_highest_label():
    assert len(HAVE_MAX_LABEL) == 4
    assert not label_fit.needs_max_label("softmax_loss", {})


def told(labels, key, names=("ndcg_10",), threshold=1.0, lambda_threshold=None, **kw):
    return label_fit.warnings(
        make_lists([len(labels)], labels=labels),
        names,
        evaluation.Convention(relevance_threshold=threshold),
        losses.get(key, **kw),
        lambda_threshold,
    )


@needs_tfr
def test_labels_below_a_threshold_are_told():
    low = [0, 0.25, 0.75]
    assert told(low, "smoothi_loss") == told(low, "mean_squared_loss") == []
    (line,) = told(low, "smoothi_loss", ["ndcg_10", "map", "mrr_5", "map"])
    assert "`relevance_threshold=1`: the highest is 0.75" in line
    assert "nothing is relevant to map, mrr_5" in line
    assert told(low, "smoothi_loss", ["map"], threshold=0.75) == []
    for key, kw in (
        ("smoothi_loss", {"metric": "map"}),
        ("approx_metric_loss", {"metric": "precision", "topn": 5}),
        ("list_ap_loss", {}),
    ):
        (line,) = told(low, key, **kw)
        assert "relevance_threshold of the loss, 1: the highest is 0.75" in line
        assert told(low, key, relevance_threshold=0.5, **kw) == []
    (line,) = told(low, "pairwise_logistic_loss", lambda_threshold=1.0)
    assert "lambda weight, 1: the highest is 0.75" in line


def test_labels_below_the_thresholds_of_kl_losses_are_told():
    for key in ("pointwise_kl_binomial_loss", "listwise_kl_gaussian_loss"):
        assert told([0, 1, 0], key, max_label=4.0) == []
        (line,) = told([0, 1, 0], key, max_label=4.0, relevance_threshold=0.5)
        assert "0.5 of max_label=4: the highest is 1" in line
        # Without weights the threshold is for nothing.
        assert "the highest is 1" in told([0, 1, 0], key, max_label=100.0)[0]
        assert told([0, 1, 0], key, max_label=100.0, class_balance=None) == []
    multinomial = "pointwise_kl_multinomial_loss"
    assert told([0, 1, 0], multinomial, class_balance=None) == []
    values = {"grade_values": [0.0, 0.5, 1.0]}
    assert told([0, 1, 0], multinomial, **values) == []
    (line,) = told([0, 1, 0], multinomial, relevance_threshold=0.75, **values)
    assert "0.75: the highest is 0.5" in line


def test_a_loss_gets_the_values_of_grades_only_where_it_has_a_use_for_them():
    head, key = heads.Head("grades", [0.0, 0.5, 1.0]), "pointwise_kl_multinomial_loss"
    for balance in ("batch", "list"):
        params = head.loss_params(key, {"class_balance": balance})
        assert losses.get(key, **params).get_config()["grade_values"] == head.values
    params = head.loss_params(key, {"class_balance": None})
    assert losses.get(key, **params).get_config()["grade_values"] is None


@pytest.mark.parametrize("label", [0, 2])
def test_equal_labels_are_told(label):
    (line,) = told([label] * 3, "smoothi_loss", ["map"])
    assert f"Of the training labels: All labels are {label}" in line
