"""Feature transforms by their names, fitted to the training lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from tfr_ext.core import checks
from tfr_ext.data.lists import RankingLists
from tfr_ext.models.transforms import transform_statistics
from tfr_ext.models.transforms.concatenated import Concatenated
from tfr_ext.models.transforms.feature_transform import FeatureTransform
from tfr_ext.models.transforms.fitted_transforms import Quantile, Standard
from tfr_ext.models.transforms.item_transforms import Clip, Log1p, Raw
from tfr_ext.models.transforms.missing_features import FillMissing
from tfr_ext.models.transforms.query_transforms import (
    QueryMinMax,
    QueryRank,
    QueryStandard,
)
from tfr_ext.models.transforms.transform_grammar import parts_of

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
        """Transforms each example feature.

        Args:
            context_inputs: features of the lists, which are returned unchanged.
            example_inputs: features of the items, `[batch, list, features]`.
            mask: True at real items, `[batch, list]`.

        Returns:
            Context and example features.
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
    """The training lists as the next transform sees them.

    Attributes:
        pieces: the lists.
        layers: the transforms before it.
        sample: number of items from which quantiles are taken; None for all.
    """

    pieces: Iterable[RankingLists]
    layers: Sequence[FeatureTransform]
    sample: int | None


def check_feature_transforms(forms: Sequence[str]) -> None:
    """Checks the forms that `feature_transforms` takes, without any data.

    Raises:
        ValueError: if one is unknown or invalid; the message lists similar names.
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
        ValueError: if a form is unknown or invalid, or there are no items.

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
    sample = None if whole else transform_statistics.SAMPLE_SIZE
    if missing is not None:
        mean, _ = transform_statistics.moments(pieces, [], "`missing`")
        columns = []
        if missing == "indicator":
            columns = transform_statistics.missing(pieces).nonzero()[0].tolist()
        layers.append(FillMissing(mean.tolist(), columns))
    for form in forms:
        training = _Training(pieces, layers, sample)
        parts = [_parsed(part)(training) for part in parts_of(form)]
        layers.append(parts[0] if len(parts) == 1 else Concatenated(parts))
    return FeatureTransforms(layers)


def _parsed(form: str) -> Callable[[_Training], FeatureTransform]:
    """Returns what fits a transform, after a check of its form."""
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
    mean, std = transform_statistics.moments(
        training.pieces, training.layers, "`standard`"
    )
    return Standard(mean.tolist(), std.tolist())


def _quantile(training: _Training, form: str, count: int) -> Quantile:
    found = transform_statistics.quantiles(
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
