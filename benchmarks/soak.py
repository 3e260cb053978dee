"""Does a long training keep more and more memory, files or threads?

    python benchmarks/soak.py [--minutes 60]

Trains in this one process two runs on the same ELWC shards (2,000 queries of 10 to 20
items of 30 features, epochs of about a second, a validation after each): one streams
the shards, one holds them in memory. They take turns of two and a half minutes; the
other waits at a batch. Checkpoints are written every second in the middle of epochs.
Whenever the turn changes, an export ranks 666 lists.

Every 15 seconds it takes the resident memory after a garbage collection, and the number
of open files, threads and child processes, and the size of the folder of both runs. The
first sixth of the time warms up. Of the sixth after it and of the last sixth it prints,
for the turns of each run, the median of the memory, and the least number of files,
threads and child processes, since an epoch opens and closes some of each. It exits with
status 1 if the memory has grown by more than 30 MB, or one of the numbers at all. The
folder grows by TensorBoard's logs and the history. Linux; MB are 10**6 bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).parents[1]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")  # as the commands do

from tfr_ext.core import messages  # noqa: E402
from tfr_ext.core.system import termination  # noqa: E402
from tfr_ext.serving.exporter import load_scorer  # noqa: E402
from tfr_ext.training import (  # noqa: E402
    DataConfig,
    ModelConfig,
    RankConfig,
    TrainingConfig,
    rank,
    train,
)

import tensorflow as tf  # noqa: E402  isort: skip

COLUMNS = ("memory MB", "files", "threads", "children", "folder MB", "epochs")
MAY_GROW = {"memory MB": 30.0, "files": 0.0, "threads": 0.0, "children": 0.0}
RUNS = ("streamed", "in memory")
# Turns of all runs together.
_TURNS = 24


class Run(tf.keras.callbacks.Callback):
    """A run in a thread of its own, which trains when it is its turn.

    Attributes:
        turn: set while it is.
        epochs: number of finished epochs.
        error: why it has ended, if it has.
    """

    def __init__(self, config: TrainingConfig):
        """Starts the thread."""
        super().__init__()
        self.turn = threading.Event()
        self.epochs = 0
        self.error: BaseException | None = None
        self._config = config
        self.thread = threading.Thread(target=self._train, daemon=True)
        self.thread.start()

    def _train(self) -> None:
        self.turn.wait()
        try:
            with messages.silent():
                train(self._config, callbacks=[self])
        except BaseException as error:
            self.error = error

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """See `tf.keras.callbacks.Callback`."""
        self.turn.wait()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """See `tf.keras.callbacks.Callback`."""
        self.epochs = epoch + 1


def measured(folder: str) -> list[float]:
    """Returns the first five figures of `COLUMNS` for this process."""
    gc.collect()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    children = 0
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # The thread has ended.
            with open(f"/proc/self/task/{task}/children") as file:
                children += len(file.read().split())
    size = 0
    for path in pathlib.Path(folder).rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # A checkpoint was replaced.
            size += path.stat().st_size
    files = len(os.listdir("/proc/self/fd"))
    threads = len(os.listdir("/proc/self/task"))
    return [resident / 1e6, files, threads, children, size / 1e6]


def start(shards: str, folder: str) -> dict[str, Run]:
    """Starts the two runs; the first to have its turn is to be chosen."""
    return {
        name: Run(
            TrainingConfig(
                data=DataConfig(
                    dataset="elwc", data_dir=shards, stream=name == "streamed"
                ),
                model=ModelConfig(hidden_sizes=(64, 32), dropout=0.2),
                model_dir=os.path.join(folder, name),
                batch_size=32,
                num_epochs=1_000_000,
                checkpoint_minutes=1 / 60,
                verbose="silent",
            )
        )
        for name in RUNS
    }


def soak(folder: str, minutes: float) -> list[tuple[float, str, dict[str, float]]]:
    """Trains for some minutes; returns the minute, the run and the figures of each."""
    shards, home = os.path.join(folder, "shards"), os.path.join(folder, "runs")
    command = [sys.executable, "-m", "pipelines.prepare", "--shard_megabytes=1"]
    command += ["--synthetic_num_queries=3333", "--synthetic_list_size=20"]
    command += ["--synthetic_document_features=25", f"--output_dir={shards}"]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    first = TrainingConfig(
        data=DataConfig(dataset="elwc", data_dir=shards),
        num_epochs=1,
        model_dir=os.path.join(folder, "exported"),
        verbose="silent",
    )
    new = RankConfig(
        input=(os.path.join(shards, "test-*"),),
        dataset="elwc",
        output=os.path.join(folder, "ranked.trec"),
        overwrite=True,
    )
    with messages.silent():
        scorer = load_scorer(train(first).paths["export"])
    runs = start(shards, home)
    samples: list[tuple[float, str, dict[str, float]]] = []
    print(f"{'minute':>7}  {'turn':<10}{''.join(f'{c:>11}' for c in COLUMNS)}")
    begun = time.monotonic()
    while True:
        turn = int((time.monotonic() - begun) / 60 / minutes * _TURNS)
        name = RUNS[turn % len(RUNS)]
        run = runs[name]
        if not run.turn.is_set():
            for other in runs.values():
                other.turn.clear()
            with messages.silent():
                rank(new, scorer)
            run.turn.set()
        time.sleep(minutes / 4)  # 240 measurements: seconds are minutes / 240 * 60.
        minute = (time.monotonic() - begun) / 60
        figures = dict(zip(COLUMNS, [*measured(home), run.epochs]))
        samples.append((minute, name, figures))
        values = "".join(f"{figures[column]:>11,.0f}" for column in COLUMNS)
        print(f"{minute:>7.2f}  {name:<10}{values}", flush=True)
        if run.error is not None:
            raise run.error
        if minute >= minutes:
            break
    for run in runs.values():
        termination.request()
        run.turn.set()
        run.thread.join()
        if not isinstance(run.error, KeyboardInterrupt):
            raise RuntimeError("The run has ended by itself.") from run.error
    return samples


def main() -> None:
    """Prints the table, and tells by the status whether something grew."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as folder:
        samples = soak(folder, minutes)
    windows = ((minutes / 6, minutes / 3), (minutes * 5 / 6, minutes))
    grown = []
    for name in RUNS:
        for column in COLUMNS:
            first, last = (
                (statistics.median if "MB" in column else min)(
                    figures[column]
                    for minute, its, figures in samples
                    if its == name and low <= minute <= high
                )
                for low, high in windows
            )
            print(f"{name:<10} {column:<10}{first:>10,.1f} then {last:>10,.1f} at last")
            if column in MAY_GROW and last - first > MAY_GROW[column]:
                grown.append(f"{column} ({name})")
    if grown:
        sys.exit(f"Grown: {', '.join(grown)}.")
    print("Nothing has grown.")


if __name__ == "__main__":
    main()
