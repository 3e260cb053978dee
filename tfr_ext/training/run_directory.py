"""The directory of a training run: which run it holds, and what it may replace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tfr_ext.core.files import write_atomically
from tfr_ext.core.settings import given
from tfr_ext.sources import data_splits
from tfr_ext.training import outputs, run_file, written
from tfr_ext.training.ensembles import members
from tfr_ext.training.fitting import run_progress

_ANEW = "Name another directory, or start again in this one with `overwrite=True`."
# What training a network writes until it ends.
OF_NETWORKS = ("checkpoints", "tensorboard", "models")
# What the last step of a run writes, after training.
RESULTS = tuple(
    name for name in outputs.RUN_FILES if name not in (*OF_NETWORKS, "flags.cfg")
)


class RunDirectory:
    """`model_dir`, for the training that the other settings describe.

    Nothing is written or removed before `begin`.
    """

    def __init__(
        self,
        config: Any,
        in_memory: bool = False,
        names: Sequence[str] = outputs.RUN_FILES,
    ) -> None:
        """Finds the names of the files that the run writes.

        Args:
            config: the settings, with `model_dir`: a `TrainingConfig`, or others with
                the same settings of a run.
            in_memory: whether the lists are in memory, rather than read as the settings
                say.
            names: names of the files that such runs write.
        """
        assert config.model_dir is not None
        self._config = config
        self._in_memory = in_memory
        self._directory = config.model_dir
        self._data: str | None = None
        self._begun = False
        # Those of a `TrainingConfig` have directories of their own.
        self._members = (
            members.configs(config)
            if members.DIRECTORY in names and config.num_models > 1
            else []
        )
        self.files = written.Files(
            config.COMMAND,
            "model_dir",
            config.model_dir,
            _wanted(names, config),
            names,
        )

    def check(self) -> None:
        """Checks that the directory is free, or holds this very run.

        Raises:
            ValueError: if it holds other files, or another run that has trained and
                must not be overwritten.
        """
        self.files.check(data_splits.paths(self._config.data))
        if self._config.overwrite or not self.has_trained:
            return
        text = flag_file(self._directory)
        if not self._is_of_training(text):
            self._refuse(
                "holds a run without its flags.cfg, so that nothing says what was "
                "trained."
            )
        differences = run_file.differences(text, self._config)
        if differences:
            self._refuse(
                "holds a run with other settings:\n  " + "\n  ".join(differences)
            )

    def check_data(self, digest: str) -> None:
        """Checks that a run in the directory read the same data.

        Args:
            digest: the digest of the data, see `sources.source.Source.digest`.

        Raises:
            ValueError: if that run read other data.
        """
        self._data = digest
        if self._config.overwrite or not self.has_trained:
            return
        then = run_file.data_digest(flag_file(self._directory))
        if then != digest:
            self._refuse(
                f"holds a run on other data:\n  SHA-256 {then or '(none)'} then, "
                f"{digest} now"
            )

    @property
    def has_trained(self) -> bool:
        """Whether there is a run that has saved what it trained."""
        if self.is_finished or any(
            RunDirectory(one).has_trained for one in self._members
        ):
            return True
        progress = run_progress.read_progress(self.files.path("checkpoints"))
        return progress is not None and progress.has_begun

    @property
    def is_finished(self) -> bool:
        """Whether there is a finished run.

        Raises:
            ValueError: if its results are cut short.
        """
        path = self.files.path("metrics.json")
        return os.path.exists(path) and bool(outputs.read_metrics(path))

    def begin(self) -> None:
        """Claims the directory for this run, and removes what the run may replace.

        Only the first call does anything.
        """
        if self._begun:
            return
        self._begun = True
        assert self._data is not None  # `check_data` was called.
        has_trained = False if self._config.overwrite else self.has_trained
        self.files.claim()
        if not has_trained:
            self.files.remove()
        write_atomically(
            self.files.path("flags.cfg"),
            run_file.of_training(self._config, self._data, self._in_memory),
        )

    def _is_of_training(self, text: str) -> bool:
        return run_file.is_of_training(text, self._config.COMMAND)

    def _refuse(self, what: str) -> None:
        raise ValueError(f"{given('model_dir', self._directory)} {what}\n{_ANEW}")


def _wanted(names: Sequence[str], config: Any) -> list[str]:
    """Returns those of the names of files that a run writes by its settings."""
    without = set() if config.draw_curves else {"curves.png"}
    if config.num_models > 1:
        without |= {"checkpoints", "tensorboard"}
    else:
        without |= {members.DIRECTORY}
    return [name for name in names if name not in without]


def is_other_run(config: Any) -> bool:
    """Tells whether the directory of a run holds one with other settings.

    Args:
        config: the settings, with `model_dir`.
    """
    assert config.model_dir is not None
    text = flag_file(config.model_dir)
    return bool(text) and bool(run_file.differences(text, config))


def flag_file(directory: str) -> str:
    """Returns the text of the `flags.cfg` of a run, empty if there is none.

    Args:
        directory: the directory of the run.
    """
    path = os.path.join(directory, "flags.cfg")
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
