"""SmoothI (Thonet et al., AAAI 2022) with plain loops."""

import cmath

from tests.oracles.gradients import gradient
from tests.oracles.metrics import metric


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
