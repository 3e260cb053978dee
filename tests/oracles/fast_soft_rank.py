"""Float64 oracles of soft ranks and of metrics of positions; plain loops, one list."""

import cmath
import math

from tests import oracles


def blocks(y):
    """Pools adjacent violators: [start, end) and mean of each block of the fit."""
    found = []
    for p, value in enumerate(y):
        start, total = p, value
        while found and found[-1][2] >= total / (p + 1 - start):
            start, end, mean = found.pop()
            total += (end - start) * mean
        found.append((start, p + 1, total / (p + 1 - start)))
    return found


def block_means(y, x):
    """The mean of `x` over each block of the fit of `y`, for each number."""
    means = []
    for start, end, _ in blocks(y):
        means += [sum(x[start:end]) / (end - start)] * (end - start)
    return means


def _sorted(scores, regularization):
    """The order, best first, and what is fitted."""
    order = sorted(range(len(scores)), key=lambda j: -scores[j])
    best = scores[order[0]]
    z = [(best - scores[j]) / regularization for j in order]
    return order, z, [value - p for p, value in enumerate(z, 1)]


def soft_ranks(scores, regularization):
    order, z, y = _sorted(scores, regularization)
    ranks = [0.0] * len(scores)
    for j, value, fitted in zip(order, z, block_means(y, y)):
        ranks[j] = value - fitted
    return ranks


def soft_rank_adjoint(scores, regularization, upstream):
    """The gradient of sum_j upstream_j rank_j."""
    order, _, y = _sorted(scores, regularization)
    means = block_means(y, [upstream[j] for j in order])
    slopes = [0.0] * len(scores)
    for j, mean in zip(order, means):
        slopes[j] = (mean - upstream[j]) / regularization
    return slopes


def _sigmoid(x):
    return 1 / (1 + cmath.exp(-x))


def position_loss(positions, labels, metric, topn, beta):
    """One minus a metric of positions, which may be complex."""

    def truncation(position):
        return 1.0 if topn is None else _sigmoid(beta * (topn + 0.5 - position))

    items = range(len(labels))
    relevant = [float(y >= 1) for y in labels]
    if not any(relevant):
        return 0.0
    value = 0.0
    for j in items:
        if metric == "ndcg":
            gain = 2 ** labels[j] - 1
            value += gain * truncation(positions[j]) / cmath.log(1 + positions[j])
        elif metric == "precision":
            value += relevant[j] * truncation(positions[j]) / topn
        elif relevant[j]:
            better = 1 + sum(
                relevant[i] * _sigmoid(beta * (positions[j] - positions[i]))
                for i in items
                if i != j
            )
            at = truncation(positions[j]) / positions[j]
            value += better * at / sum(relevant)
    if metric == "ndcg":
        gains = sorted((2**y - 1 for y in labels), reverse=True)[:topn]
        value /= sum(g / math.log(2 + r) for r, g in enumerate(gains))
    return 1 - value


def loss(scores, labels, regularization, **metric):
    ranks = soft_ranks(scores, regularization)
    return complex(position_loss(ranks, labels, **metric)).real


def loss_gradient(scores, labels, regularization, **metric):
    upstream = oracles.gradient(
        lambda ranks: position_loss(ranks, labels, **metric),
        soft_ranks(scores, regularization),
    )
    return soft_rank_adjoint(scores, regularization, upstream)
