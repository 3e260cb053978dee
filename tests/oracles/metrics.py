"""Metrics of one list, read off its rank indicators."""

import math


def exact_indicators(scores, num_ranks):
    """The exact sort, best first, ties by position."""
    order = sorted(range(len(scores)), key=lambda j: (-scores[j], j))
    return [
        [float(order[r] == j) for j in range(len(scores))] for r in range(num_ranks)
    ]


def metric(
    name,
    indicators,
    labels,
    topn=None,
    relevance_threshold=1.0,
    max_label=None,
    gain="exponential",
    expected="relevance",
):
    """A metric of one list from its indicators; None if the list is empty."""
    size = len(labels)
    depth = size if topn is None else min(topn, size)
    binary = [1.0 if y >= relevance_threshold else 0.0 for y in labels]

    def at(rank, values):
        return sum(indicators[rank][j] * values[j] for j in range(size))

    if name in ("precision", "map", "mrr", "recall", "hits"):
        if not any(binary):
            return None
        p = [at(r, binary) for r in range(depth)]
        if name == "precision":
            return sum(p) / (size if topn is None else topn)
        if name == "recall":
            return sum(p) / sum(binary)
        if name == "hits":
            return 1 - math.prod(1 - x for x in p)
        if name == "map":
            total = 0.0
            for r in range(depth):
                total += p[r] * sum(p[: r + 1]) / (r + 1)
            return total / sum(binary)
        return cascade(p)
    if name == "opa":
        at_ranks = [at(r, labels) for r in range(size)]
        right = wrong = 0
        for r in range(size):
            for later in range(r + 1, size):
                right += at_ranks[r] > at_ranks[later]
                wrong += at_ranks[r] < at_ranks[later]
        return right / (right + wrong) if right + wrong else None
    if not any(y > 0 for y in labels):
        return None
    relevance = [at(r, labels) for r in range(depth)]
    if name == "ndcg":
        if expected == "gain":
            gains = [at(r, [gain_of(y, gain) for y in labels]) for r in range(depth)]
        else:
            gains = [gain_of(x, gain) for x in relevance]
        ideal = sorted((gain_of(y, gain) for y in labels), reverse=True)
        return dcg(gains) / dcg(ideal[:depth])
    if name == "dcg":
        return dcg([gain_of(x, gain) for x in relevance])
    if name in ("err", "nerr"):

        def stops(grades):
            return [(2**x - 1) / 2**max_label for x in grades]

        best = sorted(labels, reverse=True)[:depth]
        ideal = cascade(stops(best)) if name == "nerr" else 1.0
        return cascade(stops(relevance)) / ideal
    if name == "arp":
        cost = sum((r + 1) * x for r, x in enumerate(relevance))
        if topn is not None and topn < size:
            cost += (topn + 1) * (sum(labels) - sum(relevance))
        return cost / sum(labels)
    raise ValueError(name)


def gain_of(label, gain):
    """The gain of a label in NDCG."""
    if gain == "linear":
        return label
    return 2**label - (1 if gain == "exponential" else 0)


def dcg(gains):
    """The sum of gains over `log2(1 + rank)`."""
    return sum(g / math.log2(r + 2) for r, g in enumerate(gains))


def cascade(stops):
    total, going_on = 0.0, 1.0
    for r, stop in enumerate(stops):
        total += going_on * stop / (r + 1)
        going_on *= 1 - stop
    return total
