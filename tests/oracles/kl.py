"""Float64 oracles of the KL losses, written from the paper; see `tests.oracles`.

Real items only. A pairwise or listwise oracle takes one list; a pointwise one takes all
lists of a batch, whose items may be counted together for the class weights.
"""

import cmath

LEAST = 1e-6  # of a label, as a probability


def real(x):
    return complex(x).real


def sigmoid(s):
    if real(s) >= 0:
        return 1 / (1 + cmath.exp(-s))
    return cmath.exp(s) / (1 + cmath.exp(s))


def clip(x, low, high):
    return low if real(x) < low else high if real(x) > high else x


def probability(score, from_logits, least=0.0):
    return sigmoid(score) if from_logits else clip(score, least, 1 - least)


def kl_binomial(p, q, num_trials):
    """Eq. 4."""
    return num_trials * (p * cmath.log(p / q) + (1 - p) * cmath.log((1 - p) / (1 - q)))


def kl_gaussian(mean, other, sigma, other_sigma):
    """Eq. 9."""
    return 0.5 * (
        2 * cmath.log(other_sigma / sigma)
        - 1
        + (sigma**2 + (mean - other) ** 2) / other_sigma**2
    )


def kl_multinomial(p, q):
    """Eq. 6."""
    return sum(a * cmath.log(a / b) for a, b in zip(p, q))


def class_weights(values, threshold, balance):
    """Weights of lists of items with such values, inversely to their classes' sizes."""
    if balance is None:
        return [[1.0] * len(row) for row in values]
    weights = []
    for row in values:
        counted = row if balance == "list" else [v for other in values for v in other]
        relevant = [v >= threshold for v in counted]
        classes = len(set(relevant))
        weights.append(
            [
                len(counted) / (classes * relevant.count(value >= threshold))
                for value in row
            ]
        )
    return weights


def pointwise_binomial(
    scores,
    labels,
    num_trials=32,
    max_label=1.0,
    relevance_threshold=0.1,
    class_balance="batch",
    from_logits=True,
):
    """Eq. 5 of each item of a batch."""
    values = [[y / max_label for y in row] for row in labels]
    weights = class_weights(values, relevance_threshold, class_balance)
    losses = []
    for i, row in enumerate(scores):
        losses.append([])
        for j, score in enumerate(row):
            p = clip(values[i][j], LEAST, 1 - LEAST)
            q = probability(score, from_logits, 1e-7)
            both = kl_binomial(p, q, num_trials) + kl_binomial(q, p, num_trials)
            losses[-1].append(both * weights[i][j])
    return losses


def pointwise_multinomial(
    scores,
    labels,
    grade_values=None,
    relevance_threshold=0.1,
    class_balance="batch",
    from_logits=True,
):
    """Eq. 7 of each item of a batch; an item's score and label are lists of grades."""
    size = next(len(item) for row in labels for item in row)
    values = grade_values or [g / (size - 1) for g in range(size)]
    expected = [[sum(v * p for v, p in zip(values, y)) for y in row] for row in labels]
    weights = class_weights(expected, relevance_threshold, class_balance)
    losses = []
    for i, row in enumerate(scores):
        losses.append([])
        for j, item in enumerate(row):
            p = [clip(y, LEAST, 1 - LEAST) for y in labels[i][j]]
            if from_logits:
                top = max(real(s) for s in item)
                parts = [cmath.exp(s - top) for s in item]
                q = [part / sum(parts) for part in parts]
            else:
                q = [clip(s, 1e-7, 1 - 1e-7) for s in item]
            both = kl_multinomial(p, q) + kl_multinomial(q, p)
            losses[-1].append(both * weights[i][j])
    return losses


def _pairwise(p, labels, margin, symmetric, divergence):
    losses = []
    for i in range(len(p)):
        total = 0.0
        for j in range(len(p)):
            if labels[i] > labels[j]:
                apart = divergence(p[i], p[j])
                if symmetric:
                    apart += divergence(p[j], p[i])
                ahead = real(p[i]) - real(p[j])
                sign = (ahead > 0) - (ahead < 0)
                hinge = margin - sign * apart
                total += hinge if real(hinge) > 0 else 0.0
        losses.append(total)
    return losses


def pairwise_binomial(
    scores, labels, num_trials=32, margin=1.0, symmetric=False, from_logits=True
):
    """Eq. 8, summed over the pairs of each item of a list."""
    p = [probability(s, from_logits, 1e-7) for s in scores]
    return _pairwise(
        p, labels, margin, symmetric, lambda a, b: kl_binomial(a, b, num_trials)
    )


def pairwise_gaussian(
    scores, labels, sigma=0.25, margin=1.0, symmetric=False, from_logits=True
):
    """Eq. 10, summed over the pairs of each item of a list."""
    p = [probability(s, from_logits) for s in scores]
    return _pairwise(
        p, labels, margin, symmetric, lambda a, b: kl_gaussian(a, b, sigma, sigma)
    )


def listwise_gaussian(
    scores,
    labels,
    sigma=1.0,
    max_label=1.0,
    relevance_threshold=0.1,
    class_balance="list",
    from_logits=True,
):
    """Eq. 13 of each list of a batch."""
    values = [[y / max_label for y in row] for row in labels]
    weights = class_weights(values, relevance_threshold, class_balance)
    losses = []
    for i, row in enumerate(scores):
        total = 0.0
        for j, score in enumerate(row):
            t = clip(values[i][j], LEAST, 1 - LEAST)
            p = probability(score, from_logits)
            total += 0.5 * weights[i][j] * (t - p) ** 2 / sigma**2
        losses.append(total)
    return losses
