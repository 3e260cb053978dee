"""Evaluates an exported model, a TREC run, or scores in a file, on judged lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tfr_ext import objectives
from tfr_ext.core.messages import say
from tfr_ext.core.settings import given
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import queries
from tfr_ext.evaluation.score_files import read_scores
from tfr_ext.evaluation.trec import read_qrels, read_run
from tfr_ext.runs import outputs, owned_files, run_file
from tfr_ext.scoring.loaded_scorers import (
    TreesScorer,
    check_categories,
    check_features,
    load_scorer,
)
from tfr_ext.serving import exporter
from tfr_ext.settings.data_checks import AUTO
from tfr_ext.settings.evaluation_config import EvaluationConfig
from tfr_ext.sources import data_splits, long_lists, wanted_labels

_FILES = (*outputs.EVALUATED, "flags.cfg")
_IN_WORDS = {"test": "test", "valid": "validation"}


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
    """Result of an evaluation.

    Attributes:
        metrics: the mean of each metric.
        per_query: the value of each metric for each query, NaN where it does not count.
        query_ids: the queries, in the order of `per_query`.
        convention: what the metrics mean.
        empty: by metric, to how many queries the rule for empty lists applies.
        paths: the files in `output_dir`, by name.
    """

    metrics: Mapping[str, float | None]
    per_query: Mapping[str, np.ndarray]
    query_ids: Sequence[str]
    convention: queries.Convention
    empty: Mapping[str, int]
    paths: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        """Returns the convention and a table of the means."""
        return (
            f"{self.convention.describe()}\n"
            f"{describe_empty(self.empty, len(self.query_ids))}\n"
            f"{outputs.metric_table({'test': self.metrics})}"
        )


@dataclasses.dataclass(frozen=True)
class _Scored:
    """Lists, with the unjudged items of a run, and their scores.

    Attributes:
        counts: what `metrics.json` has about a run.
    """

    lists: RankingLists
    scores: np.ndarray
    tag: str = "tfr_ext"
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    ties: str = queries.TIES_BY_POSITION


def evaluate(config: EvaluationConfig) -> EvaluationResult:
    """Evaluates a model, a run or scores, and writes the requested files.

    With `output_dir`, the validation lists are ranked too, for `fuse`, unless they
    would have to be held out of training lists that nothing else needs.

    Args:
        config: the settings.

    Returns:
        The metrics, and where the files are.

    Raises:
        ValueError: If the settings, the data or what is evaluated have errors.
        OSError: If a file cannot be read or written.

    Examples:
        >>> import os, tempfile
        >>> from tfr_ext.training import (
        ...     DataConfig, EvaluationConfig, MetricsConfig, evaluate)
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = os.path.join(folder.name, "scores.txt")
        >>> np.savetxt(path, np.arange(4 * 5))
        >>> result = evaluate(EvaluationConfig(
        ...     data=DataConfig(synthetic_num_queries=20, synthetic_list_size=5),
        ...     metrics=MetricsConfig(metrics=("ndcg_10", "map")), scores=path)
        ... )  # doctest: +ELLIPSIS
        test: 4 queries, 20 items of 25 features, ...
        >>> sorted(result.metrics), result.per_query["map"].shape
        (['map', 'ndcg_10'], (4,))
        >>> folder.cleanup()
    """
    sources = (config.export, config.run, config.scores, config.qrels)
    inputs = [*filter(None, sources), *data_splits.paths(config.data)]
    with owned_files.in_output_dir(
        "evaluate", config.output_dir, _FILES, "evaluation", inputs
    ) as files:
        return _evaluate(config, files)


def _evaluate(
    config: EvaluationConfig, files: owned_files.OwnedFiles | None
) -> EvaluationResult:
    """Evaluates, and writes the files of `output_dir`."""
    names = queries.parse_names(config.metrics.metrics)
    convention = config.metrics.convention()
    for name in names:
        convention.objective(name)
    scorer = None if config.export is None else load_scorer(config.export)
    if isinstance(scorer, TreesScorer):
        config = dataclasses.replace(config, data=data_splits.with_missing(config.data))
    elif scorer is not None and config.data.missing == AUTO:
        known = data_splits.with_missing(config.data, scorer.missing)
        config = dataclasses.replace(config, data=known)
    wanted = wanted_labels.from_config(config.data)
    found = _found(config, wanted, scorer, with_valid=files is not None)
    judged, cuts = {}, {}
    for split, lists in found.items():
        cuts[split] = long_lists.LongLists(config.data, _IN_WORDS[split])
        judged[split] = cuts[split](lists)
        say(data_splits.describe(split, judged[split]))
        if cuts[split].num_cut:
            say(cuts[split].describe())
    highest = wanted.highest(config.metrics.max_label, [judged["test"]])
    if (
        config.metrics.max_label is None
        and scorer is not None
        and wanted == wanted_labels.AS_GIVEN
    ):
        # The test lists alone may lack the highest grade of their collection.
        highest = max(highest, scorer.max_label or 0.0)
    scored = _score(config, judged, scorer)
    tested = scored["test"]
    convention = dataclasses.replace(convention, max_label=highest, ties=tested.ties)
    result = evaluate_scores(tested.lists, tested.scores, names, convention)
    if files is not None:
        files.claim(anew=True)
        outputs.write_per_query(files.directory, judged["test"], result.per_query)
        for split, one in scored.items():
            outputs.write_trec(
                files.directory, one.lists, one.scores, one.tag, judged[split], split
            )
        files.write("flags.cfg", run_file.of_command("evaluate", config))
        outputs.write_metrics(
            files,
            {
                "test": result.metrics,
                "convention": convention.as_dict(),
                "labels": wanted.describe(),
                "queries": {split: judged[split].num_lists for split in scored},
                "eval_list_size": {split: cuts[split].as_dict() for split in scored}
                if cuts["test"].cuts
                else None,
                "empty_queries": {"test": result.empty},
                **tested.counts,
            },
        )
    if config.print_per_query:
        say(outputs.per_query_table(result.query_ids, result.per_query))
    say(str(result))
    return dataclasses.replace(result, paths={} if files is None else files.paths())


def _found(
    config: EvaluationConfig,
    wanted: wanted_labels.Labels,
    scorer: exporter.ExportedScorer | TreesScorer | None,
    with_valid: bool,
) -> dict[str, RankingLists]:
    """Returns the judged lists by split, before they are cut."""
    if config.qrels is None:
        return data_splits.load_test(
            config.data,
            None if scorer is None else scorer.num_features,
            None if scorer is None else scorer.feature_names,
            with_valid=with_valid and config.scores is None,
            spec=getattr(scorer, "spec", None),
            trained=() if scorer is None else scorer.held_out,
        )
    if wanted != wanted_labels.AS_GIVEN:
        say(f"Labels: {wanted.describe()}.")
    return {"test": wanted(read_qrels(config.qrels))}


def evaluate_scores(
    lists: RankingLists,
    scores: np.ndarray,
    names: Sequence[str],
    convention: queries.Convention,
) -> EvaluationResult:
    """Evaluates scores of judged lists; `names` are those of `queries.parse_names`."""
    # Skipped lists are NaN, and so can be counted.
    skipping = dataclasses.replace(convention, empty_list="skip")
    found = queries.per_query(lists, scores, names, skipping)
    empty = {name: int(np.isnan(values).sum()) for name, values in found.items()}
    values = queries.fill_empty(found, convention.empty_list)
    return EvaluationResult(
        queries.means(values), values, lists.query_ids, convention, empty
    )


def describe_empty(empty: Mapping[str, int], num_lists: int) -> str:
    """Returns in words how many lists are empty.

    Examples:
        >>> describe_empty({'map': 2, 'opa': 3}, 9)
        'Lists without a relevant item: 2 of 9 (map), 3 of 9 (opa: one label only).'
    """
    by_count: dict[int, list[str]] = {}
    for name, count in empty.items():
        why = objectives.of_name(objectives.parse(name)[0]).EMPTY
        formatted = f"{name}: {why}" if why else name
        by_count.setdefault(count, []).append(formatted)
    parts = [
        f"{count} of {num_lists}" + f" ({', '.join(names)})" * (len(by_count) > 1)
        for count, names in by_count.items()
    ]
    return f"Lists without a relevant item: {', '.join(parts)}."


def _score(
    config: EvaluationConfig,
    judged: Mapping[str, RankingLists],
    scorer: exporter.ExportedScorer | TreesScorer | None,
) -> dict[str, _Scored]:
    """Returns the lists and scores of the splits, and prints what a run lacks."""
    if scorer is not None:
        for lists in judged.values():
            check_categories(lists, scorer)
            check_features(lists, scorer.takes_missing)
        if scorer.takes_missing and not config.data.keeps_missing:
            formatted = given("missing", config.data.missing)
            say(
                "The model takes missing features as it did in training only without "
                f"{formatted}."
            )
        return {
            split: _Scored(lists, scorer.scores(lists, config.batch_size))
            for split, lists in judged.items()
        }
    if config.scores is not None:
        (lists,) = judged.values()
        return {"test": _Scored(lists, read_scores(config.scores, lists.num_items))}
    assert config.run is not None
    run = read_run(config.run, judged["test"])
    if config.data.rerank_run:
        # Whatever the lists do not have is not ranked anew.
        run = run.only(judged.values())
    unjudged = len(run.unjudged(*judged.values()))
    found = {}
    for split, lists in judged.items():
        missing = len(run.missing(lists))
        if split == "valid" and missing == lists.num_lists:
            continue
        if missing:
            kind = "judged" if split == "test" else "validation"
            say(
                f"{missing} of {lists.num_lists} {kind} queries are not in the run: "
                "they count as queries for which nothing was retrieved."
            )
        found[split] = _Scored(
            *run.ranked(lists),
            tag=run.tag,
            counts={"missing_queries": missing, "unjudged_queries": unjudged},
            ties=queries.TIES_BY_NAME,
        )
    if unjudged:
        say(f"{unjudged} queries of the run have no judgements: they do not count.")
    return found
