"""`state.json`: the progress of a training run."""

from __future__ import annotations

import dataclasses
import json
import os

STATE_FILE = "state.json"
REMEDY = (
    "Start again: `train` does so with `overwrite=True`; elsewhere, remove the "
    "directory of the checkpoints."
)


@dataclasses.dataclass
class Progress:
    """The progress of a training run.

    Attributes:
        epochs: number of finished epochs.
        history: losses and metrics of each finished epoch.
        best_epoch: the best epoch by the monitored metric, counted from 1; 0 before.
        stopped: whether early stopping ended the run.
        batches: number of finished batches of the epoch after these.
    """

    epochs: int = 0
    history: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    best_epoch: int = 0
    stopped: bool = False
    batches: int = 0

    @property
    def has_begun(self) -> bool:
        """Whether anything was trained."""
        return self.epochs + self.batches > 0

    def describe(self) -> str:
        """Returns the progress in words.

        Examples:
            >>> Progress(epochs=2, best_epoch=1, batches=7).describe()
            'batch 7 of epoch 3'
        """
        if self.batches:
            return f"batch {self.batches} of epoch {self.epochs + 1}"
        return f"epoch {self.epochs}"

    def __post_init__(self) -> None:
        """Checks the content of a file."""
        counts = (self.epochs, self.best_epoch, self.batches)
        if any(type(count) is not int for count in counts):
            raise TypeError("`epochs`, `best_epoch` and `batches` must be integers")
        if self.batches < 0:
            raise ValueError("`batches` must not be negative")
        if type(self.stopped) is not bool:
            raise TypeError("`stopped` must be true or false")
        if not isinstance(self.history, dict) or not all(
            isinstance(values, list) and all(type(v) in (int, float) for v in values)
            for values in self.history.values()
        ):
            raise TypeError("`history` must have lists of numbers")
        if not min(self.epochs, 1) <= self.best_epoch <= self.epochs:
            raise ValueError("`best_epoch` must be one of the finished epochs")
        if any(len(values) > self.epochs for values in self.history.values()):
            raise ValueError("`history` must not have more values than `epochs`")


def read_progress(directory: str) -> Progress | None:
    """Reads the progress of a run from its checkpoints; None if no epoch was saved."""
    path = os.path.join(directory, STATE_FILE)
    if not os.path.lexists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        names = [field.name for field in dataclasses.fields(Progress)]
        if not isinstance(content, dict) or not {*content} <= {*names}:
            raise ValueError(f"expected an object with {', '.join(names)}")
        return Progress(**content)
    except (OSError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} does not say how far training has come: {error}. {REMEDY}"
        ) from error
