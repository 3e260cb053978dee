"""The last step of a run: evaluates and exports its model, and writes the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core.files import write_atomically
from tfr_ext.core.telling import say
from tfr_ext.data.batches.batching import score_lists
from tfr_ext.evaluation import queries
from tfr_ext.sources import data_splits
from tfr_ext.training import outputs, written
from tfr_ext.training.config import TrainingConfig
from tfr_ext.training.exporting import run_export
from tfr_ext.training.fitting.checkpoints import Trained
from tfr_ext.version import __version__


def write(
    config: TrainingConfig,
    names: Sequence[str],
    labels: str,
    files: written.Files,
    trained: Trained,
    splits: data_splits.Splits,
    convention: queries.Convention,
    models: Sequence[Mapping[str, Any]] = (),
) -> dict[str, dict[str, float | None]]:
    """Evaluates and exports a model; writes and prints the results.

    Args:
        config: the settings.
        names: names of the metrics.
        labels: a description of the labels, in words.
        files: the files of the run.
        trained: the model and its history.
        splits: the lists.
        convention: what the metrics mean.
        models: of an ensemble, what is told about each of its models.

    Returns:
        The mean of each metric, by split.
    """
    scores = {
        name: score_lists(trained.model, lists, config.batch_size)
        for name, lists in (("valid", splits.valid), ("test", splits.test))
    }
    content = write_evaluation(
        config,
        config.loss.loss,
        names,
        labels,
        files,
        splits,
        scores,
        trained.history,
        trained.best_epoch,
        convention,
    )
    epoch_of = "Best epoch"
    if models:
        content |= {"ensemble": config.ensemble, "models": list(models)}
        epoch_of = "Best epoch of the mean of the models"
    exported = None
    if config.export_model:
        exported = run_export.export_models(
            [run_export.ExportedRun(config, splits, trained.model, content)],
            files.path("export"),
        )
    best = (
        f"{epoch_of} by validation {config.monitor}: {trained.best_epoch} of "
        f"{len(trained.history['loss'])}."
    )
    more = f"\nExported for serving: {exported}" if exported else ""
    return finish(files, content, f"{best} {convention.describe()}", more)


def write_evaluation(
    config: Any,
    tag: str,
    names: Sequence[str],
    labels: str,
    files: written.Files,
    splits: data_splits.Splits,
    scores: Mapping[str, np.ndarray],
    history: Mapping[str, list[float]],
    best_epoch: int,
    convention: queries.Convention,
) -> dict[str, Any]:
    """Evaluates scores, and writes all files of a run that tell how good it is.

    Args:
        config: the settings of the run.
        tag: what it was trained with, which is the name of its TREC run.
        names: names of the metrics.
        labels: a description of the labels, in words.
        files: the files of the run.
        splits: the lists.
        scores: the scores of 'valid' and 'test', one per item.
        history: the history, see `outputs.write_history`.
        best_epoch: the epoch that gave the scores, counted from 1.
        convention: what the metrics mean.

    Returns:
        What `metrics.json` says of any run, for `finish`.
    """
    directory = files.directory
    values = queries.per_query(splits.test, scores["test"], names, convention)
    results = {
        "valid": queries.means(
            queries.per_query(splits.valid, scores["valid"], names, convention)
        ),
        "test": queries.means(values),
    }
    outputs.write_history(directory, history)
    outputs.write_per_query(directory, splits.test, values)
    for split, lists in (("valid", splits.valid), ("test", splits.test)):
        outputs.write_trec(directory, lists, scores[split], tag, split=split)
    if config.draw_curves:
        outputs.draw_curves(
            files.path("curves.png"), history, config.monitor, best_epoch
        )
    return {
        **results,
        "convention": convention.as_dict(),
        "labels": labels,
        "queries": {"valid": splits.valid.num_lists, "test": splits.test.num_lists},
        "eval_list_size": splits.eval_cuts,
        "epochs": len(next(iter(history.values()))),
        "best_epoch": best_epoch,
        "loss": tag,
        "seed": config.data.seed,
        "versions": {"tfr_ext": __version__, "tensorflow": tf.__version__},
    }


def finish(
    files: written.Files, content: Mapping[str, Any], about: str, more: str = ""
) -> dict[str, dict[str, float | None]]:
    """Writes `metrics.json`, and prints the results.

    Args:
        files: the files of the run.
        content: the content of `metrics.json`.
        about: what is printed before the metrics.
        more: what is printed last.

    Returns:
        The mean of each metric, by split.
    """
    # Written last: a run that has it is finished.
    write_atomically(files.path("metrics.json"), outputs.as_json(content))
    results = {split: content[split] for split in ("valid", "test")}
    say(
        f"{about}\n{outputs.metric_table(results)}"
        f"\nWritten in {files.directory}: {', '.join(files.present())}{more}"
    )
    return results
