"""The KL losses against float64 oracles, formulas by hand, and what they say."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import tensorflow as tf

from tests import oracles
from tests.helpers import compiled, value_and_gradient
from tests.oracles import kl as oracles_kl
from tfr_ext import losses
from tfr_ext.core import blocks

# Sizes of the lists of a batch: one of a single item, one without any.
SIZES = (7, 1, 12, 0, 30)


def random_batch(seed, sizes=SIZES, from_logits=True, grades=None):
    """Lists with ties in scores and labels, the first one without relevant items."""
    rng = np.random.default_rng(seed)
    ending = [] if grades is None else [grades]
    scores = [rng.normal(size=[size, *ending]) * 3 for size in sizes]
    labels = [rng.integers(0, 4, size).astype(float) for size in sizes]
    labels[0][:] = 0
    for row in scores:
        row[1::5] = row[: len(row[1::5])]
    if grades is not None:
        labels = [rng.dirichlet([0.5] * grades, size) for size in sizes]
        labels[0] = np.eye(grades)[[0] * sizes[0]]
    if not from_logits:
        scores = [1 / (1 + np.exp(-row)) for row in scores]
        if grades is not None:
            scores = [row / row.sum(axis=1, keepdims=True) for row in scores]
        # What is no probability gets no gradient: exactly at a bound neither has one.
        for row in scores[2:3]:
            row[3], row[4] = -0.5, 1.5
    return scores, labels


def dense(rows, filling):
    width = max(len(row) for row in rows) + 2
    out = np.full([len(rows), width, *rows[0].shape[1:]], filling, np.float64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return tf.constant(out)


def check(loss, oracle, scores, labels, rtol=1e-8):
    """Compares the sum of a batch, and its gradient, with an oracle of a batch."""
    y_true, y_pred = dense(labels, -1.0), dense(scores, 7.0)
    value, slopes = value_and_gradient(loss, y_true, y_pred)
    shape = scores[0].shape[1:]
    ends = np.cumsum([row.size for row in scores])[:-1]

    def total(flat):
        rows = np.split(np.array(flat, dtype=object), ends)
        rows = [row.reshape([-1, *shape]).tolist() for row in rows]
        out = oracle(rows, [row.tolist() for row in labels])
        return sum(sum(x) if isinstance(x, list) else x for x in out)

    flat = np.concatenate([row.ravel() for row in scores]).tolist()
    np.testing.assert_allclose(value, np.real(total(flat)), rtol=rtol)
    actual = [slopes[i, : len(row)].ravel() for i, row in enumerate(scores)]
    expected = oracles.gradient(total, flat)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        np.concatenate(actual), expected, rtol=10 * rtol, atol=rtol * scale
    )


def each(oracle, **arguments):
    return lambda scores, labels: [
        oracle(s, y, **arguments) for s, y in zip(scores, labels)
    ]


@pytest.mark.parametrize("class_balance", ["batch", "list", None])
@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize(
    ("max_label", "relevance_threshold"), [(1.0, 0.1), (3.0, 0.5), (5.0, 0.1)]
)
def test_itemwise_equal_the_oracle(
    class_balance, from_logits, max_label, relevance_threshold
):
    arguments = {
        "class_balance": class_balance,
        "from_logits": from_logits,
        "max_label": max_label,
        "relevance_threshold": relevance_threshold if class_balance else 0.1,
    }
    scores, labels = random_batch(1, from_logits=from_logits)
    labels = [np.minimum(list_labels, max_label) for list_labels in labels]
    check(
        losses.PointwiseKLBinomialLoss(num_trials=5, reduction="sum", **arguments),
        lambda s, y: oracles_kl.pointwise_binomial(s, y, num_trials=5, **arguments),
        scores,
        labels,
        1e-6 if not from_logits else 1e-8,
    )
    check(
        losses.ListwiseKLGaussianLoss(sigma=0.3, reduction="sum", **arguments),
        lambda s, y: oracles_kl.listwise_gaussian(s, y, sigma=0.3, **arguments),
        scores,
        labels,
    )


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


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("from_logits", [True, False])
@pytest.mark.parametrize("margin", [0.0, 0.7, 20.0])
def test_pairwise_equal_the_oracle(symmetric, from_logits, margin):
    arguments = {"margin": margin, "symmetric": symmetric, "from_logits": from_logits}
    scores, labels = random_batch(3, from_logits=from_logits)
    for num_trials in (1, 32):
        check(
            losses.PairwiseKLBinomialLoss(
                num_trials=num_trials, reduction="sum", **arguments
            ),
            each(oracles_kl.pairwise_binomial, num_trials=num_trials, **arguments),
            scores,
            labels,
            1e-6 if not from_logits else 1e-8,
        )
    for sigma in (0.1, 0.5):
        check(
            losses.PairwiseKLGaussianLoss(sigma=sigma, reduction="sum", **arguments),
            each(oracles_kl.pairwise_gaussian, sigma=sigma, **arguments),
            scores,
            labels,
        )


PAIRWISE = [
    losses.PairwiseKLBinomialLoss(reduction="sum"),
    losses.PairwiseKLBinomialLoss(reduction="sum", symmetric=True),
    losses.PairwiseKLGaussianLoss(reduction="sum"),
]


def pairs_in_numpy(loss, scores, labels):
    """Value and gradient of one list, with matrices of pairs; float64."""
    config = loss.get_config()
    p = 1 / (1 + np.exp(-scores))
    ds, dp = (x[:, np.newaxis] - x for x in (scores, p))
    slope, n = p * (1 - p), config.get("num_trials")
    if n is None:
        kl = dp**2 / 2 / config["sigma"] ** 2
        by_i, by_j = (s * dp / config["sigma"] ** 2 for s in (slope[:, None], -slope))
    elif config["symmetric"]:
        kl = n * ds * dp
        by_i, by_j = n * (slope[:, None] * ds + dp), -n * (slope * ds + dp)
    else:
        p_i, p_j = p[:, np.newaxis], p
        kl = n * (p_i * np.log(p_i / p_j) + (1 - p_i) * np.log((1 - p_i) / (1 - p_j)))
        by_i, by_j = n * slope[:, np.newaxis] * ds, -n * dp
    hinge = config["margin"] - np.sign(ds) * kl
    is_open = (labels[:, np.newaxis] > labels) & (hinge > 0)
    signs = is_open * np.sign(ds)
    return (hinge * is_open).sum(), -(signs * by_i).sum(1) - (signs * by_j).sum(0)


@pytest.mark.first_case("loss")
@pytest.mark.parametrize("loss", PAIRWISE, ids=lambda loss: loss.name)
@pytest.mark.parametrize("block", [1, 100, 1000, 2**21])
@pytest.mark.parametrize("static", [True, False])
def test_blocks_of_rows_change_nothing(loss, block, static, monkeypatch):
    monkeypatch.setattr(blocks, "_BLOCK", block)
    rng = np.random.default_rng(block)
    scores, labels = rng.normal(size=[2, 19]), rng.integers(-1, 3, [2, 19])
    spec = tf.TensorSpec([2, 19] if static else [None, None], tf.float64)

    value, slopes = compiled(loss, spec, spec)(labels.astype(float), scores)
    expected = 0
    for i in range(2):
        real = labels[i] >= 0
        part, part_slopes = pairs_in_numpy(loss, scores[i][real], labels[i][real])
        expected += part
        np.testing.assert_allclose(slopes[i][real], part_slopes, atol=1e-9)
    np.testing.assert_allclose(value, expected, rtol=1e-10)


@pytest.mark.first_case
@pytest.mark.parametrize("loss", PAIRWISE, ids=lambda loss: loss.name)
@pytest.mark.parametrize("size", [200, 2000, 5000])
def test_long_lists(loss, size):
    rng = np.random.default_rng(size)
    scores, labels = rng.normal(size=size), rng.integers(0, 4, size).astype(float)
    expected, expected_slopes = pairs_in_numpy(loss, scores, labels)
    value, slopes = value_and_gradient(loss, [labels], [scores])
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    scale = np.abs(expected_slopes).max()
    np.testing.assert_allclose(slopes[0], expected_slopes, atol=1e-10 * scale)
    single, _ = value_and_gradient(loss, [labels], np.float32([scores]))
    np.testing.assert_allclose(single, expected, rtol=1e-5)


@pytest.mark.first_case
@pytest.mark.parametrize("jit", [False, True])
def test_ten_thousand_items_in_blocks(jit):
    loss = losses.PairwiseKLGaussianLoss(sigma=1.0)
    step = compiled(loss, *[tf.TensorSpec([None, None])] * 2, jit=jit)

    # The one relevant item has the lowest score; all others stand at 0.
    labels, scores = np.zeros([1, 10_000], np.float32), np.zeros([1, 10_000])
    labels[0, 4321], scores[0, 4321] = 1, -100.0
    value, slopes = step(labels, scores.astype(np.float32))
    np.testing.assert_allclose(value, 9999 * (1 + 0.5**2 / 2) / 10_000, rtol=1e-5)
    # -d/dp_j (1 + p_j**2 / 2) at 1/2, times the slope of the sigmoid, of one item.
    np.testing.assert_allclose(slopes[0, 0], 0.5 * 0.25 / 10_000, rtol=1e-5)


def test_the_binomial_form_is_the_divergence_of_the_distributions():
    """Summed over the outcomes of three trials."""

    def kl(p, q):
        outcomes = np.arange(4)
        mass, other = (scipy.stats.binom.pmf(outcomes, 3, x) for x in (p, q))
        return np.sum(mass * np.log(mass / other))

    for p, q in [(0.3, 0.8), (0.5, 0.1), (0.95, 0.2)]:
        np.testing.assert_allclose(oracles_kl.kl_binomial(p, q, 3), kl(p, q))
        score = np.log(q / (1 - q))
        pointwise = losses.PointwiseKLBinomialLoss(num_trials=3)
        np.testing.assert_allclose(
            pointwise([[p]], [[score]]), kl(p, q) + kl(q, p), rtol=1e-5
        )
        # A relevant item at q, and another at p.
        signs = np.sign(q - p)
        scores = [[score, np.log(p / (1 - p))]]
        for symmetric in (False, True):
            pairwise = losses.PairwiseKLBinomialLoss(
                num_trials=3, margin=9.0, symmetric=symmetric, reduction="sum"
            )
            expected = 9 - signs * (kl(q, p) + symmetric * kl(p, q))
            np.testing.assert_allclose(
                pairwise([[1.0, 0.0]], scores), expected, rtol=1e-5
            )


def test_the_gaussian_form_is_the_divergence_of_the_distributions():
    """By numeric integration."""
    sigma, p, q = 0.25, 0.3, 0.8
    density, other = (scipy.stats.norm(mean, sigma) for mean in (q, p))
    kl, _ = scipy.integrate.quad(
        lambda x: density.pdf(x) * (density.logpdf(x) - other.logpdf(x)), -3, 4
    )
    np.testing.assert_allclose(oracles_kl.kl_gaussian(q, p, sigma, sigma), kl)
    scores = [[math.log(q / (1 - q)), math.log(p / (1 - p))]]
    for symmetric in (False, True):
        loss = losses.PairwiseKLGaussianLoss(
            margin=9.0, symmetric=symmetric, reduction="sum"
        )
        np.testing.assert_allclose(
            loss([[1.0, 0.0]], scores), 9 - (1 + symmetric) * kl, rtol=1e-5
        )
    # Components of a list are independent: their divergences add up.
    loss = losses.ListwiseKLGaussianLoss(sigma=sigma, class_balance=None)
    np.testing.assert_allclose(loss([[q, p]], scores[:1]), 0.0, atol=1e-9)
    np.testing.assert_allclose(loss([[p, p]], scores[:1]), kl, rtol=1e-5)


def test_values_by_hand():
    third = math.log(1 / 2)  # the logit of 1/3
    y_true, y_pred = [[0.5, 0.0]], [[third, -third]]
    loss = losses.PointwiseKLBinomialLoss(
        num_trials=2, class_balance=None, reduction="none"
    )
    # 2 (1/3 - 1/2) (log 1/2 - 0), and 2 (2/3 - 1e-6) (log 2 - logit 1e-6).
    expected = [math.log(2) / 3, 2 * (2 / 3 - 1e-6) * (math.log(2) + 13.8155096)]
    np.testing.assert_allclose(loss(y_true, y_pred)[0], expected, rtol=1e-6)
    loss = losses.ListwiseKLGaussianLoss(sigma=2.0, class_balance=None)
    expected = ((1 / 2 - 1 / 3) ** 2 + (2 / 3 - 1e-6) ** 2) / 8
    np.testing.assert_allclose(loss(y_true, y_pred), expected, rtol=1e-6)
    # Of two items in the wrong order only the relevant one has a pair.
    loss = losses.PairwiseKLGaussianLoss(sigma=0.5, reduction="none")
    np.testing.assert_allclose(
        loss(y_true, y_pred)[0], [1 + (1 / 3) ** 2 / 0.5, 0], rtol=1e-6
    )
    loss = losses.PairwiseKLBinomialLoss(num_trials=3, reduction="none")
    divergence = math.log(1 / 2) + 2 * math.log(2)  # 3 (1/3 log 1/2 + 2/3 log 2)
    np.testing.assert_allclose(loss(y_true, y_pred)[0], [1 + divergence, 0], rtol=1e-6)


@pytest.mark.parametrize(("score", "label"), [(50.0, 0.0), (-50.0, 1.0)])
def test_a_confident_mistake_keeps_its_gradient(score, label):
    sign = np.sign(score)
    loss = losses.PointwiseKLBinomialLoss(num_trials=7)
    _, slopes = value_and_gradient(loss, [[label]], [[score]])
    np.testing.assert_allclose(slopes, [[sign * 7]], rtol=1e-5)
    for symmetric in (False, True):
        loss = losses.PairwiseKLBinomialLoss(
            num_trials=7, symmetric=symmetric, reduction="sum"
        )
        # The other item, which has the other label, at the other end.
        _, slopes = value_and_gradient(loss, [[label, 1 - label]], [[score, -score]])
        if symmetric:
            np.testing.assert_allclose(slopes, [[sign * 7, -sign * 7]], rtol=1e-5)
        else:  # KL(P_i || P_j) grows with the score of the less relevant j
            expected = [7, 0] if label == 0 else [0, 7]
            np.testing.assert_allclose(slopes, [expected], atol=1e-5)
    loss = losses.PointwiseKLMultinomialLoss()
    wrong = tf.one_hot([[0]], 2) * 50.0
    _, slopes = value_and_gradient(loss, [[[0.0, 1.0]]], wrong)
    np.testing.assert_allclose(slopes, [[[1.0, -1.0]]], rtol=1e-5)


def test_nearly_tied_scores_move_apart():
    """The divergence itself is lost in rounding there, its gradient is not."""
    scores = tf.constant([[0.3, 0.3001, 0.3002]])
    labels = [[2.0, 1.0, 0.0]]
    for loss in PAIRWISE:
        value, slopes = value_and_gradient(loss, labels, scores)
        np.testing.assert_allclose(value, 3.0, rtol=1e-5)
        _, expected = pairs_in_numpy(
            loss, scores[0].numpy().astype(float), np.array(labels[0])
        )
        scale = np.abs(expected).max()
        np.testing.assert_allclose(slopes[0], expected, atol=5e-3 * scale)


def weights_of(labels, **arguments):
    """The class weights, read off losses of items alike in all else."""
    loss = losses.PointwiseKLBinomialLoss(reduction="none", **arguments)
    for_weights = {"class_balance": None, "relevance_threshold": 0.1}
    plain = losses.PointwiseKLBinomialLoss(
        reduction="none", **{**arguments, **for_weights}
    )
    scores = tf.ones_like(labels)
    return tf.math.divide_no_nan(loss(labels, scores), plain(labels, scores)).numpy()


def test_class_weights_by_hand():
    labels = tf.constant([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, -1.0], [0, 0, 0, 0]])
    # Of 11 items 3 are relevant and 8 are not, in two classes.
    relevant, other = 11 / (2 * 3), 11 / (2 * 8)
    np.testing.assert_allclose(
        weights_of(labels),
        np.where(labels > 0, relevant, np.where(labels < 0, 0, other)),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        weights_of(labels, class_balance="list"),
        [
            [4 / (2 * 1), 4 / (2 * 3), 4 / (2 * 3), 4 / (2 * 3)],
            [3 / (2 * 2), 3 / (2 * 2), 3 / (2 * 1), 0],
            [1, 1, 1, 1],  # one class only
        ],
        rtol=1e-6,
    )


def test_relevance_is_decided_before_labels_are_clipped():
    labels = tf.constant([[2.0, 1.0, 1.0, 1.0]])
    weights = weights_of(labels, max_label=2.0, relevance_threshold=1.0)
    np.testing.assert_allclose(weights, [[2, 2 / 3, 2 / 3, 2 / 3]], rtol=1e-6)
    # One at the threshold is relevant.
    weights = weights_of(tf.constant([[0.1, 0.0, 0.0]]))
    np.testing.assert_allclose(weights, [[1.5, 0.75, 0.75]], rtol=1e-6)


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


@pytest.mark.first_case
@pytest.mark.parametrize(
    "loss",
    [
        losses.PointwiseKLBinomialLoss(num_trials=1),
        losses.PairwiseKLBinomialLoss(),
        losses.PairwiseKLGaussianLoss(),
        losses.ListwiseKLGaussianLoss(),
    ],
    ids=lambda loss: loss.name,
)
def test_training_learns_to_rank(loss):
    tf.keras.utils.set_random_seed(2)
    rng = np.random.default_rng(0)
    x = rng.normal(size=[64, 6, 4]).astype(np.float32)
    labels = (x[..., 0] + x[..., 1] > 0.5).astype(np.float32)
    inputs = tf.keras.Input([None, 4])
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs)[:, :, 0])
    model.compile(tf.keras.optimizers.Adam(0.1), loss=loss)
    before = model.evaluate(x, labels, verbose=0)
    model.fit(x, labels, epochs=20, verbose=0)
    assert model.evaluate(x, labels, verbose=0) < before / 2
    scores = model.predict(x, verbose=0)
    relevant, other = (scores[labels == y] for y in (1, 0))
    assert np.mean(relevant[:, np.newaxis] > other) > 0.95
