"""ListAP: quantised average precision (Revaud et al., ICCV 2019)."""

from __future__ import annotations

from functools import partial

import tensorflow as tf

from tfr_ext.core import checks
from tfr_ext.core.arguments import Argument, Sharpness
from tfr_ext.losses import base
from tfr_ext.losses.relaxed import RelaxedMetric
from tfr_ext.objectives import precision


@base.register
class ListAPLoss(base.ListwiseLoss):
    r"""One minus average precision over bins of scores.

    The scores of a list are scaled to `[0, 1]`, the best to 1 and the worst to 0. With
    `M` bin centres from 1 down to 0, spaced `Delta` apart, the share of an item in bin
    `m` is

    $$
    \delta_m(x_j) = \max\Big(1 - \frac{|x_j - b_m|}{\Delta}, 0\Big), \qquad
    b_m = 1 - (m - 1) \Delta
    $$

    The shares sum to 1 over the two nearest bins. With relevance `r_j` in {0, 1},

    $$
    \mathcal{L} = 1 - \frac{1}{\sum_j r_j} \sum_{m=1}^{M}
    \frac{\sum_{l \le m} \sum_j \delta_l(x_j) r_j}{\sum_{l \le m} \sum_j \delta_l(x_j)}
    \sum_j \delta_m(x_j) r_j
    $$

    This is the exact metric if each score falls on a bin centre, and no two on the same
    one. A list without a relevant item contributes 0 and no gradient; a list whose
    scores are all equal has no gradient.

    Standalone usage:

    >>> y_true = [[1., 0., 0.]]
    >>> y_pred = [[0.6, 0.8, 0.2]]
    >>> loss = ListAPLoss()
    >>> round(float(loss(y_true, y_pred)), 4)
    0.5667

    >>> # Using ragged tensors
    >>> y_true = tf.ragged.constant([[1., 0.], [0., 1., 0.]])
    >>> y_pred = tf.ragged.constant([[0.6, 0.8], [0.5, 0.8, 0.4]])
    >>> loss = ListAPLoss(ragged=True)
    >>> round(float(loss(y_true, y_pred)), 4)
    0.25

    Usage with the `compile()` API:

    ```python
    model.compile(optimizer='adam', loss=tfr_ext.losses.ListAPLoss())
    ```

    Reference:
        Revaud, Almazan, Rezende and de Souza, "Learning with Average Precision:
        Training Image Retrieval with a Listwise Loss", ICCV 2019: Eqs. 3 to 8. Their
        scores are cosines, in [-1, 1] already.
    """

    KEY = "list_ap_loss"
    SHARPNESS = Sharpness("num_bins", "higher")
    ARGUMENTS = {
        "num_bins": Argument(partial(checks.at_least, least=2)),
        "relevance_threshold": Argument(checks.positive),
    }

    def __init__(
        self,
        reduction: str = "auto",
        name: str | None = None,
        ragged: bool = False,
        num_bins: int = 20,
        relevance_threshold: float = 1.0,
    ):
        """Initialises the loss.

        Args:
            reduction: 'auto' (the mean), 'sum', 'none' or another Keras reduction.
            name: name of the loss.
            ragged: whether labels and scores may be ragged tensors.
            num_bins: number of bin centres, at least 2. With more bins, fewer items
                share a bin, and a change of one score compares it with fewer items.
            relevance_threshold: lowest label of a relevant item.

        Raises:
            ValueError: If an argument is out of range.
        """
        super().__init__(reduction, name, ragged)
        self._declare(num_bins=num_bins, relevance_threshold=relevance_threshold)
        self._num_bins = self._arguments["num_bins"]
        self._objective = precision.MAP(relevance_threshold=relevance_threshold)

    def relaxed_metric(self) -> RelaxedMetric:
        """Returns average precision, which the loss relaxes."""
        return RelaxedMetric(self._objective, self.call, self.SHARPNESS)

    def compute(
        self, labels: tf.Tensor, scores: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Computes the unweighted loss of each list, `[batch, 1]`."""
        relevant = self._objective.item_values(labels)
        real = tf.cast(mask, scores.dtype)
        found, items = self._in_bins(_from_best(scores, mask), relevant, real)
        precision = tf.math.divide_no_nan(
            tf.cumsum(found, axis=1), tf.cumsum(items, axis=1)
        )
        average = tf.math.divide_no_nan(
            tf.reduce_sum(precision * found, axis=1), tf.reduce_sum(relevant, axis=1)
        )
        is_empty = self._objective.is_empty(labels)
        return tf.where(is_empty, tf.zeros_like(average), 1 - average)[:, tf.newaxis]

    def _in_bins(
        self, from_best: tf.Tensor, relevant: tf.Tensor, real: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the masses `[batch, bins]` of relevant and of all items per bin."""
        batch, last = tf.shape(from_best)[0], self._num_bins - 1
        place = from_best * last
        lower = tf.minimum(tf.floor(tf.stop_gradient(place)), last - 1)
        share = place - lower
        first = tf.range(batch)[:, tf.newaxis] * self._num_bins
        # A NaN may go to any bin, as its share is NaN too.
        known = tf.where(tf.math.is_nan(lower), tf.zeros_like(lower), lower)
        bins = first + tf.cast(known, tf.int32)
        shares = tf.stack([1 - share, share], axis=2)
        of_both = tf.stack([relevant, real], axis=2)
        # [batch, list, lower or upper bin, relevant or all]
        parts = shares[..., tf.newaxis] * of_both[:, :, tf.newaxis, :]
        sums = tf.math.unsorted_segment_sum(
            tf.reshape(parts, [-1, 2]),
            tf.reshape(tf.stack([bins, bins + 1], axis=2), [-1]),
            batch * self._num_bins,
        )
        sums = tf.reshape(sums, [batch, self._num_bins, 2])
        return sums[:, :, 0], sums[:, :, 1]


def _from_best(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns 0 for the best of each list to 1 for the worst, and 0 at padding.

    The gradient passes through the best and the worst score too. If all scores are
    equal, the result is 0 for all.
    """
    # Halved, so that the difference of any two floats is a finite float.
    scores /= 2
    best = tf.reduce_max(
        tf.where(mask, scores, scores.dtype.min), axis=1, keepdims=True
    )
    worst = tf.reduce_min(
        tf.where(mask, scores, scores.dtype.max), axis=1, keepdims=True
    )
    spread = best - worst
    # The gradients of smaller ranges would overflow. NaN stays visible.
    usable = (spread >= _LEAST_SPREAD) | tf.math.is_nan(spread)
    spread = tf.where(usable, spread, 1)
    return tf.where(mask & usable, (best - scores) / spread, 0)


_LEAST_SPREAD = 1e-30
