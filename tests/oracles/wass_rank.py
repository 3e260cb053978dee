"""Float64 oracle of WassRank with plain loops, written from the paper; no TensorFlow.

One list at a time, real items only. The arguments are named as the loss names them.
"""

import math
from typing import NamedTuple

import numpy as np


class Solution(NamedTuple):
    """What Sinkhorn's iteration ends with."""

    target: list
    prediction: list
    log_u: list
    log_v: list
    log_kernel: list


def cost_matrix(labels, variance_penalty=math.e, relevance_gap=100.0, gain_base=4.0):
    """Algorithm 2, as printed but for its first line: the order does not matter."""

    def gain(y):
        return gain_base**y - 1

    size = len(labels)
    cost = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(size):
            if i != j:
                if labels[i] == labels[j]:
                    cost[i][j] = variance_penalty
                else:
                    cost[i][j] = abs(gain(labels[i]) - gain(labels[j]))
                    if labels[i] == 0 or labels[j] == 0:
                        cost[i][j] += relevance_gap
            else:
                cost[i][j] = 0.0
    return cost


def solve(
    labels,
    scores,
    regularization=0.1,
    num_iterations=20,
    score_scale=1.0,
    **cost_arguments,
):
    """Algorithm 1, lines 2 to 6, in the log domain."""
    size = len(labels)
    cost = cost_matrix(labels, **cost_arguments)
    log_kernel = [
        [-cost[i][j] / regularization for j in range(size)] for i in range(size)
    ]
    log_target = _log_softmax(labels)
    log_prediction = _log_softmax([score_scale * s for s in scores])
    log_u = [-math.log(size)] * size
    log_v = [0.0] * size
    for _ in range(num_iterations):
        product = _log_product(log_kernel, log_u)
        log_v = [log_target[i] - product[i] for i in range(size)]
        product = _log_product(log_kernel, log_v)
        log_u = [log_prediction[i] - product[i] for i in range(size)]
    return Solution(
        [math.exp(t) for t in log_target],
        [math.exp(p) for p in log_prediction],
        log_u,
        log_v,
        log_kernel,
    )


def value_and_gradient(
    labels, scores, regularization=0.1, score_scale=1.0, **arguments
):
    """The dual value; and Algorithm 1, lines 7 and 8, by the softmax's Jacobian."""
    found = solve(labels, scores, regularization, score_scale=score_scale, **arguments)
    size, p = len(labels), found.prediction
    total = 0.0
    for i in range(size):
        total += found.target[i] * found.log_v[i] + p[i] * found.log_u[i]
    of_prediction = [regularization * (x + 0.5) for x in found.log_u]
    slopes = []
    for k in range(size):
        slope = 0.0
        for i in range(size):
            slope += of_prediction[i] * score_scale * p[i] * ((i == k) - p[k])
        slopes.append(slope)
    return regularization * total, slopes


def marginal_error(labels, scores, **arguments):
    """How far the target marginal of the plan is from the target."""
    found = solve(labels, scores, **arguments)
    product = _log_product(found.log_kernel, found.log_u)
    return sum(
        abs(math.exp(found.log_v[i] + product[i]) - found.target[i])
        for i in range(len(labels))
    )


def value_and_gradient_of_long_lists(
    labels,
    scores,
    regularization=0.1,
    num_iterations=20,
    score_scale=1.0,
    **cost_arguments,
):
    """`value_and_gradient` in NumPy, for lists that are too long for the loops."""
    log_kernel = -np.array(cost_matrix(labels, **cost_arguments)) / regularization
    log_target = np.array(_log_softmax(labels))
    log_prediction = np.array(_log_softmax([score_scale * s for s in scores]))

    def log_product(x):
        terms = log_kernel + x
        most = terms.max(axis=1)
        return most + np.log(np.exp(terms - most[:, np.newaxis]).sum(axis=1))

    log_u = np.full(len(labels), -math.log(len(labels)))
    for _ in range(num_iterations):
        log_v = log_target - log_product(log_u)
        log_u = log_prediction - log_product(log_v)
    target, prediction = np.exp(log_target), np.exp(log_prediction)
    total = regularization * (target @ log_v + prediction @ log_u)
    slopes = prediction * (log_u - prediction @ log_u)
    return total, regularization * score_scale * slopes


def _log_product(log_kernel, log_x):
    return [
        _log_sum_exp([log_kernel[i][j] + log_x[j] for j in range(len(log_x))])
        for i in range(len(log_x))
    ]


def _log_softmax(logits):
    total = _log_sum_exp(logits)
    return [z - total for z in logits]


def _log_sum_exp(terms):
    most = max(terms)
    return most + math.log(sum(math.exp(t - most) for t in terms))
