"""Float64 oracles of SoftSort: the dense matrix of its definition; no TensorFlow here.

As in `tests.oracles`: one list at a time, real items only, and scores may be complex,
so that `oracles.gradient` differentiates. What is compared are the real parts.
"""

import numpy as np

from tests import oracles


def soft_sort(scores, num_ranks, temperature):
    """`softmax_j(-|s_(r) - s_j| / temperature)`, `[rank, item]`.

    The slope of |x| is 0 at 0, and items that tie share that of the score at a rank.
    """
    scores = np.asarray(scores, complex)
    real = scores.real
    best_first = np.sort(real)[::-1][:num_ranks]
    tied = best_first[:, np.newaxis] == real
    at_rank = best_first + 1j * (tied @ scores.imag) / tied.sum(axis=1)
    gaps = at_rank[:, np.newaxis] - scores
    exponentials = np.exp(-gaps * np.sign(gaps.real) / temperature)
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def positions(scores, temperature):
    """`sum_r r P[r, j]` of each item."""
    size = len(scores)
    return np.arange(1, size + 1) @ soft_sort(scores, size, temperature)


def indicators_loss(scores, labels, metric, temperature, **arguments):
    """1 - metric under SoftSort (the metric itself for ARP); 0 on an empty list."""
    size = len(labels)
    rows = soft_sort(scores, min(arguments.get("topn") or size, size), temperature)
    value = oracles.metric(metric, rows, labels, expected="gain", **arguments)
    if value is None:
        return 0.0
    return value if metric == "arp" else 1 - value


def position_loss(
    scores, labels, metric, temperature, topn=None, beta=10.0, relevance_threshold=1.0
):
    """1 - metric of the positions (Qin et al., 2010); 0 on an empty list."""
    labels = np.asarray(labels)
    found = positions(scores, temperature)
    within = 1.0 if topn is None else _sigmoid(beta * (topn + 0.5 - found))
    if metric == "ndcg":
        gains = 2**labels - 1
        if not gains.any():
            return 0.0
        ideal = np.sort(gains)[::-1][:topn] / np.log2(np.arange(len(gains)) + 2)[:topn]
        return 1 - (gains * within / np.log2(1 + found)).sum() / ideal.sum()
    relevant = (labels >= relevance_threshold) * 1.0
    if not relevant.any():
        return 0.0
    if metric == "precision":
        return 1 - (relevant * within).sum() / topn
    before = _sigmoid(beta * (found[:, np.newaxis] - found))
    np.fill_diagonal(before, 1)
    precision = before @ relevant / found
    return 1 - (relevant * within * precision).sum() / relevant.sum()


def _sigmoid(x):
    return (1 + np.tanh(x / 2)) / 2
