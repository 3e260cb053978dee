"""Checks whether labels fit the loss and the metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext import losses, objectives
from tfr_ext.core.settings import given
from tfr_ext.data.batches.streams import StreamedLists
from tfr_ext.data.labels import with_label_distributions
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import queries
from tfr_ext.evaluation.queries import Convention
from tfr_ext.sources.wanted_labels import AnyLists, found_highest
from tfr_ext.training.diagnosis import suspect_labels


def needs_max_label(loss: str, loss_params: dict[str, Any]) -> bool:
    """Returns whether a loss needs the highest grade, but was not given it.

    Raises:
        ValueError: If there is no such loss.
    """
    return loss_params.get("max_label") is None and _has_max_label(loss, loss_params)


def _has_max_label(loss: str, loss_params: dict[str, Any]) -> bool:
    """Returns whether a loss depends on the highest grade."""
    known = losses.parameters(loss)
    # Losses for several metrics depend on it for some of these only.
    metrics = objectives.names(lambda cls: cls.needs_max_label())
    return "max_label" in known and (
        "metric" not in known or loss_params.get("metric") in metrics
    )


def check_max_label(
    loss: str, loss_params: dict[str, Any], all_lists: Sequence[AnyLists]
) -> None:
    """Checks that no label is above the highest grade that a loss was given.

    Raises:
        ValueError: If a label is.
    """
    highest = loss_params.get("max_label")
    if highest is None or not _has_max_label(loss, loss_params):
        return
    found = found_highest(all_lists)
    if found > np.float32(highest):
        raise ValueError(
            f"`params['max_label']={highest:g}`, but there is a label {found:g}, which "
            f"{loss} would not distinguish from {highest:g}. If it is left out, it is "
            "the highest label."
        )


def warnings(
    train: AnyLists,
    names: Iterable[str],
    convention: Convention,
    loss: tf.keras.losses.Loss,
    lambda_threshold: float | None = None,
) -> list[str]:
    """Returns warnings about the training labels, a line each.

    Args:
        train: the training lists.
        names: the metrics wanted.
        convention: what they mean.
        loss: the loss.
        lambda_threshold: lowest relevant label of the lambda weight, if it has one.
    """
    config = loss.get_config()
    if config.get("grade_values") is not None:
        if isinstance(train, StreamedLists):
            return []  # It knows the labels of all items, but not their distributions.
        return _warnings_of_grades(train, config)
    found = _warnings_of_labels(train, convention, loss)
    highest = train.max_label
    if min(train.label_counts) == highest:
        return found
    thresholds = []
    binary = queries.binary_names(names)
    if binary:
        least = convention.relevance_threshold
        thresholds.append(
            (
                least,
                given("relevance_threshold", least),
                f"nothing is relevant to {', '.join(binary)}",
            )
        )
    least = config.get("relevance_threshold")
    is_used = config.get("class_balance", "batch") is not None
    of_binary = (None, *queries.binary_names(objectives.names()))
    if least is not None and is_used and config.get("metric") in of_binary:
        what = f"the relevance_threshold of the loss, {least:g}"
        effect = "the loss is 0 for every list"
        if "max_label" in config and "metric" not in config:
            what += f" of max_label={config['max_label']:g}"
            effect = "its weights do not balance relevant items and others"
            least *= config["max_label"]
        thresholds.append((least, what, effect))
    if lambda_threshold is not None:
        thresholds.append(
            (
                lambda_threshold,
                f"the relevance_threshold of the lambda weight, {lambda_threshold:g}",
                "its weights are all 0",
            )
        )
    return found + [
        f"No training label reaches {what}: the highest is {highest:g}, and {effect}."
        for least, what, effect in thresholds
        if highest < np.float32(least)
    ]


def _warnings_of_labels(
    train: AnyLists, convention: Convention, loss: tf.keras.losses.Loss
) -> list[str]:
    """Returns warnings about the labels, whatever they are used for."""
    gain, remedy = _gain_in_use(convention, loss)
    if isinstance(train, StreamedLists):
        # It does not hold all labels: each label once, and the first lists for the
        # order.
        values = np.array(sorted(train.label_counts))
        some = next(iter(train))
        found = suspect_labels.flat_label_warnings(
            values, np.array([0, len(values)]), gain=gain, remedy=remedy
        ) + suspect_labels.rank_warnings(some.labels, some.row_splits)
    else:
        found = suspect_labels.flat_label_warnings(
            train.labels, train.row_splits, gain=gain, remedy=remedy
        )
    return [f"Of the training labels: {line}" for line in found]


def _gain_in_use(convention: Convention, loss: tf.keras.losses.Loss) -> tuple[str, str]:
    """Returns the steepest gain of loss and NDCG, and how to get a linear one."""
    relaxed = isinstance(loss, losses.RankingLoss) and loss.relaxed_metric()
    objective = relaxed.objective if relaxed else None
    gain, instead = convention.gain, []
    if objective and objective.label_gain:
        if not objective.takes("gain"):
            return objective.label_gain, ""
        if objective.label_gain != "linear":
            gain = objective.label_gain
            instead.append("`params['gain']='linear'`")
    if convention.gain != "linear":
        instead.append("`gain='linear'`")
    return gain, f"give {' and '.join(instead)}" if instead else ""


def _warnings_of_grades(train: RankingLists, config: dict[str, Any]) -> list[str]:
    """Returns warnings about the labels for a loss of distributions over grades."""
    values, least = config["grade_values"], config["relevance_threshold"]
    lists = with_label_distributions(train, len(values))
    highest = float((lists.label_distributions @ np.array(values)).max())
    if highest >= np.float32(least):
        return []
    return [
        "No expected grade of the training labels reaches the relevance_threshold of "
        f"the loss, {least:g}: the highest is {highest:g}, and its weights do not "
        "balance relevant items and others."
    ]
