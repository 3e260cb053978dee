r"""SoftSort: the simplest relaxation of sorting (Prillo and Eisenschlos, ICML 2020).

With `s_(r)` the score at rank `r` of the exact sort, Eq. 5:

$$
P_r = \operatorname{softmax}_j \Big( -\frac{|s_{(r)} - s_j|}{\mathrm{temperature}} \Big)
$$

`soft_sort` implements this directly; the other functions compute expectations and
positions without a matrix of all ranks and items.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.annealed import Annealable
from tfr_ext.core.arguments import Argument, Sharpness
from tfr_ext.core.derivatives import differentiable_once
from tfr_ext.core.masked import best, ranking
from tfr_ext.relaxations import laplace
from tfr_ext.relaxations.relaxation import Indicators, Positions, register
from tfr_ext.relaxations.sorted_scores import Float, as_tensor, has_nan

__all__ = [
    "SoftSort",
    "SoftSortPositions",
    "soft_sort",
    "soft_sort_expectation",
    "soft_sort_positions",
]

# Logits this far below the best have no mass.
_FAR = 1e30
# Up to this many ranks are computed without sums over the whole order.
_FEW_RANKS = 16


def soft_sort(
    scores: tf.Tensor,
    mask: tf.Tensor,
    num_ranks: masked.Size | None = None,
    temperature: Float = 1.0,
) -> tf.Tensor:
    """Returns SoftSort's rank indicators, `softmax_j(-|s_(r) - s_j| / temperature)`.

    `s_(r)`, the score at rank `r` of the exact sort, is differentiated too.

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
        >>> soft_sort(scores, scores > 0, 1, temperature=1.).numpy().round(3)
        array([[[0.09 , 0.665, 0.245]]], dtype=float32)
    """
    fixed = tf.stop_gradient(scores)
    by_rank = tf.gather(fixed, ranking(fixed, mask, num_ranks), batch_dims=1)
    # Tied items share the slope of the score at their ranks.
    tied = tf.equal(by_rank[:, :, tf.newaxis], fixed[:, tf.newaxis, :])
    tied &= mask[:, tf.newaxis]
    tied = tf.cast(tied, scores.dtype)
    share = tf.math.divide_no_nan(tied, tf.reduce_sum(tied, axis=2, keepdims=True))
    by_rank += tf.linalg.matvec(share, scores - fixed)
    gaps = by_rank[:, :, tf.newaxis] - scores[:, tf.newaxis, :]
    # For the largest floats, the gap or its quotient may overflow.
    logits = -tf.abs(gaps) / as_tensor(temperature, scores.dtype)
    logits = tf.where(logits < -_FAR, tf.constant(-_FAR, scores.dtype), logits)
    real = mask[:, tf.newaxis, :] & (masked.real_ranks(mask, by_rank))[:, :, tf.newaxis]
    return tf.where(real, tf.nn.softmax(tf.where(real, logits, -2 * _FAR)), 0)


def soft_sort_expectation(
    scores: tf.Tensor,
    mask: tf.Tensor,
    values: tf.Tensor,
    num_ranks: masked.Size | None = None,
    temperature: Float = 1.0,
) -> tf.Tensor:
    """Returns the expected value at each rank, `soft_sort(...) @ values`.

    Takes O(L log L) time and memory for all ranks of lists of L items, see
    `tfr_ext.relaxations.laplace`, or O(L + k^2) for a small number k of ranks.

    Args:
        scores: see `soft_sort`.
        mask: True at real items.
        values: tensor like `scores`, such as the labels; it is differentiated too.
        num_ranks: number of ranks, by default one for each item. It may exceed the list
            size.
        temperature: see `soft_sort`.

    Returns:
        A tensor of shape `[batch, num_ranks]`, 0 at ranks beyond the number of real
        items.

    Examples:
        >>> scores = tf.constant([[1., 3., 2.]])
        >>> labels = tf.constant([[10., 20., 30.]])
        >>> soft_sort_expectation(scores, scores > 0, labels, 2, 0.1).numpy().round(2)
        array([[20., 30.]], dtype=float32)
    """
    size = masked.list_size(scores)
    wanted = size if num_ranks is None else num_ranks
    rows = masked.minimum(wanted, size)
    fixed = tf.stop_gradient(scores)
    nan = tf.where(has_nan(fixed, mask), tf.cast(float("nan"), scores.dtype), 0)

    @differentiable_once
    def expectation(scores: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        del scores  # sorted in `_few_ranks` and `_all_ranks`
        if isinstance(wanted, int) and wanted <= _FEW_RANKS:
            return _few_ranks(fixed, mask, values, rows, temperature, nan)
        return _all_ranks(fixed, mask, values, rows, temperature, nan)

    expected = expectation(scores, values)
    real_ranks = masked.real_ranks(mask, expected)
    return tf.pad(tf.where(real_ranks, expected, 0), [[0, 0], [0, wanted - rows]])


def soft_sort_positions(
    scores: tf.Tensor, mask: tf.Tensor, temperature: Float = 1.0
) -> tf.Tensor:
    """Returns the position of each item under SoftSort, `sum_r r P[r, j]`.

    `P` is `soft_sort(...)`. The positions have the same sum as those of the exact sort,
    and tend to them as the temperature falls. Takes O(L log L) time and memory for
    lists of L items.

    Args:
        scores: see `soft_sort`.
        mask: True at real items.
        temperature: see `soft_sort`.

    Returns:
        A tensor like `scores`, 0 at padding.

    Examples:
        >>> scores = tf.constant([[1., 3., 2.]])
        >>> soft_sort_positions(scores, scores > 0, 0.1).numpy().round(3)
        array([[3., 1., 2.]], dtype=float32)
    """
    fixed = tf.stop_gradient(scores)
    nan = tf.where(has_nan(fixed, mask), tf.cast(float("nan"), scores.dtype), 0)

    @differentiable_once
    def positions(scores: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        del scores  # sorted in `kernel`
        kernel = laplace.kernel(fixed, mask, temperature)
        around = kernel.sums(tf.ones_like(kernel.decay))
        totals = around.totals()[0] + tf.transpose(nan)
        weights = tf.transpose(masked.ranks(fixed)) / totals
        parts = kernel.sums(weights)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            values = kernel.take(upstream)
            of_values = kernel.sums(values)
            means = of_values.totals()[0] / totals
            return kernel.score_adjoint(
                weights,
                means,
                values,
                of_values,
                around,
                parts,
                kernel.sums(weights * means),
            )

        return kernel.give_back(parts.totals()[0]), gradient

    return tf.where(mask, positions(scores), 0)


Result = tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]


def _all_ranks(
    scores: tf.Tensor,
    mask: tf.Tensor,
    values: tf.Tensor,
    rows: masked.Size,
    temperature: Float,
    nan: tf.Tensor,
) -> Result:
    """Returns the first of all expectations, and their adjoint."""
    kernel = laplace.kernel(scores, mask, temperature)
    taken = kernel.take(values)
    sums = kernel.sums(taken, tf.ones_like(taken))
    of_values, totals = sums.totals()
    totals += tf.transpose(nan)
    expected = of_values / totals

    def adjoint(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        spare = masked.list_size(scores) - rows
        weights = tf.pad(tf.transpose(upstream), [[0, spare], [0, 0]]) / totals
        more = kernel.sums(weights, weights * expected)
        return (
            kernel.score_adjoint(weights, expected, taken, sums, more),
            kernel.give_back(more.totals()[0]),
        )

    return tf.transpose(expected[:rows]), adjoint


def _few_ranks(
    scores: tf.Tensor,
    mask: tf.Tensor,
    values: tf.Tensor,
    rows: masked.Size,
    temperature: Float,
    nan: tf.Tensor,
) -> Result:
    """Returns the same for a few ranks, sorting only the items at these ranks.

    With c the score at the last of the ranks, `K[r, p] = K[r, c] K[c, p]` holds for all
    items that are not above c: one exponential per item, whatever the number of ranks.
    """
    temperature = as_tensor(temperature, scores.dtype)
    top = best(scores, mask, rows)
    # Ranks of padding are moved to the lowest number, below all real items.
    head = tf.maximum(top.values, scores.dtype.min)
    last = head[:, -1:]
    above = tf.cast(head > last, scores.dtype)
    gaps = head[:, tf.newaxis, :] - head[:, :, tf.newaxis]
    near = tf.exp(-tf.abs(gaps) / temperature)
    to_last = near[:, :, -1]
    keys = tf.where(mask, scores, -float("inf"))
    level = tf.cast(tf.equal(keys, last), scores.dtype)
    below = tf.where(keys < last, tf.exp((keys - last) / temperature), 0)
    at_head = tf.gather(values, top.indices, batch_dims=1) * above

    def product(matrix: tf.Tensor, *columns: tf.Tensor) -> list[tf.Tensor]:
        # Faster on a CPU than tf.matmul of such small matrices.
        return [tf.reduce_sum(matrix * c[:, tf.newaxis], axis=2) for c in columns]

    inner = product(near, at_head, above)

    def total(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(x, axis=1, keepdims=True)

    def to_items(x: tf.Tensor) -> tf.Tensor:
        first = tf.range(tf.shape(scores)[0])[:, tf.newaxis] * tf.shape(scores)[1]
        places = tf.reshape(top.indices + first, [-1])
        flat = tf.reshape(x, [-1])
        sums = tf.math.unsorted_segment_sum(flat, places, tf.size(scores))
        return tf.reshape(sums, tf.shape(scores))

    count = total(level)
    tails = total(below * values), total(below)
    values_of_rest = tails[0] + total(level * values)
    ones_of_rest = tails[1] + count
    sums = inner[0] + to_last * values_of_rest
    # The sum is at least 1, except for empty lists.
    totals = tf.maximum(inner[1] + to_last * ones_of_rest, 1) + nan
    expected = sums / totals

    def adjoint(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        weights = upstream / totals
        means = weights * expected
        # See `laplace.Kernel.score_adjoint`: D of the head, and of the rest. Values are
        # relative to the row's, as they may be equal where all of the mass is.
        relative = (
            near * tf.sign(gaps) * (at_head[:, tf.newaxis] - expected[:, :, tf.newaxis])
        )
        of_head = product(relative, above)[0]
        of_rest = to_last * (values_of_rest - expected * ones_of_rest)
        tied = tf.cast(tf.equal(gaps, 0), scores.dtype)
        shared = product(tied, weights)[0] / tf.reduce_sum(tied, axis=2)
        slopes = shared * (of_head - of_rest)
        slopes -= tf.reduce_sum(relative * weights[:, :, tf.newaxis], axis=1)

        # All items at c, whether at a rank or not, share evenly.
        share = total(weights * (1 - above)) / tf.maximum(count, 1)
        of_values, of_ones = inner[0][:, -1:] - tails[0], inner[1][:, -1:] - tails[1]
        at_last = share * (of_values - expected[:, -1:] * of_ones)
        reach = total(to_last * weights), total(to_last * means)
        above_reach = (
            total(to_last * weights * above),
            total(to_last * means * above),
        )
        rest = below * (values * reach[0] - reach[1])
        rest += level * (values * above_reach[0] - above_reach[1] + at_last)
        return (
            (rest + to_items(slopes * above)) / temperature,
            (below + level) * reach[0] + to_items(product(near, weights)[0] * above),
        )

    return expected, adjoint


@register
@dataclasses.dataclass(frozen=True)
class SoftSort(Indicators):
    """SoftSort's rank indicators, see `soft_sort`."""

    SHARPNESS = Sharpness("temperature", "lower")
    ANY_NUM_RANKS = True
    ARGUMENTS = {"temperature": Argument(checks.temperature, annealable=True)}

    temperature: Annealable = 1.0

    def indicators(
        self, scores: tf.Tensor, mask: tf.Tensor, num_ranks: masked.Size
    ) -> tf.Tensor:
        """Returns rank indicators, `[batch, num_ranks, list]`."""
        ranks = masked.minimum(num_ranks, masked.list_size(scores))
        rows = soft_sort(scores, mask, ranks, self.now("temperature"))
        return tf.pad(rows, [[0, 0], [0, num_ranks - ranks], [0, 0]])

    def expectation(
        self,
        scores: tf.Tensor,
        mask: tf.Tensor,
        values: tf.Tensor,
        num_ranks: masked.Size,
    ) -> tf.Tensor:
        """Returns the expected value at each rank, `[batch, num_ranks]`."""
        return soft_sort_expectation(
            scores,
            mask,
            tf.stop_gradient(values),
            num_ranks,
            self.now("temperature"),
        )


@register
@dataclasses.dataclass(frozen=True)
class SoftSortPositions(Positions):
    """The expected positions of the items under SoftSort, see `soft_sort_positions`."""

    SHARPNESS = SoftSort.SHARPNESS
    ARGUMENTS = SoftSort.ARGUMENTS

    temperature: Annealable = 1.0

    def positions(self, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns positive positions, `[batch, list]`."""
        return soft_sort_positions(scores, mask, self.now("temperature"))
