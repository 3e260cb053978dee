"""Lambda weights by name, and which of their parameters a loss takes."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_ranking as tfr

from tests.losses.tfr.lists import HOST, LABELS, SCORES, value_and_gradient
from tfr_ext import losses
from tfr_ext.losses.tfr import classes, lambda_weights
from tfr_ext.losses.tfr.names import LAMBDA_WEIGHTS as PARAMETERS

LAMBDA_WEIGHTS = {
    "ndcg": ({"topn": 3, "smooth_fraction": 0.5}, HOST.NDCGLambdaWeight),
    "ndcg_v2": ({"topn": 3}, HOST.NDCGLambdaWeightV2),
    "dcg": ({"normalized": True}, HOST.DCGLambdaWeight),
    "yeti_dcg": ({}, HOST.YetiDCGLambdaWeight),
    "label_diff": ({}, HOST.LabelDiffLambdaWeight),
    "precision": ({"topn": 2}, HOST.PrecisionLambdaWeight),
}


@pytest.mark.first_case("name")
@pytest.mark.parametrize("name", LAMBDA_WEIGHTS)
@pytest.mark.parametrize("reduction", ["auto", "sum"])
def test_a_lambda_weight_by_name_is_the_one_built_by_hand(name, reduction):
    params, cls = LAMBDA_WEIGHTS[name]
    key, by_hand = "pairwise_logistic_loss", cls(**params)
    theirs = HOST.get(key, reduction, lambda_weight=by_hand)
    expected = value_and_gradient(key, theirs, LABELS[:2], SCORES[:2])
    for weight, weight_params in ((name, params), (by_hand, None)):
        ours = losses.get(
            key,
            reduction,
            lambda_weight=weight,
            lambda_weight_params=weight_params,
        )
        actual = value_and_gradient(key, ours, LABELS[:2], SCORES[:2])
        for x, y in zip(actual, expected):
            most = max(1.0, np.abs(y).max())
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6 * most)
    # TFR's DCG weights grow with the padded size.
    narrow, wide = ([[*row, *[-1.0] * n] for row in LABELS.tolist()] for n in (0, 6))
    scores = SCORES + 5000  # so far that 1e-6 less is the same
    values = [
        value_and_gradient(key, ours, labels, np.pad(scores, [[0, 0], [0, n]]))[0]
        for labels, n in ((narrow, 0), (wide, 6))
    ]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-5)


def test_functions_of_lambda_weights_by_name():
    weight = lambda_weights.get("dcg", gain="exponential", rank_discount="log2")
    by_hand = HOST.DCGLambdaWeight(
        gain_fn=tfr.keras.utils.pow_minus_1,
        rank_discount_fn=tfr.keras.utils.log2_inverse,
    )
    assert weight.get_config() == by_hand.get_config()
    precision = lambda_weights.get("precision", topn=1, relevance_threshold=2.5)
    relevant = precision.get_config()["positive_fn"](tf.constant([1.0, 2.5, 3.0]))
    assert relevant.numpy().tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("key", "kwargs", "told"),
    [
        ("pairwise_logistic_loss", {"lambda_weight": "ndgc"}, "did you mean 'ndcg'"),
        ("pairwise_logistic_loss", {"lambda_weight": "precision"}, "needs `topn`"),
        ("pairwise_logistic_loss", {"lambda_weight": 3}, "Received: 3"),
        ("pairwise_logistic_loss", {"lambda_weight_params": {"topn": 1}}, "needs the"),
        ("pairwise_mse_loss", {"lambda_weight": "list_mle"}, "needs `rank_discount`"),
        ("softmax_loss", {"lambda_weight": "ndcg_v2"}, "effect are: ndcg, dcg"),
        ("yeti_logistic_loss", {"lambda_weight": "ndcg"}, "effect are: yeti_dcg"),
        ("list_mle_loss", {"lambda_weight": "ndcg"}, "effect are: list_mle"),
        ("unique_softmax_loss", {"lambda_weight": "ndcg"}, "no parameter"),
        ("approx_ndcg_loss", {"lambda_weight": "ndcg"}, "no parameter"),
        ("smoothi_loss", {"lambda_weight": "ndcg"}, "Lambda weights are for: pairwise"),
        ("ordinal_loss", {"ordinal_size": 0}, "`ordinal_size`"),
        ("softmax_loss", {"temprature": 2.0}, "did you mean 'temperature'"),
    ],
)
def test_what_does_not_fit_is_told(key, kwargs, told):
    with pytest.raises(ValueError, match=told):
        losses.get(key, **kwargs)


@pytest.mark.parametrize(
    ("name", "params", "told"),
    [
        ("ndcg", {"tpn": 1}, "did you mean 'topn'"),
        ("ndcg", {"topn": 0}, "`topn` must be None or an integer >= 1"),
        ("ndcg", {"gain": "cubic"}, "`gain` must be one of .*linear"),
        ("ndcg", {"rank_discount": "log"}, "`rank_discount` must be one of .*inverse"),
        ("ndcg", {"smooth_fraction": 1.5}, "`smooth_fraction` must be at most 1"),
        ("dcg", {"normalized": 1}, "`normalized`"),
        ("precision", {"topn": 1, "relevance_threshold": 0}, "`relevance_threshold`"),
        ("label_diff", {"topn": 1}, "parameters are: none"),
    ],
)
def test_wrong_parameters_of_lambda_weights_are_told(name, params, told):
    with pytest.raises(ValueError, match=told):
        lambda_weights.get(name, **params)


def test_weights_of_pairs_are_not_list_mles():
    weight = HOST.ListMLELambdaWeight(tfr.keras.utils.log2_inverse)
    with pytest.raises(ValueError, match="effect are: ndcg, .*label_diff[.]"):
        losses.get("pairwise_hinge_loss", lambda_weight=weight)


# Values of each parameter, one of which at least is not the default.
VALUES = {
    "topn": [2],
    "gain": ["linear", "exponential"],
    "rank_discount": ["log2", "inverse"],
    "normalized": [True],
    "smooth_fraction": [0.5],
    "relevance_threshold": [2.0],
}
TAKERS = [
    (key, name)
    for key, cls in classes.LOSSES.items()
    for name in lambda_weights.of_kinds(cls.LAMBDA_WEIGHTS)
    if name != "list_mle" or key == "list_mle_loss"
]


@pytest.mark.first_case
@pytest.mark.parametrize(("key", "name"), TAKERS)
def test_a_parameter_has_an_effect_or_is_refused(key, name):
    required = {"precision": {"topn": 3}, "list_mle": {"rank_discount": "log2"}}
    required = required.get(name, {})

    def slopes(params):
        params = {**required, **params}
        given = {"lambda_weight": name, "lambda_weight_params": params}
        loss = losses.get(key, **given)
        return value_and_gradient(key, loss, LABELS, SCORES)[1]

    by_default = slopes({})
    for parameter in PARAMETERS[name]:
        try:
            found = [slopes({parameter: value}) for value in VALUES[parameter]]
        except ValueError as error:
            assert f"`{parameter}` of a lambda weight has no effect" in str(error)
            assert key in ("softmax_loss", "calibrated_softmax_loss")
        else:
            assert any((x != by_default).any() for x in found), parameter
