r"""Transport of a list's items to its ranks: soft positions, differentiated exactly.

Items at `x_i` in (0, 1) and ranks at `y_j`, evenly from 1 down to 0, each have a mass
of `1/n`, and moving it costs `(x - y)^2`. After Sinkhorn's iterations
(`tfr_ext.transport`) the plan is `P_ij = u_i K_ij v_j`, its rows sum to `1/n`, and the
position of an item is the mean of the ranks, weighted by its row (Cuturi, Teboul and
Vert, "Differentiable Ranking and Sorting using Optimal Transport", NeurIPS 2019).

Neither direction makes more than one kernel `[lists, list, list]`, of a few lists at a
time. The adjoint of all iterations needs products with plans between two scalings only,
so both scalings of each iteration are kept, and no plan. With `f = log u`, `g = log v`
and their adjoints `df` and `dg`,

    g_j = -log n - log sum_i K_ij exp(f_i)    df_i = -n sum_j u_i K_ij v_j dg_j

and alike for `f`. As `log K_ij` is `2 (x_i - 1/2) (y_j - 1/2) / regularization` but for
terms in one index, the adjoint of `x_i` has the same products, with `y_j - 1/2` in the
sums: all of them are one product with the kernel at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

import tensorflow as tf

from tfr_ext import masked, transport

# Elements of the kernels of so many lists as one block has: what stays in a processor's
# cache is several times as fast as what does not.
_BLOCK = 2**20
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

    def kernel_of(x: tf.Tensor, mask: tf.Tensor) -> _Numbers | _Logs:
        kind = _Logs if regularization < LEAST_REGULARIZATION else _Numbers
        return kind(_Problem.of(x, mask), regularization)

    @tf.custom_gradient
    def positions(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        blocks = _Blocks(x)
        split = [blocks.split(x), blocks.split(mask)]
        # Of one block it stays; of more than one it is made again.
        kept = kernel_of(x, mask) if blocks.are_one else None

        def solve(x: tf.Tensor, mask: tf.Tensor) -> _Solution:
            return _solve(kept or kernel_of(x, mask), num_iterations)

        one, trace = blocks.spec(), blocks.spec(num_iterations)
        solution = blocks.map(solve, split, _Solution(one, one, one, trace, trace))

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

    def __init__(self, x: tf.Tensor):
        """Initialises the blocks of a batch `[batch, list]`."""
        self._like = x
        self._batch, size = masked.batch_size(x), masked.list_size(x)
        most = masked.maximum(1, _BLOCK // masked.maximum(1, size * size))
        self._number = masked.maximum(1, -(-self._batch // most))
        self._length = -(-self._batch // self._number)
        self.are_one = isinstance(self._number, int) and self._number == 1

    def spec(self, *outer: int) -> tf.TensorSpec:
        """Returns what the tensors of a block are like, after outer dimensions."""
        length = self._length if isinstance(self._length, int) else None
        return tf.TensorSpec([*outer, length, self._like.shape[1]], self._like.dtype)

    def split(self, x: tf.Tensor) -> tf.Tensor:
        """Returns `[blocks, lists, list]` of `[batch, list]`; what is added is 0."""
        if self.are_one:
            return x
        padded = tf.pad(x, [[0, self._number * self._length - self._batch], [0, 0]])
        size = masked.list_size(x)
        return tf.reshape(padded, [self._number, self._length, size])

    def map(self, function: Callable, tensors: Sequence[tf.Tensor], specs: Any) -> Any:
        """Returns what a function gives of each block, which `specs` describes."""
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


class _Problem(NamedTuple):
    """Lists of items to be transported; `[batch, list]` but for the number of items.

    Attributes:
        x: where items are, less 1/2; 0 at padding.
        y: where ranks are, less 1/2; 0 at padding.
        ranks: 1, 2, ...
        is_item: True at real items.
        is_rank: True at the ranks of these.
        count: how many these are, `[batch, 1]`.
    """

    x: tf.Tensor
    y: tf.Tensor
    ranks: tf.Tensor
    is_item: tf.Tensor
    is_rank: tf.Tensor
    count: tf.Tensor

    @classmethod
    def of(cls, x: tf.Tensor, mask: tf.Tensor) -> _Problem:
        """Returns the problem; a list of padding is solved as if it had items."""
        mask |= ~tf.reduce_any(mask, axis=1, keepdims=True)
        count = masked.num_real(mask, x.dtype)[:, tf.newaxis]
        ranks = masked.ranks(x)
        is_rank = ranks <= count
        y = 0.5 - (ranks - 1) / tf.maximum(count - 1, 1)
        x, y = tf.where(mask, x, 0), tf.where(is_rank, y, 0)
        return cls(x, y, ranks, mask, is_rank, count)


class _Numbers:
    """The kernel, and scalings, as numbers: products are those of matrices.

    It is `exp(2 x y / regularization)`: the squares of the cost are absorbed by the
    scalings. At padding it is 1, and scalings are 0.
    """

    def __init__(self, problem: _Problem, regularization: float):
        """Makes the kernel."""
        self.problem, self.regularization = problem, regularization
        x = problem.x * (2 / regularization)
        self._kernel = tf.exp(x[:, :, tf.newaxis] * problem.y[:, tf.newaxis, :])
        mass = 1 / problem.count
        self._of_item = tf.where(problem.is_item, mass, 0)
        self._of_rank = tf.where(problem.is_rank, mass, 0)

    def first(self) -> tf.Tensor:
        """Returns the scaling of the items that is 1 with the squares."""
        return self._of_item * tf.exp(tf.square(self.problem.x) / -self.regularization)

    def of_ranks(self, u: tf.Tensor) -> tf.Tensor:
        """Returns the scaling of the ranks that gives them their mass."""
        return self._of_rank / self._transposed_product(u)

    def of_items(self, v: tf.Tensor) -> tf.Tensor:
        """Returns the scaling of the items that gives them their mass."""
        return self._of_item / self._product(v)

    def to_items(self, u: tf.Tensor, v: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Returns `sum_j P_ij values_j`."""
        return u * self._product(v * values)

    def to_ranks(self, u: tf.Tensor, v: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Returns `sum_i P_ij values_i`."""
        return v * self._transposed_product(u * values)

    def sums_to_items(
        self, u: tf.Tensor, v: tf.Tensor, factors: tf.Tensor, values: tf.Tensor
    ) -> tf.Tensor:
        """Returns the sum of `factors * to_items(u, v, values)` over dimension 0."""
        # Of one large product, many times as fast as of many.
        right = tf.transpose(v * values, [1, 0, 2])
        products = tf.matmul(right, self._kernel, transpose_b=True)
        return tf.reduce_sum(tf.transpose(u * factors, [1, 0, 2]) * products, axis=1)

    # Rows times the matrix: twice as fast here as the matrix times columns.
    def _product(self, v: tf.Tensor) -> tf.Tensor:
        return tf.matmul(v[:, tf.newaxis, :], self._kernel, transpose_b=True)[:, 0, :]

    def _transposed_product(self, u: tf.Tensor) -> tf.Tensor:
        return tf.matmul(u[:, tf.newaxis, :], self._kernel)[:, 0, :]


class _Logs:
    """`_Numbers`, but of logarithms: for any regularization, and much slower."""

    def __init__(self, problem: _Problem, regularization: float):
        """Makes the logarithm of the kernel."""
        self.problem, self.regularization = problem, regularization
        gaps = problem.x[:, :, tf.newaxis] - problem.y[:, tf.newaxis, :]
        self._log_kernel = tf.square(gaps) / -regularization
        self._log_mass = -tf.math.log(problem.count)

    def first(self) -> tf.Tensor:
        """See `_Numbers`."""
        return tf.where(self.problem.is_item, self._log_mass, transport.NOTHING)

    def of_ranks(self, log_u: tf.Tensor) -> tf.Tensor:
        """See `_Numbers`."""
        terms = self._log_kernel + log_u[:, :, tf.newaxis]
        log_v = self._log_mass - tf.reduce_logsumexp(terms, axis=1)
        return tf.where(self.problem.is_rank, log_v, transport.NOTHING)

    def of_items(self, log_v: tf.Tensor) -> tf.Tensor:
        """See `_Numbers`."""
        terms = self._log_kernel + log_v[:, tf.newaxis, :]
        log_u = self._log_mass - tf.reduce_logsumexp(terms, axis=2)
        return tf.where(self.problem.is_item, log_u, transport.NOTHING)

    def to_items(
        self, log_u: tf.Tensor, log_v: tf.Tensor, values: tf.Tensor
    ) -> tf.Tensor:
        """See `_Numbers`."""
        return tf.linalg.matvec(self._plan(log_u, log_v), values)

    def to_ranks(
        self, log_u: tf.Tensor, log_v: tf.Tensor, values: tf.Tensor
    ) -> tf.Tensor:
        """See `_Numbers`."""
        return tf.linalg.matvec(self._plan(log_u, log_v), values, transpose_a=True)

    def sums_to_items(
        self, log_u: tf.Tensor, log_v: tf.Tensor, factors: tf.Tensor, values: tf.Tensor
    ) -> tf.Tensor:
        """See `_Numbers`."""

        def add(total: tf.Tensor, each: tuple[tf.Tensor, ...]) -> tf.Tensor:
            log_u, log_v, factors, values = each
            return total + factors * self.to_items(log_u, log_v, values)

        return tf.foldl(
            add,
            (log_u, log_v, factors, values),
            tf.zeros_like(self.problem.x),
            parallel_iterations=1,
        )

    def _plan(self, log_u: tf.Tensor, log_v: tf.Tensor) -> tf.Tensor:
        return tf.exp(
            self._log_kernel + log_u[:, :, tf.newaxis] + log_v[:, tf.newaxis, :]
        )


class _Solution(NamedTuple):
    """What the iterations give.

    Attributes:
        positions: of the items, `[batch, list]`.
        u: last scaling of the items, `[batch, list]`.
        v: last scaling of the ranks.
        all_u: scalings before each iteration, `[iterations, batch, list]`.
        all_v: scalings after each iteration.
    """

    positions: tf.Tensor
    u: tf.Tensor
    v: tf.Tensor
    all_u: tf.Tensor
    all_v: tf.Tensor


def _solve(kernel: _Numbers | _Logs, num_iterations: int) -> _Solution:
    u, v, trace = transport.iterate(
        kernel.of_ranks, kernel.of_items, kernel.first(), num_iterations, traced=True
    )
    problem = kernel.problem
    ranks = problem.ranks + tf.zeros_like(problem.y)
    return _Solution(problem.count * kernel.to_items(u, v, ranks), u, v, *trace)


def _adjoint(
    kernel: _Numbers | _Logs,
    solution: _Solution,
    upstream: tf.Tensor,
    num_iterations: int,
) -> tf.Tensor:
    """Pulls the adjoint of the positions back to `x`; see the head of this module."""
    problem, (positions, u, v, all_u, all_v) = kernel.problem, solution
    count, y = problem.count, problem.y
    ranks = problem.ranks + tf.zeros_like(y)
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
        tf.TensorArray(u.dtype, num_iterations, element_shape=u.shape) for _ in range(2)
    ]
    _, _, of_first, *arrays = tf.while_loop(
        lambda i, *_: i >= 0,
        step,
        (num_iterations - 1, of_v, of_v, *arrays),
        maximum_iterations=num_iterations,
    )
    each_v, each_u = (array.stack() for array in arrays)
    ones = tf.ones_like(each_v)
    sums = kernel.sums_to_items(
        tf.concat([[u, u], all_u, all_u[1:]], axis=0),
        tf.concat([[v, v], all_v, all_v[:-1]], axis=0),
        tf.concat(
            [[upstream, -of_positions], -count * ones, -count * each_u[1:]], axis=0
        ),
        y * tf.concat([[ranks], ones[:1], each_v, ones[1:]], axis=0),
    )
    # What is left: the first scaling, exp(-x^2 / regularization).
    return (2 / kernel.regularization) * (sums - problem.x * of_first)
