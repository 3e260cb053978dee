"""The rankings of other programs as methods of an experiment: a TREC run per fold."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from tfr_ext.core.files import write_atomically
from tfr_ext.core.settings import Settings, nested, same_setting, setting
from tfr_ext.core.telling import say
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import queries, trec
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources import data_splits, wanted_labels
from tfr_ext.training import outputs, written
from tfr_ext.training.config import MetricsConfig, TrainingConfig
from tfr_ext.version import __version__

PATHS = ("run_path", "valid_run_path")
"""The flags with paths, in whose place the content of the files tells cells apart."""

_FILES = (
    *("metrics.json", "per_query.tsv", *outputs.trec_files("test")),
    *outputs.trec_files("valid"),
)


@dataclasses.dataclass(frozen=True)
class RunConfig(Settings):
    """An evaluation of a TREC run on the lists of a fold."""

    data: DataConfig = nested(DataConfig)
    evaluation: MetricsConfig = nested(MetricsConfig)
    model_dir: str | None = same_setting(TrainingConfig, "model_dir")
    run_path: str | None = setting(
        None,
        "TREC run of the test queries, for a method that is a `run`.",
        group="evaluation",
        kind="path",
    )
    valid_run_path: str | None = setting(
        None,
        "TREC run of the validation queries. If left out, those of them that "
        "`run_path` has.",
        group="evaluation",
        kind="path",
    )


def check(config: RunConfig) -> None:
    """Checks the settings that need no file.

    Args:
        config: the settings.

    Raises:
        ValueError: if a setting is wrong, or there is no run.
    """
    if config.run_path is None:
        raise ValueError("`run_path` must be the TREC run of a fold.")
    convention = config.evaluation.convention()
    for name in queries.parse_names(config.evaluation.metrics):
        convention.objective(name)


def digest(config: RunConfig) -> str:
    """Returns the digest of the runs, after having read them.

    Args:
        config: the settings.

    Raises:
        ValueError: if a file is not a TREC run.
        OSError: if a file cannot be read.
    """
    content = hashlib.sha256()
    for name in PATHS:
        path = getattr(config, name)
        content.update(name.encode())
        if path is not None:
            trec.read_run(path)
            with open(path, "rb") as file:
                content.update(hashlib.sha256(file.read()).digest())
    return content.hexdigest()


def evaluate(config: RunConfig) -> None:
    """Evaluates a run, and leaves the files that `compare` and `fuse` read.

    Items of one score rank by their position, as those of all other methods of an
    experiment do. What the run lacks is not retrieved, and documents that the lists
    lack count as irrelevant, unless `eval_list_size` or `rerank_run` chose the items:
    then they are left out.

    Args:
        config: the settings, with `model_dir`.

    Raises:
        ValueError: if a file has errors, or the run has none of the test queries.
        OSError: if a file cannot be read or written.
    """
    assert config.model_dir is not None and config.run_path is not None
    files = written.Files("experiment", "model_dir", config.model_dir, _FILES)
    inputs = [path for path in (config.run_path, config.valid_run_path) if path]
    files.check([*inputs, *data_splits.paths(config.data)])
    splits = data_splits.load(config.data)
    labels = wanted_labels.from_config(config.data)
    highest = labels.highest(
        config.evaluation.max_label, [splits.train, splits.valid, splits.test]
    )
    convention = dataclasses.replace(config.evaluation.convention(), max_label=highest)
    names = queries.parse_names(config.evaluation.metrics)
    judged = {"test": splits.test, "valid": splits.valid}
    runs = {"test": trec.read_run(config.run_path, splits.test)}
    if config.valid_run_path is not None:
        runs["valid"] = trec.read_run(config.valid_run_path, splits.valid)
    elif len(runs["test"].missing(splits.valid)) < splits.valid.num_lists:
        runs["valid"] = runs["test"]
    files.claim()
    files.remove()
    means: dict[str, Mapping[str, float | None]] = {"valid": {}}
    for split, run in runs.items():
        lists, scores = _scored(config, run, split, judged[split])
        values = queries.per_query(lists, scores, names, convention)
        means[split] = queries.means(values)
        if split == "test":
            outputs.write_per_query(files.directory, judged[split], values)
        outputs.write_trec(
            files.directory, lists, scores, run.tag, judged[split], split
        )
    content = {
        **{split: means[split] for split in ("valid", "test")},
        "convention": convention.as_dict(),
        "labels": labels.describe(),
        "queries": {split: lists.num_lists for split, lists in judged.items()},
        "eval_list_size": splits.eval_cuts,
        "run": config.run_path,
        "seed": None,
        "versions": {"tfr_ext": __version__, "tensorflow": tf.__version__},
    }
    # Written last: a cell that has it is finished.
    write_atomically(files.path("metrics.json"), outputs.as_json(content))


def _scored(
    config: RunConfig, run: trec.TrecRun, split: str, judged: RankingLists
) -> tuple[RankingLists, np.ndarray]:
    """Returns the lists with the documents of a run, and its scores."""
    missing = run.missing(judged)
    if missing:
        say(
            f"{len(missing)} of {judged.num_lists} {split} queries are not in the run, "
            f"such as {missing[0]!r}: they count as queries for which nothing was "
            "retrieved."
        )
    if config.data.eval_list_size is not None or config.data.rerank_run:
        run = run.only([judged])
    lists, (scores,) = trec.with_runs(judged, [run])
    return lists, scores
