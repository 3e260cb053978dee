"""Compiles a loss with XLA, inside an ordinary training step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.core.derivatives import differentiable_once
from tfr_ext.core.inputs import TensorLike


@which_keras.register
class JitCompiledLoss(tf.keras.losses.Loss):
    """A ranking loss whose value and gradient are compiled by XLA.

    A loss is many small operations, and where lists are short, starting them takes
    longer than computing them. XLA makes a few of them. It does so anew for each shape
    of a batch, which takes a second or more: this pays off in long trainings whose
    batches have few shapes. Unlike with `model.compile(jit_compile=True)`, the model
    itself may do what XLA cannot, such as leave out padding.

    The value and the gradient in the scores are those of the loss. Its gradient in the
    labels is 0, and second derivatives are an error.

    Standalone usage:

    >>> loss = JitCompiledLoss(tfr_ext.losses.SmoothILoss())
    >>> round(float(loss([[1., 0.]], [[0.6, 0.8]])), 4)
    0.3832

    Usage with the `compile()` API:

    ```python
    model.compile(
        optimizer='adam',
        loss=tfr_ext.losses.JitCompiledLoss(tfr_ext.losses.WassRankLoss()))
    ```
    """

    def __init__(self, loss: tf.keras.losses.Loss | dict[str, Any]):
        """Initialises the loss.

        Args:
            loss: a loss of this package or of TensorFlow Ranking, or what Keras
                serialised it to. Its reduction is used, and must not be 'none'.

        Raises:
            ValueError: If `loss` is no loss or is reduced to no scalar, or Keras has
                another backend than TensorFlow.
        """
        which_keras.check_backend(type(self).__name__)
        if isinstance(loss, dict):
            loss = tf.keras.losses.deserialize(loss)
        if not isinstance(loss, tf.keras.losses.Loss):
            raise ValueError(
                f"`loss` must be a loss, such as SmoothILoss(). Received: {loss!r}."
            )
        if loss.reduction in (None, "none"):
            raise ValueError(
                "`loss` must be reduced to a scalar, for instance with "
                f"`reduction='sum'`. Received: {loss.name} with reduction="
                f"{loss.reduction!r}."
            )
        super().__init__(reduction=loss.reduction, name=loss.name)
        self.loss = loss
        # Unknown shapes spare traces; XLA knows them when it compiles.
        self._step = tf.function(
            self._value_and_slopes,
            jit_compile=True,
            autograph=False,
            reduce_retracing=True,
        )

    @which_keras.not_converted
    def __call__(
        self,
        y_true: TensorLike,
        y_pred: TensorLike,
        sample_weight: TensorLike | None = None,
    ) -> tf.Tensor:
        """Computes the reduced, weighted loss, see `tf.keras.losses.Loss`.

        Args:
            y_true: dense labels, `[batch, list]`, negative at padding.
            y_pred: dense scores, `[batch, list]`.
            sample_weight: as the loss takes it, and dense.

        Returns:
            A scalar.

        Raises:
            ValueError: If the loss does; if a tensor is ragged; or if the loss counts
                classes over the batches of several replicas.
            TypeError: If a model of the other Keras calls the loss.
        """
        which_keras.check_caller(type(self).__name__)
        context = tf.distribute.get_replica_context()
        self.check_replicas(context.num_replicas_in_sync if context else 1)
        # By this Keras 2 tells a loss that it scales it for several replicas.
        is_scaled = getattr(self, "_allow_sum_over_batch_size", None)
        if is_scaled is not None:
            self.loss._allow_sum_over_batch_size = is_scaled
        labels, scores, *weights = (
            _dense(name, x)
            for name, x in (
                ("y_true", y_true),
                ("y_pred", y_pred),
                ("sample_weight", sample_weight),
            )
            if x is not None
        )

        @differentiable_once
        def of_scores(scores: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            # Otherwise a tape of eager mode would also differentiate the step.
            inputs = (tf.stop_gradient(x) for x in (labels, scores, *weights))
            value, slopes = self._step(*inputs)
            return value, lambda upstream: tf.cast(upstream, slopes.dtype) * slopes

        return of_scores(scores)

    @which_keras.not_converted
    def call(self, y_true: TensorLike, y_pred: TensorLike) -> tf.Tensor:
        """Computes the unreduced loss, not compiled; see `tf.keras.losses.Loss`."""
        return self.loss.call(y_true, y_pred)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that recreate this loss."""
        return {"loss": tf.keras.losses.serialize(self.loss)}

    def __deepcopy__(self, memo: dict[int, Any]) -> JitCompiledLoss:
        """Returns a loss that is compiled anew."""
        return type(self)(copy.deepcopy(self.loss, memo))

    def _value_and_slopes(
        self, labels: tf.Tensor, scores: tf.Tensor, *weights: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(scores)
            value = self.loss(labels, scores, *weights)
        return value, tape.gradient(value, scores, unconnected_gradients="zero")

    def check_replicas(self, replicas: int) -> None:
        """Checks that the loss can be compiled where there are several replicas.

        Args:
            replicas: their number.

        Raises:
            ValueError: If it counts classes over the batches of all of them.
        """
        if replicas > 1 and self.loss.get_config().get("class_balance") == "batch":
            raise ValueError(
                f"{self.loss.name} counts the classes of the whole batch, and what XLA "
                f"compiles cannot ask the other of {replicas} replicas. Take another "
                "`class_balance`, or do not compile the loss."
            )


def _dense(argument: str, x: TensorLike) -> tf.Tensor:
    if isinstance(x, tf.RaggedTensor):
        raise ValueError(
            f"`{argument}` must be dense, as XLA knows no ragged tensors. Pad the "
            "labels with -1, such as by `y_true.to_tensor(-1)`, and the scores and "
            "weights with any number."
        )
    return tf.convert_to_tensor(x)
