"""Float64 oracles of the baseline losses, plain loops written from their papers.

One list at a time, real items only. Scores may be complex: `tests.oracles.gradient`.
"""

import cmath

from tests.oracles.positions import position_loss, sigmoid


def _real(x):
    return x.real if isinstance(x, complex) else x


def list_net(scores, labels):
    """Cao et al. 2007: cross-entropy of the top-one probabilities."""

    def top_one(values):
        highest = max(_real(v) for v in values)
        terms = [cmath.exp(v - highest) for v in values]
        return [t / sum(terms) for t in terms]

    target, predicted = top_one(labels), top_one(scores)
    return -sum(t * cmath.log(p) for t, p in zip(target, predicted))


def list_ap(scores, labels, num_bins=20, relevance_threshold=1.0):
    """Revaud et al. 2019, Eqs. 3 to 8, with scores brought to [0, 1]."""
    relevant = [float(y >= relevance_threshold) for y in labels]
    best = max(scores, key=_real)
    worst = min(scores, key=_real)
    if best == worst:
        x = [1.0] * len(scores)
    else:
        x = [(s - worst) / (best - worst) for s in scores]
    delta = 1 / (num_bins - 1)

    def belongs(value, m):
        center = 1 - (m - 1) * delta
        distance = value - center if _real(value) >= center else center - value
        share = 1 - distance / delta
        return share if _real(share) > 0 else 0.0

    average, found, items = 0.0, 0.0, 0.0
    for m in range(1, num_bins + 1):
        shares = [belongs(value, m) for value in x]
        here = sum(share * r for share, r in zip(shares, relevant))
        found = found + here
        items = items + sum(shares)
        if items != 0:
            average = average + found / items * here / sum(relevant)
    return 1 - average


def approx_metric(
    scores, labels, metric, topn=None, alpha=10.0, beta=10.0, relevance_threshold=1.0
):
    """Qin, Liu and Li 2010: one minus the metric at approximated positions."""
    positions = approx_positions(scores, alpha)
    return position_loss(positions, labels, metric, topn, beta, relevance_threshold)


def approx_positions(scores, alpha=10.0):
    """One more than the number of better items, each counted by a sigmoid."""
    size = len(scores)
    return [
        1 + sum(sigmoid(alpha * (scores[i] - s)) for i in range(size) if i != j)
        for j, s in enumerate(scores)
    ]
