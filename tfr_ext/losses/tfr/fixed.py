"""The base classes of TensorFlow Ranking's losses, which fix faults of each kind."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import tensorflow as tf
import tensorflow_ranking as tfr
from tensorflow_ranking.python import losses_impl

from tfr_ext.core import checks, inputs, masked, which_keras
from tfr_ext.core.inputs import TensorLike
from tfr_ext.losses.tfr import computations, lambda_weights

RESUMED = "a run that is interrupted ends with other numbers than an undisturbed one"
RANDOM = f"draws random numbers; {RESUMED}, and the draws depend on the padded size"
TIES = f"puts items of equal {{}} in a random order; where there are any, {RESUMED}"


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "temperature": checks.temperature,
    "gumbel_temperature": checks.temperature,
    "virtual_label": checks.not_negative,
    "sample_size": functools.partial(checks.at_least, least=1),
    "topk": checks.cut_off,
    "seed": lambda a, v: v if v is None else checks.at_least(a, v, 0),
}


class TFRLoss(tf.keras.losses.Loss):
    """Base of TensorFlow Ranking's losses, with faults fixed.

    Labels and scores may have any numeric type and are converted to float32. Weights
    are None, a scalar, `[batch]` or `[batch, 1]` (one per list), or `[batch, list]`.
    """

    # The classes of lambda weights that have an effect.
    LAMBDA_WEIGHTS: ClassVar[tuple[type, ...]] = ()
    # Faults that cannot be fixed, one line each.
    CAVEATS: ClassVar[tuple[str, ...]] = ()
    # Whether TensorFlow Ranking's computation fails without an item.
    NEEDS_ITEMS: ClassVar[bool] = True
    # The class that computes the loss, if it is not TensorFlow Ranking's.
    IMPL: ClassVar[Callable[..., Any] | None] = None

    # TensorFlow Ranking's.
    _loss: Any
    _lambda_weight: Any
    _temperature: float
    _sample_size: int
    _gumbel_temperature: float
    _seed: int | None

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        *,
        ragged: bool = False,
        lambda_weight: str | lambda_weights.LambdaWeight | None = None,
        lambda_weight_params: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            lambda_weight: a lambda weight, or the name of one.
            lambda_weight_params: parameters of the named lambda weight, see
                `lambda_weights.get`.
            **kwargs: the other arguments of TensorFlow Ranking's class.

        Raises:
            ValueError: If the lambda weight is invalid, or the loss would ignore it.
        """
        for argument, check in _CHECKS.items():
            if argument in kwargs:
                kwargs[argument] = check(argument, kwargs[argument])
        weight = lambda_weights.resolve(lambda_weight, lambda_weight_params)
        if weight is not None:
            self._check_lambda_weight(weight)
            kwargs["lambda_weight"] = weight
        super().__init__(reduction=reduction, name=name, **kwargs)
        impl = type(self).IMPL
        if impl is not None:
            self._loss = impl(self._loss.name, self._lambda_weight, self._temperature)
        # Only after the call, as the parent gets tensors that are already dense.
        self._ragged = checks.boolean("ragged", ragged)

    @classmethod
    def parameters(cls) -> list[str]:
        """Returns the names of the arguments, besides `reduction` and `name`."""
        original = next(
            c for c in cls.__mro__ if c.__module__ == tfr.keras.losses.__name__
        )
        own = [*inspect.signature(original).parameters, "ragged"]
        if cls.LAMBDA_WEIGHTS:
            own.insert(own.index("lambda_weight") + 1, "lambda_weight_params")
        else:
            own = [name for name in own if name != "lambda_weight"]
        shared = ("reduction", "name")
        return [name for name in dict.fromkeys(own) if name not in shared]

    def caveats(self) -> list[str]:
        """Returns the remaining faults of TensorFlow Ranking's loss, one per line.

        They depend on the arguments.
        """
        return list(self.CAVEATS)

    @which_keras.not_converted
    def __call__(
        self,
        y_true: TensorLike,
        y_pred: TensorLike,
        sample_weight: TensorLike | None = None,
    ) -> tf.Tensor:
        """Computes the reduced, weighted loss; see `tfr_ext.losses.RankingLoss`."""
        labels, *others = self._clean(y_true, y_pred, sample_weight)
        shape = labels.shape
        if not self.NEEDS_ITEMS or (shape.is_fully_defined() and shape.num_elements()):
            return super().__call__(labels, *others)
        padding = _filled(labels, inputs.PADDING_LABEL)
        value = super().__call__(padding, *(_filled(x, 0.0) for x in others))
        if value.shape.rank == 0:
            return value
        return value[: tf.shape(value)[0] * tf.minimum(masked.batch_size(labels), 1)]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this loss."""
        return {**super().get_config(), "ragged": self._ragged}

    def _clean(
        self, y_true: TensorLike, y_pred: TensorLike, sample_weight: TensorLike | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
        """Returns labels, scores and weights in the form TensorFlow Ranking expects."""
        labels, scores = self._dense(y_true, y_pred)
        mask = inputs.real_items(labels)
        weights = self._weights(sample_weight, labels, mask)
        of_levels = scores.shape.rank == 3
        finite = tf.math.is_finite(scores)
        finite = tf.math.is_finite(labels) & (
            tf.reduce_all(finite, axis=2) if of_levels else finite
        )
        if weights is not None:
            finite &= tf.math.is_finite(weights[:, : masked.list_size(labels)])
        # An item that is not finite gets a NaN score, which makes the loss of its list
        # NaN in every loss. TensorFlow Ranking treats such a label as padding, and
        # drops the weights of an empty list.
        shown = tf.where(mask & ~finite, float("nan"), 0.0)
        scores = self._cleaned(inputs.where_real(finite, scores), mask)
        scores += shown[..., tf.newaxis] if of_levels else shown
        labels = tf.where(mask, tf.where(finite, labels, 0.0), inputs.PADDING_LABEL)
        return labels, scores, weights

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
        """Returns the scores with padding well below all real items."""
        return computations.below(tf.where(mask, scores, 0), mask)

    def _check_lambda_weight(self, weight: lambda_weights.LambdaWeight) -> None:
        # ListMLE's lambda weight has no weights of pairs.
        of_pairs = self.LAMBDA_WEIGHTS == _PAIRS
        if not isinstance(weight, self.LAMBDA_WEIGHTS) or (
            of_pairs and isinstance(weight, losses_impl.ListMLELambdaWeight)
        ):
            names = lambda_weights.of_kinds(self.LAMBDA_WEIGHTS)
            if of_pairs:
                names.remove("list_mle")
            raise ValueError(
                f"{type(self).__name__} would ignore this `lambda_weight`. "
                f"Lambda weights with an effect are: {', '.join(names) or 'none'}. "
                f"Received: {type(weight).__name__}."
            )


_PAIRS = (lambda_weights.LambdaWeight,)


def _filled(x: tf.Tensor | None, value: float) -> tf.Tensor | None:
    """Returns `x` with a row or column of `value` where it has none."""
    if x is None:
        return None
    missing = tf.cast(tf.equal(tf.shape(x), 0), tf.int32)
    after = tf.stack([tf.zeros_like(missing), missing], axis=1)
    filled = tf.pad(x, after, constant_values=value)
    filled.set_shape([None if n is None else max(n, 1) for n in x.shape])
    return filled


class Itemwise(TFRLoss):
    """A pointwise or pairwise loss: it averages over real items, then over lists."""

    NEEDS_ITEMS = False

    def _weights(
        self, sample_weight: TensorLike | None, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        weights = inputs.item_weights(sample_weight, labels, self._ragged)
        if self.reduction in which_keras.MEANS:
            weights *= masked.padded_per_real(mask, weights.dtype)
        return weights


class Pairwise(Itemwise):
    """A pairwise loss, which takes lambda weights of pairs."""

    LAMBDA_WEIGHTS = _PAIRS

    def _weights(
        self, sample_weight: TensorLike | None, labels: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        weights = super()._weights(sample_weight, labels, mask)
        if isinstance(self._lambda_weight, losses_impl.AbstractDCGLambdaWeight):
            # These weights are multiplied by the padded size, to match a plain loss in
            # scale.
            padded = masked.padded_per_real(mask, weights.dtype)
            weights = tf.math.divide_no_nan(weights, padded)
        return weights

    def caveats(self) -> list[str]:
        """Returns the remaining faults, those of lambda weights too, one per line."""
        by_rank = self._lambda_weight is not None and not isinstance(
            self._lambda_weight, losses_impl.LabelDiffLambdaWeight
        )
        return [*super().caveats(), *([TIES.format("scores")] if by_rank else [])]


class Sampled(TFRLoss):
    """A loss that adds Gumbel noise to the scores."""

    def __init__(self, *args: Any, **kwargs: Any):
        """Initialises the loss."""
        super().__init__(*args, **kwargs)
        self._gumbel_sampler = computations.GumbelSampler(
            self.name, self._sample_size, self._gumbel_temperature, self._seed
        )

    def caveats(self) -> list[str]:
        """Returns the fault that remains: the draws of random numbers."""
        return [RANDOM]
