"""Checks that runs can be compared: queries, folds, metrics and convention."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tfr_ext.core import checks
from tfr_ext.core.settings import Settings, setting
from tfr_ext.evaluation import queries, significance
from tfr_ext.evaluation.runs import Evaluated, Run
from tfr_ext.objectives import plain_name

_REMEDIES = {
    "max_label": " Only ERR depends on it, and can be left out of `metrics`.",
    "ties": (
        " Evaluate the run.trec of both with `evaluate`, which breaks ties in runs by "
        "document name, as trec_eval does."
    ),
}


BEST = "best"
ONE_SIDED = "one-sided"


@dataclasses.dataclass(frozen=True)
class Options(Settings):
    """Options of a comparison of runs, by default in the metrics that all have."""

    metrics: Sequence[str] = ()
    test: str = setting(
        "t",
        "Paired significance test over the queries.",
        choices=significance.TESTS,
    )
    alternative: str = setting(
        "two-sided",
        "What the test is to show: 'two-sided', that a run and the reference differ; "
        "'one-sided', that the best run is better than a run or, if `against` names "
        "one, that a run is better than that.",
        choices=["two-sided", ONE_SIDED],
    )
    correction: str = setting(
        "bonferroni",
        "How p-values are corrected for multiple comparisons of one metric.",
        choices=significance.CORRECTIONS,
    )
    level: float = setting(
        0.05, "Significance level: corrected p-values below it are significant."
    )
    against: str = setting(
        BEST,
        "Reference that runs are compared with: 'best', the run with the best mean of "
        "each metric, or the name of a run.",
    )
    num_resamples: int = setting(
        10_000, "Number of random draws of the randomisation test.", low=1
    )
    seed: int = 1
    digits: int = setting(3, "Number of decimals in the tables.", low=1)
    standard_errors: bool = setting(
        False, "Show the standard error over the folds in the tables."
    )
    plot_metric: str | None = setting(
        None,
        "Metric that the plots of the page show. If left out, ndcg_10, or else the "
        "first metric.",
        kind="text",
        convert=plain_name,
    )
    title: str = setting("", "Title of the page and of the tables.")

    def __post_init__(self) -> None:
        """Checks the options, as far as they do not depend on the runs."""
        super().__post_init__()
        checks.between("level", self.level, 0.0, 1.0)


def in_the_same_folds(runs: Sequence[Run]) -> list[Run]:
    """Puts the folds of all runs, which must be alike, into the first run's order."""
    first = runs[0]
    keys = [frozenset(fold[0].queries) for fold in first.folds]
    ordered = [first]
    for run in runs[1:]:
        folds = {frozenset(fold[0].queries): fold for fold in run.folds}
        if set(folds) != set(keys):
            mine, theirs = frozenset().union(*keys), frozenset().union(*folds)
            for one, other, missing in (
                (first, run, theirs - mine),
                (run, first, mine - theirs),
            ):
                if missing:
                    raise ValueError(
                        f"{one.name!r} lacks {len(missing)} of the "
                        f"{len(mine if other is first else theirs)} queries of "
                        f"{other.name!r}, such as {min(missing)!r}."
                    )
            raise ValueError(
                f"{first.name!r} and {run.name!r} have the same queries in other "
                f"folds: {len(keys)} and {len(folds)} of them."
            )
        ordered.append(dataclasses.replace(run, folds=tuple(folds[k] for k in keys)))
    return ordered


def metric_names(runs: Sequence[Run], wanted: Sequence[str] = ()) -> list[str]:
    """Returns the metrics to compare: those `wanted`, or those that all runs have."""
    if not wanted:
        common = [m for m in runs[0].metrics if all(m in run.metrics for run in runs)]
        if not common:
            raise ValueError(
                f"The runs have no metric in common: {runs[0].name!r} has "
                f"{', '.join(runs[0].metrics)}."
            )
        names = [name for name in common if _is_metric(name)]
        if not names:
            raise ValueError(
                f"The runs have no known metric in common. Found: {', '.join(common)}."
            )
    else:
        names = queries.parse_names(wanted)
    for run in runs:
        for member in run.members:
            for name in names:
                if name not in member.values:
                    raise ValueError(
                        f"{member.path}:1: expected a column {name!r}. Found: "
                        f"{', '.join(member.values)}."
                    )
    return names


def _is_metric(name: str) -> bool:
    try:
        queries.parse_names([name])
    except ValueError:
        return False
    return True


def convention(
    runs: Sequence[Run], names: Sequence[str]
) -> tuple[dict[str, Any] | None, list[str]]:
    """Returns the convention of the metrics, and a note if some runs do not state it.

    Each collection may have a convention of its own, which is noted; what they agree on
    is returned.
    """
    members = [member for run in runs for member in run.members]
    collections = list(dict.fromkeys(member.collection for member in members))
    found, notes = {}, []
    for collection in collections:
        found[collection], more = _of_collection(
            [member for member in members if member.collection == collection], names
        )
        notes += more
    known = [one for one in found.values() if one is not None]
    if not known:
        return None, notes[:1]
    agreed: dict[str, Any] = {}
    for field in dict.fromkeys(field for one in known for field in one):
        values = [one.get(field) for one in known]
        if all(value == values[0] for value in values):
            agreed[field] = values[0]
            continue
        formatted = ", ".join(
            f"{one.get(field)} ({c})" for c, one in found.items() if one
        )
        notes.append(
            f"The collections differ in {field.replace('_', ' ')}: {formatted}."
        )
    return agreed, notes


def _of_collection(
    members: Sequence[Evaluated], names: Sequence[str]
) -> tuple[dict[str, Any] | None, list[str]]:
    """Returns the convention of a collection, and a note."""
    stating = [member for member in members if member.convention is not None]
    silent = [member.path for member in members if member.convention is None]
    if not stating:
        return None, ["No run has a metrics.json: the convention is unknown."]
    agreed: dict[str, Any] = dict(stating[0].convention or {})
    for member in stating[1:]:
        theirs = member.convention or {}
        for field in [*agreed, *(f for f in theirs if f not in agreed)]:
            mine, other = (x.get(field) for x in (agreed, theirs))
            if mine == other:
                continue
            if field == "max_label" and not queries.need_max_label(names):
                agreed[field] = None
                continue
            raise ValueError(
                f"The metrics do not have the same meaning: {field} is {mine!r} in "
                f"{stating[0].path} and {other!r} in {member.path} (see metrics.json "
                "next to them)." + _REMEDIES.get(field, "")
            )
    _check_truncation(stating)
    notes = []
    if silent:
        notes.append(
            f"The convention of {len(silent)} of {len(members)} per_query.tsv files is "
            f"unknown, as they have no metrics.json next to them: {silent[0]}."
        )
    return agreed, notes


def _check_truncation(members: Sequence[Evaluated]) -> None:
    """Checks that the lists of a query are cut alike in each directory."""
    first: dict[frozenset[str], Evaluated] = {}
    for member in members:
        other = first.setdefault(frozenset(member.queries), member)
        if member.left_out != other.left_out:
            raise ValueError(
                "The metrics do not have the same meaning: of the lists, "
                f"{other.left_out} in {other.path}, and {member.left_out} in "
                f"{member.path} (see metrics.json next to them)."
            )


def seed_notes(run: Run) -> list[str]:
    """Returns notes about suspicious seeds of a run."""
    notes = []
    for fold in run.folds:
        seen: dict[int, str] = {}
        for member in fold:
            if member.seed is None:
                continue
            if member.seed in seen:
                notes.append(
                    f"{run.name}: seed {member.seed} comes twice for the same queries, "
                    f"in {seen[member.seed]} and {member.path}."
                )
            seen.setdefault(member.seed, member.path)
    numbers = sorted({len(fold) for fold in run.folds})
    if len(numbers) > 1:
        notes.append(
            f"{run.name}: its folds have between {numbers[0]} and {numbers[-1]} seeds."
        )
    return notes
