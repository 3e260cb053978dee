r"""The fast form of NeuralSort, without a matrix of differences.

See `tfr_ext.relaxations.neural_sort` for the definition. With the scores sorted,
`s_1 >= s_2 >= ...`, the logit of the item at position `p`, less that of the item at
position `r`, is

$$
D_{rp} = 2 (p - r) \, s_p - s_p + s_r - 2 (C_p - C_r) \le 0, \qquad
C_p = s_1 + \dots + s_{p-1}
$$

which takes one sort and one cumulative sum. It is 0 at `p = r`, so the softmax needs no
maximum. It is also a sum of gaps between neighbours, so it loses nothing to rounding
where a row has its mass, provided that scores are taken relative to one near `s_r`.

Likewise, the gradient of `|s_j - s_i|` only needs the counts and sums of the items
above and below each item, which are prefix sums over the sorted items.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tfr_ext.core import masked
from tfr_ext.core.derivatives import differentiable_once
from tfr_ext.relaxations.sorted_scores import (
    MOST_NEAR_ROWS,
    Float,
    Index,
    SortedScores,
    columns,
    is_zero,
    middle_ranks,
    part,
    row_exponentials,
    row_logits,
    row_moment,
    score_adjoint,
    sort_scores,
)

# Up to this many rows are computed one by one; see `_few_rows`.
_UNROLLED_ROWS = 16
# Up to this many rows are kept for the backward pass. More are computed in blocks, and
# again in the backward pass, so that memory grows with the list and not with its
# square.
_KEPT_ROWS = MOST_NEAR_ROWS
_BLOCK_ROWS = 32
# Larger quotients of a score and the temperature make no difference.
_MAX_GAP = 1e25


def neural_sort_expectation(
    scores: tf.Tensor,
    mask: tf.Tensor,
    values: tf.Tensor,
    num_ranks: masked.Size | None = None,
    temperature: Float = 5.0,
    straight_through: bool = False,
) -> tf.Tensor:
    """Returns the expected value at each rank, `neural_sort(...) @ values`.

    Takes O(L log L + k L) time for k ranks of lists of L items. Memory is O(k L), or
    O(L) if k is large: see the note at the top of this module.

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        values: tensor of shape `[batch, list]` or `[batch, list, values]`, such as the
            labels; it is differentiated too.
        num_ranks: number of ranks, by default one for each item. It may exceed the list
            size.
        temperature: positive; the rows become exact as it falls.
        straight_through: whether to return the value at each rank of the exact sort,
            with the gradient of the expected value.

    Returns:
        A tensor of shape `[batch, num_ranks]` or `[batch, num_ranks, values]`, 0 at
        ranks beyond the number of real items.

    Examples:
        >>> scores = tf.constant([[1., 3., 2.]])
        >>> labels = tf.constant([[10., 20., 30.]])
        >>> neural_sort_expectation(scores, scores > 0, labels, 2, 0.01).numpy()
        array([[20., 30.]], dtype=float32)
    """
    size = masked.list_size(scores)
    wanted = size if num_ranks is None else num_ranks
    unrolled = isinstance(wanted, int) and wanted <= _UNROLLED_ROWS
    if values.shape.rank == 2 and not unrolled:
        values = tf.expand_dims(values, 2)
        expected = neural_sort_expectation(
            scores, mask, values, num_ranks, temperature, straight_through
        )
        return tf.squeeze(expected, axis=2)
    if unrolled and values.shape.rank == 3 and values.shape[2] == 1:
        values = tf.squeeze(values, axis=2)
        expected = neural_sort_expectation(
            scores, mask, values, num_ranks, temperature, straight_through
        )
        return tf.expand_dims(expected, 2)
    rows = wanted if _are_few(wanted) else masked.minimum(wanted, size)
    by_rank = sort_scores(tf.stop_gradient(scores), mask, temperature)

    @differentiable_once
    def expectation(scores: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        del scores  # sorted already
        taken = by_rank.take(values)
        if values.shape.rank == 2:
            expected, adjoint = _few_rows(by_rank, taken, rows)
        elif _are_few(rows):
            block = _block(by_rank, taken, 0, rows)
            expected = block.expected
            adjoint = functools.partial(_block_adjoint, taken, 0, block)
        else:
            expected = _by_blocks(rows, lambda *b: _block(by_rank, taken, *b).expected)
            adjoint = functools.partial(_adjoint_by_blocks, by_rank, taken)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            total, moment, inner = adjoint(upstream)
            return score_adjoint(by_rank, total, moment), by_rank.give_back(inner)

        if straight_through:
            exact = columns(taken, 0, rows)
            expected = masked.where(tf.math.is_nan(expected), expected, exact)
        return expected, gradient

    ranked = expectation(scores, values)
    real_ranks = masked.real_ranks(mask, ranked)
    if values.shape.rank == 2:
        return masked.where(real_ranks, ranked)
    ranked = tf.where(tf.expand_dims(real_ranks, 2), ranked, 0)
    return tf.pad(ranked, [[0, 0], [0, wanted - rows], [0, 0]])


def neural_sort(
    scores: tf.Tensor,
    mask: tf.Tensor,
    num_ranks: masked.Size | None = None,
    temperature: Float = 5.0,
) -> tf.Tensor:
    """Returns NeuralSort's rank indicators (PiRank, Eq. 12).

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        num_ranks: number of rows, by default one for each item.
        temperature: positive; the rows become exact as it falls.

    Returns:
        A tensor of shape `[batch, num_ranks, list]`; each row sums to 1 over the real
        items and is 0 at padding. Rows beyond the number of real items are 0.

    Examples:
        >>> scores = tf.constant([[1., 3., 2.]])
        >>> neural_sort(scores, scores > 0, temperature=0.01).numpy().round()
        array([[[0., 1., 0.],
                [0., 0., 1.],
                [1., 0., 0.]]], dtype=float32)
    """
    rows = masked.list_size(scores) if num_ranks is None else num_ranks
    by_rank = sort_scores(tf.stop_gradient(scores), mask, temperature)
    real_ranks = tf.expand_dims(columns(by_rank.is_real, 0, rows), 2)

    @differentiable_once
    def indicators(scores: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        del scores  # sorted already
        exponentials = row_exponentials(by_rank, 0, rows)
        totals = tf.reduce_sum(exponentials, axis=2, keepdims=True)
        sorted_rows = tf.math.divide_no_nan(exponentials, totals)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            upstream = by_rank.take(tf.transpose(upstream, [0, 2, 1]))
            upstream = tf.transpose(upstream, [0, 2, 1])
            mean = tf.reduce_sum(sorted_rows * upstream, axis=2, keepdims=True)
            logits = sorted_rows * (upstream - mean)
            plain = tf.reduce_sum(logits, axis=1)
            numbered = tf.reduce_sum(logits * _numbers(logits), axis=1)
            return score_adjoint(by_rank, plain, row_moment(0, plain, numbered))

        items_first = by_rank.give_back(tf.transpose(sorted_rows, [0, 2, 1]))
        return tf.transpose(items_first, [0, 2, 1]), gradient

    return tf.where(real_ranks, indicators(scores), 0)


def neural_sort_log_likelihood(
    scores: tf.Tensor, mask: tf.Tensor, labels: tf.Tensor, temperature: Float = 5.0
) -> tf.Tensor:
    """Returns `sum_r sum_j T[r, j] log P[r, j]` of each list.

    `T` is the exact sort of the labels, where equal labels share their ranks evenly,
    and `P` is NeuralSort of the scores. The logarithm is computed from the logits, so
    it is finite even where `P` rounds to 0.

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        labels: tensor like `scores`.
        temperature: positive.

    Returns:
        A tensor of shape `[batch]`, at most 0.
    """
    rows = masked.list_size(scores)
    by_rank = sort_scores(tf.stop_gradient(scores), mask, temperature)
    # sum_rj T D: terms that depend on the rank or the item alone cancel, which leaves 2
    # (p - rank of the label) s_p for each item.
    ideal = by_rank.take(middle_ranks(labels, mask))
    position = tf.cast(tf.range(rows), scores.dtype)[tf.newaxis, :]
    misplaced = (position - ideal) * by_rank.real
    # Relative to the best, and not so far below it that products are infinite.
    gaps = masked.where(by_rank.is_real, by_rank.scores[:, :1] - by_rank.scores)
    doubled = tf.maximum(-2 * gaps / by_rank.temperature, -_MAX_GAP)

    @differentiable_once
    def log_likelihood(scores: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        del scores  # sorted already

        def block(first: Index, count: masked.Size) -> tuple[tf.Tensor, tf.Tensor]:
            exponentials = row_exponentials(by_rank, first, count)
            totals = tf.reduce_sum(exponentials, axis=2, keepdims=True)
            return exponentials, tf.where(
                tf.equal(totals, 0), tf.ones_like(totals), totals
            )

        def adjoint(first: Index, upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            exponentials, totals = block(first, _BLOCK_ROWS)
            weights = upstream / totals
            weights = tf.concat([weights, weights * _numbers(weights)], axis=2)
            sums = tf.matmul(exponentials, weights, transpose_a=True)
            return sums[:, :, 0], row_moment(first, sums[:, :, 0], sums[:, :, 1])

        totals = _by_blocks(rows, lambda *b: block(*b)[1])[:, :, 0]
        value = tf.reduce_sum(misplaced * doubled, axis=1)
        value -= tf.reduce_sum(tf.math.log(totals) * by_rank.real, axis=1)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            total, moment = _sum_of_blocks(
                by_rank.real[:, :, tf.newaxis], adjoint, (by_rank.real, by_rank.real)
            )
            # The part of T itself: one for each item, at the middle rank of its label.
            slopes = score_adjoint(by_rank, by_rank.real - total, misplaced - moment)
            return slopes * upstream[:, tf.newaxis]

        return value, gradient

    return log_likelihood(scores)


Adjoint = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]


def _few_rows(
    by_rank: SortedScores, values: tf.Tensor, rows: int
) -> tuple[tf.Tensor, Adjoint]:
    """Returns the expectations of one value per item, and their adjoint.

    Computed row by row: on a CPU, many small operations cost less than a few that wake
    all threads.
    """
    base, step, own, numbers = row_logits(by_rank, 0, rows)
    kept, totals, sums = [], [], []
    for number, own_row in zip(tf.unstack(numbers, rows), tf.split(own, rows, axis=1)):
        row = tf.exp(base - number * step - own_row)
        kept.append(row)
        totals.append(tf.reduce_sum(row, axis=1, keepdims=True))
        sums.append(tf.reduce_sum(row * values, axis=1, keepdims=True))
    total = tf.concat(totals, axis=1)
    expected = tf.math.divide_no_nan(tf.concat(sums, axis=1), total)

    def adjoint(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        weights = tf.math.divide_no_nan(upstream, total)
        plain = numbered = inner = tf.zeros_like(values)
        parts = zip(kept, *(tf.split(x, rows, axis=1) for x in (weights, expected)))
        for row, weight, mean in reversed(list(parts)):
            # The running sum of the sums counts row r exactly r times, counted from 0.
            numbered += plain
            weighted = row * weight
            plain += weighted * (values - mean)
            inner += weighted
        return plain, row_moment(0, plain, numbered), inner

    return expected, adjoint


class _Block(NamedTuple):
    """Some rows.

    Attributes:
        exponentials: `[batch, rows, list]`.
        total: their sums, `[batch, rows, 1]`.
        expected: the expected values, `[batch, rows, values]`.
    """

    exponentials: tf.Tensor
    total: tf.Tensor
    expected: tf.Tensor


def _block(
    by_rank: SortedScores, values: tf.Tensor, first: Index, count: masked.Size
) -> _Block:
    """Computes some rows."""
    exponentials = row_exponentials(by_rank, first, count)
    total = tf.reduce_sum(exponentials, axis=2, keepdims=True)
    expected = tf.math.divide_no_nan(tf.matmul(exponentials, values), total)
    return _Block(exponentials, total, expected)


def _block_adjoint(
    values: tf.Tensor, first: Index, block: _Block, upstream: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the sums over the block's rows that `score_adjoint` takes.

    The adjoint of the logits is P (g v - mean of g v). One matrix product gives its sum
    over the rows and its sum weighted by the row number. Rows' own items, which may
    have almost all of P, are left out there: their part in the moment is exactly 0, but
    the difference of two rounded sums is not.
    """
    size, width = masked.list_size(values), tf.shape(values)[2]
    row = tf.range(masked.list_size(upstream))[:, tf.newaxis]
    is_own = tf.equal(tf.range(size) - first, row)
    others = block.exponentials - tf.cast(is_own, values.dtype)
    weights = tf.math.divide_no_nan(upstream, block.total)
    means = tf.reduce_sum(weights * block.expected, axis=2, keepdims=True)
    both = tf.concat([weights, means], axis=2)
    both = tf.concat([both, both * _numbers(both)], axis=2)
    sums = tf.matmul(others, both, transpose_a=True)
    plain, numbered = (
        tf.reduce_sum(values * part[:, :, :width], axis=2) - part[:, :, width]
        for part in (sums[:, :, : width + 1], sums[:, :, width + 1 :])
    )
    moment = row_moment(first, plain, numbered)
    own = columns(values, first, masked.list_size(upstream))
    of_own = tf.reduce_sum(weights * (own - block.expected), axis=2, keepdims=True)
    of_own = columns(tf.concat([of_own, weights], axis=2), 0, size)
    of_own = of_own if is_zero(first) else tf.roll(of_own, first, axis=1)
    return plain + of_own[:, :, 0], moment, sums[:, :, :width] + of_own[:, :, 1:]


def _adjoint_by_blocks(
    by_rank: SortedScores, values: tf.Tensor, upstream: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    def one(first: tf.Tensor, part: tf.Tensor) -> tuple[tf.Tensor, ...]:
        block = _block(by_rank, values, first, _BLOCK_ROWS)
        return _block_adjoint(values, first, block, part)

    return _sum_of_blocks(upstream, one, (by_rank.real, by_rank.real, values))


def _are_few(rows: masked.Size) -> bool:
    return isinstance(rows, int) and rows <= _KEPT_ROWS


def _numbers(rows: tf.Tensor) -> tf.Tensor:
    """Returns 0, 1, ... along axis 1 of `[batch, rows, ...]`, `[rows, 1]`."""
    return tf.cast(tf.range(masked.list_size(rows)), rows.dtype)[:, tf.newaxis]


def _by_blocks(rows: masked.Size, block: Callable) -> tf.Tensor:
    """Calls `block(first row, number of rows)` for all rows, and joins the results."""
    blocks = -(-rows // _BLOCK_ROWS)
    first = block(0, _BLOCK_ROWS)
    array = tf.TensorArray(first.dtype, size=blocks, element_shape=first.shape)
    _, array = tf.while_loop(
        lambda i, _: i < blocks,
        lambda i, array: (
            i + 1,
            array.write(i, block(i * _BLOCK_ROWS, _BLOCK_ROWS)),
        ),
        (1, array.write(0, first)),
        maximum_iterations=blocks,
    )
    joined = tf.transpose(array.stack(), [1, 0, 2, 3])
    shape = tf.shape(joined)
    joined = tf.reshape(joined, [shape[0], shape[1] * shape[2], shape[3]])[:, :rows]
    joined.set_shape([first.shape[0], rows if isinstance(rows, int) else None, None])
    return joined


def _sum_of_blocks(
    upstream: tf.Tensor, adjoint: Callable, like: tuple[tf.Tensor, ...]
) -> tuple[tf.Tensor, ...]:
    """Sums `adjoint(first row, its part of upstream)` over all blocks."""
    blocks = -(-masked.list_size(upstream) // _BLOCK_ROWS)
    spare = blocks * _BLOCK_ROWS - masked.list_size(upstream)
    padded = tf.pad(upstream, [[0, 0], [0, spare], [0, 0]])

    def step(i: tf.Tensor, *sums: tf.Tensor) -> tuple[tf.Tensor, ...]:
        first = i * _BLOCK_ROWS
        more = adjoint(first, part(padded, first, _BLOCK_ROWS))
        return (i + 1, *(a + b for a, b in zip(sums, more)))

    zeros = tuple(tf.zeros_like(x) for x in like)
    done = tf.while_loop(
        lambda i, *_: i < blocks, step, (0, *zeros), maximum_iterations=blocks
    )
    return tuple(done[1:])
