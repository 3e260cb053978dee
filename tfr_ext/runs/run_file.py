"""`flags.cfg`: the settings of a run, as a flag file that reproduces it.

The file names the command that reads it, and its flags, so that the command can also
repeat a run that was trained from Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from tfr_ext.core import setting_kinds
from tfr_ext.core.setting_kinds import KINDS, Parameters, Setting
from tfr_ext.core.settings import Place, Settings, build, given, places

# Settings that say how to run, not what to run: another value does not make another
# run.
NOT_PART_OF_A_RUN = (
    "checkpoint_epochs",
    "checkpoint_minutes",
    "draw_curves",
    "export_model",
    "gpus",
    "manual_dir",
    "memory_growth",
    "model_dir",
    "num_threads",
    "overwrite",
    "parallel_models",
    "verbose",
)
_START = "# Runs again by: python -m pipelines.{} --flagfile=THIS_FILE"
_IN_MEMORY = (
    "# Trained in Python on lists in memory: runs again by train(settings, splits)."
)
_DATA = "# The data that it read: SHA-256 "
_NOT_SET = "(not set)"
_Kind = TypeVar("_Kind", bound=Settings)


def lines(settings: Settings, without: Sequence[str] = ()) -> list[str]:
    """Returns the lines of a flag file, one or more for each setting with a value."""
    return [
        line
        for place in places(type(settings))
        if place.name not in without
        for line in lines_of(place, place.value(settings))
    ]


def of_training(config: Any, data: str, in_memory: bool = False) -> str:
    """Returns the text of the flag file of a run, with the digest of its data.

    The class of `config` has the `COMMAND` that trains as the settings say. With
    `in_memory`, the lists were in memory, rather than read as they say.
    """
    start = f"{_START.format(config.COMMAND)} --model_dir=ANOTHER_DIRECTORY"
    if in_memory:
        start = _IN_MEMORY
    return "\n".join([start, f"{_DATA}{data}", *lines(config)]) + "\n"


def of_command(command: str, config: Settings) -> str:
    """Returns the text of the flag file of a command that writes to `output_dir`."""
    start = _START.format(command)
    return "\n".join([start, *lines(config, without=["output_dir"])]) + "\n"


def is_of_training(text: str, command: str) -> bool:
    """Returns whether a text is one that `of_training` returned."""
    return text.startswith((_START.format(command), _IN_MEMORY))


def is_in_memory(text: str) -> bool:
    """Returns whether `of_training` returned a text for lists in memory."""
    return text.startswith(_IN_MEMORY)


def data_digest(text: str) -> str | None:
    """Returns the digest of the data in a flag file, None if it has none."""
    for line in text.split("\n"):
        if line.startswith(_DATA):
            return line[len(_DATA) :]
    return None


def differences(text: str, config: Settings) -> list[str]:
    """Returns a line for each setting whose value differs from that in a flag file.

    The line has both values. A setting that the file lacks, such as one that is newer
    than it, had its default.
    """
    then = _texts(text, type(config))
    found = []
    for place in places(type(config)):
        texts = then.pop(place.key, None)
        if place.name in NOT_PART_OF_A_RUN:
            continue
        old = place.default if texts is None else _parsed(place.about, texts)
        new = place.value(config)
        if old != new:
            found.append(changed(_formatted(place, old), _formatted(place, new)))
    return found + [
        changed(f"{name}={' '.join(texts)}", _NOT_SET) for name, texts in then.items()
    ]


def changed(then: Any, now: Any) -> str:
    """Returns a difference as messages show it."""
    return f"{then} then, {now} now"


def settings(text: str, kind: type[_Kind]) -> _Kind:
    """Returns the settings in a flag file; settings that it lacks have defaults.

    Examples:
        >>> from tfr_ext.training import TrainingConfig
        >>> config = TrainingConfig(num_epochs=3, model_dir="model")
        >>> settings(of_training(config, "0a1b"), TrainingConfig) == config
        True
    """
    then = _texts(text, kind)
    known = {place.key: place.about for place in places(kind)}
    unknown = sorted(then.keys() - known.keys())
    if unknown:
        raise ValueError(f"There is no setting {unknown[0]!r}.")
    return build(kind, {key: _parsed(known[key], texts) for key, texts in then.items()})


def _texts(text: str, kind: type[Settings]) -> dict[str, list[str]]:
    """Returns the values of each setting of a class in a flag file, as texts."""
    found: dict[str, list[str]] = {}
    booleans = {p.key for p in places(kind) if p.about.kind == "boolean"}
    for line in text.split("\n"):
        if line.startswith("--"):
            name, equals, value = line[2:].partition("=")
            if not equals and name.removeprefix("no") in booleans - {name}:
                name, value = name.removeprefix("no"), "false"
            elif not equals:
                value = "true"
            found.setdefault(name, []).append(value)
    return found


def lines_of(place: Place, value: Any) -> list[str]:
    """Returns the lines of a setting."""
    kind, key = KINDS[place.about.kind], place.key
    if value is None:
        return []
    if place.about.kind == "boolean":
        return [f"--{key}" if value else f"--no{key}"]
    found = kind.format(value)
    return [f"--{key}={text}" for text in (found if kind.repeats else [found])]


def _parsed(about: Setting, texts: list[str]) -> Any:
    """Returns the value that lines give a setting; a text if they have another form."""
    try:
        return setting_kinds.parse(about, texts)
    except ValueError:
        return texts[-1]


def _formatted(place: Place, value: Any) -> str:
    if value is None or value == Parameters():
        return _NOT_SET
    if place.about.kind == "repeated":
        return " ".join(given(place.name, one) for one in value) or _NOT_SET
    if isinstance(value, Parameters):
        return " ".join(given(f"{place.name}[{n!r}]", v) for n, v in value.items())
    return given(place.name, value)
