"""Float64 oracles of SoftSort: the dense matrix of its definition; no TensorFlow here.

As in `tests.oracles`: one list at a time, real items only, and scores may be complex,
so that `oracles.gradient` differentiates. What is compared are the real parts.
"""

import numpy as np

from tests import oracles
from tests.oracles import positions as oracle


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


def position_loss(scores, labels, metric, temperature, **arguments):
    """1 - metric of the positions; 0 on an empty list."""
    found = positions(scores, temperature)
    return oracle.position_loss(found, labels, metric, **arguments)
