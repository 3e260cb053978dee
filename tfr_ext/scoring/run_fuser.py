"""Fuses runs, evaluates the fusion, and writes it as `evaluate` does; its settings."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tfr_ext.core.messages import say
from tfr_ext.core.settings import Settings, given, nested, setting
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import comparable, fusion, queries, runs
from tfr_ext.evaluation.fusion import FUSIONS, RRF_K, checked_weights
from tfr_ext.evaluation.queries import plain_name
from tfr_ext.runs import outputs, owned_files, run_file
from tfr_ext.scoring import evaluator, fused_runs
from tfr_ext.settings.training_config import MetricsConfig

_FILES = (*outputs.EVALUATED, "flags.cfg")
# What the directory of a run says about all its metrics.
_STATED = ("gain", "empty_list", "relevance_threshold", "max_label")

# Chooses the weights on validation lists.
VALID = "valid"


@dataclasses.dataclass(frozen=True)
class FusionConfig(Settings):
    """A fusion: of which runs, by which rule and weights.

    Examples:
        >>> FusionConfig(runs=("a", "b"), weights="0.3,0.7").given_weights
        (0.3, 0.7)
        >>> FusionConfig(runs=("a", "b"), weights="1,2,3")
        Traceback (most recent call last):
        ValueError: `weights` must have a weight for each of the 2 runs. Received: 3.
    """

    GROUP = "evaluation"

    runs: tuple[str, ...] = setting(
        (),
        "Runs to fuse: directories that `train`, `evaluate` or `fuse` wrote, or TREC "
        "run files.",
        kind="paths",
    )
    metrics: MetricsConfig = nested(MetricsConfig)
    fusion: str = setting(
        "zscore",
        "What a run adds to the score of a document: its 'zscore' (the score, "
        "standardised within the query), minus its 'rank', or the reciprocal rank, "
        "'rrf': 1 / (`rrf_k` + rank).",
        choices=FUSIONS,
    )
    rrf_k: float = setting(
        RRF_K,
        "The constant of `fusion='rrf'`; the larger, the less the top ranks count.",
        low=0.0,
    )
    weights: str = setting(
        "",
        "Weight of each run, such as 0.3,0.7, or 'valid' for those that are best by "
        "`monitor` on the validation lists, among an even grid of weights. If left "
        "out, all runs have the same weight.",
    )
    monitor: str = setting(
        "ndcg_10",
        "Validation metric by which `weights='valid'` chooses.",
        convert=plain_name,
    )
    qrels: str | None = setting(
        None,
        "Judgements, of TREC or BEIR, of the test queries. If left out, the qrels.trec "
        "of the runs that are directories.",
        group="data",
        kind="path",
    )
    valid_qrels: str | None = setting(
        None,
        "Judgements, of TREC or BEIR, of the validation queries. If left out, the "
        "qrels.valid.trec of the runs that are directories.",
        group="data",
        kind="path",
    )
    output_dir: str | None = setting(
        None, "Directory to which the files are written.", group="run", kind="path"
    )

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if not self.runs:
            raise ValueError("`runs` must name at least one run to fuse.")
        twice = [run for run in self.runs if self.runs.count(run) > 1]
        if twice:
            raise ValueError(f"`runs`: {twice[0]} is given twice.")
        if self.rrf_k != RRF_K and self.fusion != "rrf":
            raise ValueError(
                f"{given('rrf_k', self.rrf_k)} has no meaning with "
                f"{given('fusion', self.fusion)}."
            )
        weights = self.given_weights
        if weights is not None:
            checked_weights(weights, len(self.runs))

    @property
    def given_weights(self) -> tuple[float, ...] | None:
        """The weights, if numbers are given.

        Raises:
            ValueError: If `weights` is something else.
        """
        if self.weights in ("", VALID):
            return None
        try:
            return tuple(float(text) for text in self.weights.split(","))
        except ValueError:
            raise ValueError(
                "`weights` must be numbers, separated by commas, or 'valid'. "
                f"Received: {self.weights!r}."
            ) from None


@dataclasses.dataclass(frozen=True)
class FusionResult:
    """Result of a fusion.

    Attributes:
        evaluation: the metrics of the fused run on the test queries.
        valid: the mean of each metric on the validation queries; None without them.
        weights: the weight of each run; their sum is 1.
        chosen: how `weights='valid'` chose them; None otherwise.
    """

    evaluation: evaluator.EvaluationResult
    valid: Mapping[str, float | None] | None
    weights: Sequence[float]
    chosen: fusion.Choice | None


def fuse(config: FusionConfig) -> FusionResult:
    r"""Fuses runs by a weighted mean of scores or ranks, and evaluates the result.

    A directory of a run states the convention of its metrics and their names; both are
    the fusion's where the settings have their defaults.

    Args:
        config: the settings.

    Returns:
        The metrics, and the weights.

    Raises:
        ValueError: If the settings or the files have errors, or the runs do not have
            the same queries, judgements and convention.
        OSError: If a file cannot be read or written.

    Examples:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> def path(name, lines):
        ...     with open(os.path.join(folder, name), "w") as file:
        ...         _ = file.write("\n".join(lines))
        ...     return file.name
        >>> first = path("a.trec", ["q Q0 x 1 5 a", "q Q0 y 2 4 a"])
        >>> second = path("b.trec", ["q Q0 y 1 9 b", "q Q0 x 2 1 b"])
        >>> result = fuse(FusionConfig(
        ...     runs=(first, second), weights="1,3", qrels=path("q", ["q 0 y 1"]),
        ...     metrics=MetricsConfig(metrics=("mrr",))))  # doctest: +ELLIPSIS
        weight 0.25: ...
        >>> result.evaluation.metrics, result.weights
        ({'mrr': 1.0}, (0.25, 0.75))
    """
    inputs = [*config.runs, *filter(None, (config.qrels, config.valid_qrels))]
    # The files that are read in a directory.
    inputs += [os.path.join(run, name) for run in config.runs for name in _FILES]
    present = filter(os.path.exists, inputs)
    with owned_files.in_output_dir(
        "fuse", config.output_dir, _FILES, "fusion", present
    ) as files:
        return _fuse(config, files)


def _fuse(config: FusionConfig, files: owned_files.OwnedFiles | None) -> FusionResult:
    """Fuses, and writes the files of `output_dir`."""
    fused = [fused_runs.find(path) for path in config.runs]
    judged = _judged(config, fused)
    names, convention = _convention(config, fused, list(judged.values()))
    joined = {
        split: fused_runs.join(fused, split, lists, config.fusion, config.rrf_k)
        for split, lists in judged.items()
    }
    weights, chosen = _weights(config, joined.get("valid"), convention)
    for run, weight in zip(fused, weights):
        say(f"weight {weight:.3g}: {run.path}")
    tested, valid = joined["test"], None
    result = evaluator.evaluate_scores(
        tested.lists, tested.scores(weights), names, convention
    )
    if "valid" in joined:
        lists, scores = joined["valid"].lists, joined["valid"].scores(weights)
        valid = queries.means(queries.per_query(lists, scores, names, convention))
    found = FusionResult(result, valid, weights, chosen)
    if files is not None:
        _write(config, files, fused, joined, found)
        result = dataclasses.replace(result, paths=files.paths())
    say(str(result))
    return dataclasses.replace(found, evaluation=result)


def _convention(
    config: FusionConfig,
    fused: Sequence[fused_runs.Fused],
    judged: Sequence[RankingLists],
) -> tuple[list[str], queries.Convention]:
    """Returns the metrics, and the convention of the settings or of the runs."""
    asked, default = config.metrics, MetricsConfig()
    names = queries.parse_names(asked.metrics)
    evaluated = [run.evaluated for run in fused if run.evaluated is not None]
    if evaluated and asked.metrics == default.metrics:
        names = comparable.metric_names(evaluated)
    stated = asked.convention()
    # Ties of the fused scores are broken by position, however those of runs are.
    agreed = comparable.convention([_without_ties(run) for run in evaluated], names)[0]
    for field in _STATED:
        mine, theirs = getattr(asked, field), (agreed or {}).get(field)
        if theirs is None:
            continue
        if mine == getattr(default, field):
            stated = dataclasses.replace(stated, **{field: theirs})
        elif mine != theirs:
            raise ValueError(
                f"{given(field, mine)}, but the metrics of {evaluated[0].name} have "
                f"{theirs!r} (see its metrics.json). Leave `{field}` out, or evaluate "
                "that run again."
            )
    if asked.max_label is None and (agreed or {}).get("max_label") is None:
        highest = max(float(lists.labels.max()) for lists in judged)
        stated = dataclasses.replace(stated, max_label=max(1.0, highest))
    for name in [*names, *queries.parse_names([config.monitor], "monitor")]:
        stated.objective(name)
    return names, stated


def _without_ties(run: runs.Run) -> runs.Run:
    """Returns a run whose convention does not say how ties are broken."""
    folds = tuple(
        tuple(
            dataclasses.replace(
                one, convention=one.convention and {**one.convention, "ties": None}
            )
            for one in fold
        )
        for fold in run.folds
    )
    return dataclasses.replace(run, folds=folds)


def _judged(
    config: FusionConfig, fused: Sequence[fused_runs.Fused]
) -> dict[str, RankingLists]:
    """Returns the judged lists of the splits that all runs have."""
    found = {}
    for split, argument in zip(fused_runs.SPLITS, ("qrels", "valid_qrels")):
        needed = split == "test" or config.weights == VALID
        run_name, qrels_name = outputs.trec_files(split)
        lists = fused_runs.judgements(fused, split, getattr(config, argument))
        without = [run.path for run in fused if not run.has(split, lists)]
        if without and split == "valid" and needed:
            raise ValueError(
                f"{given('weights', VALID)} needs the validation queries in each run, "
                f"in the {run_name} that training and `evaluate` with validation lists "
                f"write, or in a TREC file. {without[0]} has none."
            )
        if lists is None and needed:
            why = "" if split == "test" else f", which {given('weights', VALID)} needs"
            raise ValueError(
                f"No run has {qrels_name}{why}: give the judgements by `{argument}`."
            )
        if lists is not None and (split == "test" or not without):
            found[split] = lists
    return found


def _weights(
    config: FusionConfig,
    valid: fused_runs.Joined | None,
    convention: queries.Convention,
) -> tuple[tuple[float, ...], fusion.Choice | None]:
    """Returns the weights, and how they were chosen."""
    number = len(config.runs)
    if config.weights != VALID:
        weights = config.given_weights or [1.0] * number
        return fusion.checked_weights(weights, number), None
    assert valid is not None
    chosen = fusion.choose_weights(
        valid.contributed, valid.lists, config.monitor, convention
    )
    say(
        f"Validation {config.monitor} of {chosen.value:.4f} with the best of "
        f"{chosen.tried} weights."
    )
    return chosen.weights, chosen


def _write(
    config: FusionConfig,
    files: owned_files.OwnedFiles,
    fused: Sequence[fused_runs.Fused],
    joined: Mapping[str, fused_runs.Joined],
    found: FusionResult,
) -> None:
    """Writes the files of a fusion."""
    files.claim(anew=True)
    result = found.evaluation
    outputs.write_per_query(files.directory, joined["test"].judged, result.per_query)
    for split, one in joined.items():
        scores = one.scores(found.weights)
        tag = f"fusion_{config.fusion}"
        outputs.write_trec(files.directory, one.lists, scores, tag, one.judged, split)
    files.write("flags.cfg", run_file.of_command("fuse", config))
    reports = [run.report for run in fused if run.report]
    seeds = {report.get("seed") for report in reports}
    content: dict[str, Any] = {
        **({} if found.valid is None else {"valid": found.valid}),
        "test": result.metrics,
        "convention": result.convention.as_dict(),
        # The runs agree on these: `compare` would not pair them otherwise.
        **{key: reports[0].get(key) for key in ("labels", "eval_list_size") if reports},
        "queries": {split: one.judged.num_lists for split, one in joined.items()},
        "empty_queries": {"test": result.empty},
        "seed": seeds.pop() if len(seeds) == 1 else None,
        "fusion": {
            "fusion": config.fusion,
            **({"rrf_k": config.rrf_k} if config.fusion == "rrf" else {}),
            "runs": list(config.runs),
            "weights": list(found.weights),
            "chosen": None
            if found.chosen is None
            else {
                "monitor": config.monitor,
                "value": found.chosen.value,
                "tried": found.chosen.tried,
            },
        },
    }
    outputs.write_metrics(files, content)
