r"""WassRank's Sinkhorn iteration for lists with few distinct labels.

Within a label the ranking cost is the same for all pairs. So a product with the kernel
is a sum over each label, a product with the kernel between labels, and a multiple of
the item's own number:

$$
(M u)_i = \sum_{\text{labels } h} e^{-C_{gh} / \mathrm{reg}} S_h + (1 - a) \, u_i
$$

for an item of label `g`, where `S_h` is the sum of `u` over label `h`, `C_gg` is the
variance penalty and `a = exp(-C_gg / reg)`; an item alone with its label has
`a + (1 - a) = 1`. A list takes O(items labels) a product.

All numbers are plain float64. In `n` iterations the potentials of a label change by the
`n`-th power of its predicted mass over its target mass; with 20 iterations, float64
holds a ratio of `exp(13)`. The range is checked, and a caller needs another way for
what exceeds it.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tfr_ext.core import masked
from tfr_ext.transport.labels_to_scores_kernel import RankingCost
from tfr_ext.transport.sinkhorn import Distribution, Potentials

# Distinct labels of a list up to which all their pairs are computed: each number has a
# graph of its own, and the first that suffices is run.
_FEW_LABELS = (3, 5, 8)
# Padded items of a list up to which copies by label are faster than matrix products.
_SHORT = 40
# Iterations of one pass of the loop; each pass checks the range.
_UNROLLED = 5
# All products must lie between 1 / _MOST and this. What underflows in the kernel,
# exp(-708), is then less than exp(-150) of the product that lacks it.
_MOST = 1e120
# The least cost within a label over the regularization: 1 / (1 - a) must be finite.
_LEAST_PENALTY = 1e-100
# The same for copies by label, which also have products at items of other labels.
_MOST_PENALTY_OF_COPIES = 100.0


class Solution(NamedTuple):
    """Result of an iteration, and whether it can be used.

    Attributes:
        usable: a scalar, False if a list has too many labels, or a number was out of
            range.
        potentials: without meaning unless `usable`.
    """

    usable: tf.Tensor
    potentials: Potentials


def sinkhorn_of_few_labels(
    labels: tf.Tensor,
    target: Distribution,
    prediction: Distribution,
    mask: tf.Tensor,
    cost: RankingCost,
    regularization: float,
    num_iterations: int,
) -> Solution:
    """Runs Sinkhorn's iteration for the ranking cost.

    Args:
        labels: non-negative float64 labels, 0 at padding, `[batch, list]`.
        target: the same for all items of a label, float64.
        prediction: any distribution, float64.
        mask: True at real items, `[batch, list]`.
        cost: the ranking cost.
        regularization: positive.
        num_iterations: at least 1.
    """
    none = tf.zeros_like(labels)
    penalty = cost.variance_penalty / regularization
    if penalty < _LEAST_PENALTY:
        return Solution(tf.constant(False), Potentials(none, none))

    def solve(kernel: type[_Kernel], grades: tf.Tensor) -> Solution:
        return kernel(labels, grades, mask, cost, regularization).solve(
            target, prediction, num_iterations
        )

    def by_matrices(grades: _Grades, more: Sequence[int]) -> Solution:
        def with_more() -> Solution:
            if not more:
                return Solution(tf.constant(False), Potentials(none, none))
            return by_matrices(grades.up_to(more[0]), more[1:])

        return tf.cond(
            grades.are_all, lambda: solve(_KernelByMatrices, grades.found), with_more
        )

    fewest, *more = _FEW_LABELS
    grades = _Grades.of(labels, mask).up_to(fewest)
    # A bool if the size is static: a constant among tensors would confuse TensorFlow's
    # optimizer of graphs.
    is_short = masked.list_size(labels) <= _SHORT
    if is_short is False or penalty > _MOST_PENALTY_OF_COPIES:
        return by_matrices(grades, more)
    return tf.cond(
        grades.are_all if is_short is True else grades.are_all & is_short,
        lambda: solve(_KernelByCopies, grades.found),
        lambda: by_matrices(grades, more),
    )


class _Grades(NamedTuple):
    """Distinct labels of each list.

    Attributes:
        each: those found, `[batch, 1]` each, from the greatest, -1 if there are fewer.
        left: the labels that are not among them, else -1, `[batch, list]`.
    """

    each: Sequence[tf.Tensor]
    left: tf.Tensor

    @classmethod
    def of(cls, labels: tf.Tensor, mask: tf.Tensor) -> _Grades:
        return cls((), masked.where(mask, labels, -1))

    def up_to(self, most: int) -> _Grades:
        """Looks for more, until `most` are found."""
        each, left = list(self.each), self.left
        none = tf.zeros_like(left) - 1
        while len(each) < most:
            each.append(tf.reduce_max(left, axis=1, keepdims=True))
            left = masked.where(tf.equal(left, each[-1]), none, left)
        return _Grades(each, left)

    @property
    def found(self) -> tf.Tensor:
        """Those found, `[batch, most]`."""
        return tf.concat(self.each, axis=1)

    @property
    def are_all(self) -> tf.Tensor:
        """Whether there are no others in any list, a scalar."""
        return ~(tf.reduce_max(self.left) >= 0)


class _Kernel(abc.ABC):
    """The kernel over `1 - a`, products with it, and the iteration.

    Numbers of items have a shape that the class chooses. The iteration is one of
    `(1 - a) u` and `(1 - a) v`.
    """

    def __init__(
        self,
        labels: tf.Tensor,
        grades: tf.Tensor,
        mask: tf.Tensor,
        cost: RankingCost,
        regularization: float,
    ):
        self._dtype = labels.dtype
        self._real = tf.cast(mask, labels.dtype)
        self._padding = 1 - self._real
        self._penalty = cost.variance_penalty / regularization
        # 1 - a
        self._rest = -math.expm1(-self._penalty)
        places = cost.positions(tf.maximum(grades, 0)) / regularization
        # Padding gets a label below -1, which stands for a missing label.
        self._set_up(labels - 2 * self._padding, grades, places)

    @abc.abstractmethod
    def _set_up(self, marked: tf.Tensor, grades: tf.Tensor, places: tf.Tensor) -> None:
        """Prepares the products; `marked` labels are -2 at padding."""

    @abc.abstractmethod
    def _numbers(self, x: tf.Tensor) -> tf.Tensor:
        """Returns numbers of items `[batch, list]`, 0 at padding, in our shape."""

    @abc.abstractmethod
    def _of_items(self, x: tf.Tensor) -> tf.Tensor:
        """Returns such numbers as `[batch, list]`."""

    @abc.abstractmethod
    def _product(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the product with numbers of items."""

    def _between(
        self, places: tf.Tensor, others: tf.Tensor, same: tf.Tensor, exists: tf.Tensor
    ) -> tf.Tensor:
        """Returns the kernel between labels.

        Labels that do not exist have no items to add. The product at them is not 0 but
        the sum over all items, so that one may divide by it.
        """
        costs = tf.abs(places - others) + self._penalty * same
        return tf.exp(-costs * exists) / self._rest

    def solve(
        self, target: Distribution, prediction: Distribution, num_iterations: int
    ) -> Solution:
        """Runs the iterations; see `sinkhorn_of_few_labels`."""
        masses = [self._numbers(x.mass * self._rest) for x in (target, prediction)]

        def iterate(
            times: int,
            u: tf.Tensor,
            by_u: tf.Tensor,
            by_v: tf.Tensor,
            usable: tf.Tensor,
        ) -> tuple[tf.Tensor, ...]:
            for _ in range(times):
                by_u = self._product(u)
                by_v = self._product(masses[0] / by_u)
                u = masses[1] / by_v
            return u, by_u, by_v, usable & _in_range(by_u) & _in_range(by_v)

        count = tf.reduce_sum(self._real, axis=1, keepdims=True)
        u = self._numbers(self._rest / count * self._real)
        passes, rest = divmod(num_iterations, _UNROLLED)
        state: Sequence[tf.Tensor] = (u, u, u, tf.constant(True))
        if rest:
            state = iterate(rest, *state)
        if passes:
            _, *state = tf.while_loop(
                lambda i, *_: i < passes,
                lambda i, *state: (i + 1, *iterate(_UNROLLED, *state)),
                (0, *state),
                maximum_iterations=passes,
            )
        _, by_u, by_v, usable = state
        potentials = Potentials(
            *(
                tf.math.multiply_no_nan(
                    x.log - tf.math.log(self._of_items(by)), self._real
                )
                for x, by in ((prediction, by_v), (target, by_u))
            )
        )
        return Solution(usable, potentials)


class _KernelByCopies(_Kernel):
    """For short lists: numbers have the shape `[list, labels, batch]`.

    They are 0 at items of other labels.
    """

    def _set_up(self, marked: tf.Tensor, grades: tf.Tensor, places: tf.Tensor) -> None:
        marked, grades, places = (tf.transpose(x) for x in (marked, grades, places))
        self._member = tf.cast(tf.equal(marked[:, tf.newaxis], grades), self._dtype)
        self._kernel = self._between(
            places[:, tf.newaxis],
            places,
            tf.eye(places.shape[0], dtype=self._dtype)[:, :, tf.newaxis],
            tf.cast(grades >= 0, self._dtype)[:, tf.newaxis],
        )

    def _numbers(self, x: tf.Tensor) -> tf.Tensor:
        return tf.transpose(x)[:, tf.newaxis] * self._member

    def _of_items(self, x: tf.Tensor) -> tf.Tensor:
        return tf.transpose(tf.reduce_sum(x * self._member, axis=1))

    def _product(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(self._kernel * tf.reduce_sum(x, axis=0), axis=1) + x


class _KernelByMatrices(_Kernel):
    """For longer lists: numbers have the shape `[batch, 1, list]`."""

    def _set_up(self, marked: tf.Tensor, grades: tf.Tensor, places: tf.Tensor) -> None:
        self._member = tf.cast(
            tf.equal(marked[:, tf.newaxis], grades[:, :, tf.newaxis]), self._dtype
        )
        kernel = self._between(
            places[:, tf.newaxis],
            places[:, :, tf.newaxis],
            tf.eye(places.shape[1], dtype=self._dtype),
            tf.cast(grades >= 0, self._dtype)[:, tf.newaxis],
        )
        self._to_items = tf.matmul(kernel, self._member)

    def _numbers(self, x: tf.Tensor) -> tf.Tensor:
        # With these padding remains 1.
        return (x + self._padding)[:, tf.newaxis]

    def _of_items(self, x: tf.Tensor) -> tf.Tensor:
        return tf.squeeze(x, axis=1)

    def _product(self, x: tf.Tensor) -> tf.Tensor:
        sums = tf.matmul(x, self._member, transpose_b=True)
        return tf.matmul(sums, self._to_items) + x


def _in_range(x: tf.Tensor) -> tf.Tensor:
    # The sum of positive numbers, as a maximum may overlook NaN.
    return (tf.reduce_min(x) > 1 / _MOST) & (tf.reduce_sum(x) < _MOST)
