"""Rebuilds the model of a run, with the weights of its best epoch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

import tensorflow as tf

from tfr_ext.core import messages
from tfr_ext.core.system import process_state
from tfr_ext.models.categories import Vocabulary, vocabularies
from tfr_ext.models.combination import combined_model
from tfr_ext.models.expected_grade import with_expected_grade
from tfr_ext.models.layers import FeatureNoise
from tfr_ext.models.ranking_model import RankingModelBuilder, model_builder
from tfr_ext.models.transforms.transform_forms import (
    FeatureTransforms,
    feature_transforms,
)
from tfr_ext.runs.run_progress import read_progress
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.sources import data_splits
from tfr_ext.training import checkpoints, heads, members, training_checks

# Added to the seed of a run for that of the noise.
_NOISE_SEED = 1 << 16


def builder(
    config: TrainingConfig,
    splits: data_splits.Splits,
    head: heads.Head,
    known: Mapping[str, Vocabulary] | None = None,
) -> RankingModelBuilder:
    """Returns the builder of the model of a run.

    Args:
        config: the settings.
        splits: the lists, whose statistics some transforms need.
        head: the output, with its values.
        known: the vocabularies, if they have been made.
    """
    train, model = splits.train, config.model
    if known is None:
        with messages.silent():  # What there is to say was said in training.
            known = vocabularies(train, model.vocabulary_size, model.min_count)
    return model_builder(
        train.num_features,
        head.scorer(training_checks.network(config, head)),
        _transforms(config, splits) if train.num_features else None,
        train.spec,
        known,
    )


def _transforms(
    config: TrainingConfig, splits: data_splits.Splits
) -> FeatureTransforms | None:
    """Returns the transforms of features that precede the scorer."""
    names, noise = list(config.model.feature_transforms), config.model.feature_noise
    missing = splits.filling(config.data)
    layers = []
    if names or missing:
        layers += feature_transforms(names, splits.train, missing).layers
    if noise:
        # Apart from the seeds of the dropout, one for each layer of the network.
        layers.append(FeatureNoise(noise, config.data.seed + _NOISE_SEED))
    return FeatureTransforms(layers) if layers else None


@process_state.as_before()
def best_model(
    config: TrainingConfig, splits: data_splits.Splits, head: heads.Head
) -> tf.keras.Model:
    """Returns a model with the weights of the best epoch, which scores `[batch, list]`.

    Args:
        config: the settings, with `model_dir`, where the checkpoints are.
        splits: the lists.
        head: the output, with its values.

    Raises:
        ValueError: If there is no checkpoint, or it cannot be read.
    """
    if config.num_models > 1:
        models = [best_model(one, splits, head) for one in members.configs(config)]
        return combined_model(models, config.ensemble)
    saved = os.path.join(config.model_dir or "", "checkpoints")
    progress = read_progress(saved)
    if progress is None:
        raise ValueError(f"{saved} has no checkpoint of the finished run.")
    with precision(config.mixed_precision):
        model = builder(config, splits, head).build()
    checkpoints.restore_best(model, saved, progress)
    if head.trained_values is not None:
        model = with_expected_grade(model, head.trained_values)
    return model


@contextlib.contextmanager
def precision(mixed_precision: str) -> Iterator[None]:
    """Makes layers that are created in this context compute in a precision.

    Args:
        mixed_precision: 'none', 'float16' or 'bfloat16'.
    """
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(
        "float32" if mixed_precision == "none" else f"mixed_{mixed_precision}"
    )
    try:
        yield
    finally:
        tf.keras.mixed_precision.set_global_policy(before)
