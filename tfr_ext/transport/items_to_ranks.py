r"""Transport of a list's items to its ranks: soft positions, differentiated exactly.

Items at `x_i` in (0, 1) and ranks at `y_j`, evenly from 1 down to 0, each have a mass
of `1/n`, and moving it costs `(x - y)^2`. After Sinkhorn's iterations
(`tfr_ext.transport`) the plan is `P_ij = u_i K_ij v_j`, its rows sum to `1/n`, and the
position of an item is the mean of the ranks, weighted by its row (Cuturi, Teboul and
Vert, "Differentiable Ranking and Sorting using Optimal Transport", NeurIPS 2019).

The adjoint of all iterations needs products with plans between two scalings only, so
both scalings of each iteration are kept, and no plan. With `f = log u`, `g = log v`
and their adjoints `df` and `dg`,

$$
g_j = -\log n - \log \sum_i K_{ij} \, e^{f_i}, \qquad
\mathrm{d}f_i = -n \sum_j u_i K_{ij} v_j \, \mathrm{d}g_j
$$

and alike for `f`. As `log K_ij` is `2 (x_i - 1/2) (y_j - 1/2) / regularization` but for
terms in one index, the adjoint of `x_i` has the same products, with `y_j - 1/2` in the
sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfr_ext.core import masked
from tfr_ext.transport import items_to_ranks_kernels, sinkhorn

# Elements of the kernels of so many lists as one block has: what stays in a processor's
# cache is several times as fast as what does not.
_BLOCK = 2**20
# List size from which the kernel is kept in two factors.
_LONG = 100
# The least regularization of the kernel of numbers, which spans e^-63 to e^63 then, and
# the scalings not much more: float32 ends at e^88, and products overflow at 0.006.
LEAST_REGULARIZATION = 0.008


def soft_positions(
    x: tf.Tensor, mask: tf.Tensor, regularization: float, num_iterations: int
) -> tf.Tensor:
    """Returns the mean rank of each item under the transport plan.

    Args:
        x: where items are, less 1/2: in (-1/2, 1/2), the best the highest,
            `[batch, list]`.
        mask: True at real items, `[batch, list]`.
        regularization: of the entropy, from 1e-4 up.
        num_iterations: at least 1.

    Returns:
        A tensor like `x`, 1 for the best; without meaning at padding.
    """
    size = masked.list_size(x)
    kind: type[items_to_ranks_kernels.Kernel] = items_to_ranks_kernels.Whole
    width, elements = size, size * size
    if regularization < LEAST_REGULARIZATION:
        kind = items_to_ranks_kernels.Logs
    elif not isinstance(size, int) or size >= _LONG:
        # At least 8 rows: so the factor of the offsets is never far from 1.
        width = masked.maximum(1, masked.minimum(32, size // 8))
        elements, kind = size * (width - (-size // width)), items_to_ranks_kernels.Rows

    def kernel_of(x: tf.Tensor, mask: tf.Tensor) -> items_to_ranks_kernels.Kernel:
        return kind(items_to_ranks_kernels.Problem.of(x, mask, width), regularization)

    @tf.custom_gradient
    def positions(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        blocks = _Blocks(x, elements)
        split = [blocks.split(x), blocks.split(mask)]
        # The kernel of a single block is kept; those of several are made again.
        kept = kernel_of(x, mask) if blocks.are_one else None

        def solve(x: tf.Tensor, mask: tf.Tensor) -> _Solution:
            return _solve(kept or kernel_of(x, mask), num_iterations)

        one, any_ranks = blocks.spec(), blocks.spec(any_size=True)
        specs = _Solution(
            one,
            one,
            any_ranks,
            blocks.spec(num_iterations),
            blocks.spec(num_iterations, any_size=True),
        )
        solution = blocks.map(solve, split, specs)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            def slopes(
                x: tf.Tensor, mask: tf.Tensor, upstream: tf.Tensor, *solved: tf.Tensor
            ) -> tf.Tensor:
                kernel = kept or kernel_of(x, mask)
                return _adjoint(kernel, _Solution(*solved), upstream, num_iterations)

            tensors = [*split, blocks.split(upstream), *solution]
            return blocks.join(blocks.map(slopes, tensors, one))

        return blocks.join(solution.positions), gradient

    return positions(x)


class _Blocks:
    """The lists of a batch, so many at a time that memory stays bounded."""

    def __init__(self, x: tf.Tensor, elements: masked.Size):
        """Initialises the blocks of a batch `[batch, list]`, elements of a kernel."""
        self._like = x
        self._batch = masked.batch_size(x)
        most = masked.maximum(1, _BLOCK // masked.maximum(1, elements))
        self._number = masked.maximum(1, -(-self._batch // most))
        self._length = -(-self._batch // self._number)
        self.are_one = isinstance(self._number, int) and self._number == 1

    def spec(self, *outer: int, any_size: bool = False) -> tf.TensorSpec:
        """Returns the spec of the tensors of a block, after outer dimensions."""
        length = self._length if isinstance(self._length, int) else None
        size = None if any_size else self._like.shape[1]
        return tf.TensorSpec([*outer, length, size], self._like.dtype)

    def split(self, x: tf.Tensor) -> tf.Tensor:
        """Returns `[blocks, lists, list]` of `[batch, list]`, padded with zeros."""
        if self.are_one:
            return x
        padded = tf.pad(x, [[0, self._number * self._length - self._batch], [0, 0]])
        size = masked.list_size(x)
        return tf.reshape(padded, [self._number, self._length, size])

    def map(self, function: Callable, tensors: Sequence[tf.Tensor], specs: Any) -> Any:
        """Returns the results of a function for each block, which `specs` describes."""
        if self.are_one:
            return function(*tensors)
        return tf.map_fn(
            lambda block: function(*block),
            tuple(tensors),
            fn_output_signature=specs,
            parallel_iterations=1,
        )

    def join(self, x: tf.Tensor) -> tf.Tensor:
        """Returns `[batch, list]` of `[blocks, lists, list]`."""
        if self.are_one:
            return x
        rows = self._number * self._length
        joined = tf.reshape(x, [rows, masked.list_size(self._like)])
        return tf.ensure_shape(joined[: self._batch], self._like.shape)


class _Solution(NamedTuple):
    """Positions of the items, and the last scalings of items (`u`) and ranks (`v`).

    `all_u` has those of the items before each iteration, and `all_v` those of the ranks
    after it, `[iterations, batch, list]`; all others are `[batch, list]`.
    """

    positions: tf.Tensor
    u: tf.Tensor
    v: tf.Tensor
    all_u: tf.Tensor
    all_v: tf.Tensor


def _solve(kernel: items_to_ranks_kernels.Kernel, num_iterations: int) -> _Solution:
    problem = kernel.problem
    u, v, trace = sinkhorn.iterate(
        kernel.of_ranks,
        kernel.of_items,
        kernel.first(),
        tf.zeros_like(problem.y),
        num_iterations,
        traced=True,
    )
    positions = problem.count * kernel.to_items(u, v, problem.ranks)
    return _Solution(positions, u, v, *trace)


def _adjoint(
    kernel: items_to_ranks_kernels.Kernel,
    solution: _Solution,
    upstream: tf.Tensor,
    num_iterations: int,
) -> tf.Tensor:
    """Pulls the adjoint of the positions back to `x`; see the head of this module."""
    problem, (positions, u, v, all_u, all_v) = kernel.problem, solution
    count, y = problem.count, problem.y
    ranks = problem.ranks
    upstream = tf.where(problem.is_item, count * upstream, 0)
    of_positions = upstream * positions
    # The position of an item changes by sum_j n P_ij (j - position) d log(K_ij v_j).
    of_v = ranks * kernel.to_ranks(u, v, upstream) - kernel.to_ranks(u, v, of_positions)

    def step(
        i: tf.Tensor, of_v: tf.Tensor, _: tf.Tensor, *arrays: tf.TensorArray
    ) -> tuple:
        # The first iteration has none before it: what it hands on is not used.
        before = tf.maximum(i - 1, 0)
        of_u = -count * kernel.to_items(all_u[i], all_v[i], of_v)
        kept = [array.write(i, x) for array, x in zip(arrays, (of_v, of_u))]
        return (
            i - 1,
            -count * kernel.to_ranks(all_u[i], all_v[before], of_u),
            of_u,
            *kept,
        )

    arrays = [
        tf.TensorArray(x.dtype, num_iterations, element_shape=x.shape) for x in (v, u)
    ]
    _, _, of_first, *arrays = tf.while_loop(
        lambda i, *_: i >= 0,
        step,
        (num_iterations - 1, of_v, u, *arrays),
        maximum_iterations=num_iterations,
    )
    each_v, each_u = (array.stack() for array in arrays)
    ones, of_one = tf.ones_like(each_v), tf.ones_like(each_u)
    sums = kernel.sums_to_items(
        tf.concat([[u, u], all_u, all_u[1:]], axis=0),
        tf.concat([[v, v], all_v, all_v[:-1]], axis=0),
        tf.concat(
            [[upstream, -of_positions], -count * of_one, -count * each_u[1:]], axis=0
        ),
        y * tf.concat([[ranks], ones[:1], each_v, ones[1:]], axis=0),
    )
    # The rest: the first scaling, exp(-x^2 / regularization).
    return (2 / kernel.regularization) * (sums - problem.x * of_first)
