"""Trains the models of an ensemble side by side, each in a process of its own."""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core import messages
from tfr_ext.core.system import child_process, termination
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.training import members

# The errors that `train` announces, by what a process sends for them.
_ERRORS = {
    kind.__name__: kind
    for kind in (ValueError, FloatingPointError, OSError, MemoryError)
}
# The messages of a process: a line that it prints; that its first epoch has ended, and
# it waits for permission to write; that it has finished; or its error.
_LINE, _BEGIN, _END, _ERROR = "line", "begin", "end", "error"


def train(
    config: TrainingConfig,
    configs: Sequence[TrainingConfig],
    train_one: Callable[..., None],
    origin: Any,
    before_writing: Callable[[], None],
) -> None:
    """Trains models in processes, `parallel_models` at a time.

    What a process prints appears line by line, with the number of its model. The first
    error ends all of them; what they have saved stays, so that the same call goes on.
    SIGTERM in a command lets all of them save what they have.

    Args:
        config: the settings of the ensemble.
        configs: those of each model.
        train_one: a function of a module that trains one: it takes its settings, the
            lists in memory, and what to call before anything is written.
        origin: the lists in memory, None if they are read as the settings say.
        before_writing: called in this process before the first file is written.

    Raises:
        ValueError: If settings or data are wrong.
        OSError: If a file cannot be read or written, or a process was killed.
        FloatingPointError: If the loss of a model becomes NaN or infinite.
    """
    waiting = list(enumerate(configs, 1))[::-1]
    numbers: dict[Any, int] = {}
    asking: list[Any] = []  # Pipes of processes that wait until they may write.
    with child_process.Pool() as pool:
        try:
            while waiting or len(pool):
                while waiting and len(pool) < config.parallel_models:
                    number, one = waiting.pop()
                    pipe = pool.start(_work, train_one, one, origin, _threads())
                    numbers[pipe] = number
                for pipe in pool.ready():
                    kind, content = _message(pool, pipe)
                    if kind == _LINE:
                        messages.say(f"[{numbers[pipe]}] {content}")
                    elif kind == _BEGIN:
                        asking.append(pipe)
                        _permit(pool, asking, before_writing)
                    elif kind == _END:
                        pool.join(pipe)
                    else:
                        error, text = content
                        name = members.name(config, numbers[pipe])
                        raise _ERRORS[error](f"{name}: {text}")
        finally:
            if termination.came():
                _let_save(pool, asking, before_writing)


def _permit(
    pool: child_process.Pool, asking: list[Any], before_writing: Callable[[], None]
) -> None:
    """Permits processes to write; after an interruption, it can be repeated."""
    while asking:
        before_writing()
        pool.send(asking[-1], None)
        asking.pop()


def _let_save(
    pool: child_process.Pool, asking: list[Any], before_writing: Callable[[], None]
) -> None:
    """Asks processes to stop, and permits them to write what they have."""
    pool.stop()
    _permit(pool, asking, before_writing)
    while len(pool):
        for pipe in pool.ready():
            try:
                if pool.receive(pipe)[0] == _BEGIN:
                    _permit(pool, [pipe], before_writing)
            except child_process.Ended:
                pool.join(pipe)


def _message(pool: child_process.Pool, pipe: Any) -> tuple[str, Any]:
    """Returns a message of a process, or the error that it was killed."""
    try:
        return pool.receive(pipe)
    except child_process.Ended as ended:
        return _ERROR, (
            "OSError",
            f"its process {ended} before its work did. If memory is short, train "
            "fewer models at a time (`parallel_models`). The same training goes on.",
        )


def _threads() -> tuple[int, int]:
    """Returns the numbers of threads, on which the last digits of a result depend."""
    threading = tf.config.threading
    return (
        threading.get_intra_op_parallelism_threads(),
        threading.get_inter_op_parallelism_threads(),
    )


def _work(
    pipe: Any,
    train_one: Callable[..., None],
    config: TrainingConfig,
    origin: Any,
    threads: tuple[int, int],
) -> None:
    """Trains a model, and sends its output and its outcome to the parent."""
    tf.config.threading.set_intra_op_parallelism_threads(threads[0])
    tf.config.threading.set_inter_op_parallelism_threads(threads[1])

    def before_writing() -> None:
        pipe.send((_BEGIN, None))
        pipe.recv()

    outcome: tuple[str, Any] = (_END, None)
    try:
        with contextlib.redirect_stdout(_Lines(pipe)), messages.silent():
            train_one(config, origin, before_writing)
    except Exception as error:  # Whatever it is, the parent reports it.
        kind = next((k for k, v in _ERRORS.items() if isinstance(error, v)), None)
        text = str(error) or type(error).__name__
        if isinstance(error, tf.errors.OpError):
            kind = "OSError"
        if kind is None:
            kind, text = "OSError", f"its process failed:\n{traceback.format_exc()}"
        outcome = (_ERROR, (kind, text))
    pipe.send(outcome)


class _Lines(io.TextIOBase):
    """A stream that sends whole lines."""

    def __init__(self, pipe: Any):
        """Initialises the stream."""
        self._pipe, self._begun = pipe, ""

    def write(self, text: str) -> int:
        """Takes a text, and sends the lines that it ends."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._pipe.send((_LINE, line))
        return len(text)
