"""The directory of a training run: which run it holds, and what it may replace."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

from tfr_ext.core.messages import say
from tfr_ext.core.settings import given
from tfr_ext.core.system import lock
from tfr_ext.runs import outputs, run_file
from tfr_ext.runs.owned_files import OwnedFiles, ensemble_directories
from tfr_ext.runs.run_progress import read_progress

# What training a network writes until it ends.
OF_NETWORKS = ("checkpoints", "tensorboard", "models")
# The files of a run, apart from exported versions, in the order in which they are
# removed: without the first, the run is not finished; without the last, nothing says
# what it was.
RUN_FILES = (*outputs.RESULTS, *OF_NETWORKS, "flags.cfg")


class RunDirectory:
    """`model_dir`, for the training that the other settings describe.

    Nothing is written or removed before `begin`.
    """

    def __init__(
        self,
        config: Any,
        in_memory: bool = False,
        names: Sequence[str] = RUN_FILES,
    ) -> None:
        """Finds out which of `names`, the files of such runs, this run writes.

        `config` has a `model_dir`: it is a `TrainingConfig`, or has the same settings
        of a run. With `in_memory`, the lists are in memory, rather than read as it
        says.
        """
        assert config.model_dir is not None
        self._config = config
        self._in_memory = in_memory
        self._data: str | None = None
        self._begun = False
        without = set() if config.draw_curves else {"curves.png"}
        of_one, of_several = {"checkpoints", "tensorboard"}, {"models"}
        without |= of_one if config.num_models > 1 else of_several
        wanted = [name for name in names if name not in without]
        self.files = OwnedFiles(
            config.COMMAND, "model_dir", config.model_dir, wanted, names
        )

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Locks the directory, see `lock.alone`."""
        return lock.alone(self.files.directory, "training")

    def check(self, inputs: Iterable[str]) -> None:
        """Checks that the directory is free, or holds this very run."""
        self.files.check(inputs)
        if self._config.overwrite or not self.has_trained:
            return
        text = self._flag_file()
        if not run_file.is_of_training(text, self._config.COMMAND):
            raise self._refusal(
                "a run without its flags.cfg, so that nothing says what was trained."
            )
        differences = run_file.differences(text, self._config)
        if differences:
            raise self._refusal("a run with other settings", differences)

    def check_data(self, digest: str) -> None:
        """Checks that a run in the directory read the data of this `Source.digest`."""
        self._data = digest
        if self._config.overwrite or not self.has_trained:
            return
        then = run_file.data_digest(self._flag_file())
        if then != digest:
            both = f"SHA-256 {run_file.changed(then or '(none)', digest)}"
            raise self._refusal("a run on other data", [both])

    @property
    def holds_another(self) -> bool:
        """Whether there is a run with other settings."""
        text = self._flag_file()
        return bool(text) and bool(run_file.differences(text, self._config))

    @property
    def has_trained(self) -> bool:
        """Whether there is a run that has saved what it trained."""
        directories = [self.files.directory]
        if "models" in self.files.names:
            directories += ensemble_directories(self._config)
        keeps = "checkpoints" in self.files.ever
        return any(
            _is_finished(directory) or (keeps and _has_begun(directory))
            for directory in directories
        )

    @property
    def is_finished(self) -> bool:
        """Whether a run is finished; raises a ValueError if its results are cut off."""
        return _is_finished(self.files.directory)

    def finished(self) -> dict[str, Any] | None:
        """Prints that the run is finished, and returns its `metrics.json`.

        Returns None if the run is not finished, or is to be overwritten.
        """
        if self._config.overwrite or not self.is_finished:
            return None
        say(f"The run in {self.files.directory} is finished: there is nothing to do.")
        return outputs.read_metrics(self.files.path("metrics.json"))

    def begin(self) -> None:
        """At the first call, claims the directory, and removes what may be replaced."""
        if self._begun:
            return
        assert self._data is not None  # `check_data` was called.
        self.files.claim(anew=self._config.overwrite or not self.has_trained)
        text = run_file.of_training(self._config, self._data, self._in_memory)
        self.files.write("flags.cfg", text)
        self._begun = True  # Last, since SIGTERM may come before.

    def _flag_file(self) -> str:
        return flag_file(self.files.directory)

    def _refusal(self, what: str, differences: Sequence[str] = ()) -> ValueError:
        return refusal("model_dir", self.files.directory, f"holds {what}", differences)


def refusal(
    argument: str, directory: str, what: str, differences: Sequence[str] = ()
) -> ValueError:
    """Returns the error of a command that would go on with something else.

    `what` says what the directory has, such as 'holds a run with other settings'.
    """
    lines = "\n  ".join([f"{what}:", *differences]) if differences else what
    return ValueError(
        f"{given(argument, directory)} {lines}\nName another directory, or start again "
        "in this one with `overwrite=True`."
    )


def flag_file(directory: str) -> str:
    """Returns the text of the `flags.cfg` of a run, empty if there is none."""
    path = os.path.join(directory, "flags.cfg")
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _is_finished(directory: str) -> bool:
    path = os.path.join(directory, "metrics.json")
    return os.path.exists(path) and bool(outputs.read_metrics(path))


def _has_begun(directory: str) -> bool:
    progress = read_progress(os.path.join(directory, "checkpoints"))
    return progress is not None and progress.has_begun
