"""Objectives against the oracle, on random row-stochastic matrices and in the limit."""

import numpy as np
import pytest
import tensorflow as tf

from tests import oracles
from tests.oracles.metrics import cascade
from tfr_ext import objectives

METRICS = objectives.names(lambda cls: cls.READINGS)
GAINS = ("exponential", "power")


def random_case(rng, size, depth):
    rows = rng.dirichlet(np.full(size, 0.3), size=depth)
    return rows, rng.integers(0, 4, size).astype(float)


@pytest.mark.first_case("metric")
@pytest.mark.parametrize("topn", [2, None, 1, 5, 50])
@pytest.mark.parametrize(
    ("metric", "arguments"),
    [
        *((metric, {}) for metric in METRICS),
        *(
            (metric, {"relevance_threshold": 2.0})
            for metric in METRICS
            if hasattr(objectives.get(metric, max_label=3.0), "relevance_threshold")
        ),
        *(("ndcg", {"gain": gain}) for gain in ("linear", "power")),
        *(("ndcg", {"gain": gain, "expected": "gain"}) for gain in GAINS),
    ],
    ids=str,
)
def test_any_indicators_equal_the_oracle(metric, topn, arguments):
    rng = np.random.default_rng(0)
    objective = objectives.get(metric, topn=topn, max_label=3.0, **arguments)
    for size in (1, 2, 7, 17):
        depth = size if topn is None else min(topn, size)
        rows, labels = random_case(rng, size, depth)
        expected = oracles.metric(
            metric, rows, labels, topn=topn, max_label=3.0, **arguments
        )
        mask = tf.ones([1, size], tf.bool)
        actual = objective(tf.constant([rows]), tf.constant([labels]), mask)
        if expected is None:
            assert bool(objective.is_empty(tf.constant([labels])))
        else:
            np.testing.assert_allclose(actual[0], expected, rtol=1e-10)


def test_padding_in_objectives_is_invisible():
    rng = np.random.default_rng(1)
    powers = [("ndcg", {"gain": "power", "expected": e}) for e in ("gain", "relevance")]
    for metric, arguments in [*((metric, {}) for metric in METRICS), *powers]:
        rows, labels = random_case(rng, 4, 4)
        labels[0] = 3.0
        wide = np.zeros([6, 6])
        wide[:4, :4] = rows
        wide[4:] = 1 / 6  # what stands beyond the real items does not matter
        objective = objectives.get(metric, max_label=3.0, **arguments)
        narrow = objective(
            tf.constant([rows]), tf.constant([labels]), tf.ones([1, 4], tf.bool)
        )
        padded = objective(
            tf.constant([wide]),
            tf.constant([[*labels, 0.0, 0.0]]),
            tf.constant([[True] * 4 + [False] * 2]),
        )
        np.testing.assert_allclose(padded, narrow, rtol=1e-12)


def test_gradient_passes_through_an_item_that_is_surely_relevant():
    """MRR of ranks (p, 1, p'): its slope in p is 1 - 1/2, also where p is 1."""
    objective = objectives.get("mrr")
    for first in (0.0, 0.25, 1.0):
        ranked = tf.constant([[first, 1.0, 0.5]], tf.float64)
        labels, mask = tf.ones([1, 3], tf.float64), tf.ones([1, 3], tf.bool)
        with tf.GradientTape() as tape:
            tape.watch(ranked)
            value = objective.value(ranked, labels, mask)
        np.testing.assert_allclose(value[0], first + (1 - first) / 2)
        slopes = tape.gradient(value, ranked)[0]
        np.testing.assert_allclose(
            slopes, [0.5, (1 - first) * (1 / 2 - 0.5 / 3), 0.0], atol=1e-12
        )


@pytest.mark.parametrize("size", [1, 2, 3, 16, 17, 33])
def test_cascade_over_many_ranks_equals_the_oracle(size):
    stops = np.random.default_rng(size).uniform(size=size)
    labels, mask = tf.ones([1, size], tf.float64), tf.ones([1, size], tf.bool)
    objective = objectives.get("mrr")
    dynamic = tf.function(
        objective.value,
        input_signature=[
            tf.TensorSpec([None, None], tf.float64),
            tf.TensorSpec([None, None], tf.float64),
            tf.TensorSpec([None, None], tf.bool),
        ],
    )
    for value in (objective.value, dynamic):
        np.testing.assert_allclose(
            value(tf.constant([stops]), labels, mask)[0], cascade(stops)
        )


def test_exponential_gain_of_huge_grades_is_finite():
    labels = tf.constant([[1000.0, 999.0, 0.0]])
    value = objectives.get("ndcg").value(labels, labels, labels >= 0)
    np.testing.assert_allclose(value, 1.0)


def test_a_cut_off_of_arp_does_not_reward_missing_everything():
    labels = tf.constant([[1.0, 0.0, 0.0]])
    mask = tf.ones([1, 3], tf.bool)
    objective = objectives.get("arp", topn=1)
    found = objective.value(tf.constant([[1.0]]), labels, mask)
    missed = objective.value(tf.constant([[0.0]]), labels, mask)
    assert float(found[0]) == 1.0 and float(missed[0]) == 2.0


def test_unknown_names_are_told():
    with pytest.raises(ValueError, match="metric.*ndcg.*Received: 'bpref'"):
        objectives.get("bpref")
    with pytest.raises(ValueError, match="gain"):
        objectives.get("ndcg", gain="cubic")
