"""Each argument of a loss or metric has an effect, or is refused.

Found by trying: from every way to build a loss with one switch set, each other argument
takes another value. Either that changes the value or the gradient of some batch, or it
is a ValueError that names the argument. A default is never refused.
"""

import dataclasses
import inspect

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import value_and_gradient
from tests.losses import cases
from tfr_ext import losses, metrics, objectives

# Values of each argument; where one does not fit the others, the next is tried.
VALUES = {
    "alpha": [3.0],
    "beta": [2.0],
    "branching": [[3, 2], [3]],
    "class_balance": ["list", "batch", None],
    "delta": [0.3],
    "depth": [2],
    "empty_list": ["one"],
    "form": ["position"],
    "from_logits": [False],
    "gain": ["linear", "power"],
    "gain_base": [2.0],
    "grade_values": [[-1.0, 0.9, 1.0]],
    "label_values": [[0.0, 2.0, 2.5]],
    "margin": [0.3],
    "max_label": [4.0],
    "merge_temperatures": [[2.0, 5.0], [5.0]],
    "merge_topn": [[2, 1], [4, 3], [1], [3], [10]],
    "metric": objectives.names(),
    "num_bins": [7],
    "num_iterations": [3],
    "num_trials": [5],
    "regularization": [0.5],
    "relevance_gap": [0.0],
    "relevance_threshold": [2.0, 0.5],
    "score_scale": [2.0],
    "sigma": [0.7],
    "stop_gradient": [False],
    "straight_through": [False],
    "symmetric": [True],
    "temperature": [2.0],
    "topn": [1, 3, 10],
    "variance_penalty": [1.0],
}
# What some values need, or need for others to fit.
NEEDS = {
    ("depth", 2): {"topn": 3},
    ("form", "position"): {"topn": 3},
    ("metric", "precision"): {"topn": 3},
    ("metric", "recall"): {"topn": 3},
    ("metric", "hits"): {"topn": 3},
    ("metric", "err"): {"max_label": 3.0},
    ("metric", "nerr"): {"max_label": 3.0},
}
# Of the contract of all, and what Keras has.
CONTRACT = ("ragged", "reduction", "name", "dtype", "self", "kwargs")

_RNG = np.random.default_rng(0)
LABELS = np.array(
    [
        _RNG.integers(0, 4, 13),
        [0, 3, 1, 2, 1, 0, 1, 0, 0, 2, 1, 3, 2],
        [1, 0, 2, 0, 3, *[-1] * 8],
        [0, 2, 2, *[-1] * 10],
        [0, 0.05, 0.1, 0, 0.1, *[-1] * 8],
        [0] * 13,
    ],
    np.float64,
)
SCORES = _RNG.normal(size=LABELS.shape) / 2 + 0.4
# For metrics of grades: more lists, the last of them empty.
_SHAPE = (10 * len(LABELS), *LABELS.shape[1:])
DISTRIBUTIONS = _RNG.dirichlet([2.0, 0.5, 0.5], _SHAPE).astype(np.float32)
DISTRIBUTIONS[-1] = [1, 0, 0]
LOGITS = _RNG.normal(size=[*_SHAPE, 3]).astype(np.float32)


def of_loss(key):
    """The parameters of a loss, how to build it, and what it computes."""
    first = next(case for case in cases.ONE_EACH if case.key == key)

    def compute(loss):
        value, slopes = value_and_gradient(loss, LABELS, SCORES)
        return np.append(slopes, value.ravel())

    def build(**kwargs):
        return dataclasses.replace(first, kwargs=kwargs).build(reduction="none")

    return losses.parameters(key), build, compute


def of_metric(cls):
    """The same of a metric."""
    known = [*inspect.signature(cls.__init__).parameters]
    needed = {}
    if "kwargs" in known:
        known += inspect.signature(metrics.RankingMetric.__init__).parameters
        needed["grade_values"] = [0.0, 0.5, 1.0]
    if cls is metrics.ERRMetric:
        needed["max_label"] = 3.0

    def compute(metric):
        y, s = tf.constant(LABELS, tf.float32), tf.constant(SCORES, tf.float32)
        if cls is metrics.ExpectedGradeMetric:
            y, s = tf.constant(DISTRIBUTIONS), tf.constant(LOGITS)
        found = []
        for scores in (s, -s):
            metric.reset_state()
            found.append(float(metric(y, scores)))
        return np.array(found)

    return known, lambda **kwargs: cls(**{**needed, **kwargs}), compute


METRICS = (
    metrics.RankingMetric,
    metrics.ERRMetric,
    metrics.ExpectedGradeMetric,
    metrics.SinkhornErrorMetric,
)
ALL = {
    **{case.key: lambda key=case.key: of_loss(key) for case in cases.ONE_EACH},
    **{cls.__name__: lambda cls=cls: of_metric(cls) for cls in METRICS},
}


def starting_points(known, build):
    """The defaults, and each value of each switch: of what is not a plain number."""
    yield {}
    for switch in known:
        for value in VALUES[switch]:
            if isinstance(value, float):
                continue
            key = (switch, str(value) if isinstance(value, list) else value)
            needs = {k: v for k, v in NEEDS.get(key, {}).items() if k in known}
            # Without a cut-off precision is the same for any ranking.
            for start in [needs] if switch == "metric" or not needs else [{}, needs]:
                try:
                    build(**start, **{switch: value})
                except ValueError:
                    continue
                yield {**start, switch: value}


@pytest.mark.first_case
@pytest.mark.parametrize("name", ALL)
def test_every_argument_has_an_effect_or_is_refused(name):
    known, build, compute = ALL[name]()
    known = [argument for argument in known if argument not in CONTRACT]
    effective = set()
    for start in starting_points(known, build):
        config = build(**start).get_config()
        before = compute(build(**start))
        for argument in known:
            # The default, or what the start has, is always taken.
            assert build(**{**start, argument: config[argument]})
            for value in VALUES[argument]:
                if value == config[argument]:
                    continue
                try:
                    changed = build(**{**start, argument: value})
                except ValueError as error:
                    assert any(f"`{name}`" in str(error) for name in known), error
                    continue
                after = compute(changed)
                assert (after != before).any(), (
                    f"{argument}={value!r} does nothing with {start}"
                )
                effective.add(argument)
                break
    assert effective == {*known}


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (
            lambda: losses.SmoothILoss(max_label=2.0),
            "`max_label` has an effect only with metric 'err' or 'nerr': leave it out. "
            "Received: 2.0.",
        ),
        (
            lambda: losses.SoftSortLoss(beta=3.0, topn=2),
            "`beta` has an effect only with form 'position': leave it out. "
            "Received: 3.0.",
        ),
        (
            lambda: metrics.RankingMetric("opa", gain="linear"),
            "`gain` has an effect only with metric 'dcg' or 'ndcg': leave it out. "
            "Received: 'linear'.",
        ),
    ],
)
def test_what_is_told(build, told):
    with pytest.raises(ValueError) as error:
        build()
    assert str(error.value) == told
