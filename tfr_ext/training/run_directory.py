"""The directory of a training run: whose it is, and what may be written there."""

from __future__ import annotations

import os

from pipelines.flags import run_flags, shared_flags
from tfr_ext.core.files import write_atomically
from tfr_ext.training import checkpoints, outputs, written
from tfr_ext.training.sources import data_splits

FLAGS = shared_flags.FLAGS

_ANEW = "Name another directory, or start anew in this one with --overwrite."
# What the last step of a run writes, after training.
RESULTS = tuple(
    name
    for name in outputs.RUN_FILES
    if name not in ("checkpoints", "tensorboard", "flags.cfg")
)


class RunDirectory:
    """--model_dir, seen from the training that the other flags describe.

    Nothing is written or removed before `begin`.
    """

    def __init__(self) -> None:
        """Names the files that the flags want."""
        self._directory = FLAGS.model_dir
        self._data: str | None = None
        self._begun = False
        self.files = written.Files(
            "train",
            "model_dir",
            FLAGS.model_dir,
            [n for n in outputs.RUN_FILES if n != "curves.png" or FLAGS.draw_curves],
            outputs.RUN_FILES,
            lambda directory: run_flags.is_of_training(_flag_file(directory)),
        )

    def check(self) -> None:
        """Checks that the directory is free, or has this very run.

        Raises:
            ValueError: if it has files of something else, or another run that has
                trained and is not to be overwritten.
        """
        self.files.check(data_splits.paths(FLAGS))
        if FLAGS.overwrite or not self.has_trained:
            return
        text = _flag_file(self._directory)
        if not run_flags.is_of_training(text):
            self._refuse(
                "has a run, but not its flags.cfg: nobody knows what it trained"
            )
        differences = run_flags.differences(text)
        if differences:
            self._refuse("has a run with other flags:\n  " + "\n  ".join(differences))

    def check_data(self, digest: str) -> None:
        """Checks that a run in the directory read the same data.

        Args:
            digest: that of the data, see `checksums.of_data`.

        Raises:
            ValueError: if it read other data.
        """
        self._data = digest
        if FLAGS.overwrite or not self.has_trained:
            return
        then = run_flags.data_digest(_flag_file(self._directory))
        if then is None:
            print(
                f"Warning: the run in {self._directory} does not tell which data it "
                "read, as it is older than that. It goes on with the data of now."
            )
        elif then != digest:
            self._refuse(
                f"has a run on other data:\n  SHA-256 {then} then, {digest} now"
            )

    @property
    def has_trained(self) -> bool:
        """Whether there is a run that has finished an epoch, and saved it."""
        progress = checkpoints.read_progress(self.files.path("checkpoints"))
        return self.is_finished or (progress is not None and progress.epochs > 0)

    @property
    def is_finished(self) -> bool:
        """Whether there is a finished run.

        Raises:
            ValueError: if its results are cut short.
        """
        path = self.files.path("metrics.json")
        return os.path.exists(path) and bool(outputs.read_metrics(path))

    def begin(self) -> None:
        """Makes the directory that of this run; what it may replace is removed.

        Only the first call does anything.
        """
        if self._begun:
            return
        self._begun = True
        assert self._data is not None  # `check_data` was called.
        has_trained = False if FLAGS.overwrite else self.has_trained
        self.files.claim()
        if not has_trained:
            self.files.remove()
        write_atomically(
            self.files.path("flags.cfg"), run_flags.as_flag_file(self._data)
        )

    def _refuse(self, what: str) -> None:
        raise ValueError(f"--model_dir={self._directory} {what}\n{_ANEW}")


def is_other_run(directory: str) -> bool:
    """Tells whether a directory has a run with other flags.

    Args:
        directory: as --model_dir names it.
    """
    text = _flag_file(directory)
    return bool(text) and bool(run_flags.differences(text))


def _flag_file(directory: str) -> str:
    """Returns the text of `flags.cfg`, empty if there is none."""
    path = os.path.join(directory, "flags.cfg")
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
