"""Labels as the flags want them, and whether they fit the loss and the metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Union

import numpy as np
import tensorflow as tf

from tfr_ext import data, evaluation, losses, objectives
from tfr_ext.core import grades
from tfr_ext.data import text_files
from tfr_ext.evaluation import queries
from tfr_ext.training.diagnosis import suspect_labels

AnyLists = Union[data.RankingLists, data.StreamedLists]


@dataclasses.dataclass(frozen=True)
class Labels:
    """What the flags make of the labels of all splits.

    Attributes:
        weights: `--label_weights`, if it is given.
        threshold: `--binarize_labels`, if it is given.
    """

    weights: list[float] | None
    threshold: float | None

    def __call__(self, lists: data.RankingLists) -> data.RankingLists:
        """Returns lists with the labels wanted.

        Raises:
            ValueError: if the label distributions are not what the flags want.
        """
        if self.weights is not None:
            try:
                lists = data.expected_labels(lists, self.weights)
            except ValueError as error:
                given = ",".join(f"{weight:g}" for weight in self.weights)
                raise ValueError(f"--label_weights={given}: {error}") from error
        if self.threshold is not None:
            lists = data.binary_labels(lists, self.threshold)
        return lists

    def describe(self) -> str:
        """Returns in words what labels are."""
        steps = []
        if self.weights is not None:
            given = ", ".join(f"{weight:g}" for weight in self.weights)
            steps.append(
                "expected weight of the label distribution, weights "
                f"{given} rescaled to 0 to 1"
            )
        if self.threshold is not None:
            steps.append(f"1 from {self.threshold:g} up, else 0")
        return "; then ".join(steps) or "as given"

    @property
    def values(self) -> list[float] | None:
        """The label that each grade of a label distribution stands for, if told."""
        if self.weights is None or self.threshold is not None:
            return None
        return grades.rescaled(self.weights)

    def highest(self, max_label: float | None, all_lists: Sequence[AnyLists]) -> float:
        """Returns the highest grade: given, or by definition, or else found.

        Args:
            max_label: `--max_label`, if it is given.
            all_lists: the lists of all splits, with the labels wanted.

        Raises:
            ValueError: if a label is above `--max_label`.
        """
        found = _highest(all_lists)
        if max_label is not None:
            if found > np.float32(max_label):
                raise ValueError(
                    f"--max_label={max_label:g}, but there is a label {found:g}."
                )
            return max_label
        if self.weights is not None or self.threshold is not None:
            return 1.0
        return found or 1.0


AS_GIVEN = Labels(None, None)


def from_flags(flags: Any) -> Labels:
    """Returns what the flags make of labels.

    Args:
        flags: parsed flags, see `pipelines.flags.define_data_flags`.

    Raises:
        ValueError: if a flag has not the form that it must have.
    """
    weights = None
    if flags.label_weights:
        try:
            numbers = [
                text_files.parse_number(weight.strip())
                for weight in flags.label_weights
            ]
            weights = grades.check_values("weights", numbers)
        except ValueError as error:
            raise ValueError(
                "--label_weights must be finite numbers separated by commas, at least "
                "two, each above the one before. "
                f"Received: {','.join(flags.label_weights)}."
            ) from error
    threshold = flags.binarize_labels
    if threshold is not None and not 0 < threshold < float("inf"):
        raise ValueError(
            f"--binarize_labels must be positive and finite. Received: {threshold:g}."
        )
    return Labels(weights, threshold)


def needs_max_label(loss: str, loss_params: dict[str, Any]) -> bool:
    """Tells whether a loss depends on the highest grade, which nobody gave it.

    Args:
        loss: key of the loss.
        loss_params: its parameters.

    Raises:
        ValueError: if there is no such loss.
    """
    return loss_params.get("max_label") is None and _has_max_label(loss, loss_params)


def _has_max_label(loss: str, loss_params: dict[str, Any]) -> bool:
    """Tells whether a loss depends on the highest grade."""
    known = losses.parameters(loss)
    # Of the losses for several metrics, those of some alone depend on it.
    metrics = objectives.names(lambda cls: cls.needs_max_label())
    return "max_label" in known and (
        "metric" not in known or loss_params.get("metric") in metrics
    )


def check_max_label(
    loss: str, loss_params: dict[str, Any], all_lists: Sequence[AnyLists]
) -> None:
    """Checks that no label is above the highest that a loss was told.

    Args:
        loss: key of the loss.
        loss_params: its parameters.
        all_lists: the lists of all splits.

    Raises:
        ValueError: if one is.
    """
    given = loss_params.get("max_label")
    if given is None or not _has_max_label(loss, loss_params):
        return
    found = _highest(all_lists)
    if found > np.float32(given):
        raise ValueError(
            f"--loss_param=max_label={given:g}, but there is a label {found:g}, which "
            f"{loss} would not tell from {given:g}. Left out, it is the highest label."
        )


def _highest(all_lists: Sequence[AnyLists]) -> float:
    return max(lists.max_label for lists in all_lists)


def warnings(
    train: AnyLists,
    names: Iterable[str],
    convention: evaluation.Convention,
    loss: tf.keras.losses.Loss,
    lambda_threshold: float | None = None,
) -> list[str]:
    """Returns what looks wrong about the training labels, a line each.

    Args:
        train: the training lists.
        names: the metrics wanted.
        convention: what they mean.
        loss: the loss.
        lambda_threshold: least relevant label of the lambda weight, if it has one.
    """
    config = loss.get_config()
    if config.get("grade_values") is not None:
        if isinstance(train, data.StreamedLists):
            return []  # It has the labels of all items, not their distributions.
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
                f"--relevance_threshold={least:g}",
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
    train: AnyLists, convention: evaluation.Convention, loss: tf.keras.losses.Loss
) -> list[str]:
    """Returns what looks wrong about the labels whatever they are used for."""
    gain, remedy = _gain_in_use(convention, loss)
    if isinstance(train, data.StreamedLists):
        # Not all of them at once: each label once, and the first lists for the order.
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


def _gain_in_use(
    convention: evaluation.Convention, loss: tf.keras.losses.Loss
) -> tuple[str, str]:
    """Returns the steepest gain of the loss and of NDCG, and flags for a linear one."""
    relaxed = isinstance(loss, losses.RankingLoss) and loss.relaxed_metric()
    objective = relaxed.objective if relaxed else None
    gain, instead = convention.gain, []
    if objective and objective.label_gain:
        if not objective.takes("gain"):
            return objective.label_gain, ""
        if objective.label_gain != "linear":
            gain = objective.label_gain
            instead.append("--loss_param=gain=linear")
    if convention.gain != "linear":
        instead.append("--gain=linear")
    return gain, f"give {' and '.join(instead)}" if instead else ""


def _warnings_of_grades(train: data.RankingLists, config: dict[str, Any]) -> list[str]:
    """Does the same for a loss of distributions over grades."""
    values, least = config["grade_values"], config["relevance_threshold"]
    lists = data.with_label_distributions(train, len(values))
    highest = float((lists.label_distributions @ np.array(values)).max())
    if highest >= np.float32(least):
        return []
    return [
        "No expected grade of the training labels reaches the relevance_threshold of "
        f"the loss, {least:g}: the highest is {highest:g}, and its weights do not "
        "balance relevant items and others."
    ]
