"""TensorFlow Ranking's lambda weights, built from names and plain values.

A lambda weight multiplies the pairs of a pairwise loss, or the labels or ranks of a
listwise one, so that the loss follows a metric (LambdaLoss).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow_ranking as tfr
from tensorflow_ranking.python.losses_impl import _LambdaWeight as LambdaWeight

from tfr_ext.core import checks, which_keras
from tfr_ext.losses.tfr.names import LAMBDA_WEIGHTS

__all__ = ["AtLeast", "LambdaWeight", "get", "names", "of_kinds", "resolve"]

_WEIGHTS: dict[str, type] = {
    "ndcg": tfr.keras.losses.NDCGLambdaWeight,
    "ndcg_v2": tfr.keras.losses.NDCGLambdaWeightV2,
    "dcg": tfr.keras.losses.DCGLambdaWeight,
    "yeti_dcg": tfr.keras.losses.YetiDCGLambdaWeight,
    "precision": tfr.keras.losses.PrecisionLambdaWeight,
    "label_diff": tfr.keras.losses.LabelDiffLambdaWeight,
    "list_mle": tfr.keras.losses.ListMLELambdaWeight,
}
# Without these, TensorFlow Ranking fails when the loss is computed.
_REQUIRED = {"precision": "topn", "list_mle": "rank_discount"}

_GAINS = {
    "exponential": tfr.keras.utils.pow_minus_1,
    "linear": tfr.keras.utils.identity,
}
_DISCOUNTS = {
    "log2": tfr.keras.utils.log2_inverse,
    "inverse": tfr.keras.utils.inverse,
}


@which_keras.register
class AtLeast:
    """Marks labels that reach a threshold; it can be saved with a model."""

    def __init__(self, threshold: float):
        """Initialises the function.

        Args:
            threshold: the lowest label that is relevant.
        """
        self._threshold = checks.positive("relevance_threshold", threshold)

    def __call__(self, label: tf.Tensor) -> tf.Tensor:
        """Returns whether each label is relevant."""
        return tf.greater_equal(label, self._threshold)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this function."""
        return {"threshold": self._threshold}


def _smooth_fraction(argument: str, value: Any) -> float:
    if checks.not_negative(argument, value) > 1:
        raise ValueError(f"`{argument}` must be at most 1. Received: {value!r}.")
    return float(value)


# For each parameter, TensorFlow Ranking's name for it and a converter of its value.
_ARGUMENTS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "topn": ("topn", checks.cut_off),
    "gain": ("gain_fn", lambda a, v: _GAINS[checks.choice(a, v, list(_GAINS))]),
    "rank_discount": (
        "rank_discount_fn",
        lambda a, v: _DISCOUNTS[checks.choice(a, v, list(_DISCOUNTS))],
    ),
    "normalized": ("normalized", checks.boolean),
    "smooth_fraction": ("smooth_fraction", _smooth_fraction),
    "relevance_threshold": ("positive_fn", lambda _, v: AtLeast(v)),
}


def names() -> list[str]:
    """Returns the names that `get` knows."""
    return list(LAMBDA_WEIGHTS)


def get(name: str, **params: Any) -> LambdaWeight:
    """Builds a lambda weight of `tfr.keras.losses` by name.

    Args:
        name: 'ndcg', 'ndcg_v2', 'dcg', 'yeti_dcg', 'precision', 'label_diff' or
            'list_mle'.
        **params: its parameters, from `topn`; `gain`, 'exponential' or 'linear';
            `rank_discount`, 'log2' or 'inverse'; `normalized`; `smooth_fraction`; and
            `relevance_threshold`. Parameters that are left out take TensorFlow
            Ranking's defaults.

    Raises:
        ValueError: If the name or a parameter is unknown (the message lists similar
            names), missing or out of range.

    Examples:
        >>> weight = get('ndcg', topn=10)
        >>> type(weight).__name__, weight.get_config()['topn']
        ('NDCGLambdaWeight', 10)
    """
    if name not in _WEIGHTS:
        raise ValueError(
            f"Unknown lambda weight {name!r}{checks.near(name, names())} "
            f"The known lambda weights are: {', '.join(names())}."
        )
    known = LAMBDA_WEIGHTS[name]
    arguments = {}
    for parameter, value in params.items():
        if parameter not in known:
            raise ValueError(
                f"The lambda weight {name!r} has no parameter {parameter!r}"
                f"{checks.near(parameter, list(known))} "
                f"Its parameters are: {', '.join(known) or 'none'}."
            )
        argument, convert = _ARGUMENTS[parameter]
        arguments[argument] = convert(parameter, value)
    required = _REQUIRED.get(name)
    if required and params.get(required) is None:
        raise ValueError(f"The lambda weight {name!r} needs `{required}`.")
    return _WEIGHTS[name](**arguments)


def resolve(
    weight: str | LambdaWeight | None, params: Mapping[str, Any] | None
) -> LambdaWeight | None:
    """Returns the lambda weight passed to a loss, by name or as an instance.

    Args:
        weight: a name that `get` knows, an instance, or None.
        params: the parameters, if `weight` is a name.

    Raises:
        ValueError: If the two do not fit together, or `get` rejects them.
    """
    if isinstance(weight, str):
        return get(weight, **(params or {}))
    if params:
        raise ValueError(
            "`lambda_weight_params` needs the name of a `lambda_weight`. "
            f"Received: lambda_weight={weight!r}, lambda_weight_params={params!r}."
        )
    if weight is not None and not isinstance(weight, LambdaWeight):
        raise ValueError(
            "`lambda_weight` must be a name or a lambda weight of tfr.keras.losses. "
            f"Received: {weight!r}."
        )
    return weight


def of_kinds(kinds: tuple[type, ...]) -> list[str]:
    """Returns the names of the lambda weights of the given classes."""
    return [name for name, cls in _WEIGHTS.items() if issubclass(cls, kinds)]
