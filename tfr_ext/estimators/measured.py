"""How good a fitted ranker is, and by which features."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfr_ext.core import checks
from tfr_ext.core.settings import build
from tfr_ext.data.features import Feature
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import queries
from tfr_ext.models import categories
from tfr_ext.scoring.evaluator import EvaluationResult, evaluate_scores
from tfr_ext.settings.training_config import MetricsConfig


@dataclasses.dataclass(frozen=True)
class Importances:
    """How much worse a ranker is when the values of a feature are permuted.

    Printed, it is a table, the most important feature first.

    Attributes:
        monitor: the metric.
        score: what `Ranker.score` returns, with the features as they are; negative if
            the metric is a cost.
        feature_names: the names of the features, numbers and then categories; '1', '2'
            and so on if there are none.
        drops: how much worse it is for each feature and repeat,
            `[num_features, repeats]`, positive if the feature helps.
        between_lists: for each feature, whether it never changes within a list, so that
            its values were permuted between the lists, `[num_features]`.
    """

    monitor: str
    score: float
    feature_names: Sequence[str]
    drops: np.ndarray
    between_lists: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Means of `drops` over the repeats, `[num_features]`."""
        return self.drops.mean(axis=1)

    @property
    def std(self) -> np.ndarray:
        """Standard deviations of `drops` over the repeats, `[num_features]`."""
        return self.drops.std(axis=1)

    def order(self) -> np.ndarray:
        """Returns the numbers of the features, the most important first."""
        return np.argsort(-self.mean, kind="stable")

    def __str__(self) -> str:
        """Returns the table."""
        width = max(map(len, self.feature_names), default=0)
        lines = [f"Drop of {self.monitor}, {self.score:.4f}, in {self._about()}:"]
        for number in self.order():
            between = "  (between lists)" * bool(self.between_lists[number])
            lines.append(
                f"{self.feature_names[number]:<{width}}  {self.mean[number]:+.4f} "
                f"+- {self.std[number]:.4f}{between}"
            )
        return "\n".join(lines)

    def plot(self, ax: Any = None, most: int = 20) -> Any:
        """Draws means and standard deviations as bars, the most important on top.

        Args:
            ax: axes of matplotlib to draw on; new ones by default.
            most: how many features are drawn.

        Returns:
            The axes.

        Raises:
            ValueError: If `most` is below 1.
        """
        checks.at_least("most", most, 1)
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(layout="constrained")[1]
        shown = self.order()[:most][::-1]
        names = [self.feature_names[number] for number in shown]
        places = np.arange(len(shown))
        ax.barh(places, self.mean[shown], xerr=self.std[shown])
        ax.set_yticks(places, names)
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_xlabel(f"Drop of {self.monitor} ({self._about()})")
        return ax

    def _about(self) -> str:
        repeats = self.drops.shape[1]
        return f"{repeats} permutation{'s' * (repeats > 1)} of each feature"


class Measured:
    """The methods of `Ranker` that measure it on judged items."""

    _lists: Any
    _params: Any
    _scores: Any
    max_label: float | None
    max_label_: float
    metrics: Sequence[str]
    monitor: str
    params_: Mapping[str, Any]

    def score(self, X: Any, y: Any, *, group: Any = None, qid: Any = None) -> float:
        """Returns the mean of `monitor` over the queries; the higher, the better.

        Args:
            X: features as `fit` takes them.
            y: labels `[num_items]`, `>= 0`.
            group: number of rows of each query.
            qid: the query of each row.

        Returns:
            The mean, with a minus sign if the metric is a cost, such as ARP.
        """
        lists = self._judged(X, y, group, qid)
        return self._monitored(lists, self._scores(lists))

    def evaluate(
        self, X: Any, y: Any, *, group: Any = None, qid: Any = None
    ) -> EvaluationResult:
        """Evaluates the ranker by `metrics`.

        Args:
            X: features as `fit` takes them.
            y: labels `[num_items]`, `>= 0`.
            group: number of rows of each query.
            qid: the query of each row.

        Returns:
            The means and each query's values. Printed, it is a table with the
            convention.
        """
        lists = self._judged(X, y, group, qid)
        return self._evaluation(lists, self._scores(lists), self.metrics)

    def importances(
        self,
        X: Any,
        y: Any,
        *,
        group: Any = None,
        qid: Any = None,
        repeats: int = 5,
    ) -> Importances:
        """Returns how much worse `score` is when a feature's values are permuted.

        The values of a feature are permuted within each list, as only differences
        within a list can change a ranking; those of a feature that never changes
        within a list, such as the length of the query, between the lists. A category
        is one feature, with all values of an item, and so is an embedding. Two features
        that say the same share what they bring: either may seem to bring nothing.

        Args:
            X: features as `fit` takes them, better not those of `fit`.
            y: labels `[num_items]`, `>= 0`.
            group: number of rows of each query.
            qid: the query of each row.
            repeats: how often each feature is permuted.

        Returns:
            The drops of `monitor`, which can be printed and plotted. The permutations
            are the same for the same `random_state`.

        Raises:
            ValueError: If `repeats` is below 1, or no query has anything to measure.

        Examples:
            >>> import tfr_ext
            >>> rng = np.random.default_rng(0)
            >>> X, group = rng.normal(size=[200, 3]), [10] * 20
            >>> y = (X[:, 1] > 1).astype(int)
            >>> ranker = tfr_ext.Ranker(hidden_sizes=(8,), num_epochs=5, batch_size=1)
            >>> found = ranker.fit(X, y, group=group).importances(X, y, group=group)
            >>> found.drops.shape, int(found.order()[0])
            ((3, 5), 1)
        """
        checks.at_least("repeats", repeats, 1)
        lists = self._judged(X, y, group, qid)
        score = self._monitored(lists, self._scores(lists))
        if np.isnan(score):
            raise ValueError(
                f"No query of `X` has anything that {self.monitor} measures."
            )
        rng = np.random.default_rng(self.params_["random_state"])
        parts, permuted = [*_parts(lists)], copy.deepcopy(lists)
        between = [x.context or _never_changes(lists, values) for x, values in parts]
        drops = np.zeros([len(parts), repeats])
        for number, (feature, place) in enumerate(_parts(permuted)):
            values = parts[number][1]
            for repeat in range(repeats):
                if feature.context:
                    order = rng.permutation(lists.num_lists)
                else:
                    order = _order(lists, between[number], rng)
                place[:] = values[order]
                worse = self._monitored(lists, self._scores(permuted))
                drops[number, repeat] = score - worse
            place[:] = values
        names = [feature.name for feature, _ in parts]
        return Importances(self.monitor, score, names, drops, np.array(between))

    def _judged(self, X: Any, y: Any, group: Any, qid: Any) -> RankingLists:
        if y is None:
            raise ValueError("`y` must be given: there is nothing to measure by.")
        return self._lists(X, y, group, qid)

    def _monitored(self, lists: RankingLists, scores: np.ndarray) -> float:
        """Returns the mean of `monitor`; the higher, the better."""
        found = self._evaluation(lists, scores, (self.monitor,), "monitor")
        ((name, value),) = found.metrics.items()
        sign = 1.0 if queries.higher_is_better(name) else -1.0
        return float("nan") if value is None else sign * value

    def _evaluation(
        self,
        lists: RankingLists,
        scores: np.ndarray,
        names: Sequence[str],
        argument: str = "metrics",
    ) -> EvaluationResult:
        """Evaluates scores by metrics, which an argument has."""
        config = build(MetricsConfig, {**self._params(), "metrics": names})
        highest = self.max_label or max(self.max_label_, lists.max_label)
        convention = dataclasses.replace(config.convention(), max_label=highest)
        names = queries.parse_names(config.metrics, argument)
        return evaluate_scores(lists, scores, names, convention)


def _parts(lists: RankingLists) -> Iterator[tuple[Feature, np.ndarray]]:
    """Yields each number, all as of items, and then the rest, with their values."""
    names = lists.feature_names or range(1, lists.num_features + 1)
    spec = lists.spec
    for column, name in enumerate(names if spec is None else spec.number_names):
        yield Feature(str(name)), lists.features[:, column : column + 1]
    for feature, place in spec.slices() if spec else ():  # As of items, too.
        yield dataclasses.replace(feature, context=False), lists.features[:, place]
    yield from categories.columns(lists)


def _never_changes(lists: RankingLists, values: np.ndarray) -> bool:
    """Returns whether a feature of items has one value in each list.

    Examples:
        >>> lists = RankingLists.from_arrays(
        ...     np.array([[7, 1], [7, 2], [8, 2], [np.nan, 2]]), group=[2, 1, 1],
        ...     missing=True)
        >>> [_never_changes(lists, values) for _, values in _parts(lists)]
        [True, False]
    """
    first = values[np.repeat(lists.row_splits[:-1], lists.lengths)]
    same = (values == first) | (values != values) & (first != first)  # or both NaN
    return bool(same.all())


def _order(lists: RankingLists, between: bool, rng: np.random.Generator) -> np.ndarray:
    """Returns an item for each item, of the same list or, in whole lists, of another.

    Examples:
        >>> lists = RankingLists.from_arrays(np.zeros([5, 1]), group=[2, 3])
        >>> rng = np.random.default_rng(1)
        >>> order = _order(lists, False, rng)
        >>> sorted(order[:2].tolist()), sorted(order[2:].tolist())
        ([0, 1], [2, 3, 4])
        >>> set(_order(lists, True, rng).tolist()) <= {0, 2}
        True
    """
    query = np.repeat(np.arange(lists.num_lists), lists.lengths)
    if between:
        return lists.row_splits[rng.permutation(lists.num_lists)][query]
    return np.lexsort((rng.random(len(query)), query))
