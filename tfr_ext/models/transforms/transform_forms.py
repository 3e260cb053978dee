"""Builds feature transforms by name, and fits their statistics."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from tfr_ext.core import checks
from tfr_ext.data.batches import batching, buckets
from tfr_ext.data.lists import RankingLists
from tfr_ext.models.transforms.feature_transform import (
    ROUNDING,
    Concatenated,
    FeatureTransform,
    parts_of,
)
from tfr_ext.models.transforms.fitted_transforms import FillMissing, Quantile, Standard
from tfr_ext.models.transforms.unfitted_transforms import (
    Clip,
    Log1p,
    QueryMinMax,
    QueryRank,
    QueryStandard,
    Raw,
)

QUANTILES = 100
"""The number of quantiles of `quantile`: each stands for a percent of the items. More
would follow the distribution more closely, but a model has to store them."""

_KNOWN = (
    *("log1p", "query_minmax", "query_standard", "query_rank", "standard"),
    *("quantile", "quantile:N", "clip:LO:HI", "raw"),
)
_WITHOUT_PARAMETERS = {
    "log1p": Log1p,
    "query_minmax": QueryMinMax,
    "query_standard": QueryStandard,
    "query_rank": QueryRank,
    "raw": Raw,
}


class FeatureTransforms:
    """Transforms of example features, applied in order.

    Examples:
        >>> preprocessor = FeatureTransforms([Log1p(), Clip(None, 1.0)])
        >>> features = {'float_features': tf.constant([[[9.], [0.]]])}
        >>> _, out = preprocessor({}, features, tf.constant([[True, True]]))
        >>> out['float_features'].numpy().ravel().tolist()
        [1.0, 0.0]
    """

    def __init__(self, layers: Sequence[tf.keras.layers.Layer]):
        """Initialises the preprocessor.

        Args:
            layers: the transforms, and other layers of `(features, mask)` such as
                `FeatureNoise`. Each model gets its own layers, built from their
                configurations.
        """
        self.layers = list(layers)

    def __call__(
        self,
        context_inputs: dict[str, tf.Tensor],
        example_inputs: dict[str, tf.Tensor],
        mask: tf.Tensor,
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Transforms each example feature, and returns context features unchanged.

        Example features are `[batch, list, features]`; the mask is True at real items.
        """
        outputs = {}
        for key, features in example_inputs.items():
            for i, layer in enumerate(self.layers, 1):
                config = {**layer.get_config(), "name": f"{key}_transform_{i}"}
                features = type(layer).from_config(config)((features, mask))
            outputs[key] = features
        return dict(context_inputs), outputs


@dataclasses.dataclass(frozen=True)
class _Training:
    """The training lists as the next transform, after those of `layers`, sees them.

    Quantiles are taken from `sample` items, or from all if it is None.
    """

    pieces: Iterable[RankingLists]
    layers: Sequence[FeatureTransform]
    sample: int | None


def check_feature_transforms(forms: Sequence[str]) -> None:
    """Checks the forms that `feature_transforms` takes, without any data.

    Raises:
        ValueError: If one is unknown or invalid; the message lists similar names.
    """
    checks.elements("forms", forms, _check_form, "names of transforms")


def _check_form(argument: str, form: str) -> None:
    """Checks one of the forms that an argument has."""
    if not isinstance(form, str):
        raise ValueError(f"`{argument}` must be strings. Received: {form!r}.")
    for part in parts_of(form):
        _parsed(part)


def feature_transforms(
    forms: Sequence[str],
    train: RankingLists | Iterable[RankingLists],
    missing: str | None = None,
) -> FeatureTransforms:
    """Builds transforms by name, using the statistics of the training lists.

    What is made from a missing feature is left out of the statistics.

    Args:
        forms: the transforms in order: 'log1p', 'query_minmax', 'query_standard',
            'query_rank', 'standard', 'quantile' or 'quantile:N' with a number of
            quantiles, 'clip:LO:HI', where LO or HI may be empty, 'raw', or several of
            them with a + between them, whose outputs then stand side by side.
        train: the training lists, whole or in pieces. Each 'standard' and 'quantile'
            iterates over them once, after the transforms before it, and `missing`
            twice, so that pieces must often be iterable more than once. Quantiles are
            those of all items of whole lists, and those of 100,000 random items of
            lists in pieces, which may not fit into memory.
        missing: what the model does with features that are NaN before all else: 'mean'
            puts the mean of the training items in their place, and 'indicator' also
            appends, for each feature that some training item lacks, a feature that is
            1 where it is missing. None if no feature is NaN.

    Raises:
        ValueError: If a form is unknown or invalid, or there are no items.

    Examples:
        >>> import numpy as np
        >>> lists = RankingLists(np.float32([[1.], [5.]]), np.float32([0, 1]),
        ...                      np.int64([0, 2]), ["q"])
        >>> transforms = feature_transforms(["clip::4", "standard"], lists)
        >>> transforms.layers[1].get_config()['mean']
        [2.5]
    """
    check_feature_transforms(forms)
    checks.choice("missing", missing, [None, "mean", "indicator"])
    whole = isinstance(train, RankingLists)
    pieces = [train] if isinstance(train, RankingLists) else train
    layers: list[FeatureTransform] = []
    sample = None if whole else SAMPLE_SIZE
    if missing is not None:
        mean, _ = moments(pieces, [], "`missing`")
        columns = []
        if missing == "indicator":
            columns = missing_features(pieces).nonzero()[0].tolist()
        layers.append(FillMissing(mean.tolist(), columns))
    for form in forms:
        training = _Training(pieces, layers, sample)
        parts = [_parsed(part)(training) for part in parts_of(form)]
        layers.append(parts[0] if len(parts) == 1 else Concatenated(parts))
    return FeatureTransforms(layers)


def _parsed(form: str) -> Callable[[_Training], FeatureTransform]:
    """Returns the function that fits a transform, after a check of its form."""
    name, *parameters = form.split(":")
    if form in _WITHOUT_PARAMETERS:
        return lambda training: _WITHOUT_PARAMETERS[form]()
    if form == "standard":
        return _standard
    if name == "quantile":
        count = _num_quantiles(form, parameters)
        return lambda training: _quantile(training, form, count)
    if name == "clip":
        layer = _clip(form, parameters)
        return lambda training: layer
    near = checks.near(name, [known.split(":")[0] for known in _KNOWN])
    if "," in form:
        several = checks.as_sequence("forms", form, _check_form)
        near = f"; give several names{several}." if several else near
    raise ValueError(
        f"Unknown feature transform {form!r}{near} "
        f"The known transforms are: {', '.join(_KNOWN)}."
    )


def _standard(training: _Training) -> Standard:
    mean, std = moments(training.pieces, training.layers, "`standard`")
    return Standard(mean.tolist(), std.tolist())


def _quantile(training: _Training, form: str, count: int) -> Quantile:
    found = quantiles(
        training.pieces, training.layers, f"`{form}`", count, training.sample
    )
    return Quantile(found.tolist())


def _num_quantiles(form: str, parameters: Sequence[str]) -> int:
    """Returns the number of quantiles that a form asks for."""
    if not parameters:
        return QUANTILES
    (text, *more) = parameters
    if more or not text.isdecimal() or not 2 <= int(text) <= 10_000:
        raise ValueError(
            f"The feature transform {form!r} must have the form quantile or "
            "quantile:N, where N is a number of quantiles from 2 to 10,000, such as "
            "quantile:1000."
        )
    return int(text)


def _clip(form: str, bounds: Sequence[str]) -> Clip:
    try:
        if len(bounds) != 2 or not any(bounds):
            raise ValueError("It needs two bounds, at least one of them a number.")
        low, high = (float(bound) if bound else None for bound in bounds)
        return Clip(low, high)
    except ValueError as error:
        raise ValueError(
            f"The feature transform {form!r} must have the form clip:LO:HI, where LO "
            f"or HI may be empty, such as clip:-3:3 or clip::10. {error}"
        ) from error


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
    float64. The error for no items says, with `name`, what the statistics are for.
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
    """Returns quantiles of each feature, float32 `[features, quantiles]`.

    They are of the features after some transforms, at `count` levels evenly spaced from
    0 to 1, or at fewer if there are fewer items. If there are more than `sample` items,
    that many are drawn at random; None takes all. What is made from a missing value,
    NaN, is left out; all quantiles of a feature that no item has are 0. The error for
    no items says, with `name`, what the statistics are for.
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


def missing_features(pieces: Iterable[RankingLists]) -> np.ndarray:
    """Returns which numbers are NaN for some item, `[features]`."""
    found = np.zeros([], bool)
    for lists in pieces:
        found = found | np.isnan(lists.features[:, : _width(lists)]).any(axis=0)
    return found


def _width(lists: RankingLists) -> int:
    """Returns how many features are no embeddings, whose numbers stay as they are."""
    return lists.num_features if lists.spec is None else lists.spec.num_numbers


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
    """Yields features after some transforms, `[items, features]`, NaN if missing."""
    empty = True
    for lists in pieces:
        order = np.argsort(lists.lengths, kind="stable")
        for chosen in buckets.cut_by_items(order, lists.lengths, _MAX_ITEMS):
            batch = batching.padded_batch(lists, chosen)[0]
            features = batch[batching.FEATURES][..., : _width(lists)]
            mask = batch[batching.MASK]
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
