"""Checks of the settings of training, before anything is trained."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfr_ext import losses
from tfr_ext.core.settings import given, places
from tfr_ext.data.labels import BinomialLabels
from tfr_ext.evaluation.queries import Convention, parse_names
from tfr_ext.models import presets
from tfr_ext.models.scorers import Scorer
from tfr_ext.models.transforms.transform_forms import check_feature_transforms
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.sources import data_splits, wanted_labels
from tfr_ext.training import heads, schedules, user_callbacks
from tfr_ext.training.diagnosis import label_fit


@dataclasses.dataclass(frozen=True)
class Checked:
    """The settings, checked before any data is read."""

    loss_params: dict[str, Any]
    head: heads.Head
    names: list[str]
    convention: Convention
    labels: wanted_labels.Labels
    callbacks: Sequence[Callable[[], tf.keras.callbacks.Callback]]


def check(config: TrainingConfig) -> Checked:
    """Checks the settings that need no data."""
    head = heads.from_config(config)
    check_loss(config, head)
    names = parse_names(config.evaluation.metrics)
    convention = config.evaluation.convention()
    for name in [*names, *parse_names([config.monitor], "monitor")]:
        convention.objective(name)
    _check_transforms(config)
    _check_network(config, head)
    return Checked(
        config.loss.arguments(),
        head,
        names,
        convention,
        wanted_labels.from_config(config.data),
        [user_callbacks.find(name) for name in config.callbacks],
    )


def check_loss(config: TrainingConfig, head: heads.Head, trace: bool = True) -> None:
    """Builds the loss and, with `trace`, its graph, to find wrong parameters early."""
    key, forms = config.loss.loss, config.loss.schedules
    epochs = config.sized(0).num_epochs
    try:
        params = head.loss_params(key, config.loss.arguments())
        if label_fit.needs_max_label(key, params):
            params = {**params, "max_label": 1.0}  # The data gives it later.
        params = schedules.loss_parameters(key, params, forms, 1, epochs)
        loss = losses.get(key, **params)
        head.check_loss(key, loss)
        if forms:
            try:
                loss.set_step(epochs)
            except ValueError as error:
                raise ValueError(
                    f"{error} (Steps are counted in epochs here.)"
                ) from error
        if trace:
            # Only traced, not run: a random loss would draw its first numbers.
            tf.function(loss).get_concrete_function(*head.example())
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        formatted = [given("loss", key)]
        if config.loss.lambda_weight:
            formatted.append(given("lambda_weight", config.loss.lambda_weight))
        for name in ("lambda_weight_params", "params", "schedules"):
            values = getattr(config.loss, name)
            formatted += [given(f"{name}[{n!r}]", v) for n, v in values.items()]
        raise ValueError(
            f"{' '.join(formatted)}: {_of_loss(str(error), config)}"
        ) from error


def _of_loss(text: str, config: TrainingConfig) -> str:
    """Returns a message of a loss in which its parameters are named as such."""
    names = {place.name for place in places(TrainingConfig)} - {"head"}

    def formatted(match: re.Match[str]) -> str:
        name = match[1]
        if name not in names:
            return match[0]
        of_weight = name in config.loss.lambda_weight_params
        return f"`{'lambda_weight_params' if of_weight else 'params'}['{name}']`"

    return re.sub(r"`(\w+)`", formatted, text)


def network(config: TrainingConfig, head: heads.Head) -> Scorer:
    """Returns the network that the settings describe."""
    model = config.model
    return presets.scorer(
        model.model,
        model.options(),
        batch_norm_momentum=model.batch_norm_momentum,
        seed=config.data.seed,
        compact=not config.jit_compile,
        num_grades=head.num_grades,
        activation=model.activation,
        batch_norm_epsilon=model.batch_norm_epsilon,
        initializer=model.initializer,
    )


def label_sampling(
    config: TrainingConfig, max_label: float | None
) -> BinomialLabels | None:
    """Returns the sampler of the training labels, if the settings want one."""
    if config.label_sampling == "none":
        return None
    assert max_label is not None
    return BinomialLabels(
        num_trials=config.num_label_trials,
        max_label=max_label,
        seed=config.data.seed,
        per_epoch=config.label_sampling == "epoch",
    )


def check_data(config: TrainingConfig) -> None:
    """Reads the data as training does, and checks that it fits the settings."""
    with contextlib.redirect_stdout(io.StringIO()):
        splits = data_splits.load(config.data)
        checked = check(config)
        everything = [splits.train, splits.valid, splits.test]
        max_label = config.evaluation.max_label
        checked.labels.highest(max_label, everything)
        head = checked.head.with_values(splits.train, max_label)
        params = head.loss_params(config.loss.loss, checked.loss_params)
        label_fit.check_max_label(config.loss.loss, params, everything)


def _check_network(config: TrainingConfig, head: heads.Head) -> None:
    """Checks the settings of the network and its optimizer."""
    network(config, head)
    try:
        tf.keras.optimizers.get(config.optimizer)
    except ValueError as error:
        reason = str(error).partition("Please ensure")[0]
        raise ValueError(f"{given('optimizer', config.optimizer)}: {reason}") from error
    schedules.learning_rate(
        config.learning_rate_schedule,
        config.learning_rate,
        1,
        config.sized(0).num_epochs,
    )


def _check_transforms(config: TrainingConfig) -> None:
    """Checks the feature transforms, before any data is read."""
    transforms = config.model.feature_transforms
    try:
        check_feature_transforms(list(transforms))
    except ValueError as error:
        raise ValueError(
            f"{given('feature_transforms', transforms)}: {error}"
        ) from error
