"""The work of one worker: reading a piece of the data, and writing its shards.

Its results are written last, to a separate file beside the shards. This marks the unit
as finished, and nothing has to come back from a worker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from tfr_ext.core import json_files, messages
from tfr_ext.data.elwc import manifest, writing
from tfr_ext.data.letor.byte_ranges import Survey
from tfr_ext.sources.source import Piece

WORK_DIRECTORY = ".prepare"
ERROR_FILE = "error.json"
_Found = TypeVar("_Found")


@dataclasses.dataclass(frozen=True)
class Output:
    """A shard for the lists `chosen` of a piece, in increasing order; all if None."""

    split: str
    name: str
    chosen: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Unit:
    """The work on one piece.

    Attributes:
        name: a unique name in `directory`.
        num_features: width that the lists must have; None if any will do.
        has_doc_ids: whether document ids are written, if the piece has any.
        outputs: what is written; empty to survey the piece only.
    """

    name: str
    directory: str
    piece: Piece
    num_features: int | None
    has_doc_ids: bool = True
    outputs: tuple[Output, ...] = ()


@dataclasses.dataclass(frozen=True)
class Written:
    """What each shard of a unit holds, by its split, and the queries in order."""

    records: dict[str, writing.Record]
    query_ids: list[str]


def work(unit: Unit) -> None:
    """Does the work of a unit, unless another has failed.

    An error in the data is kept for `raise_error`: runners repeat what fails, and
    report the place in their own code, not that in the data.
    """
    error_path = _work_path(unit.directory, ERROR_FILE)
    if tf.io.gfile.exists(error_path):
        return
    try:
        found: Any = _write(unit) if unit.outputs else _survey(unit)
    except (ValueError, FileNotFoundError) as error:
        keep_error(unit.directory, error)
        return
    text = json.dumps(dataclasses.asdict(found))
    write_text(_work_path(unit.directory, f"{unit.name}.json"), text)


def keep_error(directory: str, error: Exception) -> None:
    """Records an error in the data, for `raise_error`."""
    path = _work_path(directory, ERROR_FILE)
    write_text(path, json.dumps({"error": str(error)}))


def raise_error(directory: str) -> None:
    """Raises the error of a unit, if one has failed."""
    path = _work_path(directory, ERROR_FILE)
    if tf.io.gfile.exists(path):
        raise ValueError(_read(path, lambda found: found["error"]))


def surveyed(unit: Unit) -> Survey | None:
    """Returns the survey of a unit, if it has finished."""
    path = _work_path(unit.directory, f"{unit.name}.json")
    return _read(path, lambda found: Survey(**found))


def written(unit: Unit) -> Written | None:
    """Returns the result of a unit, if it has finished and its shards are there."""
    path = _work_path(unit.directory, f"{unit.name}.json")
    found = _read(path, _as_written)
    if found is None:
        return None
    for record in found.records.values():
        shard = os.path.join(unit.directory, record.shard.name)
        if (
            not tf.io.gfile.exists(shard)
            or tf.io.gfile.stat(shard).length != record.shard.bytes
        ):
            return None
    return found


def _as_written(content: dict[str, Any]) -> Written:
    records = {
        split: writing.Record(**{**record, "shard": manifest.Shard(**record["shard"])})
        for split, record in content["records"].items()
    }
    return Written(records, content["query_ids"])


def write_text(path: str, text: str, work: str | None = None) -> None:
    """Writes a file elsewhere and renames it, so that it never appears incomplete."""
    directory, name = os.path.split(path)
    aside = os.path.join(work or directory, f"{name}.{uuid.uuid4().hex}.writing")
    with tf.io.gfile.GFile(aside, "w") as file:
        file.write(text)
    tf.io.gfile.rename(aside, path, overwrite=True)


def _write(unit: Unit) -> Written:
    query_ids: list[str] = []
    pieces = iter(unit.piece.read(unit.num_features))
    first_lists = next(pieces, None)
    if first_lists is None:
        messages.say(
            f"{unit.piece.locate('')} has no judged items, so it makes no shard."
        )
        return Written({}, [])
    aside = _work_path(unit.directory, "")
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(writing.ShardWriter(unit.directory, output.name, aside))
            for output in unit.outputs
        ]
        for lists in itertools.chain([first_lists], pieces):
            if unit.num_features not in (None, lists.num_features):
                raise ValueError(
                    f"{unit.piece.locate(lists.query_ids[0])} has lists of "
                    f"{lists.num_features} features, expected {unit.num_features}."
                )
            if not unit.has_doc_ids:
                lists = dataclasses.replace(lists, doc_ids=None)
            first = len(query_ids)
            query_ids += lists.query_ids
            for output, writer in zip(unit.outputs, writers):
                chosen = output.chosen
                if chosen is None:
                    writer.write(lists)
                    continue
                here = np.searchsorted(chosen, [first, len(query_ids)])
                writer.write(lists.select(chosen[slice(*here)] - first))
    records = {}
    for output, writer in zip(unit.outputs, writers):
        assert writer.record is not None  # All have ended well.
        records[output.split] = writer.record
        shard = writer.record.shard
        messages.say(
            f"{shard.name}: {shard.queries:,} queries, {shard.items:,} items, "
            f"{shard.bytes / 1e6:,.1f} MB",
        )
    return Written(records, query_ids)


def _survey(unit: Unit) -> Survey:
    return unit.piece.survey(unit.num_features)


def _work_path(directory: str, name: str) -> str:
    return os.path.join(directory, WORK_DIRECTORY, name)


def _read(path: str, build: Callable[[dict[str, Any]], _Found]) -> _Found | None:
    """Returns an object built from a file of this module; None if it is missing."""
    if not tf.io.gfile.exists(path):
        return None
    content = json_files.read_object(path, "`pipelines.prepare`")
    try:
        return build(content)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not a file that `pipelines.prepare` writes ({error!r}). Start "
            "again with --overwrite."
        ) from error
