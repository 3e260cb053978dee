"""The one list of all losses, over which the contract's properties are tested.

A new loss joins by adding its cases here: nothing else in the contract tests names one.
"""

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import compiled, value_and_gradient
from tests.losses import invalid_arguments as wrong
from tfr_ext import losses


@dataclasses.dataclass(frozen=True)
class LossCase:
    """A loss with arguments, and what its kind promises.

    Attributes:
        key: key of the loss.
        kwargs: its arguments.
        by_position: the order of the items matters, as it does to a merge tree.
        empty_is_zero: a list without anything relevant contributes 0.
        invalid: arguments that must be refused, each with the name that is told.
        lifted: a form of the loss that takes labels and scores `[batch, list]`, if it
            takes distributions itself.
    """

    key: str
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    empty_is_zero: bool = True
    by_position: bool = False
    invalid: tuple[tuple[dict[str, Any], str], ...] = ()
    lifted: Any = None

    @property
    def couples_lists(self) -> bool:
        """Whether the labels of a list count in the weights of the others."""
        default = "batch" if self.key.startswith("pointwise_kl") else None
        return self.kwargs.get("class_balance", default) == "batch"

    def build(self, **kwargs: Any) -> tf.keras.losses.Loss:
        loss = losses.get(self.key, **{**self.kwargs, **kwargs})
        return self.lifted.from_config(loss.get_config()) if self.lifted else loss

    def __str__(self) -> str:
        arguments = ",".join(
            f"{k}={v.get('class_name') if isinstance(v, dict) else v}"
            for k, v in self.kwargs.items()
        )
        return f"{self.key}({arguments})"


def distributions(label: tf.Tensor) -> tf.Tensor:
    """Binomial distributions over 3 grades; the label 3 has all mass on the highest."""
    label = label if label.dtype.is_floating else tf.cast(label, tf.float32)
    p = label / 3
    grades = tf.stack([(1 - p) ** 2, 2 * p * (1 - p), p**2], axis=-1)
    padding = tf.constant([-1.0, np.nan, np.nan], label.dtype)
    return tf.where((label < 0)[..., tf.newaxis], padding, grades)


def grade_scores(score: tf.Tensor) -> tf.Tensor:
    """Scores of 3 grades: multiples of the score that rounding leaves exact."""
    return score[..., tf.newaxis] * tf.constant([-0.25, 0.5, 1.0], score.dtype)


def on_dense_or_ragged(function: Any, x: Any) -> Any:
    if isinstance(x, tf.RaggedTensor):
        return tf.ragged.map_flat_values(function, x)
    return function(tf.convert_to_tensor(x))


@tf.keras.utils.register_keras_serializable("tests")
class MultinomialOfScores(losses.PointwiseKLMultinomialLoss):
    """Gives an item's one label and score three grades each."""

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return super().__call__(
            on_dense_or_ragged(distributions, y_true),
            on_dense_or_ragged(grade_scores, y_pred),
            sample_weight,
        )


# A schedule as a config has it; the contract's tests see its value at step 0.
SCHEDULE = tf.keras.optimizers.schedules.serialize(
    tf.keras.optimizers.schedules.ExponentialDecay(2.0, 10, 0.5)
)

_SMOOTH = {"straight_through": False, "temperature": 1.0}
_TREE = {"depth": 2, "branching": [3, 2], "topn": 3}


def _kl(key: str, invalid: Any = (), lifted: Any = None, **kwargs: Any) -> LossCase:
    pairwise = key.startswith("pairwise")
    return LossCase(key, kwargs, empty_is_zero=pairwise, invalid=invalid, lifted=lifted)


_BINOMIAL, _GAUSSIAN = "pairwise_kl_binomial_loss", "pairwise_kl_gaussian_loss"
_POINTWISE, _LISTWISE = "pointwise_kl_binomial_loss", "listwise_kl_gaussian_loss"
_MULTINOMIAL = "pointwise_kl_multinomial_loss"

_KL_CASES = [
    _kl(
        _POINTWISE,
        wrong.TRIALS + wrong.MAX_LABEL + wrong.CLASS,
        max_label=3.0,
    ),
    _kl(_POINTWISE, max_label=3.0, class_balance="list", num_trials=1),
    _kl(_POINTWISE, max_label=3.0, class_balance=None, from_logits=False),
    _kl(
        _MULTINOMIAL,
        wrong.GRADES + wrong.CLASS,
        MultinomialOfScores,
    ),
    _kl(
        _MULTINOMIAL,
        (),
        MultinomialOfScores,
        grade_values=[0.0, 0.75, 1.0],
        relevance_threshold=0.5,
        class_balance="list",
    ),
    _kl(_MULTINOMIAL, (), MultinomialOfScores, class_balance=None, from_logits=False),
    _kl(_BINOMIAL, wrong.TRIALS + wrong.PAIRWISE),
    _kl(_BINOMIAL, num_trials=3, margin=0.5, symmetric=True),
    _kl(_BINOMIAL, margin=0.0, num_trials=100),
    _kl(_BINOMIAL, from_logits=False, margin=2.0),
    _kl(_GAUSSIAN, wrong.SIGMA + wrong.PAIRWISE),
    _kl(_GAUSSIAN, sigma=0.05, margin=3.0, symmetric=True),
    _kl(_GAUSSIAN, from_logits=False, margin=0.2),
    _kl(
        _LISTWISE,
        wrong.SIGMA + wrong.MAX_LABEL + wrong.CLASS,
        max_label=3.0,
    ),
    _kl(_LISTWISE, max_label=3.0, relevance_threshold=0.5, class_balance="batch"),
    _kl(_LISTWISE, max_label=3.0, sigma=0.1, class_balance=None, from_logits=False),
]

CASES: list[LossCase] = [
    LossCase("smoothi_loss", invalid=wrong.SMOOTHI),
    LossCase("smoothi_loss", {"topn": 3, "alpha": 10.0}),
    LossCase("smoothi_loss", {"delta": 1e-12}),
    LossCase("smoothi_loss", {"alpha": SCHEDULE}),
    LossCase("smoothi_loss", {"metric": "ndcg", "stop_gradient": False}),
    LossCase("smoothi_loss", {"metric": "precision", "topn": 2, "delta": 0.3}),
    LossCase("smoothi_loss", {"metric": "map"}),
    LossCase("smoothi_loss", {"metric": "recall", "topn": 3}),
    LossCase("smoothi_loss", {"metric": "hits", "topn": 3, "stop_gradient": False}),
    LossCase("smoothi_loss", {"metric": "arp"}),
    LossCase("smoothi_loss", {"metric": "arp", "topn": 2}),
    LossCase("smoothi_loss", {"metric": "mrr", "stop_gradient": False, "topn": 4}),
    LossCase("smoothi_loss", {"metric": "err", "max_label": 3.0}),
    LossCase("smoothi_loss", {"gain": "power"}),
    LossCase("smoothi_loss", {"gain": "power", "topn": 2}),
    LossCase("smoothi_loss", {"gain": "linear"}),
    LossCase("pirank_ndcg_loss", invalid=wrong.PIRANK),
    LossCase("pirank_ndcg_loss", {"topn": 2, **_SMOOTH}),
    LossCase("pirank_ndcg_loss", {"topn": None, **_SMOOTH}),
    LossCase("pirank_ndcg_loss", {"topn": 70, **_SMOOTH}),
    LossCase("pirank_ndcg_loss", {**_TREE, **_SMOOTH}, by_position=True),
    LossCase("pirank_ndcg_loss", {"gain": "power"}),
    LossCase("pirank_ndcg_loss", {**_TREE, "gain": "power"}, by_position=True),
    LossCase(
        "pirank_ndcg_loss",
        {"depth": 3, "branching": [2, 2, 2], "merge_temperatures": [1.0, 2.0, 5.0]},
        by_position=True,
    ),
    LossCase("pirank_arp_loss", invalid=wrong.PIRANK[:8]),
    LossCase("pirank_arp_loss", {"topn": 2, **_SMOOTH}),
    LossCase("pirank_arp_loss", {**_TREE, **_SMOOTH, "topn": None}, by_position=True),
    LossCase("neural_sort_cross_entropy_loss", invalid=wrong.PIRANK[:2]),
    LossCase("neural_sort_cross_entropy_loss", _SMOOTH),
    LossCase(
        "wass_rank_loss",
        {
            "regularization": 1.1e-6,
            "relevance_gap": 9e29,
            "gain_base": 999.0,
            "num_iterations": 2,
        },
        empty_is_zero=False,
    ),
    LossCase("wass_rank_loss", invalid=wrong.WASSRANK, empty_is_zero=False),
    LossCase(
        "wass_rank_loss",
        {"regularization": 5.0, "num_iterations": 3, "score_scale": 2.0},
        empty_is_zero=False,
    ),
    # Too sharp for copies by label.
    LossCase(
        "wass_rank_loss",
        {"regularization": 0.01, "relevance_gap": 0.0, "num_iterations": 2},
        empty_is_zero=False,
    ),
    *_KL_CASES,
    LossCase("list_net_loss", empty_is_zero=False, invalid=wrong.COMMON[1:]),
    LossCase("list_ap_loss", invalid=wrong.LIST_AP),
    LossCase("list_ap_loss", {"num_bins": 2, "relevance_threshold": 2.0}),
    LossCase("list_ap_loss", {"num_bins": 33}),
    LossCase("approx_metric_loss", invalid=wrong.APPROX),
    LossCase("approx_metric_loss", {"topn": 3, "alpha": 1.0, "beta": 2.0}),
    LossCase("approx_metric_loss", {"gain": "power"}),
    LossCase("approx_metric_loss", {"gain": "linear", "topn": 2}),
    LossCase("approx_metric_loss", {"metric": "precision", "topn": 2}),
    LossCase("approx_metric_loss", {"metric": "map", "alpha": 1.0}),
    LossCase("approx_metric_loss", {"metric": "map", "topn": 3, "beta": 1.0}),
    LossCase("soft_sort_loss", invalid=wrong.SOFT_SORT),
    LossCase("soft_sort_loss", {"form": "position"}),
    LossCase("soft_sort_loss", {"gain": "power", "topn": 3}),
    LossCase("soft_sort_loss", {"form": "position", "gain": "power"}),
    LossCase("soft_sort_loss", {"topn": 3, "temperature": 0.3}),
    LossCase("soft_sort_loss", {"topn": 70}),
    LossCase("soft_sort_loss", {"topn": 3, "form": "position", "beta": 2.0}),
    LossCase("soft_sort_loss", {"metric": "precision", "topn": 2}),
    LossCase("soft_sort_loss", {"metric": "map"}),
    LossCase("soft_sort_loss", {"metric": "map", "form": "position", "beta": 1.0}),
    LossCase("soft_sort_loss", {"metric": "arp", "topn": 2}),
    LossCase("soft_sort_loss", {"metric": "mrr"}),
    LossCase("soft_sort_loss", {"metric": "err", "max_label": 3.0}),
    LossCase("soft_sort_loss", {"temperature": SCHEDULE}),
    LossCase("fast_soft_rank_loss", invalid=wrong.SOFT_RANK),
    LossCase("fast_soft_rank_loss", {"topn": 3, "regularization": 5.0, "beta": 2.0}),
    LossCase("fast_soft_rank_loss", {"gain": "power", "topn": 2}),
    LossCase("fast_soft_rank_loss", {"metric": "precision", "topn": 2, "beta": 1.0}),
    LossCase("fast_soft_rank_loss", {"metric": "map", "regularization": 0.7}),
    LossCase("fast_soft_rank_loss", {"metric": "recall", "topn": 2}),
    LossCase("fast_soft_rank_loss", {"metric": "map", "topn": 3, "beta": 1.0}),
    LossCase("sinkhorn_sort_loss", invalid=wrong.SINKHORN),
    LossCase("sinkhorn_sort_loss", {"topn": 3, "regularization": 0.1, "beta": 2.0}),
    LossCase("sinkhorn_sort_loss", {"gain": "power"}),
    LossCase("sinkhorn_sort_loss", {"metric": "precision", "topn": 2}),
    LossCase(
        "sinkhorn_sort_loss",
        {"metric": "map", "regularization": 0.05, "num_iterations": 3, "beta": 1.0},
    ),
    # Too sharp for a kernel of numbers.
    LossCase("sinkhorn_sort_loss", {"regularization": 0.005, "num_iterations": 3}),
]

# The first case of each loss.
ONE_EACH: list[LossCase] = list({case.key: case for case in reversed(CASES)}.values())


def with_defaults() -> list[LossCase]:
    """Returns one case of each loss, the one without arguments if there is one."""
    plain = {case.key: case for case in CASES if not case.kwargs}
    return [plain.get(case.key, case) for case in ONE_EACH]


# All cases as parameters of tests: `make test` runs the first of each loss.
PARAMETERS = [
    pytest.param(case, marks=[] if case in ONE_EACH else pytest.mark.grid)
    for case in CASES
]

# What the classes above the losses do, `make test` asks of a loss of each of them.
OF_EACH_CLASS = (
    *("smoothi_loss", "list_net_loss", "pairwise_kl_gaussian_loss"),
    *("pointwise_kl_multinomial_loss", "pointwise_kl_binomial_loss"),
)
ONE_OF_EACH_CLASS = [
    pytest.param(case, marks=[] if case.key in OF_EACH_CLASS else pytest.mark.grid)
    for case in ONE_EACH
]

LABELS = [[2.0, 0.0, 1.0, 3.0, 0.0], [0.0, 1.0, 0.0, 0.0, 2.0]]
SCORES = [[0.3, -0.2, 1.7, 0.9, -1.1], [2.0, 0.1, -0.4, 1.2, 0.6]]


def batch(dtype=tf.float32):
    """Two lists of five items, one of them with a list of three inside padding."""
    labels = tf.constant(LABELS + [[1.0, 0.0, 2.0, -1.0, -1.0]])
    scores = tf.constant(SCORES + [[0.5, 0.2, 0.1, 7.0, -3.0]], dtype)
    return labels, scores


def assert_graph_equals_eager(case, shape, jit):
    labels, scores = batch()
    loss = case.build()
    value, slopes = value_and_gradient(loss, labels, scores)
    step = compiled(loss, *[tf.TensorSpec(shape)] * 2, jit=jit)
    graph_value, graph_slopes = step(labels, scores)
    np.testing.assert_allclose(graph_value, value, rtol=1e-5)
    np.testing.assert_allclose(graph_slopes, slopes, rtol=1e-4, atol=1e-6)
