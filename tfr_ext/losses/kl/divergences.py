r"""KL divergences of the distributions that scores stand for, and hinges over pairs.

The hinge of an item `i` of a list is the sum, over the items `j` with a lower label, of

$$
\max\big(0, \mathrm{margin}
- \operatorname{sign}(p_i - p_j) \, \mathrm{KL}(P_i \| P_j) \big).
$$

No tensor of shape `[batch, list, list]` is kept. Let `A_ij` be `sign(p_i - p_j)` where
the hinge is open and 0 elsewhere. The derivatives of either divergence are sums of
`A_ij (s_i - s_j)` and `A_ij (p_i - p_j)` over `j`, and sums over `i` of the same times
the upstream gradient: products of `A` and its transpose with a few vectors. The
backward pass therefore recomputes `A` one block of rows at a time, as the forward pass
does, and only one block is in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfr_ext.core import blocks, checks

# Maps row vectors to the differences of what the divergence compares (only their signs
# count), and to the divergences times these signs.
_Compare = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


# Minimum distance of a label, as a probability, from 0 and 1.
MIN_LABEL = 1e-6
# Range of standard deviations whose squares and inverse squares are finite in float32.
_SIGMA = (1e-9, 1e9)
# Scores beyond this count as this, whose products are finite in float32.
_MAX_LOGIT = 1e20
# Probabilities are kept at least this far from 0 and 1, so that they have logits.
_MIN_PROBABILITY = 1e-7


def check_sigma(argument: str, value: Any) -> float:
    """Returns `value` as a standard deviation of the distributions.

    Raises:
        ValueError: If it is not a number in (1e-9, 1e9).
    """
    return checks.between(argument, value, *_SIGMA)


def logits(scores: tf.Tensor, from_logits: bool) -> tf.Tensor:
    """Returns logits of scores, finite except for NaN.

    Args:
        scores: logits, or probabilities, which are clipped to `[1e-7, 1 - 1e-7]`.
        from_logits: whether they are logits.
    """
    if from_logits:
        return tf.clip_by_value(scores, -_MAX_LOGIT, _MAX_LOGIT)
    # In float32, 1 - 1e-7 is 1.2e-7 away from 1.
    p, q = (
        tf.clip_by_value(chance, _MIN_PROBABILITY, 1.0)
        for chance in (scores, 1 - scores)
    )
    return tf.math.log(p) - tf.math.log(q)


def log_probabilities(scores: tf.Tensor, from_logits: bool) -> tf.Tensor:
    """Returns log-probabilities over the last dimension, finite except for NaN.

    Args:
        scores: logits, or probabilities, which are clipped to `[1e-7, 1 - 1e-7]`.
        from_logits: whether they are logits.
    """
    if from_logits:
        return tf.nn.log_softmax(logits(scores, True))
    p = tf.clip_by_value(scores, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    return tf.math.log(p)


def probabilities(scores: tf.Tensor, from_logits: bool) -> tf.Tensor:
    """Returns probabilities of scores, in `[0, 1]`.

    Args:
        scores: logits, or probabilities, clipped to `[0, 1]`.
        from_logits: whether they are logits.
    """
    return tf.sigmoid(scores) if from_logits else tf.clip_by_value(scores, 0.0, 1.0)


def binomial_hinge(
    logits: tf.Tensor,
    labels: tf.Tensor,
    mask: tf.Tensor,
    num_trials: int,
    margin: float,
    symmetric: bool = False,
) -> tf.Tensor:
    """Sums the hinge over each item's pairs, P_i being binomial of sigmoid(logit).

    Args:
        logits: finite logits of the chances of success, `[batch, list]`.
        labels: labels, 0 at padding, `[batch, list]`.
        mask: True at real items, `[batch, list]`.
        num_trials: number of trials of all the distributions.
        margin: divergence at and above which a pair in the right order costs nothing.
        symmetric: whether to add the reverse divergence, `KL(P_j || P_i)`.

    Returns:
        A tensor of shape `[batch, list]`.

    Examples:
        >>> logits = tf.math.log([[1., 3.]])  # chances 1/2 and 3/4
        >>> labels = tf.constant([[1., 0.]])
        >>> binomial_hinge(logits, labels, labels >= 0, 1, 1.0).numpy().round(4)
        array([[1.1438, 0.    ]], dtype=float32)
    """

    @tf.custom_gradient
    def hinge(s: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        p, q = tf.sigmoid(s), tf.sigmoid(-s)
        if symmetric:
            features = [s, p]

            def compare(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                differences = _differences(rows[..., 0], s)
                return differences, num_trials * differences * tf.abs(
                    _differences(rows[..., 1], p)
                )

        else:
            # KL / num_trials = -entropy_i - log(1 - p_j) - p_i s_j, rearranged so that
            # no two large terms cancel where the chances are near 0 or 1.
            spare = tf.math.softplus(-tf.abs(s))
            entropy = spare + tf.abs(s) * tf.sigmoid(-tf.abs(s))
            features = [s, p, -entropy, q, tf.ones_like(s)]
            columns = num_trials * tf.stack(
                [tf.nn.relu(-s), tf.ones_like(s), tf.nn.relu(s), spare], axis=1
            )

            def compare(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                differences = _differences(rows[..., 0], s)
                divergences = tf.matmul(rows[..., 1:], columns)
                return differences, tf.sign(differences) * divergences

        pairs = _Pairs(labels, mask, margin, features, compare)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            (row_s, row_p), (column_s, column_p) = pairs.sums_of_differences(
                upstream, [s, p]
            )
            variance = p * q
            rows, columns = variance * row_s, column_p
            if symmetric:
                rows, columns = rows + row_p, columns + variance * column_s
            return num_trials * (columns - upstream * rows)

        return pairs.sums(), gradient

    return hinge(logits)


def gaussian_hinge(
    means: tf.Tensor,
    labels: tf.Tensor,
    mask: tf.Tensor,
    sigma: float,
    margin: float,
    symmetric: bool = False,
) -> tf.Tensor:
    """Sums the hinge over each item's pairs, P_i being Gaussian of width `sigma`.

    Args:
        means: means of the distributions, `[batch, list]`.
        labels: labels, 0 at padding, `[batch, list]`.
        mask: True at real items, `[batch, list]`.
        sigma: standard deviation of all the distributions.
        margin: divergence at and above which a pair in the right order costs nothing.
        symmetric: whether to add the reverse divergence, `KL(P_j || P_i)`.

    Returns:
        A tensor of shape `[batch, list]`.

    Examples:
        >>> means, labels = tf.constant([[1., 3.]]), tf.constant([[1., 0.]])
        >>> gaussian_hinge(means, labels, labels >= 0, 2.0, 1.0).numpy().round(4)
        array([[1.5, 0. ]], dtype=float32)
    """

    @tf.custom_gradient
    def hinge(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def compare(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            differences = _differences(rows[..., 0], x)
            return differences, differences * tf.abs(differences)

        pairs = _Pairs(labels, mask, margin, [x], compare)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            (rows,), (columns,) = pairs.sums_of_differences(upstream, [x])
            return 2 * (columns - upstream * rows)

        return pairs.sums(), gradient

    # In this unit, the divergence is the squared difference.
    return hinge(means * ((1 if symmetric else 0.5) ** 0.5 / sigma))


def _differences(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    return rows[:, :, tf.newaxis] - columns[:, tf.newaxis, :]


class _Pairs:
    """The pairs of items whose second label is lower, and sums over their hinges."""

    def __init__(
        self,
        labels: tf.Tensor,
        mask: tf.Tensor,
        margin: float,
        features: list[tf.Tensor],
        compare: _Compare,
    ):
        # No label is below that of a padding row, 0, and a padding column is below
        # none.
        self._labels = labels
        self._lower = tf.where(mask, labels, labels.dtype.max)
        self._margin = margin
        self._features = features
        self._compare = compare

    def sums(self) -> tf.Tensor:
        """Returns the sum of the hinges of each row, `[batch, list]`."""

        def block(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            _, signed = self._compare(rows[..., 1:])
            hinges = tf.where(
                self._is_pair(rows), tf.nn.relu(self._margin - signed), 0.0
            )
            return tf.reduce_sum(hinges, axis=2, keepdims=True), tf.constant(0.0)

        sums, _ = blocks.by_rows(
            block, tf.stack([self._labels, *self._features], axis=2), tf.constant(0.0)
        )
        return sums[..., 0]

    def sums_of_differences(
        self, upstream: tf.Tensor, vectors: list[tf.Tensor]
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Sums A_ij (v_i - v_j) over j, and upstream_i A_ij (v_i - v_j) over i.

        All are `[batch, list]`, one for each vector `v`.
        """
        ones_and_vectors = tf.stack([tf.ones_like(upstream), *vectors], axis=2)
        weighted = upstream[..., tf.newaxis] * ones_and_vectors
        size = weighted.shape[2]

        def block(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            differences, signed = self._compare(rows[..., 1:-size])
            is_open = self._is_pair(rows) & (signed < self._margin)
            signs = tf.where(is_open, tf.sign(differences), 0.0)
            return (
                tf.matmul(signs, ones_and_vectors),
                tf.matmul(signs, rows[..., -size:], transpose_a=True),
            )

        features = tf.stack([self._labels, *self._features], axis=2)
        by_row, by_column = (
            tf.unstack(sums, num=size, axis=2)
            for sums in blocks.by_rows(
                block, tf.concat([features, weighted], 2), tf.zeros_like(weighted)
            )
        )
        return (
            [v * by_row[0] - sums for v, sums in zip(vectors, by_row[1:])],
            [sums - v * by_column[0] for v, sums in zip(vectors, by_column[1:])],
        )

    def _is_pair(self, rows: tf.Tensor) -> tf.Tensor:
        return rows[..., :1] > self._lower[:, tf.newaxis, :]
