"""Lists of a few relevant and a few other candidates, and the best epoch on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.core.inputs import PADDING_LABEL
from tfr_ext.core.messages import say
from tfr_ext.data.batches.batch_datasets import dataset_of
from tfr_ext.data.lists import RankingLists
from tfr_ext.data.tables import row_arrays
from tfr_ext.evaluation import queries

TOKENS = "tokens"
_COLUMNS = ("query_id", "query", "document", "label")

Rows = list[np.ndarray]


def divided(frame: Any, share: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Returns the rows of each query to train on, and of each that is held out.

    Queries without relevant documents, or without others, say nothing to either.
    """
    lacking = [x for x in _COLUMNS if x not in frame]
    if lacking:
        raise ValueError(
            f"`frame` lacks the columns {', '.join(lacking)}: it must be as "
            "`tfr_ext.text.embed` writes it, with `qrels`."
        )
    labels = row_arrays.per_item("label", frame["label"], len(frame))
    found: dict[str, list[int]] = {}
    ids = row_arrays.names(frame["query_id"], len(frame), "the query")
    for row, query in enumerate(ids):
        found.setdefault(query, []).append(row)
    rows = [np.array(of_query) for of_query in found.values()]
    both = [x for x in rows if {*(labels[x] > 0)} == {True, False}]
    if len(both) < 2:
        raise ValueError(
            f"Of the {len(rows)} queries of `frame`, {len(both)} have relevant "
            "documents and others. Expected at least two, one of which is held out."
        )
    order = rng.permutation(len(both))
    held = min(max(1, round(share * len(both))), len(both) - 1)
    return [both[i] for i in order[held:]], [both[i] for i in order[:held]]


def dataset(
    tokens: np.ndarray,
    labels: np.ndarray,
    rows: Rows,
    sizes: tuple[int, int],
    rng: np.random.Generator,
    pad: int = 0,
) -> tf.data.Dataset:
    """Returns a list of each query of `rows`, drawn anew in each epoch.

    A list has at most `sizes[0]` relevant documents, and others up to `sum(sizes)` in
    all.
    """
    size = sum(sizes)
    signature = (
        {TOKENS: tf.TensorSpec([size, tokens.shape[1]], tf.int32)},
        tf.TensorSpec([size], tf.float32),
    )
    orders: list[np.ndarray] = []

    def begin() -> int:
        orders.append(rng.permutation(len(rows)))
        return len(orders) - 1

    def drawn(epoch: int, number: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        of_query = rng.permutation(rows[orders[epoch][number]])
        relevant = of_query[labels[of_query] > 0][: sizes[0]]
        others = of_query[labels[of_query] <= 0][: size - len(relevant)]
        chosen = np.concatenate([relevant, others])
        of_list = np.full([size, tokens.shape[1]], pad, np.int32)
        of_list[: len(chosen)] = tokens[chosen]
        grades = np.full(size, PADDING_LABEL, np.float32)
        grades[: len(chosen)] = labels[chosen]
        return {TOKENS: of_list}, grades

    return dataset_of(begin, drawn, len(rows), signature)


class BestEpoch(which_keras.Callback):
    """Measures each epoch on lists that are held out, and keeps the best weights.

    `best_epoch` is counted from 1.
    """

    def __init__(
        self,
        score: Callable[[np.ndarray], np.ndarray],
        tokens: np.ndarray,
        labels: np.ndarray,
        rows: Sequence[np.ndarray],
        monitor: str,
        patience: int,
        is_told: bool,
    ):
        """Initialises the callback.

        `rows` has the rows of each query that is held out. Training stops after
        `patience` epochs without a better one; 0 is for never.
        """
        super().__init__()
        held = np.concatenate(rows)
        self._score, self._tokens, self._monitor = score, tokens[held], monitor
        self._patience, self._is_told = patience, is_told
        self._lists = RankingLists(
            np.zeros([len(held), 0], np.float32),
            labels[held],
            np.cumsum([0, *map(len, rows)]),
            [str(i) for i in range(len(rows))],
        )
        self.history: dict[str, list[float]] = {"loss": [], monitor: []}
        self.best_epoch, self.weights = 0, list[np.ndarray]()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Measures the epoch, and keeps its weights if it is the best so far."""
        scores = self._score(self._tokens)
        if not np.isfinite(scores).all():
            said = f"Scores are not finite after epoch {epoch + 1}"
            if not self.best_epoch:
                raise ValueError(f"{said}. Lower the learning rates.")
            if self._is_told:
                say(f"{said}: training stops, and the best epoch is kept.")
            self.model.stop_training = True
            return
        found = queries.per_query(self._lists, scores, [self._monitor])
        value = float(np.nanmean(next(iter(found.values()))))
        loss = float((logs or {})["loss"])
        before = self.history[self._monitor]
        sign = 1 if queries.higher_is_better(self._monitor) else -1
        if sign * value > max((sign * x for x in before), default=-np.inf):
            self.best_epoch, self.weights = epoch + 1, self.model.get_weights()
        before.append(value)
        self.history["loss"].append(loss)
        if self._is_told:
            say(
                f"Epoch {epoch + 1}: loss {loss:.4f}, {self._monitor} {value:.4f} on "
                f"{self._lists.num_lists} queries held out"
            )
        if self._patience and epoch + 1 - self.best_epoch >= self._patience:
            self.model.stop_training = True
