"""Distributions over grades: the scorer's output, and what makes one score of it."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import make_lists
from tfr_ext import data, losses, metrics, models
from tfr_ext.models import keras_file
from tfr_ext.serving import exporter

VALUES = [0.0, 0.75, 1.0]


def build(expected=False, **kwargs):
    tf.keras.utils.set_random_seed(0)
    scorer = models.MLPScorer([5], num_grades=3, **kwargs)
    if expected:
        scorer = models.ExpectedGradeScorer(scorer, VALUES)
    return models.model_builder(3, scorer).build()


def batch():
    return data.padded_batch(make_lists([4, 2, 1], seed=3), np.arange(3))


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("compact", [True, False])
def test_logits_stand_where_their_items_stand(compact):
    features, _ = batch()
    model = build(compact=compact)
    assert model.output_shape == (None, None, 3)
    logits = model.predict(features, verbose=0)
    assert logits.shape == (3, 4, 3)
    np.testing.assert_allclose(logits[~features["mask"]], np.log(1e-10), rtol=1e-6)
    for row, (x, mask) in enumerate(zip(features["float_features"], features["mask"])):
        for item in np.flatnonzero(mask):
            alone = {
                "float_features": x[np.newaxis, item : item + 1],
                "mask": np.ones([1, 1], bool),
            }
            np.testing.assert_allclose(
                model.predict(alone, verbose=0)[0, 0], logits[row, item], rtol=1e-5
            )


@pytest.mark.parametrize("compact", [True, False])
def test_expected_grades_by_hand_and_padding_last(compact):
    features, _ = batch()
    logits = build(compact=compact).predict(features, verbose=0)
    scores = build(expected=True, compact=compact).predict(features, verbose=0)
    mask = features["mask"]
    np.testing.assert_allclose(
        scores[mask], (softmax(logits) @ VALUES)[mask], rtol=1e-5
    )
    assert (scores[~mask] < 0).all()


def test_a_model_of_grades_gets_one_score_and_is_served_with_it(tmp_path):
    lists = make_lists([4, 2, 1], seed=3)
    features, _ = batch()
    model = build()
    served = models.with_expected_grade(model, VALUES)
    expected = (softmax(model.predict(features, verbose=0)) @ VALUES)[features["mask"]]
    np.testing.assert_allclose(
        served.predict(features, verbose=0)[features["mask"]], expected, rtol=1e-5
    )
    scorer = exporter.load_scorer(exporter.export_ranker(served, str(tmp_path)))
    np.testing.assert_allclose(scorer.scores(lists, 3), expected, rtol=1e-5)


def test_any_loss_trains_on_expected_grades_and_the_model_is_saved(tmp_path):
    features, labels = batch()
    model = build(expected=True)
    model.compile("adam", losses.SmoothILoss())
    before = model.evaluate(features, labels, verbose=0)
    model.fit(features, labels, epochs=30, verbose=0)
    assert model.evaluate(features, labels, verbose=0) < before
    model.save(str(tmp_path / "model.keras"))
    loaded = keras_file.load(str(tmp_path / "model.keras"))
    np.testing.assert_array_equal(
        loaded.predict(features, verbose=0), model.predict(features, verbose=0)
    )


def test_the_layer():
    layer = models.ExpectedGrade(VALUES)
    again = models.ExpectedGrade.from_config(layer.get_config())
    logits = np.random.default_rng(0).normal(size=[2, 4, 3]).astype(np.float32)
    expected = softmax(logits) @ VALUES
    np.testing.assert_allclose(again(logits), expected, rtol=1e-6)
    half = layer(tf.cast(logits, tf.bfloat16))
    np.testing.assert_allclose(tf.cast(half, tf.float32), expected, rtol=2e-2)
    assert np.isfinite(layer(logits * 1e38)).all()
    with pytest.raises(ValueError, match="3 grades.*4"):
        layer(tf.zeros([1, 2, 4]))


@pytest.mark.parametrize("values", [[], [1.0], [0.0, 0.0], [1.0, 0.5], [0, np.inf]])
def test_wrong_values_are_told(values):
    for make in (
        models.ExpectedGrade,
        lambda v: models.ExpectedGradeScorer(models.MLPScorer(num_grades=2), v),
        metrics.ExpectedGradeMetric,
    ):
        with pytest.raises(ValueError, match="`grade_values`"):
            make(values)
    with pytest.raises(ValueError, match="`num_grades`"):
        models.MLPScorer(num_grades=1)


def test_the_metric_of_one_hot_labels_is_that_of_the_grades():
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 3, [6, 5])
    logits = rng.normal(size=[6, 5, 3]).astype(np.float32)
    one_hot = np.where(labels[..., np.newaxis] < 0, -1, np.eye(3)[labels])
    weights = rng.uniform(size=[6, 5])
    arguments = {"metric": "ndcg", "topn": 3}
    metric = metrics.ExpectedGradeMetric(VALUES, **arguments)
    again = metrics.ExpectedGradeMetric.from_config(metric.get_config())
    plain = metrics.RankingMetric(**arguments)
    np.testing.assert_allclose(
        again(one_hot, logits, weights),
        plain(labels, softmax(logits) @ VALUES, weights),
        rtol=1e-6,
    )
    assert metric.name == "ndcg_3"
    with pytest.raises(ValueError, match=r"\[batch, list, grades\].*\(6, 5\)"):
        metric(labels, logits)
