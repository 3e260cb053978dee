"""Kernels of the transport of items to ranks, and products with them.

See `tfr_ext.transport.items_to_ranks`. The numbers are the same of each; the time is
not.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

import tensorflow as tf

from tfr_ext.core import masked
from tfr_ext.transport import sinkhorn


class Problem(NamedTuple):
    """Lists of items to be transported.

    Attributes:
        x: where items are, less 1/2; 0 at padding, `[batch, list]`.
        y: where ranks are, less 1/2, `[batch, rows * width]`.
        ranks: 1, 2, ... where they are real.
        is_item: True at real items.
        is_rank: True at the ranks of these.
        count: how many these are, `[batch, 1]`.
        start: the first `y` of each row of ranks, `[batch, rows]`.
        offset: how much `y` is below that in each column, `[batch, width]`.
    """

    x: tf.Tensor
    y: tf.Tensor
    ranks: tf.Tensor
    is_item: tf.Tensor
    is_rank: tf.Tensor
    count: tf.Tensor
    start: tf.Tensor
    offset: tf.Tensor

    @classmethod
    def of(cls, x: tf.Tensor, mask: tf.Tensor, width: masked.Size) -> Problem:
        """Returns the problem; a list of padding is solved as if it had items.

        Args:
            x: where items are, less 1/2, `[batch, list]`.
            mask: True at real items.
            width: columns of ranks that make a row of them: each list has its ranks in
                as many rows, and in the first columns of these.
        """
        mask |= ~tf.reduce_any(mask, axis=1, keepdims=True)
        count = masked.num_real(mask, x.dtype)[:, tf.newaxis]
        size = masked.list_size(x)
        number = -(-size // width)
        row, column = (
            tf.cast(tf.range(n), x.dtype)[tf.newaxis, :] for n in (number, width)
        )
        used = tf.math.ceil(count / tf.cast(number, x.dtype))
        step = 1 / tf.maximum(count - 1, 1)
        # Clipped where all is padding, which must be finite.
        start = tf.maximum(0.5 - row * used * step, -0.5)
        offset = tf.minimum(column, used - 1) * step
        ranks = 1 + (row * used)[:, :, tf.newaxis] + column
        is_rank = (column < used)[:, tf.newaxis, :] & (ranks <= count[:, :, tf.newaxis])
        y = start[:, :, tf.newaxis] - offset[:, tf.newaxis, :]
        slots = number * width
        ranks, is_rank, y = (
            tf.reshape(z, [masked.batch_size(x), slots]) for z in (ranks, is_rank, y)
        )
        return cls(tf.where(mask, x, 0), y, ranks, mask, is_rank, count, start, offset)


class Kernel(abc.ABC):
    """Products with the kernel and with plans; scalings are numbers or logarithms."""

    def __init__(self, problem: Problem, regularization: float):
        """Initialises the kernel of a problem."""
        self.problem, self.regularization = problem, regularization

    @abc.abstractmethod
    def first(self) -> tf.Tensor:
        """Returns the scaling of the items to begin with."""

    @abc.abstractmethod
    def of_ranks(self, u: tf.Tensor) -> tf.Tensor:
        """Returns the scaling of the ranks that gives them their mass."""

    @abc.abstractmethod
    def of_items(self, v: tf.Tensor) -> tf.Tensor:
        """Returns the scaling of the items that gives them their mass."""

    @abc.abstractmethod
    def to_items(self, u: tf.Tensor, v: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Returns `sum_j P_ij values_j`."""

    @abc.abstractmethod
    def to_ranks(self, u: tf.Tensor, v: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Returns `sum_i P_ij values_i`."""

    def sums_to_items(
        self, u: tf.Tensor, v: tf.Tensor, factors: tf.Tensor, values: tf.Tensor
    ) -> tf.Tensor:
        """Returns the sum of `factors * to_items(u, v, values)` over dimension 0."""

        def add(total: tf.Tensor, each: tuple[tf.Tensor, ...]) -> tf.Tensor:
            u, v, factors, values = each
            return total + factors * self.to_items(u, v, values)

        return tf.foldl(
            add,
            (u, v, factors, values),
            tf.zeros_like(self.problem.x),
            parallel_iterations=1,
        )


class Rows(Kernel):
    """The kernel as numbers, in two factors: for long lists.

    It is `exp(2 x y / regularization)`: the squares of the cost are absorbed by the
    scalings. As `y` is the start of a row less an offset in it, both factors have a few
    columns, and a product with the kernel is one with matrices that stay in the cache:
    as many multiplications as with the whole kernel, of which nothing is ever made.
    """

    def __init__(self, problem: Problem, regularization: float):
        """Makes the factors."""
        super().__init__(problem, regularization)
        x = problem.x[:, tf.newaxis, :] * (2 / regularization)
        self._starts = tf.exp(problem.start[:, :, tf.newaxis] * x)
        self._offsets = tf.exp(-problem.offset[:, :, tf.newaxis] * x)
        self._set_masses()

    def _set_masses(self) -> None:
        mass = 1 / self.problem.count
        self._of_item = tf.where(self.problem.is_item, mass, 0)
        self._of_rank = tf.where(self.problem.is_rank, mass, 0)

    def first(self) -> tf.Tensor:
        """Returns the scaling that is 1/n with the squares."""
        return self._of_item * tf.exp(tf.square(self.problem.x) / -self.regularization)

    def of_ranks(self, u: tf.Tensor) -> tf.Tensor:
        """Returns the scaling of the ranks, 0 at padding."""
        return self._of_rank / self._transposed_product(u)

    def of_items(self, v: tf.Tensor) -> tf.Tensor:
        """Returns the scaling of the items, 0 at padding."""
        return self._of_item / self._product(v)

    def to_items(self, u: tf.Tensor, v: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Returns `sum_j P_ij values_j`."""
        return u * self._product(v * values)

    def to_ranks(self, u: tf.Tensor, v: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Returns `sum_i P_ij values_i`."""
        return v * self._transposed_product(u * values)

    def _product(self, v: tf.Tensor) -> tf.Tensor:
        number, width = (masked.list_size(z) for z in (self._starts, self._offsets))
        by_row = tf.reshape(v, [masked.batch_size(v), number, width])
        return tf.reduce_sum(tf.matmul(by_row, self._offsets) * self._starts, axis=1)

    def _transposed_product(self, u: tf.Tensor) -> tf.Tensor:
        by_row = tf.matmul(
            self._starts * u[:, tf.newaxis, :], self._offsets, transpose_b=True
        )
        return tf.reshape(by_row, tf.shape(self.problem.y))


class Whole(Rows):
    """The kernel as one matrix of numbers: for short lists."""

    def __init__(self, problem: Problem, regularization: float):
        """Makes the kernel."""
        Kernel.__init__(self, problem, regularization)
        x = problem.x * (2 / regularization)
        self._kernel = tf.exp(x[:, :, tf.newaxis] * problem.y[:, tf.newaxis, :])
        self._set_masses()

    def sums_to_items(
        self, u: tf.Tensor, v: tf.Tensor, factors: tf.Tensor, values: tf.Tensor
    ) -> tf.Tensor:
        """Returns the sum of `factors * to_items(u, v, values)` over dimension 0."""
        # One large product is many times as fast as many small ones.
        right = tf.transpose(v * values, [1, 0, 2])
        products = tf.matmul(right, self._kernel, transpose_b=True)
        return tf.reduce_sum(tf.transpose(u * factors, [1, 0, 2]) * products, axis=1)

    # Rows times the matrix: twice as fast here as the matrix times columns.
    def _product(self, v: tf.Tensor) -> tf.Tensor:
        return tf.matmul(v[:, tf.newaxis, :], self._kernel, transpose_b=True)[:, 0, :]

    def _transposed_product(self, u: tf.Tensor) -> tf.Tensor:
        return tf.matmul(u[:, tf.newaxis, :], self._kernel)[:, 0, :]


class Logs(Kernel):
    """The kernel and scalings as logarithms: for any regularization, much slower."""

    def __init__(self, problem: Problem, regularization: float):
        """Makes the logarithm of the kernel."""
        super().__init__(problem, regularization)
        gaps = problem.x[:, :, tf.newaxis] - problem.y[:, tf.newaxis, :]
        self._log_kernel = tf.square(gaps) / -regularization
        self._log_mass = -tf.math.log(problem.count)

    def first(self) -> tf.Tensor:
        """Returns the log-scaling of the items to begin with."""
        return tf.where(self.problem.is_item, self._log_mass, sinkhorn.NOTHING)

    def of_ranks(self, log_u: tf.Tensor) -> tf.Tensor:
        """Returns the log-scaling of the ranks that gives them their mass."""
        terms = self._log_kernel + log_u[:, :, tf.newaxis]
        log_v = self._log_mass - tf.reduce_logsumexp(terms, axis=1)
        return tf.where(self.problem.is_rank, log_v, sinkhorn.NOTHING)

    def of_items(self, log_v: tf.Tensor) -> tf.Tensor:
        """Returns the log-scaling of the items that gives them their mass."""
        terms = self._log_kernel + log_v[:, tf.newaxis, :]
        log_u = self._log_mass - tf.reduce_logsumexp(terms, axis=2)
        return tf.where(self.problem.is_item, log_u, sinkhorn.NOTHING)

    def to_items(
        self, log_u: tf.Tensor, log_v: tf.Tensor, values: tf.Tensor
    ) -> tf.Tensor:
        """Returns `sum_j P_ij values_j`."""
        return tf.linalg.matvec(self._plan(log_u, log_v), values)

    def to_ranks(
        self, log_u: tf.Tensor, log_v: tf.Tensor, values: tf.Tensor
    ) -> tf.Tensor:
        """Returns `sum_i P_ij values_i`."""
        return tf.linalg.matvec(self._plan(log_u, log_v), values, transpose_a=True)

    def _plan(self, log_u: tf.Tensor, log_v: tf.Tensor) -> tf.Tensor:
        return tf.exp(
            self._log_kernel + log_u[:, :, tf.newaxis] + log_v[:, tf.newaxis, :]
        )
