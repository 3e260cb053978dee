"""The losses of TensorFlow Ranking, from their definitions in its documentation."""

import cmath
import math

from tests.oracles.metrics import dcg, gain_of
from tests.oracles.positions import sigmoid

EXPONENTIAL = "exponential"


def softplus(z):
    """log(1 + exp(z)), also where exp(z) is too large."""
    positive = complex(z).real > 0
    return z * positive + cmath.log(1 + cmath.exp(-z if positive else z))


def log_sum(scores):
    """The logarithm of the sum of the exponentials."""
    top = max(complex(s).real for s in scores)
    return top + cmath.log(sum(cmath.exp(s - top) for s in scores))


def _of_pairs(loss):
    def value(labels, scores):
        items = range(len(labels))
        return sum(
            loss(scores[i] - scores[j])
            for i in items
            for j in items
            if labels[i] > labels[j]
        )

    return value


def _of_squared_pairs(labels, scores):
    items = range(len(labels))
    return sum(
        (scores[i] - scores[j] - labels[i] + labels[j]) ** 2
        for i in items
        for j in items
    )


def _softmax(labels, scores, *others):
    total = log_sum([*scores, *others])
    return sum(y * (total - s) for y, s in zip(labels, scores))


def _unique_softmax(labels, scores):
    return sum(
        gain_of(y, EXPONENTIAL)
        * (log_sum([s, *(t for x, t in zip(labels, scores) if x < y)]) - s)
        for y, s in zip(labels, scores)
    )


def _sigmoid_cross_entropy(labels, scores):
    return sum(softplus(s) - y * s for y, s in zip(labels, scores))


def _ordinal(labels, scores):
    """With the scores 1, .5 and -1 times one score, for labels of 1, 2 and 3."""
    return sum(
        softplus(share * s) - (y >= level) * share * s
        for y, s in zip(labels, scores)
        for level, share in ((1, 1), (2, 0.5), (3, -1))
    )


def _draws(order, scores):
    """Minus the log-probability of an order of draws (Plackett and Luce)."""
    drawn = [scores[j] for j in order]
    return sum(log_sum(drawn[i:]) - drawn[i] for i in range(len(drawn)))


def _descending(values):
    return sorted(range(len(values)), key=lambda j: -complex(values[j]).real)


def _approximate_ranks(scores):
    """Ranks at temperature .1."""
    return [0.5 + sum(sigmoid((t - s) / 0.1) for t in scores) for s in scores]


def _approx_ndcg(labels, scores):
    gains = [gain_of(y, EXPONENTIAL) for y in labels]
    found = sum(
        g * cmath.log(2) / cmath.log(1 + rank)
        for g, rank in zip(gains, _approximate_ranks(scores))
    )
    return -found / dcg(sorted(gains, reverse=True))


def _approx_mrr(labels, scores):
    ranks = _approximate_ranks(scores)
    return -sum(y / rank for y, rank in zip(labels, ranks)) / sum(labels)


def _neighbours(labels, scores):
    """The logistic loss of neighbours, weighted by what a swap costs in DCG."""
    order = _descending(scores)
    total = 0
    for i, j in [*zip(order, order[1:]), *zip(order[1:], order)]:
        if labels[i] > labels[j]:
            gain = gain_of(labels[i], EXPONENTIAL) - gain_of(labels[j], EXPONENTIAL)
            weight = len(labels) * gain * (1 - 1 / math.log2(3))
            total += weight * softplus(scores[j] - scores[i])
    return total


LOSSES = {
    "pairwise_hinge_loss": _of_pairs(lambda d: (1 - d) * (complex(d).real < 1)),
    "pairwise_logistic_loss": _of_pairs(lambda d: softplus(-d)),
    "pairwise_soft_zero_one_loss": _of_pairs(lambda d: sigmoid(-d)),
    "pairwise_mse_loss": _of_squared_pairs,
    "softmax_loss": _softmax,
    "calibrated_softmax_loss": lambda y, s: _softmax(y, s, 0),
    "unique_softmax_loss": _unique_softmax,
    "sigmoid_cross_entropy_loss": _sigmoid_cross_entropy,
    "mean_squared_loss": lambda y, s: sum((a - b) ** 2 for a, b in zip(y, s)),
    "ordinal_loss": _ordinal,
    "list_mle_loss": lambda y, s: _draws(_descending(y), s),
    "approx_ndcg_loss": _approx_ndcg,
    "approx_mrr_loss": _approx_mrr,
}
"""By key, of the labels and scores of a list."""


def _of_sampled_scores(loss):
    """The sum of a loss of scores with noise over samples."""

    def value(labels, scores, noise):
        return sum(loss(labels, [s + n for s, n in zip(scores, row)]) for row in noise)

    return value


def _rank_distil(labels, scores, noise):
    """The mean over orders drawn from the labels."""
    orders = [_descending([y + n for y, n in zip(labels, row)]) for row in noise]
    return sum(_draws(order, scores) for order in orders) / len(orders)


SAMPLED = {
    "yeti_logistic_loss": _of_sampled_scores(_neighbours),
    "gumbel_approx_ndcg_loss": _of_sampled_scores(_approx_ndcg),
    "coupled_rankdistil_loss": _rank_distil,
}
"""By key, of labels, scores and Gumbel noise `[samples, list]`."""
