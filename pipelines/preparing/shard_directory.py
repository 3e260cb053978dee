"""The directory of prepared shards: its plan, its contents and its completeness.

It may be on any file system that TensorFlow knows, where nothing can be locked or
renamed at once: so it is not a directory of `tfr_ext.runs`, though it says the same.
"""

from __future__ import annotations

import collections
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from pipelines.preparing import work_units
from pipelines.preparing.work_units import Written
from tfr_ext.core import json_files, messages
from tfr_ext.core.settings import given
from tfr_ext.data.elwc import manifest, writing
from tfr_ext.data.features import FeatureSpec
from tfr_ext.runs.owned_files import check_foreign
from tfr_ext.runs.run_directory import refusal
from tfr_ext.runs.run_file import changed
from tfr_ext.sources import data_splits
from tfr_ext.sources.source import SPLITS

_PLAN_FILE = "plan.json"
_ASIDE = "replacement"
# What is in the directory of work, besides the replacement.
_WORK_FILE = re.compile(
    r"plan\.json|error\.json|(survey|train|valid|test)-\d{5,}\.json|.*\.writing"
)
_KINDS = {"tfr_ext": (str,), "flags": (dict,), "files": (dict,)}
_SHARD = re.compile(r"(train|valid|test)-\d{5}-of-\d{5}\.tfrecord")


def begin(directory: str, plan: Mapping[str, Any], overwrite: bool) -> str | None:
    """Chooses where to write the shards of a plan, and records the plan there.

    The plan is everything that determines the shards, for JSON: the version 'tfr_ext',
    and 'flags' and 'files' by name.

    Returns the directory to write to, for `finish`: `directory`, or one inside it while
    it holds finished shards that will be replaced. None if the directory has all shards
    of the plan.
    """
    work = os.path.join(directory, work_units.WORK_DIRECTORY)
    path = os.path.join(work, _PLAN_FILE)
    finished = tf.io.gfile.exists(os.path.join(directory, manifest.FILE_NAME))
    if overwrite:
        _check_owned(directory)
        if finished:
            aside = os.path.join(work, _ASIDE)
            _remove(aside)
            _begin(aside, plan)
            return aside
        _clear_all(directory)
    if tf.io.gfile.exists(path):
        then = _read_plan(path)
        differences = _differences(then, plan)
        has_failed = tf.io.gfile.exists(os.path.join(work, work_units.ERROR_FILE))
        others = {**then, "files": plan["files"]}
        if differences and not finished and has_failed and others == plan:
            messages.say(
                "Files of the source changed after an error in the data, so all shards "
                "are written anew."
            )
            _clear_all(directory)
            _begin(directory, plan)
            return directory
        if differences:
            what = "has shards of something else"
            raise refusal("output_dir", directory, what, differences)
        if finished:
            messages.say(
                f"The shards in {directory} are finished: there is nothing to do."
            )
            _clear_parts(work)  # It may have been killed before it did so.
            return None
        messages.say(f"Going on with the shards in {directory}.")
        error = work_units.ERROR_FILE
        _clear(work, lambda name: name.endswith(".writing") or name == error)
        return directory
    if finished or any(map(_SHARD.fullmatch, _names(directory))):
        what = f"has shards, but no {_PLAN_FILE} that says what they are of."
        raise refusal("output_dir", directory, what)
    _clear(work, _WORK_FILE.fullmatch)  # An --overwrite may have been killed.
    _begin(directory, plan)
    return directory


def _begin(directory: str, plan: Mapping[str, Any]) -> None:
    work = os.path.join(directory, work_units.WORK_DIRECTORY)
    tf.io.gfile.makedirs(work)
    path = os.path.join(work, _PLAN_FILE)
    work_units.write_text(path, json.dumps(plan, indent=1))


def _read_plan(path: str) -> dict[str, Any]:
    """Reads a plan that `begin` wrote."""
    try:
        return json_files.read_object(path, "`pipelines.prepare`", _KINDS)
    except ValueError as error:
        raise ValueError(
            f"{error} Name another --output_dir, or remove this file and the shards."
        ) from error


def _owned(directory: str) -> set[str]:
    """Returns the names of shards, and of the manifest, that were written here."""
    try:
        content = manifest.load(directory)
    except ValueError:  # It is not one of ours.
        content = None
    if content is not None:
        shards = [s.name for split in content.splits.values() for s in split.shards]
        return {manifest.FILE_NAME, *filter(_SHARD.fullmatch, shards)}
    path = os.path.join(directory, work_units.WORK_DIRECTORY, _PLAN_FILE)
    if tf.io.gfile.exists(path):
        _read_plan(path)
        return {*filter(_SHARD.fullmatch, _names(directory))}
    return set()


def _check_owned(directory: str) -> None:
    """Checks that all shards and the manifest were written by this command."""
    there = {n for n in _names(directory) if _SHARD.fullmatch(n)}
    there |= {manifest.FILE_NAME} & set(_names(directory))
    foreign = sorted(there - _owned(directory))
    check_foreign(given("output_dir", directory), "prepare", foreign)


def check_source(directory: str, files: Iterable[str]) -> None:
    """Checks that neither the shards nor --overwrite would replace the source."""
    target = os.path.realpath(directory)
    for path in files:
        there, name = os.path.split(os.path.realpath(path))
        if there == target and _SHARD.fullmatch(name):
            raise ValueError(
                f"--output_dir={directory} also holds the source: {path}. Name another "
                "directory."
            )


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns a line for each flag and file that has changed."""
    old, new = (
        {
            "tfr_ext ": plan["tfr_ext"],
            **{f"--{name}=": value for name, value in plan["flags"].items()},
            **{
                f"{path}: [bytes, time of change] ": state
                for path, state in plan["files"].items()
            },
        }
        for plan in (then, now)
    )
    both = {
        name: [facts.get(name, "(not there)") for facts in (old, new)]
        for name in [*old, *new]
    }
    return [changed(f"{name}{x}", y) for name, (x, y) in both.items() if x != y]


def finish(directory: str, content: manifest.Manifest, written_in: str) -> None:
    """Writes the manifest, which marks the shards as finished, and tidies up.

    `written_in` is where the shards are, as `begin` returned it.
    """
    path = os.path.join(directory, manifest.FILE_NAME)
    work = os.path.join(directory, work_units.WORK_DIRECTORY)
    if written_in != directory:
        before = _owned(directory)
        tf.io.gfile.remove(path)  # First: without it nothing is finished.
        _clear(directory, before.__contains__)
        _clear(work, _WORK_FILE.fullmatch)
        _move(
            os.path.join(written_in, work_units.WORK_DIRECTORY, _PLAN_FILE),
            os.path.join(work, _PLAN_FILE),
        )
        for split in content.splits.values():
            for shard in split.shards:
                _move(
                    os.path.join(written_in, shard.name),
                    os.path.join(directory, shard.name),
                )
    # There, the next start removes what a process that was killed has left.
    work_units.write_text(path, content.as_json(), work)
    _clear_parts(work)


def tidy(directory: str, written_in: str) -> None:
    """Removes the directory of shards that were to replace others, if it exists."""
    if written_in != directory:
        _remove(written_in)


def _move(source: str, target: str) -> None:
    tf.io.gfile.rename(source, target, overwrite=True)


def _remove(directory: str) -> None:
    """Removes a directory in which `begin` began, if it exists."""
    if tf.io.gfile.isdir(directory):
        tf.io.gfile.rmtree(directory)


def _clear_parts(work: str) -> None:
    """Removes what finished shards need no more, which is all but the plan."""
    _clear(work, lambda name: name != _PLAN_FILE and _WORK_FILE.fullmatch(name))


def _clear_all(directory: str) -> None:
    """Removes all shards, and what `begin` and workers wrote beside them."""
    _clear(directory, _owned(directory).__contains__)
    _clear(os.path.join(directory, work_units.WORK_DIRECTORY), _WORK_FILE.fullmatch)


def _clear(directory: str, is_ours: Callable[[str], Any]) -> None:
    """Removes files of a directory."""
    for name in _names(directory):
        if is_ours(name):
            tf.io.gfile.remove(os.path.join(directory, name))


def _names(directory: str) -> list[str]:
    """Returns the contents of a directory, if it exists."""
    return tf.io.gfile.listdir(directory) if tf.io.gfile.isdir(directory) else []


def describe(found: Sequence[Written], source: Mapping[str, Any]) -> manifest.Manifest:
    """Returns the manifest of what units wrote, given in the order of the units."""
    records = _by_split(found)
    every = [record for split in records.values() for record in split]
    for record in every:
        widths = record.num_features, record.num_grades
        if widths != (every[0].num_features, every[0].num_grades):
            raise ValueError(
                f"{record.shard.name} has {widths[0]} features and {widths[1]} grades "
                f"of label distributions, and {every[0].shard.name} has "
                f"{every[0].num_features} and {every[0].num_grades}."
            )
        if record.features != every[0].features:
            raise ValueError(
                f"{record.shard.name} has the features {record.features}, and "
                f"{every[0].shard.name} has {every[0].features}."
            )
    features = every[0].features
    return manifest.Manifest(
        num_features=every[0].num_features,
        num_grades=every[0].num_grades,
        source=source,
        splits={
            split: manifest.Split(
                shards=[record.shard for record in parts],
                labels=_label_counts(parts),
                max_label=max(record.max_label for record in parts),
                max_list_size=max(record.max_list_size for record in parts),
            )
            for split, parts in records.items()
        },
        spec=None if features is None else FeatureSpec.from_json(features),
    )


def _by_split(found: Sequence[Written]) -> dict[str, list[writing.Record]]:
    return {
        split: [f.records[split] for f in found if split in f.records]
        for split in SPLITS
        if any(split in f.records for f in found)
    }


def _label_counts(records: Sequence[writing.Record]) -> dict[str, int]:
    """Sums counts of labels; empty if a shard has none, or if there are too many."""
    total: collections.Counter[str] = collections.Counter()
    for record in records:
        if not record.labels:
            return {}
        total.update(record.labels)
    if len(total) > writing.MAX_COUNTED_LABELS:
        return {}
    return dict(sorted(total.items(), key=lambda item: float(item[0])))


def summary(
    content: manifest.Manifest, found: Sequence[Written], directory: str
) -> str:
    """Returns the text that is printed at the end."""
    lines = []
    for split, records in _by_split(found).items():
        entry = content.splits[split]
        text = data_splits.describe_counts(
            split,
            queries=entry.queries,
            items=entry.items,
            num_features=content.num_features,
            list_sizes=(min(r.min_list_size for r in records), entry.max_list_size),
            label_counts={float(label): count for label, count in entry.labels.items()},
            empty=sum(record.empty_queries for record in records),
        )
        lines.append(f"{text}, shards: {len(records)}")
    size = sum(s.bytes for split in content.splits.values() for s in split.shards)
    shards = sum(len(split.shards) for split in content.splits.values())
    lines.append(
        f"{shards:,} shards, {size / 1e6:,.1f} MB. To train on them:\n"
        f"python -m pipelines.train --dataset=elwc --data_dir={directory} ..."
    )
    return "\n".join(lines)
