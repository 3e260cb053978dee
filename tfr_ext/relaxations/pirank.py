r"""Divide and conquer: a relaxed, truncated merge sort (PiRank, Eqs. 13-17).

A list of `b_1 b_2 ... b_d` items is the leaves of a tree of depth `d`. A node at
height `j` takes what its `b_j` children hand up, `k_{j-1}` values each, sorts them by
NeuralSort at temperature `tau_j`, and hands up the first `k_j`, each a mixture:

    Y[j] = Q[j] Y[j-1]   (Eq. 15)        P[j] = Q[j] P[j-1]   (Eq. 16)

What an objective needs is `P[d] values`, so values are carried up beside the scores and
no matrix over the whole list is ever made.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfr_ext.core import masked
from tfr_ext.relaxations.neural_sort import neural_sort_expectation
from tfr_ext.relaxations.sorted_scores import Float

# Gaps of scores over the temperature beyond this are alike.
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

    The real items are brought to the front and grouped in their order: the result
    depends on the order of the items, but not on where padding is. A node counts the
    real values that it gets.

    Args:
        scores: float32 or float64 tensor of shape `[batch, list]`.
        mask: bool tensor of the same shape, True at real items.
        values: tensor of shape `[batch, list]` or `[batch, list, values]`.
        num_ranks: number of ranks `k`, one for each item by default.
        temperatures: one for each height, from the leaves to the root; their number is
            the depth of the tree.
        branching: children of a node at each height, likewise; near the root of the
            list size of that degree by default. If they multiply to less than the list
            size, the root has more children.
        merge_topn: values that a node at each height hands up; of each at least
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
    # Real items to the front, and padding up to the number of leaves.
    order = tf.math.top_k(tf.cast(mask, tf.int32), k=size).indices
    scores, values = (tf.gather(x, order, batch_dims=1) for x in (scores, values))
    leaves = branches[0]
    for b in branches[1:]:
        leaves *= b
    scores = tf.pad(scores, [[0, 0], [0, leaves - size]])
    values = tf.pad(values, [[0, 0], [0, leaves - size], [0, 0]])
    # Of each node, how many of the values that it holds are real.
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
        scores: see `merge_sort_expectation`, as for the other arguments.
        mask: True at real items.
        num_ranks: number of rows.
        temperatures: one for each height.
        branching: children of a node at each height.
        merge_topn: values that a node at each height hands up.

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
    """Returns the branching factors of a tree for lists of some size.

    Args:
        size: the list size.
        depth: the number of factors.
        branching: the factors wanted; near `size ** (1 / depth)` by default.

    Returns:
        Factors from the leaves to the root, whose product is at least `size`.

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


def _gaps(scores: tf.Tensor, mask: tf.Tensor, temperature: Float) -> tf.Tensor:
    """Returns scores relative to the best of the list, which changes no sort.

    Mixtures of scores stay small then; what is very far below the best stays finite.
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
