"""Tracks a command's files, so that it replaces and removes no others.

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
from typing import Any

from tfr_ext.core.files import ASIDE, is_within, write_atomically
from tfr_ext.core.settings import given
from tfr_ext.core.system import lock

_RECORD = ".written_by_"
# The checkpoints of a run, including half-written ones.
CHECKPOINT = re.compile(r"(last|best)-\d+(-\d+)?(_temp|\.[^/]*)")
# In these directories a command writes only files with such names; others stay.
_INSIDE = {
    "checkpoints": re.compile(rf"{CHECKPOINT.pattern}|state\.json|{ASIDE.pattern}"),
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
class OwnedFiles:
    """The files of a command in the directory that one of its arguments names.

    Attributes:
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
        """The file with the names of the written files."""
        return self.path(f"{_RECORD}{self.command}")

    @property
    def _where(self) -> str:
        return given(self.argument, self.directory)

    def path(self, name: str) -> str:
        """Returns the path of a file."""
        return os.path.join(self.directory, name)

    def write(self, name: str, text: str) -> None:
        """Writes a text file, which is there whole or not at all."""
        write_atomically(self.path(name), text)

    def owned(self) -> list[str]:
        """Returns the names in the record."""
        if not os.path.isfile(self.record):
            return []
        with open(self.record, encoding="utf-8", errors="replace") as file:
            recorded = file.read().splitlines()
        known = dict.fromkeys([*self.ever, *self.names])
        return [name for name in known if name in recorded]

    def check(self, inputs: Iterable[str] = ()) -> None:
        """Checks that the command would replace only what it wrote, and no input."""
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
        check_foreign(self._where, self.command, foreign)

    def claim(self, anew: bool = False) -> None:
        """Records all names, and those of earlier files that still exist.

        With `anew`, those files are then removed.
        """
        self.check()
        kept = [name for name in self.owned() if self._entries(name)]
        lines = [
            f"# What {self.command} wrote here: it replaces nothing else.",
            *dict.fromkeys([*kept, *self.names]),
        ]
        write_atomically(self.record, "\n".join(lines) + "\n")
        if anew:
            self.remove()

    def remove(self, names: Iterable[str] | None = None) -> None:
        """Removes recorded files, all by default, in the order of `owned`."""
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
        """Returns the names of existing files, directories with a slash."""
        return [
            f"{name}/" if name in _INSIDE else name
            for name in self.names
            if self._entries(name)
        ]

    def paths(self) -> dict[str, str]:
        """Returns the paths of the existing files, by name."""
        return {name: self.path(name) for name in self.names if self._entries(name)}

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


@contextlib.contextmanager
def in_output_dir(
    command: str,
    directory: str | None,
    names: Sequence[str],
    work: str,
    inputs: Iterable[str],
) -> Iterator[OwnedFiles | None]:
    """Checks and locks `output_dir`, and yields its files; None if it is not given.

    In messages, `work` says what the command does there, such as 'evaluation'.
    """
    if directory is None:
        yield None
        return
    files = OwnedFiles(command, "output_dir", directory, names)
    files.check(inputs)
    with lock.alone(directory, work):
        yield files


def ensemble_directories(config: Any) -> list[str]:
    """Returns the directories of the models of an ensemble."""
    numbers = range(1, config.num_models + 1)
    return [os.path.join(config.model_dir, "models", str(n)) for n in numbers]


def check_foreign(where: str, command: str, foreign: Sequence[str]) -> None:
    """Checks that a command would replace nothing `foreign`, which it did not write."""
    if foreign:
        raise ValueError(
            f"{where} has files that `{command}` did not write and would replace: "
            f"{', '.join(foreign)}. Name another directory, or move them away."
        )


def _is_record(path: str) -> bool:
    return os.path.basename(path).startswith(_RECORD)


def _remove_empty(directory: str) -> None:
    """Removes a directory, and those in it, where they are empty."""
    for path, _, _ in os.walk(directory, topdown=False):
        if not os.path.islink(path):
            # It is not empty, or another process has just removed it or written there.
            with contextlib.suppress(OSError):
                os.rmdir(path)
