"""Compares runs query by query: means, their errors, and significance."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfr_ext import evaluation
from tfr_ext.evaluation import comparable, significance
from tfr_ext.evaluation import runs as run_files
from tfr_ext.evaluation.comparable import BEST, ONE_SIDED, Options


@dataclasses.dataclass(frozen=True)
class Result:
    """One metric of one run.

    Attributes:
        mean: mean of the fold means.
        se_folds: standard deviation of the fold means over the square root of their
            number; None for one fold.
        sd_seeds: standard deviation of the mean over seeds; None unless all folds have
            the same number of seeds, at least two.
        best: whether no run has a better mean.
        p_value: p-value against the reference, corrected; None for the reference.
        significant: '', or 'better' or 'worse' than the reference.
        wins: queries on which the run is better than the reference.
        queries: number of queries that count for the metric.
        effect: the mean difference to the reference over all queries that count, with
            its 95 % interval and the t-test's two-sided p-value, uncorrected; None for
            the reference.
        by_collection: the same of each collection, where runs have several.
    """

    mean: float
    se_folds: float | None
    sd_seeds: float | None
    best: bool
    p_value: float | None
    unadjusted: float | None
    significant: str
    wins: int
    ties: int
    losses: int
    queries: int
    effect: significance.Effect | None = None
    by_collection: Mapping[str, significance.Effect] = dataclasses.field(
        default_factory=dict
    )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The result of comparing runs.

    Attributes:
        results: for each run, by name, its results by metric.
        references: for each metric, the name of the run that the others were tested
            against.
        values: for each metric, the values of the queries that count, averaged over
            seeds, `[runs, queries]`.
        fold_means: for each metric, the means of the folds, `[runs, folds]`, NaN if no
            query counts.
        convention: what the metrics mean; None if no run states it.
    """

    options: Options
    metrics: tuple[str, ...]
    runs: tuple[run_files.Run, ...]
    results: Mapping[str, Mapping[str, Result]]
    references: Mapping[str, str]
    values: Mapping[str, np.ndarray]
    fold_means: Mapping[str, np.ndarray]
    convention: Mapping[str, Any] | None
    notes: tuple[str, ...]

    @property
    def num_queries(self) -> int:
        """The number of queries, including those that do not count for a metric."""
        return sum(len(fold[0].queries) for fold in self.runs[0].folds)

    @property
    def collections(self) -> list[str]:
        """The collections that are pooled; empty for one that has no name."""
        folds = self.runs[0].folds
        return list(filter(None, dict.fromkeys(f[0].collection for f in folds)))

    @property
    def plot_metric(self) -> str:
        """The metric of the plots."""
        usual = "ndcg_10" if "ndcg_10" in self.metrics else self.metrics[0]
        return self.options.plot_metric or usual

    def as_dict(self) -> dict[str, Any]:
        """Returns the content of `comparison.json`."""
        options = self.options
        return {
            "title": options.title,
            "metrics": list(self.metrics),
            "convention": self.convention,
            "test": {
                "test": options.test,
                "alternative": options.alternative,
                "correction": options.correction,
                "level": options.level,
                "against": options.against,
                **(
                    {"num_resamples": options.num_resamples, "seed": options.seed}
                    if options.test == "randomisation"
                    else {}
                ),
            },
            **({"collections": self.collections} if self.collections else {}),
            "references": dict(self.references),
            "notes": list(self.notes),
            "runs": [
                {
                    "name": run.name,
                    "folds": len(run.folds),
                    "seeds": sorted(
                        {m.seed for m in run.members if m.seed is not None}
                    ),
                    "queries": self.num_queries,
                    "metrics": {
                        name: dataclasses.asdict(result)
                        for name, result in self.results[run.name].items()
                    },
                }
                for run in self.runs
            ],
        }


def compare(
    runs: Mapping[str, Sequence[str]],
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Comparison:
    """Compares runs on the queries that all of them have.

    Each run is given by its directories or `per_query.tsv` files, with folds and seeds
    in any order. All must have the same queries in the same folds and, in a collection,
    one convention. A single run gets its means and their errors, and is not tested
    against anything.

    Runs on several collections, whose paths are `COLLECTION:PATH`, are pooled: means
    are over all queries rather than over folds, and the t-test is stratified, see
    `significance.effect`. The randomisation test draws a sign for each query, and so
    needs no strata.
    """
    if not runs:
        raise ValueError("A comparison needs at least one run. Received: none.")
    if options.against not in (BEST, *runs):
        raise ValueError(
            f"`against` must be '{BEST}' or the name of a run, one of {list(runs)}. "
            f"Received: {options.against!r}."
        )
    loaded = comparable.in_the_same_folds(
        [run_files.read(name, paths) for name, paths in runs.items()]
    )
    names = comparable.metric_names(loaded, options.metrics)
    if options.plot_metric not in (None, *names):
        raise ValueError(
            f"`plot_metric` must be one of the metrics compared, {names}. Received: "
            f"{options.plot_metric!r}."
        )
    collections = {member.collection for run in loaded for member in run.members}
    if len(collections) > 1 and options.test == "wilcoxon":
        raise ValueError(
            "`test='wilcoxon'` cannot pool collections, as it ranks the differences of "
            "all queries together. Choose 't' or 'randomisation'."
        )
    convention, notes = comparable.convention(loaded, names)
    notes += [note for run in loaded for note in comparable.seed_notes(run)]
    results: dict[str, dict[str, Result]] = {run.name: {} for run in loaded}
    references, values, fold_means = {}, {}, {}
    for name in names:
        of_metric = _Metric(name, loaded, options)
        references[name] = loaded[of_metric.reference].name
        values[name], fold_means[name] = of_metric.values, of_metric.fold_means
        for run, result in zip(loaded, of_metric.results()):
            results[run.name][name] = result
    return Comparison(
        options=options,
        metrics=tuple(names),
        runs=tuple(loaded),
        results=results,
        references=references,
        values=values,
        fold_means=fold_means,
        convention=convention,
        notes=tuple(notes),
    )


class _Metric:
    """One metric of all runs."""

    def __init__(self, name: str, runs: Sequence[run_files.Run], options: Options):
        self._options = options
        self._higher = evaluation.higher_is_better(name)
        folds = [fold[0].queries for fold in runs[0].folds]
        # For each run and fold, an array [seeds, queries].
        raw = [
            [
                np.stack([seed.aligned(name, queries) for seed in run.folds[k]])
                for run in runs
            ]
            for k, queries in enumerate(folds)
        ]
        counts = [
            np.all([np.isfinite(one).all(axis=0) for one in fold], axis=0)
            for fold in raw
        ]
        if not sum(map(np.sum, counts)) >= 2:
            raise ValueError(f"{name}: fewer than 2 queries count for all runs.")
        kept = [
            [one[:, count] for one in fold]
            for fold, count in zip(raw, counts)
            if count.any()
        ]
        means = np.array([[one.mean() for one in fold] for fold in kept]).T
        self.fold_means = np.full([len(runs), len(folds)], np.nan)
        self.fold_means[:, [bool(count.any()) for count in counts]] = means
        self.values = np.concatenate(
            [np.stack([one.mean(axis=0) for one in fold]) for fold in kept], axis=1
        )
        # The collection of each query that counts.
        self._strata = np.array(
            [
                runs[0].folds[k][0].collection
                for k, count in enumerate(counts)
                for _ in range(int(count.sum()))
            ]
        )
        self._collections = list(dict.fromkeys(self._strata.tolist()))
        pooled = len(self._collections) > 1
        self._means = self.values.mean(axis=1) if pooled else means.mean(axis=1)
        for collection in self._collections:
            if (self._strata == collection).sum() < 2:
                raise ValueError(
                    f"{name}: fewer than 2 queries of {collection!r} count for all "
                    "runs."
                )
        self._errors = [_standard_error(row) for row in means]
        counting = [k for k, count in enumerate(counts) if count.any()]
        self._deviations = [
            _seed_deviation(
                [run.folds[k] for k in counting], [fold[r] for fold in kept]
            )
            for r, run in enumerate(runs)
        ]
        best = self._means.max() if self._higher else self._means.min()
        self._best = np.isclose(self._means, best, rtol=1e-9, atol=1e-12)
        if options.against == BEST:
            self.reference = int(np.flatnonzero(self._best)[0])
        else:
            self.reference = [run.name for run in runs].index(options.against)

    def results(self) -> list[Result]:
        options = self._options
        others = np.arange(len(self.values)) != self.reference
        reference = self.values[self.reference]
        alternative = options.alternative
        if alternative == ONE_SIDED:
            # The best run should beat the others; the others should beat a baseline.
            above = self._higher == (options.against == BEST)
            alternative = "greater" if above else "less"
        raw = np.ones(len(others))
        if others.any():
            raw[others] = self._p_values(others, alternative)
        corrected = raw.copy()
        corrected[others] = significance.adjusted(raw[others], options.correction)
        signs = significance.direction(self.values, reference, options.test)
        signs = signs if self._higher else -signs
        found = []
        for r, other in enumerate(others):
            wins, ties, losses = significance.wins_ties_losses(
                self.values[r], reference, self._higher
            )
            effect, parts = self._effects(r) if other else (None, {})
            differs = other and corrected[r] < options.level
            found.append(
                Result(
                    mean=float(self._means[r]),
                    se_folds=self._errors[r],
                    sd_seeds=self._deviations[r],
                    best=bool(self._best[r]),
                    p_value=float(corrected[r]) if other else None,
                    unadjusted=float(raw[r]) if other else None,
                    significant=("better" if signs[r] > 0 else "worse")
                    if differs
                    else "",
                    wins=wins,
                    ties=ties,
                    losses=losses,
                    queries=self.values.shape[1],
                    effect=effect,
                    by_collection=parts,
                )
            )
        return found

    def _p_values(self, others: np.ndarray, alternative: str) -> np.ndarray:
        """Returns the p-value of each other run."""
        options, reference = self._options, self.values[self.reference]
        if len(self._collections) > 1 and options.test == "t":
            return np.array(
                [
                    significance.effect(
                        reference, own, self._strata, alternative
                    ).p_value
                    for own in self.values[others]
                ]
            )
        return significance.p_value(
            reference,
            self.values[others],
            options.test,
            alternative,
            options.num_resamples,
            options.seed,
        )

    def _effects(
        self, r: int
    ) -> tuple[significance.Effect | None, dict[str, significance.Effect]]:
        """Returns the effect of a run, and that in each of several collections."""
        own, reference = self.values[r], self.values[self.reference]
        of = {c: self._strata == c for c in self._collections}
        parts = {
            c: significance.effect(own[here], reference[here]) for c, here in of.items()
        }
        whole = significance.effect(own, reference, self._strata)
        return whole, parts if len(parts) > 1 else {}


def _standard_error(fold_means: np.ndarray) -> float | None:
    if len(fold_means) < 2:
        return None
    return float(fold_means.std(ddof=1) / np.sqrt(len(fold_means)))


def _seed_deviation(
    members: Sequence[Sequence[run_files.Evaluated]], folds: Sequence[np.ndarray]
) -> float | None:
    """Returns the standard deviation, over seeds, of the mean over folds."""
    numbers = {len(fold) for fold in folds}
    if len(numbers) > 1 or numbers == {1}:
        return None
    seeds = [[member.seed for member in fold] for fold in members]
    known = [sorted(s for s in fold if s is not None) for fold in seeds]
    # Matched by seed if the folds have the same seeds, else in the given order.
    if all(k == known[0] and len(set(k)) == len(s) for k, s in zip(known, seeds)):
        orders = [np.argsort(np.array(fold, np.int64)) for fold in seeds]
        folds = [fold[order] for fold, order in zip(folds, orders)]
    return float(np.mean([f.mean(axis=1) for f in folds], axis=0).std(ddof=1))
