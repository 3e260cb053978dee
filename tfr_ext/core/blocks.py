"""Sums over all pairs of a list, in blocks of rows so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfr_ext.core import masked

# Number of elements of a [batch, rows, list] block. Blocks that fit into a processor's
# cache are several times as fast as larger ones.
_BLOCK = 2**21


def by_rows(
    block: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
    rows: tf.Tensor,
    zero: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Calls `block` on blocks of `rows` that are small enough to bound memory.

    `block` takes rows `[batch, some, features]`, where the last block is padded with
    rows of zeros. It returns a tensor `[batch, some, outputs]`, to concatenate over the
    blocks, and one to add up, starting from `zero`.
    """
    if are_one(rows):
        return block(rows)
    batch, size = masked.batch_size(rows), masked.list_size(rows)
    if isinstance(batch, int) and isinstance(size, int):
        length = max(1, min(size, _BLOCK // max(1, batch * size)))
        number = -(-size // length)
    else:
        length = tf.maximum(1, tf.minimum(size, _BLOCK // tf.maximum(1, batch * size)))
        number = tf.maximum(1, -(-size // length))
    padded = tf.pad(rows, [[0, 0], [0, number * length - size], [0, 0]])
    blocks = tf.transpose(
        tf.reshape(padded, [batch, number, length, rows.shape[2]]), [1, 0, 2, 3]
    )

    def body(i: tf.Tensor, outputs: tf.TensorArray, total: tf.Tensor) -> tuple:
        output, part = block(tf.gather(blocks, i))
        return i + 1, outputs.write(i, output), total + part

    _, outputs, total = tf.while_loop(
        lambda i, *_: i < number,
        body,
        (0, tf.TensorArray(rows.dtype, number), zero),
        parallel_iterations=1,
    )
    stacked = tf.transpose(outputs.stack(), [1, 0, 2, 3])
    merged = tf.reshape(stacked, [batch, number * length, stacked.shape[3]])
    return merged[:, :size], total


def are_one(rows: tf.Tensor, most: int | None = None) -> bool:
    """Returns whether the pairs of rows `[batch, list, ...]` surely fit into one block.

    A block has at most `most` pairs; by default, as many as one of `by_rows`.
    """
    batch, size = masked.batch_size(rows), masked.list_size(rows)
    known = isinstance(batch, int) and isinstance(size, int)
    return known and batch * size * size <= max(most or _BLOCK, batch * size)
