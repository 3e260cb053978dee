"""Float64 oracle of the Sinkhorn sort with plain loops; no TensorFlow.

One list at a time, real items only. Everything takes complex scores, so that a
derivative is the imaginary part at a tiny imaginary step: exact, without an adjoint.
"""

import cmath
import math

STEP = 1e-30


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


def loss(
    labels,
    scores,
    metric="ndcg",
    topn=None,
    beta=10.0,
    relevance_threshold=1.0,
    **arguments,
):
    """One minus the metric of the positions; 0 if nothing is relevant."""
    size = len(labels)
    pi = positions(scores, **arguments)

    def truncation(position):
        if topn is None and metric != "precision":
            return 1.0
        return _sigmoid(beta * (topn + 0.5 - position))

    if metric == "ndcg":
        gains = [2**y - 1 for y in labels]
        best = sorted(gains, reverse=True)[:topn]
        ideal = sum(g / math.log2(2 + r) for r, g in enumerate(best))
        found = sum(
            g * truncation(p) * math.log(2) / cmath.log(1 + p)
            for g, p in zip(gains, pi)
        )
        return 1 - found / ideal if ideal else 0.0
    relevant = [float(y >= relevance_threshold) for y in labels]
    if not sum(relevant):
        return 0.0
    if metric == "precision":
        return 1 - sum(r * truncation(p) for r, p in zip(relevant, pi)) / topn
    total = 0.0
    for j in range(size):
        better = 1 + sum(
            relevant[i] * _sigmoid(beta * (pi[j] - pi[i]))
            for i in range(size)
            if i != j
        )
        total += relevant[j] * truncation(pi[j]) * better / pi[j]
    return 1 - total / sum(relevant)


def value_and_gradient(labels, scores, **arguments):
    """The loss, and its derivative in each score."""
    slopes = []
    for k in range(len(scores)):
        moved = [complex(s, STEP * (i == k)) for i, s in enumerate(scores)]
        slopes.append(complex(loss(labels, moved, **arguments)).imag / STEP)
    return complex(loss(labels, scores, **arguments)).real, slopes


def _sigmoid(z):
    return 1 / (1 + cmath.exp(-z))
