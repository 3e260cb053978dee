"""Float64 oracles with plain loops, written from the papers; no TensorFlow in here.

One list at a time, real items only. Scores may be complex: the imaginary part then
carries a derivative (complex step), which `gradient` uses to get derivatives that are
exact to rounding, by a way that shares nothing with the code under test.
"""

import cmath
import math


def gradient(function, scores, items=None):
    """Derivatives of a real function of a list of scores, by complex steps.

    In all the scores, or in those of some items.
    """
    step = 1e-30
    slopes = []
    for j in range(len(scores)) if items is None else items:
        moved = [complex(s) for s in scores]
        moved[j] += 1j * step
        slopes.append(complex(function(moved)).imag / step)
    return slopes


def _softmax(logits):
    top = max(z.real if isinstance(z, complex) else z for z in logits)
    exponentials = [cmath.exp(z - top) for z in logits]
    return [e / sum(exponentials) for e in exponentials]


def _shift(scores):
    lowest = min(scores, key=lambda s: complex(s).real)
    return [s - lowest for s in scores]


def smoothi_products(scores, num_ranks, alpha, delta):
    """The products of SmoothI, Eq. 4: row r is prod_{l < r} (1 - I^l_j - delta)."""
    _, products = _smoothi(scores, num_ranks, alpha, delta, None)
    return products


def smoothi_indicators(scores, num_ranks, alpha, delta, products=None):
    """SmoothI, Eq. 4. Given `products` are constants (the paper's stop-gradient)."""
    indicators, _ = _smoothi(scores, num_ranks, alpha, delta, products)
    return indicators


def _smoothi(scores, num_ranks, alpha, delta, frozen):
    shifted = _shift(scores)
    indicators, products = [], []
    for r in range(num_ranks):
        row = []
        for j in range(len(scores)):
            product = 1.0
            for l in range(r):  # noqa: E741
                product = product * (1 - indicators[l][j] - delta)
            row.append(product)
        products.append(row)
        held = row if frozen is None else frozen[r]
        indicators.append(_softmax([alpha * s * p for s, p in zip(shifted, held)]))
    return indicators, products


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
        return _cascade(p)
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
        return _dcg(gains) / _dcg(ideal[:depth])
    if name == "dcg":
        return _dcg([gain_of(x, gain) for x in relevance])
    if name in ("err", "nerr"):

        def stops(grades):
            return [(2**x - 1) / 2**max_label for x in grades]

        best = sorted(labels, reverse=True)[:depth]
        ideal = _cascade(stops(best)) if name == "nerr" else 1.0
        return _cascade(stops(relevance)) / ideal
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


def position_ndcg(positions, labels, gain="exponential", topn=None, beta=10.0):
    """NDCG as a function of positions (Qin et al., 2010); None on an empty list."""
    if not any(y > 0 for y in labels):
        return None
    found = 0.0
    for position, label in zip(positions, labels):
        within = 1.0
        if topn is not None:
            within = 1 / (1 + cmath.exp(-beta * (topn + 0.5 - position)))
        found += gain_of(label, gain) * within * math.log(2) / cmath.log(1 + position)
    ideal = sorted((gain_of(y, gain) for y in labels), reverse=True)
    return found / _dcg(ideal[:topn])


def _dcg(gains):
    return sum(g / math.log2(r + 2) for r, g in enumerate(gains))


def _cascade(stops):
    total, going_on = 0.0, 1.0
    for r, stop in enumerate(stops):
        total += going_on * stop / (r + 1)
        going_on *= 1 - stop
    return total


def smoothi_loss(scores, labels, name, alpha, delta, products=None, **arguments):
    """1 - metric under SmoothI (the metric itself for ARP); 0 on an empty list."""
    depth = len(scores) if arguments.get("topn") is None else arguments["topn"]
    rows = smoothi_indicators(scores, min(depth, len(scores)), alpha, delta, products)
    value = metric(name, rows, labels, **arguments)
    if value is None:
        return 0.0
    return value if name == "arp" else 1 - value


def smoothi_loss_gradient(
    scores, labels, name, alpha, delta, stop_gradient, **arguments
):
    """The gradient of `smoothi_loss`, with or without the stop-gradient."""
    products = None
    if stop_gradient:
        products = smoothi_products(scores, len(scores), alpha, delta)
    return gradient(
        lambda s: smoothi_loss(s, labels, name, alpha, delta, products, **arguments),
        scores,
    )
