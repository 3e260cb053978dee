"""The multinomial KL loss: labels and scores of grades."""

import numpy as np
import pytest
import tensorflow as tf

from tests.losses.kl.batches import check, random_batch
from tests.oracles import kl as oracles_kl
from tfr_ext import losses


@pytest.mark.parametrize("class_balance", ["batch", "list", None])
@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize(
    ("grade_values", "relevance_threshold"), [(None, 0.1), ([0.0, 0.75, 1.0], 0.5)]
)
def test_multinomial_equals_the_oracle(
    class_balance, from_logits, grade_values, relevance_threshold
):
    arguments = {
        "class_balance": class_balance,
        "from_logits": from_logits,
        "grade_values": grade_values if class_balance else None,
        "relevance_threshold": relevance_threshold if class_balance else 0.1,
    }
    check(
        losses.PointwiseKLMultinomialLoss(reduction="sum", **arguments),
        lambda s, y: oracles_kl.pointwise_multinomial(s, y, **arguments),
        *random_batch(2, from_logits=from_logits, grades=3),
    )


def test_grade_values_decide_relevance():
    one_hot = tf.one_hot([[0, 1, 1, 2]], 3)
    scores = tf.zeros([1, 4, 3])

    def weights(**arguments):
        build = losses.PointwiseKLMultinomialLoss
        plain = build(reduction="none", class_balance=None)(one_hot, scores)
        return (build(reduction="none", **arguments)(one_hot, scores) / plain).numpy()

    only_best = [[2 / 3, 2 / 3, 2 / 3, 2]]
    all_but_worst = [[2, 2 / 3, 2 / 3, 2 / 3]]
    np.testing.assert_allclose(weights(relevance_threshold=0.6), only_best, rtol=1e-5)
    np.testing.assert_allclose(
        weights(relevance_threshold=0.6, grade_values=[0, 0.75, 1]),
        all_but_worst,
        rtol=1e-5,
    )


def test_multinomial_of_two_grades_is_binomial_of_one_trial():
    rng = np.random.default_rng(0)
    p, s = rng.uniform(size=[2, 5]), rng.normal(size=[2, 5])
    multinomial = losses.PointwiseKLMultinomialLoss(class_balance=None)
    binomial = losses.PointwiseKLBinomialLoss(num_trials=1, class_balance=None)
    np.testing.assert_allclose(
        multinomial(np.stack([1 - p, p], 2), np.stack([np.zeros_like(s), s], 2)),
        binomial(p, s),
        rtol=1e-6,
    )


def test_one_hot_integers_are_distributions():
    labels = np.array([[[0, 1, 0], [1, 0, 0]]])
    scores = tf.random.stateless_normal([1, 2, 3], [1, 2])
    loss = losses.PointwiseKLMultinomialLoss()
    expected = loss(labels.astype(np.float32), scores)
    for dtype in (np.int32, np.int64, np.uint8):
        np.testing.assert_array_equal(loss(labels.astype(dtype), scores), expected)
    q = tf.nn.softmax(scores)[0].numpy()
    p = np.clip(labels[0], 1e-6, 1 - 1e-6)
    by_hand = ((p - q) * (np.log(p) - np.log(q))).sum(axis=1).mean()
    np.testing.assert_allclose(expected, by_hand, rtol=1e-5)


def test_numbers_of_grades_that_do_not_fit_are_told():
    labels, scores = tf.one_hot([[0, 1]], 3), tf.zeros([1, 2, 3])
    loss = losses.PointwiseKLMultinomialLoss(grade_values=[0.0, 1.0])
    with pytest.raises(
        ValueError, match=r"`grade_values` has 2.*3 grades.*\(1, 2, 3\)"
    ):
        loss(labels, scores)
    loss = losses.PointwiseKLMultinomialLoss()
    with pytest.raises(ValueError, match=r"at least 2 grades.*\(1, 2, 1\)"):
        loss(labels[..., :1], scores[..., :1])
    with pytest.raises(ValueError, match=r"grades\].*\(1, 2, 3\).*\(1, 2, 2\)"):
        loss(labels, scores[..., :2])
    with pytest.raises(ValueError, match=r"grades\].*\(1, 2\).*\(1, 2, 3\)"):
        loss([[0.0, 1.0]], scores)
    with pytest.raises(ValueError, match=r"\[batch, list\].*\(1, 2, 3\)"):
        losses.PointwiseKLBinomialLoss()(labels, scores)


def test_grades_unknown_to_the_graph_are_checked_when_it_runs():
    signature = [tf.TensorSpec([None, None, None])] * 2
    loss = losses.PointwiseKLMultinomialLoss(grade_values=[0.0, 1.0])
    graph = tf.function(loss, input_signature=signature)
    labels, scores = tf.one_hot([[0, 1]], 2), tf.ones([1, 2, 2])
    np.testing.assert_allclose(graph(labels, scores), loss(labels, scores), rtol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="grade_values"):
        graph(tf.one_hot([[0, 1]], 3), tf.ones([1, 2, 3]))
    loss = losses.PointwiseKLMultinomialLoss()
    for jit in (False, True):
        graph = tf.function(loss, input_signature=signature, jit_compile=jit)
        for grades in (2, 5):
            labels, scores = tf.one_hot([[0, 1]], grades), tf.ones([1, 2, grades])
            np.testing.assert_allclose(
                graph(labels, scores), loss(labels, scores), rtol=1e-6
            )


def test_grades_may_not_be_ragged():
    labels = tf.ragged.constant([[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0]]])
    assert labels.ragged_rank == 2
    with pytest.raises(ValueError, match="ragged_rank=1"):
        losses.PointwiseKLMultinomialLoss(ragged=True)(labels, labels)


def test_training_on_grades_learns(tmp_path):
    tf.keras.utils.set_random_seed(2)
    rng = np.random.default_rng(0)
    x = rng.normal(size=[64, 6, 4]).astype(np.float32)
    grade = np.digitize(x[..., 0], [0.0, 1.0])
    labels = np.eye(3, dtype=np.float32)[grade]
    labels[:, 4:][rng.uniform(size=[64, 2]) < 0.5] = -1
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=[None, 4])])
    model.compile(
        tf.keras.optimizers.Adam(0.1),
        loss=losses.PointwiseKLMultinomialLoss(grade_values=[0, 0.75, 1]),
    )
    before = model.evaluate(x, labels, verbose=0)
    model.fit(x, labels, epochs=20, verbose=0)
    after = model.evaluate(x, labels, verbose=0)
    assert after < before / 2
    real = labels[..., 0] >= 0
    right = np.argmax(model.predict(x, verbose=0), axis=2) == grade
    assert right[real].mean() > 0.85
    model.save(str(tmp_path / "model.keras"))
    loaded = tf.keras.models.load_model(str(tmp_path / "model.keras"))
    assert loaded.loss.get_config()["grade_values"] == [0, 0.75, 1]
    np.testing.assert_allclose(loaded.evaluate(x, labels, verbose=0), after, rtol=1e-6)
