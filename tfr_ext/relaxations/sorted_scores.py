"""Sorted scores, the logits of NeuralSort, and gradients in the items' order.

See the note at the head of `tfr_ext.relaxations.neural_sort` for the formulas.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from tfr_ext.core import masked
from tfr_ext.core.masked import best

Float: TypeAlias = float | tf.Tensor
Index: TypeAlias = int | tf.Tensor

# The most rows whose logits are computed in the type of the scores.
MOST_NEAR_ROWS = 64
# The logit of padding, far below that of any real item.
_PADDING = -1e37


def exact_sort(
    scores: tf.Tensor, mask: tf.Tensor, num_ranks: masked.Size | None = None
) -> tf.Tensor:
    """Returns the exact rank indicators (a permutation matrix, no gradient).

    Args:
        scores: float tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        num_ranks: number of rows returned, all by default.

    Returns:
        A tensor of shape `[batch, num_ranks, list]`: row `r` is 1 at the item of
        rank `r + 1`. Rows beyond the number of real items point at padding.
    """
    indices = masked.ranking(scores, mask, num_ranks)
    return tf.one_hot(indices, masked.list_size(scores), dtype=scores.dtype)


@dataclasses.dataclass(frozen=True)
class Order:
    """The order of a batch of lists, best first.

    `positions` of items are counted over the whole batch. `scores` have NaN as the
    lowest number and padding as minus infinity.
    """

    positions: tf.Tensor
    scores: tf.Tensor
    is_real: tf.Tensor

    def take(self, x: tf.Tensor) -> tf.Tensor:
        """Sorts a `[batch, list, ...]` tensor like the scores."""
        if x.shape.rank == 2:
            return tf.gather(tf.reshape(x, [-1]), self.positions)
        inner = tf.shape(x)[2:]
        flat = tf.reshape(x, tf.concat([[-1], inner], axis=0))
        return tf.reshape(
            tf.gather(flat, tf.reshape(self.positions, [-1])), tf.shape(x)
        )

    def give_back(self, x: tf.Tensor) -> tf.Tensor:
        """Undoes `take`."""
        # On a CPU this is several times as fast as tf.scatter_nd.
        if x.shape.rank == 2:
            back = tf.math.unsorted_segment_sum(x, self.positions, tf.size(x))
            return tf.reshape(back, tf.shape(x))
        inner = tf.shape(x)[2:]
        flat = tf.reshape(x, tf.concat([[-1], inner], axis=0))
        back = tf.math.unsorted_segment_sum(
            flat, tf.reshape(self.positions, [-1]), tf.shape(flat)[0]
        )
        return tf.reshape(back, tf.shape(x))

    def if_tied(
        self,
        tied: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        plain: Callable[[], tf.Tensor],
    ) -> tf.Tensor:
        """Calls `tied` if any real items of a list tie, else `plain`.

        `tied` takes, for each item in order, the index of the first item that ties with
        it and the index after the last.
        """
        scores, is_real = self.scores, self.is_real
        ties = tf.equal(scores[:, 1:], scores[:, :-1]) & is_real[:, 1:]

        def with_ties() -> tf.Tensor:
            # Padding ties with no real item.
            keys = tf.where(is_real, -scores, float("inf"))
            return tied(
                tf.searchsorted(keys, keys, side="left"),
                tf.searchsorted(keys, keys, side="right"),
            )

        return tf.cond(tf.reduce_any(ties), with_ties, plain)


@dataclasses.dataclass(frozen=True)
class SortedScores(Order):
    """Scores of a batch of lists, best first.

    Attributes:
        falls: float64, twice the score less that of the item before, over the
            temperature, at most 0. No fall is larger than makes a difference to a
            softmax, so that rounding does not grow with outliers. It is 0 at padding.
        near: float64, `falls` summed up to each rank.
        nan: float64, NaN for lists with a score that is NaN, else 0, `[batch, 1]`.
    """

    falls: tf.Tensor
    near: tf.Tensor
    nan: tf.Tensor
    real: tf.Tensor
    temperature: tf.Tensor


def order_scores(scores: tf.Tensor, mask: tf.Tensor) -> Order:
    """Sorts the scores of each list; see `sort_scores`."""
    ordered = best(scores, mask)
    first = tf.range(tf.shape(scores)[0])[:, tf.newaxis] * masked.list_size(scores)
    is_real = masked.real_ranks(mask, scores)
    return Order(ordered.indices + first, ordered.values, is_real)


def as_tensor(number: Float, dtype: tf.DType) -> tf.Tensor:
    """Returns a number as a tensor of a type, without rounding a float twice."""
    is_tensor = tf.is_tensor(number)
    return tf.cast(number, dtype) if is_tensor else tf.constant(number, dtype)


def has_nan(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns which lists have a real score that is NaN, `[batch, 1]`.

    NaN has been ranked as if it were a number, but must stay visible in the result.
    """
    return tf.reduce_any(tf.math.is_nan(scores) & mask, axis=1, keepdims=True)


def sort_scores(scores: tf.Tensor, mask: tf.Tensor, temperature: Float) -> SortedScores:
    """Sorts float32 or float64 scores, `[batch, list]`, for a positive temperature."""
    order = order_scores(scores, mask)
    temperature = as_tensor(temperature, tf.float64)
    # The logit across a gap is at most minus the gap over the temperature, and its
    # exp() 0 from here on.
    smallest = np.finfo(scores.dtype.as_numpy_dtype).smallest_subnormal
    falls = order.scores[:, 1:] - order.scores[:, :-1]
    falls *= tf.cast(2.0 / temperature, scores.dtype)
    falls = tf.maximum(falls, 2 * math.log(smallest))
    falls = tf.pad(masked.where(order.is_real[:, 1:], falls), [[0, 0], [1, 0]])
    falls = tf.cast(falls, tf.float64)
    nan = tf.cast(float("nan"), tf.float64)
    return SortedScores(
        positions=order.positions,
        scores=order.scores,
        is_real=order.is_real,
        falls=falls,
        near=tf.cumsum(falls, axis=1),
        nan=tf.where(has_nan(scores, mask), nan, 0),
        real=tf.cast(order.is_real, scores.dtype),
        temperature=tf.cast(temperature, scores.dtype),
    )


class RowLogits(NamedTuple):
    """The logits of some rows.

    Those of row i are `base - number[i] * step - own[:, i]`: exactly 0 at its own item,
    and far below 0 in rows beyond the real items. Rounding raises none much above 0, as
    what is rounded is some hundred times the logit at the most.

    `base` and `step` are `[batch, list]`, `own` is `[batch, rows]`, and `number` counts
    the rows from one in their middle.
    """

    base: tf.Tensor
    step: tf.Tensor
    own: tf.Tensor
    number: tf.Tensor


def row_logits(by_rank: SortedScores, first: Index, count: masked.Size) -> RowLogits:
    """Returns the logits of `count` rows, starting at index `first`.

    They are float64 if there are so many rows that most are far from the middle one.
    """
    dtype, near = by_rank.scores.dtype, by_rank.near
    if not isinstance(count, int) or count > MOST_NEAR_ROWS:
        dtype = tf.float64
    size = masked.list_size(near)
    # Relative to the item in the middle of the rows; see the top of this module.
    middle = masked.minimum(first + count // 2, masked.maximum(size - 1, 0))
    one = masked.minimum(size, 1)
    offset = tf.cast(tf.range(size) - middle, tf.float64)
    base = tf.cumsum((offset - 0.5) * by_rank.falls, axis=1)
    base = tf.cast(base - (part(base, middle, one) - by_rank.nan), dtype)
    base = masked.where(by_rank.is_real, base, _PADDING)
    step = tf.cast(near - part(near, middle, one), dtype)
    number = tf.cast(tf.range(count) + (first - middle), dtype)
    own = columns(base, first, count) - number * columns(step, first, count)
    own = masked.where(columns(by_rank.is_real, first, count), own, -_PADDING)
    return RowLogits(base, step, own, number)


def row_exponentials(
    by_rank: SortedScores, first: Index, count: masked.Size
) -> tf.Tensor:
    """Returns `exp(D)` for `count` rows, starting at index `first`.

    The shape is `[batch, count, list]`; padding is 0, and rows beyond the real items.
    So is the row's own item, in place of 1: as it may have almost all of the mass,
    sums over the others alone lose less to rounding.
    """
    base, step, own, number = row_logits(by_rank, first, count)
    logits = base[:, tf.newaxis] - number[:, tf.newaxis] * step[:, tf.newaxis]
    logits -= own[:, :, tf.newaxis]
    exponentials = tf.exp(tf.cast(logits, by_rank.scores.dtype))
    own = tf.range(count) + first
    others = tf.one_hot(own, masked.list_size(base), 0.0, 1.0, dtype=exponentials.dtype)
    return exponentials * others


def row_moment(first: Index, plain: tf.Tensor, numbered: tf.Tensor) -> tf.Tensor:
    """Returns `sum_r (p - r) G[r, p]` for the adjoints G of the logits of some rows.

    `plain` is `sum_r G[r, p]`, and `numbered` is `sum_r (r - first) G[r, p]`.
    """
    offset = tf.cast(tf.range(masked.list_size(plain)) - first, plain.dtype)
    return offset * plain - numbered


def score_adjoint(
    by_rank: SortedScores, total: tf.Tensor, moment: tf.Tensor
) -> tf.Tensor:
    r"""Pulls the adjoints G of the logits back to the scores, in the items' own order.

    For `p` in the middle of the items that tie with it,

    $$
    2 \sum_r (p - r) \, G_{rp}
    + \sum_{q \text{ better}} G_q - \sum_{q \text{ worse}} G_q
    $$

    divided by the temperature, as the slope of `|s_j - s_i|` is 0 at a tie. `total` is
    `G_p = sum_r G[r, p]`, `[batch, list]`; `moment` is `sum_r (p - r) G[r, p]`, where
    `p` breaks ties by position.
    """
    # The better and the worse items sum to 0, as each row of G does.
    sums = tf.cumsum(total, axis=1)

    def with_ties(start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
        before = tf.pad(sums, [[0, 0], [1, 0]])
        better = tf.gather(before, start, batch_dims=1)
        not_worse = tf.gather(before, end, batch_dims=1)
        middle = tf.cast(start + end - 1, total.dtype) / 2
        position = tf.cast(tf.range(masked.list_size(total)), total.dtype)
        return better + not_worse + 2 * (middle - position) * total

    others = by_rank.if_tied(with_ties, lambda: 2 * sums - total)
    slopes = (2 * moment + others) * by_rank.real
    return by_rank.give_back(slopes / by_rank.temperature)


def middle_ranks(labels: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the mean rank, counted from 0, of the items that share a label."""
    keys = tf.where(mask, -labels, float("inf"))
    by_rank = tf.sort(keys, axis=1)
    start = tf.searchsorted(by_rank, keys, side="left")
    end = tf.searchsorted(by_rank, keys, side="right")
    ranks = tf.cast(start + end - 1, labels.dtype) / 2
    return tf.where(tf.math.is_nan(labels), labels, ranks)  # NaN stays visible


def columns(x: tf.Tensor, first: Index, count: masked.Size) -> tf.Tensor:
    """Returns `count` columns of `x` starting at index `first`, 0 past the last."""
    size = x.shape[1]
    is_first = isinstance(first, int) and first == 0 and isinstance(count, int)
    if is_first and size is not None and count <= size:
        return x[:, :count]
    inner = [[0, 0]] * (x.shape.rank - 2)
    padded = tf.pad(x, [[0, 0], [0, count], *inner])
    return padded[:, :count] if is_first else part(padded, first, count)


def part(x: tf.Tensor, first: Index, count: masked.Size) -> tf.Tensor:
    """Returns `x[:, first : first + count]` with a shape that XLA knows."""
    begin = [0, first, *[0] * (x.shape.rank - 2)]
    shape = tf.shape(x)
    size = tf.concat([shape[:1], [count], shape[2:]], axis=0)
    part = tf.slice(x, begin, size)
    static = [count if isinstance(count, int) else None]
    part.set_shape([x.shape[0], *static, *x.shape[2:]])
    return part
