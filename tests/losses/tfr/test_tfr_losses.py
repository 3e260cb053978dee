"""TensorFlow Ranking's losses as `tfr_ext.losses.get` builds them, against TFR's."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import (
    assert_no_items_give_0,
    compiled,
    in_a_graph_of_tensorflow_1,
)
from tests.losses.tfr.lists import (
    HOST,
    KEYS,
    LABELS,
    SCORES,
    levels,
    value_and_gradient,
)
from tfr_ext import losses
from tfr_ext.losses.tfr import classes

# What they draw depends on the padded size: padding is invisible on average only.
SAMPLED = (
    "yeti_logistic_loss",
    "gumbel_approx_ndcg_loss",
    "coupled_rankdistil_loss",
)
ITEMWISE = (
    *(key for key in KEYS if key.startswith("pairwise")),
    "sigmoid_cross_entropy_loss",
    "mean_squared_loss",
    "ordinal_loss",
)
every_key = pytest.mark.parametrize("key", KEYS)

WIDE = [0, 3, 4, 7, 8]  # where the items are among padding


def build(key, module=losses, **kwargs):
    if key == "ordinal_loss":
        kwargs.setdefault("ordinal_size", 3)
    return module.get(key, **kwargs)


def test_each_key_has_its_class():
    assert list(classes.LOSSES) == KEYS
    for key in KEYS:
        theirs = type(HOST.get(key))
        assert issubclass(classes.LOSSES[key], theirs)
        assert classes.LOSSES[key].__name__ == theirs.__name__
        assert set(losses.parameters(key)) >= (
            set(theirs().get_config()) - {"reduction", "name", "lambda_weight"}
        )


@pytest.mark.first_case("key")
@every_key
@pytest.mark.parametrize("reduction", ["auto", "sum", "none"])
def test_without_padding_it_is_tensorflow_rankings(key, reduction):
    labels, scores = LABELS[:2], SCORES[:2]
    ours = build(key, reduction=reduction)
    theirs = build(key, HOST, reduction=reduction)
    per_list = np.array([[1.0], [3.0]], np.float32)
    per_item = np.arange(10, dtype=np.float32).reshape(2, 5)
    for weights in (None, per_list, per_item):
        expected = value_and_gradient(key, theirs, labels, scores, weights)
        actual = value_and_gradient(key, ours, labels, scores, weights)
        for x, y in zip(actual, expected):
            assert x.shape == y.shape
            most = max(1.0, np.abs(y).max())
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6 * most)


@pytest.mark.first_case("key")
@every_key
@pytest.mark.parametrize("junk", [1e6, np.nan])
def test_padding_is_invisible(key, junk):
    # Low scores: TFR's padding stands at -23 in a softmax.
    scores = SCORES if key in ("mean_squared_loss", "ordinal_loss") else SCORES - 60
    kwargs = {"sample_size": 3000} if key in SAMPLED else {}
    wide_labels = np.full([3, 11], -1, np.float32)
    wide_scores = np.full([3, 11], junk, np.float32)
    wide_labels[:, WIDE], wide_scores[:, WIDE] = LABELS, scores
    for reduction in ("sum_over_batch_size", "sum"):
        loss = build(key, reduction=reduction, **kwargs)
        value, slopes = value_and_gradient(key, loss, LABELS, scores)
        padded, padded_slopes = value_and_gradient(key, loss, wide_labels, wide_scores)
        tolerance = 0.05 if key in SAMPLED else 1e-5
        np.testing.assert_allclose(padded, value, rtol=tolerance)
        np.testing.assert_allclose(
            padded_slopes[:, WIDE],
            slopes,
            rtol=tolerance,
            atol=tolerance * np.abs(slopes).max(),
        )
        assert not padded_slopes[wide_labels < 0].any()


@pytest.mark.first_case
@every_key
def test_a_label_that_is_nan_shows(key):
    """TensorFlow Ranking takes it for padding."""
    loss = build(key)
    labels = np.array(LABELS)
    labels[0, 1] = np.nan
    for function in (loss, tf.function(loss)):
        assert np.isnan(function(labels, levels(key, tf.constant(SCORES))))


@pytest.mark.parametrize(
    ("key", "argument", "wrong"),
    [
        ("softmax_loss", "temperature", 0),
        ("pairwise_logistic_loss", "temperature", -1.0),
        ("approx_ndcg_loss", "temperature", "a"),
        ("list_mle_loss", "temperature", True),
        ("gumbel_approx_ndcg_loss", "gumbel_temperature", 0.0),
        ("gumbel_approx_ndcg_loss", "sample_size", 0),
        ("gumbel_approx_ndcg_loss", "seed", 0.5),
        ("yeti_logistic_loss", "sample_size", 2.5),
        ("coupled_rankdistil_loss", "topk", 0),
        ("calibrated_softmax_loss", "virtual_label", -0.5),
    ],
)
def test_a_parameter_out_of_its_range_is_refused(key, argument, wrong):
    with pytest.raises(ValueError, match=f"`{argument}` must be"):
        losses.get(key, **{argument: wrong})


@pytest.mark.parametrize("key", ITEMWISE)
def test_a_mean_is_over_real_items(key):
    each = build(key, reduction="none")(LABELS, levels(key, SCORES)).numpy()
    mean = build(key)(LABELS, levels(key, SCORES)).numpy()
    np.testing.assert_allclose(mean, (each.sum(1) / [5, 5, 3]).mean(), rtol=1e-6)
    theirs = build(key, HOST)(LABELS, levels(key, SCORES)).numpy()
    np.testing.assert_allclose(theirs, (each.sum(1) / 5).mean(), rtol=1e-6)


@every_key
def test_a_spread_of_thousands_is_finite(key):
    for spread in (1e3, 1e4):
        scores = np.array([[0, spread, 1, -spread], [spread, -spread, 0, 0]])
        labels = np.array([[1, 0, 2, 0], [0, 3, -1, -1]], np.float32)
        value, slopes = value_and_gradient(
            key, build(key), labels, scores.astype(np.float32)
        )
        assert np.isfinite(value) and np.isfinite(slopes).all()


def test_list_mle_and_rankdistil_are_exact_at_a_spread_of_a_thousand():
    labels, scores = [[1.0, 0.0]], np.array([[-1000.0, 0.0]], np.float32)
    value, slopes = value_and_gradient(
        "list_mle_loss", build("list_mle_loss"), labels, scores
    )
    assert value == 1000 and slopes.tolist() == [[-1, 1]]
    value, _ = value_and_gradient(
        "list_mle_loss", build("list_mle_loss"), [[0.0, 1.0]], scores
    )
    assert value == 0
    # TFR's padding at log(1e-10) makes RankDistil of low scores another loss.
    distil = build("coupled_rankdistil_loss", topk=9)
    shifted = [
        value_and_gradient("coupled_rankdistil_loss", distil, LABELS, SCORES - shift)[0]
        for shift in (0, 1000)
    ]
    np.testing.assert_allclose(*shifted, rtol=1e-4)


@every_key
def test_number_types(key):
    loss = build(key)
    value, slopes = value_and_gradient(key, loss, LABELS, SCORES)
    for dtype in (np.int32, np.int64, np.float64):
        again, _ = value_and_gradient(key, loss, LABELS.astype(dtype), SCORES)
        np.testing.assert_array_equal(again, value)
    for dtype in (tf.float16, tf.bfloat16, tf.float64):
        scores = tf.cast(SCORES, dtype)
        half, half_slopes = value_and_gradient(key, loss, LABELS, scores)
        full, _ = value_and_gradient(key, loss, LABELS, tf.cast(scores, tf.float32))
        assert half.dtype == np.float32
        np.testing.assert_allclose(half, full, rtol=2e-2)
        assert np.isfinite(half_slopes).all()


@every_key
def test_a_vector_of_weights_is_one_per_list_also_where_batch_equals_list(key):
    labels, scores = LABELS[[0, 1, 0, 1, 0]], SCORES[[0, 1, 1, 0, 0]]
    weights = np.array([1, 2, 3, 4, 5], np.float32)
    loss = build(key)
    vector, _ = value_and_gradient(key, loss, labels, scores, weights)
    column, _ = value_and_gradient(key, loss, labels, scores, weights[:, None])
    np.testing.assert_array_equal(vector, column)
    doubled, _ = value_and_gradient(key, loss, labels, scores, 2.0)
    plain, _ = value_and_gradient(key, loss, labels, scores)
    np.testing.assert_allclose(doubled, 2 * plain, rtol=1e-5)


@every_key
def test_empty_lists_and_lists_of_padding(key):
    labels = np.stack([LABELS[0], 0 * LABELS[0], 0 * LABELS[0] - 1])
    loss = build(key, reduction="none")
    value, slopes = value_and_gradient(key, loss, labels, SCORES)
    value = value.reshape([3, -1])
    assert not value[2].any() and not slopes[2].any() and np.isfinite(slopes).all()
    # Defined without anything relevant, and so with a weight as well.
    defined = key in (*ITEMWISE, "list_mle_loss") and value[1].any()
    assert defined == (
        key
        in (
            "pairwise_mse_loss",
            "sigmoid_cross_entropy_loss",
            "mean_squared_loss",
            "ordinal_loss",
            "list_mle_loss",
        )
    )
    weights = np.array([[1.0], [3.0], [1.0]], np.float32)
    weighted, _ = value_and_gradient(key, loss, labels, SCORES, weights)
    np.testing.assert_allclose(weighted.reshape([3, -1])[1], 3 * value[1], rtol=1e-5)


@every_key
def test_lists_of_no_items_contribute_nothing(key):
    for reduction in ("auto", "none"):
        loss = build(key, reduction=reduction)
        assert_no_items_give_0(loss, taken=lambda y, s: (y, levels(key, s)))
    for weights in (tf.ones([2, 0]), tf.ones([2, 1])):
        value = loss(tf.zeros([2, 0]), levels(key, tf.zeros([2, 0])), weights)
        assert not value.numpy().any()


@every_key
def test_ragged_equals_dense(key):
    loss = build(key, ragged=True)
    lengths = [5, 5, 3]
    tf.random.set_seed(7)
    value = loss(
        tf.RaggedTensor.from_tensor(LABELS, lengths),
        tf.RaggedTensor.from_tensor(levels(key, tf.constant(SCORES)), lengths),
    )
    dense, _ = value_and_gradient(key, build(key), LABELS, SCORES)
    np.testing.assert_allclose(value, dense, rtol=1e-6)


# Parameters of each key that are not the defaults.
GIVEN = {
    "pairwise_hinge_loss": {"lambda_weight": "label_diff"},
    "pairwise_logistic_loss": {
        "lambda_weight": "precision",
        "lambda_weight_params": {"topn": 2, "relevance_threshold": 2.0},
    },
    "pairwise_mse_loss": {"lambda_weight": "dcg"},
    "yeti_logistic_loss": {
        "lambda_weight": "yeti_dcg",
        "lambda_weight_params": {"gain": "linear", "topn": 3},
        "sample_size": 2,
        "gumbel_temperature": 0.5,
        "seed": 3,
    },
    "softmax_loss": {
        "lambda_weight": "ndcg",
        "lambda_weight_params": {"topn": 2, "rank_discount": "inverse"},
        "temperature": 2.0,
    },
    "calibrated_softmax_loss": {"virtual_label": 0.5, "ragged": True},
    "ordinal_loss": {"ordinal_size": 3, "use_fraction_label": True},
    "list_mle_loss": {
        "lambda_weight": "list_mle",
        "lambda_weight_params": {"rank_discount": "log2"},
    },
    "gumbel_approx_ndcg_loss": {"sample_size": 2, "seed": 3, "temperature": 0.5},
    "coupled_rankdistil_loss": {"sample_size": 2, "topk": 2, "temperature": 0.5},
}


@every_key
def test_config_saved_model_and_training_step(key, tmp_path):
    inputs = tf.keras.Input([5, 4])
    units = 3 if key == "ordinal_loss" else 1
    outputs = tf.keras.layers.Dense(units)(inputs)
    if units == 1:
        outputs = tf.keras.layers.Reshape([5])(outputs)
    model = tf.keras.Model(inputs, outputs)
    loss = build(key, reduction="sum", name="mine", **GIVEN.get(key, {}))
    model.compile("sgd", loss)
    features = np.random.default_rng(0).normal(size=[3, 5, 4]).astype(np.float32)
    before = model.get_weights()
    history = model.fit(features, LABELS, epochs=1, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert any((a != b).any() for a, b in zip(before, model.get_weights()))

    for again in (
        type(loss).from_config(loss.get_config()),
        tf.keras.losses.deserialize(tf.keras.losses.serialize(loss)),
    ):
        assert again.get_config() == loss.get_config()
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras").loss
    assert type(loaded) is classes.LOSSES[key] and loaded.reduction == "sum"
    expected, _ = value_and_gradient(key, loss, LABELS, SCORES)
    actual, _ = value_and_gradient(key, loaded, LABELS, SCORES)
    np.testing.assert_array_equal(actual, expected)


@every_key
@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
def test_graphs(key, jit):
    loss = build(key)
    shape = [3, 5, 3] if jit else [None, None, 3]
    rank = 3 if key == "ordinal_loss" else 2
    specs = [tf.TensorSpec(s) for s in (shape[:2], shape[:rank], shape[:1])]
    step = compiled(loss, *specs, jit=jit)
    scores, weights = levels(key, tf.constant(SCORES)), tf.constant([1.0, 2.0, 3.0])
    value, slopes = step(LABELS, scores, weights)
    assert np.isfinite(slopes).all()
    if key not in SAMPLED:
        np.testing.assert_allclose(value, loss(LABELS, scores, weights), rtol=1e-5)


@every_key
def test_graphs_of_tensorflow_1(key):
    loss = build(key)
    scores = levels(key, tf.constant(SCORES)).numpy()
    tied = np.round(scores)
    labels, weights = np.asarray(LABELS), np.array([1.0, 2.0, 3.0], np.float32)
    known = key == "ordinal_loss"  # It needs the number of levels.
    for given in (scores, tied):
        value, slopes = in_a_graph_of_tensorflow_1(
            loss, labels, given, weights, known=known
        )
        assert np.isfinite(slopes).all()
        if key not in SAMPLED:
            np.testing.assert_allclose(value, loss(labels, given, weights), rtol=1e-5)


@pytest.mark.parametrize("key", SAMPLED)
def test_the_draws_are_those_of_the_seed(key):
    kwargs = {"seed": 4} if "seed" in losses.parameters(key) else {}
    values = [
        value_and_gradient(key, build(key, **kwargs), LABELS, SCORES)[0]
        for _ in range(2)
    ]
    assert values[0] == values[1]
    assert build(key, **kwargs)(LABELS, SCORES).numpy() != values[0]
