"""Keras ranking losses, by class or by key.

Every loss keeps the contract of `tfr_ext.losses.base.RankingLoss` and can be passed
wherever a loss of `tfr.keras.losses` can.
"""

from __future__ import annotations

import difflib
import inspect
from typing import Any

import tensorflow as tf
import tensorflow_ranking as tfr

from tfr_ext.losses.annealing import ExponentialToLimit, LossAnnealing
from tfr_ext.losses.approx_metric import ApproxMetricLoss
from tfr_ext.losses.base import (
    ItemwiseLoss,
    ListwiseLoss,
    MetricLoss,
    RankingLoss,
)
from tfr_ext.losses.kl import (
    ListwiseKLGaussianLoss,
    PointwiseKLBinomialLoss,
    PointwiseKLMultinomialLoss,
)
from tfr_ext.losses.kl_pairwise import (
    PairwiseKLBinomialLoss,
    PairwiseKLGaussianLoss,
)
from tfr_ext.losses.pirank import (
    NeuralSortCrossEntropyLoss,
    PiRankARPLoss,
    PiRankNDCGLoss,
)
from tfr_ext.losses.sinkhorn_sort import SinkhornSortLoss
from tfr_ext.losses.smoothi import SmoothILoss
from tfr_ext.losses.wassrank import WassRankLoss

__all__ = [
    "ApproxMetricLoss",
    "ExponentialToLimit",
    "ItemwiseLoss",
    "ListwiseKLGaussianLoss",
    "ListwiseLoss",
    "LossAnnealing",
    "MetricLoss",
    "NeuralSortCrossEntropyLoss",
    "PiRankARPLoss",
    "PiRankNDCGLoss",
    "PairwiseKLBinomialLoss",
    "PairwiseKLGaussianLoss",
    "PointwiseKLBinomialLoss",
    "PointwiseKLMultinomialLoss",
    "RankingLoss",
    "SinkhornSortLoss",
    "SmoothILoss",
    "WassRankLoss",
    "check_parameter",
    "get",
    "keys",
    "parameters",
]

_LOSSES: dict[str, type[RankingLoss]] = {
    cls.KEY: cls
    for cls in (
        SmoothILoss,
        PiRankNDCGLoss,
        PiRankARPLoss,
        NeuralSortCrossEntropyLoss,
        WassRankLoss,
        PointwiseKLBinomialLoss,
        PointwiseKLMultinomialLoss,
        PairwiseKLBinomialLoss,
        PairwiseKLGaussianLoss,
        ListwiseKLGaussianLoss,
        ApproxMetricLoss,
        SinkhornSortLoss,
    )
}


def keys() -> list[str]:
    """Returns the keys that `get` knows: ours, then those of `tfr.keras.losses`."""
    return [*_LOSSES, *tfr.keras.losses.RankingLossKey.all_keys()]


def get(
    loss: str,
    reduction: str = tf.keras.losses.Reduction.AUTO,
    name: str | None = None,
    **kwargs: Any,
) -> tf.keras.losses.Loss:
    """Builds a loss by key: one of this package, else one of TensorFlow Ranking.

    Args:
        loss: a key, such as 'smoothi_loss' or 'approx_ndcg_loss'; see `keys()`.
        reduction: a `tf.keras.losses.Reduction`.
        name: name of the loss.
        **kwargs: arguments of the loss class.

    Returns:
        A Keras loss.

    Raises:
        ValueError: if the key is unknown, or the loss has no such argument; the
            message lists what comes near.

    Examples:
        >>> get('smoothi_loss', alpha=2.0).get_config()['alpha']
        2.0
        >>> type(get('approx_ndcg_loss', temperature=1.0)).__name__
        'ApproxNDCGLoss'
    """
    for argument in kwargs:
        check_parameter(loss, argument)
    return _loss_class(loss)(reduction=reduction, name=name, **kwargs)


def parameters(loss: str) -> list[str]:
    """Returns the names of the parameters that `get` takes for a loss.

    Args:
        loss: a key.

    Raises:
        ValueError: if the key is unknown.
    """
    return [
        parameter.name
        for parameter in inspect.signature(
            _loss_class(loss).__init__
        ).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        and parameter.name not in ("self", "reduction", "name")
    ]


def check_parameter(loss: str, argument: str) -> None:
    """Checks that a loss has a parameter.

    Args:
        loss: a key.
        argument: name of the parameter.

    Raises:
        ValueError: if it has none of that name; the message lists what comes near.
    """
    known = parameters(loss)
    if argument not in known:
        raise ValueError(
            f"{loss!r} has no parameter {argument!r}"
            f"{_near(argument, known)} Its parameters are: {', '.join(known)}."
        )


def _loss_class(loss: str) -> type[tf.keras.losses.Loss]:
    if loss in _LOSSES:
        return _LOSSES[loss]
    if loss in tfr.keras.losses.RankingLossKey.all_keys():
        # TensorFlow Ranking maps keys to classes inside its own `get` only.
        return type(tfr.keras.losses.get(loss))
    raise ValueError(
        f"Unknown loss {loss!r}{_near(loss, keys())} "
        f"The known losses are: {', '.join(keys())}."
    )


def _near(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=3)
    return f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else "."
