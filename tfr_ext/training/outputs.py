"""The files that a run writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfr_ext import data, evaluation
from tfr_ext.core import json_files
from tfr_ext.core.files import named, text_file
from tfr_ext.core.telling import say
from tfr_ext.evaluation import trec_names

# The files of a run, apart from exported versions, in the order in which they are
# removed: without the first, the run is not finished; without the last, nothing says
# what it was.
RUN_FILES = (
    "metrics.json",
    "history.tsv",
    "per_query.tsv",
    "run.trec",
    "qrels.trec",
    "run.valid.trec",
    "qrels.valid.trec",
    "curves.png",
    "tensorboard",
    "checkpoints",
    "models",
    "flags.cfg",
)


def write_per_query(
    directory: str, lists: data.RankingLists, values: Mapping[str, np.ndarray]
) -> None:
    """Writes `per_query.tsv`, with empty cells for queries that do not count.

    Args:
        directory: where the file goes.
        lists: the lists that were evaluated.
        values: per-query metrics.

    Raises:
        ValueError: if the name of a query is empty or becomes that of another.
    """
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

    Args:
        directory: where the file goes.
        history: the values of each name; names in validation begin with `val_`.
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
    lists: data.RankingLists,
    scores: np.ndarray,
    tag: str,
    judged: data.RankingLists | None = None,
    split: str = "test",
) -> None:
    """Writes `run.trec` and, for integer labels, `qrels.trec`.

    Those of the validation lists are `run.valid.trec` and `qrels.valid.trec`, with
    which `fuse` chooses its weights.

    Args:
        directory: where the files go.
        lists: the lists that were evaluated.
        scores: their scores, one per item.
        tag: name of the run.
        judged: the judged part of the lists; all of them by default.
        split: 'test' or 'valid'.
    """
    run, qrels = trec_files(split)
    evaluation.write_run(os.path.join(directory, run), lists, scores, tag)
    if not evaluation.write_qrels(
        os.path.join(directory, qrels), lists if judged is None else judged
    ):
        say(
            f"No {qrels} is written: the format needs integer labels, and some are not."
        )


def trec_files(split: str) -> tuple[str, str]:
    """Returns the names of the files with the ranking and the judgements of a split.

    Args:
        split: 'test' or 'valid'.

    Examples:
        >>> trec_files("valid")
        ('run.valid.trec', 'qrels.valid.trec')
    """
    middle = "" if split == "test" else f".{split}"
    return f"run{middle}.trec", f"qrels{middle}.trec"


def as_json(content: Mapping[str, Any]) -> str:
    """Returns the text of a JSON file with an entry per line."""
    return json.dumps(content, indent=2) + "\n"


def read_metrics(path: str) -> dict[str, Any]:
    """Reads the `metrics.json` of a finished run.

    Args:
        path: the file.

    Raises:
        ValueError: if the file is not one that training writes.
    """
    kinds = {"valid": (dict,), "test": (dict,)}
    try:
        return json_files.read_object(path, "`train`", kinds)
    except ValueError as error:
        raise ValueError(
            f"{error} Remove this file; the same command then writes it again."
        ) from error


def metric_table(columns: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a table of metrics, one column for each evaluation."""
    names = list(next(iter(columns.values())))
    width = max(len(name) for name in names)
    lines = [" " * width + "".join(f"  {c:>8}" for c in columns)]
    for name in names:
        cells = (column[name] for column in columns.values())
        lines.append(
            f"{name:<{width}}"
            + "".join(f"  {'-' if v is None else format(v, '.4f'):>8}" for v in cells)
        )
    return "\n".join(lines)


def per_query_table(query_ids: Sequence[str], values: Mapping[str, np.ndarray]) -> str:
    """Returns a table of metrics, a line per query; `-` where it does not count."""
    query_ids = trec_names.QueryNames()(query_ids)
    widths = [max(8, len(name)) for name in values]
    first = max(len("query"), *(len(query) for query in query_ids))
    lines = [f"{'query':<{first}}"]
    lines[0] += "".join(f"  {name:>{w}}" for name, w in zip(values, widths))
    for query, row in zip(query_ids, np.stack(list(values.values()), axis=1)):
        cells = ["-" if np.isnan(v) else f"{v:.4f}" for v in row]
        lines.append(
            f"{query:<{first}}"
            + "".join(f"  {cell:>{w}}" for cell, w in zip(cells, widths))
        )
    return "\n".join(lines)


def draw_curves(
    path: str, history: Mapping[str, list[float]], monitor: str, best_epoch: int
) -> None:
    """Draws the loss, if the history has it, and the monitored metric over the epochs.

    Args:
        path: the PNG file.
        history: as `tf.keras.callbacks.History` has it.
        monitor: name of the metric.
        best_epoch: the epoch whose weights were kept, counted from 1.
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
