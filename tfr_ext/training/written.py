"""Records which files a command wrote: it replaces and removes no others.

A command records the names of its files in the directory before it writes the first of
them. A file with such a name that is not in the record belongs to somebody else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence

from tfr_ext.core.files import ASIDE, check_may_write, write_atomically
from tfr_ext.core.settings import given
from tfr_ext.core.system import lock
from tfr_ext.training.fitting import checkpoints

# In these directories a command writes only files with such names; others stay.
_INSIDE = {
    "checkpoints": checkpoints.FILES,
    "tensorboard": re.compile(r"(train|validation)/events\.out\.tfevents\..*"),
}
# The runs of the models of an ensemble.
_INSIDE["models"] = re.compile(
    r"\d+/(metrics\.json|[a-z_.]+\.tsv|[a-z_.]+\.trec|curves\.png|flags\.cfg"
    rf"|\.written_by_train|{ASIDE.pattern}"
    rf"|checkpoints/({_INSIDE['checkpoints'].pattern})"
    rf"|tensorboard/{_INSIDE['tensorboard'].pattern})"
)


@dataclasses.dataclass(frozen=True)
class Files:
    """The files of a command in the directory that one of its arguments names.

    Attributes:
        command: the command, such as 'train'.
        argument: the argument.
        directory: its value.
        names: what the command may write there now.
        ever: what it may write there with other settings.
    """

    command: str
    argument: str
    directory: str
    names: Sequence[str]
    ever: Sequence[str] = ()

    @property
    def record(self) -> str:
        """The file that has the names of what was written."""
        return self.path(f".written_by_{self.command}")

    @property
    def _where(self) -> str:
        return given(self.argument, self.directory)

    def path(self, name: str) -> str:
        """Returns the path of a file."""
        return os.path.join(self.directory, name)

    def owned(self) -> list[str]:
        """Returns the names that the record has."""
        if not os.path.isfile(self.record):
            return []
        with open(self.record, encoding="utf-8", errors="replace") as file:
            recorded = file.read().splitlines()
        known = dict.fromkeys([*self.ever, *self.names])
        return [name for name in known if name in recorded]

    def check(self, inputs: Iterable[str] = ()) -> None:
        """Checks that only files that the command wrote would be replaced.

        Args:
            inputs: files and directories that the command reads.

        Raises:
            ValueError: if something else is in the place of a file, or the command
                reads it.
        """
        if os.path.lexists(self.directory) and not os.path.isdir(self.directory):
            raise ValueError(f"{self._where} must be a directory, but is a file.")
        owned = self.owned()
        outputs = [*dict.fromkeys([*owned, *self.names])]
        for path in inputs:
            for name in outputs:
                if is_within(path, self.path(name)):
                    raise ValueError(
                        f"{path} is an input that `{self.command}` would replace: it "
                        f"writes {name} to {self._where}. Name another directory."
                    )
        foreign = [
            name
            for name in outputs
            if (name not in owned and self._entries(name)) or self._is_other_kind(name)
        ]
        if foreign:
            raise ValueError(
                f"{self._where} has files that `{self.command}` did not write and "
                "would replace: "
                f"{', '.join(foreign)}. Name another directory, or move them away."
            )

    @contextlib.contextmanager
    def alone(self, work: str, inputs: Iterable[str] = ()) -> Iterator[None]:
        """Checks as `check` does, and locks the directory.

        Args:
            work: what the command does, for messages.
            inputs: files and directories that it reads.

        Raises:
            ValueError: see `check`, or if another process is at work there.
            OSError: if this user may not write there.
        """
        self.check(inputs)
        check_may_write(self.directory)
        with lock.alone(self.directory, work):
            yield

    def claim(self) -> None:
        """Records all names, and those of earlier files that still exist.

        Raises:
            ValueError: if something else has come to be in the place of a file.
        """
        self.check()
        kept = [name for name in self.owned() if self._entries(name)]
        lines = [
            f"# What {self.command} wrote here: it replaces nothing else.",
            *dict.fromkeys([*kept, *self.names]),
        ]
        write_atomically(self.record, "\n".join(lines) + "\n")

    def remove(self, names: Iterable[str] | None = None) -> None:
        """Removes files that are in the record, in the order of their names there.

        Args:
            names: names of the files; all by default.
        """
        wanted = None if names is None else set(names)
        for name in self.owned():
            if wanted is not None and name not in wanted:
                continue
            # Without its record, a model of an ensemble does not know its files again.
            for entry in sorted(self._entries(name), key=_is_record):
                if os.path.isdir(entry) and not os.path.islink(entry):
                    shutil.rmtree(entry)
                else:
                    os.remove(entry)
            if name in _INSIDE:
                _remove_empty(self.path(name))

    def present(self) -> list[str]:
        """Returns the names that exist, directories with a slash."""
        return [
            f"{name}/" if name in _INSIDE else name
            for name in self.names
            if self._entries(name)
        ]

    def _entries(self, name: str) -> list[str]:
        """Returns the paths that belong to a name and exist."""
        path = self.path(name)
        if name not in _INSIDE or not os.path.isdir(path):
            return [path] if os.path.lexists(path) else []
        return [
            entry
            for folder, folders, files in os.walk(path)
            for entry in (os.path.join(folder, inner) for inner in folders + files)
            if _INSIDE[name].fullmatch(os.path.relpath(entry, path))
        ]

    def _is_other_kind(self, name: str) -> bool:
        path = self.path(name)
        return os.path.lexists(path) and (name in _INSIDE) != os.path.isdir(path)


def is_within(path: str, directory: str) -> bool:
    """Tells whether a path is a directory or in it, after links are resolved."""
    path, directory = os.path.realpath(path), os.path.realpath(directory)
    return path == directory or path.startswith(directory + os.sep)


def _is_record(path: str) -> bool:
    """Tells whether a path is that of the record of a command."""
    return os.path.basename(path).startswith(".written_by_")


def _remove_empty(directory: str) -> None:
    """Removes a directory, and those in it, where they are empty."""
    for path, _, _ in os.walk(directory, topdown=False):
        if not os.path.islink(path):
            # It is not empty, or another process has just removed it or written there.
            with contextlib.suppress(OSError):
                os.rmdir(path)
