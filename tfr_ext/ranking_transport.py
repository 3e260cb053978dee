r"""WassRank's transport problem: the ranking cost, and products with its kernel.

Sinkhorn's iteration (`tfr_ext.transport`) needs products `M u` with the kernel
`M = exp(-cost / regularization)`. The ranking cost (Yu et al., "WassRank", WSDM 2019,
Algorithm 2) depends on the two labels only. Between different labels
it is a distance on a line; within a label it is the same for all pairs. So

    (M u)_i = K_g + (1 - a) u_i,    K_g = sum over labels h of exp(-C_gh / reg) S_h

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
import math
from typing import Any, NamedTuple

import tensorflow as tf

from tfr_ext import checks, masked
from tfr_ext.relaxations.exact import ranking
from tfr_ext.transport import NOTHING, Potentials, log_add, log_softmax, sinkhorn

# Distinct labels of a list up to which all their pairs are computed.
_FEW_GRADES = 8
# The cost within a label, over the regularization, up to which no item's part needs a
# logarithm: the square of its exp() is finite in float32.
_MOST_PENALTY = 40.0
# Gains above this are alike. b**31 is less for any base b up to 9.
_MAX_LOG_GAIN = 69.0
# Log of a probability that is 0 for any purpose, and finite.
_LEAST_LOG_PROBABILITY = -1e30


class RankingCost(NamedTuple):
    """The ranking cost matrix (WassRank, Algorithm 2), as a function of labels.

    It is 0 on the diagonal, `variance_penalty` between items of the same label, and
    else the difference of their gains `gain_base**label - 1`, plus `relevance_gap` if
    one label is 0.

    Attributes:
        variance_penalty: positive.
        relevance_gap: not negative.
        gain_base: above 1.
    """

    variance_penalty: float = math.e
    relevance_gap: float = 100.0
    gain_base: float = 4.0

    def positions(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns where labels are on the line whose distances are the cost."""
        log_gain = tf.minimum(labels * math.log(self.gain_base), _MAX_LOG_GAIN)
        gap = tf.constant(self.relevance_gap, labels.dtype)
        return tf.where(labels == 0, -gap, tf.math.expm1(log_gain))

    def matrix(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns the whole matrix, `[batch, list, list]`; for small lists.

        Args:
            labels: non-negative labels `[batch, list]`.

        Examples:
            >>> cost = RankingCost(variance_penalty=1., relevance_gap=10.)
            >>> cost.matrix(tf.constant([[1., 0., 0.]])).numpy()
            array([[[ 0., 13., 13.],
                    [13.,  0.,  1.],
                    [13.,  1.,  0.]]], dtype=float32)
        """
        places = self.positions(labels)
        cost = tf.abs(places[:, :, tf.newaxis] - places[:, tf.newaxis, :])
        same = labels[:, :, tf.newaxis] == labels[:, tf.newaxis, :]
        cost = tf.where(same, tf.constant(self.variance_penalty, labels.dtype), cost)
        return tf.linalg.set_diag(cost, tf.zeros_like(labels))


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
    grades, all_found = _grades(labels, mask)
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
        by_kernel,
    )


@dataclasses.dataclass(frozen=True)
class RankingTransport:
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

    regularization: float
    num_iterations: int
    variance_penalty: float
    relevance_gap: float
    gain_base: float
    score_scale: float

    def __post_init__(self) -> None:
        """Checks the arguments.

        Raises:
            ValueError: if one is out of its range.
        """
        # So that costs over the regularization, and their differences, are finite.
        ranges = {
            "regularization": (1e-6, 1e30),
            "variance_penalty": (0, 1e30),
            "gain_base": (1, 1e3),
            "score_scale": (0, 1e30),
        }
        for name, (low, high) in ranges.items():
            checked = checks.between(name, getattr(self, name), low, high)
            object.__setattr__(self, name, checked)
        gap = checks.not_negative("relevance_gap", self.relevance_gap)
        gap = gap if gap == 0 else checks.between("relevance_gap", gap, 0, 1e30)
        object.__setattr__(self, "relevance_gap", gap)
        checks.at_least("num_iterations", self.num_iterations, 1)

    def config(self) -> dict[str, Any]:
        """Returns the attributes."""
        return dataclasses.asdict(self)

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


def _grades(labels: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the distinct labels of each list, and whether these are all of them.

    Returns:
        `[batch, few]`, from the greatest, -1 where there are fewer; and a bool scalar.
    """
    left = tf.where(mask, labels, -1)
    found = []
    for _ in range(_FEW_GRADES):
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
    """See `ranking_sinkhorn`; `grades` has all labels of a list."""
    dtype = labels.dtype
    exists = grades >= 0
    is_of = labels[:, tf.newaxis, :] == grades[:, :, tf.newaxis]
    is_of &= mask[:, tf.newaxis, :] & exists[:, :, tf.newaxis]
    member = tf.cast(is_of, dtype)
    group = tf.argmax(member, axis=1, output_type=tf.int32)
    size = tf.reduce_sum(member, axis=2)

    def of_item(per_group: tf.Tensor) -> tf.Tensor:
        return tf.gather(per_group, group, batch_dims=1)

    def log_sums(scale: tf.Tensor, items: tf.Tensor) -> tf.Tensor:
        """Returns the log of the sums of `exp(scale) items` over each label."""
        sums = tf.reduce_sum(member * items[:, tf.newaxis, :], axis=2)
        return tf.where(exists, scale + tf.math.log(sums), NOTHING)

    alone = size == 1
    penalty = tf.constant(cost.variance_penalty / regularization, dtype)
    within = tf.where(alone, tf.zeros_like(size), -penalty)
    # log(1 - a); the a of an item that is alone is 1.
    log_rest = tf.where(~alone, tf.math.log(-tf.math.expm1(-penalty)), NOTHING)
    places = cost.positions(tf.maximum(grades, 0)) / regularization
    log_kernel = -tf.abs(places[:, :, tf.newaxis] - places[:, tf.newaxis, :])
    log_kernel = tf.linalg.set_diag(log_kernel, within)

    def product(sums: tf.Tensor) -> tf.Tensor:
        """Returns log K."""
        terms = log_kernel + sums[:, tf.newaxis, :]
        most = tf.reduce_max(terms, axis=2)
        terms = tf.exp(terms - most[:, :, tf.newaxis])
        return most + tf.math.log(tf.reduce_sum(terms, axis=2))

    # Of the prediction: the greatest of a label, and all relative to it.
    best = tf.reduce_max(
        tf.where(is_of, log_prediction[:, tf.newaxis, :], NOTHING), axis=2
    )
    relative = tf.exp(log_prediction - of_item(best))
    # The same for all items of a label.
    target = tf.reduce_max(
        tf.where(is_of, log_target[:, tf.newaxis, :], NOTHING), axis=2
    )

    # u = exp(u_scale) u_items, and v = exp(v_scale) v_items likewise.
    def step(
        i: tf.Tensor, u_scale: tf.Tensor, u_items: tf.Tensor, *_: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        log_k = product(log_sums(u_scale, u_items))
        v_scale = target - log_k
        v_items = 1 / (1 + of_item(tf.exp(log_rest + u_scale - log_k)) * u_items)
        log_k = product(log_sums(v_scale, v_items))
        u_scale = best - log_k
        rest = of_item(tf.exp(log_rest + v_scale - log_k)) * v_items
        return i + 1, u_scale, relative / (1 + rest), rest, v_scale, v_items

    count = masked.num_real(mask, dtype)[:, tf.newaxis]
    zeros, ones = tf.zeros_like(log_target), tf.ones_like(log_target)
    _, u_scale, _, rest, v_scale, v_items = tf.while_loop(
        lambda i, *_: i < num_iterations,
        step,
        (
            0,
            tf.zeros_like(size) - tf.math.log(count),
            ones,
            zeros,
            tf.zeros_like(size),
            zeros,
        ),
        maximum_iterations=num_iterations,
    )
    # relative may have underflown, the logarithm of the prediction has not.
    log_u = log_prediction + of_item(u_scale - best) - tf.math.log1p(rest)
    log_v = of_item(v_scale) + tf.math.log(v_items)
    return Potentials(*(tf.where(mask, x, 0) for x in (log_u, log_v)))


class RankingKernel:
    """Products with the ranking cost's kernel, for any labels, in the log domain.

    Over labels in order the sums with what is above, and with what is below, are scans;
    these are done by doubling, with differences of positions only, so that nothing is
    lost where costs are very large.
    """

    def __init__(
        self,
        labels: tf.Tensor,
        mask: tf.Tensor,
        cost: RankingCost,
        regularization: float,
    ):
        """Initialises the kernel.

        Args:
            labels: non-negative labels, `[batch, list]`.
            mask: True at real items, `[batch, list]`.
            cost: the ranking cost.
            regularization: positive.
        """
        dtype = labels.dtype
        batch, size = tf.shape(labels)[0], masked.list_size(labels)
        self._shape = [batch, size]
        self._mask = mask
        order = ranking(labels, mask)
        by_rank = tf.gather(labels, order, batch_dims=1)
        starts = tf.concat(
            [tf.zeros_like(mask[:, :1]), by_rank[:, 1:] != by_rank[:, :-1]], axis=1
        )
        number = tf.cumsum(tf.cast(starts, tf.int32), axis=1)
        rows = tf.range(batch)[:, tf.newaxis] * size
        # Of each item, in the order of the items, its group counted over the batch.
        flat = tf.scatter_nd(
            tf.reshape(order + rows, [-1, 1]),
            tf.reshape(number + rows, [-1]),
            [batch * size],
        )
        self._groups = flat
        items = tf.reshape(tf.cast(mask, dtype), [-1])
        count = self._sum(items)
        self._exists = count > 0
        places = cost.positions(labels) / regularization
        lowest = tf.reduce_min(tf.where(mask, places, labels.dtype.max), axis=1)
        self._places = tf.where(
            self._exists,
            self._max(tf.where(mask, places, NOTHING)),
            lowest[:, tf.newaxis],
        )
        penalty = tf.constant(cost.variance_penalty / regularization, dtype)
        alone = count == 1
        self._within = tf.where(alone, tf.zeros_like(count), -penalty)
        log_rest = tf.where(~alone, tf.math.log(-tf.math.expm1(-penalty)), NOTHING)
        self._log_rest = self._of_item(log_rest)

    def log_product(self, log_x: tf.Tensor) -> tf.Tensor:
        """Returns `log(M x)`.

        Args:
            log_x: log of non-negative numbers, `[batch, list]`; padding is left out.

        Returns:
            A tensor of the same shape, without meaning at padding.
        """
        log_x = tf.where(self._mask, log_x, NOTHING)
        most = self._max(log_x)
        relative = tf.exp(log_x - self._of_item(most))
        relative = tf.where(self._mask, relative, 0.0)
        sums = most + tf.math.log(self._sum(tf.reshape(relative, [-1])))
        sums = tf.where(self._exists, sums, NOTHING)
        product = log_add(self._others(sums), self._within + sums)
        return log_add(self._of_item(product), self._log_rest + log_x)

    def _others(self, sums: tf.Tensor) -> tf.Tensor:
        """Returns log sum over other groups h of exp(-|x_g - x_h|) exp(sums_h)."""
        above = _scan(sums, self._places)
        below = _scan(tf.reverse(sums, [1]), -tf.reverse(self._places, [1]))
        return log_add(above, tf.reverse(below, [1]))

    def _max(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the maximum over each group, `[batch, groups]`."""
        found = tf.math.unsorted_segment_max(
            tf.reshape(x, [-1]), self._groups, self._shape[0] * self._shape[1]
        )
        return tf.reshape(tf.maximum(found, NOTHING), self._shape)

    def _sum(self, flat: tf.Tensor) -> tf.Tensor:
        """Returns the sum over each group, `[batch, groups]`."""
        found = tf.math.unsorted_segment_sum(
            flat, self._groups, self._shape[0] * self._shape[1]
        )
        return tf.reshape(found, self._shape)

    def _of_item(self, per_group: tf.Tensor) -> tf.Tensor:
        taken = tf.gather(tf.reshape(per_group, [-1]), self._groups)
        return tf.reshape(taken, self._shape)


def _scan(sums: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Returns log sum_{h < g} exp(sums_h - (x_h - x_g)), for places x that fall."""
    size = masked.list_size(sums)
    index = tf.range(size)

    def shifted(x: tf.Tensor, by: masked.Size, fill: float) -> tf.Tensor:
        # Not a pad and a slice, whose sizes XLA would have to know.
        moved = tf.gather(x, tf.maximum(index - by, 0), axis=1)
        return tf.where(index < by, tf.constant(fill, x.dtype), moved)

    def distance(by: masked.Size) -> tf.Tensor:
        return tf.maximum(shifted(places, by, 0) - places, 0)

    def step(by: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        before = shifted(total, by, NOTHING) - distance(by)
        return 2 * by, log_add(total, before)

    _, total = tf.while_loop(
        lambda by, _: by < size, step, (tf.constant(1), sums), maximum_iterations=31
    )
    return shifted(total, 1, NOTHING) - distance(1)
