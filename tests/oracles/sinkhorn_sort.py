"""Float64 oracle of the Sinkhorn sort with plain loops; no TensorFlow.

One list at a time, real items only. Everything takes complex scores, so that a
derivative is the imaginary part at a tiny imaginary step: exact, without an adjoint.
"""

import cmath
import math

from tests.oracles.gradients import gradient
from tests.oracles.positions import position_loss


def squashed(scores):
    """The scores in (0, 1): standardised, then a logistic distribution function."""
    size = len(scores)
    mean = sum(scores) / size
    variance = sum((s - mean) ** 2 for s in scores) / size
    if variance == 0:
        return [0.5] * size
    spread = cmath.sqrt(variance)
    scaled = [math.pi / math.sqrt(3) * (s - mean) / spread for s in scores]
    return [1 / (1 + cmath.exp(-z)) for z in scaled]


def plan(scores, regularization, num_iterations):
    """Sinkhorn's iteration as published, rows last; items by ranks, the best first."""
    size = len(scores)
    x = squashed(scores)
    y = [1 - j / max(size - 1, 1) for j in range(size)]
    kernel = [[cmath.exp(-((a - b) ** 2) / regularization) for b in y] for a in x]
    u = [1 / size] * size
    for _ in range(num_iterations):
        v = [
            1 / size / sum(kernel[i][j] * u[i] for i in range(size))
            for j in range(size)
        ]
        u = [
            1 / size / sum(kernel[i][j] * v[j] for j in range(size))
            for i in range(size)
        ]
    return [[u[i] * kernel[i][j] * v[j] for j in range(size)] for i in range(size)]


def positions(scores, regularization=0.01, num_iterations=20):
    """The mean rank of each item."""
    size = len(scores)
    return [
        size * sum((j + 1) * p for j, p in enumerate(row))
        for row in plan(scores, regularization, num_iterations)
    ]


def value_and_gradient(
    labels, scores, metric="ndcg", topn=None, beta=10.0, relevance_threshold=1.0, **sort
):
    """One minus the metric of the positions, and its derivative in each score."""

    def loss(scores):
        found = positions(scores, **sort)
        return position_loss(found, labels, metric, topn, beta, relevance_threshold)

    return complex(loss(scores)).real, gradient(loss, scores)
