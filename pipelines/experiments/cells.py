"""The cells of an experiment: one training per candidate, fold and seed."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pipelines.flags import path_flags
from tfr_ext.core import messages
from tfr_ext.core.settings import Settings
from tfr_ext.evaluation import runs
from tfr_ext.runs import outputs
from tfr_ext.settings.data_config import DataConfig

# The files with the output of a cell, and with the time that it took.
LOG = "log.txt"
SECONDS = "seconds.txt"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One training, or the evaluation of a run, of one fold.

    Attributes:
        config: the settings, all but `model_dir`.
        directory: where its files are; named by the flags and the data's checksum.
        is_apart: whether it sets something that a process can set only once.
    """

    candidate: Candidate
    fold: str
    seed: int
    config: Settings
    directory: str
    is_apart: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether its results exist."""
        return os.path.exists(os.path.join(self.directory, "metrics.json"))

    @property
    def is_settled(self) -> bool:
        """Whether it is finished, and what it no longer needs is removed."""
        path = os.path.join(self.directory, SECONDS)
        return self.is_finished and os.path.exists(path)

    def metrics(self) -> dict[str, Any]:
        """Returns the content of its `metrics.json`.

        Raises:
            ValueError: If the file is incomplete.
        """
        return outputs.read_metrics(os.path.join(self.directory, "metrics.json"))

    def seconds(self) -> float:
        """Returns how long it took in seconds; 0 if that is unknown."""
        try:
            with open(os.path.join(self.directory, SECONDS)) as file:
                return float(file.read())
        except (FileNotFoundError, ValueError):
            return 0.0

    def failure(self) -> str:
        """Returns the last error in its log."""
        try:
            with open(os.path.join(self.directory, LOG), errors="replace") as file:
                lines = [line.strip() for line in file if line.startswith("Error: ")]
        except FileNotFoundError:
            lines = []
        return lines[-1] if lines else "it was not trained"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a cell ended: after how many seconds, and whether it finished."""

    cell: Cell
    seconds: float
    ok: bool


@dataclasses.dataclass(frozen=True)
class Plan:
    """The candidates, folds and seeds, and all else that defines cells.

    Attributes:
        base: flags of all cells, by command; `{fold}` in them stands for the fold.
        threads: threads of a process, on which the last digits depend.
        keep_models: whether cells write large files, and keep them.
    """

    kinds: Mapping[str, Kind]
    cells_dir: str
    base: Mapping[str, Sequence[str]]
    candidates: tuple[Candidate, ...]
    folds: tuple[str, ...]
    seeds: tuple[int, ...]
    threads: int = 1
    keep_models: bool = False


def _nothing(config: Any) -> None:
    """Finds nothing wrong."""


def _no_digest(config: Any) -> str:
    return ""


def _no_flags(threads: int, keep_models: bool) -> Sequence[str]:
    return ()


def _no(config: Any) -> bool:
    return False


def _data(config: Any) -> DataConfig:
    return config.data


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of cells: those whose methods begin with the name of a command.

    The settings have `data`, a `DataConfig`.

    Attributes:
        settings: the class of its settings, from which its flags are made.
        work: does the work of a cell, given its settings, its directory and whether
            large files are kept; leaves there what training leaves, `metrics.json`
            last.
        check: checks settings that need no data, and raises ValueError.
        check_data: reads the data, and raises ValueError where it does not fit.
        digest: reads the files that the settings name besides the data, and returns the
            digest of their content; empty if there are none.
        defaults: returns flags that cells have unless others are given, from the number
            of threads and whether large files are kept.
        not_part: names of flags that say how to run, and do not make another cell.
        versions: returns the versions on which the results depend, besides those of
            this package and of TensorFlow.
        uses_seed: whether the results depend on the seed. Otherwise each fold has one
            cell, however many seeds there are.
        is_apart: returns whether settings need a process of their own.
    """

    command: str
    settings: type[Settings]
    work: Callable[[Any, str, bool], None]
    check: Callable[[Any], object] = _nothing
    check_data: Callable[[Any], object] = _nothing
    data: Callable[[Any], DataConfig] = _data
    digest: Callable[[Any], str] = _no_digest
    defaults: Callable[[int, bool], Sequence[str]] = _no_flags
    not_part: Sequence[str] = ()
    versions: Callable[[], Mapping[str, str]] = dict
    uses_seed: bool = True
    is_apart: Callable[[Any], bool] = _no


# {a|b|c}, without braces inside.
_CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")
# The placeholder for the fold, which any flag may contain.
FOLD = "{fold}"
# The command of a method that names none.
TRAIN = "train"
# Flags that must be the same for all methods, or a comparison has no meaning, and flags
# that each cell sets itself.
_COMMON = (
    *("binarize_labels", "data_seed", "dataset", "empty_list", "eval_list_size"),
    *(
        "gain",
        "label_column",
        "label_weights",
        "metrics",
        "model_dir",
        "num_threads",
        "overwrite",
        "query_column",
        "seed",
        "test_path",
    ),
    *("relevance_threshold",),
)


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One way to train a method; `{fold}` in its flags stands for the fold."""

    method: str
    flags: tuple[str, ...]
    command: str = TRAIN

    @property
    def text(self) -> str:
        """The flags as a shell takes them, after the command unless it is `train`."""
        first = [] if self.command == TRAIN else [self.command]
        return shlex.join([*first, *self.flags])

    def arguments(self, fold: str) -> list[str]:
        """Returns the flags for a fold."""
        return in_fold(self.flags, fold)


def in_fold(flags: Sequence[str], fold: str) -> list[str]:
    """Returns flags with the fold in place of `{fold}`."""
    return [flag.replace(FOLD, fold) for flag in flags]


def parse_methods(
    texts: Sequence[str], commands: Collection[str] = (TRAIN,)
) -> dict[str, list[Candidate]]:
    """Reads repeated `NAME: COMMAND FLAGS`, where `{a|b|c}` in a flag is a choice.

    Returns the candidates of each method: all combinations of its choices. Those of
    several texts with the same name add up. Without a command, it is `train`.

    Examples:
        >>> methods = parse_methods(['A: --x={1|2} --y=3', 'A: --x=4', 'B: --z'])
        >>> [candidate.text for candidate in methods['A']]
        ['--x=1 --y=3', '--x=2 --y=3', '--x=4']
    """
    methods: dict[str, list[Candidate]] = {}
    for text in texts:
        name, colon, rest = text.partition(":")
        name = messages.visible(name.strip(), runs.LONGEST_NAME)
        try:
            words = shlex.split(rest)
        except ValueError as error:
            raise ValueError(f"--method={text}: {error}.") from error
        has_command = bool(words) and words[0] in commands
        command, flags = words[0] if has_command else TRAIN, words[has_command:]
        if not colon or not name or any(not flag.startswith("--") for flag in flags):
            raise ValueError(
                "--method must have the form NAME: --FLAG=VALUE --FLAG=VALUE ..., with "
                f"one of the commands {', '.join(commands)} before the flags unless it "
                f"is {TRAIN}. Received: {text!r}."
            )
        for flag in flags:
            if flag.lstrip("-").partition("=")[0] in _COMMON:
                raise ValueError(
                    f"--method={name}: {flag} cannot differ between methods. Give it "
                    "to the experiment instead, if it is allowed there."
                )
        candidates = methods.setdefault(name, [])
        for combination in itertools.product(*map(_choices, flags)):
            try:
                path_flags.check_lists(combination, ("train_path", "valid_path"))
            except ValueError as error:
                raise ValueError(f"--method={name}: {error}") from None
            candidate = Candidate(name, combination, command)
            if candidate in candidates:
                raise ValueError(
                    f"--method={name} has this candidate twice: {candidate.text}"
                )
            candidates.append(candidate)
    return methods


def _choices(flag: str) -> list[str]:
    """Returns a flag with each combination of its choices."""
    pieces = _CHOICE.split(flag)  # text, choice, text, choice, ..., text
    options = [piece.split("|") if i % 2 else [piece] for i, piece in enumerate(pieces)]
    return ["".join(combination) for combination in itertools.product(*options)]
