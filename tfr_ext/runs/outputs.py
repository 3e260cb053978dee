"""Writes and prints the results of a run: metrics, rankings and curves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import json_files
from tfr_ext.core.files import named, text_file
from tfr_ext.core.messages import say
from tfr_ext.core.table import Table
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import queries, trec, trec_names
from tfr_ext.runs.owned_files import OwnedFiles
from tfr_ext.version import __version__

# Files of the last step of a run, after training. The first is written last: without
# it, the run is not finished.
RESULTS = (
    "metrics.json",
    "history.tsv",
    "per_query.tsv",
    "run.trec",
    "qrels.trec",
    "run.valid.trec",
    "qrels.valid.trec",
    "curves.png",
)
# Files of a command that evaluates and does not train.
EVALUATED = tuple(n for n in RESULTS if n not in ("history.tsv", "curves.png"))


def write_evaluation(
    config: Any,
    tag: str,
    labels: str,
    files: OwnedFiles,
    splits: Any,
    score: Callable[[RankingLists], np.ndarray],
    history: Mapping[str, list[float]],
    best_epoch: int,
    convention: queries.Convention,
) -> dict[str, Any]:
    """Evaluates a model, and writes its results except `metrics.json`.

    Returns the content of `metrics.json` that all runs have, for `finish`. `splits` is
    a `data_splits.Splits`, and `score` returns a score per item. `tag` is what the
    model was trained with, and names its TREC run; `labels` describes the labels in
    words. `best_epoch` is counted from 1.
    """
    directory = files.directory
    names = queries.parse_names(config.evaluation.metrics)
    judged = {"valid": splits.valid, "test": splits.test}
    scores: dict[str, np.ndarray] = {}
    values: dict[str, dict[str, np.ndarray]] = {}
    for split, lists in judged.items():
        if split == "test" and lists is splits.valid:  # Those of a `Ranker`.
            scores[split], values[split] = scores["valid"], values["valid"]
            continue
        scores[split] = score(lists)
        values[split] = queries.per_query(lists, scores[split], names, convention)
    write_history(directory, history)
    write_per_query(directory, splits.test, values["test"])
    for split, lists in judged.items():
        write_trec(directory, lists, scores[split], tag, split=split)
    if config.draw_curves:
        draw_curves(files.path("curves.png"), history, config.monitor, best_epoch)
    return {
        **{split: queries.means(of_split) for split, of_split in values.items()},
        "convention": convention.as_dict(),
        "labels": labels,
        "queries": {split: lists.num_lists for split, lists in judged.items()},
        "eval_list_size": splits.eval_cuts,
        "held_out": splits.held_out,
        "epochs": len(next(iter(history.values()))),
        "best_epoch": best_epoch,
        "loss": tag,
        "seed": config.data.seed,
        "versions": versions(),
    }


def finish(
    files: OwnedFiles, content: Mapping[str, Any], about: str, more: str = ""
) -> dict[str, dict[str, float | None]]:
    """Writes `metrics.json`, prints the results, and returns the means by split.

    `about` is printed before the metrics, and `more` last.
    """
    write_metrics(files, content)
    results = {split: content[split] for split in ("valid", "test")}
    say(
        f"{about}\n{metric_table(results)}"
        f"\nWritten in {files.directory}: {', '.join(files.present())}{more}"
    )
    return results


def write_per_query(
    directory: str, lists: RankingLists, values: Mapping[str, np.ndarray]
) -> None:
    """Writes `per_query.tsv`, with empty cells for queries that do not count."""
    names = trec_names.QueryNames()(lists.query_ids)
    with text_file(os.path.join(directory, "per_query.tsv")) as file:
        file.write("\t".join(["query", *values]) + "\n")
        for q, query in enumerate(names):
            cells = [
                f"{v[q]:.9g}" if np.isfinite(v[q]) else "" for v in values.values()
            ]
            file.write("\t".join([query, *cells]) + "\n")


def write_history(directory: str, history: Mapping[str, list[float]]) -> None:
    """Writes `history.tsv`: the loss and the metrics, a row per epoch from 1.

    Names of values in validation begin with `val_`.
    """
    names = []
    for name in history:
        if not name.startswith("val_"):
            names += [name, *({f"val_{name}"} & history.keys())]
    with text_file(os.path.join(directory, "history.tsv")) as file:
        file.write("\t".join(["epoch", *names]) + "\n")
        for epoch, values in enumerate(zip(*(history[n] for n in names)), 1):
            cells = (f"{value:.9g}" for value in values)
            file.write("\t".join([str(epoch), *cells]) + "\n")


def write_trec(
    directory: str,
    lists: RankingLists,
    scores: np.ndarray,
    tag: str,
    judged: RankingLists | None = None,
    split: str = "test",
) -> None:
    """Writes `run.trec` and, for integer labels, `qrels.trec`.

    Those of the validation lists are `run.valid.trec` and `qrels.valid.trec`, with
    which `fuse` chooses its weights. `judged` is the judged part of the lists, by
    default all of them.
    """
    run, qrels = trec_files(split)
    trec.write_run(os.path.join(directory, run), lists, scores, tag)
    if not trec.write_qrels(
        os.path.join(directory, qrels), lists if judged is None else judged
    ):
        say(
            f"No {qrels} is written: the format needs integer labels, and some are not."
        )


def trec_files(split: str) -> tuple[str, str]:
    """Returns the names of the files with the ranking and the judgements of a split.

    Examples:
        >>> trec_files("valid")
        ('run.valid.trec', 'qrels.valid.trec')
    """
    middle = "" if split == "test" else f".{split}"
    return f"run{middle}.trec", f"qrels{middle}.trec"


def as_json(content: Mapping[str, Any]) -> str:
    """Returns the text of a JSON file with an entry per line."""
    return json.dumps(content, indent=2) + "\n"


def versions() -> dict[str, str]:
    """Returns the versions on which results depend."""
    return {"tfr_ext": __version__, "tensorflow": tf.__version__}


def write_metrics(files: OwnedFiles, content: Mapping[str, Any]) -> None:
    """Writes `metrics.json` last: a run that has it is finished."""
    files.write("metrics.json", as_json(content))


def read_metrics(path: str) -> dict[str, Any]:
    """Reads the `metrics.json` of a finished run."""
    kinds = {"valid": (dict,), "test": (dict,)}
    try:
        return json_files.read_object(path, "`train`", kinds)
    except ValueError as error:
        raise ValueError(
            f"{error} Remove this file; the same command then writes it again."
        ) from error


def metric_table(columns: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a table of metrics, one column for each evaluation."""
    rows = [
        [
            name,
            *("-" if c[name] is None else f"{c[name]:.4f}" for c in columns.values()),
        ]
        for name in next(iter(columns.values()))
    ]
    return Table(["", *columns], rows, right=True).to_text()


def per_query_table(query_ids: Sequence[str], values: Mapping[str, np.ndarray]) -> str:
    """Returns a table of metrics, a line per query; `-` where it does not count."""
    rows = [
        [query, *("-" if np.isnan(v) else f"{v:.4f}" for v in row)]
        for query, row in zip(trec_names.QueryNames()(query_ids), zip(*values.values()))
    ]
    return Table(["query", *values], rows, right=True).to_text()


def draw_curves(
    path: str, history: Mapping[str, list[float]], monitor: str, best_epoch: int
) -> None:
    """Draws the loss, if the history has it, and the monitored metric over the epochs.

    The history is as `tf.keras.callbacks.History` has it. A line marks `best_epoch`,
    counted from 1, whose weights were kept.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    names = [name for name in ("loss", monitor) if name in history]
    figure, axes = pyplot.subplots(
        1, len(names), figsize=(5 * len(names), 4), layout="constrained", squeeze=False
    )
    epochs = np.arange(1, len(history[monitor]) + 1)
    for axis, name in zip(axes[0], names):
        marker = "o" if len(epochs) == 1 else None
        axis.plot(epochs, history[name], label="training", marker=marker)
        axis.plot(epochs, history[f"val_{name}"], label="validation", marker=marker)
        axis.axvline(
            best_epoch, color="0.6", linestyle="--", label=f"best epoch: {best_epoch}"
        )
        axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
        axis.set(xlabel="epoch", ylabel=name, title=name)
        axis.grid(alpha=0.3)
        axis.legend()
    with named(path):
        figure.savefig(path, dpi=120)
    pyplot.close(figure)
