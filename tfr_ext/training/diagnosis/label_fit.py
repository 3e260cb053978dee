"""Checks whether labels look wrong, and fit the loss and the metrics."""

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

# Above this, the gain of one label drowns those of others: a float32 has 24 bits.
_HIGHEST_GRADE = 30
# Fewer permutations, or fewer labels, can occur by chance.
_LEAST_RANKED_LISTS = 2
_LEAST_RANKED_LENGTH = 3


def label_warnings(
    labels: Any, max_label: float | None = None, gain: str = "exponential"
) -> list[str]:
    """Returns warnings about labels that look wrong, a sentence or two each.

    Args:
        labels: labels of any number type, `[batch, list]`, negative at padding.
        max_label: the highest grade, if the loss or the metric is given one.
        gain: 'exponential' or 'power' if a metric or loss has the gain
            `2**label - 1` or `2**label`, else 'linear'.

    Returns:
        The warnings, none if nothing looks wrong.

    Raises:
        ValueError: If the labels do not have this shape.

    Examples:
        >>> for line in label_warnings([[2, 1, 3], [3, 2, 1]]):
        ...     print(line)
        The labels of each list are 1 to its length: they look like ranks. The best item has the highest label: pass list length - rank.
        >>> label_warnings([[2, 1, 0], [0, 1, -1]])
        []
    """  # noqa: E501 (output)
    array = np.asarray(labels)
    if array.ndim != 2:
        raise ValueError(
            f"`labels` must have shape [batch, list]. Received: {array.shape}."
        )
    array = array.astype(np.float64)
    real = ~(array < 0)
    found = []
    odd = int(((array < 0) & (array != -1)).sum())
    if odd:
        found.append(
            f"{_count(odd, 'label is', 'labels are')} negative but not -1: any "
            "negative label is padding, and its item is left out."
        )
    hollow = int((~real.any(axis=1)).sum())
    if hollow:
        found.append(f"{_count(hollow, 'list has', 'lists have')} no item but padding.")
    splits = np.concatenate([[0], np.cumsum(real.sum(axis=1))])
    return found + flat_label_warnings(array[real], splits, max_label, gain)


def flat_label_warnings(
    labels: np.ndarray,
    row_splits: np.ndarray,
    max_label: float | None = None,
    gain: str = "exponential",
    remedy: str = "pass `gain='linear'` to the loss and to NDCG metrics",
) -> list[str]:
    """Returns warnings about the labels of real items, given list by list.

    List `i` has the labels `row_splits[i]` to `row_splits[i + 1]`. `max_label` and
    `gain` are as in `label_warnings`. `remedy` says how to get a linear gain; it is
    empty if that is not possible.
    """
    if not len(labels):
        return []
    not_finite = int((~np.isfinite(labels)).sum())
    if not_finite:
        return [
            f"{_count(not_finite, 'label is', 'labels are')} NaN or infinite, and so "
            "the loss will be too."
        ]
    lowest, highest = labels.min(), labels.max()
    if lowest == highest:
        return [f"All labels are {lowest:g}: there is nothing to learn."]
    lengths = np.diff(row_splits)
    starts = row_splits[:-1][lengths > 0]
    least, most = (f.reduceat(labels, starts) for f in (np.minimum, np.maximum))
    found = []
    if (least == most).all():
        found.append("No list has two different labels: there is no order to learn.")
    found += rank_warnings(labels, row_splits)
    if max_label is not None and highest > np.float32(max_label):
        above = int((labels > np.float32(max_label)).sum())
        found.append(
            f"{_count(above, 'label is', 'labels are')} above max_label={max_label:g}: "
            f"the highest is {highest:g}."
        )
    if gain != "linear":
        formula = "2**label - 1" if gain == "exponential" else "2**label"
        alternative = f", or {remedy}." if remedy else "."
        advice = f" If they are not grades, {remedy}." if remedy else ""
        if highest > _HIGHEST_GRADE:
            found.append(
                f"The highest label is {highest:g}: with the gain {formula}, labels "
                f"below {highest - 24:g} vanish beside it. Rescale the labels to "
                f"grades of 0 to 4 or so{alternative}"
            )
        elif highest > 1 and (labels != np.floor(labels)).any():
            some = labels[labels != np.floor(labels)][0]
            found.append(
                f"Labels such as {some:g} are not integers: the gain {formula} is "
                f"meant for grades.{advice}"
            )
    return found


def rank_warnings(labels: np.ndarray, row_splits: np.ndarray) -> list[str]:
    """Warns if the labels of each list are those from 0 or 1 up, each once."""
    lengths = np.diff(row_splits)
    if (lengths >= _LEAST_RANKED_LENGTH).sum() < _LEAST_RANKED_LISTS:
        return []
    lists = np.repeat(np.arange(len(lengths)), lengths)
    first = labels.min()
    # The sorted labels, if they are ranks.
    ranks = np.arange(len(labels)) - np.repeat(row_splits[:-1], lengths) + first
    if first not in (0, 1) or (labels[np.lexsort((labels, lists))] != ranks).any():
        return []
    what = "1 to its length" if first == 1 else "0 to its length - 1"
    return [
        f"The labels of each list are {what}: they look like ranks. The best item has "
        "the highest label: pass list length - rank."
    ]


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def needs_max_label(loss: str, loss_params: dict[str, Any]) -> bool:
    """Returns whether a loss needs the highest grade, but was not given it."""
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
    """Checks that no label is above the highest grade that a loss was given."""
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

    `names` are of the metrics wanted, which `convention` defines. `lambda_threshold` is
    the lowest relevant label of the lambda weight, if it has one.
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
        found = flat_label_warnings(
            values, np.array([0, len(values)]), gain=gain, remedy=remedy
        ) + rank_warnings(some.labels, some.row_splits)
    else:
        found = flat_label_warnings(
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
