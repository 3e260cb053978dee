"""TensorFlow Ranking's own losses, with fixes for the faults that can be fixed.

Each class subclasses TensorFlow Ranking's and computes the same value for lists without
padding whose scores are not far apart. It takes the same inputs as the losses of this
package, its means are over real items, and padding does not change it. `caveats()`
lists the faults that remain. The original classes are in `tfr.keras.losses`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow_ranking as tfr
from tensorflow_ranking.python import losses_impl

from tfr_ext.core import checks, inputs, masked, which_keras
from tfr_ext.core.inputs import TensorLike
from tfr_ext.losses import base
from tfr_ext.losses.tfr import computations, lambda_weights, names
from tfr_ext.losses.tfr.fixed import (
    RANDOM,
    TIES,
    Itemwise,
    Pairwise,
    Sampled,
    TFRLoss,
)


@base.register
class PairwiseHingeLoss(Pairwise, tfr.keras.losses.PairwiseHingeLoss):
    """TensorFlow Ranking's loss of the same name."""

    IMPL = computations.PairwiseHinge


@base.register
class PairwiseLogisticLoss(Pairwise, tfr.keras.losses.PairwiseLogisticLoss):
    """TensorFlow Ranking's loss of the same name."""

    IMPL = computations.PairwiseLogistic


@base.register
class PairwiseSoftZeroOneLoss(Pairwise, tfr.keras.losses.PairwiseSoftZeroOneLoss):
    """TensorFlow Ranking's loss of the same name."""


@base.register
class PairwiseMSELoss(Pairwise, tfr.keras.losses.PairwiseMSELoss):
    """TensorFlow Ranking's loss of the same name."""

    IMPL = computations.PairwiseMSE


@base.register
class YetiLogisticLoss(Sampled, Pairwise, tfr.keras.losses.YetiLogisticLoss):
    """TensorFlow Ranking's loss of the same name."""

    IMPL = computations.PairwiseLogistic
    LAMBDA_WEIGHTS = (losses_impl.YetiDCGLambdaWeight,)


@base.register
class SigmoidCrossEntropyLoss(Itemwise, tfr.keras.losses.SigmoidCrossEntropyLoss):
    """TensorFlow Ranking's loss of the same name."""

    CAVEATS = (
        "treats labels as probabilities; a label above 1 rewards a higher score "
        "without bound",
    )


@base.register
class MeanSquaredLoss(Itemwise, tfr.keras.losses.MeanSquaredLoss):
    """TensorFlow Ranking's loss of the same name."""


@base.register
class OrdinalLoss(Itemwise, tfr.keras.losses.OrdinalLoss):
    """TensorFlow Ranking's loss of the same name.

    Scores have shape `[batch, list, ordinal_size]`. Its configuration has all
    arguments, unlike TensorFlow Ranking's.
    """

    def __init__(
        self,
        *args: Any,
        ordinal_size: int = 1,
        use_fraction_label: bool = False,
        **kwargs: Any,
    ):
        """Initialises the loss with the arguments of TensorFlow Ranking's."""
        kwargs["ordinal_size"] = checks.at_least("ordinal_size", ordinal_size, 1)
        kwargs["use_fraction_label"] = checks.boolean(
            "use_fraction_label", use_fraction_label
        )
        super().__init__(*args, **kwargs)
        self._ordinals = {
            name: kwargs[name] for name in ("ordinal_size", "use_fraction_label")
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this loss."""
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


class _SoftmaxLoss(TFRLoss):
    LAMBDA_WEIGHTS = (losses_impl.DCGLambdaWeight,)

    def _check_lambda_weight(self, weight: lambda_weights.LambdaWeight) -> None:
        super()._check_lambda_weight(weight)
        if weight._smooth_fraction:
            self._refuse("smooth_fraction", "it blends the weights of pairs")
        if weight._topn is not None and not weight._normalized:
            self._refuse("topn", "without `normalized` it cuts off pairs")

    def _refuse(self, parameter: str, why: str) -> None:
        raise ValueError(
            f"`{parameter}` of a lambda weight has no effect in {type(self).__name__}: "
            f"{why}, and this loss has no pairs. Leave it out."
        )

    def caveats(self) -> list[str]:
        return [] if self._lambda_weight is None else [TIES.format("scores")]


@base.register
class SoftmaxLoss(_SoftmaxLoss, tfr.keras.losses.SoftmaxLoss):
    """TensorFlow Ranking's loss of the same name."""

    def _cleaned(self, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        # Padding counts as a score of log(1e-10), which must not be a high one.
        best = tf.where(mask, scores, scores.dtype.min)
        best = tf.reduce_max(best, axis=1, keepdims=True)
        return super()._cleaned(scores - tf.stop_gradient(best), mask)


@base.register
class CalibratedSoftmaxLoss(_SoftmaxLoss, tfr.keras.losses.CalibratedSoftmaxLoss):
    """TensorFlow Ranking's loss of the same name; it takes ragged tensors as well."""

    @which_keras.not_converted
    def __call__(
        self,
        y_true: TensorLike,
        y_pred: TensorLike,
        sample_weight: TensorLike | None = None,
    ) -> tf.Tensor:
        """Computes the reduced, weighted loss; see `TFRLoss`."""
        labels, scores, weights = self._clean(y_true, y_pred, sample_weight)
        zeros = tf.zeros([masked.batch_size(labels), 1])
        with_virtual = (
            tf.concat([labels, zeros + self._virtual_label], axis=1),
            tf.concat([scores, zeros], axis=1),
            weights,
        )
        # Not TensorFlow Ranking's method, which needs a static list size.
        return super(tfr.keras.losses.CalibratedSoftmaxLoss, self).__call__(
            *with_virtual
        )

    def _weights(
        self, sample_weight: TensorLike | None, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor | None:
        weights = super()._weights(sample_weight, labels, mask)
        if weights is None:
            return None
        # The virtual item takes the weight of the list; next to item weights, its
        # weight is 1.
        virtual = tf.ones([masked.batch_size(labels), 1])
        if not isinstance(sample_weight, tf.RaggedTensor):
            given = inputs.of_known_rank(sample_weight, labels)
            given = tf.cast(given, tf.float32)
            if given.shape.rank == 2:
                of_list = tf.equal(masked.list_size(given), 1)
                first = tf.reduce_sum(given[:, :1], axis=1, keepdims=True)
                virtual = tf.where(of_list, first, virtual)
            else:
                virtual *= given[:, tf.newaxis] if given.shape.rank else given
        return tf.concat([weights, virtual], axis=1)


@base.register
class UniqueSoftmaxLoss(TFRLoss, tfr.keras.losses.UniqueSoftmaxLoss):
    """TensorFlow Ranking's loss of the same name."""

    IMPL = computations.UniqueSoftmax


@base.register
class ListMLELoss(TFRLoss, tfr.keras.losses.ListMLELoss):
    """TensorFlow Ranking's loss of the same name, see `computations`."""

    LAMBDA_WEIGHTS = (losses_impl.ListMLELambdaWeight,)
    CAVEATS = (TIES.format("labels"),)
    IMPL = computations.ListMLE


@base.register
class ApproxNDCGLoss(TFRLoss, tfr.keras.losses.ApproxNDCGLoss):
    """TensorFlow Ranking's loss of the same name."""


@base.register
class ApproxMRRLoss(TFRLoss, tfr.keras.losses.ApproxMRRLoss):
    """TensorFlow Ranking's loss of the same name."""


@base.register
class GumbelApproxNDCGLoss(Sampled, tfr.keras.losses.GumbelApproxNDCGLoss):
    """TensorFlow Ranking's loss of the same name."""


@base.register
class CoupledRankDistilLoss(TFRLoss, tfr.keras.losses.CoupledRankDistilLoss):
    """TensorFlow Ranking's loss of the same name, see `computations`."""

    CAVEATS = (RANDOM,)

    def __init__(self, *args: Any, **kwargs: Any):
        """Initialises the loss."""
        super().__init__(*args, **kwargs)
        self._loss = computations.CoupledRankDistil(
            self._loss.name, self._sample_size, self._topk, self._temperature
        )


LOSSES: dict[str, type[TFRLoss]] = {
    key: globals()[name] for key, name in names.LOSSES.items()
}
"""The classes by key, such as 'softmax_loss'."""
