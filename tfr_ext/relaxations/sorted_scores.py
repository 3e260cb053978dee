"""Scores in order, the logits of NeuralSort over them, and the way back to the items.

See the note at the head of `tfr_ext.relaxations.neural_sort` for the formulas.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from tfr_ext.core import masked
from tfr_ext.core.ranking import best

Float: TypeAlias = float | tf.Tensor
Index: TypeAlias = int | tf.Tensor

# Larger quotients of a score gap and the temperature make no difference: their exp() is
# 0.
_MAX_GAP = 1e25
# The logit of padding, far below that of any real item.
_PADDING = -1e37


@dataclasses.dataclass(frozen=True)
class Order:
    """The order of a batch of lists, best first.

    Attributes:
        positions: index of the item at each rank, counted over the whole batch.
        scores: the scores, with NaN as the lowest number and padding as minus infinity.
        is_real: True at real items.
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

        Args:
            tied: takes, for each item in order, the index of the first item that ties
                with it and the index after the last.
            plain: takes nothing.
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
        doubled: float64, twice the scores over the temperature, 0 for the best and very
            low at padding.
        sums: float64, `doubled` summed over the better ranks.
        real: 1 at real items, else 0.
        temperature: the temperature, in the scores' type.
    """

    doubled: tf.Tensor
    sums: tf.Tensor
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
    """Sorts the scores of each list.

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        temperature: positive.
    """
    order = order_scores(scores, mask)
    temperature = as_tensor(temperature, tf.float64)
    doubled = tf.cast(order.scores, tf.float64) * (2.0 / temperature)
    # Padding is minus infinity, and it is all that an empty list has.
    doubled -= tf.maximum(doubled[:, :1], tf.float64.min)
    doubled = tf.maximum(doubled, -_MAX_GAP)
    nan = tf.cast(float("nan"), tf.float64)
    doubled += tf.where(has_nan(scores, mask), nan, 0)
    return SortedScores(
        positions=order.positions,
        scores=order.scores,
        is_real=order.is_real,
        doubled=doubled,
        sums=tf.cumsum(doubled, axis=1, exclusive=True),
        real=tf.cast(order.is_real, scores.dtype),
        temperature=tf.cast(temperature, scores.dtype),
    )


def row_logits(
    by_rank: SortedScores, first: Index, count: masked.Size
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the parts of the logits of `count` rows, starting at index `first`.

    Returns:
        `base` and `step`, `[batch, list]`, and `own`, `[batch, count]`: the logits of
        row `first + i` are `base - i * step - own[i]`, and should not be above 0.
    """
    dtype = by_rank.scores.dtype
    doubled, sums = by_rank.doubled, by_rank.sums
    offset = tf.cast(tf.range(masked.list_size(doubled)) - first, tf.float64)
    if not _is_zero(first):
        # Relative to the first row's item; see the top of this module.
        anchor = columns(doubled, first, 1)
        sums -= columns(sums, first, 1) + offset * anchor
        doubled -= anchor
    base = tf.cast((offset - 0.5) * doubled - sums, dtype)
    base = masked.where(by_rank.is_real, base, _PADDING)
    step = tf.cast(doubled, dtype)
    own = columns(base - tf.cast(offset, dtype) * step, first, count)
    return base, step, own


def row_exponentials(
    by_rank: SortedScores, first: Index, count: masked.Size
) -> tf.Tensor:
    """Returns `exp(D)` for `count` rows, starting at index `first`.

    The shape is `[batch, count, list]`; padding is 0. Rows beyond the real items have
    no meaning.
    """
    base, step, own = row_logits(by_rank, first, count)
    number = tf.cast(tf.range(count), base.dtype)[:, tf.newaxis]
    logits = base[:, tf.newaxis, :] - number * step[:, tf.newaxis, :]
    # Rounding may raise the logits of distant scores above 0.
    return tf.exp(tf.minimum(logits - own[:, :, tf.newaxis], 0))


def row_moment(first: Index, plain: tf.Tensor, numbered: tf.Tensor) -> tf.Tensor:
    """Returns `sum_r (p - r) G[r, p]` for the adjoints G of the logits of some rows.

    Args:
        first: index of the first of the rows.
        plain: `sum_r G[r, p]`.
        numbered: `sum_r (r - first) G[r, p]`.
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

    divided by the temperature, as the slope of `|s_j - s_i|` is 0 at a tie.

    Args:
        by_rank: the scores.
        total: `G_p = sum_r G[r, p]`, `[batch, list]`.
        moment: `sum_r (p - r) G[r, p]`, where `p` breaks ties by position.
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


def _is_zero(first: Index) -> bool:
    return isinstance(first, int) and first == 0


def columns(x: tf.Tensor, first: Index, count: masked.Size) -> tf.Tensor:
    """Returns `count` columns of `x` starting at index `first`, 0 past the last."""
    size = x.shape[1]
    if isinstance(count, int) and _is_zero(first) and size is not None:
        if count <= size:
            return x[:, :count]
    inner = [[0, 0]] * (x.shape.rank - 2)
    padded = tf.pad(x, [[0, 0], [0, count], *inner])
    if isinstance(count, int) and _is_zero(first):
        return padded[:, :count]
    return part(padded, first, count)


def part(x: tf.Tensor, first: Index, count: masked.Size) -> tf.Tensor:
    """Returns `x[:, first : first + count]` with a shape that XLA knows."""
    begin = [0, first, *[0] * (x.shape.rank - 2)]
    shape = tf.shape(x)
    size = tf.concat([shape[:1], [count], shape[2:]], axis=0)
    part = tf.slice(x, begin, size)
    static = [count if isinstance(count, int) else None]
    part.set_shape([x.shape[0], *static, *x.shape[2:]])
    return part
