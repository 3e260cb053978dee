"""What the flags of training say, checked before anything is trained."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from typing import Any

import tensorflow as tf

import tfr_ext
from pipelines.flags import flag_types, shared_flags, training_flags
from tfr_ext import evaluation, models
from tfr_ext.training import heads, schedules
from tfr_ext.training.sources import data_splits, wanted_labels

FLAGS = shared_flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Checked:
    """What the flags say before any data is read."""

    loss_params: dict[str, Any]
    loss_schedules: dict[str, str]
    head: heads.Head
    names: list[str]
    convention: evaluation.Convention
    labels: wanted_labels.Labels


def check_flags() -> Checked:
    """Reads and checks the flags that need no data.

    Raises:
        ValueError: if one is wrong, or they do not fit each other.
    """
    loss_params = training_flags.loss_parameters()
    loss_schedules = shared_flags.parse_schedules(FLAGS.loss_schedule, "loss_schedule")
    head = heads.from_flags(FLAGS, loss_params)
    check_loss(loss_params, loss_schedules, head)
    if 0 < FLAGS.max_padding < 1:
        raise ValueError(
            f"--max_padding must be 0 or at least 1. Received: {FLAGS.max_padding:g}."
        )
    names = evaluation.parse_names(FLAGS.metrics)
    convention = shared_flags.convention()
    for name in [*names, FLAGS.monitor]:
        convention.objective(name)
    check_feature_transforms()
    check_network(head)
    return Checked(
        loss_params,
        loss_schedules,
        head,
        names,
        convention,
        wanted_labels.from_flags(FLAGS),
    )


def check_loss(
    loss_params: dict[str, Any], loss_schedules: dict[str, str], head: heads.Head
) -> None:
    """Builds the loss and its graph, to find wrong parameters at once.

    Raises:
        ValueError: if either fails.
    """
    try:
        params = head.loss_params(FLAGS.loss, loss_params)
        if wanted_labels.needs_max_label(FLAGS.loss, params):
            params = {**params, "max_label": 1.0}  # The data will tell.
        params = schedules.loss_parameters(
            FLAGS.loss, params, loss_schedules, 1, FLAGS.num_epochs
        )
        loss = tfr_ext.losses.get(FLAGS.loss, **params)
        head.check_loss(FLAGS.loss, loss)
        if loss_schedules:
            try:
                loss.set_step(FLAGS.num_epochs)
            except ValueError as error:
                raise ValueError(f"{error} (A step is an epoch here.)") from error
        # Nothing runs: a random loss would draw its first numbers.
        tf.function(loss).get_concrete_function(*head.example())
    except (AttributeError, TypeError, ValueError) as error:
        given, hints = [f"--loss={FLAGS.loss}"], ""
        if FLAGS.lambda_weight:
            given.append(f"--lambda_weight={FLAGS.lambda_weight}")
            hints += "\n(--lambda_weight= drops it and its parameters.)"
        for name in ("lambda_weight_param", "loss_param", "loss_schedule"):
            values = getattr(FLAGS, name)
            given += [f"--{name}={value}" for value in values]
            hints += f"\n(--{name}= drops those before it.)" if values else ""
        raise ValueError(f"{' '.join(given)}: {error}{hints}") from error


def network(head: heads.Head) -> models.MLPScorer:
    """Returns the network that the flags describe.

    Args:
        head: what it ends in.
    """
    return models.MLPScorer(
        hidden_sizes=shared_flags.parse_integers(
            FLAGS.hidden_sizes, "hidden_sizes", 1, flag_types.HIGHEST_COUNT
        ),
        batch_normalization=FLAGS.batch_normalization,
        batch_norm_momentum=FLAGS.batch_norm_momentum,
        dropout=FLAGS.dropout,
        seed=FLAGS.seed,
        compact=not FLAGS.jit_compile,
        num_grades=head.num_grades,
        activation=FLAGS.activation,
        output_activation=FLAGS.output_activation,
        l2_regularization=FLAGS.l2_regularization,
        batch_norm_epsilon=FLAGS.batch_norm_epsilon,
        initializer=FLAGS.initializer,
    )


def check_network(head: heads.Head) -> None:
    """Checks the flags of the network and its optimizer.

    Raises:
        ValueError: if one is wrong.
    """
    network(head)
    try:
        tf.keras.optimizers.get(FLAGS.optimizer)
    except ValueError as error:
        reason = str(error).partition("Please ensure")[0]
        raise ValueError(f"--optimizer={FLAGS.optimizer}: {reason}") from error
    schedules.learning_rate(
        FLAGS.learning_rate_schedule, FLAGS.learning_rate, 1, FLAGS.num_epochs
    )


def check_data() -> None:
    """Reads the data as training does, and checks that it fits the flags.

    Raises:
        ValueError: if it does not, or has errors.
        OSError: if it cannot be read.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        splits = data_splits.load(FLAGS)
        checked = check_flags()
        everything = [splits.train, splits.valid, splits.test]
        checked.labels.highest(FLAGS.max_label, everything)
        head = checked.head.with_values(splits.train, FLAGS.max_label)
        params = head.loss_params(FLAGS.loss, checked.loss_params)
        wanted_labels.check_max_label(FLAGS.loss, params, everything)


def check_feature_transforms() -> None:
    """Checks --feature_transforms, before any data is read.

    Raises:
        ValueError: if one is unknown or wrong.
    """
    try:
        models.check_feature_transforms(FLAGS.feature_transforms)
    except ValueError as error:
        given = ",".join(FLAGS.feature_transforms)
        raise ValueError(f"--feature_transforms={given}: {error}") from error
