"""Float64 oracles of PiRank and its relaxations with plain loops; no TensorFlow here.

Equations are those of Swezey et al., "PiRank", NeurIPS 2021. As in `tests.oracles`: one
list at a time, real items only, and scores may be complex, so that `oracles.gradient`
differentiates. What an equation compares are the real parts.

A `sort` here is a function of the scores and the number of ranks that gives rows of
rank indicators.
"""

import cmath
import functools
import math

import numpy as np

from tests import oracles


def _real(x):
    return complex(x).real


def _absolute(x):
    """|x|, whose slope is 0 at a tie."""
    return x if _real(x) > 0 else -x if _real(x) < 0 else 0.0


def _log_softmax(logits):
    top = max(_real(z) for z in logits)
    log_total = cmath.log(sum(cmath.exp(z - top) for z in logits))
    return [z - top - log_total for z in logits]


def neural_sort_log(scores, num_ranks, temperature):
    """The logarithm of Eq. 12."""
    size = len(scores)
    sums = [sum(_absolute(s - t) for t in scores) for s in scores]  # A 1
    return [
        _log_softmax(
            [((size + 1 - 2 * r) * s - a) / temperature for s, a in zip(scores, sums)]
        )
        for r in range(1, num_ranks + 1)
    ]


def neural_sort(scores, num_ranks, temperature):
    """NeuralSort, Eq. 12."""
    rows = neural_sort_log(scores, num_ranks, temperature)
    return [[cmath.exp(z) for z in row] for row in rows]


def soft_sort(scores, num_ranks, temperature):
    """SoftSort (Prillo and Eisenschlos): softmax(-|s_(r) - s_j| / temperature).

    At a tie s_(r) is the mean of those that tie: permuting items changes nothing.
    """
    best_first = sorted(scores, key=_real, reverse=True)
    rows = []
    for top in best_first[:num_ranks]:
        tied = [complex(s).imag for s in scores if _real(s) == _real(top)]
        top = _real(top) + 1j * sum(tied) / len(tied)
        row = _log_softmax([-_absolute(top - s) / temperature for s in scores])
        rows.append([cmath.exp(z) for z in row])
    return rows


def exact_sort(scores, num_ranks):
    """The exact sort, ties by position."""
    return oracles.exact_indicators([_real(s) for s in scores], num_ranks)


def merge_sort(scores, num_ranks, temperatures, branching, merge_topn=None):
    """The merge tree, Eqs. 13 to 17: the rows of P at the root.

    A node is the list of its values, each with its row of P over the items. Leaves
    beyond the last item are nodes of no values: no equation ever sees one.
    """
    size = len(scores)
    nodes = []
    for j, s in enumerate(scores):
        nodes.append([(s, [float(i == j) for i in range(size)])])
    leaves = math.prod(branching)
    nodes += [[] for _ in range(leaves - size)]
    largest = 1  # k_{j-1}
    for height, (branch, temperature) in enumerate(zip(branching, temperatures)):
        largest = min(num_ranks, largest * branch)
        if merge_topn is not None:
            largest = merge_topn[height]
        parents = []
        for first in range(0, len(nodes), branch):  # Eq. 13: neighbours
            held = [pair for node in nodes[first : first + branch] for pair in node]
            parents.append(_merged(held, min(largest, len(held)), temperature))
        nodes = parents
    (root,) = nodes
    return [row for _, row in root]


def _merged(held, count, temperature):
    merged = []
    for q in neural_sort([s for s, _ in held], count, temperature):
        value = sum(weight * s for weight, (s, _) in zip(q, held))  # Eq. 15
        row = [
            sum(weight * p[j] for weight, (_, p) in zip(q, held))  # Eq. 16
            for j in range(len(held[0][1]))
        ]
        merged.append((value, row))
    return merged


def default_branching(size, depth):
    """The least factors that will do, each as near to the others as may be."""
    branching = []
    for height in range(depth):
        factor = 1
        while factor ** (depth - height) < size:
            factor += 1
        branching.append(factor)
        size = math.ceil(size / factor)
    return branching


def pirank_loss(scores, labels, name, sort, topn=None):
    """Eq. 10 for 'ndcg', Eq. 11 for 'arp'; 0 on a list without anything relevant."""
    ranks = min(topn or len(labels), len(labels))
    value = oracles.metric(
        name, sort(scores, ranks), labels, topn=topn, expected="gain"
    )
    if value is None:
        return 0.0
    return 1 - value if name == "ndcg" else value


def cross_entropy(scores, labels, temperature):
    """-sum_j T[r, j] log P[r, j], the mean over the ranks; P is NeuralSort."""
    rows = neural_sort_log(scores, len(scores), temperature)
    return _cross_entropy(rows, labels)


def exact_cross_entropy(scores, labels):
    """The same, where P is the exact sort and its zeros are 1e-20."""
    rows = exact_sort(scores, len(scores))
    return _cross_entropy([[math.log(max(p, 1e-20)) for p in r] for r in rows], labels)


def _cross_entropy(log_rows, labels):
    if not any(y > 0 for y in labels):
        return 0.0
    best_first = sorted(labels, reverse=True)
    total = 0.0
    for wanted, row in zip(best_first, log_rows):
        sharing = [j for j, y in enumerate(labels) if y == wanted]
        total -= sum(row[j] for j in sharing) / len(sharing)
    return total / len(labels)


# What follows is NumPy, dense, for lists too long for loops. It takes ranks, not their
# number, counted from 0.


def dense_neural_sort(scores, ranks, temperature):
    """Eq. 12 at some ranks, `[rank, item]`."""
    return np.exp(dense_neural_sort_log(scores, ranks, temperature))


def dense_neural_sort_log(scores, ranks, temperature):
    """The logarithm of Eq. 12 at some ranks, `[rank, item]`."""
    scores, size = np.asarray(scores), len(scores)
    sums = np.zeros_like(scores)
    for first in range(0, size, 500):
        gaps = scores[:, np.newaxis] - scores[first : first + 500]
        sums += (gaps * np.sign(gaps.real)).sum(axis=1)
    factors = (size - 1 - 2 * np.asarray(ranks))[:, np.newaxis]
    logits = (factors * scores - sums) / temperature
    logits -= logits.real.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def dense_sort(temperature):
    """Eq. 12 as a `sort`."""
    return lambda scores, num_ranks: dense_neural_sort(
        scores, np.arange(num_ranks), temperature
    )


def dense_ndcg_loss(scores, labels, sort, topn=None):
    """Eq. 10 in NumPy; 0 on a list without anything relevant."""
    if not any(y > 0 for y in labels):
        return np.zeros_like(scores)[0]
    ranks = min(topn or len(labels), len(labels))
    gains = 2 ** np.asarray(labels) - 1
    discounts = 1 / np.log2(np.arange(ranks) + 2)
    ideal = np.sort(gains)[::-1][:ranks] @ discounts
    return 1 - sort(scores, ranks) @ gains @ discounts / ideal


def dense_cross_entropy(scores, labels, temperature):
    """`cross_entropy` in NumPy."""
    labels = np.asarray(labels)
    rows = dense_neural_sort_log(scores, np.arange(len(labels)), temperature)
    targets = np.sort(labels)[::-1, np.newaxis] == labels
    return -(targets / targets.sum(axis=1, keepdims=True) * rows).sum() / len(labels)


def neural_sort_at(temperature):
    """`neural_sort` as a `sort`."""
    return functools.partial(neural_sort, temperature=temperature)
