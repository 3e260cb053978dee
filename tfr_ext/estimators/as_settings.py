"""Converts the parameters of an estimator to settings of training."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tfr_ext.core import checks, messages
from tfr_ext.core.settings import build, places
from tfr_ext.models import layers
from tfr_ext.settings.training_config import TrainingConfig

# Parameters that are settings under another name.
_RENAMED = {
    "loss_params": "loss_param",
    "random_state": "seed",
    "validation_fraction": "valid_fraction",
}
# Parameters that are not settings.
_OWN = ("query", "settings", "categories", "texts", "embeddings", "context")
_VERBOSE = ("silent", "bar", "line")
# What the messages of training call settings, and what parameters are called.
_WORDS = {
    "`params[": "`loss_params[",
    "`params`": "`loss_params`",
    "`seed`": "`random_state`",
    "`seed=": "`random_state=",
    "`valid_fraction": "`validation_fraction",
    "`valid_path`": "`eval_set`",
}


def training_config(params: Mapping[str, Any]) -> TrainingConfig:
    """Returns the settings of training for the parameters of a `Ranker`."""
    values: dict[str, Any] = {
        _RENAMED.get(name, name): value
        for name, value in params.items()
        if name not in _OWN
    }
    values["loss_param"] = values["loss_param"] or {}
    values["seed"] = _seed(values["seed"])
    verbose = params["verbose"]
    if verbose not in ("auto", *range(len(_VERBOSE))):
        raise ValueError(f"`verbose` must be 'auto', 0, 1 or 2. Received: {verbose!r}.")
    verbose = _bar_for_a_reader() if verbose == "auto" else int(verbose)
    values["verbose"] = _VERBOSE[verbose]
    others = _other_settings(params)
    with in_words():
        return build(TrainingConfig, {**values, **others})


def _bar_for_a_reader() -> bool:
    """Returns whether somebody watches: no worker has the terminal for itself."""
    alone = threading.current_thread() is threading.main_thread()
    alone = alone and multiprocessing.parent_process() is None
    return alone and messages.takes_bars()


def _other_settings(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the parameter `settings`, after a check of its names."""
    others = {} if params["settings"] is None else params["settings"]
    if not isinstance(others, Mapping):
        raise ValueError(
            "`settings` must be a mapping, such as {'mixed_precision': 'bfloat16'}. "
            f"Received: {others!r}."
        )
    own = {**dict(zip(params, params)), **{v: k for k, v in _RENAMED.items()}}
    known = [place.key for place in places(TrainingConfig)]
    for name in others:
        if name in own:
            raise ValueError(
                f"`settings` has {name!r}, which is the parameter `{own[name]}` of "
                f"Ranker: give it there, as Ranker({own[name]}=...)."
            )
        if name not in known:
            raise ValueError(
                f"`settings` has {name!r}, which is not a setting of training"
                f"{checks.near(str(name), [*{*known, *own}])}"
            )
    return others


@contextlib.contextmanager
def in_words(words: Mapping[str, str] = _WORDS) -> Iterator[None]:
    """Replaces names in the messages of errors by those that `words` gives them."""
    try:
        yield
    except ValueError as error:
        for before, after in words.items():
            error.args = tuple(
                x.replace(before, after) if isinstance(x, str) else x
                for x in error.args
            )
        raise


def check_single_items(estimator: Any) -> None:
    """Checks that a fitted `Ranker` scores each item independently of its list."""
    if layers.declares_across_lists(estimator.model_):
        model = training_config(estimator.params_).model
        causes = {
            "model": model.model,
            "feature_transforms": model.feature_transforms,
            "settings": estimator.params_["settings"],
        }
        formatted = " or ".join(f"`{x}={value!r}`" for x, value in causes.items())
        raise ValueError(
            f"The score of an item depends on its list, by {formatted}, and so this "
            "needs whole lists: give `group` or `qid`, or name the column of the "
            "queries, `query`. (A ranker fitted with `feature_transforms=('log1p', "
            "'standard')` scores items by themselves, unless its model or settings "
            "look at lists.)"
        )


def _seed(random_state: Any) -> Any:
    """Returns a seed for a random state of scikit-learn."""
    if random_state is None:
        return int(np.random.default_rng().integers(1 << 31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(1 << 31))
    return random_state
