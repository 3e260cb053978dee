"""Losses of the positions of one list's items (Qin, Liu and Li, 2010)."""

import cmath
import math

from tests.oracles.metrics import dcg, gain_of


def sigmoid(z):
    """1 / (1 + exp(-z)), also where exp(-z) is too large."""
    if complex(z).real >= 0:
        return 1 / (1 + cmath.exp(-z))
    return cmath.exp(z) / (1 + cmath.exp(z))


def position_loss(
    positions,
    labels,
    metric="ndcg",
    topn=None,
    beta=10.0,
    relevance_threshold=1.0,
    gain="exponential",
):
    """One minus a metric of positions, which may be complex; 0 on an empty list."""
    kept = [
        1.0 if topn is None else sigmoid(beta * (topn + 0.5 - position))
        for position in positions
    ]
    if metric == "ndcg":
        if not any(y > 0 for y in labels):
            return 0.0
        found = sum(
            gain_of(y, gain) * share * math.log(2) / cmath.log(1 + position)
            for position, y, share in zip(positions, labels, kept)
        )
        ideal = sorted((gain_of(y, gain) for y in labels), reverse=True)
        return 1 - found / dcg(ideal[:topn])
    relevant = [j for j, y in enumerate(labels) if y >= relevance_threshold]
    if not relevant:
        return 0.0
    if metric == "precision":
        return 1 - sum(kept[j] for j in relevant) / topn
    total = 0.0
    for j in relevant:
        better = 1 + sum(
            sigmoid(beta * (positions[j] - positions[i])) for i in relevant if i != j
        )
        total += kept[j] * better / positions[j]
    return 1 - total / len(relevant)
