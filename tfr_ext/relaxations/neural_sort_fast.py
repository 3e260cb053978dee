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

from collections.abc import Callable

import tensorflow as tf

from tfr_ext.core import masked
from tfr_ext.core.derivatives import differentiable_once
from tfr_ext.relaxations.sorted_scores import (
    MOST_NEAR_ROWS,
    Float,
    Index,
    SortedScores,
    columns,
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
# Larger quotients of a gap and the temperature make no difference.
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
        num_ranks: number of ranks, by default one for each item; there may be more.
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
        some = _few_rows if values.shape.rank == 2 else _rows
        expected, adjoint = some(by_rank, taken, rows)

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
        others = row_exponentials(by_rank, 0, rows)
        real = tf.cast(real_ranks, others.dtype)
        totals = real + tf.reduce_sum(others, axis=2, keepdims=True)
        places = tf.range(masked.list_size(by_rank.real))
        offsets = places - tf.range(rows)[:, tf.newaxis]
        own = tf.cast(tf.equal(offsets, 0), others.dtype)
        sorted_rows = tf.math.divide_no_nan(others + own * real, totals)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            upstream = by_rank.take(tf.transpose(upstream, [0, 2, 1]))
            upstream = tf.transpose(upstream, [0, 2, 1])
            # Relative to the row's own item, which may have almost all of the mass.
            upstream -= tf.reduce_sum(own * upstream, axis=2, keepdims=True)
            mean = tf.reduce_sum(sorted_rows * upstream, axis=2, keepdims=True)
            logits = sorted_rows * (upstream - mean)
            moment = tf.reduce_sum(logits * tf.cast(offsets, logits.dtype), axis=1)
            return score_adjoint(by_rank, tf.reduce_sum(logits, axis=1), moment)

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
    # (p - rank of the label) s_p for each item. As a sum over the gaps between
    # neighbours, no term is above 0.
    ideal = by_rank.take(middle_ranks(labels, mask))
    position = tf.cast(tf.range(rows), scores.dtype)[tf.newaxis, :]
    misplaced = (position - ideal) * by_rank.real
    falls = 2 * (by_rank.scores[:, 1:] - by_rank.scores[:, :-1]) / by_rank.temperature
    falls = tf.maximum(masked.where(by_rank.is_real[:, 1:], falls), -_MAX_GAP)
    of_exact_sort = falls * tf.cumsum(misplaced, axis=1, reverse=True)[:, 1:]

    @differentiable_once
    def log_likelihood(scores: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        del scores  # sorted already

        def masses(first: Index, count: masked.Size) -> tf.Tensor:
            others = row_exponentials(by_rank, first, count)
            return tf.reduce_sum(others, axis=2, keepdims=True)

        def adjoint(first: Index, weights: tf.Tensor) -> tuple[tf.Tensor, ...]:
            others = row_exponentials(by_rank, first, _BLOCK_ROWS)
            weights = tf.concat([weights, weights * _numbers(weights)], axis=2)
            sums = tf.matmul(others, weights, transpose_a=True)
            return sums[:, :, 0], row_moment(first, sums[:, :, 0], sums[:, :, 1])

        mass = _by_blocks(rows, masses)[:, :, 0]
        value = tf.reduce_sum(of_exact_sort, axis=1)
        value -= tf.reduce_sum(tf.math.log1p(mass), axis=1)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            weights = by_rank.real / (1 + mass)
            total, moment = _sum_of_blocks(
                weights[:, :, tf.newaxis], adjoint, (by_rank.real, by_rank.real)
            )
            # The part of T itself: one for each item, at the middle rank of its label.
            total = mass * weights - total
            slopes = score_adjoint(by_rank, total, misplaced - moment)
            return slopes * upstream[:, tf.newaxis]

        return value, gradient

    return log_likelihood(scores)


Adjoint = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]


def _few_rows(
    by_rank: SortedScores, values: tf.Tensor, rows: int
) -> tuple[tf.Tensor, Adjoint]:
    """Returns the expectations of one value per item, and their adjoint.

    Computed row by row: on a CPU, many small operations cost less than a few that wake
    all threads. Values are relative to that of the row's own item, which may have
    almost all of the mass.
    """
    base, step, own, numbers = row_logits(by_rank, 0, rows)
    own_values = columns(values, 0, rows)
    kept, totals, sums = [], [], []
    for number, own_row, own_value in zip(
        tf.unstack(numbers, rows),
        *(tf.split(x, rows, axis=1) for x in (own, own_values)),
    ):
        row = tf.exp(base - number * step - own_row)
        relative = values - own_value
        kept.append((row, relative))
        totals.append(tf.reduce_sum(row, axis=1, keepdims=True))
        sums.append(tf.reduce_sum(row * relative, axis=1, keepdims=True))
    total = tf.concat(totals, axis=1)
    means = tf.math.divide_no_nan(tf.concat(sums, axis=1), total)

    def adjoint(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        weights = tf.math.divide_no_nan(upstream, total)
        plain = numbered = inner = tf.zeros_like(values)
        parts = zip(kept, *(tf.split(x, rows, axis=1) for x in (weights, means)))
        for (row, relative), weight, mean in reversed(list(parts)):
            # The running sum of the sums counts row r exactly r times, counted from 0.
            numbered += plain
            weighted = row * weight
            plain += weighted * (relative - mean)
            inner += weighted
        return plain, row_moment(0, plain, numbered), inner

    return own_values + means, adjoint


def _rows(
    by_rank: SortedScores, values: tf.Tensor, rows: masked.Size
) -> tuple[tf.Tensor, Adjoint]:
    """Returns the expectations of several values per item, and their adjoint."""
    size = masked.list_size(values)
    with_ones = tf.concat([values, tf.ones_like(values[:, :, :1])], axis=2)

    def means(others: tf.Tensor, first: Index) -> tf.Tensor:
        """Returns the sums of some rows, and means relative to the row's own value."""
        own, real = (
            columns(x, first, masked.list_size(others))
            for x in (values, by_rank.real[:, :, tf.newaxis])
        )
        sums = tf.matmul(others, with_ones)
        mass = sums[:, :, -1:]
        total = real + mass
        relative = tf.math.divide_no_nan(sums[:, :, :-1] - own * mass, total)
        return tf.concat([relative, total], axis=2)

    kept = row_exponentials(by_rank, 0, rows) if _are_few(rows) else None
    if kept is not None:
        found = means(kept, 0)
    else:
        found = _by_blocks(
            rows,
            lambda first, count: means(row_exponentials(by_rank, first, count), first),
        )
    relative, total = found[:, :, :-1], found[:, :, -1:]
    expected = columns(values, 0, rows) + relative

    def of_others(first: Index, weights: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the sums over some rows that `score_adjoint` takes.

        The adjoint of the logits is P (g v - mean of g v). One matrix product gives its
        sum over the rows and its sum weighted by the row number.
        """
        others = kept
        if kept is None:
            others = row_exponentials(by_rank, first, _BLOCK_ROWS)
        both = tf.concat([weights, weights * _numbers(weights)], axis=2)
        sums = tf.split(tf.matmul(others, both, transpose_a=True), 2, axis=2)
        plain, numbered = (
            tf.reduce_sum(values * part[:, :, :-1], axis=2) - part[:, :, -1]
            for part in sums
        )
        return plain, row_moment(first, plain, numbered), sums[0][:, :, :-1]

    def adjoint(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        weights = tf.math.divide_no_nan(upstream, total)
        mean = tf.reduce_sum(weights * expected, axis=2, keepdims=True)
        both = tf.concat([weights, mean], axis=2)
        if kept is None:
            like = by_rank.real, by_rank.real, values
            plain, moment, inner = _sum_of_blocks(both, of_others, like)
        else:
            plain, moment, inner = of_others(0, both)
        # The row's own item, whose part in the moment is 0.
        own = -tf.reduce_sum(weights * relative, axis=2)
        return plain + columns(own, 0, size), moment, inner + columns(weights, 0, size)

    return expected, adjoint


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
