r"""WassRank's transport problem: the ranking cost, and products with its kernel.

Sinkhorn's iteration (`tfr_ext.transport`) needs products `M u` with the kernel
`M = exp(-cost / regularization)`. The ranking cost (Yu et al., "WassRank", WSDM 2019,
Algorithm 2) depends on the two labels only. Between different labels
it is a distance on a line; within a label it is the same for all pairs. So

$$
(M u)_i = K_g + (1 - a) \, u_i, \qquad
K_g = \sum_{\text{labels } h} e^{-C_{gh} / \mathrm{reg}} S_h
$$

for an item of label `g`, where `S_h` is the sum of `u` over label `h`, `C_gg` is the
variance penalty and `a = exp(-C_gg / reg)`. A product costs O(items + labels^2), or
O(items log items) where labels are many, not O(items^2), and is the same number.

It costs no logarithm of an item either: `v_i = (target_g / K_g) / (1 + w_i)` with
`w_i = (1 - a) u_i / K_g`, which is at most `1 / a`. Only sums over labels need the log
domain, if `a` itself is no underflow; where an item is alone with its label, `a = 1`
gives the same product, and `w = 0`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.arguments import Argument, Declared
from tfr_ext.transport.labels_to_scores_kernel import RankingCost, RankingKernel
from tfr_ext.transport.sinkhorn import NOTHING, Potentials, log_softmax, sinkhorn

# Distinct labels of a list up to which all their pairs are computed: each number has a
# graph of its own, and the first that suffices is run.
_FEW_GRADES = (3, 5, 8)
# The cost within a label, over the regularization, up to which no item's part needs a
# logarithm: the square of its exp() is finite in float32.
_MOST_PENALTY = 40.0
# Log of a probability that is 0 for any purpose, and finite.
_LEAST_LOG_PROBABILITY = -1e30


def ranking_sinkhorn(
    labels: tf.Tensor,
    log_prediction: tf.Tensor,
    mask: tf.Tensor,
    cost: RankingCost,
    regularization: float,
    num_iterations: int,
) -> Potentials:
    """Runs Sinkhorn's iteration for the ranking cost, from `softmax(labels)`.

    The same numbers as `sinkhorn` with the whole kernel, many times as fast: see the
    note at the head of this module.

    Args:
        labels: non-negative labels, `[batch, list]`.
        log_prediction: log of a distribution over the real items, `[batch, list]`.
        mask: True at real items, `[batch, list]`. Each list must have one.
        cost: the ranking cost.
        regularization: positive.
        num_iterations: at least 1.

    Returns:
        The potentials. No gradient passes.
    """
    log_target = log_softmax(labels, mask)

    def by_kernel() -> Potentials:
        kernel = RankingKernel(labels, mask, cost, regularization)
        return sinkhorn(
            log_target, log_prediction, kernel.log_product, mask, num_iterations
        )

    if cost.variance_penalty / regularization > _MOST_PENALTY:
        return by_kernel()

    def by_grades(few: Sequence[int]) -> Potentials:
        if not few:
            return by_kernel()
        grades, all_found = _grades(labels, mask, few[0])
        return tf.cond(
            all_found,
            lambda: _sinkhorn_by_grades(
                labels,
                grades,
                log_target,
                log_prediction,
                mask,
                cost,
                regularization,
                num_iterations,
            ),
            lambda: by_grades(few[1:]),
        )

    return by_grades(_FEW_GRADES)


def _check_gap(argument: str, value: Any) -> float:
    gap = checks.not_negative(argument, value)
    return gap if gap == 0 else checks.between(argument, gap, 0, 1e30)


@dataclasses.dataclass(frozen=True)
class RankingTransport(Declared):
    """Transport of `softmax(score_scale * scores)` to `softmax(labels)`: WassRank's.

    Attributes:
        regularization: of the entropy, between 1e-6 and 1e30; the paper's lambda.
        num_iterations: Sinkhorn iterations, at least 1.
        variance_penalty: cost between items of the same label, positive; alpha.
        relevance_gap: further cost between a relevant item and one of label 0, not
            negative; beta.
        gain_base: base of the gain, above 1; b.
        score_scale: positive; epsilon.
    """

    # So that costs over the regularization, and their differences, are finite.
    ARGUMENTS = {
        "regularization": Argument(partial(checks.between, low=1e-6, high=1e30)),
        "num_iterations": Argument(partial(checks.at_least, least=1)),
        "variance_penalty": Argument(partial(checks.between, low=0, high=1e30)),
        "relevance_gap": Argument(_check_gap),
        "gain_base": Argument(partial(checks.between, low=1, high=1e3)),
        "score_scale": Argument(partial(checks.between, low=0, high=1e30)),
    }

    regularization: float
    num_iterations: int
    variance_penalty: float
    relevance_gap: float
    gain_base: float
    score_scale: float

    def solve(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, Potentials]:
        """Runs the iterations.

        Args:
            labels: non-negative labels, `[batch, list]`, at least one item a list.
            scores: scores, `[batch, list]`.
            mask: True at real items.

        Returns:
            The target and the prediction, both distributions over the real items, 0 at
            padding, and the potentials. No gradient passes.
        """
        log_prediction = self._log_prediction(scores, mask)
        potentials = ranking_sinkhorn(
            labels,
            log_prediction,
            mask,
            self._cost,
            self.regularization,
            self.num_iterations,
        )
        real = tf.cast(mask, scores.dtype)
        target = tf.exp(log_softmax(labels, mask)) * real
        return target, tf.exp(log_prediction) * real, potentials

    def marginal_error(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Returns how far the iterations are from convergence, of each list.

        Args:
            labels: labels, 0 at padding, `[batch, list]`.
            scores: scores, 0 at padding, `[batch, list]`.
            mask: True at real items, `[batch, list]`.

        Returns:
            `[batch]` sums of the absolute differences between the target and the
            target marginal of the transport plan: 0 at convergence, at most 2. The
            other marginal is exact after each iteration.
        """
        labels, scores, mask = masked.at_least_one_item(labels, scores, mask)
        solved = mask | ~tf.reduce_any(mask, axis=1, keepdims=True)
        target, _, potentials = self.solve(labels, scores, solved)
        kernel = RankingKernel(labels, solved, self._cost, self.regularization)
        marginal = tf.exp(potentials.log_v + kernel.log_product(potentials.log_u))
        return tf.reduce_sum(tf.where(mask, tf.abs(marginal - target), 0.0), axis=1)

    @property
    def _cost(self) -> RankingCost:
        return RankingCost(self.variance_penalty, self.relevance_gap, self.gain_base)

    def _log_prediction(self, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        lowest = scores.dtype.min
        best = tf.reduce_max(tf.where(mask, scores, lowest), axis=1, keepdims=True)
        gaps = tf.where(mask, scores - best, 0)
        # Of the largest floats the gap, or the product, is too large for one.
        least = tf.constant(_LEAST_LOG_PROBABILITY / self.score_scale, scores.dtype)
        gaps = tf.where(gaps < least, least, gaps)
        return log_softmax(self.score_scale * gaps, mask)


def _grades(
    labels: tf.Tensor, mask: tf.Tensor, most: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the distinct labels of each list, and whether these are all of them.

    Returns:
        `[batch, most]`, from the greatest, -1 where there are fewer; and a bool scalar.
    """
    left = tf.where(mask, labels, -1)
    found = []
    for _ in range(most):
        found.append(tf.reduce_max(left, axis=1, keepdims=True))
        left = tf.where(left == found[-1], tf.constant(-1, labels.dtype), left)
    return tf.concat(found, axis=1), ~tf.reduce_any(left >= 0)


def _sinkhorn_by_grades(
    labels: tf.Tensor,
    grades: tf.Tensor,
    log_target: tf.Tensor,
    log_prediction: tf.Tensor,
    mask: tf.Tensor,
    cost: RankingCost,
    regularization: float,
    num_iterations: int,
) -> Potentials:
    """See `ranking_sinkhorn`; `grades` has all labels of a list.

    Numbers of items are kept by label, `[batch, labels, list]` with 0 at the items of
    other labels: on a CPU, this is faster than to gather them.
    """
    dtype = labels.dtype
    exists = grades >= 0
    is_of = labels[:, tf.newaxis, :] == grades[:, :, tf.newaxis]
    is_of &= mask[:, tf.newaxis, :] & exists[:, :, tf.newaxis]
    member = tf.cast(is_of, dtype)
    size = tf.reduce_sum(member, axis=2)

    def of_item(per_label: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(member * per_label[:, :, tf.newaxis], axis=1)

    def best_of_label(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_max(tf.where(is_of, x[:, tf.newaxis, :], NOTHING), axis=2)

    penalty = tf.constant(cost.variance_penalty / regularization, dtype)
    within = tf.where(size > 1, -penalty, 0)
    # log(1 - a); the a of an item that is alone is 1.
    log_rest = tf.where(size > 1, tf.math.log(-tf.math.expm1(-penalty)), NOTHING)
    places = cost.positions(tf.maximum(grades, 0)) / regularization
    log_kernel = -tf.abs(places[:, :, tf.newaxis] - places[:, tf.newaxis, :])
    log_kernel = tf.linalg.set_diag(log_kernel, within)
    log_kernel = tf.where(exists[:, tf.newaxis, :], log_kernel, NOTHING)

    def product(scale: tf.Tensor, items: tf.Tensor) -> tf.Tensor:
        """Returns log K for `exp(scale) items`."""
        sums = scale + tf.math.log(tf.reduce_sum(items, axis=2))
        terms = log_kernel + sums[:, tf.newaxis, :]
        most = tf.reduce_max(terms, axis=2, keepdims=True)
        total = tf.reduce_sum(tf.exp(terms - most), axis=2)
        return tf.squeeze(most, axis=2) + tf.math.log(total)

    # Of the prediction: the greatest of a label, and all relative to it.
    best = best_of_label(log_prediction)
    gaps = log_prediction[:, tf.newaxis, :] - best[:, :, tf.newaxis]
    relative = tf.exp(tf.where(is_of, gaps, NOTHING))
    target = best_of_label(log_target)  # the same for all items of a label

    # u = exp(u_scale) u_items, and v = exp(v_scale) v_items likewise.
    def step(
        i: tf.Tensor, u_scale: tf.Tensor, u_items: tf.Tensor, *_: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        log_k = product(u_scale, u_items)
        v_scale = target - log_k
        rest = tf.exp(log_rest + u_scale - log_k)
        v_items = member / (1 + rest[:, :, tf.newaxis] * u_items)
        log_k = product(v_scale, v_items)
        u_scale = best - log_k
        rest = tf.exp(log_rest + v_scale - log_k)[:, :, tf.newaxis] * v_items
        return i + 1, u_scale, relative / (1 + rest), rest, v_scale, v_items

    count = masked.num_real(mask, dtype)[:, tf.newaxis]
    none, zeros = tf.zeros_like(size), tf.zeros_like(member)
    _, u_scale, _, rest, v_scale, v_items = tf.while_loop(
        lambda i, *_: i < num_iterations,
        step,
        (0, none - tf.math.log(count), member, zeros, none, zeros),
        maximum_iterations=num_iterations,
    )
    # relative may have underflown, the logarithm of the prediction has not.
    log_u = log_prediction + of_item(u_scale - best)
    log_u -= tf.math.log1p(tf.reduce_sum(rest, axis=1))
    log_v = of_item(v_scale) + tf.math.log(tf.reduce_sum(v_items, axis=1))
    return Potentials(*(tf.where(mask, x, 0) for x in (log_u, log_v)))
