"""Float64 oracles of soft ranks and their loss; plain loops, one list."""

from tests.oracles.gradients import gradient
from tests.oracles.positions import position_loss


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


def loss(scores, labels, regularization, **metric):
    ranks = soft_ranks(scores, regularization)
    return complex(position_loss(ranks, labels, **metric)).real


def loss_gradient(scores, labels, regularization, **metric):
    upstream = gradient(
        lambda ranks: position_loss(ranks, labels, **metric),
        soft_ranks(scores, regularization),
    )
    return soft_rank_adjoint(scores, regularization, upstream)
