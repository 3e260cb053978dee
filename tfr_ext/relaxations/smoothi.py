r"""SmoothI: smooth rank indicators by a recursion over the ranks.

Thonet, Cinar, Gaussier, Li and Renders, "Listwise Learning to Rank Based on
Approximate Rank Indicators", AAAI 2022, Eq. 4:

$$
I_j^r = \operatorname{softmax}_j
\Big( \alpha \, S_j \prod_{l < r} (1 - I_j^l - \delta) \Big)
$$

The product damps the items at ranks 1 .. r - 1, so that the softmax finds the next
item. `plain_smoothi` implements this directly; the functions after it give the same
numbers with less work, see `tfr_ext.relaxations.smoothi_fast`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.annealed import Annealable
from tfr_ext.core.arguments import Argument, Sharpness
from tfr_ext.core.derivatives import differentiable_once
from tfr_ext.objectives.objective import Objective
from tfr_ext.relaxations import smoothi_fast
from tfr_ext.relaxations.relaxation import Indicators, register

Float: TypeAlias = float | tf.Tensor

# The logit of padding: so far below that of any real item that padding never gets any
# mass, and finite in float32.
_PADDING_LOGIT = -1e38
# Adjoints of the full recursion can grow without bound; they are kept finite.
_MAX_ADJOINT = 1e18


def plain_smoothi(
    scores: tf.Tensor,
    mask: tf.Tensor,
    num_ranks: int,
    alpha: Float = 1.0,
    delta: float = 0.1,
    stop_gradient: bool = True,
) -> tf.Tensor:
    """Returns SmoothI's rank indicators as they are defined, rank by rank.

    Args:
        scores: see `smoothi`, also for the other arguments.
        mask: True at real items.
        num_ranks: number of rows.
        alpha: inverse temperature.
        delta: mass taken from items already ranked.
        stop_gradient: whether the product is held constant in the backward pass.
    """
    logits, keep = _logits_and_keep(scores, mask, alpha, delta)
    product, rows = tf.ones_like(logits), []
    for _ in range(num_ranks):
        held = tf.stop_gradient(product) if stop_gradient else product
        rows.append(tf.nn.softmax(logits * held))
        product *= keep - rows[-1]
    return tf.stack(rows, axis=1)


def smoothi(
    scores: tf.Tensor,
    mask: tf.Tensor,
    num_ranks: masked.Size | None = None,
    alpha: Float = 1.0,
    delta: float = 0.1,
    stop_gradient: bool = True,
) -> tf.Tensor:
    """Returns SmoothI's rank indicators (Eq. 4 of the paper).

    Scores are shifted so that the lowest real item of a list has score 0.

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        num_ranks: number of rows returned, by default one for each item.
        alpha: inverse temperature, positive; the indicators become exact as it grows.
        delta: in (0, 0.5), mass taken from items already ranked.
        stop_gradient: if True, the product over the earlier ranks is held constant in
            the backward pass (the paper's "Gradient Stabilization").

    Returns:
        A tensor of shape `[batch, num_ranks, list]`; each row sums to 1 over the real
        items and is 0 at padding. Rows beyond the number of real items have no meaning.

    Examples:
        >>> scores = tf.constant([[1., 3., 2.]])
        >>> rows = smoothi(scores, scores > 0, alpha=100.)
        >>> tf.argmax(rows, axis=2).numpy().tolist()
        [[1, 2, 0]]
    """
    logits, keep = _logits_and_keep(scores, mask, alpha, delta)
    rows = masked.list_size(scores) if num_ranks is None else num_ranks
    return _indicators(logits, keep, rows, stop_gradient)


def smoothi_expectation(
    scores: tf.Tensor,
    mask: tf.Tensor,
    values: tf.Tensor,
    num_ranks: masked.Size | None = None,
    alpha: Float = 1.0,
    delta: float = 0.1,
    stop_gradient: bool = True,
) -> tf.Tensor:
    """Returns the expected value at each rank, `smoothi(...) @ values`.

    Gives the same numbers as the product of the matrix with `values` (which are
    constants in the backward pass here), but faster, see `smoothi_fast`.

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        values: tensor like `scores`, such as the labels; 0 at padding.
        num_ranks: number of ranks, by default one for each item; it may exceed the list
            size.
        alpha: see `smoothi`.
        delta: see `smoothi`.
        stop_gradient: see `smoothi`.

    Returns:
        A tensor of shape `[batch, num_ranks]`.
    """
    size = masked.list_size(scores)
    wanted = size if num_ranks is None else num_ranks
    are_few = isinstance(wanted, int) and wanted <= smoothi_fast.FEW_ROWS
    rows = wanted if are_few else masked.minimum(wanted, size)
    if stop_gradient:
        logits, keep = _logits_and_keep(scores, mask, alpha, delta)
        ranked = smoothi_fast.expectation(logits, keep, mask, values, rows, delta)
    else:
        ranked = tf.linalg.matvec(
            smoothi(scores, mask, rows, alpha, delta, stop_gradient=False),
            tf.stop_gradient(values),
        )
    return tf.pad(ranked, [[0, 0], [0, wanted - rows]])


@register
@dataclasses.dataclass(frozen=True)
class SmoothI(Indicators):
    """SmoothI's rank indicators, see `smoothi`."""

    ANY_NUM_RANKS = True
    SHARPNESS = Sharpness("alpha", "higher")
    ARGUMENTS = {
        "alpha": Argument(partial(checks.between, low=0, high=1e30), annealable=True),
        "delta": Argument(partial(checks.between, low=0, high=0.5)),
        "stop_gradient": Argument(checks.boolean),
    }

    alpha: Annealable = 1.0
    delta: float = 0.1
    stop_gradient: bool = True

    def indicators(
        self, scores: tf.Tensor, mask: tf.Tensor, num_ranks: masked.Size
    ) -> tf.Tensor:
        """Returns rank indicators, `[batch, num_ranks, list]`."""
        return smoothi(
            scores, mask, num_ranks, self.now("alpha"), self.delta, self.stop_gradient
        )

    def expectation(
        self,
        scores: tf.Tensor,
        mask: tf.Tensor,
        values: tf.Tensor,
        num_ranks: masked.Size,
    ) -> tf.Tensor:
        """Returns the expected value at each rank, `[batch, num_ranks]`."""
        return smoothi_expectation(
            scores,
            mask,
            values,
            num_ranks,
            self.now("alpha"),
            self.delta,
            self.stop_gradient,
        )

    def check_fits(self, objective: Objective) -> None:
        """Checks that `delta` and `stop_gradient` have an effect."""
        # The first rank has no ranks before it.
        for argument in ("delta", "stop_gradient"):
            checks.has_effect(
                argument,
                getattr(self, argument),
                getattr(SmoothI, argument),
                objective.topn != 1,
                "a second rank, that is, a `topn` other than 1",
            )


def _logits_and_keep(
    scores: tf.Tensor, mask: tf.Tensor, alpha: Float, delta: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the logits of rank 1, and the factor of an item that gets no mass.

    The shift of the scores is differentiated: raising the lowest item lowers all
    others.
    """
    dtype = scores.dtype
    if not tf.is_tensor(alpha):
        alpha = tf.constant(alpha, dtype)
    alpha = tf.cast(alpha, dtype)
    # A list of nothing but padding keeps logits of 0, as any finite row will do there.
    padding = ~mask & tf.reduce_any(mask, axis=1, keepdims=True)

    # On a CPU, TensorFlow's own gradient of the minimum can take 0.1 ms: it waits for
    # other threads to compare a few numbers.
    @tf.custom_gradient
    def of_scores(scores: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        lowest = tf.reduce_min(
            masked.where(mask, scores, dtype.max), axis=1, keepdims=True
        )
        shifted = masked.where(mask, scores - lowest)
        logits = alpha * shifted
        is_cut = logits > smoothi_fast.MAX_LOGIT  # False for NaN, which stays visible

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            slopes = masked.where(mask, alpha * upstream)
            slopes = masked.where(is_cut, tf.zeros_like(slopes), slopes)
            total = tf.reduce_sum(slopes, axis=1, keepdims=True)
            are_lowest = tf.cast(mask & tf.equal(shifted, 0), dtype)
            number = tf.reduce_sum(are_lowest, axis=1, keepdims=True)
            return slopes - are_lowest * tf.math.divide_no_nan(total, number)

        logits = tf.minimum(logits, smoothi_fast.MAX_LOGIT)
        return masked.where(~padding, logits, _PADDING_LOGIT), gradient

    # The damping factor is keep - I; with keep = 1 padding stays where it is.
    keep = tf.where(mask, tf.constant(1.0 - delta, dtype), 1)
    return of_scores(scores), keep


def _indicators(
    logits: tf.Tensor, keep: tf.Tensor, rows: masked.Size, stop_gradient: bool
) -> tf.Tensor:
    """Returns rank indicators, `[batch, rows, list]`, from the logits of rank 1."""
    # With constant products there is no right second derivative.
    once = differentiable_once if stop_gradient else tf.custom_gradient

    @once
    def of_logits(logits: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        products, outputs = _indicator_rows(logits, keep, rows)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            upstream = tf.transpose(upstream, [1, 0, 2])
            if stop_gradient:
                return tf.reduce_sum(
                    products * _softmax_adjoint(outputs, upstream), axis=0
                )
            return _full_adjoint(logits, keep, products, outputs, upstream)

        return tf.transpose(outputs, [1, 0, 2]), gradient

    return of_logits(logits)


def _indicator_rows(
    logits: tf.Tensor, keep: tf.Tensor, rows: masked.Size
) -> tuple[tf.Tensor, tf.Tensor]:
    """Runs the recursion; returns products and indicators, `[rows, batch, list]`."""

    def step(r, product, products, outputs):  # noqa: ANN001
        indicator = smoothi_fast.softmax(logits * product)
        return (
            r + 1,
            product * (keep - indicator),
            products.write(r, product),
            outputs.write(r, indicator),
        )

    arrays = [
        tf.TensorArray(logits.dtype, size=rows, element_shape=logits.shape)
        for _ in range(2)
    ]
    _, _, products, outputs = tf.while_loop(
        lambda r, *_: r < rows,
        step,
        (0, tf.ones_like(logits), *arrays),
        maximum_iterations=rows,
    )
    return products.stack(), outputs.stack()


def _softmax_adjoint(outputs: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
    """Pulls the adjoint of a softmax's output back to its input."""
    # Twice, as the outputs do not sum to exactly 1: what is left of a large mean would
    # have the same sign at all items, and their sum is the slope of the lowest.
    for _ in range(2):
        upstream -= tf.reduce_sum(outputs * upstream, axis=-1, keepdims=True)
    return outputs * upstream


def _full_adjoint(
    logits: tf.Tensor,
    keep: tf.Tensor,
    products: tf.Tensor,
    outputs: tf.Tensor,
    upstream: tf.Tensor,
) -> tf.Tensor:
    """Pulls the adjoint of all rows back through the recursion, last row first."""

    def finite(x: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(x, -_MAX_ADJOINT, _MAX_ADJOINT)

    def step(r, later, total):  # noqa: ANN001
        # `later` is the adjoint of the product that row r passes on.
        product, indicator = products[r], outputs[r]
        local = finite(_softmax_adjoint(indicator, upstream[r] - later * product))
        later = finite(local * logits) + later * (keep - indicator)
        return r - 1, later, total + local * product

    rows = tf.shape(outputs)[0]
    zeros = tf.zeros_like(logits)
    return tf.while_loop(
        lambda r, *_: r >= 0,
        step,
        (rows - 1, zeros, zeros),
        maximum_iterations=rows,
    )[2]
