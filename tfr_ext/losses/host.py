"""TensorFlow Ranking's own losses, with the faults mended that can be.

Each class is TensorFlow Ranking's and computes the same on lists without padding and
with scores that are not far apart. It takes the inputs that the losses of this package
take, its means are over real items, and padding does not change it. What remains is
told by `caveats()`. Whoever wants the untouched class has `tfr.keras.losses`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any, Callable, ClassVar

import tensorflow as tf
import tensorflow_ranking as tfr
from tensorflow_ranking.python import losses_impl

from tfr_ext import checks, inputs, masked
from tfr_ext.inputs import TensorLike
from tfr_ext.losses import base, lambda_weights, plackett_luce

_Keys = tfr.keras.losses.RankingLossKey

_RESUMED = "a run that is interrupted ends with other numbers than an undisturbed one"
_RANDOM = f"draws random numbers; {_RESUMED}, and the draws depend on the padded size"
_TIES = f"puts items of equal {{}} in a random order; where there are any, {_RESUMED}"


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "temperature": checks.temperature,
    "gumbel_temperature": checks.temperature,
    "virtual_label": checks.positive,
    "sample_size": functools.partial(checks.at_least, least=1),
    "topk": functools.partial(checks.at_least, least=1),
    "seed": functools.partial(checks.at_least, least=0),
}


class HostLoss(tf.keras.losses.Loss):
    """What the losses of TensorFlow Ranking get from this package.

    Labels and scores may be of any number type and are computed in float32. Weights
    are None, a scalar, `[batch]` or `[batch, 1]` (one per list), or `[batch, list]`.
    """

    # Classes of the lambda weights that have an effect.
    LAMBDA_WEIGHTS: ClassVar[tuple[type, ...]] = ()
    # What cannot be mended, one line each.
    CAVEATS: ClassVar[tuple[str, ...]] = ()
    # Whether a constant added to all scores changes nothing, and so may be.
    SHIFTED: ClassVar[bool] = False

    # TensorFlow Ranking's.
    _loss: Any
    _lambda_weight: Any
    _temperature: float
    _sample_size: int
    _gumbel_temperature: float
    _seed: int | None

    def __init__(
        self,
        reduction: str = tf.keras.losses.Reduction.AUTO,
        name: str | None = None,
        *,
        ragged: bool = False,
        lambda_weight: str | lambda_weights.LambdaWeight | None = None,
        lambda_weight_params: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        """Initialises the loss.

        Args:
            reduction: a `tf.keras.losses.Reduction`.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            lambda_weight: a lambda weight, or the name of one.
            lambda_weight_params: parameters of a name, see `lambda_weights.get`.
            **kwargs: the other arguments of TensorFlow Ranking's class.

        Raises:
            ValueError: if the lambda weight is wrong, or the loss would ignore it.
        """
        for argument, check in _CHECKS.items():
            if kwargs.get(argument) is not None:
                kwargs[argument] = check(argument, kwargs[argument])
        weight = lambda_weights.resolve(lambda_weight, lambda_weight_params)
        if weight is not None:
            self._check_lambda_weight(weight)
            kwargs["lambda_weight"] = weight
        super().__init__(reduction=reduction, name=name, **kwargs)
        # Only after it: the parent gets what is dense already.
        self._ragged = checks.boolean("ragged", ragged)

    @classmethod
    def parameters(cls) -> list[str]:
        """Returns the names of the arguments, besides `reduction` and `name`."""
        host = next(c for c in cls.__mro__ if c.__module__ == tfr.keras.losses.__name__)
        own = [*inspect.signature(host).parameters, "ragged"]
        if cls.LAMBDA_WEIGHTS:
            own.insert(own.index("lambda_weight") + 1, "lambda_weight_params")
        else:
            own = [name for name in own if name != "lambda_weight"]
        shared = ("reduction", "name")
        return [name for name in dict.fromkeys(own) if name not in shared]

    def caveats(self) -> list[str]:
        """Returns what remains of the faults of TensorFlow Ranking's loss, a line each.

        They depend on the arguments.
        """
        return list(self.CAVEATS)

    def __call__(
        self,
        y_true: TensorLike,
        y_pred: TensorLike,
        sample_weight: TensorLike | None = None,
    ) -> tf.Tensor:
        """Computes the reduced, weighted loss; see `tfr_ext.losses.RankingLoss`."""
        labels, scores = self._dense(y_true, y_pred)
        mask = inputs.real_items(labels)
        weights = self._weights(sample_weight, labels, mask)
        # TensorFlow Ranking takes a label that is NaN for padding: it should be seen.
        is_nan = tf.math.is_nan(labels)
        shown = tf.where(is_nan, float("nan"), 0.0)
        scores = self._cleaned(scores, mask)
        scores += shown if scores.shape.rank == 2 else shown[..., tf.newaxis]
        return super().__call__(tf.where(is_nan, 0.0, labels), scores, weights)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that build this loss again."""
        return {**super().get_config(), "ragged": self._ragged}

    def _dense(
        self, y_true: TensorLike, y_pred: TensorLike
    ) -> tuple[tf.Tensor, tf.Tensor]:
        labels, scores = inputs.dense(y_true, y_pred, self._ragged)
        return tf.cast(labels, tf.float32), tf.cast(scores, tf.float32)

    def _weights(
        self, sample_weight: TensorLike | None, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor | None:
        if sample_weight is None:
            return None
        return inputs.item_weights(sample_weight, labels, self._ragged)

    def _cleaned(self, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns the scores with padding well below all real items.

        TensorFlow Ranking sets it some 1e-6 below, which rounding may undo.
        """
        scores = tf.where(mask, scores, 0)
        if self.SHIFTED:
            # Padding counts as a score of log(1e-10), which must not be a high one.
            top = tf.where(mask, scores, scores.dtype.min)
            scores -= tf.stop_gradient(tf.reduce_max(top, axis=1, keepdims=True))
        lowest = tf.where(mask, scores, scores.dtype.max)
        lowest = tf.stop_gradient(tf.reduce_min(lowest, axis=1, keepdims=True))
        return tf.where(mask, scores, lowest - tf.abs(lowest) - 1)

    def _check_lambda_weight(self, weight: lambda_weights.LambdaWeight) -> None:
        # ListMLE's has no weights of pairs.
        of_pairs = self.LAMBDA_WEIGHTS == _PAIRS
        if not isinstance(weight, self.LAMBDA_WEIGHTS) or (
            of_pairs and isinstance(weight, losses_impl.ListMLELambdaWeight)
        ):
            names = lambda_weights.of_kinds(self.LAMBDA_WEIGHTS)
            if of_pairs:
                names.remove("list_mle")
            raise ValueError(
                f"{type(self).__name__} ignores `lambda_weight` "
                f"{type(weight).__name__}. "
                f"Those with an effect are: {', '.join(names) or 'none'}."
            )


_PAIRS = (lambda_weights.LambdaWeight,)


class _ItemwiseLoss(HostLoss):
    """A pointwise or pairwise loss: its means are over lists, then real items."""

    def _weights(
        self, sample_weight: TensorLike | None, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        weights = inputs.item_weights(sample_weight, labels, self._ragged)
        if base.is_mean(self.reduction):
            weights *= masked.padded_per_real(mask, weights.dtype)
        return weights


class _PairwiseLoss(_ItemwiseLoss):
    LAMBDA_WEIGHTS = _PAIRS

    def _weights(
        self, sample_weight: TensorLike | None, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        weights = super()._weights(sample_weight, labels, mask)
        if isinstance(self._lambda_weight, losses_impl.AbstractDCGLambdaWeight):
            # It multiplies by the padded size, to be of a plain loss's magnitude.
            padded = masked.padded_per_real(mask, weights.dtype)
            weights = tf.math.divide_no_nan(weights, padded)
        return weights

    def caveats(self) -> list[str]:
        """See `HostLoss`."""
        by_rank = self._lambda_weight is not None and not isinstance(
            self._lambda_weight, losses_impl.LabelDiffLambdaWeight
        )
        return [*super().caveats(), *([_TIES.format("scores")] if by_rank else [])]


class _GumbelSampler(losses_impl.GumbelSampler):
    """TensorFlow Ranking's sampler; XLA compiles it where there are weights too."""

    def sample(
        self, labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
        labels, logits, _ = super().sample(labels, logits)
        if weights is not None:
            weights = tf.repeat(weights, self._sample_size, axis=0)
        return labels, logits, weights


class _SampledLoss(HostLoss):
    SHIFTED = True

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._gumbel_sampler = _GumbelSampler(
            self.name, self._sample_size, self._gumbel_temperature, self._seed
        )

    def caveats(self) -> list[str]:
        """See `HostLoss`."""
        return [_RANDOM]


@base.register
class PairwiseHingeLoss(_PairwiseLoss, tfr.keras.losses.PairwiseHingeLoss):
    """TensorFlow Ranking's loss of that name."""


@base.register
class PairwiseLogisticLoss(_PairwiseLoss, tfr.keras.losses.PairwiseLogisticLoss):
    """TensorFlow Ranking's loss of that name."""


@base.register
class PairwiseSoftZeroOneLoss(_PairwiseLoss, tfr.keras.losses.PairwiseSoftZeroOneLoss):
    """TensorFlow Ranking's loss of that name."""


@base.register
class PairwiseMSELoss(_PairwiseLoss, tfr.keras.losses.PairwiseMSELoss):
    """TensorFlow Ranking's loss of that name."""


@base.register
class YetiLogisticLoss(_SampledLoss, _PairwiseLoss, tfr.keras.losses.YetiLogisticLoss):
    """TensorFlow Ranking's loss of that name."""

    LAMBDA_WEIGHTS = (losses_impl.YetiDCGLambdaWeight,)


@base.register
class SigmoidCrossEntropyLoss(_ItemwiseLoss, tfr.keras.losses.SigmoidCrossEntropyLoss):
    """TensorFlow Ranking's loss of that name."""

    CAVEATS = (
        "takes labels for probabilities; one above 1 rewards a higher score without "
        "bound",
    )


@base.register
class MeanSquaredLoss(_ItemwiseLoss, tfr.keras.losses.MeanSquaredLoss):
    """TensorFlow Ranking's loss of that name."""


@base.register
class OrdinalLoss(_ItemwiseLoss, tfr.keras.losses.OrdinalLoss):
    """TensorFlow Ranking's loss of that name, of scores `[batch, list, ordinal_size]`.

    Its configuration has all arguments, which TensorFlow Ranking's has not.
    """

    def __init__(
        self,
        *args: Any,
        ordinal_size: int = 1,
        use_fraction_label: bool = False,
        **kwargs: Any,
    ):
        """See `tfr.keras.losses.OrdinalLoss`."""
        kwargs["ordinal_size"] = checks.at_least("ordinal_size", ordinal_size, 1)
        kwargs["use_fraction_label"] = checks.boolean(
            "use_fraction_label", use_fraction_label
        )
        super().__init__(*args, **kwargs)
        self._ordinals = {
            name: kwargs[name] for name in ("ordinal_size", "use_fraction_label")
        }

    def get_config(self) -> dict[str, Any]:
        """See `HostLoss`."""
        return {**super().get_config(), **self._ordinals}

    def _dense(
        self, y_true: TensorLike, y_pred: TensorLike
    ) -> tuple[tf.Tensor, tf.Tensor]:
        if isinstance(y_pred, tf.RaggedTensor):
            first = tf.ragged.map_flat_values(lambda s: s[:, 0], y_pred)
            scores = y_pred.to_tensor()
        else:
            scores = tf.convert_to_tensor(y_pred)
            if scores.shape.rank != 3:
                raise ValueError(
                    "`y_pred` must have the shape [batch, list, ordinal_size]. "
                    f"Received: y_pred {scores.shape}."
                )
            first = scores[..., 0]
        labels, _ = super()._dense(y_true, first)
        return labels, tf.cast(scores, tf.float32)

    def _cleaned(self, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        return inputs.where_real(mask, scores)


class _SoftmaxLoss(HostLoss):
    LAMBDA_WEIGHTS = (losses_impl.DCGLambdaWeight,)

    def caveats(self) -> list[str]:
        """See `HostLoss`."""
        return [] if self._lambda_weight is None else [_TIES.format("scores")]


@base.register
class SoftmaxLoss(_SoftmaxLoss, tfr.keras.losses.SoftmaxLoss):
    """TensorFlow Ranking's loss of that name."""

    SHIFTED = True


@base.register
class CalibratedSoftmaxLoss(_SoftmaxLoss, tfr.keras.losses.CalibratedSoftmaxLoss):
    """TensorFlow Ranking's loss of that name; it takes ragged tensors as well."""

    def _weights(
        self, sample_weight: TensorLike | None, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor | None:
        weights = super()._weights(sample_weight, labels, mask)
        if weights is None or isinstance(sample_weight, tf.RaggedTensor):
            return weights
        # A weight of the list is the virtual item's too: it stays one per list.
        given = tf.cast(sample_weight, tf.float32)
        if given.shape.rank == 1:
            return given[:, tf.newaxis]
        return given if given.shape.rank == 0 or given.shape[1] == 1 else weights


@base.register
class UniqueSoftmaxLoss(HostLoss, tfr.keras.losses.UniqueSoftmaxLoss):
    """TensorFlow Ranking's loss of that name."""


@base.register
class ListMLELoss(HostLoss, tfr.keras.losses.ListMLELoss):
    """TensorFlow Ranking's loss of that name, see `plackett_luce`."""

    LAMBDA_WEIGHTS = (losses_impl.ListMLELambdaWeight,)
    CAVEATS = (_TIES.format("labels"),)

    def __init__(self, *args: Any, **kwargs: Any):
        """See `HostLoss`."""
        super().__init__(*args, **kwargs)
        self._loss = plackett_luce.ListMLE(
            self._loss.name, self._lambda_weight, self._temperature
        )


@base.register
class ApproxNDCGLoss(HostLoss, tfr.keras.losses.ApproxNDCGLoss):
    """TensorFlow Ranking's loss of that name."""


@base.register
class ApproxMRRLoss(HostLoss, tfr.keras.losses.ApproxMRRLoss):
    """TensorFlow Ranking's loss of that name."""


@base.register
class GumbelApproxNDCGLoss(_SampledLoss, tfr.keras.losses.GumbelApproxNDCGLoss):
    """TensorFlow Ranking's loss of that name."""


@base.register
class CoupledRankDistilLoss(HostLoss, tfr.keras.losses.CoupledRankDistilLoss):
    """TensorFlow Ranking's loss of that name, see `plackett_luce`."""

    CAVEATS = (_RANDOM,)

    def __init__(self, *args: Any, **kwargs: Any):
        """See `HostLoss`."""
        super().__init__(*args, **kwargs)
        self._loss = plackett_luce.CoupledRankDistil(
            self._loss.name, self._sample_size, self._topk, self._temperature
        )


LOSSES: dict[str, type[HostLoss]] = {
    _Keys.PAIRWISE_HINGE_LOSS: PairwiseHingeLoss,
    _Keys.PAIRWISE_LOGISTIC_LOSS: PairwiseLogisticLoss,
    _Keys.PAIRWISE_SOFT_ZERO_ONE_LOSS: PairwiseSoftZeroOneLoss,
    _Keys.PAIRWISE_MSE_LOSS: PairwiseMSELoss,
    _Keys.YETI_LOGISTIC_LOSS: YetiLogisticLoss,
    _Keys.SOFTMAX_LOSS: SoftmaxLoss,
    _Keys.CALIBRATED_SOFTMAX_LOSS: CalibratedSoftmaxLoss,
    _Keys.UNIQUE_SOFTMAX_LOSS: UniqueSoftmaxLoss,
    _Keys.SIGMOID_CROSS_ENTROPY_LOSS: SigmoidCrossEntropyLoss,
    _Keys.MEAN_SQUARED_LOSS: MeanSquaredLoss,
    _Keys.ORDINAL_LOSS: OrdinalLoss,
    _Keys.LIST_MLE_LOSS: ListMLELoss,
    _Keys.APPROX_NDCG_LOSS: ApproxNDCGLoss,
    _Keys.APPROX_MRR_LOSS: ApproxMRRLoss,
    _Keys.GUMBEL_APPROX_NDCG_LOSS: GumbelApproxNDCGLoss,
    _Keys.COUPLED_RANKDISTIL_LOSS: CoupledRankDistilLoss,
}
