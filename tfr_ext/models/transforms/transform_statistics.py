"""Statistics of the training lists for feature transforms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tfr_ext.data.batches import batching, buckets
from tfr_ext.data.lists import RankingLists
from tfr_ext.models.transforms.feature_transform import ROUNDING, FeatureTransform

# Number of items, padding included, whose statistics are computed at a time.
_MAX_ITEMS = 1 << 14
# Number of items of lists in pieces whose quantiles are taken. The standard error of
# a level is then at most 0.5 / sqrt(100,000) = 0.0016.
SAMPLE_SIZE = 100_000


def moments(
    pieces: Iterable[RankingLists], layers: Sequence[FeatureTransform], name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean and standard deviation of each feature after some transforms.

    What is made from a missing value, NaN, is left out; of a feature that no item has,
    both are 0. Batches are combined with the update of Chan, Golub and LeVeque, in
    float64.

    Args:
        pieces: the lists.
        layers: the transforms.
        name: what the statistics are for, for messages.

    Raises:
        ValueError: if there are no items.
    """
    count, mean, squares = np.zeros([]), np.zeros([]), np.zeros([])
    low, high = np.array(math.inf), np.array(-math.inf)
    for x in _transformed(pieces, layers, name):
        known = ~np.isnan(x)
        n = known.sum(axis=0)
        x = x.astype(np.float64)
        own = np.divide(x.sum(axis=0, where=known), n, where=n > 0, out=0.0 * n)
        total = np.maximum(count + n, 1)
        difference = own - mean
        squares = squares + np.square(x - own).sum(axis=0, where=known)
        squares = squares + np.square(difference) * (count * n / total)
        mean = mean + difference * (n / total)
        count = count + n
        low = np.minimum(low, x.min(axis=0, where=known, initial=math.inf))
        high = np.maximum(high, x.max(axis=0, where=known, initial=-math.inf))
    # A feature that varies only by rounding is constant; scaled up, it would be noise.
    low, high = np.where(count > 0, low, 0.0), np.where(count > 0, high, 0.0)
    varies = high - low > ROUNDING * np.maximum(np.abs(low), np.abs(high))
    return mean, np.where(varies, np.sqrt(squares / np.maximum(count, 1)), 0.0)


def quantiles(
    pieces: Iterable[RankingLists],
    layers: Sequence[FeatureTransform],
    name: str,
    count: int,
    sample: int | None,
) -> np.ndarray:
    """Returns quantiles of each feature after some transforms.

    What is made from a missing value, NaN, is left out; all quantiles of a feature that
    no item has are 0.

    Args:
        pieces: the lists.
        layers: the transforms.
        name: what the statistics are for, for messages.
        count: number of quantiles; there are fewer if there are fewer items.
        sample: number of items, drawn at random, from which they are taken if there are
            more; None for all items.

    Returns:
        float32 array `[features, quantiles]`, at levels evenly spaced from 0 to 1.

    Raises:
        ValueError: if there are no items.
    """
    # Those with the lowest keys are a sample without replacement.
    rng = np.random.default_rng(0)
    rows: list[np.ndarray] = []
    keys: list[np.ndarray] = []
    held = 0
    for x in _transformed(pieces, layers, name):
        rows.append(x)
        keys.append(rng.random(len(x)))
        held += len(x)
        if sample is not None and held > 2 * sample:
            rows, keys = _lowest(rows, keys, sample)
            held = sample
    if sample is not None and held > sample:
        rows, keys = _lowest(rows, keys, sample)
    x = np.concatenate(rows)
    levels = np.linspace(0, 100, max(2, min(count, len(x))))
    found = np.zeros([x.shape[1], len(levels)])
    for column, values in zip(found, x.T):
        known = values[~np.isnan(values)]
        if len(known):
            column[:] = np.percentile(known.astype(np.float64), levels)
    # Rounding in the interpolation may lower one by a bit.
    return np.maximum.accumulate(found, axis=1).astype(np.float32)


def missing(pieces: Iterable[RankingLists]) -> np.ndarray:
    """Returns which features are NaN for some item, `[features]`."""
    found = np.zeros([], bool)
    for lists in pieces:
        found = found | np.isnan(lists.features).any(axis=0)
    return found


def _lowest(
    rows: list[np.ndarray], keys: list[np.ndarray], count: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns the rows with the lowest keys, and these keys, each as one array."""
    together = np.concatenate(keys)
    chosen = np.sort(np.argpartition(together, count)[:count])
    return [np.concatenate(rows)[chosen]], [together[chosen]]


def _transformed(
    pieces: Iterable[RankingLists], layers: Sequence[FeatureTransform], name: str
) -> Iterator[np.ndarray]:
    """Yields features after some transforms, `[items, features]`.

    What is made from a missing value is NaN.

    Raises:
        ValueError: if there are no items.
    """
    empty = True
    for lists in pieces:
        order = np.argsort(lists.lengths, kind="stable")
        for chosen in buckets.cut_by_items(order, lists.lengths, _MAX_ITEMS):
            batch = batching.padded_batch(lists, chosen)[0]
            features, mask = batch[batching.FEATURES], batch[batching.MASK]
            missing = np.isnan(features[mask])
            for layer in layers:
                features = layer((features, mask))
                missing = layer.carried(missing)
            x = np.array(np.asarray(features)[mask])
            if len(x):
                empty = False
                x[missing] = np.nan
                yield x
    if empty:
        raise ValueError(
            f"There are no training items to compute the statistics of {name} from. "
            "(If several are computed, the training lists must be iterable more than "
            "once: a generator cannot be read twice.)"
        )
