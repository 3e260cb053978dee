"""The methods of an experiment, and the candidates among which validation chooses."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shlex
from collections.abc import Collection, Sequence

from pipelines.flags import path_flags
from tfr_ext.core import telling
from tfr_ext.evaluation import runs

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
    """One way to train a method.

    Attributes:
        method: name of the method.
        flags: flags of the command; `{fold}` in them stands for the fold.
        command: the command.
    """

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

    Args:
        texts: such as `['SmoothI: --loss=smoothi_loss --loss_param=alpha={1|10}']`;
            without a command, it is `train`.
        commands: the commands that there are.

    Returns:
        The candidates of each method: all combinations of its choices. Those of several
        texts with the same name add up.

    Raises:
        ValueError: if a text is not of that form, or a candidate occurs twice.

    Examples:
        >>> methods = parse_methods(['A: --x={1|2} --y=3', 'A: --x=4', 'B: --z'])
        >>> [candidate.text for candidate in methods['A']]
        ['--x=1 --y=3', '--x=2 --y=3', '--x=4']
    """
    methods: dict[str, list[Candidate]] = {}
    for text in texts:
        name, colon, rest = text.partition(":")
        name = telling.visible(name.strip(), runs.LONGEST_NAME)
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
