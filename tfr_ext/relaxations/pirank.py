r"""Divide and conquer: a relaxed, truncated merge sort (PiRank, Eqs. 13-17).

The `b_1 b_2 ... b_d` items of a list are the leaves of a tree of depth `d`. A node at
height `j` takes the `k_{j-1}` values that each of its `b_j` children passes up, sorts
them by NeuralSort at temperature `tau_j`, and passes up the first `k_j`, each a
mixture:

    Y[j] = Q[j] Y[j-1]   (Eq. 15)        P[j] = Q[j] P[j-1]   (Eq. 16)

An objective needs `P[d] values`, so values are carried up along with the scores, and no
matrix over the whole list is ever built.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.arguments import Argument
from tfr_ext.objectives.objective import Objective
from tfr_ext.relaxations.neural_sort import NeuralSort, neural_sort_expectation
from tfr_ext.relaxations.relaxation import register
from tfr_ext.relaxations.sorted_scores import Float

# Larger quotients of a score gap and the temperature make no difference.
_MAX_GAP = 1e9


def merge_sort_expectation(
    scores: tf.Tensor,
    mask: tf.Tensor,
    values: tf.Tensor,
    num_ranks: masked.Size | None = None,
    temperatures: Sequence[Float] = (5.0, 5.0),
    branching: Sequence[int] | None = None,
    merge_topn: Sequence[int] | None = None,
) -> tf.Tensor:
    """Returns the expected value at each rank under the merge tree.

    The real items are moved to the front and grouped in their order, so the result
    depends on the order of the items, but not on where padding is. A node counts the
    real values that it gets.

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        values: tensor of shape `[batch, list]` or `[batch, list, values]`.
        num_ranks: number of ranks `k`, one for each item by default.
        temperatures: one temperature for each height, from the leaves to the root;
            their number is the depth of the tree.
        branching: how many children a node has at each height, in the same order. By
            default each is close to the `d`-th root of the list size. If their product
            is less than the list size, the root of the tree has more children.
        merge_topn: how many values a node at each height passes up: at least
            `min(k, k_{j-1} b_j)`, which is the default, and at most `k_{j-1} b_j`.

    Returns:
        A tensor of shape `[batch, num_ranks]` or `[batch, num_ranks, values]`, 0 at
        ranks beyond the number of real items.

    Examples:
        >>> scores = tf.constant([[.2, .5, .3, .4, .1, .7]])
        >>> merge_sort_expectation(scores, scores > 0, scores, 2,
        ...                        temperatures=[1e-3, 1e-3], branching=[3, 2]).numpy()
        array([[0.7, 0.5]], dtype=float32)
    """
    if values.shape.rank == 2:
        return merge_sort_expectation(
            scores,
            mask,
            values[:, :, tf.newaxis],
            num_ranks,
            temperatures,
            branching,
            merge_topn,
        )[:, :, 0]
    size = masked.list_size(scores)
    ranks = size if num_ranks is None else num_ranks
    branches = tree_shape(size, len(temperatures), branching)
    batch = tf.shape(scores)[0]

    scores = _gaps(scores, mask, temperatures[-1])
    # Move real items to the front, and pad to the number of leaves.
    order = tf.math.top_k(tf.cast(mask, tf.int32), k=size).indices
    scores, values = (tf.gather(x, order, batch_dims=1) for x in (scores, values))
    leaves = branches[0]
    for b in branches[1:]:
        leaves *= b
    scores = tf.pad(scores, [[0, 0], [0, leaves - size]])
    values = tf.pad(values, [[0, 0], [0, leaves - size], [0, 0]])
    # For each node, how many of the values that it holds are real.
    real = tf.sequence_mask(
        tf.reduce_sum(tf.cast(mask, tf.int32), axis=1), leaves, dtype=tf.int32
    )
    held: masked.Size = 1  # k_{j-1}
    for height, (branch, temperature) in enumerate(zip(branches, temperatures)):
        is_root = height == len(branches) - 1
        block = held * branch
        # `held` values of `branch` children each, one block a row.
        scores = tf.reshape(scores, [-1, block])
        values = tf.reshape(values, [-1, block, values.shape[2] or tf.shape(values)[2]])
        counts = tf.reshape(real, [-1, branch])
        in_block = tf.reshape(tf.sequence_mask(counts, held), [-1, block])
        if is_root:
            held = ranks
        else:
            least = masked.minimum(ranks, block)
            wanted = least if merge_topn is None else merge_topn[height]
            held = masked.minimum(masked.maximum(wanted, least), block)
        carried = values
        if not is_root:
            carried = tf.concat([scores[:, :, tf.newaxis], values], axis=2)
        carried = neural_sort_expectation(scores, in_block, carried, held, temperature)
        if not is_root:
            scores, carried = carried[:, :, 0], carried[:, :, 1:]
        values = carried
        real = tf.minimum(tf.reduce_sum(counts, axis=1), held)
    return tf.reshape(values, [batch, ranks, values.shape[2] or tf.shape(values)[2]])


def merge_sort(
    scores: tf.Tensor,
    mask: tf.Tensor,
    num_ranks: masked.Size | None = None,
    temperatures: Sequence[Float] = (5.0, 5.0),
    branching: Sequence[int] | None = None,
    merge_topn: Sequence[int] | None = None,
) -> tf.Tensor:
    """Returns the rank indicators of the merge tree (PiRank, Eq. 17).

    Args:
        scores: see `merge_sort_expectation`, also for the other arguments.
        mask: True at real items.
        num_ranks: number of rows.
        temperatures: one temperature for each height.
        branching: how many children a node has at each height.
        merge_topn: how many values a node at each height passes up.

    Returns:
        A tensor of shape `[batch, num_ranks, list]`; each row sums to 1 over the real
        items and is 0 at padding. Rows beyond the number of real items are 0.
    """
    size = masked.list_size(scores)
    items = tf.eye(size, batch_shape=[tf.shape(scores)[0]], dtype=scores.dtype)
    items *= tf.cast(mask, scores.dtype)[:, :, tf.newaxis]
    return merge_sort_expectation(
        scores, mask, items, num_ranks, temperatures, branching, merge_topn
    )


def tree_shape(
    size: masked.Size, depth: int, branching: Sequence[int] | None = None
) -> list[masked.Size]:
    """Returns the branching factors of a tree for lists of a given size.

    They go from the leaves to the root, and their product is at least `size`. Each is
    close to `size ** (1 / depth)` by default.

    Examples:
        >>> tree_shape(1000, 3), tree_shape(7, 2), tree_shape(30, 2, [4, 5])
        ([10, 10, 10], [3, 3], [4, 8])
    """
    if branching is not None:
        below = 1
        for b in branching[:-1]:
            below *= b
        return [*branching[:-1], masked.maximum(branching[-1], -(-size // below))]
    factors = []
    rest = size
    for height in range(depth):
        factor = _root(rest, depth - height)
        factors.append(factor)
        rest = -(-rest // factor)
    return factors


def _whole_numbers(argument: str, values: Any) -> list[int]:
    def whole(argument: str, value: Any) -> int:
        return checks.at_least(argument, value, 1)

    return checks.elements(argument, values, whole, "whole numbers")


def _temperatures(argument: str, values: Any) -> list[float]:
    return checks.elements(argument, values, checks.positive, "temperatures")


def _of_trees(check: Any) -> Argument:
    return Argument(
        check,
        optional=True,
        needs="a `depth` above 1",
        used=lambda values: values["depth"] > 1,
    )


@register
@dataclasses.dataclass(frozen=True)
class PiRank(NeuralSort):
    """NeuralSort or, with a `depth` above 1, the merge tree.

    Attributes:
        depth: number of levels of the merge tree, at least 1; 1 is NeuralSort itself.
        branching: `depth` numbers, how many children a node has at each height from the
            leaves to the root. By default each is close to the `depth`-th root of the
            list size.
        merge_topn: `depth` numbers, how many items a node at each height passes up; the
            last is the cut-off. By default each is the lowest possible,
            `min(topn, all it gets)`.
        merge_temperatures: `depth` temperatures that do not fall and end in
            `temperature`. If that is a schedule, they end in its first value and all
            follow the schedule. By default all are `temperature`.
    """

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {
        "depth": Argument(lambda name, value: checks.at_least(name, value, 1)),
        "branching": _of_trees(_whole_numbers),
        "merge_topn": _of_trees(_whole_numbers),
        "merge_temperatures": _of_trees(_temperatures),
    }

    depth: int = 1
    branching: Sequence[int] | None = None
    merge_topn: Sequence[int] | None = None
    merge_temperatures: Sequence[float] | None = None

    def __post_init__(self) -> None:
        """Checks the arguments."""
        super().__post_init__()
        for argument in ("branching", "merge_topn", "merge_temperatures"):
            values = getattr(self, argument)
            if values is not None:
                per = f"`depth` = {self.depth} numbers"
                checks.sequence(argument, values, self.depth, per)
        first = float(self.now("temperature"))
        object.__setattr__(self, "_first_temperature", first)
        numbers = self.merge_temperatures
        if numbers and (sorted(numbers) != numbers or numbers[-1] != first):
            raise ValueError(
                "`merge_temperatures` must not fall from one height to the next, and "
                f"end in `temperature`, {first}. Received: {numbers}."
            )

    def check_fits(self, objective: Objective) -> None:
        """Checks that the merge tree fits the cut-off of an objective."""
        sizes, topn = self.merge_topn, objective.topn
        if sizes is None:
            return
        if topn is None or sizes[-1] != topn:
            raise ValueError(
                f"`merge_topn` must end in `topn`. Received: {sizes} and topn={topn}."
            )
        if self.branching is None and min(sizes) < topn:
            raise ValueError(
                "`merge_topn` must be at least `topn` at each height where `branching` "
                f"is left out. Received: {sizes} and topn={topn}."
            )
        held = 1
        # The root has as many children as the list needs.
        for size, branch in zip(sizes[:-1], self.branching or []):
            block = held * branch
            if not min(topn, block) <= size <= block:
                raise ValueError(
                    f"`merge_topn` must be from {min(topn, block)} to {block} where "
                    f"{branch} lists of {held} are merged. Received: {sizes}."
                )
            held = size

    def indicators(
        self, scores: tf.Tensor, mask: tf.Tensor, num_ranks: masked.Size
    ) -> tf.Tensor:
        """Returns rank indicators, `[batch, num_ranks, list]`."""
        if self.depth == 1:
            return super().indicators(scores, mask, num_ranks)
        return merge_sort(scores, mask, num_ranks, *self._tree())

    def expectation(
        self,
        scores: tf.Tensor,
        mask: tf.Tensor,
        values: tf.Tensor,
        num_ranks: masked.Size,
    ) -> tf.Tensor:
        """Returns the expected value at each rank, `[batch, num_ranks]`."""
        if self.depth == 1:
            return super().expectation(scores, mask, values, num_ranks)
        values = tf.stop_gradient(values)
        ranked = merge_sort_expectation(scores, mask, values, num_ranks, *self._tree())
        if not self.straight_through:
            return ranked
        # The difference is 0 or NaN.
        size = masked.list_size(scores)
        exact = masked.at_ranks(scores, mask, values, masked.minimum(num_ranks, size))
        exact = tf.pad(exact, [[0, 0], [0, masked.maximum(num_ranks - size, 0)]])
        return exact + (ranked - tf.stop_gradient(ranked))

    def _tree(self) -> tuple[list[Float], Any, Any]:
        """Returns the temperature of each height, and the shape of the tree.

        If the temperature of the root is a schedule, all temperatures follow it.
        """
        root, first = self.now("temperature"), self.__dict__["_first_temperature"]
        temperatures: list[Float] = [root] * self.depth
        if self.merge_temperatures is not None:
            temperatures = [t / first * root for t in self.merge_temperatures]
        return temperatures, self.branching, self.merge_topn


def _gaps(scores: tf.Tensor, mask: tf.Tensor, temperature: Float) -> tf.Tensor:
    """Returns scores relative to the best of the list, which changes no order.

    This keeps mixtures of scores small, and scores far below the best finite.
    """
    lowest = scores.dtype.min
    best = tf.reduce_max(tf.where(mask, scores, lowest), axis=1, keepdims=True)
    gaps = tf.where(mask, scores - tf.stop_gradient(best), 0)
    limit = -_MAX_GAP * tf.cast(temperature, scores.dtype)
    return tf.where(gaps < limit, limit, gaps)


def _root(x: masked.Size, degree: int) -> masked.Size:
    """Returns the least integer >= 1 whose power of that degree is at least `x`."""
    if isinstance(x, int):
        root = max(1, round(x ** (1 / degree)))
        return root if root**degree >= x else root + 1
    root = tf.cast(tf.round(tf.cast(x, tf.float64) ** (1 / degree)), x.dtype)
    root = tf.maximum(root, 1)
    return tf.where(root**degree >= x, root, root + 1)
