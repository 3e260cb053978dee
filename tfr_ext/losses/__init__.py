"""Keras ranking losses, by class or by key.

Every loss follows the contract of `tfr_ext.losses.base.RankingLoss` and can be used
wherever a loss of `tfr.keras.losses` can.
"""

from __future__ import annotations

import inspect
from typing import Any

import tensorflow as tf

from tfr_ext import _stack
from tfr_ext.core import checks
from tfr_ext.losses import tfr
from tfr_ext.losses.annealing import ExponentialToLimit, LossAnnealing
from tfr_ext.losses.approx_metric import ApproxMetricLoss
from tfr_ext.losses.base import (
    ItemwiseLoss,
    ListwiseLoss,
    RankingLoss,
)
from tfr_ext.losses.fast_soft_rank import FastSoftRankLoss
from tfr_ext.losses.jit_compiled import JitCompiledLoss
from tfr_ext.losses.kl.listwise import ListwiseKLGaussianLoss
from tfr_ext.losses.kl.pairwise import PairwiseKLBinomialLoss, PairwiseKLGaussianLoss
from tfr_ext.losses.kl.pointwise import (
    PointwiseKLBinomialLoss,
    PointwiseKLMultinomialLoss,
)
from tfr_ext.losses.list_ap import ListAPLoss
from tfr_ext.losses.list_net import ListNetLoss
from tfr_ext.losses.metric_loss import MetricLoss, NamedMetricLoss
from tfr_ext.losses.neural_sort import NeuralSortCrossEntropyLoss
from tfr_ext.losses.pirank import PiRankARPLoss, PiRankNDCGLoss
from tfr_ext.losses.sinkhorn_sort import SinkhornSortLoss
from tfr_ext.losses.smoothi import SmoothILoss
from tfr_ext.losses.soft_sort import SoftSortLoss
from tfr_ext.losses.wass_rank import WassRankLoss

__all__ = [
    "ApproxMetricLoss",
    "ExponentialToLimit",
    "FastSoftRankLoss",
    "ItemwiseLoss",
    "JitCompiledLoss",
    "ListAPLoss",
    "ListNetLoss",
    "ListwiseKLGaussianLoss",
    "ListwiseLoss",
    "LossAnnealing",
    "MetricLoss",
    "NamedMetricLoss",
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
    "SoftSortLoss",
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
        ListNetLoss,
        ListAPLoss,
        ApproxMetricLoss,
        SoftSortLoss,
        FastSoftRankLoss,
        SinkhornSortLoss,
    )
}
# This makes `compile(loss='smoothi_loss')` work in Keras 2. Keras 3 looks up only its
# own losses by name.
tf.keras.utils.get_custom_objects().update(_LOSSES)


def keys() -> list[str]:
    """Returns the keys that `get` knows: ours, then those of `tfr.keras.losses`.

    The latter are left out if TensorFlow Ranking cannot be imported.
    """
    return [*_LOSSES, *([] if _stack.tfr_problem() else tfr.names.LOSSES)]


def get(
    loss: str,
    reduction: str = "auto",
    name: str | None = None,
    **kwargs: Any,
) -> tf.keras.losses.Loss:
    """Builds a loss of this package, or one of TensorFlow Ranking's, by its key.

    The latter are TensorFlow Ranking's classes with some faults fixed, see
    `tfr_ext.losses.tfr`. Those that take a lambda weight also accept its name.

    Args:
        loss: a key, such as 'smoothi_loss' or 'approx_ndcg_loss'; see `keys()`.
        reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
        name: name of the loss.
        **kwargs: arguments of the loss class.

    Returns:
        A Keras loss.

    Raises:
        ValueError: If the key is unknown, or the loss has no such argument; the message
            lists similar names.
        ImportError: If the loss is TensorFlow Ranking's, and TensorFlow Ranking cannot
            be imported.

    Examples:
        >>> get('smoothi_loss', alpha=2.0).get_config()['alpha']
        2.0
        >>> type(get('approx_ndcg_loss', temperature=1.0)).__name__
        'ApproxNDCGLoss'
        >>> ndcg = {'lambda_weight': 'ndcg', 'lambda_weight_params': {'topn': 10}}
        >>> type(get('pairwise_logistic_loss', **ndcg)).__name__
        'PairwiseLogisticLoss'
    """
    for argument in kwargs:
        check_parameter(loss, argument)
    return _loss_class(loss)(reduction=reduction, name=name, **kwargs)


def parameters(loss: str) -> list[str]:
    """Returns the names of the parameters that `get` takes for a loss.

    Args:
        loss: a key.

    Raises:
        ValueError: If the key is unknown.
    """
    cls = _loss_class(loss)
    if not issubclass(cls, RankingLoss):  # one of TensorFlow Ranking
        return cls.parameters()
    return [
        parameter.name
        for parameter in inspect.signature(cls.__init__).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        and parameter.name not in ("self", "reduction", "name")
    ]


def check_parameter(loss: str, argument: str) -> None:
    """Checks that a loss has a parameter.

    Args:
        loss: a key.
        argument: name of the parameter.

    Raises:
        ValueError: If it has no parameter of that name; the message lists similar
            names.
    """
    known = parameters(loss)
    if argument in known:
        return
    message = (
        f"{loss!r} has no parameter {argument!r}{checks.near(argument, known)} "
        f"Its parameters are: {', '.join(known)}."
    )
    if argument.startswith("lambda_weight"):
        takers = ["losses of TensorFlow Ranking"]
        if _stack.tfr_problem() is None:
            takers = [key for key, cls in tfr.LOSSES.items() if cls.LAMBDA_WEIGHTS]
        message += f" Lambda weights are for: {', '.join(takers)}."
    raise ValueError(message)


def _loss_class(loss: str) -> Any:
    cls = _LOSSES.get(loss)
    if cls is None and loss in tfr.names.LOSSES:
        cls = tfr.LOSSES[loss]
    if cls is None:
        raise ValueError(
            f"Unknown loss {loss!r}{checks.near(loss, keys())} "
            f"The known losses are: {', '.join(keys())}."
        )
    return cls


def __dir__() -> list[str]:
    """Lists the public names."""
    return [*__all__]
