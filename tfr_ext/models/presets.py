"""Scorers by name, each with its defaults and those of its training."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tfr_ext.core.settings import given
from tfr_ext.models.attention_scorers import (
    DASALCScorer,
    KLTransformerScorer,
    TransformerScorer,
)
from tfr_ext.models.network import MLPScorer
from tfr_ext.models.scorers import Scorer

# From so many training queries on, 'auto' takes larger batches and fewer epochs.
MANY_QUERIES = 800
_TRAINING = ("batch_size", "num_epochs", "early_stopping_patience")
_ALWAYS, _FEW, _MANY = (128, 50, 0), (32, 100, 20), (128, 30, 10)


@dataclasses.dataclass(frozen=True)
class Preset:
    """A scorer with defaults.

    Attributes:
        defaults: the value of each option that the preset decides. An option of other
            presets that is missing here has no effect with this one.
        fixed: names of the options that keep their default.
        by_size: whether the training goes by the number of queries, see `training`.
    """

    about: str
    scorer: Callable[..., Scorer]
    defaults: Mapping[str, Any]
    fixed: tuple[str, ...] = ()
    by_size: bool = False


def _preset(
    about: str,
    scorer: Callable[..., Scorer],
    fixed: tuple[str, ...] = (),
    by_size: bool = False,
    **own: Any,
) -> Preset:
    every = {
        "feature_transforms": (),
        "dropout": 0.0,
        "batch_normalization": True,
        "output_activation": "linear",
        "l2_regularization": 0.0,
    }
    return Preset(about, scorer, {**every, **own}, fixed, by_size)


PRESETS = {
    "auto": _preset(
        "a fully connected network for features of any scale, trained by the number "
        "of queries",
        MLPScorer,
        by_size=True,
        feature_transforms=("log1p", "standard+query_standard+query_rank"),
        hidden_sizes=(256, 128),
        dropout=0.2,
    ),
    "mlp": _preset("a fully connected network", MLPScorer, hidden_sizes=(1024,)),
    "linear": _preset(
        "one linear layer", MLPScorer, ("hidden_sizes",), hidden_sizes=()
    ),
    "dnn": _preset(
        "the fully connected network of the PiRank paper",
        MLPScorer,
        hidden_sizes=(1024, 512, 256),
        dropout=0.3,
    ),
    "wassrank": _preset(
        "the sigmoid layer of the WassRank paper",
        MLPScorer,
        hidden_sizes=(),
        batch_normalization=False,
        dropout=0.01,
        output_activation="sigmoid",
        l2_regularization=1e-3,
    ),
    "kl_transformer": _preset(
        "the self-attention network of the KL paper",
        KLTransformerScorer,
        hidden_sizes=(32,),
        num_heads=2,
        feed_forward_factor=3,
        batch_normalization=False,
    ),
    "dasalc": _preset(
        "self-attention that is crossed with a fully connected network",
        DASALCScorer,
        hidden_sizes=(512, 512),
        num_layers=4,
        num_heads=2,
        attention_size=100,
        dropout=0.4,
    ),
    "transformer": _preset(
        "a context-aware ranker, the encoder of a transformer",
        TransformerScorer,
        hidden_sizes=(128,),
        num_layers=2,
        num_heads=4,
        feed_forward_factor=4,
        dropout=0.1,
    ),
}
"""The scorers by name."""

OPTIONS = tuple(sorted({name for p in PRESETS.values() for name in p.defaults}))
"""Names of the options that presets decide."""


def completed(model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of a preset, completed by its defaults.

    `options` has a value for each of `OPTIONS`: None for those that are not given.

    Examples:
        >>> given = {**dict.fromkeys(OPTIONS), "hidden_sizes": (64,)}
        >>> found = completed("dnn", given)
        >>> found["hidden_sizes"], found["dropout"], found["num_heads"]
        ((64,), 0.3, None)
    """
    preset = PRESETS[model]
    found = {}
    for name, value in options.items():
        default = preset.defaults.get(name)
        if value is None:
            value = default
        elif value != default and (default is None or name in preset.fixed):
            others = [
                repr(other)
                for other, p in PRESETS.items()
                if name in p.defaults and name not in p.fixed
            ]
            raise ValueError(
                f"{given(name, value)} has no effect with {given('model', model)}: it "
                f"is for {', '.join(others)}. Leave it out."
            )
        found[name] = value
    return found


def scorer(model: str, options: Mapping[str, Any], **others: Any) -> Scorer:
    """Returns a new scorer of a preset, with `options` as `completed` takes them.

    Examples:
        >>> found = scorer("linear", dict.fromkeys(OPTIONS), seed=1)
        >>> type(found).__name__
        'MLPScorer'
    """
    values = completed(model, options)
    del values["feature_transforms"]  # They come before the scorer.
    known = {name: value for name, value in values.items() if value is not None}
    return PRESETS[model].scorer(**known, **others)


def training(model: str, num_queries: int | None) -> dict[str, int | None]:
    """Returns the size of batches, the number of epochs and the patience of a preset.

    Args:
        model: name of the preset.
        num_queries: number of training queries, held-out ones left out; None if it is
            not known, with which all is None where it goes by this number.

    Examples:
        >>> training("mlp", None)
        {'batch_size': 128, 'num_epochs': 50, 'early_stopping_patience': 0}
        >>> training("auto", 100)["batch_size"], training("auto", None)["batch_size"]
        (32, None)
    """
    values: tuple[int | None, ...] = _ALWAYS
    if PRESETS[model].by_size:
        values = (None,) * len(_TRAINING)
        if num_queries is not None:
            values = _FEW if num_queries < MANY_QUERIES else _MANY
    return dict(zip(_TRAINING, values))
