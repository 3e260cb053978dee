"""The interface of a kind of cells: what one command does for one method of many."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfr_ext.core.settings import Settings
from tfr_ext.training.data_config import DataConfig


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
        command: the command, such as 'train'.
        settings: the class of its settings, from which its flags are made.
        work: does the work of a cell, given its settings, its directory and whether
            large files are kept; leaves there what training leaves, `metrics.json`
            last.
        check: checks settings that need no data, and raises ValueError.
        check_data: reads the data, and raises ValueError where it does not fit.
        data: returns the settings with which it reads the data.
        digest: reads the files that the settings name besides the data, and returns the
            digest of their content; empty if there are none.
        defaults: returns flags that cells have unless others are given, from the number
            of threads and whether large files are kept.
        not_part: names of flags that say how to run, and do not make another cell.
        versions: returns the versions on which the results depend, besides those of
            this package and of TensorFlow.
        uses_seed: whether the results depend on the seed. Otherwise each fold has one
            cell, however many seeds there are.
        is_apart: tells whether settings need a process of their own.
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
