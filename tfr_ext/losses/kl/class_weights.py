"""Weights with which the KL losses balance relevant and irrelevant items."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from tfr_ext.core import checks
from tfr_ext.core.arguments import Argument


def of_weights(check: Callable[[str, Any], Any], optional: bool = False) -> Argument:
    """Declares an argument that has an effect only if there are weights."""
    return Argument(
        check,
        optional,
        needs="a `class_balance`",
        used=lambda values: values["class_balance"] is not None,
    )


# What the items are counted over for the weights, and which of them are relevant.
ARGUMENTS = {
    "relevance_threshold": of_weights(checks.positive),
    "class_balance": Argument(partial(checks.choice, choices=["batch", "list", None])),
}


def of_items(
    relevant: tf.Tensor, mask: tf.Tensor, balance: str | None, dtype: Any
) -> tf.Tensor:
    """Returns weights that balance relevant and irrelevant items, 0 at padding."""
    real = tf.cast(mask, dtype)
    if balance is None:
        return real
    classes = tf.stack([mask & relevant, mask & ~relevant])
    axes = [1, 2] if balance == "batch" else [2]
    counts = tf.reduce_sum(tf.cast(classes, dtype), axis=axes, keepdims=True)
    context = tf.distribute.get_replica_context()
    if balance == "batch" and context and context.num_replicas_in_sync > 1:
        counts = context.all_reduce(tf.distribute.ReduceOp.SUM, counts)
    present = tf.reduce_sum(tf.cast(counts > 0, dtype), axis=0)
    total = tf.reduce_sum(counts, axis=0)
    weights = tf.math.divide_no_nan(total, present * counts)
    return real * tf.where(relevant, weights[0], weights[1])
