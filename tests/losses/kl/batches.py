"""Batches for the KL losses, and their comparison with oracles of a batch."""

import numpy as np
import tensorflow as tf

from tests import oracles
from tests.helpers import value_and_gradient

# Sizes of the lists of a batch: one of a single item, one without any.
SIZES = (7, 1, 12, 0, 30)


def random_batch(seed, sizes=SIZES, from_logits=True, grades=None):
    """Lists with ties in scores and labels, the first one without relevant items."""
    rng = np.random.default_rng(seed)
    ending = [] if grades is None else [grades]
    scores = [rng.normal(size=[size, *ending]) * 3 for size in sizes]
    labels = [rng.integers(0, 4, size).astype(float) for size in sizes]
    labels[0][:] = 0
    for row in scores:
        row[1::5] = row[: len(row[1::5])]
    if grades is not None:
        labels = [rng.dirichlet([0.5] * grades, size) for size in sizes]
        labels[0] = np.eye(grades)[[0] * sizes[0]]
    if not from_logits:
        scores = [1 / (1 + np.exp(-row)) for row in scores]
        if grades is not None:
            scores = [row / row.sum(axis=1, keepdims=True) for row in scores]
        # What is no probability gets no gradient: exactly at a bound neither has one.
        for row in scores[2:3]:
            row[3], row[4] = -0.5, 1.5
    return scores, labels


def dense(rows, filling):
    width = max(len(row) for row in rows) + 2
    out = np.full([len(rows), width, *rows[0].shape[1:]], filling, np.float64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return tf.constant(out)


def check(loss, oracle, scores, labels, rtol=1e-8):
    """Compares the sum of a batch, and its gradient, with an oracle of a batch."""
    y_true, y_pred = dense(labels, -1.0), dense(scores, 7.0)
    value, slopes = value_and_gradient(loss, y_true, y_pred)
    shape = scores[0].shape[1:]
    ends = np.cumsum([row.size for row in scores])[:-1]

    def total(flat):
        rows = np.split(np.array(flat, dtype=object), ends)
        rows = [row.reshape([-1, *shape]).tolist() for row in rows]
        out = oracle(rows, [row.tolist() for row in labels])
        return sum(sum(x) if isinstance(x, list) else x for x in out)

    flat = np.concatenate([row.ravel() for row in scores]).tolist()
    np.testing.assert_allclose(value, np.real(total(flat)), rtol=rtol)
    actual = [slopes[i, : len(row)].ravel() for i, row in enumerate(scores)]
    expected = oracles.gradient(total, flat)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        np.concatenate(actual), expected, rtol=10 * rtol, atol=rtol * scale
    )


def each(oracle, **arguments):
    return lambda scores, labels: [
        oracle(s, y, **arguments) for s, y in zip(scores, labels)
    ]
