"""Weights that balance relevant items and others, as the KL losses have them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfr_ext.core import checks

_BALANCES = ["batch", "list", None]


def check(relevance_threshold: Any, class_balance: Any) -> tuple[float, str | None]:
    """Returns both arguments of a loss, checked.

    Raises:
        ValueError: if one is out of its range, or the threshold is not its default
            where there are no weights.
    """
    threshold = checks.positive("relevance_threshold", relevance_threshold)
    balance = checks.choice("class_balance", class_balance, _BALANCES)
    check_effect("relevance_threshold", threshold, 0.1, balance)
    return threshold, balance


def check_effect(argument: str, value: Any, default: Any, balance: str | None) -> None:
    """Checks that an argument of the weights has its default where there are none."""
    used = balance is not None
    checks.has_effect(argument, value, default, used, "a `class_balance`")


def of_items(
    relevant: tf.Tensor, mask: tf.Tensor, balance: str | None, dtype: Any
) -> tf.Tensor:
    """Returns weights that balance relevant items and others, 0 at padding.

    Args:
        relevant: True at relevant items, `[batch, list]`.
        mask: True at real items, `[batch, list]`.
        balance: 'batch', 'list' or None, see the losses.
        dtype: type of the weights.
    """
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
