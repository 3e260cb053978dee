"""Per-query evaluation under a stated convention, and means over queries."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext import objectives
from tfr_ext.core import checks
from tfr_ext.data.batches import batching, buckets
from tfr_ext.data.lists import RankingLists
from tfr_ext.data.tables import row_arrays
from tfr_ext.evaluation import trec
from tfr_ext.metrics import keras_metrics
from tfr_ext.objectives import plain_name
from tfr_ext.objectives.registry import METRIC_GAINS

DEFAULT_METRICS = (
    "ndcg_1",
    "ndcg_5",
    "ndcg_10",
    "ndcg",
    "precision_1",
    "precision_5",
    "precision_10",
    "map",
    "mrr",
    "arp",
    "err_10",
)
"""The metrics that are computed where none are named."""

TIES_BY_POSITION = "by position"
"""Of equal scores, the item that comes first in its list ranks first."""
TIES_BY_NAME = "by document name"
"""Of equal scores, the item with the greater name ranks first, as in trec_eval."""


@dataclasses.dataclass(frozen=True)
class Convention:
    """The convention of metrics: gains, empty lists, relevance and ties.

    Attributes:
        gain: the gain of NDCG, 'exponential' or 'linear'.
        empty_list: what a list without a relevant item (for OPA, without items of
            different labels) counts as in a mean: 'zero', 'one', or 'skip' to leave it
            out.
        relevance_threshold: lowest label that is relevant to the binary metrics.
        max_label: the highest grade of the collection, for ERR and normalised ERR.
        ties: which of two items with the same score ranks first: 'by position' the
            earlier one, 'by document name' the one with the greater name of those that
            `document_names` returns, for lists that have names.
    """

    gain: str = "exponential"
    empty_list: str = "zero"
    relevance_threshold: float = 1.0
    max_label: float | None = None
    ties: str = TIES_BY_POSITION

    def __post_init__(self) -> None:
        """Checks what is one of a few words."""
        checks.choice("gain", self.gain, METRIC_GAINS)
        rules = list(keras_metrics.EMPTY_LIST_RULES)
        checks.choice("empty_list", self.empty_list, rules)
        checks.choice("ties", self.ties, [TIES_BY_POSITION, TIES_BY_NAME])

    def metric_arguments(self, name: str) -> dict[str, Any]:
        """Returns the arguments of a metric with a name such as 'ndcg_10'.

        Args:
            name: a metric, or a metric, an underscore or '@', and a cut-off.

        Raises:
            ValueError: If there is no such metric.

        Examples:
            >>> Convention().metric_arguments('ndcg_10')
            {'metric': 'ndcg', 'topn': 10, 'gain': 'exponential'}
        """
        metric, topn = objectives.parse(name)
        of_some = objectives.taken(
            metric,
            gain=self.gain,
            relevance_threshold=self.relevance_threshold,
            max_label=self.max_label,
        )
        return {"metric": metric, "topn": topn, **of_some}

    def as_dict(self) -> dict[str, Any]:
        """Returns the convention as `metrics.json` records it."""
        return dataclasses.asdict(self)

    def describe(self) -> str:
        """Returns the convention in words.

        Examples:
            >>> print(Convention().describe())
            Lists without a relevant item count as: zero; NDCG gain: exponential; relevant from label 1; highest label not given; ties by position.
        """  # noqa: E501 (output)
        highest = "not given" if self.max_label is None else f"{self.max_label:g}"
        return (
            f"Lists without a relevant item count as: {self.empty_list}; NDCG gain: "
            f"{self.gain}; relevant from label {self.relevance_threshold:g}; highest "
            f"label {highest}; ties {self.ties}."
        )

    def objective(self, name: str) -> objectives.Metric:
        """Returns the metric with a name such as 'ndcg_10'.

        Raises:
            ValueError: If there is no such metric, or it does not support this
                convention.
        """
        arguments = self.metric_arguments(name)
        return objectives.of_metric(arguments.pop("metric"), **arguments)

    def keras_metric(
        self,
        name: str,
        grade_values: Sequence[float] | None = None,
        label_values: Sequence[float] | None = None,
    ) -> keras_metrics.RankingMetric:
        """Returns the Keras metric of that name.

        Args:
            name: a name such as 'ndcg_10'.
            grade_values: if given, the metric takes distributions over grades with
                these values.
            label_values: the label that each of these grades stands for; 0, 1, ... by
                default.

        Raises:
            ValueError: If there is no such metric, or ties are broken by document name:
                batches have no names.
        """
        if self.ties != TIES_BY_POSITION:
            raise ValueError(
                "A Keras metric knows no documents: `ties` must be "
                f"{TIES_BY_POSITION!r}. Received: {self.ties!r}."
            )
        arguments = {
            **self.metric_arguments(name),
            "empty_list": self.empty_list,
            "name": plain_name(name),
        }
        if grade_values is not None:
            return keras_metrics.ExpectedGradeMetric(
                grade_values, label_values, **arguments
            )
        return keras_metrics.RankingMetric(**arguments)


def higher_is_better(name: str) -> bool:
    """Returns whether a metric with a name such as 'arp_10' is better when higher."""
    return not objectives.of_name(objectives.parse(name)[0]).is_cost


def need_max_label(names: Iterable[str]) -> bool:
    """Returns whether one of the metrics depends on the highest grade, as ERR does."""
    metrics = _metrics_by_name(names).values()
    return any(metric.needs_max_label() for metric in metrics)


def binary_names(names: Iterable[str]) -> list[str]:
    """Returns the names of the metrics of binary relevance.

    Examples:
        >>> binary_names(['ndcg_10', 'precision@5', 'map'])
        ['precision_5', 'map']
    """
    metrics = _metrics_by_name(names)
    return [name for name, metric in metrics.items() if metric.IS_BINARY]


def per_query(
    lists: RankingLists,
    scores: np.ndarray,
    metrics: Sequence[str] = DEFAULT_METRICS,
    convention: Convention = Convention(),  # noqa: B008 (frozen)
) -> dict[str, np.ndarray]:
    """Evaluates scores query by query.

    Args:
        lists: the judged lists.
        scores: one score per item, `[num_items]`, in the order of `lists`; minus
            infinity for an item that is not retrieved. For ARP and OPA such items rank
            after all others, the least relevant first; for other metrics they are at no
            rank.
        metrics: names such as 'ndcg_10' (or 'ndcg@10') or 'map'.
        convention: what the metrics mean.

    Returns:
        For each metric by its name with `_` before the cut-off, a float64 array
        `[num_lists]`, with NaN where the convention skips an empty list.

    Raises:
        ValueError: If there is not exactly one finite score per item, a label is above
            the `max_label` that ERR uses or so large that DCG is infinite, or ties are
            broken by document name and `lists` has no names.

    Examples:
        >>> features, labels = np.zeros([2, 1], np.float32), np.float32([0, 1])
        >>> lists = RankingLists(features, labels, np.int64([0, 2]), ["q"])
        >>> per_query(lists, np.float32([2, 1]), ["mrr"])
        {'mrr': array([0.5])}
        >>> lists = dataclasses.replace(lists, doc_ids=["a", "b"])
        >>> per_query(lists, np.float32([2, 2]), ["mrr"])
        {'mrr': array([0.5])}
        >>> per_query(lists, np.float32([2, 2]), ["mrr"], Convention(ties=TIES_BY_NAME))
        {'mrr': array([1.])}
    """
    scores = np.asarray(row_arrays.unmasked(scores))
    if scores.shape != (lists.num_items,):
        raise ValueError(
            f"`scores` must have shape ({lists.num_items},), one per item. "
            f"Received: {scores.shape}."
        )
    wrong = np.isnan(scores) | (scores == np.inf)
    if wrong.any():
        item = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"`scores` must be finite. Received: {scores[item]} for item {item}."
        )
    largest = float(lists.labels.max(initial=0))
    metrics = [*_metrics_by_name(metrics, "metrics")]
    if need_max_label(metrics) and (
        convention.max_label is not None and largest > np.float32(convention.max_label)
    ):
        raise ValueError(
            f"`max_label` must be at least the highest label, {largest:g}, for ERR. "
            f"Received: {convention.max_label:g}."
        )
    built = {name: convention.objective(name) for name in metrics}
    labels_of_items, scores = _in_order_of_ties(lists, scores, convention.ties)
    results = {name: np.empty(lists.num_lists) for name in built}
    # Lists of similar length share a batch, so that it has little padding.
    order = np.argsort(lists.lengths, kind="stable")
    for chosen in buckets.cut_by_items(order, lists.lengths, max_items=1 << 16):
        where, mask = batching.padded_positions(lists, chosen)
        labels = np.where(mask, labels_of_items[where].astype(np.float64), 0)
        padded = np.where(mask, scores[where].astype(np.float64), 0)
        for name, objective in built.items():
            values, empty = objective.per_list(
                tf.constant(labels), tf.constant(padded), tf.constant(mask)
            )
            results[name][chosen] = np.where(empty, np.nan, values)
            if np.isinf(results[name][chosen]).any():  # Others are not known yet.
                raise ValueError(
                    f"{name} is infinite: the gain of label {largest:g} is too large "
                    "for a 64-bit float. `gain='linear'` has no such limit."
                )
    return fill_empty(results, convention.empty_list)


def _in_order_of_ties(
    lists: RankingLists, scores: np.ndarray, ties: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels and scores, in the order of rank at equal scores.

    Those that are not retrieved come last, ordered by label: if they were in the order
    of the judgements, a run could gain from what it lacks.
    """
    missing = scores == -np.inf
    if ties == TIES_BY_POSITION and not missing.any():
        return lists.labels, scores
    names = np.zeros(lists.num_items, np.int64)
    if ties == TIES_BY_NAME:
        if lists.doc_ids is None:
            raise ValueError(
                f"`ties={ties!r}` needs lists with document names (`doc_ids`)."
            )
        names = np.unique(trec.document_names(lists), return_inverse=True)[1]
    query = np.repeat(np.arange(lists.num_lists), lists.lengths)
    order = np.lexsort([-names, np.where(missing, lists.labels, -1), query])
    return lists.labels[order], scores[order]


def fill_empty(
    values: Mapping[str, np.ndarray], empty_list: str
) -> dict[str, np.ndarray]:
    """Applies a rule for empty lists to per-query metrics.

    Args:
        values: per-query metrics with NaN at empty lists, as `per_query` returns them
            with the rule 'skip'.
        empty_list: the rule, see `Convention`.

    Returns:
        The metrics under that rule.

    Examples:
        >>> fill_empty({'map': np.array([0.5, np.nan])}, 'one')
        {'map': array([0.5, 1. ])}
    """
    value = {"zero": 0.0, "one": 1.0, "skip": np.nan}[empty_list]
    return {name: np.where(np.isnan(v), value, v) for name, v in values.items()}


def means(values: Mapping[str, np.ndarray]) -> dict[str, float | None]:
    """Averages per-query values over the queries that count.

    Returns:
        The mean of each metric, or None where every query is skipped.
    """
    return {
        name: float(np.nanmean(v)) if np.isfinite(v).any() else None
        for name, v in values.items()
    }


def parse_names(names: Sequence[str], argument: str = "metrics") -> list[str]:
    """Checks metric names and drops repeated ones.

    Args:
        names: names such as 'ndcg_10' or 'ndcg@10'.
        argument: the argument that has them, for errors.

    Returns:
        The names, with `_` before a cut-off.

    Raises:
        ValueError: If one is unknown, or has a cut-off that it cannot have.
    """
    plain = [*_metrics_by_name(names, argument)]
    for name in plain:
        Convention(max_label=1.0).objective(name)
    return plain


def _metrics_by_name(
    names: Iterable[str], argument: str = "names"
) -> dict[str, type[objectives.Metric]]:
    """Returns metrics by their plain names, each once."""

    def checked(argument: str, name: str) -> tuple[str, type[objectives.Metric]]:
        metric, _ = objectives.parse(name, argument)
        return plain_name(name), objectives.of_name(metric)

    several = names if isinstance(names, (str, bytes)) else [*names]
    return dict(checks.elements(argument, several, checked, "names of metrics"))
